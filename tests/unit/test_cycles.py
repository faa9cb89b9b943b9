"""A run cycle by cycle: what each cycle of real tiles went to."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import accelsim
from accelsim.engine import simulate
from accelsim.errors import InputError, UnknownName
from accelsim.timeline.cycles import CYCLE_CAUSES
from accelsim.timeline.stalls import cycles_by_cause
from accelsim.workload.cut import cut_to_fit
from tests.smoke.command import in_this_process
from tests.strategies.programs import Draft

FLOWS = ("output_stationary", "weight_stationary", "input_stationary")


def run(flow: str, *overrides: str, workload: str = "soma.randwire_small") -> accelsim.Timeline:
    fields = [f"pe_array.dataflow={flow}", "pe_array.counting=causal", "buffers.global.capacity=1 MiB", *overrides]
    machine = accelsim.load_accelerator("scalesim_32x32", fields)
    network = accelsim.load_workload(workload)
    program = accelsim.lower(network, machine, accelsim.Layerwise().search(network, machine).schedule)
    return simulate(program, detail="cycle", accelerator=machine)


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize(
    "overrides",
    [(), ("buffers.global.read_bandwidth=24 B/cycle",), ("pe_array.fold_overlap=true",), ("pe_array.arrays=3",)],
)
def test_every_cycle_has_its_cause_and_every_multiplication_its_cycle(flow: str, overrides: tuple[str, ...]) -> None:
    timeline = run(flow, *overrides)
    found, program = timeline.cycles, timeline.program
    assert found is not None
    assert len(found.active_elements) == len(found.cause) == timeline.latency_cycles
    on_array = program.activities.shape >= 0
    assert int(found.active_elements.sum(dtype=np.int64)) == int(program.activities.macs[on_array].sum())
    assert found.active_elements.max() <= 32 * 32 * (3 if overrides == ("pe_array.arrays=3",) else 1)
    by_cause = found.cycles_by_cause()
    assert sum(by_cause.values()) == timeline.latency_cycles
    causes = cycles_by_cause(timeline)
    running = ("multiply", "fill_drain", "wait_port", "vector", "compute")
    assert sum(by_cause.get(name, 0) for name in running) == causes["compute"]
    for name in ("wait_load", "wait_store", "wait_buffer", "drain"):
        assert by_cause.get(name, 0) == causes[name]
    assert ("wait_port" in by_cause) == bool(overrides and "read_bandwidth" in overrides[0])
    multiplies = found.cause == CYCLE_CAUSES.index("multiply")
    assert (multiplies == (found.active_elements > 0)).all()


def test_a_tile_by_hand() -> None:
    # 3 positions, 2 filters, 4 terms on 2 x 2, held outputs: two folds of 2 x 2 + 2 + 4 - 2 = 8 cycles, the second with
    # one row. Elements (i, j) work in cycles i + j up to i + j + 3: 1, 3, 4, 4, 3, 1, then two rows leave; and 1, 2, 2,
    # 2, 1, 0, as on a full fold.
    machine = accelsim.load_accelerator(
        "scalesim_32x32", ["pe_array.counting=causal", "pe_array.rows=2", "pe_array.columns=2"]
    )
    from accelsim.hardware.dataflow.dataflow import TileColumns

    tile = TileColumns(*(np.array([value]) for value in (1, 4, 2, 2, 3, 1, 1, 1, 1, 1, 1, 0)))
    assert machine.dataflow.activity(tile).tolist() == [1, 3, 4, 4, 3, 1, 0, 0, 1, 2, 2, 2, 1, 0, 0, 0]


@pytest.mark.parametrize(("hardware", "padded"), [("eyeriss", True), ("nvdla_small", False), ("tpu_v3", False)])
def test_other_arrays_and_several(hardware: str, padded: bool) -> None:
    """A row-stationary array multiplies zeros where the positions of a product do not fill it."""
    machine = accelsim.load_accelerator(hardware)
    network = cut_to_fit(accelsim.load_workload("gpt2_small_prefill", layers=1, sequence_length=5), 1 << 16)
    program = accelsim.lower(network, machine, accelsim.Layerwise().search(network, machine).schedule)
    timeline = simulate(program, detail="cycle", accelerator=machine)
    assert timeline.cycles is not None
    active = int(timeline.cycles.active_elements.sum(dtype=np.int64))
    macs = int(program.activities.macs[program.activities.shape >= 0].sum())
    assert active == macs or (padded and macs < active)
    assert timeline.cycles.active_elements.max() <= machine.macs_per_cycle
    assert sum(timeline.cycles.cycles_by_cause().values()) == timeline.latency_cycles


def test_both_engines_have_the_same_cycles() -> None:
    timeline = run("weight_stationary")
    machine = accelsim.load_accelerator(
        "scalesim_32x32",
        ["pe_array.dataflow=weight_stationary", "pe_array.counting=causal", "buffers.global.capacity=1 MiB"],
    )
    other = simulate(timeline.program, "reference", detail="cycle", accelerator=machine)
    assert timeline.cycles is not None and other.cycles is not None
    assert all(map(np.array_equal, timeline.cycles, other.cycles))


def test_what_cannot_be_clocked_is_refused() -> None:
    draft = Draft()
    draft.tile(draft.queue(draft.core()), 3)
    program, edge = draft.program(), accelsim.load_accelerator("soma_edge")
    assert simulate(program, detail="cycle", accelerator=edge).cycles.cycles_by_cause() == {"compute": 3}
    with pytest.raises(UnknownName, match="no detail 'cycles'; there are 'tile' and 'cycle'"):
        simulate(program, detail="cycles")
    with pytest.raises(InputError, match="give it, accelerator="):
        simulate(program, detail="cycle")
    network = accelsim.load_workload("soma.gpt2_small_decode")
    lowered = accelsim.lower(network, edge, accelsim.Layerwise().search(network, edge).schedule)
    with pytest.raises(InputError, match="arrays of SpatialCores are not clocked cycle by cycle"):
        simulate(lowered, detail="cycle", accelerator=edge)
    smaller = accelsim.load_accelerator("scalesim_32x32", ["pe_array.counting=causal", "pe_array.rows=16"])
    with pytest.raises(InputError, match="it ran on another machine"):
        simulate(run("output_stationary").program, detail="cycle", accelerator=smaller)


def test_command_line(tmp_path: Path) -> None:
    arguments = ["run", "soma.gpt2_small_decode", "--hardware", "tpu_v1", "--detail", "cycle", "--out", "out"]
    figures = json.loads(in_this_process(*arguments, "--json", folder=tmp_path).stdout)
    text = in_this_process(*arguments, folder=tmp_path).stdout
    assert "Cycle by cycle" in text
    with np.load(tmp_path / "out" / "cycles.npz", allow_pickle=False) as file:
        assert len(file["active_elements"]) == figures["latency_cycles"]
        names = json.loads(file["causes"].tobytes())
        counts = np.bincount(file["cause"], minlength=len(names)).tolist()
    assert dict(zip(names, counts, strict=True)) == dict.fromkeys(names, 0) | figures["cycle_detail"]["cycles"]
    assert sum(figures["cycle_detail"]["cycles"].values()) == figures["latency_cycles"]
    arguments[3] = "soma_edge"
    assert "not clocked cycle by cycle" in in_this_process(*arguments, folder=tmp_path, status=2).stderr
    arguments[5] = "cycles"
    assert "there are tile and cycle" in in_this_process(*arguments, folder=tmp_path, status=2).stderr
