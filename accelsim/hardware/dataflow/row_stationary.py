"""A spatial array whose processing elements each convolve rows: Eyeriss.

After Y.-H. Chen, J. Emer, V. Sze, ISCA 2016 (the dataflow) and Y.-H. Chen, T. Krishna, J. Emer, V. Sze, JSSC 52(1),
2017 (the chip). A *set* of kernel rows x output rows elements makes one two-dimensional convolution: a filter row is
shared by the elements of a row, an input row by those of a diagonal, and sums move up a column. A set wider than
the array is cut into segments that lie below one another; where there is room, further sets work on other channels
(below one another, as their sums are added), other filters, or other groups. In an element, ``p`` filters and ``q``
channels are interleaved.

Names as in the papers: strips of ``e`` output rows, ``p`` filters and ``q`` channels in an element, ``r`` sets on
different channels, ``t`` on different filters; here also ``u`` on different groups. A *pass* makes one strip of
``p t`` filters from ``q r`` channels. Its filters are loaded when they differ from those of the pass before; then it
goes on in *steps*, one output column each, in lockstep:

* a step multiplies for p x q x kernel columns cycles, while sums move between array and global buffer, each way by a
  bus of its own, and the input bus brings the columns that the next step adds;
* the first step begins as soon as the first of its columns is there, and filters are;
* behind the last step its sums leave: up through the set's rows, then over the bus.

A kernel with more rows than the array, or more columns than an element's input store, is cut; the parts add up like
channels. A product of matrices and a 1 x 1 convolution with stride 1 is one image whose positions may be arranged
freely: ``e`` of them lie on the array, the others follow as columns, the last of which is filled up with zeros.
The mapping is the one of least cycles, and among these of fewest words from and to the global buffer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self

import numpy as np

from accelsim.errors import MappingError
from accelsim.hardware.buffer import Buffer, BufferFields, OptionallyPortedBufferFields
from accelsim.hardware.dataflow.dataflow import (
    MOST_MACS,
    Dataflow,
    FloatTable,
    IntColumn,
    PEArrayFields,
    TileColumns,
    TileCosts,
    checked_tiles,
    tile_text,
)
from accelsim.hardware.fields import Count
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
def _laid_out(shape: ConvolutionShape, e: int) -> ConvolutionShape:
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
    G, B, C, K, P, Q, R, S, row_stride, column_stride = _laid_out(shape, e)
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
    """A bound on :func:`run_passes` from below: multiplications alone, and sums alone."""
    e, p, q, r, t, u = mapping
    G, B, C, K, P, Q, R, S, _, _ = _laid_out(shape, e)
    filters_before, channels_before = _up(K, p * t) - 1, _up(C, q * r) - 1
    steps = _up(G, u) * B * _up(P, e) * Q * _up(R, array.rows) * S
    steps *= filters_before * p + _up(K - filters_before * p * t, t)
    steps *= channels_before * q + _up(C - channels_before * q * r, r)
    additions = (channels_before + 1) * _up(R, array.rows) * _up(S, array.input_words)
    return max(steps, G * B * K * P * Q * additions // array.sum_bus)


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
    for e in range(1, min(high, vertical * array.columns) + 1):
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
                if best_cycles >= 0 and _least_cycles(shape, mapping, array) > best_cycles:
                    continue
                cycles, words = run_passes(shape, mapping, array)
                moved = words.inputs + words.filters + words.sums_out + words.sums_in
                if best_cycles < 0 or cycles < best_cycles or (cycles == best_cycles and moved < best_words):
                    best, best_cycles, best_words = mapping, cycles, moved
    return best_cycles, best


@kernel
def map_tiles(tiles: TileColumns, array: RowArray, cycles: IntColumn, words: IntColumn) -> int:
    """Fills ``cycles`` (tiles,) and ``words`` (tiles, len(WordCounts)); returns the first tile without a mapping, or
    -1."""
    for i in range(tiles.batch.shape[0]):
        filters, batch, groups = tiles.filters[i], tiles.batch[i], 1
        if tiles.groups[i] > 1 and filters > tiles.filters_per_group[i]:
            groups = _up(filters, tiles.filters_per_group[i])
            filters = tiles.filters_per_group[i]
        if tiles.weights_from_operator[i]:  # every sample has its own weights
            groups *= batch
            batch = 1
        shape = ConvolutionShape(
            groups,
            batch,
            tiles.channels[i] // tiles.groups[i],
            filters,
            tiles.rows[i],
            tiles.columns[i],
            tiles.kernel_rows[i],
            tiles.kernel_columns[i],
            tiles.stride_rows[i],
            tiles.stride_columns[i],
        )
        found, mapping = find_mapping(shape, array)
        if found < 0:
            return i
        cycles[i], counts = run_passes(shape, mapping, array)
        words[i, 0], words[i, 1], words[i, 2] = counts.inputs, counts.filters, counts.sums_out
        words[i, 3], words[i, 4], words[i, 5] = counts.sums_in, counts.filter_copies, counts.input_copies
        words[i, 6] = counts.busy
    return -1


class RowStationaryFields(PEArrayFields):
    """A template's ``pe_array`` section for ``row_stationary``; buses carry words a cycle."""

    word_bytes: Count = 1
    input_bus_words: Count
    filter_bus_words: Count
    sum_bus_words: Count


