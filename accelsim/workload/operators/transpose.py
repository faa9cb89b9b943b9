"""Transpose: the same elements with their axes in another order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from accelsim.errors import WorkloadError
from accelsim.workload.operator import Operator, TileAxes, VectorWork
from accelsim.workload.operators.elementwise import default_tile_axes
from accelsim.workload.tensor import Box, Range, box_elements


@dataclass(frozen=True)
class Transpose(Operator):
    """Output axis i is axis ``permutation[i]`` of operand 0."""

    permutation: tuple[int, ...] = ()

    kind: ClassVar[str] = "transpose"

    def __post_init__(self) -> None:
        shape = self.operands[0].shape
        if sorted(self.permutation) != list(range(len(shape))) or self.output.shape != tuple(
            shape[axis] for axis in self.permutation
        ):
            raise WorkloadError(
                f"transpose '{self.name}': permutation {self.permutation} of {shape} does not give {self.output.shape}"
            )

    def tile_axes(self) -> TileAxes:
        """See :func:`default_tile_axes`."""
        return default_tile_axes(self.output.shape)

    def operand_box(self, index: int, box: Box) -> Box:
        """The block with its axes permuted back."""
        ranges: list[Range] = [(0, 0)] * len(self.permutation)
        for out_axis, in_axis in enumerate(self.permutation):
            ranges[in_axis] = box[out_axis + 1]
        return (box[0], *ranges)

    def work(self, box: Box) -> VectorWork:
        """One operation an element."""
        return VectorWork(box_elements(box), self.kind)
