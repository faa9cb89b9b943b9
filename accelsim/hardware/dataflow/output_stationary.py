"""A systolic array whose processing elements keep the outputs while inputs and weights stream past.

A tile is a matrix product of M output positions by N filters over K terms (M = batch x rows x columns, K = channels of
a group x kernel). It is cut into folds of ``rows`` positions by ``columns`` filters; folds follow one another without
overlap, and one that fills only a part of the array takes as long as a full one. In a fold the operands enter skewed by
one cycle a row (inputs) and a column (weights), so the last element, at (rows - 1, columns - 1), finishes in cycle
K + rows + columns - 2; then the outputs leave through the bottom row, one row a cycle: ``2 rows + columns + K - 2``
cycles. SCALE-Sim (v3.0.0) lets the outputs leave while operands still arrive and counts ``rows + columns + K - 2``;
``counting: scalesim`` does the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, Self

import numpy as np

from accelsim.hardware.buffer import Buffer, BufferFields, OptionallyPortedBufferFields
from accelsim.hardware.dataflow.dataflow import Dataflow, PEArrayFields, TileColumns, TileCosts, checked_tiles


class OutputStationaryFields(PEArrayFields):
    """A template's ``pe_array`` section for ``output_stationary``."""

    counting: Literal["causal", "scalesim"] = "causal"


@dataclass(frozen=True)
class OutputStationary(Dataflow):
    """Outputs stay, inputs enter from the left, weights from the top; groups run one after another."""

    rows: int
    columns: int
    counting: Literal["causal", "scalesim"]
    mac_pj: float
    buffer: Buffer

    pe_array_fields = OutputStationaryFields
    buffer_fields: ClassVar[Mapping[str, type[BufferFields]]] = {"global": OptionallyPortedBufferFields}
    parts = ("mac", "buffer.global")

    @classmethod
    def from_template(cls, pe_array: PEArrayFields, buffers: Mapping[str, Buffer]) -> Self:
        """Array and buffer from the template's fields."""
        assert isinstance(pe_array, OutputStationaryFields)
        return cls(
            rows=pe_array.rows,
            columns=pe_array.columns,
            counting=pe_array.counting,
            mac_pj=float(pe_array.mac_energy),
            buffer=buffers["global"],
        )

    @property
    def macs_per_cycle(self) -> int:
        """One for every PE."""
        return self.rows * self.columns

    @property
    def one_tile_per_operator(self) -> bool:
        """SCALE-Sim never cuts a layer."""
        return self.counting == "scalesim"

    def cost(self, tiles: TileColumns) -> TileCosts:
        """The closed form, bounded below by what the buffer's read port delivers.

        Reads: every column fold streams all inputs again, every row fold all weights; outputs are written once.
        """
        rate = self.buffer.read_bytes_per_cycle or Fraction(0)
        # An edge fold counts as a full one: cycles may exceed MACs by 2 rows + columns, reads x rate's denominator too.
        headroom = (2 * self.rows + self.columns + 1) * max(rate.denominator, 2)
        tiles = checked_tiles(tiles, (1 << 62) // headroom)
        N = np.where(tiles.groups > 1, np.minimum(tiles.filters, tiles.filters_per_group), tiles.filters)
        repeats = -(-tiles.filters // N)
        K = tiles.channels // tiles.groups * tiles.kernel_rows * tiles.kernel_columns
        own_weights = tiles.weights_from_operator != 0  # then each sample is a product of its own
        repeats = np.where(own_weights, repeats * tiles.batch, repeats)
        M = np.where(own_weights, 1, tiles.batch) * tiles.rows * tiles.columns

        row_folds, column_folds = -(-M // self.rows), -(-N // self.columns)
        drain = 0 if self.counting == "scalesim" else self.rows
        cycles = repeats * row_folds * column_folds * (self.rows + self.columns + K - 2 + drain)
        reads = repeats * (column_folds * M * K + row_folds * K * N)
        writes = repeats * M * N
        if rate:
            cycles = np.maximum(cycles, -(-reads * rate.denominator // rate.numerator))
        energy_pj = np.stack(
            [
                self.mac_pj * (repeats * M * N * K),
                self.buffer.read_pj_per_byte * reads + self.buffer.write_pj_per_byte * writes,
            ],
            axis=1,
        )
        return TileCosts(cycles, energy_pj)
