"""Matrix product, batched: one operand against weights, or against another operator's result."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from accelsim.errors import WorkloadError
from accelsim.workload.operator import ArrayWork, Operator, TileAxes
from accelsim.workload.tensor import Box, Range


@dataclass(frozen=True)
class MatMul(Operator):
    """Operand 0, shape (…, rows, depth), times the weights or operand 1, shape (…, depth, columns).

    The output has shape (…, rows, columns); leading axes are batched, and broadcast as NumPy's do. A vector of shape
    (depth,) is allowed for operand 0 and gives (columns,).
    """

    kind: ClassVar[str] = "matmul"

    def __post_init__(self) -> None:
        left = self.operands[0].shape
        if not left or len(self.output.shape) < len(left):
            raise WorkloadError(
                f"matrix product '{self.name}': operand {left} and output {self.output.shape} do not fit"
            )
        if len(self.operands) == 2:
            right = self.operands[1].shape
            if len(left) < 2 or len(right) < 2 or left[-1] != right[-2]:
                raise WorkloadError(f"matrix product '{self.name}': {left} times {right} is not defined")

    def tile_axes(self) -> TileAxes:
        """Rows of the left matrix, and the axis before them (heads, or the sequence's outer axis)."""
        axes = len(self.output.shape)
        if axes == 1:
            return TileAxes()
        return TileAxes(rows=axes - 2) if axes == 2 else TileAxes(rows=axes - 2, columns=axes - 3)

    def operand_box(self, index: int, box: Box) -> Box:
        """The block's rows and all of the depth; of operand 1 all of the depth and the block's columns."""
        shape = self.operands[index].shape
        if len(shape) == 1:
            return (box[0], (0, shape[0]))
        leading = _broadcast(box[1:-2], shape[:-2])
        if index == 0:
            return (box[0], *leading, box[-2], (0, shape[-1]))
        return (box[0], *leading, (0, shape[-2]), box[-1])

    def work(self, box: Box) -> ArrayWork:
        """Leading axes join the batch where weights are shared; with operand 1 each is a group of its own."""
        sizes = [end - begin for begin, end in box]
        depth = self.operands[0].shape[-1]
        rows = sizes[-2] if len(sizes) > 2 else 1
        leading = prod(sizes[1:-2]) if len(sizes) > 3 else 1
        shared = len(self.operands) == 1
        groups = 1 if shared else leading
        return ArrayWork(
            batch=sizes[0] * leading if shared else sizes[0],
            channels=depth * groups,
            filters=sizes[-1] * groups,
            filters_per_group=sizes[-1],
            rows=rows,
            columns=1,
            kernel_rows=1,
            kernel_columns=1,
            stride_rows=1,
            stride_columns=1,
            groups=groups,
            weights_from_operator=int(not shared),
        )


def _broadcast(ranges: tuple[Range, ...], shape: tuple[int, ...]) -> tuple[Range, ...]:
    """The ranges of an operand's leading axes, aligned from the right; an axis of size 1 is read whole."""
    aligned = ranges[len(ranges) - len(shape) :] if shape else ()
    return tuple((0, 1) if size == 1 else span for span, size in zip(aligned, shape, strict=True))
