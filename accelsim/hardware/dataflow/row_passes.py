"""Row stationary, pass by pass: cycles and words of a tile under a mapping, and the mapping that takes least.

The machine is described in :mod:`accelsim.hardware.dataflow.row_stationary`.
"""

from __future__ import annotations

from typing import NamedTuple

from accelsim.jit import kernel


class RowArray(NamedTuple):
    """The numbers of a :class:`RowStationary` that its kernels read; stores and buses in words."""

    rows: int
    columns: int
    filter_words: int
    """Store of one element for filters; likewise below."""
    input_words: int
    sum_words: int
    filter_bus: int
    """Words of filters a cycle, over the whole array; likewise below."""
    input_bus: int
    sum_bus: int
    """Words each way."""


class RowMapping(NamedTuple):
    """How a tile lies on the array; see the module."""

    e: int
    p: int
    q: int
    r: int
    t: int
    u: int


class ConvolutionShape(NamedTuple):
    """``groups`` convolutions, each ``batch`` samples of (channels) to (filters, rows, columns)."""

    groups: int
    batch: int
    channels: int
    filters: int
    rows: int
    columns: int
    kernel_rows: int
    kernel_columns: int
    stride_rows: int
    stride_columns: int


class WordCounts(NamedTuple):
    """Words that cross the edge of the array, in a tile; and for how many cycles the elements multiply."""

    inputs: int
    filters: int
    sums_out: int
    sums_in: int
    """Sums to which a pass adds, read back."""
    filter_copies: int
    """Words written to the elements' stores: each goes to several elements; likewise below."""
    input_copies: int
    busy: int


