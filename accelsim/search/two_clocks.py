"""The two clocks of HPCA 2025, section V-A, for a given DRAM tensor order: from scratch, or from where a move changed
it."""

from __future__ import annotations

from accelsim.jit import kernel
from accelsim.search.dram_state import Clocks, Gates, Tensors


@kernel
def run_tile(tensors: Tensors, gates: Gates, clocks: Clocks, p: int) -> int:
    """Ends tile ``p``: behind the tile before it, its loads, and the stores that end at it."""
    begin = clocks.tile_end[p]
    for row in range(tensors.load_begin[p], tensors.load_begin[p + 1]):
        begin = max(begin, clocks.finish[tensors.load[row]])
    store = gates.first_store[p]
    while store >= 0:
        begin = max(begin, clocks.finish[store])
        store = gates.next_store[store]
    clocks.tile_end[p + 1] = begin + tensors.tile_cycles[p]
    return 0


@kernel
def run_clocks(
    tensors: Tensors, gates: Gates, clocks: Clocks, kept: Clocks, first: int, changed: tuple[int, int]
) -> tuple[int, int, int]:
    """Runs from rank ``first`` on; ``clocks`` and ``kept`` agree before it. Returns (latency, rank, position): where it
    could stop, since from there on nothing differs from ``kept``, or the ends.

    ``changed`` is the last rank that a move touched, and the last position that a touched store ends or ended at.
    """
    size = tensors.tile.shape[0]
    link = p = 0
    if first < size:
        link, p = kept.link_at[first], kept.position_at[first]
    last_rank, different = changed
    for r in range(first, size):
        x = gates.order[r]
        if r > last_rank and p > different and link == kept.link_at[r] and p == kept.position_at[r]:
            if clocks.tile_end[p] == kept.tile_end[p]:
                return kept.latency[0], r, p
        clocks.position_at[r], clocks.link_at[r] = p, link
        gate = tensors.tile[x] if tensors.is_store[x] else gates.start[x] - 1
        while p <= gate:
            run_tile(tensors, gates, clocks, p)
            p += 1
        begin = max(link, clocks.tile_end[gate + 1] if gate >= 0 else 0)
        if tensors.written_by[x] >= 0:
            begin = max(begin, clocks.finish[tensors.written_by[x]])
        link = begin + tensors.cycles[x]
        finish = link + tensors.latency_cycles
        clocks.finish[x] = finish
        if finish != kept.finish[x]:
            different = max(different, gates.end[x] if tensors.is_store[x] else tensors.tile[x])
            if tensors.is_store[x] and tensors.latency_cycles > 0:
                different = tensors.positions  # a load of what it stores may see the difference at any time
    while p < tensors.positions:
        run_tile(tensors, gates, clocks, p)
        p += 1
    latency = clocks.tile_end[tensors.positions]
    if size:
        latency = max(latency, link + tensors.latency_cycles)
    clocks.latency[0] = latency
    return latency, size, tensors.positions


@kernel
def copy_clocks(
    gates: Gates, source: Clocks, target: Clocks, ranks: tuple[int, int], positions: tuple[int, int]
) -> int:
    """Copies a run between two ranks and two positions."""
    for r in range(ranks[0], ranks[1]):
        target.position_at[r], target.link_at[r] = source.position_at[r], source.link_at[r]
        x = gates.order[r]
        target.finish[x] = source.finish[x]
    for p in range(positions[0], positions[1]):
        target.tile_end[p + 1] = source.tile_end[p + 1]
    target.latency[0] = source.latency[0]
    return 0
