"""The cost of a choice whose tiles are laid out, under default double buffering: one compiled pass.

It walks the tile positions once. At each it finishes the tile, then serves what may start there, in the default order;
no list of tensors is ever made. One core and one link in DRAM tensor order: the two clocks of HPCA 2025, section V-A,
plus the link's latency. Tiles that only repeat the one before are passed over.
"""

from __future__ import annotations

from typing import NamedTuple

from accelsim.jit import kernel
from accelsim.search.choice import Choice, Machine, Result, Walk, transfer_cycles
from accelsim.search.network import Network
from accelsim.search.plan_store import PlanStore


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
