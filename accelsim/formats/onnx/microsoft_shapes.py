"""Shapes of what the operators of onnxruntime (domain ``com.microsoft``) write; the onnx package knows none of them.

The operators are those of onnxruntime's ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from accelsim.errors import FormatError

if TYPE_CHECKING:
    from accelsim.formats.onnx.inference import Node

MICROSOFT = "com.microsoft"
Shape = tuple[int, ...]
_Inputs = Sequence[Shape]


class Twin(NamedTuple):
    """The standard operator that does the same with some of the inputs."""

    op: str
    inputs: slice


TWINS: dict[str, Twin] = {
    "QLinearAdd": Twin("Add", slice(0, 6, 3)),
    "QLinearMul": Twin("Mul", slice(0, 6, 3)),
    "QLinearConcat": Twin("Concat", slice(2, None, 3)),
    "QLinearSigmoid": Twin("Sigmoid", slice(1)),
    "QLinearLeakyRelu": Twin("LeakyRelu", slice(1)),
    "QLinearSoftmax": Twin("Softmax", slice(1)),
    "QLinearAveragePool": Twin("AveragePool", slice(1)),
    "QLinearGlobalAveragePool": Twin("GlobalAveragePool", slice(1)),
    "MatMulIntegerToFloat": Twin("MatMul", slice(2)),
    "FusedConv": Twin("Conv", slice(3)),
    "FusedGemm": Twin("Gemm", slice(3)),
    "Gelu": Twin("Gelu", slice(1)),
    "QuickGelu": Twin("Gelu", slice(1)),
}
"""Scales and zero points, and a function that is fused, are part of the output stage."""


def _kept(node: Node, given: _Inputs) -> list[Shape]:
    return [given[0]]


def _skip(node: Node, given: _Inputs) -> list[Shape]:
    return [given[0], (), (), given[0]]


def _embed(node: Node, given: _Inputs) -> list[Shape]:
    embedded = (*given[0], given[2][-1])
    return [embedded, given[0][:1], embedded]


def _blocks(node: Node, given: _Inputs) -> list[Shape]:
    return [(*given[0][:-1], node.attributes["N"])]


def _gather_blocks(node: Node, given: _Inputs) -> list[Shape]:
    return [(*given[1], table_of(node, given[0], given[2])[1])]


def table_of(node: Node, stored: Shape, scales: Shape) -> tuple[int, int]:
    """Rows and width of the table of a GatherBlockQuantized, of which a byte may hold several elements.

    Raises:
        FormatError: it is no matrix whose columns are quantized in blocks.
    """
    block, packed = node.attributes.get("block_size", 128), 8 // node.attributes.get("bits", 4)
    if len(stored) == len(scales) == 2:
        for width in (stored[1], stored[1] * packed):
            if -(-width // block) == scales[1]:
                return stored[0], width
    raise FormatError(f"a table of shape {stored} with scales {scales} is not quantized by blocks of {block} columns")


def _product(node: Node, given: _Inputs) -> list[Shape]:
    left, right = (
        (*shape[:-2], shape[-1], shape[-2]) if node.attributes.get(name, 0) else shape
        for name, shape in zip(("transA", "transB"), given, strict=False)
    )
    longer = max((left, right), key=len)
    return [(*longer[:-2], left[-2], right[-1])]


def _grouped(node: Node, given: _Inputs) -> list[Shape]:
    count, groups = node.attributes["num_heads"], node.attributes["kv_num_heads"]
    batch, new, width = given[0]
    width = width // count if given[1] else width // (count + 2 * groups)
    cached = given[3][2] if len(given) > 3 and given[3] else 0
    present = (batch, groups, cached + new, width)
    return [(batch, new, count * width), present, present]


def _many_heads(node: Node, given: _Inputs) -> list[Shape]:
    if len(given) < 3 or not given[1] or not given[2] or len(given[0]) != 3:
        raise FormatError(f"{node.label}: packed queries, keys or values are not understood")
    count, (batch, new, _), value = node.attributes["num_heads"], given[0], given[2]
    fresh, width = (value[2], value[3]) if len(value) == 4 else (value[1], value[2] // count)
    cached = given[6][2] if len(given) > 6 and given[6] else 0
    key_width = given[0][2] // count
    total = cached + fresh
    return [(batch, new, count * width), (batch, count, total, key_width), (batch, count, total, width)]


def _attention(node: Node, given: _Inputs) -> list[Shape]:
    sizes = qkv_sizes(node, given[1])
    return [(*given[0][:2], sizes[2])]


def qkv_sizes(node: Node, weights: Shape) -> list[int]:
    """Widths of queries, keys and values in the weights of an Attention."""
    found = node.attributes.get("qkv_hidden_sizes") or [weights[1] // 3] * 3
    if len(found) != 3 or sum(found) != weights[1]:
        raise FormatError(f"weights of shape {weights} do not hold queries, keys and values of widths {found}")
    return list(found)


_SHAPES: dict[str, Callable[[Node, _Inputs], list[Shape]]] = {
    "FastGelu": _kept,
    "BiasGelu": _kept,
    "RotaryEmbedding": _kept,
    "SkipLayerNormalization": _skip,
    "SkipSimplifiedLayerNormalization": _skip,
    "EmbedLayerNormalization": _embed,
    "MatMulNBits": _blocks,
    "GatherBlockQuantized": _gather_blocks,
    "FusedMatMul": _product,
    "DynamicQuantizeMatMul": _product,
    "GroupQueryAttention": _grouped,
    "MultiHeadAttention": _many_heads,
    "Attention": _attention,
}
TYPED_BY = {"EmbedLayerNormalization": 2, "GatherBlockQuantized": 2, "MatMulIntegerToFloat": 2, "QLinearConcat": 2}
"""The input whose type the outputs have, where it is not the first."""


def writes_known_shapes(op: str) -> bool:
    """Whether :func:`written_shapes` knows an operator."""
    return op in TWINS or op in _SHAPES


def written_shapes(node: Node, shapes: Mapping[str, Shape]) -> list[Shape]:
    """The shapes of a node's outputs, () for those that nobody needs; no list where they are not known.

    Raises:
        FormatError: the shapes of its inputs do not fit it.
    """
    given = [shapes.get(name, ()) for name in node.inputs]
    if node.op in TWINS:
        return _of_twin(node, given)
    try:
        return _SHAPES[node.op](node, given) if node.op in _SHAPES and given and given[0] else []
    except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise FormatError(f"{node.label}: its inputs of shapes {given} do not fit it ({error})") from error


def _of_twin(node: Node, given: _Inputs) -> list[Shape]:
    """What the onnx package infers of the standard operator on inputs of these shapes."""
    from onnx import TensorProto, helper, shape_inference

    op, which = TWINS[node.op]
    names = [f"x{number}" for number, _ in enumerate(given)][which]
    attributes = {name: value for name, value in node.attributes.items() if not name.startswith("activation")}
    attributes.pop("channels_last", None)
    attributes.pop("opset", None)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in zip(names, given[which], strict=True)
        if prod(shape)
    ]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)],
        "twin",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    found = shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    dims = found.graph.output[0].type.tensor_type.shape.dim
    return [tuple(dim.dim_value for dim in dims)] if dims and all(dim.dim_value for dim in dims) else []
