"""Slices, reshapes and concatenations of operands give what NumPy gives."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.errors import WorkloadError
from accelsim.workload.operator import Operand, Source
from accelsim.workload.tensor import whole_box
from accelsim.workload.views import joined, reshaped, sliced
from tests.naive.networks import read, whole_numbers


@st.composite
def factorizations(draw: st.DrawFn, elements: int) -> tuple[int, ...]:
    """A shape of so many elements."""
    shape = []
    while elements > 1 and len(shape) < 4:
        size = draw(st.sampled_from([size for size in range(1, elements + 1) if elements % size == 0]))
        shape.append(size)
        elements //= size
    return (*shape, elements)


@st.composite
def concatenations(draw: st.DrawFn) -> tuple[Operand, dict[str, np.ndarray]]:
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    axis = draw(st.integers(0, len(shape) - 1))
    values, operands = {}, []
    for number in range(draw(st.integers(1, 3))):
        shape[axis] = draw(st.integers(1, 4))
        values[f"x{number}"] = whole_numbers(f"x{number}", (1, *shape))
        operands.append(Operand((Source(f"x{number}"),), tuple(shape)))
    operand = joined(operands, axis)
    assert operand is not None
    np.testing.assert_array_equal(read(operand, values), np.concatenate(list(values.values()), axis + 1))
    return operand, values


@given(data=st.data())
def test_views_of_a_concatenation_show_what_numpy_shows(data: st.DataObject) -> None:
    operand, values = data.draw(concatenations())
    expected = read(operand, values)
    for _ in range(data.draw(st.integers(1, 4))):
        if data.draw(st.booleans()):
            begin = [data.draw(st.integers(0, size - 1)) for size in operand.shape]
            shape = [data.draw(st.integers(1, size - low)) for low, size in zip(begin, operand.shape, strict=True)]
            operand = sliced(operand, begin, shape)
            block = (slice(low, low + size) for low, size in zip(begin, shape, strict=True))
            expected = expected[(slice(None), *block)]
        else:
            shape = data.draw(factorizations(prod(operand.shape)))
            view = reshaped(operand, shape)
            if view is None:
                assert len(operand.sources) > 1
                continue
            operand, expected = view, expected.reshape(1, *shape)
        np.testing.assert_array_equal(read(operand, values), expected)
        for producer, box in operand.source_boxes(whole_box(1, operand.shape)):
            assert all(0 <= a < b <= size for (a, b), size in zip(box, values[producer].shape, strict=True))


def test_a_concatenation_is_reshaped_where_every_part_fills_whole_steps() -> None:
    parts = [Operand((Source("a"),), (2, 10)), Operand((Source("b"),), (2, 20))]
    operand = joined(parts, 1)
    assert operand is not None
    view = reshaped(operand, (2, 3, 10))
    assert view is not None and (view.axis, view.extents) == (1, (1, 2))
    assert reshaped(operand, (60,)) is None  # a row of a, a row of b, a row of a, …
    assert reshaped(operand, (2, 2, 15)) is None  # a would fill two thirds of a step


def test_two_reshapes_that_undo_each_other_are_none() -> None:
    operand = Operand((Source("a"),), (4, 6))
    there = reshaped(operand, (24,))
    assert there is not None
    assert reshaped(there, (4, 6)) == operand


def test_what_is_no_view_is_refused() -> None:
    operand = Operand((Source("a"),), (4, 6))
    with pytest.raises(WorkloadError, match="not inside a tensor of shape"):
        sliced(operand, (1, 0), (4, 6))
    with pytest.raises(WorkloadError, match="numbers of elements differ"):
        reshaped(operand, (5, 5))
    with pytest.raises(WorkloadError, match="cannot join"):
        joined([operand, Operand((Source("b"),), (4, 5))], 0)
