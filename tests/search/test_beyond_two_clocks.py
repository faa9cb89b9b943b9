"""Machines of which two clocks do not tell all: what a search claims is what they run all the same."""

from __future__ import annotations

import pytest

from accelsim.engine import simulate
from accelsim.errors import InputError
from accelsim.library import load_accelerator, load_workload
from accelsim.program.lower import lower
from accelsim.search import Exhaustive, Interleave
from tests.strategies.tiny import tiny_case

MACHINES = {
    "banks": ("dram.fidelity=banks",),
    "calibrated": ("dram.fidelity=calibrated",),
    "turns": ("dram.arbitration=round_robin",),
    "directions": ("dram.directions=separate",),
    "requests": ("dram.outstanding=2",),
}


@pytest.mark.parametrize("overrides", MACHINES.values(), ids=MACHINES)
def test_claims_hold_where_links_and_memories_are_richer(overrides: tuple[str, ...]) -> None:
    workload, accelerator = (
        load_workload("soma.gpt2_small_decode", sequence_length=9),
        load_accelerator("soma_edge", overrides),
    )
    result = Interleave(runs=1, fusion_rounds=2, dram_rounds=5).search(workload, accelerator)
    program = lower(workload, accelerator, result.schedule)
    timeline = simulate(program)
    assert result.latency_cycles == timeline.latency_cycles
    energy = program.energy_pj.sum() + program.static_pj_per_cycle * timeline.latency_cycles
    assert energy == pytest.approx(result.energy_pj, rel=1e-12)
    with pytest.raises(InputError, match="one transfer after another"):
        Exhaustive().search(tiny_case(0)[0], accelerator)
