"""Several programs on one machine: what is shared, what stays each one's own, and what it costs."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import accelsim
from accelsim.engine import ENGINES, simulate
from accelsim.errors import InputError, UnknownName
from accelsim.formats.timeline_npz import load_timeline, save_timeline
from accelsim.program.check import check_program, same_program
from accelsim.program.share import RULES, share, tenant_alone
from accelsim.program.tables import Program, ResourceKind
from tests.smoke.command import in_this_process
from tests.strategies.programs import Dice, Draft, legal_program


def loads(sizes: list[int], cycles: int, rate: int = 2, latency: int = 0) -> Program:
    """Loads one after another, each followed by a tile, on a link called ``dram``."""
    draft = Draft()
    core, link = draft.queue(draft.core()), draft.queue(draft.link(rate, latency=latency))
    for size in sizes:
        draft.tile(core, cycles, draft.load(link, size))
    program = draft.program()
    return dataclasses.replace(program, resource_names=("core", "dram"), facts={"workload": f"net{len(sizes)}"})


@pytest.mark.parametrize("engine", ENGINES)
def test_two_programs_by_hand(engine: str) -> None:
    # Alone: 12 bytes take 6 cycles, the tile 4: 10; and 2 x 4 bytes, 4 cycles, the tiles behind: 2+1, 4+1 = 5.
    # Together, in grants of 4 bytes, 2 cycles each: A 0-2, B 2-4, A 4-6, B 6-8, A 8-10; tiles A 10-14, B 4-5 and 8-9.
    timeline = simulate([loads([12], 4), loads([4, 4], 1)], engine, share="dram", grant_bytes=4)
    found = accelsim.sharing(timeline)
    assert [tenant.name for tenant in found.tenants] == ["net1", "net2"]
    assert [(t.latency_cycles, t.alone_cycles) for t in found.tenants] == [(14, 10), (9, 5)]
    assert [tenant.slowdown for tenant in found.tenants] == [1.4, 1.8]
    assert [tenant.link_wait_cycles for tenant in found.tenants] == [{"net2": 4}, {"net1": 4}]
    assert [tenant.moved_bytes for tenant in found.tenants] == [12, 8]
    speeds = 1 / 1.4 + 1 / 1.8
    assert found.weighted_speedup == pytest.approx(speeds)
    assert found.unfairness == pytest.approx(1.8 / 1.4)
    assert found.fairness == pytest.approx(speeds**2 / (2 * (1 / 1.4**2 + 1 / 1.8**2)))


def test_the_first_program_has_priority() -> None:
    first, second = loads([8, 8], 0), loads([4], 0)
    timeline = simulate([first, second], share="dram", arbitration="priority", grant_bytes=2)
    assert [tenant.latency_cycles for tenant in accelsim.sharing(timeline).tenants] == [8, 10]


def test_equal_programs_are_slowed_down_alike() -> None:
    timeline = simulate([loads([40, 40], 3)] * 4, share="dram", grant_bytes=2)
    found = accelsim.sharing(timeline)
    assert [tenant.name for tenant in found.tenants] == ["net2", "net2#2", "net2#3", "net2#4"]
    ends = [tenant.latency_cycles for tenant in found.tenants]
    assert max(ends) - min(ends) <= 3  # one grant of each of the others
    assert found.fairness == pytest.approx(1, abs=1e-3)


def test_what_no_one_wants_costs_nothing() -> None:
    found = accelsim.sharing(simulate([loads([30], 2), loads([], 0)], share="dram"))
    assert [tenant.slowdown for tenant in found.tenants] == [1, 1]
    assert found.fairness == 1


def with_a_common_link(program: Program) -> Program:
    """Its first link is called ``dram``, and all links are alike."""
    links = np.flatnonzero(program.resources.kind == ResourceKind.LINK)
    link = int(links[0])
    columns = {"bytes_numerator": 3, "bytes_denominator": 2, "latency_cycles": 2}
    changed = {name: getattr(program.resources, name).copy() for name in columns}
    for name, value in columns.items():
        changed[name][links] = value
    names = tuple("dram" if row == link else name for row, name in enumerate(program.resource_names))
    return dataclasses.replace(program, resources=program.resources._replace(**changed), resource_names=names)


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("rule", RULES)
def test_engines_agree_on_shared_machines_and_nothing_is_lost(rule: str, seed: int) -> None:
    programs = [with_a_common_link(legal_program(Dice(100 * seed + number), 12)) for number in range(2 + seed % 2)]
    weights = [1 + number for number in range(len(programs))] if rule == "weighted" else None
    shared = share(programs, "dram", arbitration=rule, weights=weights, grant_bytes=seed % 4)
    check_program(shared)
    compiled, reference = (simulate(shared, engine) for engine in ENGINES)
    assert all(map(np.array_equal, compiled.events, reference.events))
    moved = np.zeros(shared.size, dtype=np.int64)
    np.add.at(moved, compiled.events.activity, compiled.events.bytes)
    assert moved.tolist() == [size for program in programs for size in program.activities.bytes.tolist()]
    for tenant, program in enumerate(programs):
        alone = tenant_alone(shared, tenant)
        check_program(alone)
        assert alone.activities.bytes.tolist() == program.activities.bytes.tolist()
        assert alone.dependencies.before.tolist() == program.dependencies.before.tolist()
        assert alone.claims.taken_by[alone.claims.taken_by >= 0].tolist() == [
            row for row in program.claims.taken_by.tolist() if row >= 0
        ]


@pytest.fixture(scope="module")
def networks() -> list[Program]:
    machine = accelsim.load_accelerator("soma_edge")
    found = []
    for name in ("soma.gpt2_small_decode", "soma.gpt2_small_decode", "soma.randwire_small"):
        workload = accelsim.load_workload(name)
        found.append(accelsim.lower(workload, machine, accelsim.Layerwise().search(workload, machine).schedule))
    return found


def test_networks_alone_take_what_they_take_without_sharing(networks, tmp_path) -> None:
    timeline = simulate(networks, share="dram")
    found = accelsim.sharing(timeline)
    assert [t.alone_cycles for t in found.tenants] == [simulate(program).latency_cycles for program in networks]
    assert all(tenant.slowdown >= 1 for tenant in found.tenants)
    assert timeline.program.facts["macs"] == sum(program.facts["macs"] for program in networks)
    assert timeline.program.facts["hardware"] == "3 x soma_edge"
    assert timeline.program.energy_pj.sum() == pytest.approx(sum(program.energy_pj.sum() for program in networks))
    save_timeline(timeline, tmp_path / "timeline.npz")
    again = load_timeline(tmp_path / "timeline.npz")
    assert same_program(again.program, timeline.program)
    assert accelsim.sharing(again).to_dict() == found.to_dict()
    assert "Slowdown against running alone" in str(found)
    assert "soma.randwire_small" in found._repr_html_()


def test_a_shared_machine_can_be_rebound(networks) -> None:
    from accelsim.program.rebind import rebind

    faster = accelsim.load_accelerator("soma_edge", ["dram.bandwidth=32 GB/s"])
    rebound = rebind(share(networks, "dram"), faster)
    again = [rebind(program, faster) for program in networks]
    events = simulate(rebound).events
    assert all(map(np.array_equal, events, simulate(again, share="dram").events))
    assert rebound.facts["hardware"] == "3 x soma_edge"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"programs": [], "links": "dram"}, InputError, "0 programs share nothing"),
        ({"programs": [loads([1], 1)], "links": "dram"}, InputError, "1 programs share nothing"),
        ({"links": "dran"}, UnknownName, r"'net1' has no link 'dran' \(did you mean 'dram'\?\); it has dram"),
        ({"links": "core"}, UnknownName, "'net1' has no link 'core'"),
        ({"links": "dram", "arbitration": "fiar"}, UnknownName, "did you mean 'fair'"),
        ({"links": "dram", "weights": [1, 2]}, InputError, "fair knows no weights"),
        ({"links": "dram", "arbitration": "weighted"}, InputError, "weighted needs weights"),
        ({"links": "dram", "arbitration": "weighted", "weights": [1]}, InputError, r"weights \[1\] for 2 programs"),
        ({"programs": [loads([1], 1), loads([1], 1, 3)], "links": "dram"}, InputError, "bytes_numerator would be 2 of"),
    ],
)
def test_what_cannot_be_shared_is_refused(arguments, error, message) -> None:
    with pytest.raises(error, match=message):
        share(**({"programs": [loads([1], 1), loads([1, 1], 1)]} | arguments))


def test_simulate_says_what_is_missing() -> None:
    with pytest.raises(InputError, match="share='dram'"):
        simulate([loads([1], 1), loads([1], 1)])
    with pytest.raises(InputError, match="give a list of programs"):
        simulate(loads([1], 1), share="dram")
    with pytest.raises(InputError, match="nobody shares this machine"):
        accelsim.sharing(simulate(loads([1], 1)))


def test_command_line(tmp_path) -> None:
    two = ["run", "soma.gpt2_small_decode", "soma.gpt2_small_decode", "--hardware", "soma_edge", "--share", "dram"]
    found = json.loads(in_this_process(*two, "--json", "--out", "out", folder=tmp_path).stdout)
    assert [tenant["name"] for tenant in found["tenants"]] == ["soma.gpt2_small_decode", "soma.gpt2_small_decode#2"]
    assert found["latency_cycles"] == max(tenant["latency_cycles"] for tenant in found["tenants"])
    assert accelsim.sharing(load_timeline(tmp_path / "out" / "timeline.npz")).fairness == found["fairness"]
    for wrong, message in (
        (two[:5], "add --share dram"),
        ([*two, "--arbitration", "weighted", "--weights", "3,x"], "expected whole numbers"),
        ([*two, "--schedule", "one.json"], "--schedule is the schedule of one workload"),
        ([*two[:2], *two[3:]], "give at least two"),
        ([*two, "--grant", "3"], "--grant: '3' has no unit"),
    ):
        assert message in in_this_process(*wrong, folder=tmp_path, status=2).stderr


def test_a_memory_with_banks_has_the_tensors_of_all() -> None:
    programs = []
    for name in ("soma.gpt2_small_decode", "soma.randwire_small"):
        machine = accelsim.load_accelerator("soma_edge", ["dram.fidelity=banks"])
        workload = accelsim.load_workload(name)
        programs.append(accelsim.lower(workload, machine, accelsim.Layerwise().search(workload, machine).schedule))
    shared = share(programs, "dram")
    assert shared.memory is not None and shared.resource_names[shared.memory.link] == "dram"
    ends = []
    for tenant, program in enumerate(programs):
        mine = (shared.queues.tenant[shared.activities.queue] == tenant) & (shared.activities.bytes > 0)
        address = shared.memory.placement.address[mine]
        ends.append((int(address.min()), int((address + shared.activities.bytes[mine]).max())))
        assert mine.sum() == (program.activities.bytes > 0).sum()
    assert ends[0][1] <= ends[1][0]  # the second one's tensors lie behind the first one's
    check_program(tenant_alone(shared, 1))
    plain = accelsim.load_accelerator("soma_edge")
    workload = accelsim.load_workload("soma.randwire_small")
    other = accelsim.lower(workload, plain, accelsim.Layerwise().search(workload, plain).schedule)
    with pytest.raises(InputError, match="a memory with banks serves one link, which all must share"):
        share([programs[0], other], "dram")
