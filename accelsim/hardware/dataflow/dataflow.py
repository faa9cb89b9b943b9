"""What every dataflow has: the fields of its template, the buffers it works from, and the cost of tiles."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from accelsim.errors import InputError, UnsupportedOperator
from accelsim.hardware.buffer import Buffer, BufferFields
from accelsim.hardware.fields import Count, Energy, Fields, Flag, Share
from accelsim.hardware.ports import PortUse

IntColumn = npt.NDArray[np.int64]
FloatTable = npt.NDArray[np.float64]
UNDILATED: IntColumn = np.ones(1, np.int64)
"""Of one element, it stands for a column of ones."""
UNDILATED.setflags(write=False)


class TileColumns(NamedTuple):
    """Shapes of tiles of convolution-like operators, one row a tile, as ``int64`` columns.

    A matrix product is a convolution with one column, kernel 1 x 1: rows = its rows, channels = the summed dimension,
    filters = its columns.
    """

    batch: IntColumn
    """Samples in the tile."""
    channels: IntColumn
    """Input channels of the *operator*, all groups together; channels are never split."""
    filters: IntColumn
    """Output channels of the *tile*, all its groups together."""
    filters_per_group: IntColumn
    """Output channels of one group of the operator (its filters / groups); without meaning where ``groups`` is 1."""
    rows: IntColumn
    """Output rows of the tile."""
    columns: IntColumn
    """Output columns of the tile."""
    kernel_rows: IntColumn
    kernel_columns: IntColumn
    stride_rows: IntColumn
    stride_columns: IntColumn
    groups: IntColumn
    """Groups of the operator."""
    weights_from_operator: IntColumn
    """1 where another operator computes the weights (attention), so that each sample has its own; else 0."""
    dilation_rows: IntColumn = UNDILATED
    """Input rows from one kernel row to the next."""
    dilation_columns: IntColumn = UNDILATED


class TileCosts(NamedTuple):
    """What tiles cost, one row a tile."""

    cycles: IntColumn
    """Shape (tiles,)."""
    energy_pj: FloatTable
    """Shape (tiles, parts)."""


PARTIAL_SUM_BYTES = 4
"""Of a sum that later folds still add to, unless a template says otherwise: 32 bits, as sums of INT8 products have."""


class PrecisionFields(Fields):
    """Numbers that an element multiplies at once, ``pe_array.precision``; without it bits make no difference."""

    bits: Count
    subword: Flag = False
    """An element does two products of half the bits at once, four of a quarter, …."""
    accumulator_bits: Literal[8, 16, 24, 32, 40, 48, 64] = 32
    """Of a sum that later folds still add to, where such sums leave the array."""


class SparsityFields(Fields):
    """What is done about zeros, ``pe_array.sparsity``."""

    weights: Literal["none", "gate", "skip", "structured"] = "none"
    inputs: Literal["none", "gate", "skip"] = "none"
    lanes: Count = 1
    """Filters that run together and wait for each other where zeros are skipped."""
    gated_energy: Share = 0.0
    """Energy of a product that is gated, as a share of one that is not."""


class PEArrayFields(Fields):
    """The part of a template's ``pe_array`` that all dataflows share; ``mac_energy`` is that of one MAC."""

    dataflow: str
    rows: Count
    columns: Count
    mac_energy: Energy
    precision: PrecisionFields | None = None
    sparsity: SparsityFields | None = None

    @property
    def sum_bytes(self) -> int:
        """Of a sum that later folds still add to."""
        return PARTIAL_SUM_BYTES if self.precision is None else self.precision.accumulator_bits // 8


