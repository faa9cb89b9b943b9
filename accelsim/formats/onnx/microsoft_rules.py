"""Rules for operators of onnxruntime (domain ``com.microsoft``): each is said in terms of the standard's operators.

What its optimizer fuses, what its quantizers write, and what language models are exported to for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from accelsim.errors import FormatError
from accelsim.formats.onnx.builder import Builder, Rule
from accelsim.formats.onnx.inference import Node, Shape
from accelsim.formats.onnx.microsoft_shapes import TWINS, qkv_sizes, table_of
from accelsim.formats.onnx.quantized_rules import quantize
from accelsim.workload.operator import Operand, Source
from accelsim.workload.operators import Elementwise
from accelsim.workload.tensor import Tensor
from accelsim.workload.views import permuted, sliced

ROTARY_OPERATIONS = 3


def microsoft_rules(standard: Mapping[str, Rule]) -> dict[str, Rule]:
    """The rules, by operator; ``standard`` are those of the operators that they are made of."""
    return {name: _with(standard, rule) for name, rule in _RULES.items()}


class _Steps:
    """One node, taken apart: each step is a standard operator that reads inputs of the node or earlier steps."""

    def __init__(self, builder: Builder, node: Node, standard: Mapping[str, Rule]) -> None:
        self.builder, self.node, self.standard = builder, node, standard

    def given(self, number: int) -> str:
        """The name of an input, '' if it is left out."""
        return self.node.inputs[number] if number < len(self.node.inputs) else ""

    def shape(self, number: int) -> Shape:
        """The shape of an input, () if it is left out."""
        return self.builder.shape(self.given(number)) if self.given(number) else ()

    def value(self, suffix: str, shape: Shape, bits: int | None = None, readers: int = 1) -> str:
        """A new value, of the node's bits unless given."""
        name, graph = f"{self.node.output}{suffix}", self.builder.graph
        graph.shapes[name] = shape
        graph.bits[name] = graph.bits.get(self.node.output, 32) if bits is None else bits
        self.builder.readers[name] = readers
        return name

    def constant(self, suffix: str, shape: Shape, number: int, bits: int | None = None) -> str:
        """A new constant, a part or another view of the constant input ``number``, whose bits it has unless given."""
        name = self.value(suffix, shape, self.builder.graph.bits.get(self.given(number)) if bits is None else bits)
        self.builder.parameters.add(name)
        return name

    def run(self, op: str, inputs: tuple[str, ...], output: str = "", suffix: str = "", **attributes: Any) -> str:
        """Runs the rule of ``op``; without ``output`` it gives the node's outputs."""
        outputs = (output,) if output else self.node.outputs
        name = f"{self.node.name or self.node.output}{suffix}"
        step = Node(op, name, inputs, outputs, attributes)
        self.builder.begin(step)
        self.standard[op](self.builder, step)
        return outputs[0]

    def view(self, suffix: str, operand: Operand, shape: Shape) -> str:
        """A value that stands for an operand, as it is."""
        name = self.value(suffix, shape)
        self.builder.define(replace(self.node, outputs=(name,)), operand)
        return name


_Rule = Callable[[_Steps], None]


def _with(standard: Mapping[str, Rule], rule: _Rule) -> Rule:
    def checked(builder: Builder, node: Node) -> None:
        try:
            rule(_Steps(builder, node, standard))
        except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise FormatError(f"its inputs and attributes do not fit it ({error!r})") from error

    return checked


def _twin(steps: _Steps) -> None:
    node = steps.node
    op, which = TWINS[node.op]
    if node.attributes.get("channels_last", 0):
        raise steps.builder.refusal(node, "its channels stand last")
    if node.op == "FusedConv" and steps.given(3):
        raise steps.builder.refusal(node, "a sum that is fused is not understood")
    inputs = node.inputs[which]
    steps.run(op, inputs, **node.attributes)


def _biased_gelu(steps: _Steps) -> None:
    """FastGelu, BiasGelu: a bias, then the function."""
    value = steps.given(0)
    if steps.given(1):
        value = steps.run("Add", (value, steps.given(1)), steps.value(".biased", steps.shape(0)), ".bias")
    steps.run("Gelu", (value,))


def _skip_normalization(steps: _Steps) -> None:
    """The sum of two inputs and a bias, normalized; the sum may be an output, too."""
    node, simple = steps.node, steps.node.op == "SkipSimplifiedLayerNormalization"
    bias = steps.given(3 if simple else 4)
    kept = len(node.outputs) > 3 and node.outputs[3] and steps.builder.readers[node.outputs[3]]
    shape = steps.shape(0)
    value = steps.value(".sum", shape, readers=1 if bias else 1 + bool(kept))
    steps.run("Add", (steps.given(0), steps.given(1)), value, ".sum")
    if bias:
        biased = steps.value(".biased", shape, readers=1 + bool(kept))
        value = steps.run("Add", (value, bias), biased, ".bias")
    if kept:
        steps.builder.define(node, steps.builder.operand(replace(node, inputs=(value,))), 3)
    op = "SimplifiedLayerNormalization" if simple else "LayerNormalization"
    parameters = (steps.given(2),) if simple else (steps.given(2), steps.given(3))
    steps.run(op, (value, *filter(None, parameters)), node.outputs[0], axis=-1)


