"""Tensors, the boxes cut out of them, and the free views through which operators read them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import prod

from accelsim.errors import WorkloadError
from accelsim.sparsity import Sparsity

Range = tuple[int, int]
Box = tuple[Range, ...]
"""A block of a tensor: one half-open range per axis, the samples of the batch first, then the axes of the shape."""

MAXIMUM_BYTES = 1 << 50
"""A tensor larger than a pebibyte is a mistake in a file, not a model."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named n-dimensional array: what is stored and moved.

    ``shape`` is that of one sample; an activation of a workload with batch N holds N such samples, a weight one.
    """

    name: str
    shape: tuple[int, ...]
    bits: int = 8
    """Bits per element."""
    sparsity: Sparsity | None = None
    """What is known of its zeros, and how they are stored; None: stored as it is."""

    def __post_init__(self) -> None:
        if any(not isinstance(size, int) or size < 1 for size in self.shape):
            raise WorkloadError(f"tensor '{self.name}' has shape {self.shape}; every size must be a whole number >= 1")
        if not 1 <= self.bits <= 64:
            raise WorkloadError(f"tensor '{self.name}' has {self.bits} bits per element; expected 1 to 64")
        if self.sample_bytes > MAXIMUM_BYTES:
            raise WorkloadError(
                f"tensor '{self.name}' of shape {self.shape} holds {self.sample_bytes:.3e} bytes; "
                f"the most that is accepted is {MAXIMUM_BYTES:.3e}: is a size wrong?"
            )

    @property
    def elements(self) -> int:
        """Elements of one sample."""
        return prod(self.shape)

    @property
    def sample_bytes(self) -> int:
        """Whole bytes of one sample, elements packed, in the form in which it is stored."""
        return self._bytes(self.elements)

    @property
    def least_bits(self) -> Fraction:
        """Bits of an element in the form in which it is stored, in the mean; no block takes fewer for each."""
        return Fraction(self.bits) if self.sparsity is None else self.sparsity.least_bits(self.bits)

    def box_bytes(self, box: Box) -> int:
        """Whole bytes of a block, elements packed."""
        return self._bytes(box_elements(box))

    def _bytes(self, elements: int) -> int:
        if self.sparsity is None:
            return -(-elements * self.bits // 8)
        return -(-self.sparsity.stored_bits(elements, self.bits) // 8)


def box_elements(box: Box) -> int:
    """Number of elements of a block."""
    return prod(end - begin for begin, end in box)


def box_sizes(box: Box) -> tuple[int, ...]:
    """Extent of a block, axis by axis."""
    return tuple(end - begin for begin, end in box)


def whole_box(batch: int, shape: tuple[int, ...]) -> Box:
    """The block that is all of a tensor, all samples included."""
    return ((0, batch), *((0, size) for size in shape))


def bounding_box(first: Box, second: Box) -> Box:
    """The smallest block that holds both."""
    return tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(first, second, strict=True))


@dataclass(frozen=True, slots=True)
class Reshape:
    """A free view: the same elements, in the same order, under another shape."""

    from_shape: tuple[int, ...]
    to_shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if prod(self.from_shape) != prod(self.to_shape):
            raise WorkloadError(f"cannot view {self.from_shape} as {self.to_shape}: the numbers of elements differ")

    def source_box(self, box: Box) -> Box:
        """The block of the viewed tensor that holds ``box``: exact where axes map one to one, else its bounding box."""
        ranges: list[Range] = [box[0]]
        for from_axes, to_axes in _matching_groups(self.from_shape, self.to_shape):
            first = last = 0
            for axis in to_axes:
                begin, end = box[axis + 1]
                first = first * self.to_shape[axis] + begin
                last = last * self.to_shape[axis] + end - 1
            ranges.extend(_bounding_ranges(first, last, [self.from_shape[axis] for axis in from_axes]))
        return tuple(ranges)


@dataclass(frozen=True, slots=True)
class Slice:
    """A free view: a block of the tensor, without steps."""

    begin: tuple[int, ...]

    def source_box(self, box: Box) -> Box:
        """The block of the sliced tensor behind ``box``."""
        moved = ((low + begin, high + begin) for (low, high), begin in zip(box[1:], self.begin, strict=True))
        return (box[0], *moved)


@dataclass(frozen=True, slots=True)
class Permute:
    """A free view: the axes in another order, as the addresses of reads and writes give it.

    Axis i of the view is axis ``axes[i]`` of the tensor. For what hardware addresses anyway, such as the heads of an
    attention; data that has to be rearranged first is a Transpose, which is paid.
    """

    axes: tuple[int, ...]

    def __post_init__(self) -> None:
        if sorted(self.axes) != list(range(len(self.axes))):
            raise WorkloadError(f"{self.axes} is no permutation of {len(self.axes)} axes")

    def source_box(self, box: Box) -> Box:
        """The block with its axes permuted back."""
        ranges: list[Range] = [(0, 0)] * len(self.axes)
        for view_axis, axis in enumerate(self.axes):
            ranges[axis] = box[view_axis + 1]
        return (box[0], *ranges)


View = Reshape | Slice | Permute


@cache
def _matching_groups(
    left: tuple[int, ...], right: tuple[int, ...]
) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Splits two shapes of one element count into the shortest runs of axes with equal products."""
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    i = j = 0
    while i < len(left) or j < len(right):
        i_axes: list[int] = []
        j_axes: list[int] = []
        i_product = j_product = 1
        while not (i_axes or j_axes) or i_product != j_product:
            if j == len(right) or (i < len(left) and i_product <= j_product):
                i_axes.append(i)
                i_product *= left[i]
                i += 1
            else:
                j_axes.append(j)
                j_product *= right[j]
                j += 1
        groups.append((tuple(i_axes), tuple(j_axes)))
    return tuple(groups)


def _bounding_ranges(first: int, last: int, sizes: list[int]) -> list[Range]:
    """The block around the elements number ``first`` to ``last`` (row major) of an array of ``sizes``."""
    ranges: list[Range] = []
    whole_inside = False
    stride = prod(sizes)
    for size in sizes:
        stride //= size
        if whole_inside:
            ranges.append((0, size))
            continue
        low, high = first // stride, last // stride
        ranges.append((low, high + 1))
        first, last = first - low * stride, last - high * stride
        whole_inside = low != high
    return ranges
