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

from dataclasses import dataclass

import numpy as np

from accelsim.hardware.dataflow.dataflow import IntColumn
from accelsim.hardware.dataflow.systolic import Placement, SystolicArray, SystolicFields
from accelsim.hardware.fields import Flag


class OperandStationaryFields(SystolicFields):
    """A template's ``pe_array`` section for ``weight_stationary`` and ``input_stationary``."""

    stationary_preload: Flag = False


@dataclass(frozen=True)
class OperandStationary(SystolicArray):
    """One operand stays in the elements, the other streams in from the left, sums move down."""

    stationary_preload: bool = False
    """The operand that stays is loaded while the fold before it runs."""

    pe_array_fields = OperandStationaryFields
    switches = (*SystolicArray.switches, "stationary_preload")

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
