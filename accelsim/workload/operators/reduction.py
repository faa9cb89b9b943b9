"""Reductions along any axes: sums, means, maxima, and the largest few of many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from accelsim.errors import WorkloadError
from accelsim.workload.operator import Operator, TileAxes, VectorWork
from accelsim.workload.tensor import Box, box_elements


@dataclass(frozen=True)
class Reduction(Operator):
    """Each output element from all elements of operand 0 along ``axes`` and at its own place elsewhere.

    The output has as many axes; along ``axes`` it has mostly 1 element, or k where the k largest are wanted.
    """

    axes: tuple[int, ...] = (-1,)
    operations_per_element: int = 1
    """Vector operations an output element: mostly the elements that it is made of."""

    kind: ClassVar[str] = "reduction"

    def __post_init__(self) -> None:
        shape, out = self.operands[0].shape, self.output.shape
        if len(shape) != len(out) or any(
            size != other for axis, (size, other) in enumerate(zip(shape, out, strict=True)) if axis not in self._summed
        ):
            raise WorkloadError(f"reduction '{self.name}': {shape} along axes {self.axes} does not give {out}")

    @property
    def _summed(self) -> set[int]:
        return {axis % len(self.output.shape) for axis in self.axes}

    def tile_axes(self) -> TileAxes:
        """The last two axes that are not reduced and have more than one element."""
        kept = [axis for axis, size in enumerate(self.output.shape) if size > 1 and axis not in self._summed]
        return TileAxes(*kept[-2:])

    def operand_box(self, index: int, box: Box) -> Box:
        """The same block, with all of the reduced axes."""
        shape, summed = self.operands[0].shape, self._summed
        return (box[0], *((0, shape[axis]) if axis in summed else span for axis, span in enumerate(box[1:])))

    def work(self, box: Box) -> VectorWork:
        """``operations_per_element`` an output element."""
        return VectorWork(box_elements(box) * self.operations_per_element, self.kind)
