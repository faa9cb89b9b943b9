"""List scheduling of DRAM tensors: loads by deadline, as early as the buffer allows; stores in the gaps between them.

For a given order, cuts and tiling numbers this finds a DRAM tensor order and living durations in one pass, where SoMa's
second stage searches. Before a tile runs, what it still needs is loaded. While it runs, the link prefetches what later
tiles need, in the order in which they need it, if it fits for as long as it would wait; when nothing fits, or the next
load is not urgent, it stores what is finished. A store is forced only where a tile would not fit otherwise.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.jit import kernel
from accelsim.search.choice import Choice, Machine, Walk, transfer_cycles
from accelsim.search.network import IntColumn, Network
from accelsim.search.plan_store import PlanStore


class Lists(NamedTuple):
    """Scratch of the list scheduler, and the order that it found."""

    cycles: IntColumn
    """By position: duration of its tile."""
    output_bytes: IntColumn
    """By position: the result on chip."""
    free: IntColumn
    """By position: from where on nobody on chip needs its result."""
    alive: IntColumn
    """By position: bytes alive, results that only wait for their store left out."""
    late: IntColumn
    """By position: bytes of results that nobody on chip needs from there on, and whose store has no end yet."""
    tile_end: IntColumn
    """By position + 1."""
    ready: IntColumn
    """By position: when all its loads have finished."""
    store_bytes: IntColumn
    """By position: bytes that its tile stores, or -1."""
    store_finish: IntColumn
    store_end: IntColumn
    """By position: the end that its store got."""
    load_position: IntColumn
    """By load, ascending: the first position that needs it."""
    load_row: IntColumn
    """By load: its row among its tile's reads; -1 = weights."""
    load_bytes: IntColumn
    load_maker: IntColumn
    """By load: the last position of the operator that stores what it loads, or -1."""
    load_start: IntColumn
    """By load: the start that it got."""
    served: IntColumn
    """The order found: 2 n for load n, 2 p + 1 for the store of position p."""
    counters: IntColumn
    """Loads, tensors served, cycles of all tiles, busy cycles of the link, bytes read, bytes written."""


class Limits(NamedTuple):
    """What the pass may use, and how far ahead a load comes before a store."""

    positions: int
    capacity_bytes: int
    urgent_positions: int


def empty_lists(positions: int, reads: int) -> Lists:
    """Room for so many tile positions and so many loads in all."""
    sizes = [positions + 3] * 10 + [reads] * 5 + [positions + reads, 6]
    return Lists(*(np.zeros(size, dtype=np.int64) for size in sizes))


@kernel
def add_load(lists: Lists, position: int, row: int, size: int, maker_end: int) -> int:
    """Appends a load."""
    load = lists.counters[0]
    lists.load_position[load], lists.load_row[load] = position, row
    lists.load_bytes[load], lists.load_maker[load] = size, maker_end
    lists.counters[0] += 1
    lists.counters[4] += size
    return 0


@kernel
def collect(net: Network, choice: Choice, walk: Walk, store: PlanStore, lists: Lists, positions: int) -> bool:
    """Fills the lists of tiles, loads and stores, and what is alive whatever their order. False if there is no room."""
    for p in range(positions + 2):
        lists.alive[p] = lists.late[p] = lists.ready[p] = 0
    for number in range(6):
        lists.counters[number] = 0
    for p in range(positions):
        place = walk.at[p]
        op = choice.order[place]
        row = walk.member[place] + walk.tile[p] * walk.member_step[place]
        lists.cycles[p], lists.output_bytes[p] = store.cycles[row], store.output_bytes[row]
        lists.counters[2] += store.cycles[row]
        lists.free[p] = min(max(p + walk.least[place], walk.until[place]), positions)
        lists.alive[p] += store.output_bytes[row]
        lists.alive[lists.free[p]] -= store.output_bytes[row]
        lists.store_bytes[p] = store.stored_bytes[row] if walk.is_stored[place] else -1
        lists.counters[5] += max(lists.store_bytes[p], 0)
        first = net.source_begin[op]
        if lists.counters[0] + 1 + net.source_begin[op + 1] - first > lists.load_bytes.shape[0]:
            return False
        if walk.tile[p] == 0 and net.weight_bytes[op]:
            add_load(lists, p, -1, net.weight_bytes[op], -1)
            lists.alive[p] += net.weight_bytes[op]
            lists.alive[walk.last[place] + 1] -= net.weight_bytes[op]
        read = walk.read[place] + walk.tile[p] * walk.read_step[place] - first
        for s in range(first, net.source_begin[op + 1]):
            maker, size = net.source[s], store.read_bytes[read + s]
            if size < 0 or (maker >= 0 and walk.layer_group[walk.place[maker]] == walk.layer_group[place]):
                continue
            add_load(lists, p, s - first, size, walk.last[walk.place[maker]] if maker >= 0 else -1)
            lists.alive[p] += size
            lists.alive[p + 1] -= size
    for p in range(1, positions + 1):
        lists.alive[p] += lists.alive[p - 1]
    return True


