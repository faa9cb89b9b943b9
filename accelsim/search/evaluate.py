"""What a choice of order, cuts and tiling numbers costs under default double buffering, as one compiled pass.

The pass walks the tile positions once. At each it finishes the tile, then serves what may start there, in the default
order; no list of tensors is ever made. One core and one link in DRAM tensor order: the two clocks of HPCA 2025, section
V-A, plus the link's latency.
"""

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
def place_groups(
    net: Network, choice: Choice, walk: Walk, shapes: Shapes, store: PlanStore, costs: TileCostTable
) -> tuple[int, int, float]:
    """Finds the plan of every fused group and lays the tiles out: (status, positions, energy of all tiles)."""
    size = choice.order.shape[0]
    status, position, energy_pj = LEGAL, 0, 0.0
    begin = 0
    while begin < size:
        end = begin + 1
        while end < size and choice.cut[end] == 0:
            end += 1
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
        end = begin + 1
        while end < size and choice.cut[end] == 0:
            end += 1
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


class Clocks(NamedTuple):
    """Where a walk stands when a tile of a fused group begins."""

    ended: int
    """Of the tile before."""
    link: int
    loaded: int
    """Of what the next tile loads."""
    tile_cycles: int
    busy: int
    read_bytes: int
    written_bytes: int


LEAST_REPEATS = 8
"""Tiles that a group must have left for it to be worth a look whether they repeat themselves."""

EXPLICIT_REPEATS = 5
"""Tiles of a group that are walked after all that repeat: the first of them set up what is alive, the last but one is
as those passed over, the last meets the next group."""


@kernel
def repeats(net: Network, choice: Choice, walk: Walk, p: int, size: int, now: Clocks, then: Clocks) -> bool:
    """Whether a tile of a group of ``size`` operators begins at ``p`` as the one before began, only later, so that all
    up to the last but one will. Keeps what stores lack."""
    same = True
    for ahead in range(size + 3):
        pending = max(walk.stored[p + ahead] - now.ended, 0)
        same = same and pending == walk.pending[ahead]
        walk.pending[ahead] = pending
    same = same and max(now.loaded - now.ended, 0) == max(then.loaded - then.ended, 0)
    if not same or (now.busy != then.busy and now.link - then.link != now.ended - then.ended):
        return False
    for place in range(walk.at[p], walk.at[p] + size):
        op = choice.order[place]
        for s in range(net.source_begin[op], net.source_begin[op + 1]):
            maker = walk.place[net.source[s]] if net.source[s] >= 0 else place
            if walk.layer_group[maker] != walk.layer_group[place] and walk.written[maker] > now.ended:
                return False
    return True


@kernel
def pass_over_repeats(walk: Walk, store: PlanStore, p: int, size: int, count: int, now: Clocks, then: Clocks) -> Clocks:
    """Clocks after ``count`` tiles of a group that repeat themselves, the first of which begins at ``p``.

    Positions in between are left as if nothing happened there: no more is alive at any of them than at the like
    position of the last tile but one. Results that wait for a later group pile up, and come in one go.
    """
    resumed, later = p + count * size, count * (now.ended - then.ended)
    for ahead in range(size + 2, -1, -1):
        if walk.stored[p + ahead] > 0:
            walk.stored[resumed + ahead] = walk.stored[p + ahead] + later
    for place in range(walk.at[p], walk.at[p] + size):
        if walk.until[place]:
            piled = count * store.output_bytes[walk.member[place]]
            walk.usage[resumed + 1] += piled
            walk.usage[walk.until[place] + 1] -= piled
    return Clocks(
        now.ended + later,
        now.link + later if now.busy != then.busy else now.link,
        now.loaded + later if now.loaded else 0,
        now.tile_cycles + count * (now.tile_cycles - then.tile_cycles),
        now.busy + count * (now.busy - then.busy),
        now.read_bytes + count * (now.read_bytes - then.read_bytes),
        now.written_bytes + count * (now.written_bytes - then.written_bytes),
    )


