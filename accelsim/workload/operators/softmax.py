"""Softmax along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from accelsim.workload.operator import Operator, TileAxes, VectorWork
from accelsim.workload.operators.causal import CausalMask
from accelsim.workload.operators.elementwise import default_tile_axes
from accelsim.workload.tensor import Box, box_elements

SOFTMAX_OPERATIONS = 5
"""Maximum, subtract, exponential, sum, divide: one vector operation each an element."""


@dataclass(frozen=True)
class Softmax(Operator):
    """Softmax of operand 0 along ``axis``, in the numerically safe form that subtracts the maximum first.

    With a causal mask, of the columns of (…, rows, columns), only what the mask keeps is computed.
    """

    axis: int = -1
    causal: CausalMask | None = None

    kind: ClassVar[str] = "softmax"

    def tile_axes(self) -> TileAxes:
        """Rows, and heads where it is the columns that are summed; else as element-wise operators."""
        axis = self.axis % len(self.output.shape)
        axes = default_tile_axes(self.output.shape)
        if axes.columns == axis:
            return axes._replace(columns=axis - 2)
        return TileAxes(*(None if candidate == axis else candidate for candidate in axes))

    def operand_box(self, index: int, box: Box) -> Box:
        """The same block, with all of ``axis``."""
        axis = self.axis % len(self.output.shape) + 1
        return (*box[:axis], (0, self.output.shape[axis - 1]), *box[axis + 1 :])

    def work(self, box: Box) -> VectorWork:
        """Five passes over the elements, see :data:`SOFTMAX_OPERATIONS`."""
        elements = box_elements(box)
        if self.causal is not None:
            elements = box_elements(box[:-2]) * self.causal.pairs(box[-2], box[-1])
        return VectorWork(elements * SOFTMAX_OPERATIONS, self.kind)
