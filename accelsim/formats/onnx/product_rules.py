"""Rules for the ONNX operators that multiply matrices."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from accelsim.errors import FormatError
from accelsim.formats.onnx.builder import Builder, Rule, sample_shape
from accelsim.formats.onnx.inference import Node, Shape
from accelsim.workload.operator import Operand, Source
from accelsim.workload.operators import Conv2d, Elementwise, MatMul
from accelsim.workload.views import permuted, reshaped

_RIGHT_OPERAND = {"MatMul": 1, "MatMulInteger": 1, "QLinearMatMul": 3}
"""The input that is the right matrix; scales and zero points are part of the instruction."""


def matmul(builder: Builder, node: Node) -> None:
    """MatMul, MatMulInteger, QLinearMatMul: by weights on either side, or of two operators' results."""
    number = _RIGHT_OPERAND[node.op]
    left, right, out = (builder.shape(value) for value in (node.inputs[0], node.inputs[number], node.outputs[0]))
    if builder.is_constant(node.inputs[number]):
        if len(right) == 1:
            right = (*right, 1)
        if all(size == 1 for size in right[:-2]):
            _times_matrix(builder, node, left, right)
        else:
            _times_matrices(builder, node, left, right)
        return
    if builder.is_constant(node.inputs[0]):
        _weights_times(builder, node, left, right, number)
        return
    if len(left) == 1:
        left = (1, *left)
    if len(right) == 1:
        right = (*right, 1)
    depth = (*_broadcast(left[:-2], right[:-2]), left[-2], right[-1])
    if prod(depth) != prod(out):
        raise FormatError(f"{left} times {right} is no matrix product that gives {out}")
    strip = len(depth) > 2 and depth[0] == 1
    shapes = [shape[1:] if strip and len(shape) == len(depth) else shape for shape in (left, right, depth)]
    operands = (builder.operand(node, 0, shapes[0]), builder.operand(node, number, shapes[1]))
    name = builder.name(node)
    builder.add(node, MatMul(name, operands, builder.tensor(name, shapes[2])), takes_activation=True)


def _broadcast(left: Shape, right: Shape) -> Shape:
    """The leading axes of a product, as NumPy broadcasts them."""
    size = max(len(left), len(right))
    pairs = zip((1,) * (size - len(left)) + left, (1,) * (size - len(right)) + right, strict=True)
    return tuple(max(pair) for pair in pairs)


def _times_matrix(builder: Builder, node: Node, left: Shape, right: Shape) -> None:
    """By one matrix of weights."""
    rows = sample_shape(left) if len(left) > 1 else left
    operand = builder.operand(node, 0, rows)
    name = builder.name(node)
    weight = builder.weight(f"{name}.weight", right[-2:])
    product = MatMul(name, (operand,), builder.tensor(name, (*rows[:-1], right[-1])), (weight,))
    builder.add(node, product, channel_axis=-1)


def _times_matrices(builder: Builder, node: Node, left: Shape, right: Shape) -> None:
    """By a matrix of weights for each head: a convolution of one group a head, its axes permuted for free."""
    heads, (depth, columns) = prod(right[:-2]), right[-2:]
    rows = prod(left) // depth
    if len(left) > 1 and prod(left[:-2]) == heads and sample_shape(left[:-2]) == sample_shape(right[:-2]):
        rows //= heads
        operand = permuted(builder.operand(node, 0, (heads, rows, depth)), (0, 2, 1))
        operand = builder.view(node, operand, (heads * depth, rows, 1))
        groups = heads
    elif all(size == 1 for size in left[:-2]):  # all heads read the same: one group of all their columns
        operand = permuted(builder.operand(node, 0, (rows, depth)), (1, 0))
        operand, groups = builder.view(node, operand, (depth, rows, 1)), 1
    else:
        raise builder.refusal(node, "the leading axes of its input are not those of its weights")
    name = builder.name(node)
    weight = builder.weight(f"{name}.weight", (heads * columns, depth, 1, 1))
    product = Conv2d(name, (operand,), builder.tensor(name, (heads * columns, rows, 1)), (weight,), groups=groups)
    result = reshaped(Operand((Source(name),), product.output.shape), (heads, columns, rows))
    assert result is not None  # one tensor can be reshaped at will
    builder.add(node, product, result=permuted(result, (0, 2, 1)), takes_activation=True)