class Dataflow(ABC):
    """A PE array that is run in one particular order: how long a tile takes and what it costs.

    Operands and results are one byte each.
    """

    pe_array_fields: ClassVar[type[PEArrayFields]]
    """The template's ``pe_array`` section for this dataflow."""
    buffer_fields: ClassVar[Mapping[str, type[BufferFields]]]
    """The buffers that a template with this dataflow describes, in order, by name."""
    optional_buffer_fields: ClassVar[Mapping[str, type[BufferFields]]] = {}
    """The buffers that it may describe besides."""
    parts: ClassVar[tuple[str, ...]]
    """Names of the energy columns that :meth:`cost` returns, each a part of the accelerator; see :attr:`all_parts`."""

    @classmethod
    @abstractmethod
    def from_template(cls, pe_array: PEArrayFields, buffers: Mapping[str, Buffer]) -> Self:
        """The dataflow that a template's ``pe_array`` section and its buffers describe."""

    @property
    @abstractmethod
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates in the arrays: the peak rate of one cycle."""

    @property
    def all_parts(self) -> tuple[str, ...]:
        """:attr:`parts`, and those of optional buffers that are there."""
        return self.parts

    @property
    def one_tile_per_operator(self) -> bool:
        """Whether every operator is to be one tile, whatever the buffers hold."""
        return False

    @abstractmethod
    def cost(self, tiles: TileColumns) -> TileCosts:
        """Cycles, and picojoules by :attr:`parts`, of each tile.

        Raises :class:`MappingError` for a tile that the array's buffers cannot hold in any mapping.
        """

    def with_terms(self, tiles: TileColumns, terms: IntColumn) -> TileColumns:
        """Tiles that sum up so many terms for each result, as near as whole channels allow; the rest is as it was."""
        channels = np.maximum(-(-terms // (tiles.kernel_rows * tiles.kernel_columns)), 1)
        return tiles._replace(channels=channels * tiles.groups)

    def port_bytes(self, tiles: TileColumns) -> IntColumn | None:
        """Bytes that each tile reads through the read port of buffer ``global``; None where a dataflow does not tell.

        A tile takes at least as long as the port needs for them, so reads that a template lets pass beside the port are
        not among them. Raises as :meth:`cost` does.
        """
        return None

    def accessed_bytes(self, tiles: TileColumns) -> Mapping[str, tuple[IntColumn, IntColumn]] | None:
        """For each buffer, by name, the bytes that each tile reads from it and writes to it.

        Energies are these times the template's. None where a dataflow does not tell. Raises as :meth:`cost` does.
        """
        return None

    def mapping_efficiency(self, tiles: TileColumns) -> FloatTable | None:
        """The share of the array's elements that a tile uses while operands stream through it, in the mean.

        None where a dataflow does not tell it apart from filling and draining. Raises as :meth:`cost` does.
        """
        return None

    def activity(self, tile: TileColumns) -> IntColumn:
        """How many elements multiply in each cycle of a tile, one row, shape (cycles of the array,).

        Multiplications with padding zeros count. Raises :class:`InputError` for an array that is not clocked, and for
        more than :data:`MOST_CYCLES`.
        """
        raise InputError(f"arrays of {type(self).__name__} are not clocked cycle by cycle; run without --detail cycle")

    def port_use(self, tiles: TileColumns) -> PortUse | None:
        """What each tile needs of the ports of buffer ``global``; None where they are not described.

        Raises as :meth:`cost` does.
        """
        return None


MOST_CYCLES = 1 << 28
"""More cycles are not gone through one by one: their counts alone would take 2 GiB."""
MOST_MACS = 1 << 52
"""Above this many multiply-accumulates in one tile, energies (``float64``) would no longer count each access."""


def every_cycle(cycles: int) -> IntColumn:
    """A zero for each cycle. Raises :class:`InputError` for more than :data:`MOST_CYCLES`."""
    if cycles > MOST_CYCLES:
        raise InputError(f"this takes {cycles} cycles; at most {MOST_CYCLES} are clocked")
    return np.zeros(cycles, np.int64)


def checked_tiles(tiles: TileColumns, most_macs: int = MOST_MACS) -> TileColumns:
    """The same columns as contiguous ``int64`` of one length, after checking that their numbers make sense.

    Raises :class:`UnsupportedOperator` for a dimension below 1, channels that the groups do not divide, or a tile whose
    multiply-accumulates times strides and dilations exceed ``most_macs``.
    """
    columns = (np.broadcast_to(column, tiles.batch.shape) if column.shape == (1,) else column for column in tiles)
    checked = TileColumns(*(np.ascontiguousarray(column, dtype=np.int64) for column in columns))
    if len({column.shape for column in checked}) != 1 or checked.batch.ndim != 1:
        raise ValueError(f"the columns of TileColumns differ in shape: {[column.shape for column in checked]}")
    for name, column in zip(TileColumns._fields, checked, strict=True):
        _refuse(column < (name != "weights_from_operator"), checked, f"{name} must be at least 1")
    _refuse(checked.channels % checked.groups != 0, checked, "channels must be a multiple of groups")
    work = np.ones(len(checked.batch))
    for name, column in zip(TileColumns._fields, checked, strict=True):
        if name not in ("filters_per_group", "groups", "weights_from_operator"):
            work *= column
    _refuse(work > most_macs, checked, f"more than {most_macs:.1e} multiply-accumulates; cut the operator")
    return checked


def _refuse(bad: npt.NDArray[np.bool_], tiles: TileColumns, why: str) -> None:
    if bad.any():
        raise UnsupportedOperator(f"tile {tile_text(tiles, int(np.argmax(bad)))}: {why}")


def tile_text(tiles: TileColumns, row: int) -> str:
    """One tile in words, for messages."""
    one = TileColumns(*(column[row] for column in tiles))
    return (
        f"{row} (batch {one.batch}, channels {one.channels}, filters {one.filters}, output {one.rows} x {one.columns}, "
        f"kernel {one.kernel_rows} x {one.kernel_columns}, stride {one.stride_rows} x {one.stride_columns}, dilation "
        f"{one.dilation_rows} x {one.dilation_columns}, "
        f"groups {one.groups})"
    )
