"""A systolic array whose processing elements keep the outputs while inputs and weights stream past.

Output positions lie on the rows, filters on the columns, terms stream: inputs enter from the left, weights from the
top, skewed by one cycle a row and a column. The last element of a fold of r x c outputs over T terms finishes in cycle
T + r + c - 2; then the outputs leave through the bottom row, one row a cycle: ``2 r + c + T - 2`` cycles. SCALE-Sim
(v3.0.0) lets the outputs leave while operands still arrive: ``r + c + T - 2``, as does ``counting: scalesim``.

With ``fold_overlap`` every element hands its finished sum to a second register, in which the sums of a column move down
while the next fold's terms stream in. The next fold may start when the ports are free (T), when its sums find that
register empty (r), and when its outputs, r' rows of them, find the column's port free (2 r - r').
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accelsim.hardware.dataflow.dataflow import IntColumn
from accelsim.hardware.dataflow.products import Placement, Products
from accelsim.hardware.dataflow.systolic import Accesses, SystolicArray
from accelsim.hardware.dataflow.wavefronts import Matrices
from accelsim.hardware.ports import Words


@dataclass(frozen=True)
class OutputStationary(SystolicArray):
    """Outputs stay, inputs enter from the left, weights from the top; folds run one after another."""

    def place(self, products: Products) -> Placement:
        """Positions on the rows, filters on the columns, terms stream."""
        return Placement(rows=products.M, columns=products.N, stream=products.K)

    def lead(self, rows: IntColumn) -> IntColumn:
        """Nothing is loaded first."""
        return np.zeros_like(rows)

    def length(self, fold: Placement) -> IntColumn:
        """Skewed operands, then one row of outputs a cycle."""
        drain = 0 if self.counting == "scalesim" else fold.rows
        return fold.rows + fold.columns + fold.stream - 2 + drain

    def interval(self, fold: Placement, next_rows: IntColumn) -> IntColumn:
        """When ports are free, the second registers empty, and outputs in order."""
        if not self.fold_overlap:
            return self.length(fold)
        interval: IntColumn = np.maximum(fold.stream, np.maximum(fold.rows, 2 * fold.rows - next_rows))
        return interval

    def _accesses(self, products: Products) -> Accesses:
        """Every column fold streams all inputs again, every row fold all weights; outputs are written once."""
        repeats, M, N, K = products
        row_folds, column_folds = self.fold_counts(self.place(products))
        return Accesses(
            input_reads=repeats * column_folds * M * K,
            weight_reads=repeats * row_folds * K * N,
            output_writes=repeats * M * N,
            partial_sum_reads=np.zeros_like(M),
        )

    def _streams(self, matrices: Matrices, products: Products) -> tuple[Words, Words]:
        """Inputs along their positions, weights along their filters, outputs row by row."""
        row_folds, column_folds = self.fold_counts(self.place(products))
        left = matrices.inputs("positions", self.rows).times(products.K * column_folds)
        top = matrices.weights("filters", self.columns).times(products.K * row_folds)
        return left.plus(top), matrices.outputs("filters", self.columns, 1).times(products.M)
