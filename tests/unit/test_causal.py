"""Causal masks: against a list of all pairs; in products and softmax; through tiles and cuts."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import WorkloadError
from accelsim.schedule.tiling_exact import tile_group
from accelsim.workload.cut import cut_to_fit
from accelsim.workload.graph import Workload
from accelsim.workload.operator import ArrayWork, Operand, Source, VectorWork, Work
from accelsim.workload.operators import MatMul, Softmax
from accelsim.workload.operators.causal import CausalMask, rectangle
from accelsim.workload.tensor import Box, Tensor, whole_box

masks = st.builds(CausalMask, st.integers(-4, 9), st.none() | st.integers(1, 9))


def kept(mask: CausalMask, rows: range, positions: range) -> list[tuple[int, int]]:
    """All pairs that a mask keeps, by its definition."""
    last = mask.offset
    return [
        (row, one)
        for row, one in product(rows, positions)
        if one <= row + last and (mask.window is None or one > row + last - mask.window)
    ]


@given(mask=masks, row=st.integers(0, 6), rows=st.integers(1, 9), first=st.integers(0, 6), size=st.integers(1, 9))
def test_pairs_and_span_are_those_of_the_list(mask: CausalMask, row: int, rows: int, first: int, size: int) -> None:
    here, there = (row, row + rows), (first, first + size)
    pairs = kept(mask, range(*here), range(*there))
    assert mask.pairs(here, there) == len(pairs)
    low, high = mask.span(here, there)
    assert first <= low < high <= first + size
    if pairs:
        assert (low, high) == (min(one for _, one in pairs), max(one for _, one in pairs) + 1)
    moved = mask.behind(first)
    assert moved.pairs(here, (0, size)) == len(pairs)


@given(rows=st.integers(1, 300), first=st.integers(1, 300))
def test_a_trapezoid_is_a_rectangle_of_as_many_points(rows: int, first: int) -> None:
    height, width = rectangle(rows, sum(first + row for row in range(rows)))
    assert height * width == sum(first + row for row in range(rows))
    assert height in (rows, rows // 2)


@given(rows=st.integers(1, 300), pairs=st.integers(0, 10_000))
def test_any_other_shape_is_rounded_up_by_less_than_a_point_a_row(rows: int, pairs: int) -> None:
    height, width = rectangle(rows, pairs)
    assert pairs <= height * width < pairs + rows


def attention(heads: int, rows: int, cached: int, width: int, window: int | None = None) -> Workload:
    """Scores, softmax and weighted values of ``rows`` new positions."""
    positions = rows + cached
    mask = CausalMask(cached, window)
    shapes = {"q": (heads, rows, width), "k": (heads, width, positions), "v": (heads, positions, width)}
    q, k, v = (Operand((Source(name),), shape) for name, shape in shapes.items())
    square = (heads, rows, positions)
    operators = (
        MatMul("scores", (q, k), Tensor("scores", square), causal_columns=mask),
        Softmax("softmax", (Operand((Source("scores"),), square),), Tensor("softmax", square), causal=mask),
        MatMul("out", (Operand((Source("softmax"),), square), v), Tensor("out", shapes["q"]), causal_depth=mask),
    )
    return Workload("attention", operators, tuple(Tensor(name, shape) for name, shape in shapes.items()))


def amount(work: Work) -> int:
    return work.macs if isinstance(work, ArrayWork) else work.operations


@settings(deadline=None, max_examples=40)
@given(
    heads=st.integers(1, 3),
    rows=st.integers(1, 12),
    cached=st.integers(0, 9),
    window=st.none() | st.integers(1, 9),
    tiles=st.sampled_from([1, 2, 3, 4, 6]),
)
def test_tiles_add_up_and_read_only_what_is_kept(
    heads: int, rows: int, cached: int, window: int | None, tiles: int
) -> None:
    width = 5
    network = attention(heads, rows, cached, width, window)
    pairs = heads * len(kept(CausalMask(cached, window), range(rows), range(rows + cached)))
    for operator, each in zip(network.operators, (width, 5, width), strict=True):
        if tiles > rows * heads:
            continue
        try:
            blocks = tile_group(network, [operator], tiles)[0]
        except Exception as error:  # a number that cannot be realised
            assert "tiling number" in str(error)
            continue
        total = sum(amount(block.work) for block in blocks)
        if window is None:
            assert total == pairs * each
        else:
            assert pairs * each <= total < (pairs + heads * rows) * each


def needed_by_value(network: Workload, name: str, index: int, box: Box) -> np.ndarray:
    """Which elements of an operand a block needs: those whose change is seen, masked scores being minus infinity."""
    operator = network.operator(name)
    mask = operator.causal_columns if name == "scores" else operator.causal_depth  # type: ignore[attr-defined]
    shapes = [one.shape for one in operator.operands]
    square = np.zeros((shapes[0][1], shapes[1][2] if name == "scores" else shapes[0][2]), dtype=bool)
    for row, one in kept(mask, range(square.shape[0]), range(square.shape[1])):
        square[row, one] = True
    needed = np.zeros(shapes[index], dtype=bool)
    for head, row, column in product(*(range(*span) for span in box[1:])):
        if name == "scores":
            if square[row, column]:
                needed[(head, row) if index == 0 else (head, slice(None), column)] = True
        else:
            needed[(head, row, square[row]) if index == 0 else (head, square[row], column)] = True
    return needed


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize(("name", "index"), [("scores", 1), ("out", 0), ("out", 1)])
def test_boxes_are_the_smallest_around_what_is_kept(name: str, index: int, window: int | None) -> None:
    network = attention(2, 4, 3, 2, window)
    operator = network.operator(name)
    columns = operator.output.shape[2]
    for begin, end in ((0, 1), (1, 3), (2, 4), (0, 4)):
        box = ((0, 1), (1, 2), (begin, end), (0, columns))
        places = np.argwhere(needed_by_value(network, name, index, box))
        expected = tuple((int(low), int(high) + 1) for low, high in zip(places.min(0), places.max(0), strict=True))
        assert operator.operand_box(index, box)[1:] == expected


@pytest.mark.parametrize("capacity", [40, 60, 100, 10_000])
def test_cutting_keys_and_values_keeps_the_work(capacity: int) -> None:
    network = attention(2, 6, 20, 2)
    cut = cut_to_fit(network, capacity)
    pairs = 2 * len(kept(CausalMask(20), range(6), range(26)))
    products = sum(one.whole_work(1).macs for one in cut.operators if isinstance(one.whole_work(1), ArrayWork))
    assert pairs * 4 <= products < (pairs + 2 * 6 * len(cut.operators)) * 4
    assert (len(cut.operators) > 3) == (capacity < 2 * 26 * 2)


def test_a_part_that_no_row_needs_is_no_work() -> None:
    operands = (Operand((Source("q"),), (4, 2)), Operand((Source("k"),), (2, 8)))
    behind = MatMul("s", operands, Tensor("s", (4, 8)), causal_columns=CausalMask(-4))
    assert behind.work(whole_box(1, (4, 8))) == VectorWork(0)


def test_refusals() -> None:
    left, right = Operand((Source("q"),), (4, 2)), Operand((Source("k"),), (2, 8))
    both = {"causal_columns": CausalMask(), "causal_depth": CausalMask()}
    with pytest.raises(WorkloadError, match="one causal mask at most"):
        MatMul("s", (left, right), Tensor("s", (4, 8)), **both)
    with pytest.raises(WorkloadError, match="for a product of two operands"):
        MatMul("s", (left,), Tensor("s", (4, 8)), (Tensor("w", (2, 8)),), causal_columns=CausalMask())
    with pytest.raises(WorkloadError, match="3 heads do not share 8 columns evenly"):
        MatMul("s", (left,), Tensor("s", (4, 8)), (Tensor("w", (2, 8)),), heads=3)
    with pytest.raises(WorkloadError, match="window of 0"):
        CausalMask(0, 0)