@kernel
def serve_store(machine: Machine, lists: Lists, link: int, p: int) -> int:
    """Takes the store of position ``p`` onto the link; returns when the link is free again."""
    if lists.store_bytes[p] < 0:
        return link
    cycles = transfer_cycles(machine, lists.store_bytes[p])
    link = max(link, lists.tile_end[p + 1]) + cycles
    lists.store_finish[p] = link + machine.latency_cycles
    lists.served[lists.counters[1]] = 2 * p + 1
    lists.counters[1] += 1
    lists.counters[3] += cycles
    return link


@kernel
def serve_load(machine: Machine, lists: Lists, link: int, load: int, start: int) -> int:
    """Takes a load with this start onto the link, whose maker's stores were served; returns when it is free again."""
    position, maker = lists.load_position[load], lists.load_maker[load]
    cycles = transfer_cycles(machine, lists.load_bytes[load])
    begin = max(link, lists.tile_end[start])
    if maker >= 0:
        begin = max(begin, lists.store_finish[maker])
    link = begin + cycles
    for p in range(start, position):
        lists.alive[p] += lists.load_bytes[load]
    lists.load_start[load] = start
    lists.ready[position] = link + machine.latency_cycles
    lists.served[lists.counters[1]] = 2 * load
    lists.counters[1] += 1
    lists.counters[3] += cycles
    return link


@kernel
def retire(lists: Lists, p: int, at: int, late: int) -> int:
    """Gives the store of ``p`` its end at position ``at``; returns what is late then."""
    if lists.store_bytes[p] < 0:
        return late
    lists.store_end[p] = at
    if lists.free[p] <= at:
        return late - int(lists.output_bytes[p])
    lists.late[lists.free[p]] -= lists.output_bytes[p]
    return late


@kernel
def prefetch_fits(lists: Lists, load: int, start: int, room: int) -> bool:
    """Whether a load fits from position ``start`` until it is needed, beside what is alive then."""
    for p in range(start, lists.load_position[load]):
        if lists.alive[p] + lists.load_bytes[load] > room:
            return False
    return True


@kernel
def pass_over(machine: Machine, lists: Lists, limits: Limits) -> int:
    """The pass; returns the latency, or -1 where a tile does not fit.

    Stores are served, and get their ends, in the order of their tiles: ``waiting`` is the first that was not served,
    ``open_end`` the first without an end.
    """
    positions, loads = limits.positions, lists.counters[0]
    load = link = late = waiting = open_end = 0
    lists.tile_end[0] = 0
    for p in range(positions):
        late += lists.late[p]
        begin = lists.tile_end[p]
        while open_end < p and lists.alive[p] + late > limits.capacity_bytes:
            if waiting == open_end:
                link = serve_store(machine, lists, link, waiting)
                waiting += 1
            if lists.store_bytes[open_end] >= 0:
                begin = max(begin, lists.store_finish[open_end])
            late = retire(lists, open_end, p, late)
            open_end += 1
        if lists.alive[p] + late > limits.capacity_bytes:
            return -1
        last = load  # stores first: one that ends at p may not stand behind a load that starts there
        while last < loads and lists.load_position[last] == p:
            while waiting <= lists.load_maker[last]:
                link = serve_store(machine, lists, link, waiting)
                waiting += 1
            last += 1
        while load < last:
            link = serve_load(machine, lists, link, load, p)
            load += 1
        begin = max(begin, lists.ready[p])
        while open_end < waiting and (lists.store_bytes[open_end] < 0 or lists.store_finish[open_end] <= begin):
            late = retire(lists, open_end, p, late)
            open_end += 1
        end = begin + lists.cycles[p]
        lists.tile_end[p + 1] = end
        if lists.store_bytes[p] >= 0:
            lists.late[lists.free[p]] += lists.output_bytes[p]
        while link < end:
            while waiting < p and lists.store_bytes[waiting] < 0:
                waiting += 1
            wants = load < loads and (waiting == p or lists.load_position[load] <= p + limits.urgent_positions)
            if wants and lists.load_maker[load] < waiting:
                if prefetch_fits(lists, load, p, limits.capacity_bytes - late):
                    link = serve_load(machine, lists, link, load, p)
                    load += 1
                    continue
            if waiting == p:
                break
            link = serve_store(machine, lists, link, waiting)
            waiting += 1
    for p in range(open_end, positions):
        if p >= waiting:
            link = serve_store(machine, lists, link, p)
        if lists.store_bytes[p] >= 0:
            lists.store_end[p] = positions
    return max(int(lists.tile_end[positions]), link + machine.latency_cycles)
