"""Systolic arrays clock by clock: real operands through every register, with the product that comes out.

The same machine as the stepping twins in ``tests/naive``, compiled; it takes as long as the closed forms say.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accelsim.errors import InputError
from accelsim.hardware.dataflow.dataflow import IntColumn
from accelsim.hardware.dataflow.input_stationary import InputStationary
from accelsim.hardware.dataflow.operand_stationary import OperandStationary
from accelsim.hardware.dataflow.products import Products
from accelsim.hardware.dataflow.systolic import SystolicArray
from accelsim.hardware.dataflow.systolic_activity import Folds, lay_folds
from accelsim.jit import kernel

Matrix = npt.NDArray[np.int64]

EMPTY = -1
"""The fold of a register that holds nothing."""


class ClockedProduct(NamedTuple):
    """What an array did with two matrices."""

    product: Matrix
    """Shape (M, N)."""
    active: IntColumn
    """Multiplications of the matrices' elements in each cycle, shape (cycles,); together M x N x K."""


class Operands(NamedTuple):
    """What goes through the array, and what comes out."""

    left: Matrix
    """Enters from the left: shape (on rows, stream)."""
    top: Matrix
    """Enters from the top: shape (stream, on columns), or (on rows, on columns) where it stays."""
    product: Matrix
    """Shape (on rows, on columns), or (stream, on columns) where an operand stays."""


class Registers(NamedTuple):
    """What the elements hold, and of which fold it is; shape (rows, columns) each."""

    right: Matrix
    """The operand on its way to the right."""
    right_fold: Matrix
    right_item: Matrix
    top: Matrix
    """The operand from the top, on its way down or, where it stays, as it was loaded."""
    top_fold: Matrix
    sums: Matrix
    second: Matrix
    """The operand that stays, in use; or finished sums on their way down."""
    second_fold: Matrix


def clocked_product(array: SystolicArray, a: npt.ArrayLike, b: npt.ArrayLike) -> ClockedProduct:
    """Moves ``a`` (M x K) and ``b`` (K x N), whole numbers, through the registers of ``array``.

    Raises :class:`InputError` for matrices that have no product, for ``counting: scalesim`` (an array that cannot be
    built), and for more than :data:`MOST_CYCLES`.
    """
    inputs, weights = np.asarray(a), np.asarray(b)
    if inputs.ndim != 2 or weights.ndim != 2 or inputs.shape[1] != weights.shape[0] or not inputs.size * weights.size:
        raise InputError(f"matrices of shapes {inputs.shape} and {weights.shape} have no product")
    if inputs.dtype.kind not in "iu" or weights.dtype.kind not in "iu":
        raise InputError(f"matrices of {inputs.dtype} and {weights.dtype}; expected whole numbers")
    if array.arrays > 1:
        raise InputError(f"{array.arrays} arrays share the work; set pe_array.arrays to 1 to clock one")
    M, K, N = *inputs.shape, weights.shape[1]
    folds, on, active = lay_folds(array, Products(*(np.array([size]) for size in (1, M, N, K))))
    registers = Registers(*(np.full((array.rows, array.columns), EMPTY) for _ in Registers._fields))
    if isinstance(array, OperandStationary):
        turned = isinstance(array, InputStationary)
        left, top = (weights, inputs.T) if turned else (inputs.T, weights)
        sums = np.zeros((on.stream.item(), on.columns.item()), dtype=np.int64)
        operands = Operands(_column(left), _column(top), sums)
        status = _clock_held_operand(operands, folds, registers, active, array.stationary_preload)
        product = operands.product.T if turned else operands.product
    else:
        operands = Operands(_column(inputs), _column(weights), np.zeros((M, N), dtype=np.int64))
        status = _clock_held_outputs(operands, folds, registers, active)
        product = operands.product
    assert status == EMPTY, f"fold {status} met another fold's values"
    return ClockedProduct(product, active)


def _column(values: npt.NDArray[np.integer]) -> Matrix:
    return np.ascontiguousarray(values, dtype=np.int64)


@kernel
def _latest(times: IntColumn, offset: int, newest: int) -> int:
    """The latest row, from ``newest`` backwards, whose time has come at ``offset``; -1 if there is none."""
    while newest >= 0 and times[newest] > offset:
        newest -= 1
    return newest


@kernel
def _shift_right(left: Matrix, folds: Folds, registers: Registers, cycle: int, newest: int) -> None:
    """Every operand moves one element to the right; row i takes the item that is due i cycles after the start."""
    rows, columns = registers.right.shape
    for i in range(rows):
        for j in range(columns - 1, 0, -1):
            registers.right[i, j] = registers.right[i, j - 1]
            registers.right_fold[i, j] = registers.right_fold[i, j - 1]
            registers.right_item[i, j] = registers.right_item[i, j - 1]
        fold = _latest(folds.start, cycle - i, newest)
        registers.right_fold[i, 0] = EMPTY
        if fold < 0 or i >= folds.rows[fold] or cycle - i - folds.start[fold] >= left.shape[1]:
            continue
        item = cycle - i - folds.start[fold]
        registers.right_fold[i, 0] = fold
        registers.right_item[i, 0] = item
        registers.right[i, 0] = left[folds.row[fold] + i, item] if i < folds.used_rows[fold] else 0


