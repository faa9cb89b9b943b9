"""Free views of operands: slices, reshapes and concatenations, also of what is itself a concatenation."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from accelsim.errors import WorkloadError
from accelsim.workload.operator import Operand, Source
from accelsim.workload.tensor import Permute, Reshape, Slice


def sliced(operand: Operand, begin: Sequence[int], shape: Sequence[int]) -> Operand:
    """The block of ``operand`` that begins at ``begin`` and has ``shape``. Sources outside it are left out.

    Raises:
        WorkloadError: the block is not inside the operand.
    """
    begin, shape = tuple(begin), tuple(shape)
    ends = [low + size for low, size in zip(begin, shape, strict=True)]
    if len(begin) != len(operand.shape) or any(
        low < 0 or low >= high or high > size for low, high, size in zip(begin, ends, operand.shape, strict=False)
    ):
        raise WorkloadError(f"the block from {begin} to {tuple(ends)} is not inside a tensor of shape {operand.shape}")
    if shape == operand.shape:
        return operand
    if len(operand.sources) == 1:
        return Operand((_add_slice(operand.sources[0], begin),), shape)
    axis = operand.axis
    sources: list[Source] = []
    extents: list[int] = []
    offset = 0
    for source, extent in zip(operand.sources, operand.extents, strict=True):
        low, high = max(begin[axis] - offset, 0), min(ends[axis] - offset, extent)
        offset += extent
        if low < high:
            sources.append(_add_slice(source, (*begin[:axis], low, *begin[axis + 1 :])))
            extents.append(high - low)
    return Operand(tuple(sources), shape, axis, tuple(extents))


def reshaped(operand: Operand, shape: Sequence[int]) -> Operand | None:
    """``operand`` under another shape of as many elements, or None where its parts have no shape of their own in it.

    A concatenation can be reshaped in place if the new shape has an axis before which as many elements stand as
    before the joined one, and every part fills whole steps of it; (2, 30) joined from (2, 10) and (2, 20) along axis 1
    is (2, 3, 10) of (2, 1, 10) and (2, 2, 10), but not (60,).
    """
    shape = tuple(shape)
    if prod(shape) != prod(operand.shape):
        raise WorkloadError(f"cannot view {operand.shape} as {shape}: the numbers of elements differ")
    if shape == operand.shape:
        return operand
    if len(operand.sources) == 1:
        return Operand((_add_reshape(operand.sources[0], operand.shape, shape),), shape)
    before, step = prod(operand.shape[: operand.axis]), prod(operand.shape[operand.axis + 1 :])
    for axis in range(len(shape)):
        new_step = prod(shape[axis + 1 :])
        if prod(shape[:axis]) != before or any(extent * step % new_step for extent in operand.extents):
            continue
        extents = tuple(extent * step // new_step for extent in operand.extents)
        sources = tuple(
            _add_reshape(source, _with_axis(operand.shape, operand.axis, old), _with_axis(shape, axis, new))
            for source, old, new in zip(operand.sources, operand.extents, extents, strict=True)
        )
        return Operand(sources, shape, axis, extents)
    return None


def joined(operands: Sequence[Operand], axis: int) -> Operand | None:
    """The operands concatenated along ``axis``, or None where one of them is already joined along another axis."""
    if len(operands) == 1:
        return operands[0]
    sources: list[Source] = []
    extents: list[int] = []
    for operand in operands:
        if len(operand.sources) > 1 and operand.axis != axis:
            return None
        if _with_axis(operand.shape, axis, 1) != _with_axis(operands[0].shape, axis, 1):
            raise WorkloadError(f"cannot join {operands[0].shape} and {operand.shape} along axis {axis}")
        sources.extend(operand.sources)
        extents.extend(operand.extents if len(operand.sources) > 1 else (operand.shape[axis],))
    return Operand(tuple(sources), _with_axis(operands[0].shape, axis, sum(extents)), axis, tuple(extents))


def permuted(operand: Operand, axes: Sequence[int]) -> Operand:
    """``operand`` with its axes in another order: axis i is what axis ``axes[i]`` was."""
    axes = tuple(axes)
    if axes == tuple(range(len(axes))):
        return operand
    shape = tuple(operand.shape[axis] for axis in axes)
    sources = tuple(Source(source.producer, (*source.views, Permute(axes))) for source in operand.sources)
    return Operand(sources, shape, axes.index(operand.axis), operand.extents)


def _with_axis(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _add_slice(source: Source, begin: tuple[int, ...]) -> Source:
    return Source(source.producer, (*source.views, Slice(begin))) if any(begin) else source


def _add_reshape(source: Source, old: tuple[int, ...], new: tuple[int, ...]) -> Source:
    views = source.views
    # Two reshapes in a row are one, and its blocks are tighter; unless a block at the origin was cut out in between.
    if views and isinstance(views[-1], Reshape) and views[-1].to_shape == old:
        old, views = views[-1].from_shape, views[:-1]
    return Source(source.producer, views if old == new else (*views, Reshape(old, new)))
