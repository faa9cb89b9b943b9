"""Multiply-accumulates of an ONNX file, counted node by node from concrete shapes, with nothing of the reader."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import shape_inference

Shapes = Mapping[str, tuple[int, ...]]


def bound(path: Path, sizes: Mapping[str, int]) -> onnx.ModelProto:
    """The model with its free dimensions set: by name, as ``INPUT.AXIS``, or to 1."""
    model = onnx.load(path, load_external_data=False)
    weights = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if value.name not in weights and dim.dim_value < 1:
                dim.dim_value = sizes.get(f"{value.name}.{axis}", sizes.get(dim.dim_param, 1))
    return model


def without_branches(model: onnx.ModelProto, values: Mapping[str, int]) -> onnx.ModelProto:
    """The model with the branch in the place of each If that is taken when it is run."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    while any(node.op_type == "If" for node in model.graph.node):
        taken = run(model, values)
        nodes = []
        for node in model.graph.node:
            if node.op_type != "If":
                nodes.append(node)
                continue
            wanted = "then_branch" if taken[node.input[0]].item() else "else_branch"
            (branch,) = (one.g for one in node.attribute if one.name == wanted)
            model.graph.initializer.extend(branch.initializer)
            nodes.extend(branch.node)
            nodes.extend(
                onnx.helper.make_node("Identity", [inner.name], [outer])
                for inner, outer in zip(branch.output, node.output, strict=True)
            )
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del model.graph.node[:]
        model.graph.node.extend(copies)
    return model


def run(model: onnx.ModelProto, values: Mapping[str, int]) -> dict[str, Any]:
    """All values of a model that onnxruntime runs on inputs of ones, or of ``values``."""
    import onnxruntime

    model = onnx.ModelProto.FromString(model.SerializeToString())
    there = {value.name for value in model.graph.output}
    for node in model.graph.node:
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name and name not in there)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    types = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
    feed = {one.name: np.full(one.shape, values.get(one.name, 1), types[one.type]) for one in session.get_inputs()}
    names = [one.name for one in session.get_outputs()]
    return feed | dict(zip(names, session.run(names, feed), strict=True))


def shapes_by_running(model: onnx.ModelProto, values: Mapping[str, int]) -> Shapes:
    """Shapes of all values, from one run."""
    shapes = {name: array.shape for name, array in run(model, values).items()}
    return shapes | {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}


def shapes_by_inference(model: onnx.ModelProto) -> Shapes:
    """Shapes of all values, as far as the onnx package infers them; what the outputs claim is not believed."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    graph = shape_inference.infer_shapes(model, data_prop=True).graph
    shapes = {
        value.name: tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    return shapes | {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}


def has_onnxruntime() -> bool:
    return find_spec("onnxruntime") is not None


def macs(model: onnx.ModelProto, shapes: Shapes) -> int:
    """Multiply-accumulates of everything that depends on an input of the graph and that an output depends on."""
    weights = {tensor.name for tensor in model.graph.initializer}
    computed = {value.name for value in model.graph.input} - weights
    for node in model.graph.node:
        if computed.intersection(node.input) and node.op_type not in ("Shape", "Size"):
            computed.update(node.output)
    needed = {value.name for value in model.graph.output}
    total = 0
    for node in reversed(model.graph.node):
        if needed.intersection(node.output):
            needed.update(node.input)
            if computed.intersection(node.output):
                total += macs_of_node(node, shapes)
    return total


def macs_of_node(node: onnx.NodeProto, shapes: Shapes) -> int:
    """By the definition of each operator in the ONNX standard."""
    read = [shapes.get(name, ()) for name in node.input]
    written = shapes[node.output[0]] if node.output[0] else ()
    attributes: dict[str, Any] = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
    match node.op_type:
        case "Conv" | "ConvInteger":
            return prod(written) * prod(read[1][1:])
        case "QLinearConv":
            return prod(written) * prod(read[3][1:])
        case "ConvTranspose":
            return prod(read[0]) * prod(read[1][1:])
        case "MatMul" | "MatMulInteger" | "QLinearMatMul":
            return prod(written) * read[0][-1]
        case "Gemm":
            return prod(written) * read[0][0 if attributes.get("transA", 0) else 1]
        case "LSTM" | "GRU" | "RNN":
            steps_and_sequences = prod(read[0][:2])
            return steps_and_sequences * (prod(read[1]) + prod(read[2]))
        case "DynamicQuantizeLSTM":
            return prod(read[0][:2]) * (prod(read[1]) + prod(read[2]))
        case "Einsum":
            left, right = attributes["equation"].decode().replace(" ", "").split("->")[0].split(",")
            sizes = dict(zip(left, read[0], strict=True)) | dict(zip(right, read[1], strict=True))
            return prod(sizes.values())
        case "Attention":
            query, key, value = read[:3]
            heads = query[1] if len(query) == 4 else attributes["q_num_heads"]
            groups = key[1] if len(query) == 4 else attributes["kv_num_heads"]
            positions = query[2] if len(query) == 4 else query[1]
            context = (key[2] if len(key) == 4 else key[1]) + (read[4][2] if len(read) > 4 and read[4] else 0)
            width = query[3] if len(query) == 4 else query[2] // heads
            value_width = value[3] if len(value) == 4 else value[2] // groups
            assert not attributes.get("is_causal", 0)  # what a mask hides is not counted here
            return query[0] * heads * positions * context * (width + value_width)
        case "If" | "Loop" | "Scan" | "DeformConv" | "FusedConv" | "FusedMatMul" | "MultiHeadAttention":
            raise AssertionError(f"{node.op_type} is not counted here")
        case _:
            return 0
