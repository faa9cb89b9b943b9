"""Bits per element from the types of an ONNX file. Expected bytes are elements times the size of their type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from accelsim.formats.onnx.reader import read_onnx
from accelsim.formats.onnx.types import type_bits
from tests.unit.onnx_models import model, node, save


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        *(("FLOAT", 32), ("DOUBLE", 64), ("FLOAT16", 16), ("BFLOAT16", 16), ("FLOAT8E4M3FN", 8)),
        *(("INT8", 8), ("UINT4", 4), ("BOOL", 8), ("INT64", 64), ("STRING", None), ("UNDEFINED", None)),
    ],
)
def test_bits_of_types(name: str, bits: int | None) -> None:
    assert type_bits(TensorProto.DataType.Value(name)) == bits


def test_a_type_of_the_future_is_not_known() -> None:
    assert type_bits(10_000) is None


@pytest.mark.parametrize(("kind", "size"), [(TensorProto.FLOAT, 4), (TensorProto.FLOAT16, 2), (TensorProto.DOUBLE, 8)])
def test_a_product_has_the_bits_of_its_type(tmp_path: Path, kind: int, size: int) -> None:
    graph = helper.make_graph(
        [node("MatMul", "x w", "y")],
        "graph",
        [helper.make_tensor_value_info("x", kind, [3, 40])],
        [helper.make_tensor_value_info("y", kind, [])],
        [TensorProto(name="w", data_type=kind, dims=[40, 20], data_location=TensorProto.EXTERNAL)],
    )
    graph.initializer[0].external_data.add(key="location", value="weights.bin")
    path = save(tmp_path, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    workload = read_onnx(path)
    (product,) = workload.operators
    assert workload.weight_bytes == 40 * 20 * size
    assert (workload.inputs[0].bits, product.output.bits) == (8 * size, 8 * size)
    assert any("bits of their types in the file" in note for note in workload.notes)
    overridden = read_onnx(path, bits=4)
    assert (overridden.weight_bytes, overridden.operators[0].output.bits) == (40 * 20 // 2, 4)


def quantized() -> onnx.ModelProto:
    """A convolution between DequantizeLinear and QuantizeLinear, as quantizers write it: weights of 8 bits."""
    return model(
        [
            node("QuantizeLinear", "x s z", "xq", name="q"),
            node("DequantizeLinear", "xq s z", "xd"),
            node("DequantizeLinear", "w s z", "wd"),
            node("Conv", "xd wd", "c", name="conv"),
            node("Relu", "c", "r"),
            node("QuantizeLinear", "r s z", "yq"),
            node("DequantizeLinear", "yq s z", "y", name="out"),
        ],
        {"x": [1, 3, 8, 8]},
        "y",
        arrays={"s": np.float32(0.1), "z": np.int8(0), "w": np.zeros((5, 3, 1, 1), np.int8)},
    )


def test_what_is_quantized_is_stored_so(tmp_path: Path) -> None:
    workload = read_onnx(save(tmp_path, quantized()))
    bits = {operator.name: operator.output.bits for operator in workload.operators}
    assert bits == {"q": 8, "conv": 8, "out": 32}
    assert workload.inputs[0].bits == 32
    assert workload.operator("conv").weight_bytes == 5 * 3


def test_indices_and_sums_of_integers_are_as_wide_as_they_are(tmp_path: Path) -> None:
    content = model(
        [node("Gather", "table tokens", "rows", name="rows"), node("MatMulInteger", "rows w", "y", name="sums")],
        {"tokens": [1, 6]},
        "y",
        arrays={"table": np.zeros((50, 4), np.uint8), "w": np.zeros((4, 2), np.int8)},
        integers=("tokens",),
    )
    content.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    workload = read_onnx(save(tmp_path, content))
    assert workload.inputs[0].bits == 64
    assert [operator.output.bits for operator in workload.operators] == [8, 32]
    assert workload.operator("sums").weight_bytes == 4 * 2


def test_constants_that_are_made_wider_count_as_stored(tmp_path: Path) -> None:
    content = model(
        [node("Cast", "w", "wide", to=TensorProto.FLOAT), node("MatMul", "x wide", "y", name="product")],
        {"x": [3, 40]},
        "y",
        arrays={"w": np.zeros((40, 20), np.float16)},
    )
    assert read_onnx(save(tmp_path, content)).operator("product").weight_bytes == 40 * 20 * 2


def test_a_type_that_nothing_tells_is_that_of_what_is_read(tmp_path: Path) -> None:
    content = model([node("Odd", "x", "y", name="odd", domain="somewhere")], {"x": [3, 40]}, "y")
    content.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    content.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    content.graph.output[0].type.tensor_type.shape.dim.extend(content.graph.input[0].type.tensor_type.shape.dim)
    workload = read_onnx(save(tmp_path, content), allow_unsupported=True)
    assert workload.operators[0].output.bits == 16
