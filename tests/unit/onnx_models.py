"""Small ONNX models for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from accelsim.formats.onnx import reader

Sizes = Sequence[int | str]
read_onnx = partial(reader.read_onnx, bits=8)
"""At a byte an element, so that bytes are elements; ``test_onnx_types.py`` is about the types of files."""


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """A node from names in one text each; ``_`` stands for an input that is left out."""
    return helper.make_node(op, ["" if name == "_" else name for name in inputs.split()], outputs.split(), **attributes)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sizes],
    outputs: str,
    weights: Mapping[str, Sequence[int]] | None = None,
    arrays: Mapping[str, Any] | None = None,
    *,
    integers: Sequence[str] = (),
    opset: int = 17,
) -> onnx.ModelProto:
    """A model whose ``weights`` have a shape only, their data being external, and whose ``arrays`` have values.

    Inputs and outputs are floating point, but for ``integers``.
    """

    def value(name: str, shape: Sizes | None) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.INT64 if name in integers else TensorProto.FLOAT, shape)

    initializers = []
    for name, array in (arrays or {}).items():
        found = np.asarray(array)
        found = found.astype(np.float32) if found.dtype == np.float64 else found
        initializers.append(numpy_helper.from_array(found, name))
    for name, shape in (weights or {}).items():
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value="weights.bin")
        initializers.append(tensor)
    graph = helper.make_graph(
        nodes,
        "graph",
        [value(name, shape) for name, shape in inputs.items()],
        [value(name, []) for name in outputs.split()],
        initializers,
    )
    domains = {one.domain for one in nodes if one.domain}
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in sorted(domains))]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def save(folder: Path, content: onnx.ModelProto | bytes) -> Path:
    """Writes a model as ``model.onnx``."""
    path = folder / "model.onnx"
    path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    return path
