"""The second stage's kernels: the two clocks, kept up to date move by move; what may stand before what."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accelsim.engine import simulate
from accelsim.errors import Deadlock, ScheduleError
from accelsim.hardware.accelerator import Accelerator
from accelsim.program.lower import lower
from accelsim.schedule.living import live_tensors, usage_bytes
from accelsim.schedule.rules import check_buffer, check_dram, check_layer_fusion, check_tile_order
from accelsim.schedule.tiling import tile
from accelsim.search.anneal_dram import (
    DramParameters,
    anneal_dram,
    dram_state,
    gate_of,
    may_precede,
    move_gates,
    move_rank,
    set_gate,
)
from accelsim.search.dram_state import DramProblem, Gates, copy_gates, dram_problem, empty_clocks, schedule_of
from accelsim.search.two_clocks import run_clocks
from accelsim.workload.graph import Workload
from tests.strategies.machines import machine, machines
from tests.strategies.networks import layer_fusions, networks

pytestmark = pytest.mark.kernel

EVERYTHING = (1 << 60, 1 << 60)


def problem_of(workload: Workload, accelerator: Accelerator, data: st.DataObject) -> DramProblem:
    """A random choice that fits, double-buffered."""
    schedule = data.draw(layer_fusions(workload))
    try:
        check_layer_fusion(workload, schedule)
        tiling = tile(workload, schedule)
        check_buffer(tiling, live_tensors(tiling), accelerator.buffers["global"].capacity_bytes)
    except ScheduleError:
        assume(False)
    except Exception as error:
        assume("buffer" not in str(error))
        raise
    return dram_problem(workload, accelerator, schedule)


def from_scratch(problem: DramProblem, gates: Gates) -> int:
    clocks, kept = empty_clocks(problem.tensors), empty_clocks(problem.tensors)
    return int(run_clocks(problem.tensors, gates, clocks, kept, 0, EVERYTHING)[0])


@given(networks(), machines(), st.integers(0, 1 << 40), st.data())
@settings(max_examples=60, deadline=None)
def test_annealing_keeps_its_books(
    workload: Workload, accelerator: Accelerator, seed: int, data: st.DataObject
) -> None:
    """After every move: latency, bytes alive, ranks and lists of stores are what they would be from scratch."""
    problem = problem_of(workload, accelerator, data)
    state = dram_state(problem, seed)
    parameters = DramParameters(
        rounds=200, energy_pj=problem.energy_pj, static_pj_per_cycle=0.0, bound_cycles=problem.lower_bound_cycles
    )
    for rounds in range(1, 201):
        state.counters[3] = rounds
        anneal_dram(problem.tensors, parameters, state)
        assert state.latency[0] == from_scratch(problem, state.gates)
        assert state.gates.rank[state.gates.order].tolist() == list(range(len(problem.rows)))
        assert state.gates.usage.max() <= problem.tensors.capacity_bytes
        if rounds % 50 == 0:
            for gates, latency in ((state.gates, state.latency[0]), (state.best, state.latency[1])):
                schedule = schedule_of(problem, gates)
                tiling = tile(workload, schedule)
                tensors = live_tensors(tiling)
                check_dram(tiling, tensors)
                check_tile_order(tensors)
                assert usage_bytes(tensors, len(tiling.steps)) == gates.usage.tolist()
                assert simulate(lower(workload, accelerator, schedule)).latency_cycles == latency


def test_thousands_of_moves_on_a_real_network() -> None:
    from accelsim.library import load_accelerator, load_workload
    from accelsim.search import Layerwise

    workload, accelerator = load_workload("soma.gpt2_small_prefill", sequence_length=64), load_accelerator("soma_edge")
    problem = dram_problem(workload, accelerator, Layerwise().search(workload, accelerator).schedule)
    state = dram_state(problem, 7)
    parameters = DramParameters(4000, problem.energy_pj, 0.0, problem.lower_bound_cycles)
    for rounds in range(20, 4001, 20):
        state.counters[3] = rounds
        anneal_dram(problem.tensors, parameters, state)
        assert state.latency[0] == from_scratch(problem, state.gates)
    assert state.counters[2] > 100


@given(networks(), machines(), st.integers(0, 1 << 40), st.data())
@settings(max_examples=40, deadline=None)
def test_a_move_can_be_taken_back(workload: Workload, accelerator: Accelerator, seed: int, data: st.DataObject) -> None:
    problem = problem_of(workload, accelerator, data)
    gates, random_state = copy_gates(problem.gates), np.array([seed], dtype=np.uint64)
    parameters = DramParameters(1, problem.energy_pj, 0.0, problem.lower_bound_cycles)
    for _ in range(30):
        before = copy_gates(gates)
        x, rank, gate = move_gates(problem.tensors, gates, parameters, random_state)
        if x < 0:
            assert all(np.array_equal(a, b) for a, b in zip(gates[:5], before[:5], strict=True))
            continue
        move_rank(gates, x, rank)
        if gate_of(problem.tensors, gates, x) != gate:
            set_gate(problem.tensors, gates, x, gate)
        assert all(np.array_equal(a, b) for a, b in zip(gates[:5], before[:5], strict=True))


def runs(workload: Workload, accelerator: Accelerator, problem: DramProblem, gates: Gates) -> bool:
    """Whether the rules, RP1 among them, and the machine accept an order with its gates."""
    schedule = schedule_of(problem, gates)
    tiling = tile(workload, schedule)
    tensors = live_tensors(tiling)
    try:
        check_dram(tiling, tensors)
        check_tile_order(tensors)
        simulate(lower(workload, accelerator, schedule))
    except (ScheduleError, Deadlock):
        return False
    stores = [gates.order[rank] for rank in range(len(problem.rows)) if problem.tensors.is_store[gates.order[rank]]]
    tiles = problem.tensors.tile[stores].tolist()
    return tiles == sorted(tiles)  # a pruning of ours, see `ordered`


@given(networks(), st.data())
@settings(max_examples=60, deadline=None)
def test_pairs_say_whether_an_order_is_legal(workload: Workload, data: st.DataObject) -> None:
    """An order is accepted by the rules and runs exactly where every two DRAM tensors may stand as they stand."""
    accelerator = machine(1 << 20)
    problem = problem_of(workload, accelerator, data)
    tensors, size = problem.tensors, len(problem.rows)
    gates = copy_gates(problem.gates)
    for x in range(size):
        if tensors.is_store[x]:
            set_gate(tensors, gates, x, data.draw(st.integers(int(tensors.tile[x]) + 1, tensors.positions)))
        else:
            set_gate(tensors, gates, x, data.draw(st.integers(int(tensors.least_start[x]), int(tensors.tile[x]))))
    few = list(permutations(range(size))) if size <= 4 else [data.draw(st.permutations(range(size))) for _ in range(6)]
    for order in few:
        gates.order[:] = order
        gates.rank[gates.order] = np.arange(size)
        pairs = all(may_precede(tensors, gates, i, j) for i, j in combinations(order, 2))
        falls = [
            problem.tensors.after[x] >= 0
            and gate_of(tensors, gates, x) > gate_of(tensors, gates, int(problem.tensors.after[x]))
            for x in range(size)
        ]
        assert runs(workload, accelerator, problem, gates) == (pairs and not any(falls)), order
