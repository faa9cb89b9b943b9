"""The rule for the ONNX operator Attention, and that for rotary embeddings."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from accelsim.errors import FormatError
from accelsim.formats.onnx.builder import Builder, Rule
from accelsim.formats.onnx.inference import Node
from accelsim.workload.operator import Operand, Source
from accelsim.workload.operators import Elementwise, MatMul, Softmax
from accelsim.workload.operators.causal import CausalMask
from accelsim.workload.views import joined, permuted

SOFTCAP_OPERATIONS = 3
"""Division, tanh, product (Gemma Team, "Gemma 2", 2024, section 2)."""
ROTARY_OPERATIONS = 3
"""x * cos + rotated x * sin (Su et al., "RoFormer", 2021, equation 34)."""


class _Heads(NamedTuple):
    """Groups of query heads that share a key and value head, positions and widths."""

    groups: int
    sharing: int
    new: int
    cached: int
    total: int
    width: int
    value_width: int


def attention(builder: Builder, node: Node) -> None:
    """Attention (operator set 23): scores, mask, softmax, values; heads are addressed, their permutations are free.

    The scale is part of the output stage of the scores. A causal mask leaves out what it hides; any other is added.
    """
    if len(node.outputs) > 3 and node.outputs[3] and builder.readers[node.outputs[3]]:
        raise builder.refusal(node, "its scores are an output")
    if len(node.inputs) > 6 and node.inputs[6]:
        raise builder.refusal(node, "the lengths of its keys are only known at run time")
    heads = _heads(builder, node)
    causal, mask = _causal(builder, node, heads), _mask(builder, node, heads)
    queries = _by_head(builder, node, 0, heads.groups * heads.sharing, heads.width)
    keys, values = (_with_past(builder, node, number, heads) for number in (1, 2))
    if heads.sharing > 1:
        outer: tuple[int, ...] = (heads.groups, heads.sharing)
        queries = builder.view(node, queries, (*outer, heads.new, heads.width))
        keys_for = builder.view(node, permuted(keys, (0, 2, 1)), (heads.groups, 1, heads.width, heads.total))
        values_for = builder.view(node, values, (heads.groups, 1, heads.total, heads.value_width))
    else:
        outer = (heads.groups,)
        keys_for, values_for = permuted(keys, (0, 2, 1)), values
    shape = (*outer, heads.new, heads.total)
    name = builder.name(node, ".scores")
    builder.operators[name] = MatMul(name, (queries, keys_for), builder.tensor(name, shape), causal_columns=causal)
    last = Operand((Source(name),), shape)
    operations = (mask is not None) + (SOFTCAP_OPERATIONS if node.attributes.get("softcap", 0.0) else 0)
    if operations:
        name = builder.name(node, ".masked")
        operands = (last, mask) if isinstance(mask, Operand) else (last,)
        weights = (builder.weight(f"{name}.mask", mask),) if isinstance(mask, tuple) and prod(mask) > 1 else ()
        builder.operators[name] = Elementwise(name, operands, builder.tensor(name, shape), weights, operations)
        last = Operand((Source(name),), shape)
    name = builder.name(node, ".softmax")
    builder.operators[name] = Softmax(name, (last,), builder.tensor(name, shape), causal=causal)
    last = Operand((Source(name),), shape)
    name = builder.name(node)
    output = builder.tensor(name, (*outer, heads.new, heads.value_width))
    product = MatMul(name, (last, values_for), output, causal_depth=causal)
    result = Operand((Source(name),), output.shape)
    if len(builder.shape(node.inputs[0])) == 3:
        flat = (heads.groups * heads.sharing, heads.new, heads.value_width)
        result = permuted(builder.view(node, result, flat), (1, 0, 2))
    builder.add(node, product, result=result)
    for number, whole in ((1, keys), (2, values)):
        if number < len(node.outputs) and node.outputs[number] and builder.readers[node.outputs[number]]:
            builder.define(node, whole, number)


def _causal(builder: Builder, node: Node, heads: _Heads) -> CausalMask | None:
    """The mask of ``is_causal``, with the window to the left that operator set 25 adds."""
    left, right = (node.attributes.get(f"{side}_window_size", -1) for side in ("left", "right"))
    if not node.attributes.get("is_causal", 0):
        if max(left, right) >= 0:
            raise builder.refusal(node, "a window without a causal mask is not understood")
        return None
    if heads.new == 1 and left < 0:
        return None
    return CausalMask(heads.cached, left + 1 if left >= 0 else None)


def _heads(builder: Builder, node: Node) -> _Heads:
    """The sizes of an attention, checked against each other."""
    shapes = [builder.shape(value) for value in node.inputs[:3]]
    query, key, value = shapes
    if query[0] != 1:
        raise builder.refusal(node, "only a leading batch of 1 is understood")
    if len(query) == 4:
        count, groups = query[1], key[1]
        new, width, value_width, fresh = query[2], query[3], value[-1], key[2]
    else:
        count, groups = (node.attributes.get(name, 0) for name in ("q_num_heads", "kv_num_heads"))
        if min(count, groups) < 1 or len({len(shape) for shape in shapes}) > 1 or len(query) != 3:
            raise FormatError(f"inputs of shapes {shapes} with {count} and {groups} heads are no attention")
        new, width, value_width, fresh = query[1], query[2] // count, value[2] // groups, key[1]
    past = builder.shape(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] else ()
    cached = past[2] if past else 0
    expected = [count * new * width, groups * fresh * width, groups * fresh * value_width]
    if count % groups or [prod(shape) for shape in shapes] != expected:
        raise FormatError(f"inputs of shapes {shapes} with {count} and {groups} heads are no attention")
    return _Heads(groups, count // groups, new, cached, cached + fresh, width, value_width)


def _mask(builder: Builder, node: Node, heads: _Heads) -> Operand | tuple[int, ...] | None:
    """The mask that is added to the scores: computed, or a parameter of that shape."""
    if len(node.inputs) < 4 or not node.inputs[3]:
        return None
    shape = builder.shape(node.inputs[3])
    rows, columns = (1, 1, *shape)[-2:]
    leading = prod(shape[:-2])
    if builder.is_constant(node.inputs[3]):
        return shape
    by_head = (heads.groups, heads.sharing) if heads.sharing > 1 else (heads.groups,)
    if rows not in (1, heads.new) or columns not in (1, heads.total) or leading not in (1, prod(by_head)):
        raise builder.refusal(node, "its mask has no shape that scores have")
    return builder.operand(node, 3, (rows, columns) if leading == 1 else (*by_head, rows, columns))


def _by_head(builder: Builder, node: Node, number: int, count: int, width: int) -> Operand:
    """An input as (heads, positions, width)."""
    shape = builder.shape(node.inputs[number])
    if len(shape) == 4:
        return builder.operand(node, number, shape[1:])
    return permuted(builder.operand(node, number, (shape[1], count, width)), (1, 0, 2))


def _with_past(builder: Builder, node: Node, number: int, heads: _Heads) -> Operand:
    """Keys or values of all positions, as (groups, positions, width)."""
    width = heads.width if number == 1 else heads.value_width
    fresh = _by_head(builder, node, number, heads.groups, width)
    if not heads.cached:
        return fresh
    past = builder.operand(node, number + 3, (heads.groups, heads.cached, width))
    whole = joined((past, fresh), 1)
    if whole is None:
        raise builder.refusal(node, "its keys or values are joined along another axis")
    return whole


def rotary_embedding(builder: Builder, node: Node) -> None:
    """RotaryEmbedding (operator set 23): three operations an element, by tables that are parameters."""
    for number in (1, 2):
        builder.parameter(node, number)
    operand = builder.operand(node)
    name = builder.name(node)
    output = builder.tensor(name, operand.shape)
    builder.add(node, Elementwise(name, (operand,), output, builder.constants(node, name), ROTARY_OPERATIONS))


ATTENTION_RULES: dict[str, Rule] = {"Attention": attention, "RotaryEmbedding": rotary_embedding}
