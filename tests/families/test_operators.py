"""What holds for every operator: what a block needs, no more and no less; and that work adds up."""

from __future__ import annotations

from functools import reduce
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.workload.operator import ArrayWork, Operator, Work
from accelsim.workload.operators import OPERATORS
from accelsim.workload.tensor import Box, bounding_box, box_sizes, whole_box
from tests.naive.operators import TWINS, Array, compute
from tests.strategies.operators import OPERATORS_BY_KIND, boxes

BATCH = 2
every_kind = pytest.mark.parametrize("kind", OPERATORS)
few = settings(max_examples=40, deadline=None)


def amount(work: Work) -> int:
    return work.macs if isinstance(work, ArrayWork) else work.operations


def within(inner: Box, outer: Box) -> bool:
    return all(a <= c and d <= b for (c, d), (a, b) in zip(inner, outer, strict=True))


def at(box: Box) -> tuple[slice, ...]:
    return tuple(slice(begin, end) for begin, end in box)


def arrays_for(operator: Operator, random: np.random.Generator) -> tuple[list[Array], list[Array]]:
    operands = [random.normal(size=(BATCH, *one.shape)) for one in operator.operands]
    return operands, [random.normal(size=weight.shape) for weight in operator.weights]


def output_of(operator: Operator, operands: list[Array], weights: list[Array]) -> Array:
    output = compute(operator, operands, weights)
    assert output.shape == (BATCH, *operator.output.shape)
    return output


def test_every_operator_is_tested() -> None:
    assert set(OPERATORS) == set(TWINS) == set(OPERATORS_BY_KIND)


@every_kind
@few
@given(data=st.data())
def test_nothing_outside_its_box_changes_a_block(kind: str, data: st.DataObject) -> None:
    operator = data.draw(OPERATORS_BY_KIND[kind])
    box = data.draw(boxes(BATCH, operator.output.shape))
    operands, weights = arrays_for(operator, np.random.default_rng(1))
    before = output_of(operator, operands, weights)[at(box)]
    for index, operand in enumerate(operands):
        needed = operator.operand_box(index, box)
        assert within(needed, whole_box(BATCH, operator.operands[index].shape))
        changed = np.random.default_rng(2).normal(size=operand.shape)
        changed[at(needed)] = operand[at(needed)]
        others = [changed if number == index else one for number, one in enumerate(operands)]
        np.testing.assert_array_equal(output_of(operator, others, weights)[at(box)], before)


@every_kind
@few
@given(data=st.data())
def test_every_face_of_its_box_changes_a_block(kind: str, data: st.DataObject) -> None:
    """Unless the block needs nothing but padding, or the operand is a weight and read whole by rule."""
    operator = data.draw(OPERATORS_BY_KIND[kind])
    box = data.draw(boxes(BATCH, operator.output.shape))
    operands, weights = arrays_for(operator, np.random.default_rng(1))
    before = output_of(operator, operands, weights)[at(box)]
    for index, operand in enumerate(operands):
        needed = operator.operand_box(index, box)
        if operator.operands[index].is_weight or only_padding(operator, box):
            continue
        for axis, (begin, end) in enumerate(needed):
            for face in {(begin, begin + 1), (end - 1, end)}:
                changed = operand.copy()
                part = at((*needed[:axis], face, *needed[axis + 1 :]))
                changed[part] = np.random.default_rng(3).normal(size=changed[part].shape)
                others = [changed if number == index else one for number, one in enumerate(operands)]
                assert not np.array_equal(output_of(operator, others, weights)[at(box)], before), (axis, face)


