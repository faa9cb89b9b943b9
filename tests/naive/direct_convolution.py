"""NVDLA's convolution core clocked on real numbers: weights into shadow registers, dot products, results out.

One cycle after another; every element of the work is a value that has been fetched. Knows no closed form.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.int64]


class Machine(NamedTuple):
    kernels: int
    channels: int
    stripe: int
    results_per_cycle: int


def convolve(
    x: Array, w: Array, stride: tuple[int, int], machine: Machine, image: bool, active: list[int] | None = None
) -> tuple[Array, int, Any]:
    """``x`` (groups, batch, channels, rows, columns) by ``w`` (groups, filters, channels, rows, columns).

    ``image``: the kernel's columns are channels; ``active`` as in :func:`run`. Returns the product, the cycles, and
    values read.
    """
    G, K, C, R, S = w.shape
    B, P, Q = x.shape[1], (x.shape[3] - R) // stride[0] + 1, (x.shape[4] - S) // stride[1] + 1
    # Vectors of all output positions, as (group, position, tap, channel); kernels as (group, filter, tap, channel).
    windows = np.lib.stride_tricks.sliding_window_view(x, (R, S), axis=(3, 4))[:, :, :, :: stride[0], :: stride[1]]
    vectors = windows.transpose(0, 1, 3, 4, 5, 6, 2).reshape(G, B * P * Q, R * S, C)
    kernels = w.transpose(0, 1, 3, 4, 2).reshape(G, K, R * S, C)
    if image:
        vectors, kernels = vectors.reshape(G, B * P * Q, R, S * C), kernels.reshape(G, K, R, S * C)
    out, cycles, read = run(vectors[..., None], kernels[..., None], machine, machine.channels, active=active)
    return out[..., 0].reshape(G, K, B, P, Q).transpose(0, 2, 1, 3, 4), cycles, read


LEFT = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
TWICE_KERNEL = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]])
BACK = np.array([[1, 1, 1, 0], [0, 1, -1, -1]])


def winograd(x: Array, w: Array, machine: Machine) -> tuple[Array, int, Any]:
    """The same for 3 x 3 with stride 1, by squares of 2 x 2: Lavin and Gray, CVPR 2016, equation 8."""
    G, K, C = w.shape[:3]
    B, P, Q = x.shape[1], x.shape[3] - 2, x.shape[4] - 2
    down, aside = -(-P // 2), -(-Q // 2)
    padded = np.zeros((G, B, C, 2 * down + 2, 2 * aside + 2), dtype=np.int64)
    padded[..., : x.shape[3], : x.shape[4]] = x
    squares = np.lib.stride_tricks.sliding_window_view(padded, (4, 4), axis=(3, 4))[:, :, :, ::2, ::2]
    squares = LEFT @ squares @ LEFT.T
    vectors = squares.transpose(0, 1, 3, 4, 2, 5, 6).reshape(G, B * down * aside, 1, C, 16)
    kernels = (TWICE_KERNEL @ w @ TWICE_KERNEL.T).reshape(G, K, 1, C, 16)
    out, cycles, read = run(vectors, kernels, machine, machine.channels // 16, results=4)
    out = BACK @ out.reshape(G, K, B, down, aside, 4, 4) @ BACK.T
    out = out.transpose(0, 2, 1, 3, 5, 4, 6).reshape(G, B, K, 2 * down, 2 * aside)[..., :P, :Q]
    assert (out % 4 == 0).all()
    return out // 4, cycles, read


def cut(positions: int, machine: Machine) -> list[range]:
    """Stripes' positions: as long as may be, but the last one takes from the one before it what it lacks."""
    edges = [*range(0, positions, machine.stripe), positions]
    while (
        len(edges) > 2
        and edges[-1] - edges[-2] < machine.kernels
        and edges[-1] - (edges[-2] - 1) <= edges[-2] - 1 - edges[-3]
    ):
        edges[-2] -= 1
    return [range(begin, end) for begin, end in pairwise(edges)]


def run(
    vectors: Array, kernels: Array, machine: Machine, width: int, results: int = 1, active: list[int] | None = None
) -> tuple[Array, int, Any]:
    """Vectors (group, position, tap, channel, point) by kernels (group, filter, tap, channel, point).

    Appends to ``active`` how many multiplications each cycle makes.
    """
    active = [] if active is None else active
    G, positions, taps, C, points = vectors.shape
    K = kernels.shape[1]
    out = np.zeros((G, K, positions, points), dtype=np.int64)
    read: Counter[str] = Counter()
    blocks = [
        (g, range(k, min(k + machine.kernels, K)), block)
        for g in range(G)
        for k in range(0, K, machine.kernels)
        for block in cut(positions, machine)
    ]
    work = [
        (number, block, tap, range(c, min(c + width, C)))
        for number, block in enumerate(blocks)
        for c in range(0, C, width)
        for tap in range(taps)
    ]
    cycle = 0
    shadow: dict[int, Array] = {}  # weights of the stripe to come, by filter
    leaving = 0  # results of the block before that have not left
    at = 0  # stripe
    loading = 0  # the stripe that is being loaded, once the one before it has begun
    waiting = None  # (filters, positions) of a block that is complete and waits to be handed over
    assert machine.kernels * machine.channels >= width * points
    while True:
        # Between cycles: a stripe whose weights are there begins, if it need not wait for the results before it.
        if at == len(work):
            break
        number, (g, filters, block_positions), tap, channels = work[at]
        begins_block = at == 0 or work[at - 1][0] != number
        loaded = loading == at and len(shadow) == len(filters)
        if loaded and not (begins_block and waiting is not None and leaving > 0):
            if begins_block and waiting is not None:
                leaving = waiting
                waiting = None
            weights, shadow, loading = shadow, {}, at + 1
            for n in block_positions:
                cycle += 1
                leaving -= min(leaving, machine.results_per_cycle)
                _load(shadow, work, loading, kernels, read)
                read["inputs"] += len(channels) * points
                active.append(len(filters) * len(channels) * points)
                for k in filters:
                    out[g, k, n] += (weights[k] * vectors[g, n, tap, channels.start : channels.stop]).sum(axis=0)
            at += 1
            if at == len(work) or work[at][0] != number:
                waiting = len(filters) * len(block_positions) * results
            continue
        cycle += 1
        active.append(0)
        leaving -= min(leaving, machine.results_per_cycle)
        _load(shadow, work, loading, kernels, read)
    while leaving > 0 or waiting is not None:
        if leaving == 0 and waiting is not None:
            leaving, waiting = waiting, None
        cycle += 1
        active.append(0)
        leaving -= min(leaving, machine.results_per_cycle)
    return out, cycle, read


def _load(shadow: dict[int, Array], work: Any, loading: int, kernels: Array, read: Counter[str]) -> None:
    """One kernel's vector into the shadow registers."""
    if loading < len(work):
        _, (g, filters, _), tap, channels = work[loading]
        if len(shadow) < len(filters):
            k = filters[len(shadow)]
            shadow[k] = kernels[g, k, tap, channels.start : channels.stop]
            read["weights"] += shadow[k].size
