"""What all systolic arrays share: a tile as a product, a product as folds, and how folds follow one another.

A tile is a matrix product of M output positions (batch x rows x columns) by N filters over K terms (channels of a group
x kernel). Two of the three lie on the array's rows and columns, the third streams past. What does not fit onto the
array is cut into *folds*, column folds outside, row folds inside. In a fold of r rows and c columns the element at
(i, j) works on item t of the stream in cycle i + j + t after the stream's start.

All registers are clocked: a value latched at the end of a cycle is used from the next one on, and the one that it
replaces may still be used in that cycle. Each row has one port for what streams in, each column one for what comes
from the top and one for what leaves at the bottom. The stepping twins in ``tests/naive`` are this machine, element by
element.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np

from accelsim.hardware.buffer import BankedBufferFields, Buffer, BufferFields
from accelsim.hardware.dataflow.dataflow import (
    PARTIAL_SUM_BYTES,
    Dataflow,
    FloatTable,
    IntColumn,
    PEArrayFields,
    TileColumns,
    TileCosts,
    checked_tiles,
)
from accelsim.hardware.dataflow.products import Placement, Products, matrix_products
from accelsim.hardware.dataflow.systolic_activity import active_elements
from accelsim.hardware.dataflow.wavefronts import Matrices
from accelsim.hardware.fields import Count, FieldMistake, Flag
from accelsim.hardware.ports import PortUse, Words, port_use


class SystolicFields(PEArrayFields):
    """A template's ``pe_array`` section for a systolic array."""

    counting: Literal["causal", "scalesim"] = "causal"
    arrays: Count = 1
    compact_edge_folds: Flag = False
    fold_overlap: Flag = False


class Accesses(NamedTuple):
    """Accesses to the global buffer, in elements, one row a tile; what streams in twice is read twice."""

    input_reads: IntColumn
    weight_reads: IntColumn
    output_writes: IntColumn
    """Complete results, and sums to which later row folds still add."""
    partial_sum_reads: IntColumn
    """Such sums, read back; each has been written once. SCALE-Sim does not count them."""


