"""Matrix product, batched: one operand against weights, or against another operator's result."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from accelsim.errors import WorkloadError
from accelsim.workload.operator import ArrayWork, Operator, TileAxes, VectorWork, Work
from accelsim.workload.operators.causal import CausalMask, rectangle
from accelsim.workload.tensor import Box, Range


@dataclass(frozen=True)
class MatMul(Operator):
    """Operand 0, shape (…, rows, depth), times the weights or operand 1, shape (…, depth, columns).

    The output has shape (…, rows, columns); leading axes are batched, and broadcast as NumPy's do. A vector of shape
    (depth,) is allowed for operand 0 and gives (columns,).

    A causal mask over the columns (queries times keys) or over the depth (scores times values) leaves out what no row
    of a tile needs: it is not read, and of the rest only the pairs that the mask keeps are multiplied.
    """

    causal_columns: CausalMask | None = None
    causal_depth: CausalMask | None = None
    heads: int = 1
    """Attention heads that share the columns evenly: where the product has to be cut, between them if possible."""

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
        masks = (self.causal_columns, self.causal_depth)
        if masks != (None, None) and (None not in masks or len(self.operands) < 2):
            raise WorkloadError(f"matrix product '{self.name}': one causal mask at most, for a product of two operands")
        if self.heads < 1 or self.output.shape[-1] % self.heads:
            raise WorkloadError(
                f"matrix product '{self.name}': {self.heads} heads do not share {self.output.shape[-1]} columns evenly"
            )

    def tile_axes(self) -> TileAxes:
        """Rows of the left matrix, and the axis before them (heads, or the sequence's outer axis).

        Heads that share an operand 1 are not parted: then the axis is the nearest one along which that operand differs.
        """
        axes = len(self.output.shape)
        if axes <= 2:
            return TileAxes(rows=0) if axes == 2 else TileAxes()
        leading = self.operands[1].shape[:-2] if len(self.operands) == 2 else ()
        differs = (axis for axis, size in enumerate(reversed(leading)) if size > 1)
        return TileAxes(rows=axes - 2, columns=axes - 3 - next(differs, 0))

    def operand_box(self, index: int, box: Box) -> Box:
        """The block's rows and all of the depth; of operand 1 all of the depth and the block's columns."""
        shape = self.operands[index].shape
        if len(shape) == 1:
            return (box[0], (0, shape[0]))
        leading = _broadcast(box[1:-2], shape[:-2])
        depth = self._needed_depth(box)
        if index == 0:
            return (box[0], *leading, box[-2], depth)
        columns = box[-1] if self.causal_columns is None else self.causal_columns.span(box[-2], box[-1])
        return (box[0], *leading, depth, columns)

    def _needed_depth(self, box: Box) -> Range:
        depth = (0, self.operands[0].shape[-1])
        return depth if self.causal_depth is None else self.causal_depth.span(box[-2], depth)

    def work(self, box: Box) -> Work:
        """Leading axes join the batch where weights are shared; with operand 1 each is a group of its own.

        Under a causal mask it is a rectangle of as many points as the mask keeps (:func:`rectangle`): the array skips
        what is masked, and loses nothing at the ragged edge. A block that is masked as a whole is no work.
        """
        sizes = [end - begin for begin, end in box]
        depth = self.operands[0].shape[-1]
        rows = sizes[-2] if len(sizes) > 2 else 1
        if self.causal_columns is not None:
            pairs = self.causal_columns.pairs(box[-2], box[-1])
            rows, sizes[-1] = rectangle(rows, pairs)
        elif self.causal_depth is not None:
            pairs = self.causal_depth.pairs(box[-2], (0, depth))
            rows, depth = rectangle(rows, pairs)
        if not depth or not sizes[-1]:
            return VectorWork(0)
        leading = prod(sizes[1:-2]) if len(sizes) > 3 else 1
        shared = len(self.operands) == 1
        groups = 1 if shared else leading
        work = ArrayWork(
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
        return self.with_forms(work)


def _broadcast(ranges: tuple[Range, ...], shape: tuple[int, ...]) -> tuple[Range, ...]:
    """The ranges of an operand's leading axes, aligned from the right; an axis of size 1 is read whole."""
    aligned = ranges[len(ranges) - len(shape) :] if shape else ()
    return tuple((0, 1) if size == 1 else span for span, size in zip(aligned, shape, strict=True))
