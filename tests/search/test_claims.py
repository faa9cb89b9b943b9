"""What a scheduler claims of its schedule is what both engines simulate, whatever the network and the machine."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.engine import ENGINES, simulate
from accelsim.errors import BufferOverflow
from accelsim.hardware.accelerator import Accelerator
from accelsim.program.bounds import lower_bound_cycles
from accelsim.program.lower import lower
from accelsim.schedule.living import live_tensors
from accelsim.schedule.rules import check_buffer, check_dram, check_layer_fusion
from accelsim.schedule.tiling import tile
from accelsim.search import Cocco, Interleave, Objective, Scheduler, SearchResult, SoMa
from accelsim.workload.graph import Workload
from tests.strategies.machines import machine, machines
from tests.strategies.networks import networks, three_layers

pytestmark = pytest.mark.kernel

OBJECTIVES = (Objective(), Objective(0.0, 1.0), Objective(1.0, 0.0), Objective(2.0, 1.0))


def quick(objective: Objective, seed: int) -> list[Scheduler]:
    """Every scheduler that searches, with few rounds."""
    return [
        SoMa(objective, seed, fusion_rounds=10, dram_rounds=20),
        SoMa(objective, seed, "paper", fusion_rounds=5, dram_rounds=10),
        Interleave(objective, seed, runs=2, fusion_rounds=10, dram_rounds=20),
        Cocco(objective, seed, rounds=10),
        Cocco(objective, seed, "fine", rounds=10),
        Cocco(objective, seed, "coarse", rounds=10),
    ]


def check_claim(workload: Workload, accelerator: Accelerator, result: SearchResult) -> None:
    check_layer_fusion(workload, result.schedule)
    tiling = tile(workload, result.schedule)
    tensors = live_tensors(tiling)
    check_dram(tiling, tensors)
    check_buffer(tiling, tensors, accelerator.buffers["global"].capacity_bytes)
    program = lower(workload, accelerator, result.schedule)
    for engine in ENGINES:
        timeline = simulate(program, engine=engine)
        assert timeline.latency_cycles == result.latency_cycles
    energy = program.energy_pj.sum() + program.static_pj_per_cycle * timeline.latency_cycles
    assert energy == pytest.approx(result.energy_pj, rel=1e-12)
    assert result.lower_bound_cycles == lower_bound_cycles(program)
    assert result.any_schedule_bound_cycles is not None
    assert result.lower_bound_cycles >= result.any_schedule_bound_cycles


@given(
    networks(),
    machines() | machines("round_robin"),
    st.sampled_from(OBJECTIVES),
    st.integers(0, 99),
    st.integers(0, 5),
)
@settings(max_examples=100, deadline=None)
def test_claims_hold(workload: Workload, accelerator: Accelerator, objective: Objective, seed: int, which: int) -> None:
    scheduler = quick(objective, seed)[which]
    try:
        result = scheduler.search(workload, accelerator)
    except BufferOverflow:
        return  # this machine is too small for this network
    if result.scheduler != scheduler.name:  # fell back on the layer-wise schedule, which claims nothing
        lower(workload, accelerator, result.schedule)
        return
    check_claim(workload, accelerator, result)


@pytest.mark.parametrize("scheduler", quick(Objective(), 3), ids=lambda scheduler: scheduler.name)
def test_claims_hold_on_the_worked_example(scheduler: Scheduler) -> None:
    accelerator = machine(4096)
    check_claim(three_layers(), accelerator, scheduler.search(three_layers(), accelerator))
