"""The two-clock recurrence of the SoMa paper (HPCA 2025, section V-A), written from its description and nothing else.

One clock for the compute array, one for the DRAM channel. It knows tensors only by their gates, so it shares nothing
with the activity network that the engines run.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Tensor:
    """A DRAM tensor: the tile that it serves first (loads) or that makes it (stores), its gates and its time."""

    is_store: bool
    tile: int
    start: int
    end: int
    cycles: int
    begins: int = -1
    done: bool = field(default=False)


def two_clocks(tile_cycles: list[int], order: list[Tensor]) -> tuple[int, list[int]]:
    """Latency and every tile's begin cycle; each tensor's ``begins`` is filled in. Illegal schedules fail an
    assertion."""
    compute = channel = 0
    following = 0
    last = len(tile_cycles) - 1
    begins = []

    def issue() -> None:
        nonlocal channel, following
        tensor = order[following]
        tensor.begins, tensor.done = channel, True
        channel += tensor.cycles
        following += 1

    def needed(position: int) -> list[Tensor]:
        loads = [t for t in order if not t.is_store and t.tile == position and not t.done]
        return loads + [t for t in order if t.is_store and t.end == position and not t.done]

    while needed(0):
        issue()
    compute = channel
    for position, cycles in enumerate(tile_cycles):
        postponed = needed(position)
        while any(not t.done for t in postponed):
            assert not order[following].is_store or order[following].tile < position
            issue()
        compute = max(compute, channel) if postponed else compute
        begins.append(compute)
        compute += cycles
        while following < len(order):
            tensor = order[following]
            if tensor.start > position:
                channel = max(channel, compute)
                break
            if tensor.is_store and tensor.tile == position and channel < compute:
                channel = compute
                break
            if channel + tensor.cycles > compute:
                break
            issue()
        if position == last:
            while following < len(order):
                if order[following].is_store and order[following].tile == position:
                    channel = max(channel, compute)
                issue()
            break
        waiting = needed(position + 1)
        while any(not t.done for t in waiting):
            tensor = order[following]
            if tensor.is_store and tensor.tile == position:
                channel = max(channel, compute)
            if tensor.start == position + 1:
                channel = max(channel, compute)
                break
            issue()
        if waiting:
            compute = max(compute, channel) if all(t.done for t in waiting) else compute
    return max(compute, channel), begins
