"""An output-stationary systolic array, clocked register by register on real numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.int64]


def multiply(a: Matrix, b: Matrix, rows: int, columns: int) -> tuple[Matrix, int]:
    """The product of ``a`` (M x K) and ``b`` (K x N) on an array of rows x columns, and the cycles that it took.

    One fold after another; each starts when the last output of the one before it has left the array.
    """
    M, N = a.shape[0], b.shape[1]
    product = np.zeros((M, N), dtype=np.int64)
    cycles = 0
    for column in range(0, N, columns):
        for row in range(0, M, rows):
            fold, taken = _fold(a[row : row + rows], b[:, column : column + columns], rows, columns)
            product[row : row + rows, column : column + columns] = fold
            cycles += taken
    return product, cycles


def _fold(a: Matrix, b: Matrix, rows: int, columns: int) -> tuple[Matrix, int]:
    """One fold. In each cycle every element takes its left and upper neighbour's operands of the cycle before,
    multiplies, adds, and hands them on. When all products are in, the sums move down one row a cycle and leave at
    the bottom.
    """
    terms = a.shape[1]
    right = np.zeros((rows, columns), dtype=np.int64)  # operand register of each element, on its way to the right
    down = np.zeros((rows, columns), dtype=np.int64)  # likewise on its way down
    right_valid = np.zeros((rows, columns), dtype=bool)
    down_valid = np.zeros((rows, columns), dtype=bool)
    sums = np.zeros((rows, columns), dtype=np.int64)
    done = np.zeros((rows, columns), dtype=np.int64)
    cycle = 0
    while (done < terms).any():
        right[:, 1:], right_valid[:, 1:] = right[:, :-1].copy(), right_valid[:, :-1].copy()
        down[1:], down_valid[1:] = down[:-1].copy(), down_valid[:-1].copy()
        for i in range(rows):
            k = cycle - i  # row i starts i cycles late
            right_valid[i, 0] = 0 <= k < terms
            right[i, 0] = a[i, k] if right_valid[i, 0] and i < a.shape[0] else 0
        for j in range(columns):
            k = cycle - j
            down_valid[0, j] = 0 <= k < terms
            down[0, j] = b[k, j] if down_valid[0, j] and j < b.shape[1] else 0
        assert (right_valid == down_valid).all(), "operands of one product must meet"
        sums += right * down
        done += right_valid
        cycle += 1
    left = []
    for _ in range(rows):
        left.append(sums[-1].copy())
        sums[1:] = sums[:-1].copy()
        cycle += 1
    return np.array(left[::-1])[: a.shape[0], : b.shape[1]], cycle
