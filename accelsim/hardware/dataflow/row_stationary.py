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
A dilated convolution is run in phases: positions dilation / gcd(stride, dilation) apart read inputs that are a dilation
apart, so they are a convolution without dilation. Phases of one size follow one another like samples.
The mapping is the one of least cycles, and among these of fewest words from and to the global buffer, of all strips
that differ in number, all ``q``, all ``r`` that leave a different number of other sets, and as many filters as fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, Self

import numpy as np

from accelsim.errors import MappingError
from accelsim.hardware.buffer import BankedBufferFields, Buffer, BufferFields
from accelsim.hardware.dataflow.dataflow import (
    MOST_MACS,
    Dataflow,
    FloatTable,
    IntColumn,
    PEArrayFields,
    TileColumns,
    TileCosts,
    checked_tiles,
    every_cycle,
    tile_text,
)
from accelsim.hardware.dataflow.products import distinct_tiles, matrix_products, ungrouped
from accelsim.hardware.dataflow.row_passes import (
    ConvolutionShape,
    RowArray,
    RowMapping,
    WordCounts,
    find_mapping,
)
from accelsim.hardware.dataflow.row_tiles import count_active, map_tiles
from accelsim.hardware.fields import Count, FieldMistake
from accelsim.hardware.ports import LayoutFields, PortUse, Words, port_use

EYERISS_WORDS = {"filter": 224, "input": 12, "sum": 24}
"""Stores of an element that a template does not describe: as large as Eyeriss' (JSSC 2017), and free of energy."""


class RowStationaryFields(PEArrayFields):
    """A template's ``pe_array`` section for ``row_stationary``; buses carry words a cycle."""

    counting: Literal["causal"] = "causal"
    word_bytes: Count = 1
    input_bus_words: Count = 1
    filter_bus_words: Count = 4
    sum_bus_words: Count = 4


