"""Embedding: rows gathered from a table that stays in DRAM."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from accelsim.errors import WorkloadError
from accelsim.workload.operator import Operator, TileAxes, VectorWork
from accelsim.workload.operators.elementwise import default_tile_axes
from accelsim.workload.tensor import Box, Tensor, box_elements


@dataclass(frozen=True)
class Embedding(Operator):
    """Row ``i`` of ``table`` for each index ``i`` of operand 1, shape (…), written as (…, features).

    Only the rows that are gathered travel. They are operand 0: an external input of the shape of the output, whatever
    the indices are; the same row gathered twice is loaded twice. Operand 1, the indices, may be left out.
    """

    table: Tensor = field(kw_only=True)
    """The whole table, for parameter counts; it is never loaded."""

    kind: ClassVar[str] = "embedding"

    def __post_init__(self) -> None:
        shape = self.output.shape
        if self.operands[0].shape != shape or shape[-1:] != self.table.shape[1:]:
            raise WorkloadError(
                f"embedding '{self.name}': rows {self.operands[0].shape} of a table {self.table.shape} "
                f"do not give {shape}"
            )
        if len(self.operands) > 1 and self.operands[1].shape != shape[:-1]:
            raise WorkloadError(
                f"embedding '{self.name}': indices of shape {self.operands[1].shape} do not give {shape}"
            )

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """The table."""
        return (self.table,)

    def tile_axes(self) -> TileAxes:
        """See :func:`default_tile_axes`; a single row is not cut."""
        return default_tile_axes(self.output.shape)

    def operand_box(self, index: int, box: Box) -> Box:
        """The same rows, or their indices."""
        return box if index == 0 else box[:-1]

    def work(self, box: Box) -> VectorWork:
        """One operation an element: a copy."""
        return VectorWork(box_elements(box), self.kind)
