"""Row stationary, tile by tile: phases of dilated kernels, mappings, and what multiplies in each cycle.

The machine is described in :mod:`accelsim.hardware.dataflow.row_stationary`.
"""

from __future__ import annotations

from math import gcd

from accelsim.hardware.dataflow.dataflow import IntColumn, TileColumns
from accelsim.hardware.dataflow.row_passes import (
    ConvolutionShape,
    RowArray,
    RowMapping,
    find_mapping,
    laid_out,
    run_passes,
)
from accelsim.jit import kernel


@kernel
def _up(a: int, b: int) -> int:
    return -(-a // b)


@kernel
def _phases(size: int, kernel_size: int, stride: int, dilation: int, shorter: int) -> tuple[int, int, int]:
    """The phases of one axis, the longer or the shorter ones: how many, their positions, and the stride in them."""
    if kernel_size == 1:
        return shorter, size, stride
    common = gcd(stride, dilation)
    count = min(dilation // common, size)
    longer = size % count
    if shorter:
        return count - longer, size // count, stride // common
    return longer, size // count + 1, stride // common


@kernel
def phase_shape(repeats: IntColumn, nests: TileColumns, i: int, lengths: int) -> ConvolutionShape:
    """Tile ``i`` in the phases of one of four sizes, longer or shorter along either axis; no samples where none is."""
    row_phases, rows, stride_rows = _phases(
        nests.rows[i], nests.kernel_rows[i], nests.stride_rows[i], nests.dilation_rows[i], lengths & 1
    )
    column_phases, columns, stride_columns = _phases(
        nests.columns[i], nests.kernel_columns[i], nests.stride_columns[i], nests.dilation_columns[i], lengths >> 1
    )
    return ConvolutionShape(
        repeats[i],
        nests.batch[i] * row_phases * column_phases,
        nests.channels[i],
        nests.filters[i],
        rows,
        columns,
        nests.kernel_rows[i],
        nests.kernel_columns[i],
        stride_rows,
        stride_columns,
    )


@kernel
def map_tiles(repeats: IntColumn, nests: TileColumns, array: RowArray, cycles: IntColumn, words: IntColumn) -> int:
    """Fills ``cycles`` (tiles,) and ``words`` (tiles, len(WordCounts)); returns the first tile without a mapping, or
    -1."""
    for i in range(repeats.shape[0]):
        cycles[i] = 0
        for number in range(words.shape[1]):
            words[i, number] = 0
        for lengths in range(4):
            shape = phase_shape(repeats, nests, i, lengths)
            if shape.batch == 0:
                continue
            found, mapping = find_mapping(shape, array)
            if found < 0:
                return i
            taken, counts = run_passes(shape, mapping, array)
            cycles[i] += taken
            for number in range(len(counts)):
                words[i, number] += counts[number]
    return -1


@kernel
def count_active(repeats: IntColumn, nests: TileColumns, array: RowArray, active: IntColumn) -> None:
    """Adds to ``active`` (cycles,), zero so far, the multiplications of each cycle of the only tile, which has a
    mapping."""
    time = 0
    for lengths in range(4):
        shape = phase_shape(repeats, nests, 0, lengths)
        if shape.batch > 0:
            _, mapping = find_mapping(shape, array)
            time = _count_shape(shape, mapping, array, active, time)


@kernel
def _count_shape(shape: ConvolutionShape, mapping: RowMapping, array: RowArray, active: IntColumn, time: int) -> int:
    """The same for one shape, from cycle ``time`` on: pass after pass. Returns the cycle behind the last."""
    e, p, q, r, t, u = mapping
    G, B, C, K, P, _, R, S, _, _ = laid_out(shape, e)
    kernel_rows, kernel_columns = _up(R, _up(R, array.rows)), _up(S, _up(S, array.input_words))
    for group in range(0, G, u):
        for filter_ in range(0, K, p * t):
            for channel in range(0, C, q * r):
                for row in range(0, R, kernel_rows):
                    for column in range(0, S, kernel_columns):
                        for strip in range(B * _up(P, e)):
                            part = ConvolutionShape(
                                min(u, G - group),
                                int(strip == 0),
                                min(q * r, C - channel),
                                min(p * t, K - filter_),
                                min(e, P - strip % _up(P, e) * e),
                                laid_out(shape, e).columns,
                                min(kernel_rows, R - row),
                                min(kernel_columns, S - column),
                                shape.stride_rows,
                                shape.stride_columns,
                            )
                            time = _count_pass(part, mapping, array, active, time)
    return time


@kernel
def _count_pass(part: ConvolutionShape, mapping: RowMapping, array: RowArray, active: IntColumn, time: int) -> int:
    """The same for one pass, whose ``part`` of the shape has a batch of 1 if its filters are loaded, else of 0."""
    groups, loads, channels, filters, strip, Q, rows, width, row_stride, column_stride = part
    in_filters, in_channels = _up(filters, mapping.t), _up(channels, mapping.r)
    new = min(column_stride, width)
    bring = _up(min((strip - 1) * row_stride + rows, strip * rows) * channels * groups, array.input_bus)
    move = _up(filters * strip * groups, array.sum_bus)
    load = loads * _up(filters * channels * rows * width * groups, array.filter_bus)
    for step in range(Q):
        slot = time
        if step == 0:
            slot += load
        for column in range(width):
            if step == 0:
                slot = max(slot, time + (column + 1) * bring)
            for c in range(in_channels):
                deep = channels // in_channels + int(channels % in_channels > c)  # sets with that many channels
                for k in range(in_filters):
                    wide = filters // in_filters + int(filters % in_filters > k)
                    active[slot] += groups * strip * rows * deep * wide
                    slot += 1
        columns = new if step + 1 < Q else 0
        if step == 0:
            columns += width
        time = max(slot, time + columns * bring, time + move)
    return time + move + rows * _up(channels, in_channels) - 1
