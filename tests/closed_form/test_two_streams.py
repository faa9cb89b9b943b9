"""Two streams that take turns of a row each: what one costs the other beyond its bytes is bank conflicts alone."""

from __future__ import annotations

import numpy as np
import pytest

import accelsim
from accelsim.hardware.accelerator import Accelerator
from accelsim.program.tables import ActivityKind
from accelsim.timeline.table import Timeline

ROW = 4096  # of both channels: one grant of the link
TIMES = ("tRTP", "tRP", "tRCDRD", "tBL")


def two_streams(alignment: str) -> tuple[Accelerator, Timeline]:
    settings = ["dram.fidelity=banks", "dram.memory.refresh=off", f"dram.memory.alignment={alignment}"]
    machine = accelsim.load_accelerator("soma_edge", settings)
    workload = accelsim.load_workload("micro.read")
    program = accelsim.lower(workload, machine, accelsim.Layerwise().search(workload, machine).schedule)
    return machine, accelsim.simulate([program, program], share="dram")


def same_bank_next(machine: Accelerator, timeline: Timeline) -> int:
    """How often the link's next grant opens another row of the bank of the grant before."""
    program = timeline.program
    (loads,) = np.nonzero(program.activities.kind == ActivityKind.LOAD)
    assert program.memory is not None and machine.dram.memory is not None
    turns = np.stack([program.memory.placement.address[row] + np.arange(256) * ROW for row in loads], axis=1).ravel()
    where = machine.dram.memory.dram.address_map.locate(turns)
    return int(((np.diff(where.bank) == 0) & (np.diff(where.row) != 0)).sum())


def test_two_streams_cost_each_other_their_bank_conflicts_and_nothing_else() -> None:
    near, met = two_streams("4 KiB")  # the second stream one bank behind: turn B(i), then A(i+1), in one bank
    far, apart = two_streams("8 KiB")  # two banks behind
    assert near.dram.memory is not None
    timing = near.dram.memory.dram.template.timing
    rtp, rp, rcd, burst = (getattr(timing, name) for name in TIMES)
    each = (rtp + rp + rcd - burst) // 2  # last read of a row to the first of the next, in cycles of the machine
    assert each == 41
    more = same_bank_next(near, met) - same_bank_next(far, apart)
    assert more == 255
    assert met.latency_cycles - apart.latency_cycles == pytest.approx(more * each, rel=0.01)
    assert accelsim.sharing(apart).tenants[1].slowdown == pytest.approx(2, rel=0.01)
