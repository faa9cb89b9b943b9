"""Element by element: additions, products, activations, copies that a network pays for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from accelsim.errors import WorkloadError
from accelsim.workload.operator import Operator, TileAxes, VectorWork
from accelsim.workload.tensor import Box, box_elements


@dataclass(frozen=True)
class Elementwise(Operator):
    """Each output element from the elements at its place in the operands, which broadcast as NumPy's do."""

    operations_per_element: int = 1
    """Vector operations an output element; SoMa counts one an operand."""

    kind: ClassVar[str] = "elementwise"

    def __post_init__(self) -> None:
        for operand in self.operands:
            aligned = self.output.shape[len(self.output.shape) - len(operand.shape) :]
            if len(operand.shape) > len(self.output.shape) or any(
                size not in (1, out) for size, out in zip(operand.shape, aligned, strict=True)
            ):
                raise WorkloadError(
                    f"element-wise operator '{self.name}': operand {operand.shape} does not broadcast "
                    f"to {self.output.shape}"
                )

    def tile_axes(self) -> TileAxes:
        """See :func:`default_tile_axes`."""
        return default_tile_axes(self.output.shape)

    def operand_box(self, index: int, box: Box) -> Box:
        """The same block; an axis of size 1 is read whole."""
        shape = self.operands[index].shape
        aligned = box[len(box) - len(shape) :] if shape else ()
        return (box[0], *((0, 1) if size == 1 else span for span, size in zip(aligned, shape, strict=True)))

    def work(self, box: Box) -> VectorWork:
        """``operations_per_element`` an element."""
        return VectorWork(box_elements(box) * self.operations_per_element, self.kind)


def default_tile_axes(shape: tuple[int, ...]) -> TileAxes:
    """Rows and columns of (…, channels, rows, columns); the rows of (rows, features)."""
    if len(shape) >= 3:
        return TileAxes(rows=len(shape) - 2, columns=len(shape) - 1)
    return TileAxes(rows=0) if len(shape) == 2 else TileAxes()
