"""Macros that compute in their memory, clocked bit by bit on real numbers. Knows no closed form."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.int64]


class Machine(NamedTuple):
    macros: int
    rows: int
    columns: int
    weight_bits: int
    cell_bits: int
    input_bits: int
    step_bits: int
    columns_per_converter: int
    conversion_cycles: int
    write_cycles: int


def digits(value: int, bits: int, width: int) -> list[tuple[int, int]]:
    """A number in two's complement as pieces of ``width`` bits and what each is worth; the top one is signed."""
    pieces = []
    for low in range(0, bits, width):
        size = min(width, bits - low)
        piece = (value >> low) & ((1 << size) - 1)
        if low + size == bits and piece >> (size - 1):
            piece -= 1 << size
        pieces.append((piece, 1 << low))
    return pieces


@dataclass
class Macro:
    """One array of cells, what it still has to do, and sums for its fold."""

    fold: Any
    cells: dict[tuple[int, int], int]
    to_write: list[int]


def multiply(pairs: list[tuple[Matrix, Matrix]], machine: Machine) -> tuple[list[Matrix], int, Counter[str]]:
    """Products of pairs (M x K, K x N), the cycles, and values that crossed the macros' edges."""
    slices = len(digits(0, machine.weight_bits, machine.cell_bits))
    per_row = machine.columns // slices
    folds = [
        (number, range(k, min(k + machine.rows, b.shape[0])), range(n, min(n + per_row, b.shape[1])))
        for number, (_, b) in enumerate(pairs)
        for n in range(0, b.shape[1], per_row)
        for k in range(0, b.shape[0], machine.rows)
    ]
    products = [np.zeros((a.shape[0], b.shape[1]), dtype=np.int64) for a, b in pairs]
    begun: set[Any] = set()
    crossed: Counter[str] = Counter()
    cycle = 0
    for first in range(0, len(folds), machine.macros):
        ends = []
        in_this_round: set[Any] = set()
        for number, terms, filters in folds[first : first + machine.macros]:
            ends.append(cycle + _run(pairs[number], products[number], terms, filters, machine, crossed))
            for n in filters:
                key = (number, n)
                if key in begun and key not in in_this_round:
                    crossed["added"] += len(pairs[number][0])
                in_this_round.add(key)
        begun |= in_this_round
        cycle = max(ends)
    return products, cycle, crossed


def _run(
    pair: tuple[Matrix, Matrix], product: Matrix, terms: range, filters: range, machine: Machine, crossed: Counter[str]
) -> int:
    """Writes one macro and lets it work on all inputs; the cycles that it takes."""
    a, b = pair
    cycle = 0
    cells: dict[tuple[int, int], int] = {}
    worth: dict[int, tuple[int, int]] = {}  # column -> filter, worth of its slice
    for i, k in enumerate(terms):
        for _ in range(machine.write_cycles):
            cycle += 1
        column = 0
        for n in filters:
            crossed["weights"] += 1
            for piece, scale in digits(int(b[k, n]), machine.weight_bits, machine.cell_bits):
                cells[i, column] = piece
                worth[column] = (n, scale)
                column += 1
    assert len(worth) <= machine.columns and len(terms) <= machine.rows
    held: list[Any] = []  # sums of one step on the columns, with what the step is worth, waiting for the converters
    steps = []
    for m in range(a.shape[0]):
        crossed["inputs"] += len(terms)
        pieces = [digits(int(a[m, k]), machine.input_bits, machine.step_bits) for k in terms]
        for step in range(len(pieces[0])):
            steps.append((m, pieces[0][step][1], [piece[step][0] for piece in pieces]))
    at = 0
    while at < len(steps) or held:
        # One cycle: the array makes the sums of a step if there is room to hold them; converters read one column each.
        if not held:
            m, scale, bits = steps[at]
            at += 1
            cycle += 1
            held = [(m, scale, bits)]
            continue
        m, scale, bits = held.pop()
        groups = [range(c, min(c + machine.columns_per_converter, len(worth))) for c in range(0, len(worth),
                  machine.columns_per_converter)]  # fmt: skip
        for turn in range(max(len(group) for group in groups)):
            for _ in range(machine.conversion_cycles):
                cycle += 1
            for group in groups:
                if turn < len(group):
                    n, slice_scale = worth[group[turn]]
                    converted = sum(bit * cells[i, group[turn]] for i, bit in enumerate(bits))
                    product[m, n] += converted * slice_scale * scale
        if at < len(steps):  # made meanwhile, in the last of these cycles
            held = [steps[at]]
            at += 1
    return cycle
