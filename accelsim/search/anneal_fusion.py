"""First stage: simulated annealing over order, fusion cuts and tiling numbers (HPCA 2025, section V-B), one compiled
loop."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accelsim.jit import kernel
from accelsim.search.choice import Choice, Machine, Walk
from accelsim.search.moves import (
    fully_connected_alone,
    move_dram_merge,
    move_dram_shift,
    move_dram_split,
    move_fusion_merge,
    move_fusion_split,
    move_order,
    move_tiling,
)
from accelsim.search.network import FloatColumn, IntColumn, Network
from accelsim.search.plans import LEGAL, MISSING_COST
from accelsim.search.pricing import Stores, cost_of, price
from accelsim.search.random_state import RandomState, random_float

MOST_WALKED = 1 << 20
"""Tile positions after which the annealing returns for a moment. A move may make candidates a thousand times longer, so
a number of rounds alone does not bound the time of a call."""


class FusionParameters(NamedTuple):
    """Parameters of the first stage; the defaults are the paper's and its artifact's."""

    rounds: int
    budget_bytes: int
    """Bytes that the schedule may keep alive under double buffering."""
    energy_exponent: float = 1.0
    delay_exponent: float = 1.0
    order: float = 0.20
    """Probability of a move in the computing order."""
    tiling: float = 0.35
    fusion_merge: float = 0.15
    """What is left to 1 goes to the DRAM cuts, in three parts:"""
    dram_merge: float = 0.3
    dram_split: float = 0.3
    fusion_split: float = 0.0
    """Share of the fusion merges that split a group instead. (SoMa has no such move.)"""
    keep_fusion_cut: int = 1
    """1: a DRAM cut that moves away leaves a fusion cut behind. (0 where every layer group is one fused group.)"""
    tiling_rule: int = 0
    """Tiling number of merged groups: 0 that of either side, with odds by their operators; 1 the larger."""
    fully_connected_alone: int = 1
    start_temperature: float = 0.1
    cooling: float = 8.0
    urgent_positions: tuple[int, int] = (-1, -1)
    """How the DRAM tensors of a candidate are ordered: (-1, -1) double buffering; else by list scheduling, the better
    of these two horizons."""
    back_to_best: float = 0.9
    """Share of the rounds after which the search goes on from the best found."""


class FusionState(NamedTuple):
    """Where the annealing stands; all of it is needed to go on."""

    current: Choice
    candidate: Choice
    best: Choice
    random_state: RandomState
    counters: IntColumn
    """Rounds done, candidates evaluated, moves accepted, rounds at which to return next."""
    cost: FloatColumn
    """Of the current choice, and of the best."""


def fusion_state(choice: Choice, cost: float, seed: int) -> FusionState:
    """Annealing about to start from ``choice``."""
    current, candidate, best = (Choice(*(column.copy() for column in choice)) for _ in range(3))
    return FusionState(
        current,
        candidate,
        best,
        random_state=np.array([seed], dtype=np.uint64),
        counters=np.zeros(4, dtype=np.int64),
        cost=np.array([cost, cost]),
    )


@kernel
def copy_choice(source: Choice, target: Choice) -> int:
    """All three columns."""
    for place in range(source.order.shape[0]):
        target.order[place] = source.order[place]
        target.cut[place] = source.cut[place]
        target.tiles[place] = source.tiles[place]
    return 0


@kernel
def propose(
    net: Network, parameters: FusionParameters, choice: Choice, place_of: IntColumn, state: RandomState
) -> bool:
    """One random move; False if it could not be made or breaks the rule of fully connected layers."""
    for place in range(choice.order.shape[0]):
        place_of[choice.order[place]] = place
    draw = random_float(state)
    if draw < parameters.order:
        moved = move_order(net, choice, place_of, state)
    elif draw < parameters.order + parameters.tiling:
        moved = move_tiling(net, choice, place_of, state)
    elif draw < parameters.order + parameters.tiling + parameters.fusion_merge:
        if parameters.fusion_split > 0 and random_float(state) < parameters.fusion_split:
            moved = move_fusion_split(choice, state)
        else:
            moved = move_fusion_merge(choice, state)
    else:
        draw = random_float(state)
        if draw < parameters.dram_merge:
            moved = move_dram_merge(choice, parameters.tiling_rule, state)
        elif draw < parameters.dram_merge + parameters.dram_split:
            moved = move_dram_split(choice, state)
        else:
            moved = move_dram_shift(choice, parameters.keep_fusion_cut != 0, state)
    return moved and (not parameters.fully_connected_alone or fully_connected_alone(net, choice))


@kernel
def anneal_fusion(
    net: Network,
    machine: Machine,
    parameters: FusionParameters,
    state: FusionState,
    walk: Walk,
    stores: Stores,
) -> int:
    """Anneals up to the round that the state names; returns early when something is missing, or much was walked. Call
    again to go on."""
    walked = 0
    while state.counters[0] < state.counters[3] and walked < MOST_WALKED:
        done = state.counters[0] / parameters.rounds
        temperature = parameters.start_temperature * (1 - done) / (1 + parameters.cooling * done)
        if state.counters[0] == int(parameters.back_to_best * parameters.rounds):
            copy_choice(state.best, state.current)
            state.cost[0] = state.cost[1]
        copy_choice(state.current, state.candidate)
        before = state.random_state[0]
        if propose(net, parameters, state.candidate, walk.place, state.random_state):
            status, found = price(
                net, machine, state.candidate, walk, stores, (parameters.budget_bytes, parameters.urgent_positions)
            )
            if status >= MISSING_COST:
                state.random_state[0] = before
                return status
            state.counters[1] += 1
            walked += found.positions
            if status == LEGAL:
                cost = cost_of(
                    parameters.energy_exponent, parameters.delay_exponent, found.energy_pj, found.latency_cycles
                )
                old = state.cost[0]
                if cost <= old or random_float(state.random_state) < math.exp((old - cost) / old / temperature):
                    copy_choice(state.candidate, state.current)
                    state.cost[0] = cost
                    state.counters[2] += 1
                    if cost < state.cost[1]:
                        copy_choice(state.candidate, state.best)
                        state.cost[1] = cost
        state.counters[0] += 1
    return LEGAL
