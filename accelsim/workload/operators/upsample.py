"""Upsampling by whole factors: nearest neighbour, or a fixed number of neighbours a point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from accelsim.errors import WorkloadError
from accelsim.workload.operator import Operator, TileAxes, VectorWork
from accelsim.workload.tensor import Box, box_elements


@dataclass(frozen=True)
class Upsample(Operator):
    """Operand 0, shape (channels, rows, columns), enlarged by ``factors``."""

    factors: tuple[int, int] = (1, 1)
    operations_per_element: int = 1

    kind: ClassVar[str] = "upsample"

    def __post_init__(self) -> None:
        channels, rows, columns = self.operands[0].shape
        if self.output.shape != (channels, rows * self.factors[0], columns * self.factors[1]):
            raise WorkloadError(
                f"upsampling '{self.name}': {self.operands[0].shape} by {self.factors} "
                f"does not give {self.output.shape}"
            )

    def tile_axes(self) -> TileAxes:
        """Rows and columns of the output image."""
        return TileAxes(rows=1, columns=2)

    def operand_box(self, index: int, box: Box) -> Box:
        """The same channels, rows and columns divided by the factors."""
        rows, columns = (
            (begin // factor, -(-end // factor)) for (begin, end), factor in zip(box[2:], self.factors, strict=True)
        )
        return (box[0], box[1], rows, columns)

    def work(self, box: Box) -> VectorWork:
        """``operations_per_element`` an output element."""
        return VectorWork(box_elements(box) * self.operations_per_element, self.kind)