@dataclass(frozen=True)
class SystolicArray(Dataflow):
    """A grid of multiply-accumulate elements, each joined to its neighbours only."""

    rows: int
    columns: int
    counting: Literal["causal", "scalesim"]
    """``causal``: as the hardware must; ``scalesim``: as SCALE-Sim v3.0.0 counts, each operator one tile."""
    mac_pj: float
    buffer: Buffer
    compact_edge_folds: bool = False
    """A fold that fills only a part of the array runs as on an array of that size: the rest is bypassed.

    With ``fold_overlap`` that may cost more than it saves: a fold of few rows waits for the sums of those ahead of it.
    """
    fold_overlap: bool = False
    """A fold starts while outputs of the one before it are on their way, as early as registers and ports allow."""
    sum_bytes: int = PARTIAL_SUM_BYTES
    """Of a sum that later folds still add to."""
    arrays: int = 1
    """Arrays that share out a tile's positions, filters or products, whichever is done first; each reads for itself."""

    pe_array_fields = SystolicFields
    buffer_fields: ClassVar[Mapping[str, type[BufferFields]]] = {"global": BankedBufferFields}
    parts = ("mac", "buffer.global")
    switches: ClassVar[tuple[str, ...]] = ("compact_edge_folds", "fold_overlap")
    """Fields of the template that SCALE-Sim's counting does not know."""

    @classmethod
    def from_template(cls, pe_array: PEArrayFields, buffers: Mapping[str, Buffer]) -> Self:
        """Array and buffer from the template's fields.

        Raises :class:`FieldMistake` for a switch that SCALE-Sim's counting does not know.
        """
        assert isinstance(pe_array, SystolicFields)
        switches = {name: getattr(pe_array, name) for name in cls.switches}
        if pe_array.arrays > 1 and pe_array.counting == "scalesim":
            raise FieldMistake(
                ("pe_array", "arrays"),
                f"found {pe_array.arrays}; SCALE-Sim has one: set it to 1, or counting to causal",
            )
        for name, on in switches.items():
            if on and pe_array.counting == "scalesim":
                raise FieldMistake(
                    ("pe_array", name),
                    "found True; SCALE-Sim has no such array: set it to false, or pe_array.counting to causal",
                )
        if pe_array.counting == "scalesim" and buffers["global"].ports:
            raise FieldMistake(("buffers", "global", "ports"), "SCALE-Sim has none: set pe_array.counting to causal")
        return cls(
            rows=pe_array.rows,
            columns=pe_array.columns,
            counting=pe_array.counting,
            mac_pj=float(pe_array.mac_energy),
            buffer=buffers["global"],
            sum_bytes=pe_array.sum_bytes,
            arrays=pe_array.arrays,
            **switches,
        )

    @property
    def macs_per_cycle(self) -> int:
        """One for every element of all arrays."""
        return self.rows * self.columns * self.arrays

    @property
    def one_tile_per_operator(self) -> bool:
        """SCALE-Sim never cuts a layer."""
        return self.counting == "scalesim"

    @abstractmethod
    def place(self, products: Products) -> Placement:
        """What lies where."""

    @abstractmethod
    def lead(self, rows: IntColumn) -> IntColumn:
        """Cycles before the first stream may start, when its fold has so many rows."""

    @abstractmethod
    def length(self, fold: Placement) -> IntColumn:
        """Cycles from the start of a fold's stream until its last output has left."""

    @abstractmethod
    def interval(self, fold: Placement, next_rows: IntColumn) -> IntColumn:
        """Cycles from the start of a fold's stream to that of the next fold's, which has ``next_rows`` rows."""

    @abstractmethod
    def _accesses(self, products: Products) -> Accesses:
        """See :meth:`accesses`."""

    @abstractmethod
    def _streams(self, matrices: Matrices, products: Products) -> tuple[Words, Words]:
        """Words read and written of one product, in all its folds."""

    def cost(self, tiles: TileColumns) -> TileCosts:
        """The closed forms, bounded below by what the buffer's read port delivers."""
        products = self._products(tiles)
        accesses = self._accesses(products)
        read_bytes, written_bytes = self._read_bytes(accesses), self._written_bytes(accesses)
        use = self._port_use(tiles, products)
        cycles, buffer_pj = self.buffer.bounded(self.shared_cycles(products), read_bytes, written_bytes, use)
        macs = products.repeats * products.M * products.N * products.K
        energy_pj: FloatTable = np.stack([self.mac_pj * macs, buffer_pj, *self._accumulator_pj(products)], axis=1)
        return TileCosts(cycles, energy_pj)

    def _accumulator_pj(self, products: Products) -> list[FloatTable]:
        """One column if there is an accumulator, else none."""
        return []

    def port_use(self, tiles: TileColumns) -> PortUse | None:
        """See :meth:`Dataflow.port_use`."""
        return self._port_use(tiles, self._products(tiles))

    def _port_use(self, tiles: TileColumns, products: Products) -> PortUse | None:
        ports = self.buffer.ports
        if ports is None:
            return None
        matrices = Matrices(*products[1:], checked_tiles(tiles), ports)
        reads, writes = (words.times(products.repeats) for words in self._streams(matrices, products))
        accesses = self._accesses(products)
        wanted = self._read_bytes(accesses) + self._written_bytes(accesses)
        return port_use(ports, reads, writes, wanted)

    def with_terms(self, tiles: TileColumns, terms: IntColumn) -> TileColumns:
        """See :meth:`Dataflow.with_terms`: exactly so many, since a tile is a matrix product here."""
        one = np.ones_like(terms)
        return tiles._replace(
            channels=terms * tiles.groups, kernel_rows=one, kernel_columns=one, stride_rows=one, stride_columns=one
        )

    def port_bytes(self, tiles: TileColumns) -> IntColumn:
        """See :meth:`Dataflow.port_bytes`: all reads pass the port."""
        return self._read_bytes(self.accesses(tiles))

    def accessed_bytes(self, tiles: TileColumns) -> Mapping[str, tuple[IntColumn, IntColumn]]:
        """See :meth:`Dataflow.accessed_bytes`."""
        accesses = self.accesses(tiles)
        return {"global": (self._read_bytes(accesses), self._written_bytes(accesses))}

    def products(self, tiles: TileColumns) -> Products:
        """Tiles as matrix products. Raises as :meth:`cost` does."""
        return self._products(tiles)

    def accesses(self, tiles: TileColumns) -> Accesses:
        """Accesses of each tile to the global buffer. Raises as :meth:`cost` does."""
        return self._accesses(self._products(tiles))

    def mapping_efficiency(self, tiles: TileColumns) -> FloatTable:
        """The share of the array's elements that a tile's folds use, in the mean. Raises as :meth:`cost` does."""
        on = self.place(self._products(tiles))
        row_folds, column_folds = self.fold_counts(on)
        efficiency: FloatTable = on.rows * on.columns / (row_folds * self.rows * (column_folds * self.columns))
        return efficiency

    def _products(self, tiles: TileColumns) -> Products:
        rate = self.buffer.read_bytes_per_cycle or Fraction(0)
        # Edge folds count as full ones, so cycles may exceed MACs by 2 rows + columns; partial sums have up to 8 bytes.
        headroom = (2 * self.rows + self.columns + 6) * max(rate.denominator, 2)
        headroom = max(headroom, self.buffer.most_bytes_an_access)
        return matrix_products(checked_tiles(tiles, (1 << 62) // headroom))

    def activity(self, tile: TileColumns) -> IntColumn:
        """See :meth:`Dataflow.activity`."""
        repeats, M, N, K = (size.item() for size in self.products(tile))
        return active_elements(self, M, N, K, repeats)

    def fold_counts(self, on: Placement) -> tuple[IntColumn, IntColumn]:
        """Row folds and column folds of one product."""
        return -(-on.rows // self.rows), -(-on.columns // self.columns)

    def shared_cycles(self, products: Products) -> IntColumn:
        """Cycles of the array with the largest share, under the best way to share out."""
        cycles: IntColumn = np.minimum.reduce([self.cycles(share) for share in self.ways_to_share(products)])
        return cycles

    def ways_to_share(self, products: Products) -> tuple[Products, ...]:
        """The largest share of the arrays: where they share out positions, filters, or whole products."""
        if self.arrays == 1:
            return (products,)
        return tuple(
            products._replace(**{name: -(-getattr(products, name) // self.arrays)}) for name in ("M", "N", "repeats")
        )

    def cycles(self, products: Products) -> IntColumn:
        """From the first operand of the first fold to the last output, over all products of a tile.

        Folds have at most two heights and two widths, first and last; so their intervals come in few kinds, which are
        counted. Within a column fold outputs leave in order, but a narrow last column fold may be done before the wide
        one ahead of it.
        """
        on = self.place(products)
        row_folds, column_folds = self.fold_counts(on)
        top, bottom = self._extents(on.rows, self.rows, row_folds)
        left, right = self._extents(on.columns, self.columns, column_folds)

        def down(columns: IntColumn) -> IntColumn:
            """From the start of a column fold's first row fold to that of its last."""
            fold = Placement(top, columns, on.stream)
            full: IntColumn = np.maximum(row_folds - 2, 0)
            edge: IntColumn = np.minimum(row_folds - 1, 1)
            return full * self.interval(fold, top) + edge * self.interval(fold, bottom)

        last_of_wide, last = Placement(bottom, left, on.stream), Placement(bottom, right, on.stream)
        to_next_column = self.interval(last_of_wide, top)
        product = (column_folds - 1) * (down(left) + to_next_column) + down(right)
        last_start = self.lead(top) + products.repeats * product + (products.repeats - 1) * self.interval(last, top)
        wide_start = last_start - down(right) - to_next_column
        wide_end = np.where(column_folds > 1, wide_start + self.length(last_of_wide), 0)
        end: IntColumn = np.maximum(last_start + self.length(last), wide_end)
        return end

    def _read_bytes(self, accesses: Accesses) -> IntColumn:
        return accesses.input_reads + accesses.weight_reads + self.sum_bytes * accesses.partial_sum_reads

    def _written_bytes(self, accesses: Accesses) -> IntColumn:
        """Results have a byte, the sums among them more."""
        return accesses.output_writes + (self.sum_bytes - 1) * accesses.partial_sum_reads

    def _extents(self, size: IntColumn, array: int, folds: IntColumn) -> tuple[IntColumn, IntColumn]:
        """Rows (or columns) that the first and the last fold take."""
        if self.compact_edge_folds:
            return np.minimum(size, array), size - (folds - 1) * array
        whole = np.full_like(size, array)
        return whole, whole