@dataclass(frozen=True)
class RowStationary(Dataflow):
    """Eyeriss' array, mapped tile by tile."""

    array: RowArray
    word_bytes: int
    """Bytes of inputs, filters and sums alike."""
    mac_pj: float
    buffers: Mapping[str, Buffer]

    pe_array_fields = RowStationaryFields
    buffer_fields: ClassVar[Mapping[str, type[BufferFields]]] = {
        "global": OptionallyPortedBufferFields,
        "filter": BufferFields,
        "input": BufferFields,
        "sum": BufferFields,
    }
    parts = ("mac", "buffer.global", "buffer.filter", "buffer.input", "buffer.sum")

    @classmethod
    def from_template(cls, pe_array: PEArrayFields, buffers: Mapping[str, Buffer]) -> Self:
        """Array and stores from the template's fields."""
        assert isinstance(pe_array, RowStationaryFields)
        size = pe_array.word_bytes
        array = RowArray(
            rows=pe_array.rows,
            columns=pe_array.columns,
            filter_words=buffers["filter"].capacity_bytes // size,
            input_words=max(buffers["input"].capacity_bytes // size, 1),
            sum_words=buffers["sum"].capacity_bytes // size,
            filter_bus=pe_array.filter_bus_words,
            input_bus=pe_array.input_bus_words,
            sum_bus=pe_array.sum_bus_words,
        )
        return cls(array, size, float(pe_array.mac_energy), buffers)

    @property
    def macs_per_cycle(self) -> int:
        """One for every element."""
        return self.array.rows * self.array.columns

    def cost(self, tiles: TileColumns) -> TileCosts:
        """Each tile's best mapping, bounded below by what the buffer's read port delivers, if it has a bandwidth."""
        tiles, cycles, words = self._map(tiles)
        reads, writes = self._words(tiles, words)
        if rate := self.buffers["global"].read_bytes_per_cycle:
            read_bytes = reads["global"] * self.word_bytes
            cycles = np.maximum(cycles, -(-read_bytes * rate.denominator // rate.numerator))
        energy_pj = [self.mac_pj * reads["sum"]]
        for name, buffer in self.buffers.items():
            of_words = buffer.read_pj_per_byte * reads[name] + buffer.write_pj_per_byte * writes[name]
            energy_pj.append(of_words * self.word_bytes)
        return TileCosts(cycles, np.stack(energy_pj, axis=1))

    def accessed_bytes(self, tiles: TileColumns) -> Mapping[str, tuple[IntColumn, IntColumn]]:
        """See :meth:`Dataflow.accessed_bytes`, of each tile's best mapping."""
        tiles, _, words = self._map(tiles)
        reads, writes = self._words(tiles, words)
        return {name: (reads[name] * self.word_bytes, writes[name] * self.word_bytes) for name in self.buffer_fields}

    def _words(self, tiles: TileColumns, words: IntColumn) -> tuple[dict[str, IntColumn], dict[str, IntColumn]]:
        """Words read from and written to each buffer; a multiplication reads and writes its sum once."""
        inputs, filters, sums_out, sums_in, filter_copies, input_copies, _ = words.T
        macs = self._macs(tiles)
        reads = {"global": inputs + filters + sums_in, "filter": macs, "input": macs, "sum": macs}
        return reads, {"global": sums_out, "filter": filter_copies, "input": input_copies, "sum": macs}

    def mapping_efficiency(self, tiles: TileColumns) -> FloatTable:
        """MACs over what all elements could make while those with work multiply."""
        tiles, _, words = self._map(tiles)
        efficiency: FloatTable = self._macs(tiles) / (words[:, 6] * float(self.macs_per_cycle))
        return efficiency

    @staticmethod
    def _macs(tiles: TileColumns) -> IntColumn:
        groups = np.where(tiles.groups > 1, -(-tiles.filters // tiles.filters_per_group), 1)
        per_group = np.where(tiles.groups > 1, np.minimum(tiles.filters, tiles.filters_per_group), tiles.filters)
        macs: IntColumn = tiles.batch * groups * per_group * (tiles.channels // tiles.groups)
        for column in (tiles.rows, tiles.columns, tiles.kernel_rows, tiles.kernel_columns):
            macs = macs * column
        return macs

    def port_bytes(self, tiles: TileColumns) -> IntColumn:
        """Inputs, filters, and sums read back, of each tile's best mapping."""
        words = self._map(tiles)[2]
        read_bytes: IntColumn = (words[:, 0] + words[:, 1] + words[:, 3]) * self.word_bytes
        return read_bytes

    def _map(self, tiles: TileColumns) -> tuple[TileColumns, IntColumn, IntColumn]:
        """The tiles, checked, and what :func:`map_tiles` writes down; equal tiles are mapped once."""
        rate = self.buffers["global"].read_bytes_per_cycle or Fraction(1)
        headroom = self.array.rows * self.array.columns * self.word_bytes * rate.denominator * 8
        tiles = checked_tiles(tiles, min(MOST_MACS, (1 << 62) // headroom))
        distinct, inverse = np.unique(np.stack(tiles, axis=1), axis=0, return_inverse=True)
        columns = TileColumns(*(np.ascontiguousarray(column) for column in distinct.T))
        cycles: IntColumn = np.empty(len(distinct), np.int64)
        words: IntColumn = np.empty((len(distinct), len(WordCounts._fields)), np.int64)
        failed = int(map_tiles(columns, self.array, cycles, words))
        if failed >= 0:
            raise MappingError(
                f"no mapping fits tile {tile_text(columns, failed)}: an element needs room for one row of a filter, of "
                f"which at most {self.array.input_words} words are worked on at once (buffers.filter holds "
                f"{self.array.filter_words} words), and for one sum (buffers.sum holds {self.array.sum_words}). Raise "
                "what is short."
            )
        inverse = inverse.reshape(-1)
        return tiles, cycles[inverse], words[inverse]


def best_mapping(dataflow: RowStationary, shape: ConvolutionShape) -> RowMapping:
    """The mapping that :meth:`RowStationary.cost` takes. Raises :class:`MappingError` where none fits."""
    cycles, mapping = find_mapping(shape, dataflow.array)
    if cycles < 0:
        raise MappingError(f"no mapping fits {shape} on {dataflow.array}")
    return RowMapping(*mapping)
