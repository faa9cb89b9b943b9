"""Systolic arrays, clocked element by element on real numbers: one for held outputs, one for a held operand.

Two steps, both slow and plain. :func:`plan` starts each fold at the first cycle at which no register or port of the
array would be needed twice, found by trying; it knows nothing of closed forms. Then the array is clocked: values move
from element to element, and every value carries the fold that it belongs to, so that a start that came too early is
caught. Both return the product of each pair of matrices, the cycles, and what crossed the array's edge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Switches:
    """How folds may meet."""

    compact: bool = False
    overlap: bool = False
    preload: bool = False


@dataclass
class Crossings:
    """Values of real matrices that crossed the array's edge; fill-up zeros of edge folds are not counted."""

    from_left: int = 0
    from_top: int = 0
    out: int = 0
    sums_read_back: int = 0
    multiplied: Counter[int] = field(default_factory=Counter)
    """Multiplications of real values in each cycle."""


@dataclass
class Fold:
    """One fold: which product, which part of it, how much of the array it occupies, when it loads and streams."""

    number: int
    product: int
    row: int
    column: int
    rows: int
    columns: int
    stream: int
    load: int = 0
    start: int = 0
    end: int = 0
    out: dict[tuple[int, int], int] = field(default_factory=dict)


def cut(sizes: list[tuple[int, int, int]], rows: int, columns: int, compact: bool) -> list[Fold]:
    """Folds of products whose (rows, columns, stream) are given: column folds outside, row folds inside."""
    folds: list[Fold] = []
    for product, (on_rows, on_columns, stream) in enumerate(sizes):
        for column in range(0, on_columns, columns):
            for row in range(0, on_rows, rows):
                used = (min(rows, on_rows - row), min(columns, on_columns - column)) if compact else (rows, columns)
                folds.append(Fold(len(folds), product, row, column, *used, stream))
    return folds


Needs = dict[Any, tuple[int, int]]
"""A register or port of the array, and the cycles (first, last) in which a fold needs it."""


def first_clear(needs: Callable[[int], Needs], before: list[Needs], earliest: int) -> int:
    """The first cycle from ``earliest`` on at which nothing is needed while an earlier fold still needs it."""
    start = earliest
    while True:
        wanted = needs(start)
        if all(first > held[what][1] for held in before for what, (first, _) in wanted.items() if what in held):
            return start
        start += 1


def elements(fold: Fold) -> Iterator[tuple[int, int]]:
    return ((i, j) for i in range(fold.rows) for j in range(fold.columns))


# --- Held outputs -----------------------------------------------------------------------------------------------------