def only_padding(operator: Any, box: Box) -> bool:
    """Whether no tap of the block's windows falls on the image along some axis, or a face of the box is a gap."""
    if operator.kind not in ("conv2d", "conv_transpose2d", "pool"):
        return False
    for axis, size in enumerate(operator.operands[0].shape[1:]):
        rows = {
            out * operator.stride[axis] + tap * operator.dilation[axis] - operator.padding[axis]
            for out in range(*box[2 + axis])
            for tap in range(operator.kernel[axis])
        }
        if operator.kind == "conv_transpose2d":
            rows = {number // operator.stride[axis] for number, _ in reached(operator, axis, box)}
        read = {row for row in rows if 0 <= row < size}
        begin, end = operator.operand_box(0, box)[2 + axis]
        if not {begin, end - 1} <= read:
            # The faces may miss the taps only where padding or dilation cuts the window at the border, or nothing
            # reaches the block.
            assert not rows or min(rows) < 0 or max(rows) >= size
            return True
    return False


def reached(operator: Any, axis: int, box: Box) -> list[tuple[int, int]]:
    """Of a transposed convolution: each output row of a block with each kernel row that an input row reaches it by.

    The first number is the input row times the stride; it may be outside the input.
    """
    pairs = product(range(*box[2 + axis]), range(operator.kernel[axis]))
    places = ((out + operator.padding[axis] - tap * operator.dilation[axis], tap) for out, tap in pairs)
    return [(place, tap) for place, tap in places if place % operator.stride[axis] == 0]


@every_kind
@few
@given(data=st.data())
def test_a_larger_block_needs_no_less(kind: str, data: st.DataObject) -> None:
    operator = data.draw(OPERATORS_BY_KIND[kind])
    inner = data.draw(boxes(BATCH, operator.output.shape))
    outer = bounding_box(inner, data.draw(boxes(BATCH, operator.output.shape)))
    for index in range(len(operator.operands)):
        assert within(operator.operand_box(index, inner), operator.operand_box(index, outer))
    assert amount(operator.work(inner)) <= amount(operator.work(outer))


@every_kind
@few
@given(data=st.data())
def test_a_partition_needs_and_works_as_the_whole(kind: str, data: st.DataObject) -> None:
    operator = data.draw(OPERATORS_BY_KIND[kind])
    ranges = []
    for size in (BATCH, *operator.output.shape):
        inside = data.draw(st.sets(st.integers(1, size - 1), max_size=2)) if size > 1 else set()
        ranges.append(list(pairwise([0, *sorted(inside), size])))
    parts: list[Box] = list(product(*ranges))
    whole = whole_box(BATCH, operator.output.shape)
    for index in range(len(operator.operands)):
        assert reduce(bounding_box, (operator.operand_box(index, part) for part in parts)) == operator.operand_box(
            index, whole
        )
    assert sum(amount(operator.work(part)) for part in parts) == amount(operator.whole_work(BATCH))


@every_kind
@few
@given(data=st.data())
def test_the_work_of_an_array_is_that_of_its_nest(kind: str, data: st.DataObject) -> None:
    """Every output element takes one multiplication for each weight of its filter."""
    operator = data.draw(OPERATORS_BY_KIND[kind])
    work = operator.whole_work(BATCH)
    elements = BATCH * operator.output.elements
    if kind == "conv2d":
        per_filter = operator.operands[0].shape[0] // operator.groups * operator.kernel[0] * operator.kernel[1]
        assert work.macs == elements * per_filter
        assert operator.weight_bytes == (0 if work.weights_from_operator else operator.output.shape[0] * per_filter)
    elif kind == "conv_transpose2d":
        channels = operator.operands[0].shape[0] // operator.groups
        whole = whole_box(BATCH, operator.output.shape)
        taps = len(reached(operator, 0, whole)) * len(reached(operator, 1, whole))
        assert work.macs == BATCH * operator.output.shape[0] * channels * taps
    elif kind == "recurrent":
        assert work.macs == elements * operator.hidden
        assert work.groups == operator.output.shape[0]
    elif kind == "matmul":
        assert work.macs == elements * operator.operands[0].shape[-1]
        assert work.weights_from_operator == (len(operator.operands) == 2)
    else:
        assert work.operations >= elements
        assert work.operations % elements == 0


@every_kind
@few
@given(data=st.data())
def test_tiles_cut_only_where_the_need_shrinks_or_stays(kind: str, data: st.DataObject) -> None:
    """The axes that may be cut are axes of the output, all different, and cutting never makes an operand read more."""
    operator = data.draw(OPERATORS_BY_KIND[kind])
    axes = [axis for axis in operator.tile_axes() if axis is not None]
    assert len(set(axes)) == len(axes)
    assert all(0 <= axis < len(operator.output.shape) for axis in axes)
    whole = whole_box(BATCH, operator.output.shape)
    for axis in axes:
        half = list(whole)
        half[axis + 1] = (0, max(1, whole[axis + 1][1] // 2))
        for index in range(len(operator.operands)):
            sizes = box_sizes(operator.operand_box(index, tuple(half)))
            limits = box_sizes(operator.operand_box(index, whole))
            assert all(size <= limit for size, limit in zip(sizes, limits, strict=True))
