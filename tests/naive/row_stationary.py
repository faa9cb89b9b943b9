"""Eyeriss' array clocked on real numbers: elements with their own stores, three buses, one cycle after another.

Slow and plain. It is told the mapping, lays the sets out on the array (and fails if they do not fit), and moves every
word: filters and inputs from the buses into the stores of the elements that need them, sums up the columns and out.
Nothing here knows a closed form.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.int64]


class Machine(NamedTuple):
    rows: int
    columns: int
    filter_words: int
    input_words: int
    sum_words: int
    filter_bus: int
    input_bus: int
    sum_bus: int


class Lay(NamedTuple):
    """The mapping, named as in Eyeriss' papers; ``u`` sets on different groups."""

    e: int
    p: int
    q: int
    r: int
    t: int
    u: int


@dataclass
class Element:
    """One processing element and its stores."""

    filters: dict[tuple[int, int, int], int] = field(default_factory=dict)  # (filter, channel, kernel column)
    inputs: dict[tuple[int, int], int] = field(default_factory=dict)  # (channel, column of the window)
    sums: dict[int, int] = field(default_factory=dict)


@dataclass
class Run:
    """The clock, and what has crossed the array's edge."""

    cycles: int = 0
    crossed: Counter[str] = field(default_factory=Counter)
    macs: int = 0
    busiest: int = 0
    active: list[int] = field(default_factory=list)  # multiplications of each cycle


def parts(size: int, step: int) -> list[range]:
    return [range(start, min(start + step, size)) for start in range(0, size, step)]


