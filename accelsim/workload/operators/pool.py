"""Pooling: a window that slides over rows and columns, channel by channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from accelsim.workload.operator import Operator, TileAxes, VectorWork, window_range
from accelsim.workload.tensor import Box, box_elements


@dataclass(frozen=True)
class Pool(Operator):
    """Maximum or average over a window of operand 0, shape (channels, rows, columns)."""

    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    """Rows above and columns left of the input that the window may hang over."""
    dilation: tuple[int, int] = (1, 1)

    kind: ClassVar[str] = "pool"

    def tile_axes(self) -> TileAxes:
        """Rows and columns of the output image."""
        return TileAxes(rows=1, columns=2)

    def operand_box(self, index: int, box: Box) -> Box:
        """The same channels, and the window's rows and columns."""
        shape = self.operands[index].shape
        spatial = (
            window_range(box[2 + i], self.stride[i], self.kernel[i], self.dilation[i], self.padding[i], size)
            for i, size in enumerate(shape[1:])
        )
        return (box[0], box[1], *spatial)

    def work(self, box: Box) -> VectorWork:
        """One operation an element of the window, for each output element."""
        return VectorWork(box_elements(box) * self.kernel[0] * self.kernel[1], self.kind)
