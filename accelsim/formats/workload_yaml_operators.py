"""The operators of a YAML workload: their fields, and how the shape of each output follows from its inputs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from math import prod
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from accelsim.errors import WorkloadError
from accelsim.units import did_you_mean
from accelsim.workload.operator import Operand, Operator, Source
from accelsim.workload.operators import (
    Conv2d,
    Elementwise,
    LocalResponseNorm,
    MatMul,
    Move,
    Normalization,
    Pool,
    Softmax,
    Transpose,
    Upsample,
)
from accelsim.workload.tensor import Reshape, Tensor

Name = Annotated[str, Field(strict=True, min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Size = Annotated[int, Field(strict=True, ge=1, le=1 << 31)]
Bits = Annotated[int, Field(strict=True, ge=1, le=64)]
Whole = Annotated[int, Field(strict=True, ge=0, le=1 << 31)]
Axis = Annotated[int, Field(strict=True, ge=-8, le=7)]
Pair = Size | Annotated[list[Size], Field(min_length=2, max_length=2)]
"""Rows and columns, or one number for both."""
Padding = Literal["same"] | Whole | Annotated[list[Whole], Field(min_length=2, max_length=2)]

Shape = tuple[int, ...]


class InputSpec(BaseModel):
    """A tensor read under another shape, at no cost."""

    model_config = ConfigDict(extra="forbid")

    tensor: Name
    reshape: Annotated[list[Size], Field(min_length=1, max_length=8)]


OneInput = Name | InputSpec


class Network:
    """The operators built so far, and the shape of everything that can be read."""

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.inputs: list[Tensor] = []
        self.operators: list[Operator] = []
        self.shapes: dict[str, Shape] = {}
        self.broken: set[str] = set()
        """Names of what has a mistake: whoever reads it is left out without a further word."""

    def add(self, spec: Spec) -> None:
        """Builds an operator.

        Raises:
            WorkloadError: what is wrong with it; without a text if it only reads what is broken.
        """
        if spec.name in self.shapes or spec.name in self.broken:
            raise WorkloadError("the name stands for two things")
        operator = spec.build(self, [self.operand(one, spec.join_axis) for one in spec.inputs])
        self.operators.append(operator)
        self.shapes[spec.name] = operator.output.shape

    def tensor(self, name: str, shape: Iterable[int]) -> Tensor:
        """A tensor of the network's bits per element."""
        return Tensor(name, tuple(shape), self.bits)

    def operand(self, given: OneInput | list[OneInput], axis: int) -> Operand:
        """One tensor, or several joined along ``axis``."""
        sources, shapes = zip(
            *(self._source(one) for one in (given if isinstance(given, list) else [given])), strict=True
        )
        first = shapes[0]
        if len(shapes) == 1:
            return Operand(sources, first)
        if not -len(first) <= axis < len(first):
            raise WorkloadError(f"join_axis is {axis}; the inputs have {len(first)} axes")
        axis %= len(first)
        others = {shape[:axis] + shape[axis + 1 :] for shape in shapes}
        if len(others) > 1:
            raise WorkloadError(f"inputs of shapes {_listed(shapes)} cannot be joined along axis {axis}")
        extents = tuple(shape[axis] for shape in shapes)
        return Operand(sources, (*first[:axis], sum(extents), *first[axis + 1 :]), axis, extents)

    def shape_of(self, name: str) -> Shape:
        """Shape of an input, or of an operator that stands before."""
        if name in self.broken:
            raise WorkloadError
        if name not in self.shapes:
            raise WorkloadError(
                f"reads '{name}', which no input and no operator before it provides{did_you_mean(name, self.shapes)}"
            )
        return self.shapes[name]

    def _source(self, given: OneInput) -> tuple[Source, Shape]:
        if isinstance(given, str):
            return Source(given), self.shape_of(given)
        to_shape = tuple(given.reshape)
        return Source(given.tensor, (Reshape(self.shape_of(given.tensor), to_shape),)), to_shape


