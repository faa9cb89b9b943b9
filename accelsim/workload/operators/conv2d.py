"""Two-dimensional convolution: grouped, depthwise, dilated; and the fully connected layer as its special case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from accelsim.errors import WorkloadError
from accelsim.workload.operator import ArrayWork, Operator, TileAxes, window_range
from accelsim.workload.tensor import Box


@dataclass(frozen=True)
class Conv2d(Operator):
    """Convolution of operand 0, shape (channels, rows, columns), by its weights or by operand 1.

    With a second operand (``is_weight``) another operator makes the weights, as in attention: query times keys is a
    convolution with one group a head. That operand is read whole.
    """

    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    """Zero rows above and zero columns left of the input."""
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    fully_connected: bool = False
    """A classifier layer: SoMa's search keeps it in a layer group of its own (artifact rule)."""

    kind: ClassVar[str] = "conv2d"

    def __post_init__(self) -> None:
        channels, filters = self.operands[0].shape[0], self.output.shape[0]
        if min(*self.kernel, *self.stride, *self.dilation, self.groups) < 1 or min(self.padding) < 0:
            raise WorkloadError(
                f"convolution '{self.name}': kernel {self.kernel}, stride {self.stride}, dilation {self.dilation} and "
                f"groups {self.groups} must be >= 1, padding {self.padding} >= 0"
            )
        if channels % self.groups or filters % self.groups:
            raise WorkloadError(
                f"convolution '{self.name}': {self.groups} groups divide neither its {channels} input nor its "
                f"{filters} output channels evenly"
            )

    def tile_axes(self) -> TileAxes:
        """Rows and columns of the output image."""
        return TileAxes(rows=1, columns=2)

    def operand_box(self, index: int, box: Box) -> Box:
        """The channels of the block's groups and the window's rows and columns; all of a weight operand's."""
        shape = self.operands[index].shape
        if self.operands[index].is_weight:
            return (box[0], *((0, size) for size in shape))
        filters_per_group = self.output.shape[0] // self.groups
        channels_per_group = shape[0] // self.groups
        first, last = box[1][0] // filters_per_group, (box[1][1] - 1) // filters_per_group
        spatial = (
            window_range(box[2 + i], self.stride[i], self.kernel[i], self.dilation[i], self.padding[i], size)
            for i, size in enumerate(shape[1:])
        )
        return (box[0], (first * channels_per_group, (last + 1) * channels_per_group), *spatial)

    def work(self, box: Box) -> ArrayWork:
        """The block's share of the nest; multiplications with padding are executed and counted."""
        samples, filters, rows, columns = (end - begin for begin, end in box)
        work = ArrayWork(
            batch=samples,
            channels=self.operands[0].shape[0],
            filters=filters,
            filters_per_group=filters if self.groups == 1 else self.output.shape[0] // self.groups,
            rows=rows,
            columns=columns,
            kernel_rows=self.kernel[0],
            kernel_columns=self.kernel[1],
            stride_rows=self.stride[0],
            stride_columns=self.stride[1],
            groups=self.groups,
            weights_from_operator=int(any(operand.is_weight for operand in self.operands)),
            dilation_rows=self.dilation[0] if self.kernel[0] > 1 else 1,
            dilation_columns=self.dilation[1] if self.kernel[1] > 1 else 1,
        )
        return self.with_forms(work)
