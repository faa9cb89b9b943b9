"""An array that computes in its memory: weights stay in the cells, inputs come bit by bit, columns are converted.

Cells of ``cell_bits`` lie in ``macros`` arrays of rows x columns; a weight of ``weight_bits`` takes as many
neighbouring columns as it has slices. All rows work at once: for each step of ``step_bits`` bits of the inputs, each
column gives the sum of input bits times cells, and a converter that ``columns_per_converter`` neighbouring columns
share reads them one after another, ``conversion_cycles`` each, while the array makes the sums of the next step. Sums of
slices and steps are shifted and added behind the converters, which are taken to be exact. (A survey of such designs:
N. Verma et al., "In-Memory Computing: Advances and Prospects", IEEE Solid-State Circuits Magazine 11(3), 2019.)

A tile is a product of M output positions by N filters over K terms. Terms lie on the rows, filters on the columns; what
does not fit is cut into *folds*, those over the terms first, which are dealt out to the macros round by round. In a
round all macros are written, a row in ``write_cycles``, and then take their M inputs: 1 + M x steps x conversions x
cycles. Cells are not written while they compute, and each tile writes its own. Sums of folds in one round are added on
the way; others go through the buffer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np

from accelsim.errors import UnsupportedOperator
from accelsim.hardware.buffer import BankedBufferFields, Buffer, BufferFields
from accelsim.hardware.dataflow.dataflow import (
    MOST_MACS,
    PARTIAL_SUM_BYTES,
    Dataflow,
    FloatTable,
    IntColumn,
    PEArrayFields,
    TileColumns,
    TileCosts,
    checked_tiles,
    tile_text,
)
from accelsim.hardware.dataflow.products import Products, matrix_products
from accelsim.hardware.dataflow.wavefronts import Matrices
from accelsim.hardware.fields import Count, FieldMistake
from accelsim.hardware.ports import PortUse, port_use
from accelsim.jit import kernel

MOST_FOLDS = 1 << 24
"""A tile of more folds is refused: they are gone through one by one."""


class Macros(NamedTuple):
    """The numbers of an :class:`InMemory` that its kernel reads."""

    macros: int
    rows: int
    filters: int
    """Weights in a row."""
    slices: int
    """Columns of a weight."""
    steps: int
    """Of an input."""
    columns_per_converter: int
    conversion_cycles: int
    write_cycles: int


@kernel
def count_rounds(products: Products, macros: Macros, cycles: IntColumn, additions: IntColumn) -> None:
    """Fills ``cycles`` (tiles,), and ``additions`` (2, tiles).

    These are output positions whose sums a round adds to those of an earlier one, in folds of all filters of a macro,
    and in the last folds of the filters.
    """
    for i in range(products.repeats.shape[0]):
        repeats, M, N, K = products.repeats[i], products.M[i], products.N[i], products.K[i]
        row_folds, column_folds = -(-K // macros.rows), -(-N // macros.filters)
        folds = repeats * column_folds * row_folds
        total = 0
        longest = 0
        added = 0
        added_last = 0
        for fold in range(folds):
            row, column = fold % row_folds, fold // row_folds % column_folds
            rows = min(macros.rows, K - row * macros.rows)
            filters = min(macros.filters, N - column * macros.filters)
            conversions = min(macros.columns_per_converter, filters * macros.slices)
            interval = conversions * macros.conversion_cycles
            longest = max(longest, macros.write_cycles * rows + 1 + M * macros.steps * interval)
            if row > 0 and fold % macros.macros == 0:
                if column + 1 < column_folds:
                    added += M
                else:
                    added_last += M
            if (fold + 1) % macros.macros == 0 or fold + 1 == folds:
                total += longest
                longest = 0
        cycles[i] = total
        additions[0, i] = added
        additions[1, i] = added_last


class InMemoryFields(PEArrayFields):
    """A template's ``pe_array`` section for ``in_memory``; ``mac_energy`` holds its share of a conversion."""

    counting: Literal["causal"] = "causal"
    macros: Count = 1
    weight_bits: Count = 8
    cell_bits: Count = 1
    input_bits: Count = 8
    step_bits: Count = 1
    columns_per_converter: Count = 1
    conversion_cycles: Count = 1
    write_cycles: Count = 1


