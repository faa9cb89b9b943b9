"""Normalizations whose statistics are made at run time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from accelsim.workload.operator import Operator, TileAxes, VectorWork
from accelsim.workload.operators.elementwise import default_tile_axes
from accelsim.workload.tensor import Box, box_elements

NORMALIZATION_OPERATIONS = 7
"""Sum for the mean, subtract, square, sum for the variance, scale by its root, multiply by gain, add bias."""
RMS_NORMALIZATION_OPERATIONS = 4
"""Square, sum, scale by the root of the mean, multiply by gain (Zhang and Sennrich, NeurIPS 2019, equation 4)."""


@dataclass(frozen=True)
class Normalization(Operator):
    """Layer, group, instance or root-mean-square normalization: statistics of operand 0 over ``axes``."""

    axes: tuple[int, ...] = (-1,)
    operations_per_element: int = NORMALIZATION_OPERATIONS

    kind: ClassVar[str] = "normalization"

    def tile_axes(self) -> TileAxes:
        """As element-wise operators, without the axes that are summed over."""
        summed = {axis % len(self.output.shape) for axis in self.axes}
        axes = default_tile_axes(self.output.shape)
        return TileAxes(*(None if candidate in summed else candidate for candidate in axes))

    def operand_box(self, index: int, box: Box) -> Box:
        """The same block, with all of the summed axes."""
        shape = self.output.shape
        summed = {axis % len(shape) for axis in self.axes}
        return (box[0], *((0, shape[axis]) if axis in summed else span for axis, span in enumerate(box[1:])))

    def work(self, box: Box) -> VectorWork:
        """``operations_per_element`` an element."""
        return VectorWork(box_elements(box) * self.operations_per_element, self.kind)


@dataclass(frozen=True)
class LocalResponseNorm(Operator):
    """Local response normalization over ``size`` channels (Krizhevsky et al., NeurIPS 2012, section 3.3)."""

    size: int = 5

    kind: ClassVar[str] = "local_response_norm"

    def tile_axes(self) -> TileAxes:
        """Rows and columns."""
        return default_tile_axes(self.output.shape)

    def operand_box(self, index: int, box: Box) -> Box:
        """The same rows and columns, and the neighbouring channels."""
        before, after = (self.size - 1) // 2, self.size // 2
        begin, end = box[1]
        return (box[0], (max(begin - before, 0), min(end + after, self.output.shape[0])), *box[2:])

    def work(self, box: Box) -> VectorWork:
        """A square and a sum for each neighbour, then scale, bias, power and division."""
        return VectorWork(box_elements(box) * (2 * self.size + 4), self.kind)