def _weights_times(builder: Builder, node: Node, left: Shape, right: Shape, number: int) -> None:
    """A matrix of weights on the left: a convolution whose channels are the rows of the right matrix."""
    if any(size != 1 for size in left[:-2]) or len(right) < 2:
        raise builder.refusal(node, "its weights on the left are no single matrix")
    rows, depth = left[-2:] if len(left) > 1 else (1, *left)
    leading, columns = prod(right[:-2]), right[-1]
    operand = builder.operand(node, number, (leading, depth, columns))
    operand = builder.view(node, permuted(operand, (1, 0, 2)), (depth, leading * columns, 1))
    name = builder.name(node)
    weight = builder.weight(f"{name}.weight", (rows, depth, 1, 1))
    product = Conv2d(name, (operand,), builder.tensor(name, (rows, leading * columns, 1)), (weight,))
    result = reshaped(Operand((Source(name),), product.output.shape), (rows, leading, columns))
    assert result is not None  # one tensor can be reshaped at will
    builder.add(node, product, result=permuted(result, (1, 0, 2)), takes_activation=True)


def gemm(builder: Builder, node: Node) -> None:
    """Gemm: a matrix product with its bias; an operand to be transposed is transposed and paid, a weight is not."""
    left, right, out = (builder.shape(value) for value in (*node.inputs[:2], node.outputs[0]))
    is_weight = builder.is_constant(node.inputs[1])
    builder.operand(node)  # refuses a constant
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    columns = out[-1]
    if bias and not (builder.is_constant(bias) and builder.shape(bias) in ((columns,), (1, columns), (1,), ())):
        _gemm_and_sum(builder, node)
        return
    if len(left) != 2 or len(right) != 2 or (is_weight and node.attributes.get("transB", 0) and right[0] != columns):
        raise FormatError(f"{left} times {right} is no matrix product that gives {out}")
    operand = builder.operand(node, 0, left)
    if node.attributes.get("transA", 0):
        operand = builder.transposed(node, operand)
    depth = operand.shape[1]
    if not is_weight:
        other = builder.operand(node, 1, right)
        if node.attributes.get("transB", 0):
            other = builder.transposed(node, other)
        name = builder.name(node)
        weights = [builder.tensor(f"{name}.bias", (columns,))] if bias else []
        product = MatMul(name, (operand, other), builder.tensor(name, out), tuple(weights))
        builder.add(node, product, takes_activation=True)
        return
    if prod(right) != depth * columns:
        raise FormatError(f"{left} times {right} is no matrix product that gives {out}")
    rows = sample_shape(operand.shape)
    operand = builder.view(node, operand, rows)
    name = builder.name(node)
    weights = [builder.weight(f"{name}.weight", (depth, columns))]
    if bias:
        weights.append(builder.tensor(f"{name}.bias", (columns,)))
    product = MatMul(name, (operand,), builder.tensor(name, (*rows[:-1], columns)), tuple(weights))
    builder.add(node, product, channel_axis=-1)


