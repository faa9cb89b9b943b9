"""Free views against index sets: every element of a block, followed to where it stands."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import WorkloadError
from accelsim.workload.operator import Operand, Source
from accelsim.workload.tensor import Box, Reshape, Slice, whole_box
from tests.strategies.operators import boxes

BATCH = 2
sizes = st.integers(1, 4)


def reached(box: Box, shape: tuple[int, ...], from_shape: tuple[int, ...]) -> Box:
    """The smallest block around the elements of ``box`` after a reshape back to ``from_shape``."""
    inside = np.zeros((BATCH, *shape), bool)
    inside[tuple(slice(*one) for one in box)] = True
    where = np.nonzero(inside.reshape(BATCH, *from_shape))
    return tuple((int(index.min()), int(index.max()) + 1) for index in where)


@st.composite
def split(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A shape, and the same with some of its axes taken apart."""
    groups = draw(st.lists(st.lists(sizes, min_size=1, max_size=3), min_size=1, max_size=3))
    return tuple(prod(group) for group in groups), tuple(size for group in groups for size in group)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), shapes=split(), merge=st.booleans())
def test_a_reshape_that_splits_or_merges_axes_is_exact(
    data: st.DataObject, shapes: tuple[tuple[int, ...], tuple[int, ...]], merge: bool
) -> None:
    from_shape, to_shape = reversed(shapes) if merge else shapes
    box = data.draw(boxes(BATCH, to_shape))
    assert Reshape(from_shape, to_shape).source_box(box) == reached(box, to_shape, from_shape)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), shape=st.lists(sizes, min_size=1, max_size=4))
def test_any_reshape_covers_what_is_needed_and_stays_inside(data: st.DataObject, shape: list[int]) -> None:
    from_shape, to_shape = tuple(shape), tuple(data.draw(st.permutations(shape)))
    box = data.draw(boxes(BATCH, to_shape))
    found, needed = Reshape(from_shape, to_shape).source_box(box), reached(box, to_shape, from_shape)
    for (low, high), (begin, end), size in zip(found, needed, (BATCH, *from_shape), strict=True):
        assert 0 <= low <= begin
        assert end <= high <= size


@settings(max_examples=100, deadline=None)
@given(data=st.data(), shape=st.lists(sizes, min_size=1, max_size=4))
def test_the_whole_of_a_view_is_the_whole_of_the_tensor(data: st.DataObject, shape: list[int]) -> None:
    to_shape = tuple(data.draw(st.permutations(shape)))
    assert Reshape(tuple(shape), to_shape).source_box(whole_box(BATCH, to_shape)) == whole_box(BATCH, tuple(shape))


def test_reshapes_by_hand() -> None:
    # Heads: (4 positions, 6 features) as (4, 2 heads, 3): features 3 to 5 are head 1.
    heads = Reshape((4, 6), (4, 2, 3))
    assert heads.source_box(((0, 1), (1, 3), (1, 2), (0, 3))) == ((0, 1), (1, 3), (3, 6))
    # Flattening (2, 3, 4): elements 5 to 6 stand in row 1 of image 0, columns 1 to 2.
    assert Reshape((2, 3, 4), (24,)).source_box(((0, 1), (5, 7))) == ((0, 1), (0, 1), (1, 2), (1, 3))
    # Elements 11 to 12 lie on both sides of a border, so all rows and columns between are in the block.
    assert Reshape((2, 3, 4), (24,)).source_box(((0, 1), (11, 13))) == ((0, 1), (0, 2), (0, 3), (0, 4))
    # A scalar as one element, and back.
    assert Reshape((), (1, 1)).source_box(((0, 1), (0, 1), (0, 1))) == ((0, 1),)
    assert Reshape((1, 1), ()).source_box(((0, 1),)) == ((0, 1), (0, 1), (0, 1))


def test_a_reshape_keeps_the_number_of_elements() -> None:
    with pytest.raises(WorkloadError, match="numbers of elements differ"):
        Reshape((2, 3), (7,))


@settings(max_examples=100, deadline=None)
@given(data=st.data(), shape=st.lists(sizes, min_size=1, max_size=3).map(tuple))
def test_a_slice_is_the_block_itself(data: st.DataObject, shape: tuple[int, ...]) -> None:
    part = data.draw(boxes(1, shape))[1:]
    inner = tuple(high - low for low, high in part)
    box = data.draw(boxes(BATCH, inner))
    numbers = np.arange(BATCH * prod(shape)).reshape(BATCH, *shape)
    view = numbers[(slice(None), *(slice(*one) for one in part))]
    found = Slice(tuple(low for low, _ in part)).source_box(box)
    np.testing.assert_array_equal(numbers[tuple(slice(*one) for one in found)], view[tuple(slice(*one) for one in box)])


@settings(max_examples=100, deadline=None)
@given(data=st.data(), extents=st.lists(sizes, min_size=1, max_size=4), other=sizes, axis=st.integers(0, 1))
def test_a_concatenation_reads_its_parts(data: st.DataObject, extents: list[int], other: int, axis: int) -> None:
    """Each element of the block comes from one place of one source, and nothing else is read."""
    shapes = [(extent, other) if axis == 0 else (other, extent) for extent in extents]
    joined = np.concatenate([np.full((BATCH, *shape), number) for number, shape in enumerate(shapes)], axis=axis + 1)
    operand = Operand(
        tuple(Source(str(number)) for number in range(len(shapes))), joined.shape[1:], axis, tuple(extents)
    )
    box = data.draw(boxes(BATCH, operand.shape))
    block = joined[tuple(slice(*one) for one in box)]
    read = dict(operand.source_boxes(box))
    assert {int(name) for name in read} == set(np.unique(block))
    for name, part in read.items():
        assert prod(end - begin for begin, end in part) == (block == int(name)).sum()
        limits = (BATCH, *shapes[int(name)])
        assert all(0 <= begin < end <= limit for (begin, end), limit in zip(part, limits, strict=True))


def test_views_apply_one_after_another() -> None:
    """Rows 2 and 3 of (4, 6), then as 12 elements: elements 7 and 8 are columns 1 and 2 of row 3."""
    source = Source("x", (Slice((2, 0)), Reshape((2, 6), (12,))))
    operand = Operand((source,), (12,))
    assert list(operand.source_boxes(((0, 1), (7, 9)))) == [("x", ((0, 1), (3, 4), (1, 3)))]


def test_parts_must_fill_the_operand() -> None:
    for extents in ((1, 2), (3,), (1, 1, 1, 1)):
        with pytest.raises(WorkloadError, match="together they must give"):
            Operand((Source("a"), Source("b")), (4, 2), 0, extents)


def test_every_cell_of_a_grid_of_blocks_is_found_once() -> None:
    """A partition of a view is a partition of what is viewed, where axes are only split."""
    view, seen = Reshape((6, 4), (2, 3, 4)), np.zeros((6, 4), int)
    for outer, inner in product(range(2), range(3)):
        _, rows, columns = view.source_box(((0, 1), (outer, outer + 1), (inner, inner + 1), (0, 4)))
        seen[slice(*rows), slice(*columns)] += 1
    assert (seen == 1).all()
