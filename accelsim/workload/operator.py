"""The Operator: one step of computation, what it reads and writes, and the work of a block of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from accelsim.errors import WorkloadError
from accelsim.sparsity import Sparsity
from accelsim.workload.tensor import Box, Range, Tensor, View, whole_box


class ArrayWork(NamedTuple):
    """Work of a tile on a PE array: a convolution nest; a matrix product is one with a 1x1 kernel.

    ``channels`` are all input channels of the operator and ``filters`` the output channels of the tile, over all
    its groups; ``filters_per_group`` is the operator's own, so that the tile's number of groups follows (all of the
    tile's filters where there is one group, even those that a tile rule adds).
    """

    batch: int
    channels: int
    filters: int
    filters_per_group: int
    rows: int
    columns: int
    kernel_rows: int
    kernel_columns: int
    stride_rows: int
    stride_columns: int
    groups: int
    weights_from_operator: int
    """1 if another operator produces the weights (attention), else 0."""
    dilation_rows: int = 1
    dilation_columns: int = 1
    weight_sparsity: Sparsity | None = None
    """What is known of the zeros of the weights; the MACs below count them all the same."""
    input_sparsity: Sparsity | None = None
    weight_bits: int = 8
    input_bits: int = 8

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the tile."""
        points = self.batch * self.filters * self.rows * self.columns
        return points * (self.channels // self.groups) * self.kernel_rows * self.kernel_columns


class VectorWork(NamedTuple):
    """Work of a tile on the vector unit: so many scalar operations."""

    operations: int
    function: str = ""
    """The operator's ``kind``: a vector unit may have a throughput of its own for it."""


Work = ArrayWork | VectorWork


class TileAxes(NamedTuple):
    """Which axes of ``output.shape`` a tile may cut, by index. The batch is always cut first."""

    rows: int | None = None
    columns: int | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A tensor as an operator reads it: that of ``producer`` (an operator or an external input), through views."""

    producer: str
    views: tuple[View, ...] = ()


@dataclass(frozen=True, slots=True)
class Operand:
    """One input of an operator: one source, or several joined along ``axis`` (a concatenation that nobody pays for)."""

    sources: tuple[Source, ...]
    shape: tuple[int, ...]
    """Shape of one sample of the joined tensor, as the operator sees it."""
    axis: int = 0
    extents: tuple[int, ...] = ()
    """Size of each source along ``axis``; may be left out for a single source."""
    is_weight: bool = False
    """The operand plays the part of the weights (attention), so that every tile needs all of it."""
    sparsity: Sparsity | None = None
    """What is known of the zeros in what is read."""

    def __post_init__(self) -> None:
        if len(self.sources) == 1 and not self.extents:
            object.__setattr__(self, "extents", (self.shape[self.axis] if self.shape else 1,))
        if len(self.extents) != len(self.sources) or (self.shape and sum(self.extents) != self.shape[self.axis]):
            raise WorkloadError(
                f"the inputs {[source.producer for source in self.sources]} have {list(self.extents)} elements along "
                f"axis {self.axis}; together they must give {self.shape}"
            )

    def source_boxes(self, box: Box) -> Iterator[tuple[str, Box]]:
        """For each source that ``box`` touches: its producer, and the block of that producer's output behind it."""
        offset = 0
        for source, extent in zip(self.sources, self.extents, strict=True):
            part = box
            if len(self.sources) > 1:
                begin, end = box[self.axis + 1]
                begin, end = max(begin - offset, 0), min(end - offset, extent)
                offset += extent
                if begin >= end:
                    continue
                part = (*box[: self.axis + 1], (begin, end), *box[self.axis + 2 :])
            for view in reversed(source.views):
                part = view.source_box(part)
            yield source.producer, part


@dataclass(frozen=True)
class Operator(ABC):
    """One step of computation: the tensors read, the tensor written, and the work of any block of it.

    Subclasses are final and live in ``workload/operators/``, one file each. An operator is called by its ``name``; so
    is the tensor it writes.
    """

    name: str
    operands: tuple[Operand, ...]
    output: Tensor
    weights: tuple[Tensor, ...] = ()
    """Parameters, loaded whole, once per run."""

    kind: ClassVar[str]

    @abstractmethod
    def tile_axes(self) -> TileAxes:
        """The output axes that a tiling number may cut once the batch is cut up."""

    @abstractmethod
    def operand_box(self, index: int, box: Box) -> Box:
        """The block of operand ``index`` that the block ``box`` of the output needs, halo included and clipped."""

    @abstractmethod
    def work(self, box: Box) -> Work:
        """The work of the block ``box``, which may reach beyond the output where a tile rule inflates it."""

    @property
    def weight_bytes(self) -> int:
        """Bytes of all parameters."""
        return sum(tensor.sample_bytes for tensor in self.weights)

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """All parameters, whether loaded or not."""
        return self.weights

    def with_forms(self, work: ArrayWork) -> ArrayWork:
        """``work`` with what is known of the zeros and bits of its operands: the first one, and the first weights."""
        weights = self.weights[0] if self.weights else None
        bits = self.output.bits if weights is None else min(self.output.bits, weights.bits)
        inputs = self.operands[0].sparsity
        if bits == 8 and inputs is None and (weights is None or (weights.bits == 8 and weights.sparsity is None)):
            return work
        return work._replace(
            weight_sparsity=None if weights is None else weights.sparsity,
            input_sparsity=inputs,
            weight_bits=bits if weights is None else weights.bits,
            input_bits=bits,
        )

    def producers(self) -> tuple[str, ...]:
        """Names of all that it reads, without repeats, in the order of its operands."""
        return tuple(dict.fromkeys(source.producer for operand in self.operands for source in operand.sources))

    def whole_work(self, batch: int) -> Work:
        """The work of all of it."""
        return self.work(whole_box(batch, self.output.shape))


def window_range(out: Range, stride: int, kernel: int, dilation: int, padding: int, size: int) -> Range:
    """The range of input rows behind the output rows ``out`` of a window operator, clipped to the input.

    A block that needs nothing but padding still names one row, so that no block is empty.
    """
    low = out[0] * stride - padding
    high = (out[1] - 1) * stride - padding + (kernel - 1) * dilation + 1
    low = min(max(low, 0), size - 1)
    return low, max(min(high, size), low + 1)