def einsum(builder: Builder, node: Node) -> None:
    """Einsum of two inputs: a matrix product, the axes of its inputs and its output permuted for free."""
    terms = _terms(node)
    if terms is None or len(node.inputs) != 2:
        raise builder.refusal(
            node, f"equation {node.attributes.get('equation')!r}; only products of two are understood"
        )
    left, right, out = terms
    shapes = [builder.shape(value) for value in (*node.inputs, node.outputs[0])]
    if any(len(term) != len(shape) for term, shape in zip(terms, shapes, strict=True)):
        raise FormatError(f"equation {node.attributes.get('equation')!r} does not fit shapes {shapes}")
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        sizes |= zip(term, shape, strict=True)
    both = [axis for axis in left if axis in right]
    batch, depth = [axis for axis in both if axis in out], [axis for axis in both if axis not in out]
    rows, columns = ([axis for axis in term if axis in out and axis not in both] for term in (left, right))
    # An axis of size 1 that stands in one input alone: summing over it changes nothing.
    alone = [[axis for axis in term if axis not in both and axis not in out] for term in (left, right)]
    if set(out) != {*batch, *rows, *columns} or any(sizes[axis] > 1 for axis in (*alone[0], *alone[1])):
        raise builder.refusal(node, "an axis of one input is summed over on its own")
    is_weight = builder.is_constant(node.inputs[1]) and not batch
    heads = tuple(sizes[axis] for axis in batch)
    width, length, height = (prod(sizes[axis] for axis in axes) for axes in (columns, depth, rows))
    first = _ordered(builder, node, 0, left, (*batch, *rows, *depth, *alone[0]), (*heads, height, length))
    name = builder.name(node)
    output = builder.tensor(name, (*heads, height, width))
    if is_weight:
        product = MatMul(name, (first,), output, (builder.weight(f"{name}.weight", (length, width)),))
    else:
        second = _ordered(builder, node, 1, right, (*batch, *depth, *columns, *alone[1]), (*heads, length, width))
        product = MatMul(name, (first, second), output)
    order = (*batch, *rows, *columns)
    result = reshaped(Operand((Source(name),), output.shape), tuple(sizes[axis] for axis in order))
    assert result is not None  # one tensor can be reshaped at will
    builder.add(node, product, result=permuted(result, tuple(order.index(axis) for axis in out)), takes_activation=True)


def _gemm_and_sum(builder: Builder, node: Node) -> None:
    """A Gemm whose third input is no bias of one value a column: the product, and an addition that is paid."""
    product = f"{node.output}.product"
    builder.graph.shapes[product] = builder.shape(node.outputs[0])
    gemm(builder, replace(node, name=builder.name(node, ".product"), inputs=node.inputs[:2], outputs=(product,)))
    name = builder.name(node)
    operands = [builder.operand(replace(node, inputs=(product,)))]
    if not builder.is_constant(node.inputs[2]):
        operands.append(builder.operand(node, 2, builder.shape(node.inputs[2])))
    shape = builder.shape(node.outputs[0])
    operands[0] = builder.view(node, operands[0], shape)
    weights = builder.constants(replace(node, inputs=node.inputs[2:]), name)
    builder.add(node, Elementwise(name, tuple(operands), builder.tensor(name, shape), weights), takes_activation=True)


def _terms(node: Node) -> list[str] | None:
    """The axes of both inputs and of the output; None where the equation is not of that kind."""
    equation = str(node.attributes.get("equation", "")).replace(" ", "")
    inputs, arrow, out = equation.partition("->")
    left, comma, right = inputs.partition(",")
    terms = [left, right, out]
    if not arrow or not comma or any(not term.isalpha() or len(set(term)) != len(term) for term in terms if term):
        return None
    return terms


def _ordered(builder: Builder, node: Node, number: int, term: str, order: tuple[str, ...], shape: Shape) -> Operand:
    """Input ``number`` of an Einsum with its axes in this order, under ``shape``."""
    operand = builder.operand(node, number, builder.shape(node.inputs[number]))
    return builder.view(node, permuted(operand, tuple(term.index(axis) for axis in order)), shape)


PRODUCT_RULES: dict[str, Rule] = {
    **dict.fromkeys(_RIGHT_OPERAND, matmul),
    "Gemm": gemm,
    "Einsum": einsum,
}
