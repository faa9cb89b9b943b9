"""Schedules found by the SoMa artifact (commit 6e80836), each with its own timing: every begin cycle must come out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accelsim
from accelsim.engine import ENGINES
from accelsim.program.bounds import lower_bound_cycles
from accelsim.schedule.living import live_tensors
from accelsim.schedule.notation import DramTensor, Schedule, TensorKind
from accelsim.schedule.rules import check_buffer, check_fully_connected, check_tile_order
from accelsim.schedule.tiling import tile
from accelsim.timeline.table import Timeline
from accelsim.workload.graph import Workload
from tests.naive.two_clocks import Tensor, two_clocks
from tests.reference_data import COPIED, whole_table

COPIES = sorted((COPIED / "soma_schedules").glob("*.json"))


def read(path: Path) -> tuple[dict[str, Any], Workload, Schedule]:
    """A reference schedule, with layer ids turned into operator names; ids count layers in file order."""
    reference = json.loads(path.read_text())
    workload = accelsim.load_workload(f"soma.{reference['workload']}", batch=reference["batch"])
    names = [operator.name for operator in workload.operators]
    tensors = tuple(
        DramTensor(TensorKind(kind), names[layer], number, None, start, end)
        for kind, layer, number, start, end, _, _ in reference["dram_transfers"]
    )
    order = tuple(names[layer] for layer in reference["order"])
    cuts = tuple(reference["fusion_cuts"]), tuple(reference["dram_cuts"])
    return reference, workload, Schedule(workload.name, order, *cuts, tuple(reference["tiling_numbers"]), tensors)


def begin_cycles(timeline: Timeline) -> np.ndarray:
    """First start of each activity."""
    begins = np.full(timeline.program.size, np.iinfo(np.int64).max)
    np.minimum.at(begins, timeline.events.activity, timeline.events.start_cycles)
    return begins


def check(path: Path) -> None:
    reference, workload, schedule = read(path)
    accelerator = accelsim.load_accelerator(reference["hardware"])
    program = accelsim.lower(workload, accelerator, schedule)
    expected = reference["expected"]
    tiles = [row[3] for row in reference["tiles"]]
    transfers = [row[6] for row in reference["dram_transfers"]]
    for engine in ENGINES:
        timeline = accelsim.simulate(program, engine=engine)
        assert timeline.latency_cycles == expected["latency_cycles"]
        assert begin_cycles(timeline).tolist() == tiles + transfers
    assert program.energy_pj.sum() == pytest.approx(expected["energy_pj"], rel=1e-12)
    assert lower_bound_cycles(program) == max(expected["sum_tile_cycles"], expected["sum_dram_cycles"])
    tiling = tile(workload, schedule)
    tensors = live_tensors(tiling)
    capacity = accelerator.buffers["global"].capacity_bytes
    assert check_buffer(tiling, tensors, capacity) == expected["peak_buffer_bytes"]
    check_fully_connected(workload, schedule)
    check_tile_order(tensors)
    default = accelsim.simulate(accelsim.lower(workload, accelerator, schedule.with_default_dram_order()))
    assert default.latency_cycles == expected["stage1_latency_cycles"]


@pytest.mark.parametrize("path", COPIES, ids=lambda path: path.stem)
def test_copied_schedule_comes_out_to_the_cycle(path: Path) -> None:
    check(path)


def test_all_schedules_come_out_to_the_cycle() -> None:
    paths = sorted(whole_table("soma_schedules").glob("*.json"))
    assert len(paths) >= 9
    for path in paths:
        check(path)


@pytest.mark.parametrize("path", COPIES, ids=lambda path: path.stem)
def test_the_activity_network_is_the_two_clock_recurrence(path: Path) -> None:
    """Not only where the artifact went: the default order and every schedule with one start moved agree with the
    twin."""
    reference, workload, schedule = read(path)
    accelerator = accelsim.load_accelerator(reference["hardware"])
    for variant in (schedule, schedule.with_default_dram_order()):
        program = accelsim.lower(workload, accelerator, variant)
        timeline = accelsim.simulate(program)
        tiling = tile(workload, variant)
        order = [
            Tensor(
                tensor.dram.kind is TensorKind.STORE_OUTPUT,
                tiling.position(tensor.place, tensor.tile or 0),
                tensor.dram.start,
                tensor.dram.end,
                -(-tensor.moved_bytes // int(accelerator.dram.bytes_per_cycle)),
            )
            for tensor in live_tensors(tiling)
            if tensor.dram
        ]
        tile_cycles = program.activities.cycles[: len(tiling.steps)].tolist()
        latency, begins = two_clocks(tile_cycles, order)
        assert timeline.latency_cycles == latency
        assert begin_cycles(timeline).tolist() == begins + [tensor.begins for tensor in order]
