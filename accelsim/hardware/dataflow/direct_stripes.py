"""The stripes of a direct convolution engine: cycles of a tile in closed form, and what multiplies in each of them.

The machine is described in :mod:`accelsim.hardware.dataflow.direct_convolution`.
"""

from __future__ import annotations

from typing import NamedTuple

from accelsim.hardware.dataflow.dataflow import IntColumn
from accelsim.jit import kernel


class Engine(NamedTuple):
    """The numbers of a :class:`DirectConvolution` that its kernel reads."""

    kernels: int
    channels: int
    stripe: int
    results_per_cycle: int
    winograd: int


class Nest(NamedTuple):
    """Tiles as the engine sees them, one row a tile: ``groups`` nests one after another."""

    groups: IntColumn
    positions: IntColumn
    """Output positions, or squares of them."""
    results: IntColumn
    """Results of each position."""
    channels: IntColumn
    filters: IntColumn
    taps: IntColumn
    """Kernel positions."""
    vector: IntColumn
    """Channels of one dot product."""


@kernel
def _up(a: int, b: int) -> int:
    return -(-a // b)


@kernel
def _last_length(positions: int, engine: Engine) -> int:
    """Positions of the last stripe, with what the last but one gives to it."""
    last_length: int = positions - (_up(positions, engine.stripe) - 1) * engine.stripe
    if positions > engine.stripe:
        short = max(min(engine.kernels, engine.stripe) - last_length, 0)
        last_length += min(short, (engine.stripe - last_length) // 2)
    return last_length


@kernel
def count_cycles(nest: Nest, engine: Engine, cycles: IntColumn) -> None:
    """Fills ``cycles`` (tiles,): from the first weight to the last result."""
    for i in range(nest.groups.shape[0]):
        positions, filters, results = nest.positions[i], nest.filters[i], nest.results[i]
        stripes = _up(nest.channels[i], nest.vector[i]) * nest.taps[i]
        blocks = _up(positions, engine.stripe)
        last_length = _last_length(positions, engine)
        kernel_groups = _up(filters, engine.kernels)
        last_kernels = filters - (kernel_groups - 1) * engine.kernels
        groups = nest.groups[i] * kernel_groups
        time = min(filters, engine.kernels)  # the first weights
        leaving = 0  # cycles that the results of the block before take
        for number in range(groups):
            kernels = last_kernels if (number + 1) % kernel_groups == 0 else engine.kernels
            following = last_kernels if (number + 2) % kernel_groups == 0 else engine.kernels
            if number + 1 == groups:
                following = 0
            if blocks > 2:
                runs = stripes * max(engine.stripe, kernels)
                leave = _up(engine.stripe * results * kernels, engine.results_per_cycle)
                time += max(runs, leaving) + (blocks - 3) * max(runs, leave)
                leaving = leave
            if blocks > 1:
                length = positions - (blocks - 2) * engine.stripe - last_length
                time += max(stripes * max(length, kernels), leaving)
                leaving = _up(length * results * kernels, engine.results_per_cycle)
            runs = (stripes - 1) * max(last_length, kernels) + max(last_length, following)
            time += max(runs, leaving)
            leaving = _up(last_length * results * kernels, engine.results_per_cycle)
        cycles[i] = time + leaving


@kernel
def count_active(nest: Nest, engine: Engine, active: IntColumn) -> None:
    """Adds to ``active`` (cycles,), zero so far, the multiplications of each cycle of the nest's only tile."""
    positions, filters, channels = nest.positions[0], nest.filters[0], nest.channels[0]
    vectors, taps = _up(channels, nest.vector[0]), nest.taps[0]
    blocks, kernel_groups = _up(positions, engine.stripe), _up(filters, engine.kernels)
    last_length = _last_length(positions, engine)
    groups = nest.groups[0] * kernel_groups
    time = min(filters, engine.kernels)  # the first weights
    leaving = 0  # cycles that the results of the block before take
    for number in range(groups):
        done = number % kernel_groups * engine.kernels
        kernels = min(engine.kernels, filters - done)
        following = min(engine.kernels, filters - (number + 1) % kernel_groups * engine.kernels)
        for block in range(blocks):
            length = engine.stripe
            if block == blocks - 1:
                length = last_length
            elif block == blocks - 2:
                length = positions - block * engine.stripe - last_length
            end = time + leaving
            for stripe in range(vectors * taps):
                wide = min(nest.vector[0], channels - stripe // taps * nest.vector[0])
                for cycle in range(time, time + length):
                    active[cycle] += kernels * wide
                load = kernels
                if block == blocks - 1 and stripe == vectors * taps - 1:
                    load = following if number + 1 < groups else 0
                time += max(length, load)
            time = max(time, end)
            leaving = _up(length * nest.results[0] * kernels, engine.results_per_cycle)
