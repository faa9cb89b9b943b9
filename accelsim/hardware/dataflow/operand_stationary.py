"""What weight- and input-stationary arrays share: one operand is loaded and stays, the other streams, sums move down.

Terms lie on the rows. The operand that stays enters at the top, the last row first, one row a cycle, and moves down: r
cycles for a fold of r rows. Then the other one enters from the left, skewed by one cycle a row; each element adds its
product to the sum from above, and sums leave at the bottom, the last one r + c + T - 2 cycles after the stream's start:
``2 r + c + T - 2`` cycles a fold, which is also what SCALE-Sim (v3.0.0) counts. Sums of several row folds are added up
outside the array.

Two switches let folds meet:

* ``stationary_preload``: every element has a second register, into which the next fold's operand is loaded meanwhile
  (as in the TPU: Jouppi et al., ISCA 2017, section 2). An element takes it over with the first item of its stream, so a
  load may start with the stream before it.
* ``fold_overlap``: a stream may start while sums of the one before are on their way. Loads enter skewed by one cycle a
  column, behind the last item of a stream or, with ``stationary_preload``, behind its first. Where the next fold has
  fewer rows (r'), its sums must not reach a column's port before those ahead of them: r - r' cycles more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from accelsim.hardware.buffer import Buffer, BufferFields
from accelsim.hardware.dataflow.dataflow import FloatTable, IntColumn, PEArrayFields
from accelsim.hardware.dataflow.products import Placement, Products
from accelsim.hardware.dataflow.systolic import SystolicArray, SystolicFields
from accelsim.hardware.fields import FieldMistake, Flag


class OperandStationaryFields(SystolicFields):
    """A template's ``pe_array`` section for ``weight_stationary`` and ``input_stationary``."""

    stationary_preload: Flag = False


@dataclass(frozen=True)
class OperandStationary(SystolicArray):
    """One operand stays in the elements, the other streams in from the left, sums move down."""

    stationary_preload: bool = False
    """The operand that stays is loaded while the fold before it runs."""

    accumulator: Buffer | None = None
    """Holds sums to which other row folds still add, as many as fit of one column fold's; the others are spilled to
    buffer ``global`` and read back."""

    pe_array_fields = OperandStationaryFields
    optional_buffer_fields: ClassVar[Mapping[str, type[BufferFields]]] = {"accumulator": BufferFields}
    switches = (*SystolicArray.switches, "stationary_preload")

    @classmethod
    def from_template(cls, pe_array: PEArrayFields, buffers: Mapping[str, Buffer]) -> Self:
        """As :meth:`SystolicArray.from_template`, with an accumulator where one is described.

        Raises :class:`FieldMistake` also for an accumulator with SCALE-Sim's counting.
        """
        accumulator = buffers.get("accumulator")
        if accumulator and isinstance(pe_array, SystolicFields) and pe_array.counting == "scalesim":
            raise FieldMistake(("buffers", "accumulator"), "SCALE-Sim has none: set pe_array.counting to causal")
        return replace(super().from_template(pe_array, buffers), accumulator=accumulator)

    @property
    def all_parts(self) -> tuple[str, ...]:
        """With the accumulator, where there is one."""
        return (*self.parts, "buffer.accumulator") if self.accumulator else self.parts

    def kept_items(self, products: Products) -> IntColumn:
        """Items of the stream whose sums the accumulator holds, in the widest column fold."""
        stream = self.place(products).stream
        held = self.accumulator.capacity_bytes // (self.sum_bytes * self.columns) if self.accumulator else 0
        return np.asarray(np.minimum(stream, held), dtype=np.int64)

    def spilled_items(self, products: Products) -> IntColumn:
        """Items of the stream whose sums are written to buffer ``global`` and read back, in each row fold but one."""
        spilled: IntColumn = self.place(products).stream - self.kept_items(products)
        return spilled

    def accumulator_accesses(self, products: Products) -> IntColumn:
        """Sums written to the accumulator; as many are read: to be added to, and at the end, to leave."""
        on = self.place(products)
        row_folds, _ = self.fold_counts(on)
        kept: IntColumn = products.repeats * self.kept_items(products) * on.columns
        return np.where(row_folds > 1, kept * row_folds, 0)

    def _accumulator_pj(self, products: Products) -> list[FloatTable]:
        if self.accumulator is None:
            return []
        per_sum = self.sum_bytes * (self.accumulator.read_pj_per_byte + self.accumulator.write_pj_per_byte)
        return [np.asarray(self.accumulator_accesses(products) * per_sum)]

    def lead(self, rows: IntColumn) -> IntColumn:
        """One row of the operand that stays a cycle."""
        return rows

    def length(self, fold: Placement) -> IntColumn:
        """The last item passes r + c - 2 elements; its sum leaves with the cycle."""
        return fold.rows + fold.columns + fold.stream - 2

    def interval(self, fold: Placement, next_rows: IntColumn) -> IntColumn:
        """When the operand that stays is there, and sums leave in order."""
        if not self.fold_overlap:
            length = self.length(fold)
            return np.maximum(length, next_rows) if self.stationary_preload else length + next_rows
        in_order = fold.stream + np.maximum(fold.rows - next_rows, 0)
        loaded = next_rows if self.stationary_preload else fold.stream - 1 + next_rows
        interval: IntColumn = np.maximum(in_order, loaded)
        return interval