def output_stationary(pairs: list[tuple[Matrix, Matrix]], rows: int, columns: int, switches: Switches) -> Any:
    """Products of pairs (M x K, K x N): positions on the rows, filters on the columns."""
    folds = cut([(a.shape[0], b.shape[1], a.shape[1]) for a, b in pairs], rows, columns, switches.compact)
    _plan_held_outputs(folds, switches)
    crossings = Crossings()
    products = [np.zeros((a.shape[0], b.shape[1]), dtype=np.int64) for a, b in pairs]
    grid = range(rows), range(columns)
    right: Any = [[None] * columns for _ in grid[0]]  # (fold, term, value), on its way to the right
    down: Any = [[None] * columns for _ in grid[0]]
    sums: Any = [[(-1, 0)] * columns for _ in grid[0]]  # (fold, sum so far)
    leaving: Any = [[None] * columns for _ in grid[0]]  # (fold, row, sum), waiting or on its way down
    last = max(fold.end for fold in folds)
    for cycle in range(last):
        # Outputs first: whatever a register holds at the beginning of the cycle may leave it in this cycle.
        for fold in folds:
            for j in range(fold.columns):
                step = cycle - (fold.start + fold.stream + fold.rows - 1 + j)
                if not 0 <= step < fold.rows:
                    continue
                number, i, value = leaving[fold.rows - 1][j]
                assert (number, i) == (fold.number, fold.rows - 1 - step), "another fold's sum leaves"
                for k in range(fold.rows - 1, step, -1):
                    leaving[k][j] = leaving[k - 1][j]
                leaving[step][j] = None
                if fold.row + i < len(products[fold.product]) and fold.column + j < products[fold.product].shape[1]:
                    products[fold.product][fold.row + i, fold.column + j] = value
                    crossings.out += 1
        before_right, before_down = [list(line) for line in right], [list(line) for line in down]
        for i in grid[0]:
            for j in grid[1]:
                right[i][j] = before_right[i][j - 1] if j else None
                down[i][j] = before_down[i - 1][j] if i else None
        for fold in folds:
            a, b = pairs[fold.product]
            for i in range(fold.rows):
                if 0 <= (k := cycle - fold.start - i) < fold.stream:
                    real = fold.row + i < a.shape[0]
                    right[i][0] = (fold.number, k, int(a[fold.row + i, k]) if real else 0)
                    crossings.from_left += real
            for j in range(fold.columns):
                if 0 <= (k := cycle - fold.start - j) < fold.stream:
                    real = fold.column + j < b.shape[1]
                    down[0][j] = (fold.number, k, int(b[k, fold.column + j]) if real else 0)
                    crossings.from_top += real
        for i in grid[0]:
            for j in grid[1]:
                if right[i][j] is None or down[i][j] is None:
                    continue
                number, k, x = right[i][j]
                fold = folds[number]
                if i >= fold.rows or j >= fold.columns:
                    continue
                assert down[i][j][:2] == (number, k), "operands of one product must meet"
                owner, value = sums[i][j] if k else (number, 0)
                assert owner == number
                sums[i][j] = (number, value + x * down[i][j][2])
                size = products[fold.product].shape
                crossings.multiplied[cycle] += fold.row + i < size[0] and fold.column + j < size[1]
                if k == fold.stream - 1:
                    assert leaving[i][j] is None, "a sum would be overwritten"
                    leaving[i][j] = (number, i, sums[i][j][1])
    return products, last, crossings


def _plan_held_outputs(folds: list[Fold], switches: Switches) -> None:
    before: list[Needs] = []
    for fold in folds:

        def needs(start: int, fold: Fold = fold) -> Needs:
            found: Needs = {("left", i): (start + i, start + i + fold.stream - 1) for i in range(fold.rows)}
            found |= {("top", j): (start + j, start + j + fold.stream - 1) for j in range(fold.columns)}
            for i, j in elements(fold):
                done = start + i + j + fold.stream - 1
                drain = start + fold.stream + fold.rows - 1 + j
                found["sum", i, j] = (start + i + j, done)
                # Latched at the end of cycle `done`; the sums of i rows above pass, the last one is sent at drain + i.
                found["leaving", i, j] = (done + 1, drain + i)
                found["bottom", j] = (drain, drain + fold.rows - 1)
            return found

        earliest = folds[fold.number - 1].start + 1 if fold.number else 0
        if fold.number and not switches.overlap:
            earliest = folds[fold.number - 1].end
        fold.start = first_clear(needs, before, earliest)
        before.append(needs(fold.start))
        fold.end = max(last for what, (_, last) in before[-1].items() if what[0] == "bottom") + 1


# --- A held operand ---------------------------------------------------------------------------------------------------


