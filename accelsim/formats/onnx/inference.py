"""Shapes of all values of an ONNX graph: inference by the onnx package and folding of constants, hand in hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from accelsim.formats.onnx.folding import MAXIMUM_ELEMENTS, Array, fold
from accelsim.formats.onnx.microsoft_shapes import MICROSOFT, TYPED_BY, written_shapes
from accelsim.formats.onnx.types import value_bits

if TYPE_CHECKING:
    import onnx

OpenShape = tuple[int | str | None, ...]
Shape = tuple[int, ...]
MAXIMUM_LIST = 1 << 20
"""Where a vector is longer than this, the onnx package is not asked to propagate values, element by element."""


SHAPE_KEPT = frozenset(
    [
        "GroupNormalization",
        "MeanVarianceNormalization",
        "RMSNormalization",
        "RotaryEmbedding",
        "SimplifiedLayerNormalization",
    ]
)
"""Operators whose output has the shape of their first input, of which shape inference does not always know."""


@dataclass(frozen=True)
class Node:
    """One node of the graph, without its tensors."""

    op: str
    name: str
    inputs: tuple[str, ...]
    """Names of values; '' for one left out."""
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    domain: str = ""
    captured: tuple[str, ...] = ()
    """Names that its subgraphs read."""

    @property
    def output(self) -> str:
        """Its first output that is not left out."""
        return next(filter(None, self.outputs), "")

    @property
    def label(self) -> str:
        """How messages call it."""
        return f"node '{self.name or self.output}' ({self.op})"


def is_small(tensor: onnx.TensorProto) -> bool:
    """Whether the values of a tensor are in the file and few enough to be of use in shape arithmetic."""
    return prod(tensor.dims) <= MAXIMUM_ELEMENTS and not tensor.external_data and tensor.data_location == 0


@dataclass
class Inference:
    """What is known of every value."""

    shapes: dict[str, OpenShape]
    constants: set[str]
    arrays: dict[str, Array]
    bits: dict[str, int]
    """Of an element of each value, by its type."""
    live: list[Node]
    dead_nodes: int
    opset: int


def closed(shape: OpenShape | None) -> Shape | None:
    """``shape`` if all of it is known."""
    if shape is None:
        return None
    sizes = tuple(size for size in shape if isinstance(size, int))
    return sizes if len(sizes) == len(shape) else None


def infer(
    model: onnx.ModelProto, parameters: dict[str, Shape], measured: Mapping[str, Shape] = MappingProxyType({})
) -> Inference:
    """Infers shapes and folds constants, each with the help of the other, until neither finds more.

    ``measured`` shapes are those of a run; they are believed.

    The values that the onnx package can propagate by itself are asked for last: they are seldom needed, and for a list
    that claims to be long it takes memory.
    """
    from onnx import numpy_helper, shape_inference

    model = type(model).FromString(model.SerializeToString())
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)
    nodes = [_node(proto) for proto in model.graph.node]
    tensors = [{a.name: a.t for a in proto.attribute if a.HasField("t")} for proto in model.graph.node]
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    propagates = False
    while True:
        inferred = shape_inference.infer_shapes(model, data_prop=propagates)
        shapes = _shapes(inferred, parameters) | dict(measured)
        constants = set(parameters)
        fresh = _own_shapes(model, inferred, shapes)
        for node, stored in zip(nodes, tensors, strict=True):
            shape_of_known = node.op in ("Shape", "Size") and closed(shapes.get(node.inputs[0])) is not None
            if not (shape_of_known or _is_constant(node, constants)):
                continue
            constants.update(filter(None, node.outputs))
            if node.outputs[0] in arrays:
                continue
            array = _fold_node(node, stored, shapes, arrays, opset)
            if array is not None:
                arrays[node.outputs[0]] = array
                fresh = True
        open_values = any(node.output and closed(shapes.get(node.output)) is None for node in nodes)
        longest = max((shape[0] for shape in map(closed, shapes.values()) if shape and len(shape) == 1), default=0)
        if not open_values or (not fresh and (propagates or longest > MAXIMUM_LIST)):
            break
        propagates = not fresh
        kept = [proto for proto in model.graph.node if proto.output[0] not in arrays]
        done = {tensor.name for tensor in model.graph.initializer}
        del model.graph.node[:]
        model.graph.node.extend(kept)
        model.graph.initializer.extend(
            numpy_helper.from_array(array, name) for name, array in arrays.items() if name not in done
        )
    needed = {value.name for value in model.graph.output}
    live: list[Node] = []
    computed = [node for node in nodes if node.outputs and not constants.issuperset(filter(None, node.outputs))]
    for node in reversed(computed):
        if needed.intersection(filter(None, node.outputs)):
            live.append(node)
            needed.update(node.inputs, node.captured)
    bits = value_bits(inferred.graph, nodes, constants)
    return Inference(shapes, constants, arrays, bits, live[::-1], len(computed) - len(live), opset)


def _own_shapes(model: onnx.ModelProto, inferred: onnx.ModelProto, shapes: dict[str, OpenShape]) -> bool:
    """Tells ``model`` what operators write that the onnx package leaves open; whether there was any."""
    from onnx import helper

    graph = inferred.graph
    types = {value.name: value.type.tensor_type.elem_type for value in (*graph.input, *graph.value_info, *graph.output)}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    known = {name: found for name, shape in shapes.items() if (found := closed(shape)) is not None}
    fresh = False
    for proto in model.graph.node:
        own = proto.domain == MICROSOFT
        if not (own or proto.op_type in SHAPE_KEPT) or not proto.output or not proto.input or proto.output[0] in known:
            continue
        if any(name and name not in known for name in proto.input):
            continue
        node = _node(proto)
        written = written_shapes(node, known) if own else [known[proto.input[0]]]
        typed_by = proto.input[TYPED_BY.get(node.op, 0)]
        for name, shape in zip(proto.output, written, strict=False):
            if name and shape and typed_by in types:
                model.graph.value_info.append(helper.make_tensor_value_info(name, types[typed_by], shape))
                known[name], types[name], fresh = shape, types[typed_by], True
    return fresh


def _is_constant(node: Node, constants: set[str]) -> bool:
    inputs = [name for name in node.inputs[: 1 if node.op == "CastLike" else None] if name]
    if not inputs or node.captured or node.op.startswith("Random") or node.op in ("Bernoulli", "Multinomial"):
        return node.op == "Constant"
    return constants.issuperset(inputs)


def _fold_node(
    node: Node, stored: dict[str, Any], shapes: dict[str, OpenShape], arrays: dict[str, Array], opset: int
) -> Array | None:
    """The value of a constant node, if it is small."""
    from onnx import numpy_helper

    if node.op in ("Shape", "Size"):
        known = closed(shapes.get(node.inputs[0]))
        if known is None:
            return None
        sizes = np.array(known, dtype=np.int64)
        if node.op == "Size":
            return np.asarray(np.prod(sizes, dtype=np.int64))
        return sizes[node.attributes.get("start", 0) : node.attributes.get("end", len(sizes))]
    if any(name and name not in arrays for name in node.inputs):
        return None
    if not all(is_small(tensor) for tensor in stored.values()):
        return None
    attributes = node.attributes | {name: numpy_helper.to_array(tensor) for name, tensor in stored.items()}
    return fold(node.op, attributes, [arrays[name] if name else None for name in node.inputs], opset)


def _shapes(model: onnx.ModelProto, parameters: dict[str, Shape]) -> dict[str, OpenShape]:
    """The shapes of all values: numbers, names of free dimensions, None for what is not even named."""
    shapes: dict[str, OpenShape] = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    for value in (*model.graph.input, *model.graph.value_info, *model.graph.output):
        tensor_type = value.type.tensor_type
        if value.type.HasField("tensor_type") and tensor_type.HasField("shape"):
            shapes[value.name] = tuple(
                dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor_type.shape.dim
            )
    return shapes | parameters


def _node(proto: onnx.NodeProto) -> Node:
    from onnx import helper

    attributes: dict[str, Any] = {}
    captured: list[str] = []
    for attribute in proto.attribute:
        if attribute.type in (1, 2, 3, 6, 7, 8):  # numbers, strings and lists of them
            value = helper.get_attribute_value(attribute)
            attributes[attribute.name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        for subgraph in (attribute.g, *attribute.graphs):
            captured.extend(name for node in subgraph.node for read in (_node(node),) for name in read.inputs)
            captured.extend(name for node in subgraph.node for name in _node(node).captured)
    return Node(
        op=proto.op_type,
        name=proto.name,
        inputs=tuple(proto.input),
        outputs=tuple(proto.output),
        attributes=attributes,
        domain=proto.domain,
        captured=tuple(dict.fromkeys(filter(None, captured))),
    )
