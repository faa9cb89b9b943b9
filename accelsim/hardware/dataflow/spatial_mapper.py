"""The mapper of the SoMa paper: tiles split over a grid of dot-product blocks, the split of least energy x time.

The machine, and what is peculiar to the paper, are described in :mod:`accelsim.hardware.dataflow.spatial_cores`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.hardware.dataflow.dataflow import FloatTable, IntColumn, TileColumns
from accelsim.jit import kernel


class Grid(NamedTuple):
    """The numbers of a :class:`SpatialCores` that its kernel reads."""

    rows: int
    columns: int
    vector_length: int
    lanes: int
    input_entries: int
    """Vectors of ``vector_length`` bytes in the input buffer."""
    weight_entries: int
    """Vectors of ``vector_length`` bytes in the weight buffer of one lane."""
    output_entries: int
    """Positions, of one byte a lane, in the output buffer."""
    bandwidth_numerator: int
    bandwidth_denominator: int
    """The global buffer's read bandwidth in bytes per cycle is numerator / denominator."""
    attention_skips_bandwidth: int


class AccessCosts(NamedTuple):
    """Picojoules per multiply-accumulate, and per byte read from or written to each buffer."""

    mac: float
    global_read: float
    global_write: float
    input_read: float
    input_write: float
    weight_read: float
    weight_write: float
    output_read: float
    output_write: float
    accumulator_read: float
    accumulator_write: float


# The six spatial mappings: the dimension split over the grid's rows, and the one split over its columns.
_BATCH, _CHANNELS, _FILTERS, _ROWS, _COLUMNS = range(5)
_OVER_ROWS = (_CHANNELS, _CHANNELS, _BATCH, _CHANNELS, _ROWS, _ROWS)
_OVER_COLUMNS = (_FILTERS, _BATCH, _FILTERS, _COLUMNS, _FILTERS, _COLUMNS)