def held_operand(pairs: list[tuple[Matrix, Matrix]], rows: int, columns: int, switches: Switches) -> Any:
    """Products of pairs (T x K, K x N), of which the second stays: terms on the rows, its columns on the columns."""
    folds = cut([(b.shape[0], b.shape[1], a.shape[0]) for a, b in pairs], rows, columns, switches.compact)
    _plan_held_operand(folds, switches)
    crossings = Crossings()
    products = [np.zeros((a.shape[0], b.shape[1]), dtype=np.int64) for a, b in pairs]
    moving: Any = [[None] * columns for _ in range(rows)]  # (fold, item, value), on its way to the right
    sums: Any = [[None] * columns for _ in range(rows)]  # (fold, item, sum), latched by the element
    loaded: Any = [[(-1, -1, 0)] * columns for _ in range(rows)]  # (fold, row, value)
    active: Any = [[(-1, -1, 0)] * columns for _ in range(rows)]
    last = max(fold.end for fold in folds)
    for cycle in range(last):
        before_moving, before_sums = [list(line) for line in moving], [list(line) for line in sums]
        for i in range(rows):
            for j in range(columns):
                moving[i][j] = before_moving[i][j - 1] if j else None
        for fold in folds:
            a, b = pairs[fold.product]
            for i in range(fold.rows):
                if 0 <= (t := cycle - fold.start - i) < fold.stream:
                    real = fold.row + i < a.shape[1]
                    moving[i][0] = (fold.number, t, int(a[t, fold.row + i]) if real else 0)
                    crossings.from_left += real
        for i in range(rows):
            for j in range(columns):
                sums[i][j] = None
                if moving[i][j] is None:
                    continue
                number, t, x = moving[i][j]
                fold = folds[number]
                if i >= fold.rows or j >= fold.columns:
                    continue
                if t == 0 or not switches.preload:
                    active[i][j] = loaded[i][j]
                assert active[i][j][:2] == (number, i), "the operand that should stay is not there"
                above = (number, t, 0) if i == 0 else before_sums[i - 1][j]
                assert above[:2] == (number, t), "sum and item must meet"
                sums[i][j] = (number, t, above[2] + x * active[i][j][2])
                size = pairs[fold.product][1].shape
                crossings.multiplied[cycle] += fold.row + i < size[0] and fold.column + j < size[1]
                if i == fold.rows - 1 and fold.column + j < products[fold.product].shape[1]:
                    products[fold.product][t, fold.column + j] += sums[i][j][2]
                    crossings.out += 1
                    crossings.sums_read_back += fold.row > 0
        before_loaded = [list(line) for line in loaded]
        for fold in folds:
            b = pairs[fold.product][1]
            for j in range(fold.columns):
                step = cycle - fold.load - j
                if not 0 <= step < fold.rows:
                    continue
                row = fold.rows - 1 - step  # the last row enters first
                real = fold.row + row < b.shape[0] and fold.column + j < b.shape[1]
                value = int(b[fold.row + row, fold.column + j]) if real else 0
                crossings.from_top += real
                for i in range(step, 0, -1):
                    loaded[i][j] = before_loaded[i - 1][j]
                loaded[0][j] = (fold.number, row, value)
    return products, last, crossings


def _plan_held_operand(folds: list[Fold], switches: Switches) -> None:
    before: list[Needs] = []
    for fold in folds:

        def loads(load: int, fold: Fold = fold) -> Needs:
            found: Needs = {("top", j): (load + j, load + j + fold.rows - 1) for j in range(fold.columns)}
            # A value latched at the end of cycle load + i + j is there from the next cycle on.
            return found | {("held", i, j): (load + i + j + 1, load + i + j + 1) for i, j in elements(fold)}

        def streams(start: int, fold: Fold = fold) -> Needs:
            found: Needs = {("left", i): (start + i, start + i + fold.stream - 1) for i in range(fold.rows)}
            first_out = start + fold.rows - 1
            return found | {
                ("bottom", j): (first_out + j, first_out + j + fold.stream - 1) for j in range(fold.columns)
            }

        earliest = 0
        if fold.number:
            earlier = folds[fold.number - 1]
            earliest = earlier.load + 1 if switches.overlap or switches.preload else earlier.end
        fold.load = first_clear(loads, before, earliest)
        # Usable in row 0 from the cycle after the last row's value was latched; the stream is later by i + j elsewhere.
        earliest = fold.load + fold.rows
        if fold.number and not switches.overlap:
            earliest = max(earliest, folds[fold.number - 1].end)
        fold.start = first_clear(streams, before, earliest)
        needs = loads(fold.load) | streams(fold.start)
        for i, j in elements(fold):  # until when the loading register is still read
            last_use = fold.start + i + j + (0 if switches.preload else fold.stream - 1)
            needs["held", i, j] = (needs["held", i, j][0], last_use)
        before.append(needs)
        fold.end = max(last for what, (_, last) in needs.items() if what[0] == "bottom") + 1


def weight_stationary(pairs: list[tuple[Matrix, Matrix]], rows: int, columns: int, switches: Switches) -> Any:
    """Products of pairs (M x K, K x N), weights held."""
    return held_operand(pairs, rows, columns, switches)


def input_stationary(pairs: list[tuple[Matrix, Matrix]], rows: int, columns: int, switches: Switches) -> Any:
    """Products of pairs (M x K, K x N), inputs held: the transposed product."""
    products, cycles, crossings = held_operand([(b.T, a.T) for a, b in pairs], rows, columns, switches)
    return [product.T for product in products], cycles, crossings