class Spec(BaseModel):
    """What all operators have."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    inputs: Annotated[list[OneInput | Annotated[list[OneInput], Field(min_length=1)]], Field(min_length=1)]
    """One item an operand; a list of several is joined along ``join_axis``."""
    join_axis: Axis = 0

    @abstractmethod
    def build(self, network: Network, operands: list[Operand]) -> Operator:
        """The operator. Raises :class:`WorkloadError` for what does not fit together."""


class Conv2dSpec(Spec):
    """Convolution of (channels, rows, columns); ``weights_from`` names an operator that makes the weights."""

    type: Literal["conv2d"]
    filters: Size | None = None
    kernel: Pair = 1
    stride: Pair = 1
    padding: Padding = 0
    dilation: Pair = 1
    groups: Size = 1
    weights_from: Name | None = None
    fully_connected: Annotated[bool, Field(strict=True)] = False

    def build(self, network: Network, operands: list[Operand]) -> Operator:
        """Shape (filters, rows, columns)."""
        shape = _image(_only(operands))
        kernel = _pair(self.kernel)
        filters = self.filters
        weights: tuple[Tensor, ...] = ()
        if shape[0] % self.groups:
            raise WorkloadError(f"{self.groups} groups do not divide its {shape[0]} input channels evenly")
        if self.weights_from is not None:
            made = network.shape_of(self.weights_from)
            filters = filters or made[0]
            needed = (filters, shape[0] // self.groups, prod(kernel))
            if made != needed:
                raise WorkloadError(
                    f"'{self.weights_from}' has shape {list(made)}; weights of shape {list(needed)} are needed"
                )
            operands = [*operands, Operand((Source(self.weights_from),), made, is_weight=True)]
        if filters is None:
            raise WorkloadError("filters is missing (it may be left out only with weights_from)")
        if self.weights_from is None:
            weights = (network.tensor(f"{self.name}.weight", (filters, shape[0] // self.groups, *kernel)),)
        sizes, padding = _window(shape, kernel, _pair(self.stride), _pair(self.dilation), self.padding)
        return Conv2d(
            self.name,
            tuple(operands),
            network.tensor(self.name, (filters, *sizes)),
            weights,
            kernel=kernel,
            stride=_pair(self.stride),
            padding=padding,
            dilation=_pair(self.dilation),
            groups=self.groups,
            fully_connected=self.fully_connected,
        )


class PoolSpec(Spec):
    """Pooling of (channels, rows, columns); the stride is the kernel's size unless given."""

    type: Literal["pool"]
    kernel: Pair
    stride: Pair | None = None
    padding: Padding = 0
    dilation: Pair = 1

    def build(self, network: Network, operands: list[Operand]) -> Operator:
        """Shape (channels, rows, columns)."""
        shape = _image(_only(operands))
        kernel, dilation = _pair(self.kernel), _pair(self.dilation)
        stride = kernel if self.stride is None else _pair(self.stride)
        sizes, padding = _window(shape, kernel, stride, dilation, self.padding)
        output = network.tensor(self.name, (shape[0], *sizes))
        return Pool(
            self.name, tuple(operands), output, kernel=kernel, stride=stride, padding=padding, dilation=dilation
        )


class ElementwiseSpec(Spec):
    """Element by element; operands broadcast. One operation an operand and element unless given."""

    type: Literal["elementwise"]
    operations_per_element: Size | None = None

    def build(self, network: Network, operands: list[Operand]) -> Operator:
        """The shape to which all operands broadcast."""
        shapes = [operand.shape for operand in operands]
        axes = max(len(shape) for shape in shapes)
        aligned = [(1,) * (axes - len(shape)) + shape for shape in shapes]
        output = network.tensor(self.name, (max(sizes) for sizes in zip(*aligned, strict=True)))
        operations = self.operations_per_element or len(operands)
        return Elementwise(self.name, tuple(operands), output, operations_per_element=operations)


class MatMulSpec(Spec):
    """One input times weights with ``features`` columns, or the product of two inputs."""

    type: Literal["matmul"]
    features: Size | None = None

    def build(self, network: Network, operands: list[Operand]) -> Operator:
        """Shape (…, rows, columns); leading axes broadcast."""
        left = operands[0].shape
        if len(operands) != (1 if self.features else 2):
            raise WorkloadError(f"has {len(operands)} inputs; expected two, or one and features")
        if self.features:
            weights = (network.tensor(f"{self.name}.weight", (left[-1], self.features)),)
            return MatMul(self.name, tuple(operands), network.tensor(self.name, (*left[:-1], self.features)), weights)
        right = operands[1].shape
        axes = max(len(left), len(right)) - 2
        leading = [(1,) * (axes + 2 - len(shape)) + shape[:-2] for shape in (left, right)]
        sizes = [max(pair) for pair in zip(*leading, strict=True)]
        return MatMul(self.name, tuple(operands), network.tensor(self.name, (*sizes, *left[-2:-1], right[-1])))


class TransposeSpec(Spec):
    """Output axis i is axis ``permutation[i]`` of the input."""

    type: Literal["transpose"]
    permutation: list[Whole]

    def build(self, network: Network, operands: list[Operand]) -> Operator:
        """The permuted shape."""
        shape = _only(operands).shape
        if sorted(self.permutation) != list(range(len(shape))):
            raise WorkloadError(f"{self.permutation} is no permutation of the {len(shape)} axes of {list(shape)}")
        output = network.tensor(self.name, (shape[axis] for axis in self.permutation))
        return Transpose(self.name, tuple(operands), output, permutation=tuple(self.permutation))