@kernel
def transfer_cycles(machine: Machine, size: int) -> int:
    """ceil(bytes / bandwidth)."""
    return -(-size * machine.bytes_denominator // machine.bytes_numerator)


@kernel
def walk_positions(
    net: Network, machine: Machine, choice: Choice, walk: Walk, store: PlanStore, positions: int
) -> Result:
    """The two clocks, tile by tile, but for tiles of a group that only repeat the one before; also bytes alive, bytes
    moved and the busy cycles."""
    for p in range(positions + 2):
        walk.usage[p], walk.stored[p] = 0, 0
    link = busy = tile_cycles = read_bytes = written_bytes = 0
    before = ended = loaded = 0  # end of the tile two positions back, of the last one, and of the loads for the next
    then = Clocks(0, 0, 0, 0, 0, 0, 0)
    p = -2
    while p + 1 < positions:
        p += 1
        if p >= 0 and walk.tile[p] > 0 and walk.group[walk.at[p]] == walk.at[p]:
            place, tiles = walk.at[p], choice.tiles[walk.at[p]]
            count = tiles - walk.tile[p] - EXPLICIT_REPEATS
            if count > LEAST_REPEATS and walk.member_step[place] == 0:
                now = Clocks(ended, link, loaded, tile_cycles, busy, read_bytes, written_bytes)
                members = (walk.last[place] - walk.first[place]) // (tiles - 1)
                if repeats(net, choice, walk, p, members, now, then) and walk.tile[p] > 1:
                    ended, link, loaded, tile_cycles, busy, read_bytes, written_bytes = pass_over_repeats(
                        walk, store, p, members, count, now, then
                    )
                    p += count * members
                then = now
        before = ended
        size = 0
        store_end = 0
        if p >= 0:
            place = walk.at[p]
            row = walk.member[place] + walk.tile[p] * walk.member_step[place]
            ended = max(ended, max(loaded, walk.stored[p])) + store.cycles[row]
            tile_cycles += store.cycles[row]
            size = store.output_bytes[row]
            end = max(p + walk.least[place], walk.until[place])
            if walk.is_stored[place]:
                following = p + 1
                if following < positions and walk.layer_group[walk.at[following]] == walk.layer_group[place]:
                    following = p + 2
                end = store_end = max(end, following)
            walk.usage[p + 1] += size
            walk.usage[min(end, positions) + 1] -= size
            size = store.stored_bytes[row]
        loaded = 0
        if p + 1 < positions and walk.tile[p + 1] == 0:
            place = walk.at[p + 1]
            weights = net.weight_bytes[choice.order[place]]
            if weights:
                cycles = transfer_cycles(machine, weights)
                link = max(link, before) + cycles
                busy += cycles
                loaded = link + machine.latency_cycles
                read_bytes += weights
                walk.usage[p + 1] += weights
                walk.usage[walk.last[place] + 2] -= weights
        store_first = store_end != 0 and store_end < p + 2  # of one start, what ends first goes first
        for turn in range(2):
            if (turn == 0) == store_first:
                if store_end == 0:
                    continue
                cycles = transfer_cycles(machine, size)
                link = max(link, ended) + cycles
                busy += cycles
                written_bytes += size
                walk.stored[min(store_end, positions)] = link + machine.latency_cycles
                walk.written[walk.at[p]] = link + machine.latency_cycles
            elif p + 1 < positions:
                place = walk.at[p + 1]
                op = choice.order[place]
                first = walk.read[place] + walk.tile[p + 1] * walk.read_step[place]
                for s in range(net.source_begin[op], net.source_begin[op + 1]):
                    maker = net.source[s]
                    if maker >= 0 and walk.layer_group[walk.place[maker]] == walk.layer_group[place]:
                        continue
                    loads = store.read_bytes[first + s - net.source_begin[op]]
                    if loads < 0:  # this tile reads nothing of it
                        continue
                    cycles = transfer_cycles(machine, loads)
                    link = max(link, max(before, walk.written[walk.place[maker]] if maker >= 0 else 0)) + cycles
                    busy += cycles
                    loaded = link + machine.latency_cycles
                    read_bytes += loads
                    walk.usage[p + 1] += loads
                    walk.usage[p + 3] -= loads
    alive = peak = 0
    for p in range(positions + 1):
        alive += walk.usage[p]
        peak = max(peak, alive)
    latency = max(ended, link + machine.latency_cycles if busy else 0)
    energy = machine.read_pj_per_byte * read_bytes + machine.write_pj_per_byte * written_bytes
    return Result(latency, energy, peak, tile_cycles, busy, positions)
