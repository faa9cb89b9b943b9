"""Two-dimensional transposed convolution: every input point adds a scaled kernel to the output image."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import ClassVar, NamedTuple

from accelsim.errors import WorkloadError
from accelsim.workload.operator import ArrayWork, Operator, TileAxes
from accelsim.workload.tensor import Box, Range


class Phases(NamedTuple):
    """One axis of an output as ``number`` convolutions of ``size`` rows, each by ``taps`` rows of the kernel."""

    number: int
    size: int
    taps: int
    dilation: int
    """Input rows from one of these taps to the next."""


@dataclass(frozen=True)
class ConvTranspose2d(Operator):
    """Transposed convolution of operand 0, shape (channels, rows, columns), by its weights.

    Input row i adds to output row ``i * stride + k * dilation - padding`` for each row k of the kernel (Dumoulin and
    Visin, "A guide to convolution arithmetic for deep learning", 2016, chapter 4). It is computed as a gather: an
    output row sums the taps that reach it, about kernel / stride of them; zeros are never put between input rows.
    """

    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (0, 0)
    """Rows above and columns left that are cut off the full output."""
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1

    kind: ClassVar[str] = "conv_transpose2d"

    def __post_init__(self) -> None:
        channels, filters = self.operands[0].shape[0], self.output.shape[0]
        if min(*self.kernel, *self.stride, *self.dilation, self.groups) < 1 or min(self.padding) < 0:
            raise WorkloadError(
                f"transposed convolution '{self.name}': kernel {self.kernel}, stride {self.stride}, dilation "
                f"{self.dilation} and groups {self.groups} must be >= 1, padding {self.padding} >= 0"
            )
        if channels % self.groups or filters % self.groups:
            raise WorkloadError(
                f"transposed convolution '{self.name}': {self.groups} groups divide neither its {channels} input nor "
                f"its {filters} output channels evenly"
            )

    def tile_axes(self) -> TileAxes:
        """Rows and columns of the output image."""
        return TileAxes(rows=1, columns=2)

    def operand_box(self, index: int, box: Box) -> Box:
        """The channels of the block's groups, and the rows and columns whose kernels reach the block."""
        shape = self.operands[0].shape
        filters_per_group, channels_per_group = self.output.shape[0] // self.groups, shape[0] // self.groups
        first, last = box[1][0] // filters_per_group, (box[1][1] - 1) // filters_per_group
        spatial = (self._sources(axis, box[2 + axis], size) for axis, size in enumerate(shape[1:]))
        return (box[0], (first * channels_per_group, (last + 1) * channels_per_group), *spatial)

    def _sources(self, axis: int, out: Range, size: int) -> Range:
        """The input rows whose kernels reach the output rows ``out``; one row where none does, so no block is empty."""
        stride, dilation = self.stride[axis], self.dilation[axis]
        full = (out[0] + self.padding[axis], out[1] + self.padding[axis])
        rows = [
            row
            for k in range(self.kernel[axis])
            # The first and the last row of the full output in this range that the kernel's row k can reach.
            for row in (-((k * dilation - full[0]) // stride), (full[1] - 1 - k * dilation) // stride)
            if full[0] <= row * stride + k * dilation < full[1]
        ]
        rows = [min(max(row, 0), size - 1) for row in rows] or [min(full[0] // stride, size - 1)]
        return min(rows), max(rows) + 1

    def taps(self, axis: int, out: Range) -> int:
        """Kernel rows that reach the output rows ``out``, summed over them; rows beyond the input count as well."""
        full = (out[0] + self.padding[axis], out[1] + self.padding[axis])
        stride = self.stride[axis]
        # Output row o is reached by kernel row k where o - k * dilation is a multiple of the stride.
        return sum(
            (full[1] - 1 - k * self.dilation[axis]) // stride - (full[0] - 1 - k * self.dilation[axis]) // stride
            for k in range(self.kernel[axis])
        )

    def phases(self, axis: int, out: Range) -> Phases:
        """The output rows ``out`` as phases of the stride: rows a stride apart are reached by the same kernel rows.

        Where phases differ in rows or taps, they are taken together, at their mean number of taps.
        """
        stride, dilation = self.stride[axis], self.dilation[axis]
        rows = out[1] - out[0]
        taps = [self.taps(axis, (row, row + 1)) for row in range(out[0], out[0] + stride)]
        if rows % stride or min(taps) < max(taps):
            return Phases(1, *_mean_taps(rows, self.taps(axis, out)), dilation=1)
        return Phases(stride, rows // stride, taps[0], dilation // gcd(stride, dilation) if taps[0] > 1 else 1)

    def work(self, box: Box) -> ArrayWork:
        """A convolution of its own for each phase of the output, as groups that read the same inputs."""
        samples, filters = (end - begin for begin, end in box[:2])
        rows, columns = (self.phases(axis, out) for axis, out in enumerate(box[2:]))
        phases = rows.number * columns.number
        work = ArrayWork(
            batch=samples,
            channels=self.operands[0].shape[0] * phases,
            filters=filters * phases,
            filters_per_group=filters if self.groups == 1 else self.output.shape[0] // self.groups,
            rows=rows.size,
            columns=columns.size,
            kernel_rows=rows.taps,
            kernel_columns=columns.taps,
            stride_rows=1,
            stride_columns=1,
            groups=self.groups * phases,
            weights_from_operator=0,
            dilation_rows=rows.dilation,
            dilation_columns=columns.dilation,
        )
        return self.with_forms(work)


def _mean_taps(rows: int, taps: int) -> tuple[int, int]:
    """Rows and kernel rows of a nest with ``taps`` points: all rows at their mean number of taps.

    Two rows are laid end to end where the mean is a half (a kernel of 3 with stride 2); any other broken mean makes
    each tap a row of its own.
    """
    if taps % rows == 0:
        return rows, taps // rows
    if rows % 2 == 0 and 2 * taps % rows == 0:
        return rows // 2, 2 * taps // rows
    return taps, 1