def _embed(steps: _Steps) -> None:
    """EmbedLayerNormalization: words, positions and segments added, then normalized."""
    node, shape = steps.node, (*steps.shape(0), steps.shape(2)[-1])
    if any(value and steps.builder.readers[value] for value in node.outputs[1:]):
        raise steps.builder.refusal(node, "more than its first output is used")
    value = steps.run("Gather", (steps.given(2), steps.given(0)), steps.value(".words", shape), ".words")
    rows = steps.constant(".positions", shape[1:], 3)
    value = steps.run("Add", (value, rows), steps.value(".placed", shape), ".position")
    if steps.given(1):
        segment = steps.run("Gather", (steps.given(4), steps.given(1)), steps.value(".segments", shape), ".segments")
        value = steps.run("Add", (value, segment), steps.value(".embedded", shape), ".segment")
    steps.run("LayerNormalization", (value, steps.given(5), steps.given(6)), node.outputs[0], axis=-1)


def _blocks(steps: _Steps) -> None:
    """MatMulNBits: weights of few bits, a scale (and a zero point) for each block of a column."""
    node, builder = steps.node, steps.builder
    depth, columns, bits = node.attributes["K"], node.attributes["N"], node.attributes.get("bits", 4)
    if not builder.is_constant(steps.given(1)):
        raise builder.refusal(node, "its weights are not constant")
    matrix, bias = steps.constant(".matrix", (depth, columns), 1, bits), steps.given(5)
    product = steps.value(".product", builder.shape(node.output)) if bias else node.output
    steps.run("MatMul", (steps.given(0), matrix), product)
    blocks = -(-depth // node.attributes["block_size"])
    name = next(reversed(builder.operators))
    extra = [Tensor(f"{name}.scales", (blocks, columns), builder.graph.bits.get(steps.given(2), 32))]
    if steps.given(3):
        extra.append(Tensor(f"{name}.zero_points", (blocks, columns), bits))
    operator = builder.operators[name]
    builder.operators[name] = replace(operator, weights=(*operator.weights, *extra))
    if bias:
        steps.run("Add", (product, bias), node.output, ".bias")


def _gather_blocks(steps: _Steps) -> None:
    """GatherBlockQuantized: rows of a quantized table; their scales are left out."""
    node = steps.node
    if node.attributes.get("gather_axis", 0) or not steps.builder.is_constant(steps.given(0)):
        raise steps.builder.refusal(node, "only rows of a constant table are understood")
    table = table_of(node, steps.shape(0), steps.shape(2))
    stored = steps.constant(".stored", table, 0, node.attributes.get("bits", 4))
    steps.run("Gather", (stored, steps.given(1)))


def _fused_product(steps: _Steps) -> None:
    """FusedMatMul: what is to be transposed is addressed so; the factor is part of the output stage."""
    inputs = list(steps.node.inputs[:2])
    for number, name in enumerate(("transA", "transB")):
        if not steps.node.attributes.get(name, 0):
            continue
        shape = steps.shape(number)
        turned = (*shape[:-2], shape[-1], shape[-2])
        if steps.builder.is_constant(inputs[number]):
            inputs[number] = steps.constant(f".{name}", turned, number)
        else:
            operand = steps.builder.operand(steps.node, number, shape)
            axes = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
            inputs[number] = steps.view(f".{name}", permuted(operand, axes), turned)
    steps.run("MatMul", tuple(inputs))


def _dynamic_product(steps: _Steps) -> None:
    """DynamicQuantizeMatMul: its first input is quantized at run time."""
    graph = steps.builder.graph
    steps.builder.bits, before = 8, steps.builder.bits
    whole = quantize(steps.builder, steps.node, ".quantized")
    steps.builder.bits = before
    value = steps.value(".given", graph.shapes[steps.given(0)], 8)
    steps.builder.define(replace(steps.node, outputs=(value,)), whole)
    steps.run("MatMul", (value, steps.given(1)))


def _rotary(steps: _Steps) -> None:
    """RotaryEmbedding: input, positions, and tables of which a row a position is read."""
    shape = steps.shape(0)
    positions = shape[1] if len(shape) == 3 else shape[2]
    steps.builder.add(steps.node, _turned(steps, steps.builder.operand(steps.node), positions, steps.shape(2)[-1], ""))


def _turned(steps: _Steps, operand: Operand, positions: int, half: int, suffix: str) -> Elementwise:
    """Queries or keys times the cosines and sines of their positions."""
    name = steps.builder.name(steps.node, suffix)
    bits = steps.builder.bits
    tables = tuple(Tensor(f"{name}.{part}", (positions, half), bits) for part in ("cosines", "sines"))
    return Elementwise(name, (operand,), steps.builder.tensor(name, operand.shape), tables, ROTARY_OPERATIONS)


def _part(steps: _Steps, suffix: str, whole: str, begin: int, width: int) -> str:
    """Columns of a value of shape (1, rows, columns)."""
    rows = steps.builder.shape(whole)[1]
    operand = steps.builder.operand(replace(steps.node, inputs=(whole,)))
    return steps.view(suffix, sliced(operand, (0, begin), (rows, width)), (1, rows, width))


def _grouped_attention(steps: _Steps) -> None:
    """GroupQueryAttention: causal, with a cache, heads that share keys, rotary embedding and a window."""
    node, builder = steps.node, steps.builder
    count, groups = node.attributes["num_heads"], node.attributes["kv_num_heads"]
    width = builder.shape(node.outputs[0])[2] // count
    if steps.given(1):
        values = [steps.given(number) for number in range(3)]
    else:
        sizes = [(0, count), (count, groups), (count + groups, groups)]
        parts = zip((".query", ".key", ".value"), sizes, strict=True)
        values = [_part(steps, name, steps.given(0), begin * width, heads * width) for name, (begin, heads) in parts]
    if node.attributes.get("do_rotary", 0):
        half, new = steps.shape(7)[-1], builder.shape(values[0])[1]
        for number, suffix in ((0, ".turned_query"), (1, ".turned_key")):
            operator = _turned(steps, builder.operand(replace(node, inputs=(values[number],))), new, half, suffix)
            builder.operators[operator.name] = operator
            operand = Operand((Source(operator.name),), operator.output.shape)
            values[number] = steps.view(suffix, operand, builder.shape(values[number]))
    window = node.attributes.get("local_window_size", -1)
    bias = steps.given(10)
    steps.run(
        "Attention", (*values, bias, steps.given(3), steps.given(4)),
        q_num_heads=count, kv_num_heads=groups, is_causal=1, softcap=node.attributes.get("softcap", 0.0),
        left_window_size=window - 1 if window > 0 else -1,
    )  # fmt: skip


def _multi_head_attention(steps: _Steps) -> None:
    """MultiHeadAttention: biases of the projections, a mask of keys or of scores, a cache."""
    node = steps.node
    if not steps.given(1) or len({len(steps.shape(number)) for number in range(3)}) > 1:
        raise steps.builder.refusal(node, "packed queries, keys and values are not understood")
    values = [steps.given(number) for number in range(3)]
    if steps.given(3):
        for number, name in enumerate(("query", "key", "value")):
            bias, shape = steps.constant(f".{name}_bias", steps.shape(number)[-1:], 3), steps.shape(number)
            values[number] = steps.run("Add", (values[number], bias), steps.value(f".{name}", shape), f".{name}_bias")
    _attend(steps, values, steps.given(5) or _mask(steps, 4), (steps.given(6), steps.given(7)))


def _attention(steps: _Steps) -> None:
    """Attention as onnxruntime has it: the projections are part of it."""
    node, builder = steps.node, steps.builder
    if steps.given(4) or any(value and builder.readers[value] for value in node.outputs[1:]):
        raise builder.refusal(node, "a cache whose keys and values are one tensor is not understood")
    shape, sizes = (*steps.shape(0)[:2], steps.shape(1)[1]), qkv_sizes(node, steps.shape(1))
    whole = steps.run("MatMul", (steps.given(0), steps.given(1)), steps.value(".qkv", shape), ".qkv")
    if steps.given(2):
        whole = steps.run("Add", (whole, steps.given(2)), steps.value(".biased", shape, readers=3), ".qkv_bias")
    begins = (0, sizes[0], sizes[0] + sizes[1])
    parts = zip((".query", ".key", ".value"), begins, sizes, strict=True)
    values = [_part(steps, name, whole, begin, width) for name, begin, width in parts]
    _attend(steps, values, steps.given(5) or _mask(steps, 3), ("", ""))


def _mask(steps: _Steps, number: int) -> str:
    """A mask of keys, one a position; lengths are left out, as every sequence is as long as its tensor."""
    return steps.given(number) if len(steps.shape(number)) > 1 else ""


def _attend(steps: _Steps, values: list[str], mask: str, past: tuple[str, str]) -> None:
    heads = steps.node.attributes["num_heads"]
    steps.run(
        "Attention", (*values, mask, *past), q_num_heads=heads, kv_num_heads=heads,
        is_causal=steps.node.attributes.get("unidirectional", 0),
    )  # fmt: skip


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(TWINS, _twin),
    **dict.fromkeys(("FastGelu", "BiasGelu"), _biased_gelu),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _skip_normalization),
    "EmbedLayerNormalization": _embed,
    "MatMulNBits": _blocks,
    "GatherBlockQuantized": _gather_blocks,
    "FusedMatMul": _fused_product,
    "DynamicQuantizeMatMul": _dynamic_product,
    "RotaryEmbedding": _rotary,
    "GroupQueryAttention": _grouped_attention,
    "MultiHeadAttention": _multi_head_attention,
    "Attention": _attention,
}
SEVERAL_OUTPUTS = frozenset(
    [
        "SkipLayerNormalization",
        "SkipSimplifiedLayerNormalization",
        "EmbedLayerNormalization",
        "GroupQueryAttention",
        "MultiHeadAttention",
        "Attention",
    ]
)
"""Operators of which more than the first output may be used."""