@kernel
def _ceil_divide(a: int, b: int) -> int:
    return -(-a // b)


@kernel
def _split(mapping: int, dimension: int, grid: Grid) -> int:
    """Over how many processing elements a mapping splits a dimension."""
    if _OVER_ROWS[mapping] == dimension:
        return grid.rows
    if _OVER_COLUMNS[mapping] == dimension:
        return grid.columns
    return 1


@kernel
def _kept(positions: int, kernel: int, window: int, stride: int) -> int:
    """Input rows (or columns) that an element keeps for neighbouring positions; of a dilated kernel, what taps read."""
    span = (positions - 1) * stride + window
    return min(span, positions * kernel) if window > kernel else span


@kernel
def _fitting(rows: int, kernel: int, window: int, stride: int) -> int:
    """Positions for which that is at most ``rows``; below 1 where none fits."""
    fitting = (rows - window) // stride + 1
    return max(fitting, rows // kernel) if window > kernel else fitting


@kernel
def _map_group(
    shape: tuple[int, ...], passes: int, repeats: int, grid: Grid, costs: AccessCosts, best: FloatTable
) -> int:
    """Maps one group of a tile; writes the energy of all ``repeats`` groups, by part, to ``best``, and behind it the
    bytes that they read through the global buffer's port, and read from and write to each buffer, in their order.

    ``shape`` is (batch, channels, filters, rows, columns, kernel_rows, kernel_columns, window_rows, window_columns,
    stride_rows, stride_columns, side_by_side, skips_bandwidth). Returns the cycles of all ``passes``, or -1 when no
    mapping fits.
    """
    B, C, K, H, W, R, S, wH, wW, sH, sW, side_by_side, skips_bandwidth = shape
    best_product = np.inf
    best_cycles = -1
    weights, outputs = R * S * C * K, B * H * W * K
    macs = outputs * C * R * S
    for mapping in range(6):
        p_b, p_c = _split(mapping, _BATCH, grid), _split(mapping, _CHANNELS, grid)
        p_k, p_h, p_w = _split(mapping, _FILTERS, grid), _split(mapping, _ROWS, grid), _split(mapping, _COLUMNS, grid)
        TC, TK = _ceil_divide(C, grid.vector_length * p_c), _ceil_divide(K, grid.lanes * p_k)
        TB, TH, TW = _ceil_divide(B, p_b), _ceil_divide(H, p_h), _ceil_divide(W, p_w)
        compute_cycles = TC * TK * TH * TW * TB * R * S
        held_inputs, held_outputs = grid.input_entries // TC, grid.output_entries
        held_filters = grid.weight_entries // (R * S * TC)
        if held_outputs == 0 or held_filters == 0 or held_inputs // R < S:
            continue
        NK = _ceil_divide(TK, min(TK, held_filters))
        copies = p_h * p_w * p_b
        input_columns = W + (wW - sW) * (p_w - 1)
        output_writes = macs // C * TC * p_c
        # Block of one pass: block_columns x block_rows output positions, as the input and output buffers can hold.
        last_rows = 0
        for block_columns in range(
            min(_fitting(held_inputs // _kept(1, R, wH, sH), S, wW, sW), held_outputs, TW), 0, -1
        ):
            block_rows = min(
                held_outputs // block_columns,
                _fitting(held_inputs // _kept(block_columns, S, wW, sW), R, wH, sH),
                TH,
            )
            if block_rows == last_rows:
                continue
            last_rows = block_rows
            NH, NW = _ceil_divide(TH, block_rows), _ceil_divide(TW, block_columns)
            input_rows = H + (wH - sH) * ((1 if NW == 1 else NH) * p_h - 1)
            inputs = input_rows * input_columns * C * B * NK
            global_reads = inputs + weights

            cycles = compute_cycles
            if not skips_bandwidth:
                wait = _ceil_divide(global_reads * side_by_side * grid.bandwidth_denominator, grid.bandwidth_numerator)
                cycles = max(cycles, wait)
            cycles *= passes
            mac_pj = costs.mac * macs
            global_pj = costs.global_read * global_reads + costs.global_write * outputs
            input_pj = costs.input_read * (macs // K * TK * p_k) + costs.input_write * (inputs * p_k)
            if global_pj < 0 or input_pj < 0:  # beyond the kernel, SoMa's count of input rows may fall below none
                continue
            weight_pj = costs.weight_read * (weights * NW * NH * TB * copies) + costs.weight_write * (weights * copies)
            output_pj = costs.output_read * (output_writes + p_c * outputs) + costs.output_write * output_writes
            accumulator_pj = (costs.accumulator_read + costs.accumulator_write) * outputs
            total_pj = mac_pj + global_pj + input_pj + weight_pj + output_pj + accumulator_pj
            product = total_pj * repeats * cycles
            if product < best_product:
                best_product = product
                best_cycles = cycles
                best[0], best[1], best[2] = mac_pj * repeats, global_pj * repeats, input_pj * repeats
                best[3], best[4], best[5] = weight_pj * repeats, output_pj * repeats, accumulator_pj * repeats
                best[6] = 0 if skips_bandwidth else global_reads * repeats
                best[7], best[8] = global_reads * repeats, outputs * repeats
                best[9], best[10] = macs // K * TK * p_k * repeats, inputs * p_k * repeats
                best[11], best[12] = weights * NW * NH * TB * copies * repeats, weights * copies * repeats
                best[13], best[14] = (output_writes + p_c * outputs) * repeats, output_writes * repeats
                best[15], best[16] = outputs * repeats, outputs * repeats
    return best_cycles


@kernel
def map_tiles(
    repeats: IntColumn, nests: TileColumns, grid: Grid, costs: AccessCosts, cycles: IntColumn, best: FloatTable
) -> int:
    """Fills ``cycles`` (tiles,) and ``best`` (tiles, 6 energies, the bytes through the port, and those read from and
    written to each of the 5 buffers); returns the first tile without a mapping, or -1."""
    for i in range(repeats.shape[0]):
        channels, filters, kernel_rows, kernel_columns = (
            nests.channels[i],
            nests.filters[i],
            nests.kernel_rows[i],
            nests.kernel_columns[i],
        )
        side_by_side = 1
        if repeats[i] > 1:
            side_by_side = max(1, min(grid.vector_length // channels, grid.lanes // filters, repeats[i]))
        shape = (
            nests.batch[i],
            channels,
            filters,
            nests.rows[i],
            nests.columns[i],
            kernel_rows,
            kernel_columns,
            (kernel_rows - 1) * nests.dilation_rows[i] + 1,
            (kernel_columns - 1) * nests.dilation_columns[i] + 1,
            nests.stride_rows[i],
            nests.stride_columns[i],
            side_by_side,
            nests.weights_from_operator[i] * grid.attention_skips_bandwidth,
        )
        cycles[i] = _map_group(shape, _ceil_divide(repeats[i], side_by_side), repeats[i], grid, costs, best[i])
        if cycles[i] < 0:
            return i
    return -1
