"""A systolic array whose processing elements keep weights while inputs stream past: the TPU's, and Gemmini's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accelsim.hardware.dataflow.operand_stationary import OperandStationary
from accelsim.hardware.dataflow.products import Placement, Products
from accelsim.hardware.dataflow.systolic import Accesses
from accelsim.hardware.dataflow.wavefronts import Matrices
from accelsim.hardware.ports import Words


@dataclass(frozen=True)
class WeightStationary(OperandStationary):
    """Weights stay, inputs enter from the left, sums move down; folds run one after another."""

    def place(self, products: Products) -> Placement:
        """Terms on the rows, filters on the columns, positions stream."""
        return Placement(rows=products.K, columns=products.N, stream=products.M)

    def _accesses(self, products: Products) -> Accesses:
        """Every column fold streams all inputs again, weights are read once; every row fold writes all sums."""
        repeats, M, N, K = products
        row_folds, column_folds = self.fold_counts(self.place(products))
        outputs = repeats * M * N
        spilled = repeats * self.spilled_items(products) * N
        return Accesses(
            input_reads=repeats * column_folds * M * K,
            weight_reads=repeats * K * N,
            output_writes=outputs + spilled * (row_folds - 1),
            partial_sum_reads=np.zeros_like(M) if self.counting == "scalesim" else spilled * (row_folds - 1),
        )

    def _streams(self, matrices: Matrices, products: Products) -> tuple[Words, Words]:
        """Inputs along their terms, weights along their filters once, sums and outputs along theirs."""
        row_folds, column_folds = self.fold_counts(self.place(products))
        again = self.spilled_items(products) * (row_folds - 1)
        sums = matrices.outputs("filters", self.columns, self.sum_bytes).times(again)
        left = matrices.inputs("terms", self.rows).times(products.M * column_folds)
        top = matrices.weights("filters", self.columns).times(products.K)
        return left.plus(top).plus(sums), matrices.outputs("filters", self.columns, 1).times(products.M).plus(sums)