def equal_parts(size: int, most: int) -> list[range]:
    """As few parts of at most ``most`` as there can be, all but the last of one size."""
    count = -(-size // most)
    return parts(size, -(-size // count))


def deal(items: range, hands: int) -> list[range]:
    """Items dealt out to ``hands``, the same number to each but the last."""
    return parts_of(items, -(-len(items) // hands))


def parts_of(items: range, step: int) -> list[range]:
    return [items[start : start + step] for start in range(0, len(items), step)]


def lay_out(machine: Machine, lay: Lay, kernel_rows: int) -> None:
    """Gives each element of each set a place of its own on the array; sets whose sums are added share columns."""
    taken: set[tuple[int, int]] = set()
    across = max(machine.columns // lay.e, 1)
    segments = -(-lay.e // machine.columns)
    for number, added in product(range(lay.t * lay.u), range(lay.r)):
        down, aside = divmod(number, across)
        for i, j in product(range(kernel_rows), range(lay.e)):
            segment, column = divmod(j, machine.columns)
            place = (((down * lay.r + added) * segments + segment) * kernel_rows + i, aside * lay.e + column)
            assert place[0] < machine.rows and place[1] < machine.columns, "the sets do not fit on the array"
            assert place not in taken
            taken.add(place)


def convolve(x: Array, w: Array, stride: tuple[int, int], lay: Lay, machine: Machine) -> tuple[Array, Run]:
    """``x`` (groups, batch, channels, rows, columns) by ``w`` (groups, filters, channels, rows, columns)."""
    if w.shape[3:] == (1, 1) and stride == (1, 1):  # positions in any arrangement
        groups, batch, channels, height, width = x.shape
        positions = batch * height * width
        columns = -(-positions // lay.e)
        flat = np.zeros((groups, channels, columns * lay.e), dtype=np.int64)
        flat[:, :, :positions] = x.transpose(0, 2, 1, 3, 4).reshape(groups, channels, positions)
        out, run = _convolve(flat.reshape(groups, 1, channels, lay.e, columns), w, stride, lay, machine)
        out = out.reshape(groups, w.shape[1], -1)[:, :, :positions]
        return out.reshape(groups, w.shape[1], batch, height, width).transpose(0, 2, 1, 3, 4), run
    return _convolve(x, w, stride, lay, machine)


def _convolve(x: Array, w: Array, stride: tuple[int, int], lay: Lay, machine: Machine) -> tuple[Array, Run]:
    G, K, C, R, S = w.shape
    B = x.shape[1]
    P, Q = (x.shape[3] - R) // stride[0] + 1, (x.shape[4] - S) // stride[1] + 1
    out = np.zeros((G, B, K, P, Q), dtype=np.int64)
    run = Run()
    kernel_row_parts, kernel_column_parts = equal_parts(R, machine.rows), equal_parts(S, machine.input_words)
    lay_out(machine, lay, len(kernel_row_parts[0]))
    for groups, filters in product(parts(G, lay.u), parts(K, lay.p * lay.t)):
        additions = product(parts(C, lay.q * lay.r), kernel_row_parts, kernel_column_parts)
        for addition, (channels, kernel_rows, kernel_columns) in enumerate(additions):
            load = True
            for sample, strip in product(range(B), parts(P, lay.e)):
                grid: dict[Any, Element] = {}
                sets = list(product(groups, deal(filters, lay.t), deal(channels, lay.r)))
                for one in sets:
                    for i, j in product(kernel_rows, strip):
                        grid[(*one, i, j)] = Element()
                words = []  # of filters: the elements' keys, and what they store
                for g, k, c, i, s in product(groups, filters, channels, kernel_rows, kernel_columns):
                    to = [key for key in grid if key[0] == g and k in key[1] and c in key[2] and key[3] == i]
                    words.append((to, (k, c, s - kernel_columns[0]), int(w[g, k, c, i, s])))
                if load:
                    run.crossed["filters"] += len(words)
                    run.crossed["filter_copies"] += sum(len(to) for to, _, _ in words)
                else:  # they are still there
                    for to, where, value in words:
                        for key in to:
                            grid[key].filters[where] = value
                    words = []
                load = False
                _run_pass(x, out, stride, grid, words, (groups, channels, kernel_rows, kernel_columns), run, machine,
                          (sample, strip, filters, addition))  # fmt: skip
    return out, run


def _run_pass(
    x: Array, out: Array, stride: tuple[int, int], grid: dict[Any, Element], filter_words: list[Any], ranges: Any,
    run: Run, machine: Machine, what: Any,
) -> None:  # fmt: skip
    groups, channels, kernel_rows, kernel_columns = ranges
    sample, strip, filters, addition = what
    Q, width = out.shape[4], len(kernel_columns)
    new = min(stride[1], width)
    rows = sorted({j * stride[0] + i for i in kernel_rows for j in strip})

    def column_words(step: int, column: int) -> list[Any]:
        """What the input bus brings for one column of the window of ``step``."""
        words = []
        for g, c, row in product(groups, channels, rows):
            to = [key for key in grid if key[0] == g and c in key[2] and key[4] * stride[0] + key[3] == row]
            value = int(x[g, sample, c, row, step * stride[1] + kernel_columns[0] + column])
            words.append((to, (c, step * stride[1] + column), value))
        return words

    depth = max(len(key[2]) for key in grid)
    interleaved = max(len(key[1]) for key in grid)
    order = list(product(range(width), range(depth), range(interleaved)))
    columns = [column_words(0, column) for column in range(width)]
    for step in range(Q):
        if step + 1 < Q:
            columns += [column_words(step + 1, column) for column in range(width - new, width)]
        arrived = 0 if step == 0 else width
        done = 0
        slots = len(groups) * len(filters) * len(strip)  # of the sum buses, for one column, each way
        slots_left = slots
        if addition:
            run.crossed["sums_in"] += slots
        bus: list[Any] = []
        while done < len(order) or columns or bus or slots_left > 0 or filter_words:
            run.cycles += 1
            run.active.append(0)
            ready = not filter_words
            there = arrived
            for _ in range(min(machine.filter_bus, len(filter_words))):
                to, where, value = filter_words.pop(0)
                for key in to:
                    grid[key].filters[where] = value
                    assert len(grid[key].filters) <= machine.filter_words
            if not bus and columns:
                bus = columns.pop(0)
            if bus:
                for _ in range(min(machine.input_bus, len(bus))):
                    to, where, value = bus.pop(0)
                    run.crossed["inputs"] += 1
                    for key in to:
                        run.crossed["input_copies"] += 1
                        grid[key].inputs[where] = value
                arrived += not bus
            slots_left -= min(machine.sum_bus, slots_left)
            if done < len(order) and ready and there > order[done][0]:
                run.crossed["busy"] += 1
                column, c, k = order[done]
                done += 1
                worked = 0
                for key, element in grid.items():
                    if k < len(key[1]) and c < len(key[2]):
                        number = key[1][k]
                        weight = element.filters[number, key[2][c], column]
                        value = element.inputs[key[2][c], step * stride[1] + column]
                        element.sums[number] = element.sums.get(number, 0) + weight * value
                        assert len(element.sums) <= machine.sum_words
                        worked += 1
                run.macs += worked
                run.active[-1] = worked
                run.busiest = max(run.busiest, worked)
        for key, element in grid.items():  # sums of this column leave, and columns that are done with make room
            for number, value in element.sums.items():
                out[key[0], sample, number, key[4], step] += value
            element.sums.clear()
            element.inputs = {
                where: value for where, value in element.inputs.items() if where[1] >= (step + 1) * stride[1]
            }
            assert len(element.inputs) <= machine.input_words
        run.crossed["sums_out"] += slots
    # The last column's sums: up through all elements that add to them, then over the bus.
    sets_added = len({key[2] for key in grid})
    drain = len(kernel_rows) * sets_added - 1 + -(-slots // machine.sum_bus)
    run.cycles += drain
    run.active += [0] * drain
