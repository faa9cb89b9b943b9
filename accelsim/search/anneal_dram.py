"""Second stage: simulated annealing over DRAM tensor order and living durations (HPCA 2025, section V-C), one
compiled loop.

Whether one DRAM tensor may stand before another is a question about the two alone (:func:`may_precede`), so ranges
are found by walking from neighbour to neighbour. A move is made in place, priced from the first rank that it touched,
and taken back if it is not accepted.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accelsim.jit import kernel
from accelsim.search.dram_state import Clocks, DramProblem, Gates, Tensors, copy_gates, empty_clocks
from accelsim.search.network import IntColumn
from accelsim.search.pricing import cost_of
from accelsim.search.random_state import RandomState, random_below, random_float
from accelsim.search.two_clocks import copy_clocks, run_clocks


class DramParameters(NamedTuple):
    """Parameters of the second stage; the defaults are the paper's and its artifact's."""

    rounds: int
    energy_pj: float
    """Of everything but static power."""
    static_pj_per_cycle: float
    bound_cycles: int
    energy_exponent: float = 1.0
    delay_exponent: float = 1.0
    order: float = 0.1
    """Probability of a move in the order alone."""
    time: float = 0.4
    """Probability of a move of a living duration alone; what is left to 1 moves both."""
    start_temperature: float = 0.1
    cooling: float = 8.0
    back_to_best: float = 0.9


class DramState(NamedTuple):
    """Where the annealing stands; all of it is needed to go on."""

    gates: Gates
    best: Gates
    clocks: Clocks
    kept: Clocks
    random_state: RandomState
    counters: IntColumn
    """Rounds done, candidates priced, moves accepted, rounds at which to return next."""
    latency: IntColumn
    """Of the current order, and of the best."""


def dram_state(problem: DramProblem, seed: int) -> DramState:
    """Annealing about to start from the problem's own order."""
    clocks, kept = empty_clocks(problem.tensors), empty_clocks(problem.tensors)
    gates = copy_gates(problem.gates)
    latency, _, _ = run_clocks(problem.tensors, gates, clocks, kept, 0, (1 << 60, 1 << 60))
    size = len(problem.tensors.tile)
    copy_clocks(gates, clocks, kept, (0, size), (0, problem.tensors.positions))
    return DramState(
        gates,
        copy_gates(gates),
        clocks,
        kept,
        np.array([seed], dtype=np.uint64),
        np.zeros(4, dtype=np.int64),
        np.array([latency, latency]),
    )


@kernel
def ordered(tensors: Tensors, i: int, j: int) -> bool:
    """Whether ``i`` may stand before ``j`` as far as data and tile order say (RV2, RP1), whatever their gates.

    Stores keep the order of their tiles. RV2 asks that only of those that depend on one another; for the others it
    costs nothing, since no tile waits for a later store.
    """
    if tensors.is_store[i] and tensors.is_store[j]:
        return bool(tensors.tile[i] < tensors.tile[j])
    if tensors.before[i] >= 0 and tensors.operator[i] == tensors.operator[j]:
        # The same chain, and the other way round?
        if tensors.is_store[i] == tensors.is_store[j] and tensors.maker[i] == tensors.maker[j]:
            if tensors.after[j] >= 0 and tensors.tile[i] > tensors.tile[j]:
                return not same_chain(tensors, j, i)
    return not (tensors.is_store[j] and not tensors.is_store[i] and tensors.maker[i] == tensors.operator[j])


@kernel
def same_chain(tensors: Tensors, first: int, second: int) -> bool:
    """Whether ``second`` follows ``first`` in the chain of one operator's tiles."""
    while first >= 0 and tensors.tile[first] < tensors.tile[second]:
        first = tensors.after[first]
    return first == second


@kernel
def may_precede(tensors: Tensors, gates: Gates, i: int, j: int) -> bool:
    """Whether ``i`` may stand before ``j`` in the DRAM tensor order.

    What is served first must not wait for a tile that itself waits for what is served later: RV1, and for weights the
    sharper form that their first tile waits for them.
    """
    if not ordered(tensors, i, j):
        return False
    gate = tensors.tile[i] if tensors.is_store[i] else gates.start[i]
    if tensors.is_store[j]:
        return bool(gate < gates.end[j])
    return bool(gate < tensors.tile[j] if tensors.is_store[i] else gate <= tensors.tile[j])


@kernel
def may_precede_moving(tensors: Tensors, gates: Gates, i: int, j: int, moving: int) -> bool:
    """As :func:`may_precede`, when the gate of ``moving`` (one of the two) is chosen afterwards."""
    if not ordered(tensors, i, j):
        return False
    if moving == i and not tensors.is_store[i]:
        return True
    if moving == j and tensors.is_store[j]:
        gate = tensors.tile[i] if tensors.is_store[i] else gates.start[i]
        return bool(gate < tensors.positions)
    return may_precede(tensors, gates, i, j)


