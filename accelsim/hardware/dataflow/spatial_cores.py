"""A grid of dot-product blocks with private buffers: the cores of the SoMa paper and the mapper that feeds them.

SoMa (HPCA 2025, arXiv 2501.12634) runs a tile on a grid of rows x columns processing elements; each is a block of
``lanes`` dot products of ``vector_length`` terms, with its own input buffer (AL0), a weight buffer for every lane (WL0)
and an output buffer (OL0); an accumulator buffer (OL2) counts for energy only. The mapper tries six ways to split a
tile over the grid and all useful block sizes, with weights held still (its plain variant), and takes the one with the
least energy x time.

Two peculiarities are the paper's and are kept, so that its figures come out: the compute time has neither fill nor
drain, and the input rows of a tile start from its *output* rows, so that a strided convolution is charged for fewer
input bytes than it reads (where the stride exceeds the kernel, the count even shrinks as the split grows; block sizes
whose accesses would cost less than nothing are left out).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from accelsim.errors import MappingError
from accelsim.hardware.buffer import Buffer, BufferFields, PortedBufferFields
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
from accelsim.hardware.dataflow.products import distinct_tiles, ungrouped
from accelsim.hardware.dataflow.spatial_mapper import AccessCosts, Grid, map_tiles
from accelsim.hardware.fields import Count, Flag


class SpatialCoresFields(PEArrayFields):
    """A template's ``pe_array`` section for ``spatial_cores``."""

    vector_length: Count
    lanes: Count
    soma_attention_bandwidth: Flag = False
    """True: the global buffer's bandwidth never limits tiles whose weights another operator computes, as in SoMa."""


@dataclass(frozen=True)
class SpatialCores(Dataflow):
    """The mapper of the SoMa paper, plain variant (weights stay, filters outermost)."""

    grid: Grid
    costs: AccessCosts

    pe_array_fields = SpatialCoresFields
    buffer_fields: ClassVar[Mapping[str, type[BufferFields]]] = {
        "global": PortedBufferFields,
        "input": BufferFields,
        "weight": BufferFields,
        "output": BufferFields,
        "accumulator": BufferFields,
    }
    parts = ("mac", "buffer.global", "buffer.input", "buffer.weight", "buffer.output", "buffer.accumulator")

    @classmethod
    def from_template(cls, pe_array: PEArrayFields, buffers: Mapping[str, Buffer]) -> Self:
        """Grid and access costs from the template's fields."""
        assert isinstance(pe_array, SpatialCoresFields)
        bandwidth = buffers["global"].read_bytes_per_cycle or Fraction(0)
        costs = [float(pe_array.mac_energy)]
        for name in cls.buffer_fields:
            costs += [buffers[name].read_pj_per_byte, buffers[name].write_pj_per_byte]
        grid = Grid(
            rows=pe_array.rows,
            columns=pe_array.columns,
            vector_length=pe_array.vector_length,
            lanes=pe_array.lanes,
            input_entries=buffers["input"].capacity_bytes // pe_array.vector_length,
            weight_entries=buffers["weight"].capacity_bytes // pe_array.vector_length,
            output_entries=buffers["output"].capacity_bytes // pe_array.lanes,
            bandwidth_numerator=bandwidth.numerator,
            bandwidth_denominator=bandwidth.denominator,
            attention_skips_bandwidth=int(pe_array.soma_attention_bandwidth),
        )
        return cls(grid, AccessCosts(*costs))

    @property
    def _columns(self) -> int:
        """Of what :func:`map_tiles` writes down."""
        return len(self.parts) + 1 + 2 * len(self.buffer_fields)

    @property
    def macs_per_cycle(self) -> int:
        """PEs x lanes x vector length."""
        return self.grid.rows * self.grid.columns * self.grid.vector_length * self.grid.lanes

    def cost(self, tiles: TileColumns) -> TileCosts:
        """Each tile's best mapping."""
        cycles, best = self._map(tiles)
        return TileCosts(cycles, best[:, : len(self.parts)])

    def port_bytes(self, tiles: TileColumns) -> IntColumn:
        """Of each tile's best mapping; 0 for tiles that ``soma_attention_bandwidth`` exempts from the port's limit."""
        return self._map(tiles)[1][:, len(self.parts)].astype(np.int64)

    def accessed_bytes(self, tiles: TileColumns) -> Mapping[str, tuple[IntColumn, IntColumn]]:
        """Of each tile's best mapping."""
        counts = self._map(tiles)[1][:, len(self.parts) + 1 :].astype(np.int64)
        return {name: (counts[:, 2 * row], counts[:, 2 * row + 1]) for row, name in enumerate(self.buffer_fields)}

    def _map(self, tiles: TileColumns) -> tuple[IntColumn, FloatTable]:
        """Cycles, and what :func:`map_tiles` writes down; equal tiles are mapped once."""
        grid = self.grid
        # Bytes read stay below MACs x (rows + 2) x (columns + 2); the bandwidth term multiplies them once more.
        headroom = (grid.rows + 2) * (grid.columns + 2) * grid.lanes * grid.bandwidth_denominator
        tiles = checked_tiles(tiles, min(MOST_MACS, (1 << 62) // headroom))
        if not len(tiles.batch):
            return np.empty(0, np.int64), np.empty((0, self._columns))
        distinct, inverse = distinct_tiles(tiles)
        cycles: IntColumn = np.empty(len(distinct.batch), np.int64)
        best: FloatTable = np.empty((len(cycles), self._columns))
        failed = int(map_tiles(*ungrouped(distinct), grid, self.costs, cycles, best))
        if failed >= 0:
            raise MappingError(self._no_mapping(distinct, failed))
        return cycles[inverse], best[inverse]

    def _no_mapping(self, tiles: TileColumns, row: int) -> str:
        grid = self.grid
        taps = int(tiles.kernel_rows[row] * tiles.kernel_columns[row])
        channels = int(tiles.channels[row] // tiles.groups[row])
        depth = -(-channels // (grid.vector_length * grid.rows)) * grid.vector_length
        return (
            f"no mapping fits tile {tile_text(tiles, row)}: with its channels split over {grid.rows} rows of PEs, one "
            f"kernel window takes {taps * depth} bytes of buffers.input (it holds "
            f"{grid.input_entries * grid.vector_length}) and of buffers.weight "
            f"({grid.weight_entries * grid.vector_length} per lane); one position takes "
            f"{grid.lanes} bytes of buffers.output ({grid.output_entries * grid.lanes}). Raise what is short."
        )