@kernel
def _clock_held_operand(
    operands: Operands, folds: Folds, registers: Registers, active: IntColumn, preload: bool
) -> int:
    """Clocks an array in which the operand from the top stays; -1, or the fold that met another one's values."""
    rows, columns = registers.right.shape
    newest = loading = EMPTY
    for cycle in range(active.shape[0]):
        while newest + 1 < folds.start.shape[0] and folds.start[newest + 1] <= cycle:
            newest += 1
        _shift_right(operands.left, folds, registers, cycle, newest)
        for i in range(rows - 1, -1, -1):  # from below, so that the sum above is still that of the cycle before
            for j in range(columns):
                fold: int = registers.right_fold[i, j]
                if fold < 0 or i >= folds.rows[fold] or j >= folds.columns[fold]:
                    continue
                if not preload or registers.right_item[i, j] == 0:
                    registers.second[i, j] = registers.top[i, j]
                    registers.second_fold[i, j] = registers.top_fold[i, j]
                if registers.second_fold[i, j] != fold:
                    return fold
                above = registers.sums[i - 1, j] if i > 0 else 0
                registers.sums[i, j] = above + registers.right[i, j] * registers.second[i, j]
                if j < folds.used_columns[fold]:
                    active[cycle] += i < folds.used_rows[fold]
                    if i == folds.rows[fold] - 1:
                        operands.product[registers.right_item[i, j], folds.column[fold] + j] += registers.sums[i, j]
        # Loads, after all use in this cycle. A fold of r rows is loaded in the r cycles before its start.
        while loading + 1 < folds.start.shape[0] and folds.start[loading + 1] - folds.rows[loading + 1] <= cycle:
            loading += 1
        for j in range(columns):
            fold = loading
            while fold >= 0 and folds.start[fold] - folds.rows[fold] > cycle - j:
                fold -= 1
            if fold < 0 or j >= folds.columns[fold] or cycle - j >= folds.start[fold]:
                continue
            step = cycle - j - (folds.start[fold] - folds.rows[fold])
            for i in range(step, 0, -1):
                registers.top[i, j] = registers.top[i - 1, j]
                registers.top_fold[i, j] = registers.top_fold[i - 1, j]
            row = folds.rows[fold] - 1 - step  # the last row enters first
            used = row < folds.used_rows[fold] and j < folds.used_columns[fold]
            registers.top[0, j] = operands.top[folds.row[fold] + row, folds.column[fold] + j] if used else 0
            registers.top_fold[0, j] = fold
    return EMPTY


@kernel
def _clock_held_outputs(operands: Operands, folds: Folds, registers: Registers, active: IntColumn) -> int:
    """Clocks an array in which the outputs stay; -1, or the fold that met another one's values."""
    rows, columns = registers.right.shape
    stream = operands.left.shape[1]
    newest = draining = EMPTY
    for cycle in range(active.shape[0]):
        # Finished sums leave, before others take their places.
        while draining + 1 < folds.start.shape[0] and _drain(folds, draining + 1, stream) <= cycle:
            draining += 1
        for j in range(columns):
            fold: int = draining
            while fold >= 0 and _drain(folds, fold, stream) > cycle - j:
                fold -= 1
            if fold < 0 or j >= folds.columns[fold]:
                continue
            step = cycle - j - _drain(folds, fold, stream)
            bottom = folds.rows[fold] - 1
            if step > bottom:
                continue
            if registers.second_fold[bottom, j] != fold:
                return fold
            if bottom - step < folds.used_rows[fold] and j < folds.used_columns[fold]:
                row = folds.row[fold] + bottom - step
                operands.product[row, folds.column[fold] + j] = registers.second[bottom, j]
            for i in range(bottom, step, -1):
                registers.second[i, j] = registers.second[i - 1, j]
                registers.second_fold[i, j] = registers.second_fold[i - 1, j]
            registers.second_fold[step, j] = EMPTY
        while newest + 1 < folds.start.shape[0] and folds.start[newest + 1] <= cycle:
            newest += 1
        _shift_right(operands.left, folds, registers, cycle, newest)
        for j in range(columns):
            for i in range(rows - 1, 0, -1):
                registers.top[i, j] = registers.top[i - 1, j]
                registers.top_fold[i, j] = registers.top_fold[i - 1, j]
            fold = _latest(folds.start, cycle - j, newest)
            registers.top_fold[0, j] = EMPTY
            if fold >= 0 and j < folds.columns[fold] and cycle - j - folds.start[fold] < stream:
                item = cycle - j - folds.start[fold]
                used = j < folds.used_columns[fold]
                registers.top[0, j] = operands.top[item, folds.column[fold] + j] if used else 0
                registers.top_fold[0, j] = fold
        for i in range(rows):
            for j in range(columns):
                fold = registers.right_fold[i, j]
                if fold < 0 or i >= folds.rows[fold] or j >= folds.columns[fold]:
                    continue
                if registers.top_fold[i, j] != fold:
                    return fold
                item = registers.right_item[i, j]
                before = registers.sums[i, j] if item > 0 else 0
                registers.sums[i, j] = before + registers.right[i, j] * registers.top[i, j]
                active[cycle] += i < folds.used_rows[fold] and j < folds.used_columns[fold]
                if item == stream - 1:
                    if registers.second_fold[i, j] != EMPTY:
                        return fold
                    registers.second[i, j] = registers.sums[i, j]
                    registers.second_fold[i, j] = fold
    return EMPTY


@kernel
def _drain(folds: Folds, fold: int, stream: int) -> int:
    """The cycle in which the first output of a fold leaves, in column 0."""
    drain: int = folds.start[fold] + stream + folds.rows[fold] - 1
    return drain
