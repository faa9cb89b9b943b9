"""A systolic array whose processing elements keep inputs while weights stream past."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accelsim.hardware.dataflow.operand_stationary import OperandStationary
from accelsim.hardware.dataflow.systolic import Accesses, Placement, Products


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
        return Accesses(
            input_reads=repeats * M * K,
            weight_reads=repeats * column_folds * K * N,
            output_writes=outputs * row_folds,
            partial_sum_reads=np.zeros_like(M) if self.counting == "scalesim" else outputs * (row_folds - 1),
        )
