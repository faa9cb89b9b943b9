"""Moved data: operators that only rearrange, gather or copy, and those that are not understood but allowed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from accelsim.workload.operator import Operator, TileAxes, VectorWork
from accelsim.workload.tensor import Box, box_elements


@dataclass(frozen=True)
class Move(Operator):
    """All operands are read, the output is written; one vector operation an output element, unless told otherwise.

    A block of the output may need anything of the operands, so only the batch is ever cut.
    """

    of: str = "copy"
    """What it stands for: the operator's type in the file that it came from."""
    operations_per_element: int = 1

    kind: ClassVar[str] = "move"

    def tile_axes(self) -> TileAxes:
        """None: see the class."""
        return TileAxes()

    def operand_box(self, index: int, box: Box) -> Box:
        """All of the operand, for the block's samples."""
        return (box[0], *((0, size) for size in self.operands[index].shape))

    def work(self, box: Box) -> VectorWork:
        """``operations_per_element`` an element."""
        return VectorWork(box_elements(box) * self.operations_per_element, self.kind)
