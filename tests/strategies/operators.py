"""Small operators of every kind, with whole and consistent shapes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from accelsim.workload.operator import Operand, Operator, Source
from accelsim.workload.operators import (
    Conv2d,
    ConvTranspose2d,
    Elementwise,
    Embedding,
    LocalResponseNorm,
    MatMul,
    Move,
    Normalization,
    Pool,
    Recurrent,
    Reduction,
    Resample,
    Softmax,
    Transpose,
    Upsample,
)
from accelsim.workload.tensor import Box, Tensor

small = st.integers(1, 4)


def operand(name: str, shape: tuple[int, ...], **more: Any) -> Operand:
    return Operand((Source(name),), shape, **more)


@st.composite
def windows(draw: st.DrawFn) -> tuple[dict[str, Any], tuple[int, int], tuple[int, int]]:
    """Fields of a window operator, rows and columns of its input, and of its output."""
    fields: dict[str, Any] = {name: [] for name in ("kernel", "stride", "padding", "dilation")}
    sizes, outputs = [], []
    for _ in range(2):
        kernel, stride, dilation = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
        reach = (kernel - 1) * dilation + 1
        padding = draw(st.integers(0, reach - 1))
        size = draw(st.integers(max(1, reach - 2 * padding), 7))
        for name, value in (("kernel", kernel), ("stride", stride), ("padding", padding), ("dilation", dilation)):
            fields[name].append(value)
        sizes.append(size)
        outputs.append((size + 2 * padding - reach) // stride + 1)
    return {name: tuple(pair) for name, pair in fields.items()}, (sizes[0], sizes[1]), (outputs[0], outputs[1])


@st.composite
def convolutions(draw: st.DrawFn) -> Conv2d:
    fields, sizes, outputs = draw(windows())
    groups, channels, filters = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    shape = (groups * filters, channels, *fields["kernel"])
    operands = [operand("x", (groups * channels, *sizes))]
    attention = draw(st.booleans())
    if attention:
        operands.append(operand("w", (*shape[:2], shape[2] * shape[3]), is_weight=True))
    weights = () if attention else (Tensor("o.weight", shape),)
    return Conv2d("o", tuple(operands), Tensor("o", (shape[0], *outputs)), weights, groups=groups, **fields)


@st.composite
def transposed_convolutions(draw: st.DrawFn) -> ConvTranspose2d:
    """The output is cut by the padding and by up to two rows more. Some input row reaches each of its rows."""
    fields: dict[str, Any] = {name: [] for name in ("kernel", "stride", "padding", "dilation")}
    sizes, outputs = [], []
    for _ in range(2):
        kernel, stride, dilation, size = (draw(st.integers(1, high)) for high in (4, 3, 2, 5))
        full = (size - 1) * stride + (kernel - 1) * dilation + 1
        padding = draw(st.integers(0, min(2, full - 1)))
        for name, value in (("kernel", kernel), ("stride", stride), ("padding", padding), ("dilation", dilation)):
            fields[name].append(value)
        sizes.append(size)
        outputs.append(full - padding - draw(st.integers(0, min(2, full - padding - 1))))
    groups, channels, filters = draw(st.integers(1, 2)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    weight = Tensor("o.weight", (groups * channels, filters, *fields["kernel"]))
    output = Tensor("o", (groups * filters, *outputs))
    pairs = {name: tuple(pair) for name, pair in fields.items()}
    x = (operand("x", (groups * channels, *sizes)),)
    found = ConvTranspose2d("o", x, output, (weight,), groups=groups, **pairs)
    assume(all(found.taps(axis, (row, row + 1)) for axis in (0, 1) for row in range(outputs[axis])))
    return found


@st.composite
def recurrences(draw: st.DrawFn) -> Recurrent:
    steps, sequences, hidden, gates = draw(small), draw(small), draw(small), draw(small)
    shape = (steps, sequences, gates * hidden)
    operands = [operand("x", shape)]
    if draw(st.booleans()):
        operands.append(operand("h", (sequences, hidden)))
    weights = (Tensor("o.weight", (hidden, gates * hidden)),)
    return Recurrent("o", tuple(operands), Tensor("o", shape), weights, hidden=hidden, reverse=draw(st.booleans()))


@st.composite
def reductions(draw: st.DrawFn) -> Reduction:
    shape = tuple(draw(st.lists(small, min_size=1, max_size=4)))
    axes = tuple(draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    output = tuple(draw(small) if axis in axes else size for axis, size in enumerate(shape))
    return Reduction("o", (operand("x", shape),), Tensor("o", output), axes=axes, operations_per_element=draw(small))


@st.composite
def resamplings(draw: st.DrawFn) -> Resample:
    channels, rows, columns = draw(small), draw(small), draw(small)
    output = (channels, draw(st.integers(1, 9)), draw(st.integers(1, 9)))
    step = (Fraction(rows, output[1]), Fraction(columns, output[2]))
    shift = tuple(draw(st.sampled_from([Fraction(0), (one - 1) / 2])) for one in step)
    taps = (draw(st.sampled_from([1, 2, 4])), draw(st.sampled_from([1, 2, 4])))
    x = (operand("x", (channels, rows, columns)),)
    return Resample("o", x, Tensor("o", output), step=step, shift=(shift[0], shift[1]), taps=taps)


@st.composite
def pools(draw: st.DrawFn) -> Pool:
    fields, sizes, outputs = draw(windows())
    channels = draw(small)
    return Pool("o", (operand("x", (channels, *sizes)),), Tensor("o", (channels, *outputs)), **fields)


@st.composite
def elementwise(draw: st.DrawFn) -> Elementwise:
    shape = tuple(draw(st.lists(small, min_size=1, max_size=3)))
    shapes = [shape]
    for _ in range(draw(st.integers(0, 2))):
        shrunk = tuple(draw(st.sampled_from([1, size])) for size in shape)
        shapes.append(shrunk[draw(st.integers(0, len(shape) - 1)) :])
    operands = tuple(operand(f"x{number}", one) for number, one in enumerate(shapes))
    return Elementwise("o", operands, Tensor("o", shape), operations_per_element=draw(small))


@st.composite
def embeddings(draw: st.DrawFn) -> Embedding:
    shape = (*draw(st.lists(small, min_size=1, max_size=2)), draw(small))
    operands = [operand("rows", shape)]
    if draw(st.booleans()):
        operands.append(operand("indices", shape[:-1]))
    return Embedding("o", tuple(operands), Tensor("o", shape), table=Tensor("o.table", (50, shape[-1])))


@st.composite
def products(draw: st.DrawFn) -> MatMul:
    leading = tuple(draw(st.lists(small, max_size=2)))
    rows, depth, columns = draw(small), draw(small), draw(small)
    if draw(st.booleans()):
        shape = draw(st.sampled_from([(depth,), (*leading, rows, depth)]))
        output = Tensor("o", (*shape[:-1], columns))
        return MatMul("o", (operand("x", shape),), output, (Tensor("o.weight", (depth, columns)),))
    left, right = (tuple(draw(st.sampled_from([1, size])) for size in leading) for _ in range(2))
    left = tuple(size if one == 1 else other for size, one, other in zip(leading, right, left, strict=True))
    operands = (operand("x", (*left, rows, depth)), operand("y", (*right, depth, columns)))
    return MatMul("o", operands, Tensor("o", (*leading, rows, columns)))


@st.composite
def of_one_shape(draw: st.DrawFn) -> Operator:
    shape = tuple(draw(st.lists(st.integers(2, 4), min_size=1, max_size=3)))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    x, output = (operand("x", shape),), Tensor("o", shape)
    if draw(st.booleans()):
        return Softmax("o", x, output, axis=axis)
    return Normalization("o", x, output, axes=(axis,))


@st.composite
def local_response_norms(draw: st.DrawFn) -> LocalResponseNorm:
    shape = (draw(st.integers(1, 6)), draw(small), draw(small))
    return LocalResponseNorm("o", (operand("x", shape),), Tensor("o", shape), size=draw(st.integers(1, 5)))


@st.composite
def transposes(draw: st.DrawFn) -> Transpose:
    shape = tuple(draw(st.lists(small, min_size=1, max_size=4)))
    permutation = tuple(draw(st.permutations(range(len(shape)))))
    output = Tensor("o", tuple(shape[axis] for axis in permutation))
    return Transpose("o", (operand("x", shape),), output, permutation=permutation)


@st.composite
def upsamples(draw: st.DrawFn) -> Upsample:
    channels, rows, columns = draw(small), draw(small), draw(small)
    factors = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    output = Tensor("o", (channels, rows * factors[0], columns * factors[1]))
    x = (operand("x", (channels, rows, columns)),)
    return Upsample("o", x, output, factors=factors, operations_per_element=draw(small))


@st.composite
def moves(draw: st.DrawFn) -> Move:
    shapes = draw(st.lists(st.lists(small, max_size=3), min_size=1, max_size=2))
    output = Tensor("o", tuple(draw(st.lists(small, max_size=3))))
    return Move("o", tuple(operand(f"x{n}", tuple(shape)) for n, shape in enumerate(shapes)), output)


OPERATORS_BY_KIND: dict[str, st.SearchStrategy[Any]] = {
    "conv2d": convolutions(),
    "conv_transpose2d": transposed_convolutions(),
    "elementwise": elementwise(),
    "embedding": embeddings(),
    "local_response_norm": local_response_norms(),
    "matmul": products(),
    "move": moves(),
    "normalization": of_one_shape().filter(lambda one: one.kind == "normalization"),
    "pool": pools(),
    "recurrent": recurrences(),
    "reduction": reductions(),
    "resample": resamplings(),
    "softmax": of_one_shape().filter(lambda one: one.kind == "softmax"),
    "transpose": transposes(),
    "upsample": upsamples(),
}


@st.composite
def boxes(draw: st.DrawFn, batch: int, shape: tuple[int, ...]) -> Box:
    """A block of a tensor that holds at least one element."""
    ranges = []
    for size in (batch, *shape):
        begin = draw(st.integers(0, size - 1))
        ranges.append((begin, draw(st.integers(begin + 1, size))))
    return tuple(ranges)
