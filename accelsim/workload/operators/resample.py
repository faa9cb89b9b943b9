"""Resizing of images by any factor: nearest neighbour, bilinear, bicubic."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import ClassVar

from accelsim.errors import WorkloadError
from accelsim.workload.operator import Operator, TileAxes, VectorWork
from accelsim.workload.tensor import Box, Range, box_elements


@dataclass(frozen=True)
class Resample(Operator):
    """Operand 0, shape (channels, rows, columns), at other points: output row y is at input row ``y * step + shift``.

    An output element is made of ``taps`` neighbours along each axis: 1 is the row at or above the place, 2 (linear) the
    rows on both sides of it, 4 (cubic) two on each side. Rows beyond the border are those of the border.
    """

    step: tuple[Fraction, Fraction] = (Fraction(1), Fraction(1))
    shift: tuple[Fraction, Fraction] = (Fraction(0), Fraction(0))
    taps: tuple[int, int] = (1, 1)

    kind: ClassVar[str] = "resample"

    def __post_init__(self) -> None:
        if self.operands[0].shape[0] != self.output.shape[0] or min(self.step) < 0 or not {1, 2, 4} >= set(self.taps):
            raise WorkloadError(
                f"resampling '{self.name}': {self.operands[0].shape} to {self.output.shape} by steps of {self.step} "
                f"with {self.taps} neighbours; channels must be equal, steps >= 0, neighbours 1, 2 or 4"
            )

    def tile_axes(self) -> TileAxes:
        """Rows and columns of the output image."""
        return TileAxes(rows=1, columns=2)

    def operand_box(self, index: int, box: Box) -> Box:
        """The same channels, and the neighbours of the block's rows and columns."""
        sizes = self.operands[0].shape[1:]
        return (box[0], box[1], *(self._neighbours(axis, box[2 + axis], size) for axis, size in enumerate(sizes)))

    def _neighbours(self, axis: int, out: Range, size: int) -> Range:
        first, last = (floor(place * self.step[axis] + self.shift[axis]) for place in (out[0], out[1] - 1))
        above = max(self.taps[axis] // 2 - 1, 0)
        low, high = first - above, last - above + self.taps[axis] - 1
        return min(max(low, 0), size - 1), min(max(high, 0), size - 1) + 1

    def work(self, box: Box) -> VectorWork:
        """A multiplication and an addition a neighbour; one operation, a copy, where there is only one."""
        neighbours = self.taps[0] * self.taps[1]
        return VectorWork(box_elements(box) * (1 if neighbours == 1 else 2 * neighbours), self.kind)
