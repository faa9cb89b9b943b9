"""Shapes that only running an ONNX model tells: one run of onnxruntime, every value exposed (extra ``onnx-run``)."""

from __future__ import annotations

from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accelsim.errors import WorkloadError
from accelsim.formats.onnx_inference import Shape

if TYPE_CHECKING:
    import onnx

MAXIMUM_INPUT_BYTES = 1 << 32
_TYPES = {"float": "float32", "double": "float64", "bool": "bool", "float16": "float16"}
_ERRORS = 3
"""Of onnxruntime's levels of logging: errors only."""


def can_run() -> bool:
    """Whether onnxruntime is installed."""
    return find_spec("onnxruntime") is not None


def run_once(path: Path, bound: onnx.ModelProto) -> dict[str, Shape]:
    """The shapes of all values of the model in ``path``, run on inputs of the shapes and values of ``bound``.

    Inputs without a value are filled with ones: shapes that depend on data are those of these data.

    Raises:
        WorkloadError: onnxruntime cannot run it.
    """
    import onnx
    import onnxruntime
    from onnx import numpy_helper

    model = onnx.load(path, load_external_data=False)
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in bound.graph.initializer}
    sizes = {value.name: value.type.tensor_type.shape.dim for value in bound.graph.input}
    for value in model.graph.input:
        if value.name in sizes:
            value.type.tensor_type.shape.ClearField("dim")
            value.type.tensor_type.shape.dim.extend(sizes[value.name])
    there = {value.name for value in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in there)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ERRORS
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(path.parent))
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        feed = {one.name: _filled(one, values) for one in session.get_inputs()}
        exposed = [one.name for one in session.get_outputs()]
        results = session.run(exposed, feed)
    except WorkloadError:
        raise
    except Exception as error:  # onnxruntime raises a dozen unrelated classes
        text = " ".join(str(error).split())
        raise WorkloadError(f"onnxruntime cannot run it to learn its shapes: {text}") from error
    return {
        name: tuple(int(size) for size in result.shape)
        for name, result in zip(exposed, results, strict=True)
        if isinstance(result, np.ndarray)
    }


def _filled(one: Any, values: dict[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """An array for an input of a session: its bound value, or ones."""
    if one.name in values:
        return values[one.name]
    kind = one.type.removeprefix("tensor(").removesuffix(")")
    if not one.type.startswith("tensor(") or not all(isinstance(size, int) for size in one.shape):
        raise WorkloadError(f"input '{one.name}' of type {one.type} and shape {one.shape} cannot be filled for a run")
    dtype = np.dtype(_TYPES.get(kind, kind)) if kind != "string" else np.dtype(np.str_)
    if prod(one.shape) * dtype.itemsize > MAXIMUM_INPUT_BYTES:
        raise WorkloadError(f"input '{one.name}' of shape {one.shape} is too large to run the model once")
    return np.ones(one.shape, dtype)