@kernel
def order_range(tensors: Tensors, gates: Gates, x: int, free_gate: bool) -> tuple[int, int]:
    """The ranks that ``x`` may move to, its gate staying (RV1, RV2, RP1) or being chosen afterwards (RV2, RP1)."""
    low = high = gates.rank[x]
    while low > 0:
        y = gates.order[low - 1]
        fits = may_precede_moving(tensors, gates, x, y, x) if free_gate else may_precede(tensors, gates, x, y)
        if not fits:
            break
        low -= 1
    while high + 1 < gates.order.shape[0]:
        y = gates.order[high + 1]
        fits = may_precede_moving(tensors, gates, y, x, x) if free_gate else may_precede(tensors, gates, y, x)
        if not fits:
            break
        high += 1
    return low, high


@kernel
def gate_range(tensors: Tensors, gates: Gates, x: int) -> tuple[int, int]:
    """The legal starts of a load, or ends of a store, where it stands (RV1 to RV3, RP1)."""
    before, after, r = tensors.before[x], tensors.after[x], gates.rank[x]
    if tensors.is_store[x]:
        low, high = tensors.tile[x] + 1, tensors.positions
        for rank in range(r):
            y = gates.order[rank]
            low = max(low, (tensors.tile[y] if tensors.is_store[y] else gates.start[y]) + 1)
        if before >= 0:
            low = max(low, gates.end[before])
        if after >= 0:
            high = min(high, gates.end[after])
        return low, high
    low, high = tensors.least_start[x], tensors.tile[x]
    for rank in range(r + 1, gates.order.shape[0]):
        y = gates.order[rank]
        high = min(high, gates.end[y] - 1 if tensors.is_store[y] else tensors.tile[y])
    if before >= 0:
        low = max(low, gates.start[before])
    if after >= 0:
        high = min(high, gates.start[after])
    return low, high


@kernel
def gate_of(tensors: Tensors, gates: Gates, x: int) -> int:
    """The gate that moves: a load's start, a store's end."""
    return int(gates.end[x] if tensors.is_store[x] else gates.start[x])


@kernel
def move_rank(gates: Gates, x: int, target: int) -> int:
    """Takes ``x`` to another rank; those between move up."""
    source = gates.rank[x]
    step = 1 if target > source else -1
    for r in range(source, target, step):
        y = gates.order[r + step]
        gates.order[r], gates.rank[y] = y, r
    gates.order[target], gates.rank[x] = x, target
    return 0


@kernel
def add_usage(gates: Gates, first: int, last: int, size: int) -> int:
    """Adds ``size`` to the positions [first, last)."""
    for p in range(first, last):
        gates.usage[p + 1] += size
    return 0


@kernel
def set_gate(tensors: Tensors, gates: Gates, x: int, value: int) -> int:
    """Moves the gate of ``x``, and keeps the bytes alive and the stores by end in step."""
    size = tensors.bytes[x]
    if not tensors.is_store[x]:
        add_usage(gates, value, gates.start[x], size)
        add_usage(gates, gates.start[x], value, -size)
        gates.start[x] = value
        return 0
    old, new = max(gates.end[x], tensors.least_end[x]), max(value, tensors.least_end[x])
    add_usage(gates, old, new, size)
    add_usage(gates, new, old, -size)
    before, following = gates.previous_store[x], gates.next_store[x]
    if before >= 0:
        gates.next_store[before] = following
    else:
        gates.first_store[gates.end[x]] = following
    if following >= 0:
        gates.previous_store[following] = before
    head = gates.first_store[value]
    gates.next_store[x], gates.previous_store[x], gates.first_store[value] = head, -1, x
    if head >= 0:
        gates.previous_store[head] = x
    gates.end[x] = value
    return 0


@kernel
def gate_fits(tensors: Tensors, gates: Gates, x: int, value: int) -> bool:
    """Whether the buffer holds ``x`` also in the positions that moving its gate to ``value`` adds."""
    room = tensors.capacity_bytes - tensors.bytes[x]
    if tensors.is_store[x]:
        first, last = max(gates.end[x], tensors.least_end[x]), max(value, tensors.least_end[x])
    else:
        first, last = value, gates.start[x]
    for p in range(first, last):
        if gates.usage[p + 1] > room:
            return False
    return True


@kernel
def draw_tensor(tensors: Tensors, state: RandomState) -> int:
    """A tensor, with a probability in proportion to its size."""
    draw = random_float(state)
    low, high = 0, tensors.weight.shape[0] - 1
    while low < high:
        middle = (low + high) // 2
        if draw < tensors.weight[middle]:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def draw_gate(tensors: Tensors, gates: Gates, x: int, near: bool, state: RandomState) -> int:
    """A gate for ``x`` where it stands: uniform in its range, or in what its neighbours' gates span of it; -2 if none.

    Where the neighbours' span misses the range: the most eager load, the most delayed store.
    """
    low, high = gate_range(tensors, gates, x)
    if low > high:
        return -2
    if near:
        r, last = gates.rank[x], gates.order.shape[0] - 1
        first = gate_of(tensors, gates, gates.order[r - 1 if r else min(r + 1, last)])
        second = gate_of(tensors, gates, gates.order[r + 1 if r < last else max(r - 1, 0)])
        span_low, span_high = max(low, min(first, second)), min(high, max(first, second))
        if span_low > span_high:
            return high if tensors.is_store[x] else low
        low, high = span_low, span_high
    return low + random_below(state, high - low + 1)


