"""Replays: the same machine gives the same events; another machine what lowering for it would have given."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import accelsim
from accelsim.analysis.energy import energy_by_part_pj
from accelsim.engine import simulate
from accelsim.engine.replay import recorded_accelerator, replay
from accelsim.errors import BufferOverflow, Deadlock, InputError, MappingError, TemplateError, UnknownName
from accelsim.formats import load_timeline, save_timeline
from accelsim.library import (
    data_folder,
    list_accelerators,
    list_workloads,
    load_accelerator,
    load_workload,
)
from accelsim.program.check import same_program
from accelsim.program.lower import lower
from accelsim.program.rebind import rebind, unpriced_tiles
from accelsim.search import SCHEDULERS, Layerwise, Objective, Scheduler, Watch
from accelsim.timeline.compare import identical
from accelsim.timeline.provenance import with_provenance
from accelsim.timeline.table import Cause, Timeline
from accelsim.workload.cut import cut_to_fit
from tests.smoke.command import in_this_process
from tests.strategies.programs import Draft
from tests.timelines import worked_example, worked_program
from tests.unit.test_compare import FAST_EVENTS

NETWORKS = sorted(name for name in list_workloads() if name.startswith("soma."))
SMALL = "soma.gpt2_small_decode"
CHANGES = [
    ["dram.bandwidth=32 GB/s"],
    ["dram.bandwidth=5 GB/s", "dram.latency=80 ns"],
    ["dram.arbitration=round_robin", "dram.grant=1 KiB"],
    ["dram.directions=separate", "dram.outstanding=2"],
    ["dram.directions=separate", "dram.arbitration=weighted", "dram.weights.load_weight=3"],
    ["dram.arbitration=priority", "dram.ranks.store_output=2", "dram.outstanding=4", "dram.latency=50 ns"],
    ["buffers.global.capacity=16 MiB"],  # whose energy an access grows with it
    ["clock=700 MHz"],
    ["pe_array.rows=2", "pe_array.columns=8"],
    ["vector_unit.throughput=96 op/cycle", "static_power=250 mW"],
    ["dram.read_energy=4 pJ/bit", "pe_array.mac_energy=0.1 pJ"],
]


def record(workload: str | Path, hardware: str = "soma_edge", scheduler: Scheduler | None = None) -> Timeline:
    machine = load_accelerator(hardware)
    network = cut_to_fit(load_workload(workload), machine.buffers["global"].capacity_bytes)
    found = (scheduler or Layerwise()).search(network, machine, Watch(1.0))
    program = lower(network, machine, found.schedule)
    return with_provenance(simulate(program), scheduler=found.scheduler, hardware_template=machine.source)


@pytest.fixture(scope="module")
def recorded() -> Timeline:
    return record(SMALL)


def machine(*overrides: str) -> accelsim.Accelerator:
    return load_accelerator("soma_edge", overrides)


def check_replay(run: Timeline, folder: Path) -> None:
    """From its file it gives the same events; computed anew, from what the trace holds, it does so too."""
    save_timeline(run, folder / "recorded.npz")
    loaded = load_timeline(folder / "recorded.npz")
    again = replay(loaded)
    assert identical(run, again)
    save_timeline(again, folder / "again.npz")
    assert (folder / "again.npz").read_bytes() == (folder / "recorded.npz").read_bytes()
    twin = recorded_accelerator(loaded, ["name=twin"])  # the same numbers, but another machine
    anew = simulate(rebind(loaded.program, twin))
    assert all(map(np.array_equal, anew.events, run.events))
    assert energy_by_part_pj(anew) == energy_by_part_pj(run)


@pytest.mark.parametrize("network", NETWORKS)
def test_every_network_can_be_replayed(network: str, tmp_path: Path) -> None:
    hardware = "soma_cloud" if "xl" in network else "soma_edge"
    check_replay(record(network, hardware), tmp_path)


@pytest.mark.parametrize("hardware", list_accelerators())
def test_runs_of_every_template_can_be_replayed(hardware: str, tmp_path: Path) -> None:
    check_replay(record("resnet50", hardware), tmp_path)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_runs_of_every_scheduler_can_be_replayed(scheduler: str, tmp_path: Path) -> None:
    options = SCHEDULERS[scheduler].from_options(Objective(1, 1), 0)
    (tmp_path / "tiny.csv").write_text("name, M, N, K,\na, 2, 4, 4,\nb, 2, 4, 4,\n")
    network = tmp_path / "tiny.csv" if scheduler == "exhaustive" else SMALL  # it takes few operators and tiles
    check_replay(record(network, "soma_edge", options), tmp_path)


@pytest.mark.parametrize("overrides", CHANGES, ids=lambda overrides: overrides[0])
def test_another_machine_gives_what_lowering_for_it_gives(overrides: list[str]) -> None:
    network, old, new = load_workload(SMALL), machine(), machine(*overrides)
    schedule = Layerwise().search(network, old).schedule
    before, wanted = lower(network, old, schedule), lower(network, new, schedule)
    assert not same_program(before, wanted)
    for known in (old, None):
        assert same_program(rebind(before, new, known), wanted)
    assert same_program(rebind(wanted, old, new), before)  # and back again


def test_another_template_gives_what_lowering_for_it_gives() -> None:
    network, old, new = load_workload("soma.resnet50"), machine(), load_accelerator("soma_cloud")
    schedule = Layerwise().search(network, old).schedule
    run = with_provenance(simulate(lower(network, old, schedule)), hardware_template=old.source)
    again = replay(run, new)
    assert identical(again, simulate(lower(network, new, schedule)))
    assert again.provenance["hardware_template"] == new.source
    assert again.provenance["hardware_digest"] == new.digest


def test_twice_the_bandwidth_worked_out_by_hand() -> None:
    """The worked example moves 32 bytes a cycle instead of 16; B's 70 vector operations take its 20 cycles."""
    new = machine("dram.bandwidth=32 B/cycle", "vector_unit.throughput=3.5 op/cycle")
    again = replay(worked_example(), new)
    events = again.events
    columns = (events.start_cycles, events.end_cycles, events.ready_cycles, events.activity, events.cause)
    found = [tuple(row) for row in zip(*(c.tolist() for c in columns), events.cause_activity.tolist(), strict=True)]
    assert found == FAST_EVENTS
    # 3 array tiles stay as they were: their shapes are not known. 140 vector operations and 2080 bytes are priced anew.
    energy = energy_by_part_pj(again)
    assert energy["mac"] == 1.5 + 1.5 + 2.0
    assert energy["vector"] == pytest.approx(140 * 0.0873)
    assert energy["dram"] == pytest.approx(2080 * 8 * 10.5)
    assert energy["static"] == 0


