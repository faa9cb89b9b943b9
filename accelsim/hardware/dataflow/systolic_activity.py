"""Systolic arrays clock by clock: how many elements multiply in each cycle.

Element (i, j) works on item t of its fold i + j + t cycles after the fold's stream began, so that a count needs no
registers; :mod:`accelsim.hardware.dataflow.systolic_cycles` moves real operands through them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from accelsim.errors import InputError
from accelsim.hardware.dataflow.dataflow import IntColumn, every_cycle
from accelsim.hardware.dataflow.products import Placement, Products
from accelsim.jit import kernel

if TYPE_CHECKING:
    from accelsim.hardware.dataflow.systolic import SystolicArray


class Folds(NamedTuple):
    """Folds in the order in which they run, as ``int64`` columns."""

    row: IntColumn
    """First row of the placement that lies on the array."""
    column: IntColumn
    rows: IntColumn
    """Rows of the array that the fold takes."""
    columns: IntColumn
    used_rows: IntColumn
    """Those of them that have operands."""
    used_columns: IntColumn
    start: IntColumn
    """Cycle in which the first item of the stream enters."""


def active_elements(array: SystolicArray, M: int, N: int, K: int, repeats: int = 1) -> IntColumn:
    """How many elements multiply in each cycle of ``repeats`` products of (M x K) by (K x N), shape (cycles,).

    Several arrays begin together, each with its share.

    Raises :class:`InputError` for sizes below 1, for ``counting: scalesim``, and for more than :data:`MOST_CYCLES`.
    """
    products = Products(*(np.array([size]) for size in (repeats, M, N, K)))
    share = min(array.ways_to_share(products), key=lambda way: array.cycles(way).item())
    active = _of_one_array(array, share)
    for name, whole, part in zip(Products._fields, products, share, strict=True):
        if part < whole:  # what is shared out
            busy, rest = divmod(whole.item(), part.item())
            active *= busy
            if rest:
                others = _of_one_array(array, share._replace(**{name: np.array([rest])}))
                active[: len(others)] += others
    return active


def _of_one_array(array: SystolicArray, products: Products) -> IntColumn:
    folds, on, active = lay_folds(array, products)
    _count_active(folds, on.stream.item(), active)
    return active


def lay_folds(array: SystolicArray, products: Products) -> tuple[Folds, Placement, IntColumn]:
    """The folds of one row of products on one array, what of a product lies where, and a zero for every cycle.

    Raises as :func:`active_elements`.
    """
    repeats, M, N, K = (size.item() for size in products)
    if min(M, N, K, repeats) < 1 or M * N * K * repeats > 1 << 44:
        raise InputError(f"{repeats} products of ({M} x {K}) by ({K} x {N}); expected sizes from 1, at most 2^44 MACs")
    if array.counting != "causal":
        raise InputError(f"counting: {array.counting} describes no array that could be clocked; set it to causal")
    active = every_cycle(array.cycles(products).item())
    on = array.place(products)
    row_folds, column_folds = (count.item() for count in array.fold_counts(on))
    row = np.tile(np.arange(row_folds) * array.rows, column_folds * repeats)
    column = np.tile(np.repeat(np.arange(column_folds) * array.columns, row_folds), repeats)
    used_rows = np.minimum(array.rows, on.rows - row)
    used_columns = np.minimum(array.columns, on.columns - column)
    rows = used_rows if array.compact_edge_folds else np.full_like(row, array.rows)
    columns = used_columns if array.compact_edge_folds else np.full_like(row, array.columns)
    intervals = array.interval(Placement(rows[:-1], columns[:-1], np.broadcast_to(on.stream, row[:-1].shape)), rows[1:])
    start = np.cumsum(np.concatenate([array.lead(rows[:1]), intervals]))
    folds = Folds(row, column, rows, columns, used_rows, used_columns, start)
    return folds, on, active


@kernel
def _count_active(folds: Folds, stream: int, active: IntColumn) -> None:
    """Element (i, j) works on item t of its fold in cycle start + i + j + t."""
    for fold in range(folds.start.shape[0]):
        rows, columns, start = folds.used_rows[fold], folds.used_columns[fold], folds.start[fold]
        for cycle in range(stream + rows + columns - 2):
            active[start + cycle] += _started(cycle, rows, columns) - _started(cycle - stream, rows, columns)


@kernel
def _started(cycle: int, rows: int, columns: int) -> int:
    """Elements with i + j <= cycle: a triangle, less what of it lies beyond the rows and columns."""
    return (
        _triangle(cycle + 1)
        - _triangle(cycle + 1 - rows)
        - _triangle(cycle + 1 - columns)
        + _triangle(cycle + 1 - rows - columns)
    )


@kernel
def _triangle(side: int) -> int:
    return side * (side + 1) // 2 if side > 0 else 0
