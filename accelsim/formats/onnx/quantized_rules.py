"""Rules for the ONNX operators that change between real numbers and quantized ones.

An operator that quantizes in its output stage writes quantized elements, and what only the array reads stays quantized.
"""

from __future__ import annotations

from accelsim.formats.onnx.builder import Builder, Rule
from accelsim.formats.onnx.inference import Node
from accelsim.workload.operator import Operand, Source
from accelsim.workload.operators import Elementwise, Normalization
from accelsim.workload.views import sliced

SCALE_OPERATIONS = 2
"""To or from a quantized number: a product with the scale, and the zero point."""
DYNAMIC_OPERATIONS = 4
"""Minimum and maximum first, then scale and zero point."""
ON_ARRAY = ("Conv", "ConvTranspose", "MatMul", "Gemm")


def quantize_linear(builder: Builder, node: Node) -> None:
    """QuantizeLinear: free in the output stage of the operator that alone it reads, else two operations an element."""
    if builder.sole_origin(node.inputs[0]) is not None:
        builder.narrow(node)
        builder.same(node)
    else:
        _scale(builder, node)


def dequantize_linear(builder: Builder, node: Node) -> None:
    """DequantizeLinear: free where only the array reads it, which scales its sums; else two operations an element."""
    value = node.outputs[0]
    readers = [other for other in builder.graph.nodes if value in other.inputs]
    if value not in builder.graph.outputs and all(other.op in ON_ARRAY for other in readers):
        builder.same(node)
    else:
        _scale(builder, node)


def _scale(builder: Builder, node: Node) -> None:
    operand = builder.operand(node)
    name = builder.name(node)
    output = builder.tensor(name, operand.shape)
    builder.add(node, Elementwise(name, (operand,), output, builder.constants(node, name), SCALE_OPERATIONS))


def quantize(builder: Builder, node: Node, suffix: str = "") -> Operand:
    """The first input of a node, quantized with a scale that is found at run time, over all of it."""
    operand = builder.operand(node)
    name = builder.name(node, suffix)
    output, axes = builder.tensor(name, operand.shape), tuple(range(len(operand.shape)))
    if not axes:
        builder.operators[name] = Elementwise(name, (operand,), output, (), DYNAMIC_OPERATIONS)
    else:
        builder.operators[name] = Normalization(name, (operand,), output, (), axes, DYNAMIC_OPERATIONS)
    return Operand((Source(name),), output.shape)


def dynamic_quantize_linear(builder: Builder, node: Node) -> None:
    """DynamicQuantizeLinear: four operations an element; scale and zero point travel with the elements."""
    whole = quantize(builder, node)
    builder.define(node, whole)
    for number in range(1, len(node.outputs)):
        if node.outputs[number] and builder.readers[node.outputs[number]]:
            ones = (1,) * len(whole.shape)
            builder.define(node, sliced(whole, (0,) * len(ones), ones), number)


QUANTIZED_RULES: dict[str, Rule] = {
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
    "DynamicQuantizeLinear": dynamic_quantize_linear,
}