@dataclass(frozen=True)
class RowStationary(Dataflow):
    """Filter rows stay in the elements, input rows run along diagonals, sums move up the columns: Eyeriss."""

    array: RowArray
    word_bytes: int
    """Bytes of inputs, filters and sums alike."""
    mac_pj: float
    buffers: Mapping[str, Buffer]

    pe_array_fields = RowStationaryFields
    buffer_fields: ClassVar[Mapping[str, type[BufferFields]]] = {"global": BankedBufferFields}
    optional_buffer_fields: ClassVar[Mapping[str, type[BufferFields]]] = {
        "filter": BufferFields,
        "input": BufferFields,
        "sum": BufferFields,
    }
    parts = ("mac", "buffer.global")

    @classmethod
    def from_template(cls, pe_array: PEArrayFields, buffers: Mapping[str, Buffer]) -> Self:
        """Array and stores from the template's fields.

        Raises :class:`FieldMistake` for a layout: everything lies in the order in which the buses carry it.
        """
        assert isinstance(pe_array, RowStationaryFields)
        ports = buffers["global"].ports
        if ports is not None and ports.layout != LayoutFields():
            raise FieldMistake(
                ("buffers", "global", "ports", "layout"),
                "with row_stationary everything lies in the order in which the buses carry it; leave the layout out",
            )
        size = pe_array.word_bytes

        def words(name: str) -> int:
            return buffers[name].capacity_bytes // size if name in buffers else EYERISS_WORDS[name]

        array = RowArray(
            rows=pe_array.rows,
            columns=pe_array.columns,
            filter_words=words("filter"),
            input_words=max(words("input"), 1),
            sum_words=words("sum"),
            filter_bus=pe_array.filter_bus_words,
            input_bus=pe_array.input_bus_words,
            sum_bus=pe_array.sum_bus_words,
        )
        return cls(array, size, float(pe_array.mac_energy), buffers)

    @property
    def all_parts(self) -> tuple[str, ...]:
        """The array, the global buffer, and the stores that the template describes."""
        return ("mac", *(f"buffer.{name}" for name in self.buffers))

    @property
    def macs_per_cycle(self) -> int:
        """One for every element."""
        return self.array.rows * self.array.columns

    def cost(self, tiles: TileColumns) -> TileCosts:
        """Each tile's best mapping, bounded below by what the buffer's read port delivers, if it has a bandwidth."""
        tiles, cycles, words = self._map(tiles)
        reads, writes = self._words(tiles, words)
        energy_pj = [self.mac_pj * reads["sum"]]
        for name, buffer in self.buffers.items():
            read_bytes, written_bytes = reads[name] * self.word_bytes, writes[name] * self.word_bytes
            if name == "global":
                cycles, buffer_pj = buffer.bounded(cycles, read_bytes, written_bytes, self._port_use(words))
            else:
                buffer_pj = buffer.access_pj(read_bytes, written_bytes)
            energy_pj.append(buffer_pj)
        return TileCosts(cycles, np.stack(energy_pj, axis=1))

    def port_use(self, tiles: TileColumns) -> PortUse | None:
        """See :meth:`Dataflow.port_use`."""
        return self._port_use(self._map(tiles)[2])

    def _port_use(self, words: IntColumn) -> PortUse | None:
        """Each cycle of a bus takes words of its own from the buffer, where all lies in the order of the buses."""
        ports = self.buffers["global"].ports
        if ports is None:
            return None
        width = ports.width_bytes

        def taken(column: int, bus: int) -> Words:
            count = -(-words[:, column] // bus) * -(-bus * self.word_bytes // width)
            return Words(count, count)

        reads = taken(0, self.array.input_bus).plus(taken(1, self.array.filter_bus)).plus(taken(3, self.array.sum_bus))
        return port_use(ports, reads, taken(2, self.array.sum_bus), words[:, :4].sum(axis=1) * self.word_bytes)

    def accessed_bytes(self, tiles: TileColumns) -> Mapping[str, tuple[IntColumn, IntColumn]]:
        """See :meth:`Dataflow.accessed_bytes`, of each tile's best mapping."""
        tiles, _, words = self._map(tiles)
        reads, writes = self._words(tiles, words)
        return {name: (reads[name] * self.word_bytes, writes[name] * self.word_bytes) for name in self.buffers}

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
        products = matrix_products(tiles)
        macs: IntColumn = products.repeats * products.M * products.N * products.K
        return macs

    def activity(self, tile: TileColumns) -> IntColumn:
        """See :meth:`Dataflow.activity`; elements multiply zeros where positions do not fill the array."""
        tile, cycles, _ = self._map(tile)
        active = every_cycle(cycles.item())
        count_active(*ungrouped(tile), self.array, active)
        return active

    def port_bytes(self, tiles: TileColumns) -> IntColumn:
        """Inputs, filters, and sums read back, of each tile's best mapping."""
        words = self._map(tiles)[2]
        read_bytes: IntColumn = (words[:, 0] + words[:, 1] + words[:, 3]) * self.word_bytes
        return read_bytes

    def _map(self, tiles: TileColumns) -> tuple[TileColumns, IntColumn, IntColumn]:
        """The tiles, checked, and what :func:`map_tiles` writes down; equal tiles are mapped once."""
        rate = self.buffers["global"].read_bytes_per_cycle or Fraction(1)
        headroom = self.array.rows * self.array.columns * self.word_bytes * rate.denominator * 8
        headroom = max(headroom, self.buffers["global"].most_bytes_an_access * self.word_bytes)
        tiles = checked_tiles(tiles, min(MOST_MACS, (1 << 62) // headroom))
        distinct, inverse = distinct_tiles(tiles)
        cycles: IntColumn = np.empty(len(distinct.batch), np.int64)
        words: IntColumn = np.empty((len(cycles), len(WordCounts._fields)), np.int64)
        failed = int(map_tiles(*ungrouped(distinct), self.array, cycles, words))
        if failed >= 0:
            raise MappingError(
                f"no mapping fits tile {tile_text(distinct, failed)}: an element needs room for one row of a filter, "
                f"of which at most {self.array.input_words} words are worked on at once (buffers.filter holds "
                f"{self.array.filter_words} words), and for one sum (buffers.sum holds {self.array.sum_words}). Raise "
                "what is short."
            )
        return tiles, cycles[inverse], words[inverse]


def best_mapping(dataflow: RowStationary, shape: ConvolutionShape) -> RowMapping:
    """The mapping that :meth:`RowStationary.cost` takes. Raises :class:`MappingError` where none fits."""
    cycles, mapping = find_mapping(shape, dataflow.array)
    if cycles < 0:
        raise MappingError(f"no mapping fits {shape} on {dataflow.array}")
    return RowMapping(*mapping)