@kernel
def _up(a: int, b: int) -> int:
    return -(-a // b)


@kernel
def _part(size: int, step: int, last: int) -> tuple[int, int]:
    """How many parts of which size: those before the last one, or the last one alone."""
    before = _up(size, step) - 1
    if last:
        return 1, size - before * step
    return before, step


@kernel
def _is_pointwise(shape: ConvolutionShape) -> bool:
    return shape.kernel_rows * shape.kernel_columns * shape.stride_rows * shape.stride_columns == 1


@kernel
def laid_out(shape: ConvolutionShape, e: int) -> ConvolutionShape:
    """The shape itself; the positions of a pointwise one as ``e`` rows."""
    if not _is_pointwise(shape):
        return shape
    positions = shape.batch * shape.rows * shape.columns
    columns = _up(positions, e)
    return ConvolutionShape(shape.groups, 1, shape.channels, shape.filters, e, columns, 1, 1, 1, 1)


@kernel
def run_passes(shape: ConvolutionShape, mapping: RowMapping, array: RowArray) -> tuple[int, WordCounts]:
    """Cycles and words of a tile, in closed form: passes come in few sizes, the last ones of each dimension smaller."""
    e, p, q, r, t, u = mapping
    G, B, C, K, P, Q, R, S, row_stride, column_stride = laid_out(shape, e)
    kernel_rows, kernel_columns = _up(R, _up(R, array.rows)), _up(S, _up(S, array.input_words))
    cycles = 0
    inputs = 0
    filter_copies = 0
    input_copies = 0
    busy = 0
    for last in range(64):  # all combinations of full and last parts; a count of 0 where there are no full ones
        n_groups, groups = _part(G, u, last & 1)
        n_filters, filters = _part(K, p * t, last >> 1 & 1)
        n_channels, channels = _part(C, q * r, last >> 2 & 1)
        n_rows, rows = _part(R, kernel_rows, last >> 3 & 1)
        n_columns, columns = _part(S, kernel_columns, last >> 4 & 1)
        n_strips, strip = _part(P, e, last >> 5 & 1)
        times = n_groups * n_filters * n_channels * n_rows * n_columns
        if times * n_strips == 0:
            continue
        in_filters, in_channels = _up(filters, t), _up(channels, r)
        input_rows = min((strip - 1) * row_stride + rows, strip * rows)
        new_columns = min(column_stride, columns)
        per_column = input_rows * channels * groups
        bring = _up(per_column, array.input_bus)
        move = _up(filters * strip * groups, array.sum_bus)
        column_macs = in_filters * in_channels
        load = _up(filters * channels * rows * columns * groups, array.filter_bus)
        # First step: columns are worked on as they come, and those of the second step come as well.
        first = max(bring + columns * column_macs, columns * bring + column_macs, move)
        if Q > 1:
            first = max(first, (columns + new_columns) * bring)
        rest = max(columns * column_macs, new_columns * bring, move) * max(Q - 2, 0)
        if Q > 1:
            rest += max(columns * column_macs, move)
        drain = move + rows * _up(channels, in_channels) - 1
        cycles += times * n_strips * B * (first + rest + drain)
        # Filters are loaded for the first strip, which is a full one unless there is one strip only.
        if last >> 5 & 1 == 0 or _up(P, e) == 1:
            cycles += times * (max(first, load + columns * column_macs) - first)
            filter_copies += times * filters * channels * rows * columns * groups * strip
        busy += times * n_strips * B * Q * columns * column_macs
        words = times * n_strips * B * (columns + (Q - 1) * new_columns)
        inputs += words * per_column
        input_copies += words * strip * rows * channels * groups * min(t, filters)
    outputs = G * B * K * P * Q
    additions = _up(C, q * r) * _up(R, kernel_rows) * _up(S, kernel_columns)
    return cycles, WordCounts(
        inputs, G * C * K * R * S, outputs * additions, outputs * (additions - 1), filter_copies, input_copies, busy
    )


@kernel
def _least_cycles(shape: ConvolutionShape, mapping: RowMapping, array: RowArray) -> int:
    """A bound on :func:`run_passes` from below: multiplications or sums, and the sums of each pass's last column."""
    e, p, q, r, t, u = mapping
    G, B, C, K, P, Q, R, S, _, _ = laid_out(shape, e)
    filters_before, channels_before = _up(K, p * t) - 1, _up(C, q * r) - 1
    steps = _up(G, u) * B * _up(P, e) * Q * _up(R, array.rows) * S
    steps *= filters_before * p + _up(K - filters_before * p * t, t)
    steps *= channels_before * q + _up(C - channels_before * q * r, r)
    additions = (channels_before + 1) * _up(R, array.rows) * _up(S, array.input_words)
    sums = G * B * K * P * additions
    return max(steps, sums * Q // array.sum_bus) + sums // array.sum_bus


@kernel
def find_mapping(shape: ConvolutionShape, array: RowArray) -> tuple[int, RowMapping]:
    """The best mapping and its cycles; cycles -1 where an element cannot hold a single filter and channel."""
    kernel_rows = _up(shape.kernel_rows, _up(shape.kernel_rows, array.rows))
    kernel_columns = _up(shape.kernel_columns, _up(shape.kernel_columns, array.input_words))
    vertical = array.rows // kernel_rows
    high = shape.batch * shape.rows * shape.columns if _is_pointwise(shape) else shape.rows
    best = RowMapping(1, 1, 1, 1, 1, 1)
    best_cycles = -1
    best_words = 0
    # Twice through all: for the mapping with the lowest bound, and then for those that may be better than it.
    promising = best
    least = -1
    for trial in range(2 * min(high, vertical * array.columns)):
        second, e = trial // min(high, vertical * array.columns), trial % min(high, vertical * array.columns) + 1
        if second and least < 0:
            break
        if second and best_cycles < 0:
            best = promising
            best_cycles, words = run_passes(shape, best, array)
            best_words = words.inputs + words.filters + words.sums_out + words.sums_in
        if e > 1 and _up(high, e) == _up(high, e - 1):
            continue  # as many strips with fewer rows each
        across, stacked = max(array.columns // e, 1), vertical // _up(e, array.columns)
        for q in range(1, min(array.input_words // kernel_columns, shape.channels) + 1):
            most_p = min(array.sum_words, array.filter_words // (q * kernel_columns))
            if most_p < 1 or (q > 1 and _up(shape.channels, q) == _up(shape.channels, q - 1)):
                continue
            most_r = min(stacked, _up(shape.channels, q))
            for r in range(1, most_r + 1):
                sets = across * (stacked // r)  # on filters or groups
                if r < most_r and stacked // (r + 1) == stacked // r:
                    continue  # as many of them with more on channels
                t = min(sets, shape.filters)
                p = min(most_p, _up(shape.filters, t))
                t = min(t, _up(shape.filters, p))
                mapping = RowMapping(e, p, q, r, t, min(shape.groups, sets // t))
                bound = _least_cycles(shape, mapping, array)
                if not second:
                    if least < 0 or bound < least:
                        promising, least = mapping, bound
                    continue
                if bound > best_cycles:
                    continue
                cycles, words = run_passes(shape, mapping, array)
                moved = words.inputs + words.filters + words.sums_out + words.sums_in
                if cycles < best_cycles or (cycles == best_cycles and moved < best_words):
                    best, best_cycles, best_words = mapping, cycles, moved
    return best_cycles, best