class UpsampleSpec(Spec):
    """(channels, rows, columns) enlarged by whole factors."""

    type: Literal["upsample"]
    factors: Pair
    operations_per_element: Size = 1

    def build(self, network: Network, operands: list[Operand]) -> Operator:
        """Rows and columns times the factors."""
        channels, rows, columns = _image(_only(operands))
        factors = _pair(self.factors)
        output = network.tensor(self.name, (channels, rows * factors[0], columns * factors[1]))
        operations = self.operations_per_element
        return Upsample(self.name, tuple(operands), output, factors=factors, operations_per_element=operations)


class SoftmaxSpec(Spec):
    """Softmax along one axis."""

    type: Literal["softmax"]
    axis: Axis = -1

    def build(self, network: Network, operands: list[Operand]) -> Operator:
        """The shape of the input."""
        shape = _only(operands).shape
        _check_axes(shape, [self.axis])
        return Softmax(self.name, tuple(operands), network.tensor(self.name, shape), axis=self.axis)


class NormalizationSpec(Spec):
    """Normalization by mean and variance over ``axes``."""

    type: Literal["normalization"]
    axes: Annotated[list[Axis], Field(min_length=1)] = [-1]

    def build(self, network: Network, operands: list[Operand]) -> Operator:
        """The shape of the input."""
        shape = _only(operands).shape
        _check_axes(shape, self.axes)
        return Normalization(self.name, tuple(operands), network.tensor(self.name, shape), axes=tuple(self.axes))


class LocalResponseNormSpec(Spec):
    """Local response normalization over ``size`` channels."""

    type: Literal["local_response_norm"]
    size: Size = 5

    def build(self, network: Network, operands: list[Operand]) -> Operator:
        """The shape of the input."""
        shape = _image(_only(operands))
        return LocalResponseNorm(self.name, tuple(operands), network.tensor(self.name, shape), size=self.size)


class MoveSpec(Spec):
    """Everything is read, ``shape`` is written."""

    type: Literal["move"]
    shape: Annotated[list[Size], Field(max_length=8)]
    of: Name = "copy"

    def build(self, network: Network, operands: list[Operand]) -> Operator:
        """The shape given."""
        return Move(self.name, tuple(operands), network.tensor(self.name, self.shape), of=self.of)


OperatorSpec = Annotated[
    Conv2dSpec
    | ElementwiseSpec
    | LocalResponseNormSpec
    | MatMulSpec
    | MoveSpec
    | NormalizationSpec
    | PoolSpec
    | SoftmaxSpec
    | TransposeSpec
    | UpsampleSpec,
    Field(discriminator="type"),
]


def _only(operands: list[Operand]) -> Operand:
    if len(operands) != 1:
        raise WorkloadError(f"has {len(operands)} inputs; expected one (a list within the list joins several)")
    return operands[0]


def _image(operand: Operand) -> tuple[int, int, int]:
    if len(operand.shape) != 3:
        raise WorkloadError(f"its input has shape {list(operand.shape)}; expected channels, rows and columns")
    return operand.shape[0], operand.shape[1], operand.shape[2]


def _check_axes(shape: Shape, axes: list[int]) -> None:
    wrong = [axis for axis in axes if not -len(shape) <= axis < len(shape)]
    if wrong:
        raise WorkloadError(f"axis {wrong[0]} lies outside the {len(shape)} axes of {list(shape)}")


def _pair(given: Pair) -> tuple[int, int]:
    return (given, given) if isinstance(given, int) else (given[0], given[1])


def _window(
    shape: tuple[int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    padding: Padding,
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Rows and columns of the output, and the padding above and left.

    ``same`` gives ceil(size / stride); of an odd padding the larger half stands above. A number pads both sides.
    """
    sizes, before = [], []
    for axis in (0, 1):
        size, reach = shape[axis + 1], (kernel[axis] - 1) * dilation[axis] + 1
        if padding == "same":
            outputs = -(-size // stride[axis])
            before.append((max((outputs - 1) * stride[axis] + reach - size, 0) + 1) // 2)
        else:
            both = padding if isinstance(padding, int) else padding[axis]
            if both >= reach:
                raise WorkloadError(f"padding {both} is not smaller than the window of {reach}")
            outputs = (size + 2 * both - reach) // stride[axis] + 1
            before.append(both)
        if outputs < 1:
            raise WorkloadError(f"a window of {reach} does not fit into {size} {('rows', 'columns')[axis]}")
        sizes.append(outputs)
    return (sizes[0], sizes[1]), (before[0], before[1])


def _listed(shapes: Iterable[Shape]) -> str:
    return ", ".join(str(list(shape)) for shape in shapes)