def test_vector_tiles_follow_the_vector_unit() -> None:
    again = rebind(worked_program(), machine("vector_unit.throughput=4 op/cycle"))
    assert again.activities.cycles[:5].tolist() == [30, 18, 30, 18, 40]  # ceil(70 / 4)


def test_tiles_without_a_shape_keep_their_cycles_and_are_counted(tmp_path: Path) -> None:
    assert unpriced_tiles(worked_program()) == 3
    save_timeline(worked_example(), tmp_path / "a.npz")
    run = in_this_process("replay", "a.npz", "--hardware", "soma_cloud", "--json", folder=tmp_path)
    assert "neither shape nor operations of 3 tiles" in run.stderr
    assert json.loads(run.stdout)["hardware"] == "soma_cloud"


def test_the_same_array_leaves_cycles_alone(recorded: Timeline) -> None:
    """A measured trace: its cycles are those of a real machine, not those of the model."""
    tiles = recorded.program.activities.cycles * 3
    measured = dataclasses.replace(
        recorded.program, activities=recorded.program.activities._replace(cycles=tiles), facts={"hardware": "real"}
    )
    faster_link = machine("dram.bandwidth=32 GB/s")
    assert np.array_equal(rebind(measured, faster_link, machine()).activities.cycles, tiles)
    assert not np.array_equal(rebind(measured, faster_link).activities.cycles, tiles)


def two_tiles(*keepers: int) -> Timeline:
    """Two cores with a tile of 10 cycles and 60 bytes each; the first one's bytes are kept until ``keepers`` end."""
    draft = Draft()
    first, second = draft.queue(draft.core()), draft.queue(draft.core())
    draft.tile(first, 10)
    draft.tile(second, 10)
    buffer = draft.buffer(128)
    draft.claim(buffer, 60, 0, *keepers)
    draft.claim(buffer, 60, 1, 1)
    return simulate(dataclasses.replace(draft.program(), buffer_names=("global",)))


