"""A systolic array whose processing elements keep inputs while weights stream past."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accelsim.hardware.dataflow.operand_stationary import OperandStationary
from accelsim.hardware.dataflow.products import Placement, Products
from accelsim.hardware.dataflow.systolic import Accesses
from accelsim.hardware.dataflow.wavefronts import Matrices
from accelsim.hardware.ports import Words


@dataclass(frozen=True)
class InputStationary(OperandStationary):
    """Inputs stay, weights enter from the left, sums move down; folds run one after another."""

    def place(self, products: Products) -> Placement:
        """Terms on the rows, positions on the columns, filters stream."""
        return Placement(rows=products.K, columns=products.M, stream=products.N)

    def _accesses(self, products: Products) -> Accesses:
        """Inputs are read once, every column fold streams all weights again; every row fold writes all sums."""
        repeats, M, N, K = products
        row_folds, column_folds = self.fold_counts(self.place(products))
        outputs = repeats * M * N
        spilled = repeats * self.spilled_items(products) * M
        return Accesses(
            input_reads=repeats * M * K,
            weight_reads=repeats * column_folds * K * N,
            output_writes=outputs + spilled * (row_folds - 1),
            partial_sum_reads=np.zeros_like(M) if self.counting == "scalesim" else spilled * (row_folds - 1),
        )

    def _streams(self, matrices: Matrices, products: Products) -> tuple[Words, Words]:
        """Weights along their terms, inputs along their positions once, sums and outputs along theirs."""
        row_folds, column_folds = self.fold_counts(self.place(products))
        again = self.spilled_items(products) * (row_folds - 1)
        sums = matrices.outputs("positions", self.columns, self.sum_bytes).times(again)
        left = matrices.weights("terms", self.rows).times(products.N * column_folds)
        top = matrices.inputs("positions", self.columns).times(products.K)
        return left.plus(top).plus(sums), matrices.outputs("positions", self.columns, 1).times(products.N).plus(sums)