@kernel
def move_gates(tensors: Tensors, gates: Gates, parameters: DramParameters, state: RandomState) -> tuple[int, int, int]:
    """One random move, made in place: (tensor or -1, its old rank, its old gate)."""
    draw = random_float(state)
    x = draw_tensor(tensors, state)
    old_rank, old_gate = gates.rank[x], gate_of(tensors, gates, x)
    both = draw >= parameters.order + parameters.time
    if draw < parameters.order or both:
        low, high = order_range(tensors, gates, x, both)
        target = low + random_below(state, high - low + 1)
        if target != old_rank:
            move_rank(gates, x, target)
        elif not both:
            return -1, old_rank, old_gate
    if draw >= parameters.order:
        gate = draw_gate(tensors, gates, x, both, state)
        if gate == -2 or not gate_fits(tensors, gates, x, gate) or (gate == old_gate and gates.rank[x] == old_rank):
            if gates.rank[x] != old_rank:
                move_rank(gates, x, old_rank)
            return -1, old_rank, old_gate
        if gate != old_gate:
            set_gate(tensors, gates, x, gate)
    return x, old_rank, old_gate


@kernel
def copy_column(source: IntColumn, target: IntColumn) -> int:
    """All of it."""
    for row in range(source.shape[0]):
        target[row] = source[row]
    return 0


@kernel
def copy_all_gates(source: Gates, target: Gates) -> int:
    """Everything that moves."""
    copy_column(source.order, target.order)
    copy_column(source.rank, target.rank)
    copy_column(source.start, target.start)
    copy_column(source.end, target.end)
    copy_column(source.usage, target.usage)
    copy_column(source.first_store, target.first_store)
    copy_column(source.next_store, target.next_store)
    copy_column(source.previous_store, target.previous_store)
    return 0


@kernel
def dram_cost(parameters: DramParameters, latency: int) -> float:
    """The cost of a run of this latency."""
    energy = parameters.energy_pj + parameters.static_pj_per_cycle * latency
    return cost_of(parameters.energy_exponent, parameters.delay_exponent, energy, latency)


@kernel
def anneal_dram(tensors: Tensors, parameters: DramParameters, state: DramState) -> int:
    """Anneals up to the round that the state names; call again to go on. Once the bound is reached, nothing is left to
    do."""
    gates, size = state.gates, state.gates.order.shape[0]
    ideal = dram_cost(parameters, parameters.bound_cycles)
    rounds = parameters.rounds
    while state.counters[0] < state.counters[3] and state.latency[1] > parameters.bound_cycles:
        done = state.counters[0] / rounds
        temperature = parameters.start_temperature * (1 - done) / (1 + parameters.cooling * done)
        if state.counters[0] == int(parameters.back_to_best * rounds):
            copy_all_gates(state.best, gates)
            latency, _, _ = run_clocks(tensors, gates, state.clocks, state.kept, 0, (size, tensors.positions))
            copy_clocks(gates, state.clocks, state.kept, (0, size), (0, tensors.positions))
            state.latency[0] = latency
        state.counters[0] += 1
        x, old_rank, old_gate = move_gates(tensors, gates, parameters, state.random_state)
        if x >= 0:
            state.counters[1] += 1
            first, last = min(old_rank, gates.rank[x]), max(old_rank, gates.rank[x])
            touched = max(old_gate, gates.end[x]) if tensors.is_store[x] else 0
            begin = state.kept.position_at[first]
            latency, rank, position = run_clocks(tensors, gates, state.clocks, state.kept, first, (last, touched))
            old, new = dram_cost(parameters, state.latency[0]), dram_cost(parameters, latency)
            if new <= old or random_float(state.random_state) < math.exp((old - new) / (old - ideal) / temperature):
                copy_clocks(gates, state.clocks, state.kept, (first, rank), (begin, position))
                state.latency[0] = latency
                state.counters[2] += 1
                if latency < state.latency[1]:
                    copy_all_gates(gates, state.best)
                    state.latency[1] = latency
            else:
                if gates.rank[x] != old_rank:
                    move_rank(gates, x, old_rank)
                if gate_of(tensors, gates, x) != old_gate:
                    set_gate(tensors, gates, x, old_gate)
                copy_clocks(gates, state.kept, state.clocks, (first, rank), (begin, position))
    return 0