def test_claims_block_where_they_do_not_fit() -> None:
    run = two_tiles(0)
    assert run.latency_cycles == 10
    again = replay(run, machine("buffers.global.capacity=100 B"))
    assert again.events.start_cycles.tolist() == [0, 10]
    assert again.events.cause.tolist() == [Cause.NONE, Cause.BUFFER]


def test_a_standstill_says_who_holds_what() -> None:
    with pytest.raises(Deadlock, match=r"(?s)op1.*global"):
        replay(two_tiles(0, 1), machine("buffers.global.capacity=100 B"))
    with pytest.raises(BufferOverflow, match="60 bytes of buffer 'global'"):
        replay(two_tiles(0), machine("buffers.global.capacity=50 B"))


def test_links_that_the_template_does_not_know_stay() -> None:
    draft = Draft()
    for _ in range(2):
        draft.load(draft.queue(draft.link(4)), 40)
    unnamed = draft.program()
    assert np.array_equal(rebind(unnamed, machine()).resources.bytes_numerator, [4, 4])
    named = dataclasses.replace(unnamed, resource_names=("noc", "dram"))
    assert np.array_equal(rebind(named, machine()).resources.bytes_numerator, [4, 16])


def test_a_shape_that_the_array_cannot_hold(recorded: Timeline) -> None:
    with pytest.raises((MappingError, TemplateError)):
        replay(recorded, machine("buffers.input.capacity=1 B"))


def test_both_engines_replay_alike(recorded: Timeline) -> None:
    new = machine("dram.latency=40 ns")
    assert identical(replay(recorded, new), replay(recorded, new, engine="reference"))


def test_single_tile_programs_get_the_room_that_they_need() -> None:
    network, old = load_workload("soma.resnet50"), load_accelerator("scalesim_32x32", ["pe_array.counting=scalesim"])
    schedule = Layerwise().search(network, old).schedule
    run = with_provenance(simulate(lower(network, old, schedule)), hardware_template=old.source)
    assert run.program.facts["over_capacity_bytes"] > 0
    for overrides in (["dram.bandwidth=20 GB/s"], ["buffers.global.capacity=1 MiB"]):
        new = recorded_accelerator(run, overrides)
        assert same_program(rebind(run.program, new), lower(network, new, schedule))


def test_a_trace_that_does_not_name_its_machine() -> None:
    with pytest.raises(InputError, match="hardware_template"):
        recorded_accelerator(worked_example())
    with pytest.raises(TemplateError, match="recorded template"):
        recorded_accelerator(worked_example(hardware_template="name: [broken"))
    with pytest.raises(UnknownName, match=r"dram\.bandwidth"):
        source = (data_folder("hw_templates") / "accelerators" / "soma_edge.yaml").read_text(encoding="utf-8")
        recorded_accelerator(worked_example(hardware_template=source), ["dram.bandwith=32 GB/s"])
    assert identical(replay(worked_example()), worked_example())


def test_the_command_records_and_replays(tmp_path: Path) -> None:
    def json_of(*arguments: str) -> dict[str, object]:
        found = json.loads(in_this_process(*arguments, "--json", folder=tmp_path).stdout)
        found.pop("simulate_seconds")
        found.pop("search_seconds")
        assert isinstance(found, dict)
        return found

    hardware = ("--hardware", "soma_edge")
    first = json_of("run", SMALL, *hardware, "--set", "dram.bandwidth=8 GB/s", "--out", "a")
    assert json_of("replay", "a/timeline.npz", "--out", "b") == first
    assert (tmp_path / "a/timeline.npz").read_bytes() == (tmp_path / "b/timeline.npz").read_bytes()
    assert json.loads((tmp_path / "b/summary.json").read_text())["latency_cycles"] == first["latency_cycles"]
    # its own machine, overrides included, is where further overrides begin
    double = ("--set", "dram.bandwidth=16 GB/s")
    schedule = ("--schedule", "a/schedule.json")
    scratch = json_of("run", SMALL, *hardware, *double, *schedule)
    replayed = json_of("replay", "a/timeline.npz", *double)
    assert {**replayed, "scheduler": None} == scratch
    assert {**json_of("replay", "a/timeline.npz", *hardware), "scheduler": None} == scratch
    (tmp_path / "file").write_text("")
    for mistake in (["missing.npz"], ["a/schedule.json"], ["a/timeline.npz", "--out", "file"]):
        in_this_process("replay", *mistake, folder=tmp_path, status=2)
