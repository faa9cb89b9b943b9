"""Shapes that only running an ONNX model tells: one run of onnxruntime, every value exposed (extra ``onnx-run``).

It runs in a process of its own: a model that crashes onnxruntime, or never ends, is an error like any other.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accelsim.errors import WorkloadError
from accelsim.formats.onnx.inference import Shape

if TYPE_CHECKING:
    import onnx

MAXIMUM_SECONDS = 600
MAXIMUM_INPUT_BYTES = 1 << 32
_TYPES = {"float": "float32", "double": "float64"}
_ERRORS = 3
"""Of onnxruntime's levels of logging: errors only."""
_CHILD = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); import accelsim.formats.onnx.run as r; r.child()"


def can_run() -> bool:
    """Whether onnxruntime is installed."""
    return find_spec("onnxruntime") is not None


def run_once(path: Path, bound: onnx.ModelProto) -> dict[str, Shape]:
    """The shapes of all values of the model in ``path``, run on inputs of the shapes and values of ``bound``.

    Inputs without a value are filled with ones: shapes that depend on data are those of these data.

    Raises:
        WorkloadError: onnxruntime cannot run it.
    """
    command = [sys.executable, "-c", _CHILD, json.dumps(sys.path), str(path)]
    try:
        done = subprocess.run(
            command, input=bound.SerializeToString(), capture_output=True, timeout=MAXIMUM_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise WorkloadError(
            f"onnxruntime ran it for {MAXIMUM_SECONDS} s without an end, to learn its shapes"
        ) from error
    if done.returncode != 0:
        last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}: {last}"
        raise WorkloadError(f"onnxruntime crashed ({how}) when it ran the model to learn its shapes")
    answer = json.loads(done.stdout.rpartition(b"\n")[2])
    if "error" in answer:
        raise WorkloadError(f"onnxruntime cannot run the model to learn its shapes: {answer['error']}")
    return {name: tuple(shape) for name, shape in answer["shapes"].items()}


def child() -> None:
    """What the process does: the path is its last argument, the bound model its input, one line of JSON its answer."""
    import onnx

    answer: dict[str, Any]
    try:
        answer = {"shapes": _shapes(Path(sys.argv[2]), onnx.ModelProto.FromString(sys.stdin.buffer.read()))}
    except Exception as error:  # onnxruntime raises a dozen unrelated classes
        answer = {"error": " ".join(str(error).split()) or type(error).__name__}
    sys.stdout.write(f"\n{json.dumps(answer)}")


def _shapes(path: Path, bound: onnx.ModelProto) -> dict[str, Any]:
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
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed = {one.name: _filled(one, values) for one in session.get_inputs()}
    exposed = [one.name for one in session.get_outputs()]
    results = session.run(exposed, feed)
    return {
        name: [int(size) for size in result.shape]
        for name, result in zip(exposed, results, strict=True)
        if isinstance(result, np.ndarray)
    }


def _filled(one: Any, values: dict[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """An array for an input of a session: its bound value, or ones."""
    if one.name in values:
        return values[one.name]
    kind = one.type.removeprefix("tensor(").removesuffix(")")
    if not one.type.startswith("tensor(") or kind == "string" or not all(isinstance(size, int) for size in one.shape):
        raise WorkloadError(f"input '{one.name}' of type {one.type} and shape {one.shape} cannot be filled for a run")
    dtype = np.dtype(_TYPES.get(kind, kind))
    if prod(one.shape) * dtype.itemsize > MAXIMUM_INPUT_BYTES:
        raise WorkloadError(f"input '{one.name}' of shape {one.shape} is too large to run the model once")
    return np.ones(one.shape, dtype)