@dataclass(frozen=True)
class InMemory(Dataflow):
    """Weights stay in memory cells, inputs come bit by bit, sums of columns are converted."""

    macros: Macros
    mac_pj: float
    buffer: Buffer
    sum_bytes: int = PARTIAL_SUM_BYTES

    pe_array_fields = InMemoryFields
    buffer_fields: ClassVar[Mapping[str, type[BufferFields]]] = {"global": BankedBufferFields}
    parts = ("mac", "buffer.global")

    @classmethod
    def from_template(cls, pe_array: PEArrayFields, buffers: Mapping[str, Buffer]) -> Self:
        """Macros and buffer from the template's fields.

        Raises :class:`FieldMistake` where a row is too short for one weight.
        """
        assert isinstance(pe_array, InMemoryFields)
        slices = -(-pe_array.weight_bits // pe_array.cell_bits)
        if pe_array.columns < slices:
            raise FieldMistake(
                ("pe_array", "columns"),
                f"found {pe_array.columns}; expected at least {slices}, the columns of one weight of "
                f"{pe_array.weight_bits} bits in cells of {pe_array.cell_bits}",
            )
        macros = Macros(
            macros=pe_array.macros,
            rows=pe_array.rows,
            filters=pe_array.columns // slices,
            slices=slices,
            steps=-(-pe_array.input_bits // pe_array.step_bits),
            columns_per_converter=min(pe_array.columns_per_converter, pe_array.columns),
            conversion_cycles=pe_array.conversion_cycles,
            write_cycles=pe_array.write_cycles,
        )
        return cls(macros, float(pe_array.mac_energy), buffers["global"], pe_array.sum_bytes)

    @property
    def macs_per_cycle(self) -> int:
        """All weights by one input each, in the cycles that the converters take for an input; rounded up."""
        macros = self.macros
        a_vector = macros.steps * macros.columns_per_converter * macros.conversion_cycles
        # A fold of fewer columns than share a converter takes fewer cycles and keeps no higher rate than one column a
        # converter and conversion.
        few = -(-macros.rows // (macros.steps * macros.conversion_cycles * macros.slices))
        return macros.macros * max(-(-macros.rows * macros.filters // a_vector), few)

    def cost(self, tiles: TileColumns) -> TileCosts:
        """Cycles, bounded below by what the buffer's read port delivers, if it has a bandwidth."""
        products = self._products(tiles)
        cycles, additions = self._count(products)
        read_bytes, written_bytes = self._read_bytes(products, additions), self._written_bytes(products, additions)
        use = self._port_use(tiles, products, additions)
        cycles, buffer_pj = self.buffer.bounded(cycles, read_bytes, written_bytes, use)
        macs = products.repeats * products.M * products.N * products.K
        return TileCosts(cycles, np.stack([self.mac_pj * macs, buffer_pj], axis=1))

    def port_use(self, tiles: TileColumns) -> PortUse | None:
        """See :meth:`Dataflow.port_use`."""
        products = self._products(tiles)
        return self._port_use(tiles, products, self._count(products)[1])

    def _port_use(self, tiles: TileColumns, products: Products, additions: IntColumn) -> PortUse | None:
        """A fold's inputs of a position, a row of cells, and results or sums of a position at a time."""
        ports = self.buffer.ports
        if ports is None:
            return None
        repeats, M, N, K = products
        rows, filters = self.macros.rows, self.macros.filters
        matrices = Matrices(M, N, K, checked_tiles(tiles), ports)
        column_folds = -(-N // filters)
        last = matrices._replace(N=N - (column_folds - 1) * filters)
        whole = matrices._replace(N=np.full_like(N, filters))
        sums = [
            of_fold.outputs("filters", filters, self.sum_bytes).times(positions)
            for of_fold, positions in zip((whole, last), additions, strict=True)
        ]
        spilled = sums[0].plus(sums[1])
        inputs = matrices.inputs("terms", rows).times(repeats * column_folds * M)
        weights = matrices.weights("filters", filters).times(repeats * K)
        results = matrices.outputs("filters", filters, 1).times(repeats * M)
        wanted = self._read_bytes(products, additions) + self._written_bytes(products, additions)
        return port_use(ports, inputs.plus(weights).plus(spilled), results.plus(spilled), wanted)

    def port_bytes(self, tiles: TileColumns) -> IntColumn:
        """Weights once, inputs for each fold of filters, sums that are added to."""
        products = self._products(tiles)
        return self._read_bytes(products, self._count(products)[1])

    def accessed_bytes(self, tiles: TileColumns) -> Mapping[str, tuple[IntColumn, IntColumn]]:
        """See :meth:`Dataflow.accessed_bytes`."""
        products = self._products(tiles)
        additions = self._count(products)[1]
        return {"global": (self._read_bytes(products, additions), self._written_bytes(products, additions))}

    def mapping_efficiency(self, tiles: TileColumns) -> FloatTable:
        """MACs over what the macros could make while inputs pass through them, round by round."""
        products, macros = self._products(tiles), self.macros
        repeats, M, N, K = products
        folds = repeats * -(-N // macros.filters) * -(-K // macros.rows)
        conversions = np.minimum(macros.columns_per_converter, np.minimum(N, macros.filters) * macros.slices)
        streams = -(-folds // macros.macros) * M * macros.steps * conversions * macros.conversion_cycles
        # The last round may hold narrow folds only, and then takes less than that.
        streams = np.minimum(streams, self._count(products)[0])
        efficiency: FloatTable = repeats * M * N * K / (streams * float(self.macs_per_cycle))
        return efficiency

    def _count(self, products: Products) -> tuple[IntColumn, IntColumn]:
        counts = np.empty((3, len(products.repeats)), np.int64)
        cycles, additions = counts[0], counts[1:]
        count_rounds(products, self.macros, cycles, additions)
        return cycles, additions

    def _read_bytes(self, products: Products, additions: IntColumn) -> IntColumn:
        repeats, M, N, K = products
        column_folds = -(-N // self.macros.filters)
        read_bytes: IntColumn = repeats * (K * N + column_folds * M * K) + self._sum_bytes(products, additions)
        return read_bytes

    def _written_bytes(self, products: Products, additions: IntColumn) -> IntColumn:
        """Results, and sums that are added to later."""
        written: IntColumn = products.repeats * products.M * products.N + self._sum_bytes(products, additions)
        return written

    def _sum_bytes(self, products: Products, additions: IntColumn) -> IntColumn:
        filters = self.macros.filters
        last = products.N - (-(-products.N // filters) - 1) * filters
        sums: IntColumn = self.sum_bytes * (additions[0] * filters + additions[1] * last)
        return sums

    def _products(self, tiles: TileColumns) -> Products:
        rate = self.buffer.read_bytes_per_cycle or Fraction(1)
        macros = self.macros
        a_vector = macros.steps * macros.columns_per_converter * macros.conversion_cycles + macros.write_cycles + 8
        tiles = checked_tiles(
            tiles, min(MOST_MACS, (1 << 62) // max(a_vector * rate.denominator * 8, self.buffer.most_bytes_an_access))
        )
        products = matrix_products(tiles)
        folds = products.repeats * -(-products.N // macros.filters) * -(-products.K // macros.rows)
        if (folds > MOST_FOLDS).any():
            row = int(np.argmax(folds))
            raise UnsupportedOperator(
                f"tile {tile_text(tiles, row)}: {folds[row]} folds, at most {MOST_FOLDS}; cut the operator"
            )
        return Products(*(np.ascontiguousarray(column, dtype=np.int64) for column in products))
