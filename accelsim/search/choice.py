"""A choice of order, cuts and tiling numbers as columns that moves change in place, and how its tiles are laid out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.hardware.accelerator import Accelerator
from accelsim.jit import kernel
from accelsim.search.network import IntColumn, Network
from accelsim.search.plan_store import PlanStore, group_key, has_room, plan_slot
from accelsim.search.plans import FULL, ILLEGAL, LEGAL, MAXIMUM_POSITIONS, TOO_LONG, Shapes, find_plan
from accelsim.search.tile_costs import TileCostTable


class Machine(NamedTuple):
    """What a schedule's cost needs of an accelerator, besides the cost of tiles."""

    bytes_numerator: int
    bytes_denominator: int
    latency_cycles: int
    read_pj_per_byte: float
    write_pj_per_byte: float
    static_pj_per_cycle: float


class Choice(NamedTuple):
    """Order, cuts and tiling numbers, one row a place of the order."""

    order: IntColumn
    cut: IntColumn
    """Before the place: 0 none, 1 a fusion cut, 2 a DRAM cut; place 0 has 2."""
    tiles: IntColumn
    """The tiling number, where a fused group begins; elsewhere meaningless."""


class Walk(NamedTuple):
    """Scratch of the evaluation: by place of the order, by operator, and by position."""

    group: IntColumn
    """By place: first place of its fused group."""
    layer_group: IntColumn
    first: IntColumn
    """By place: position of its first tile."""
    last: IntColumn
    member: IntColumn
    """By place: row of its first tile among the members of its plan."""
    read: IntColumn
    """By place: row of its first tile's first read."""
    member_step: IntColumn
    read_step: IntColumn
    is_stored: IntColumn
    least: IntColumn
    """By place: how many positions behind a tile its readers in the fused group still need its result, plus one."""
    written: IntColumn
    """By place: when its last store so far has finished."""
    until: IntColumn
    """By place: the position behind the last reader in a later fused group of the layer group, or 0."""
    place: IntColumn
    """By operator: its place."""
    usage: IntColumn
    """By position: change of the bytes alive."""
    stored: IntColumn
    """By position: when the last store that it waits for has finished."""
    at: IntColumn
    """By position: its place."""
    tile: IntColumn
    pending: IntColumn
    """By positions ahead: what a store that is still waited for lacked when the last tile of the group began."""


class Result(NamedTuple):
    """What an evaluation found."""

    latency_cycles: int
    energy_pj: float
    peak_bytes: int
    tile_cycles: int
    transfer_cycles: int
    positions: int


def machine_of(accelerator: Accelerator) -> Machine:
    """The numbers of ``accelerator`` that the evaluation needs."""
    dram = accelerator.dram
    return Machine(
        dram.bytes_per_cycle.numerator,
        dram.bytes_per_cycle.denominator,
        dram.latency_cycles,
        dram.read_pj_per_byte,
        dram.write_pj_per_byte,
        accelerator.static_pj_per_cycle,
    )


def two_clocks_tell(accelerator: Accelerator) -> bool:
    """Whether a run is what searches reckon with: one core, and a link that serves one transfer after another in DRAM
    tensor order. Not where links take turns, ports are shared, or a memory has banks."""
    dram = accelerator.dram
    return dram.serves_one_order and dram.memory is None and not accelerator.transfers_pass_port


def empty_walk(operators: int, positions: int) -> Walk:
    """Scratch for so many operators and tile positions."""
    by_place = [np.zeros(operators, dtype=np.int64) for _ in range(13)]
    by_position = [np.zeros(positions + 3, dtype=np.int64) for _ in range(5)]
    return Walk(*by_place, *by_position)


@kernel
def group_end(choice: Choice, begin: int) -> int:
    """The place behind the fused group that begins at ``begin``."""
    end = begin + 1
    while end < choice.order.shape[0] and choice.cut[end] == 0:
        end += 1
    return end


@kernel
def place_groups(
    net: Network, choice: Choice, walk: Walk, shapes: Shapes, store: PlanStore, costs: TileCostTable
) -> tuple[int, int, float]:
    """Finds the plan of every fused group and lays the tiles out: (status, positions, energy of all tiles)."""
    size = choice.order.shape[0]
    status, position, energy_pj = LEGAL, 0, 0.0
    begin = 0
    while begin < size:
        end = group_end(choice, begin)
        for place in range(begin, end):
            shapes.group[place - begin] = choice.order[place]
        tiles = choice.tiles[begin]
        found, plan = find_plan(net, shapes, end - begin, tiles, store, costs)
        if found != LEGAL:
            if found == ILLEGAL or found == FULL:
                return found, 0, 0.0
            status = found  # go on, so that all that is missing is asked for at once
            begin = end
            continue
        members = store.members[plan]
        for row in range(store.member_begin[plan], store.member_begin[plan] + members):
            op = store.operator[row]
            place = walk.place[op]
            walk.member[place] = row
            walk.read[place] = store.read_begin[plan] + store.member_read[row]
            walk.member_step[place] = store.step[plan] * members
            walk.read_step[place] = store.step[plan] * store.reads[plan]
            walk.group[place] = begin
            walk.first[place] = position + place - begin
            walk.last[place] = walk.first[place] + (tiles - 1) * members
        needed = position + tiles * members
        if needed + 3 > walk.at.shape[0]:
            return (TOO_LONG if needed <= MAXIMUM_POSITIONS else ILLEGAL), 0, 0.0
        for tile in range(tiles):
            for place in range(begin, end):
                walk.at[position], walk.tile[position] = place, tile
                position += 1
        energy_pj += store.energy_pj[plan]
        begin = end
    return status, position, energy_pj


@kernel
def next_wanted(choice: Choice, store: PlanStore, begin: int) -> int:
    """The first fused group from place ``begin`` on whose plan is missing, as the one that the store wants: its first
    place; -1 where there is none, or no room for its plan."""
    size = choice.order.shape[0]
    while begin < size:
        end = group_end(choice, begin)
        for place in range(begin, end):
            store.wanted[place - begin] = choice.order[place]
        first, second = group_key(store.wanted, end - begin, choice.tiles[begin])
        if store.plan[plan_slot(store, first, second)] < 0:
            store.counters[3], store.counters[4] = end - begin, choice.tiles[begin]
            return begin if has_room(store, end - begin) else -1
        begin = end
    return -1


@kernel
def find_readers(net: Network, choice: Choice, walk: Walk) -> int:
    """For each place: whether its result is stored, and how long its readers on chip need it."""
    size = choice.order.shape[0]
    layer_group = -1
    for place in range(size):
        if choice.cut[place] == 2:
            layer_group += 1
        walk.layer_group[place] = layer_group
    for place in range(size):
        op = choice.order[place]
        is_stored, least, until = net.is_output[op], 1, 0
        for r in range(net.reader_begin[op], net.reader_begin[op + 1]):
            other = walk.place[net.reader[r]]
            if walk.layer_group[other] != walk.layer_group[place]:
                is_stored = 1
            elif walk.group[other] == walk.group[place]:
                least = max(least, other - place + 1)
            else:
                until = max(until, walk.last[other] + 1)
        walk.is_stored[place], walk.least[place], walk.until[place] = is_stored, least, until
    return 0


@kernel
def transfer_cycles(machine: Machine, size: int) -> int:
    """ceil(bytes / bandwidth)."""
    return -(-size * machine.bytes_denominator // machine.bytes_numerator)
