"""An ONNX file as a graph whose shapes are all known: checked, constants folded, free dimensions bound.

Weights are never read: an initializer of more than a few elements is only its shape, and external data are not opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from accelsim.errors import AccelsimError, FormatError, UnsupportedOperator, WorkloadError
from accelsim.formats.onnx.bind import INTEGERS, bind_inputs
from accelsim.formats.onnx.branches import take_branches
from accelsim.formats.onnx.folding import MAXIMUM_ELEMENTS, Array
from accelsim.formats.onnx.inference import Inference, Node, OpenShape, Shape, closed, infer
from accelsim.formats.onnx.microsoft_shapes import MICROSOFT, writes_known_shapes
from accelsim.formats.onnx.run import can_run, run_once
from accelsim.formats.onnx.weights import check_external_data, strip_weights

if TYPE_CHECKING:
    import onnx

MAXIMUM_FILE_BYTES = 2**31 - 1
"""What one protobuf message may hold."""
UNKNOWN_DOMAIN = "unknown"
"""Domain given to operators that no standard operator set has, so that the ONNX checker lets them pass."""
_TERM = rb"[A-Za-z]*(?:\.\.\.[A-Za-z]*)?"
EQUATION = re.compile(rb"%s(?:,%s)*(?:->%s)?" % (_TERM, _TERM, _TERM))
"""Letters and an ellipsis for each input and, perhaps, the output (NumPy, einsum), spaces left out."""
CONTROL_FLOW = frozenset(["If", "Loop", "Scan"])
"""Operators that hold graphs of their own; refused by name."""
STEPS_FIRST = frozenset(["LSTM", "GRU", "RNN", "DynamicQuantizeLSTM"])
"""Operators whose leading dimension is time; with ``layout`` 1 they are taken so too."""
SHAPED_BY_INPUTS = frozenset(
    [
        "ConstantOfShape",
        "Expand",
        "Pad",
        "Reshape",
        "Resize",
        "Slice",
        "Split",
        "Squeeze",
        "Tile",
        "Unsqueeze",
        "Upsample",
    ]
)
"""Operators whose inputs after the first (of ConstantOfShape, whose only one) say how its output is shaped."""
LIST_ARITHMETIC = frozenset(
    ["Add", "Cast", "Concat", "Div", "Identity", "Max", "Min", "Mul", "Neg", "Squeeze", "Sub", "Unsqueeze", "Where"]
)
"""Operators that exporters make such sizes with, element by element."""


@dataclass(frozen=True)
class Graph:
    """The part of an ONNX graph that its outputs need, constants folded away. Shapes include the batch of 1."""

    nodes: tuple[Node, ...]
    inputs: tuple[tuple[str, bool], ...]
    """Names of the inputs that are data, and whether they hold integers."""
    outputs: tuple[str, ...]
    shapes: dict[str, Shape]
    constants: frozenset[str]
    arrays: dict[str, Array]
    """Values of the small constants."""
    bits: dict[str, int]
    """Of an element of each value, by its type."""
    opset: int
    samples: int
    """Samples that the file fixes as its batch, of which ``shapes`` describe one."""
    notes: tuple[str, ...]


def load_graph(path: str | Path, bindings: Mapping[str, int] = MappingProxyType({})) -> Graph:
    """Reads an ONNX file, its free dimensions bound as :func:`accelsim.formats.onnx.bind.bind_inputs` says.

    Raises:
        FormatError: there is no such file, or it is not a whole and valid ONNX model.
        UnknownName, InputError: a binding is refused.
        WorkloadError: a shape cannot be inferred.
    """
    path = Path(path)
    with _refusing(path):
        model = _parse(path)
        _check_text(path, model.graph)
        check_external_data(path, model)
        parameters: dict[str, Shape] = {}
        strip_weights(path, model.graph, model.graph, parameters)
        _check_for_inference(path, model.graph)
        _check_equations(path, model.graph)
        _check(model)
        notes: list[str] = []
        batch, free = bind_inputs(path, model, parameters, bindings, notes)
        inference = infer(model, parameters)
        while take_branches(path, model, parameters, inference):
            _check_for_inference(path, model.graph)
            inference = infer(model, parameters)
        samples = 1
        # Nothing is left to bind, and shapes are open all the same: running the model tells them.
        first = _first_without_shape(inference)
        measured = first is not None and not free and _can_be_run(inference)
        if first is not None and measured:
            try:
                shapes = run_once(path, model)
            except WorkloadError as error:
                raise WorkloadError(f"{path}: {first.label}: its shape stays open, and {error}") from error
            inference = infer(model, parameters, shapes)
            notes.append("shapes that inference leaves open are those of one run of onnxruntime, on inputs of ones")
        if batch > 1 and not measured:
            bound = _with_batch_of_one(model, parameters, batch)
            try:
                one = infer(bound, parameters)
                _require_shapes(path, bound, one, free)
            except AccelsimError:
                one = None
            if one is not None and _is_batched(inference, one, batch):
                inference, samples = one, batch
                notes.append(f"the file fixes a batch of {batch}: shapes are those of one sample")
            else:
                notes.append(
                    f"the leading dimension {batch} of the inputs is part of the sample, since not everything "
                    "computed scales with it"
                )
        _require_shapes(path, model, inference, free)
        dead = inference.dead_nodes
        if dead:
            notes.append(f"{dead} nodes lead to no output of the graph and are left out")
        return Graph(
            nodes=tuple(inference.live),
            inputs=tuple(
                (value.name, value.type.tensor_type.elem_type in INTEGERS)
                for value in model.graph.input
                if value.name not in parameters
            ),
            outputs=tuple(value.name for value in model.graph.output),
            shapes={name: sizes for name, shape in inference.shapes.items() if (sizes := closed(shape)) is not None},
            constants=frozenset(inference.constants),
            arrays=inference.arrays,
            bits=inference.bits,
            opset=inference.opset,
            samples=samples,
            notes=tuple(notes),
        )


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    """Turns whatever the ONNX library raises on a broken model (a dozen unrelated classes) into a FormatError."""
    try:
        yield
    except AccelsimError:
        raise
    except Exception as error:
        raise FormatError(f"{path}: not a valid ONNX model: {_one_line(error)}") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _parse(path: Path) -> onnx.ModelProto:
    import onnx

    try:
        size = path.stat().st_size
        if size > MAXIMUM_FILE_BYTES:
            raise FormatError(f"{path}: {size} bytes; an ONNX file holds at most {MAXIMUM_FILE_BYTES}")
        content = path.read_bytes()
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error.strerror or error}") from error
    if not content:
        raise FormatError(f"{path}: the file is empty; expected an ONNX model")
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except Exception as error:
        raise FormatError(f"{path}: not an ONNX model, or cut short ({len(content)} bytes)") from error
    if not model.HasField("graph") or not model.graph.node:
        raise FormatError(f"{path}: the file holds no graph with nodes; is it an ONNX model?")
    if not model.graph.output:
        raise FormatError(f"{path}: the graph has no outputs, so nothing of it needs to be computed")
    if model.functions:
        import onnx.inliner

        return onnx.inliner.inline_local_functions(model)
    return model


def _check_text(path: Path, graph: onnx.GraphProto) -> None:
    """Refuses names that are not UTF-8, which protobuf hands on as bytes."""
    for node in graph.node:
        for text in (node.name, node.op_type, node.domain, *node.input, *node.output):
            if not isinstance(text, str):
                raise FormatError(f"{path}: a node has the name {text!r}, which is not UTF-8 text")
    for value in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        if not isinstance(value.name, str):
            raise FormatError(f"{path}: a value has the name {value.name!r}, which is not UTF-8 text")


def _check_for_inference(path: Path, graph: onnx.GraphProto) -> None:
    """Refuses what ends shape inference with a crash instead of an error: it takes memory, or trusts a count.

    Lists of sizes, axes or bounds of absurd length; a Split whose number of outputs is not that of its outputs.
    """
    lengths = {
        value.name: prod(max(dim.dim_value, 1) for dim in value.type.tensor_type.shape.dim) for value in graph.input
    }
    lists: set[str] = set()
    for node in reversed(graph.node):
        where = f"{path}: node '{node.name or next(iter(node.output), '')}' ({node.op_type})"
        if node.op_type in SHAPED_BY_INPUTS or node.op_type.startswith("Reduce"):
            lists.update(node.input[0 if node.op_type == "ConstantOfShape" else 1 :])
        if node.op_type in LIST_ARITHMETIC and not lists.isdisjoint(node.output):
            lists.update(node.input)
        for name in node.input:
            if name in lists and lengths.get(name, 0) > MAXIMUM_ELEMENTS:
                raise FormatError(
                    f"{where} takes sizes, axes or bounds from '{name}', which claims {lengths[name]} elements; "
                    "expected one for each axis"
                )
        for attribute in node.attribute:
            if attribute.name == "num_outputs" and attribute.i != len(node.output):
                raise FormatError(f"{where} has {len(node.output)} outputs; attribute 'num_outputs' is {attribute.i}")


def _check_equations(path: Path, graph: onnx.GraphProto) -> None:
    """Refuses an Einsum whose equation is none, subgraphs included: shape inference would never end."""
    for node in graph.node:
        for attribute in node.attribute:
            is_equation = node.op_type == "Einsum" and attribute.name == "equation"
            if is_equation and not EQUATION.fullmatch(b"".join(attribute.s.split())):
                where = f"{path}: node '{node.name or next(iter(node.output), '')}' (Einsum)"
                raise FormatError(f"{where}: {attribute.s!r} is no equation")
            for subgraph in (attribute.g, *attribute.graphs):
                _check_equations(path, subgraph)


def _check(model: onnx.ModelProto) -> None:
    """The ONNX checker, and what it would stumble on or trust: unknown operators, shapes that the file claims."""
    import onnx
    from onnx import defs, helper

    unknown, own = set(), {entry.domain for entry in model.opset_import}
    for node in model.graph.node:
        if defs.has(node.op_type, node.domain) or (node.domain == MICROSOFT and writes_known_shapes(node.op_type)):
            continue
        node.domain = UNKNOWN_DOMAIN
        unknown.update(node.output)
    model.opset_import.extend(helper.make_opsetid(domain, 1) for domain in {UNKNOWN_DOMAIN, MICROSOFT} - own)
    onnx.checker.check_model(model)
    # What inference finds is believed, not what the file claims, but for operators that inference does not know.
    kept = [value for value in model.graph.value_info if value.name in unknown]
    del model.graph.value_info[:]
    model.graph.value_info.extend(kept)
    for value in model.graph.output:
        if value.name not in unknown and value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")


def _with_batch_of_one(model: onnx.ModelProto, parameters: dict[str, Shape], batch: int) -> onnx.ModelProto:
    """A copy whose inputs have a leading dimension of 1 in the place of ``batch``."""
    import onnx

    bound = onnx.ModelProto()
    bound.CopyFrom(model)
    for value in bound.graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name not in parameters and dims and dims[0].dim_value == batch:
            dims[0].dim_value = 1
    return bound


def _first_without_shape(inference: Inference) -> Node | None:
    """The first of the nodes that are computed whose output has no shape, or no elements."""
    for node in inference.live:
        sizes = closed(inference.shapes.get(node.output))
        if sizes is None or min(sizes, default=1) < 1:
            return node
    return None


def _can_be_run(inference: Inference) -> bool:
    """Whether a run may tell more: not where control flow is refused anyway."""
    return can_run() and not any(node.op in CONTROL_FLOW for node in inference.live)


def _require_shapes(path: Path, model: onnx.ModelProto, inference: Inference, free: tuple[str, ...]) -> None:
    """Refuses a graph in which the shape of something computed is not known, or not that of a tensor with elements."""
    node = _first_without_shape(inference)
    if node is None:
        return
    name = node.output
    shape = inference.shapes.get(name)
    where = f"{path}: {node.label}, output '{name}'"
    flow = next((other for other in inference.live if other.op in CONTROL_FLOW), None)
    if flow is not None and not free:
        raise UnsupportedOperator(
            f"{path}: {flow.label}: what it computes, and how often, is only known when it runs. Export the model with "
            "one branch, or with the loop unrolled."
        )
    if shape is None:
        what = f"its shape cannot be inferred{_why_not(model)}"
    elif closed(shape) is not None:
        what = f"its shape {list(shape)} holds no elements"
    else:
        what = f"its shape {_text(shape)} stays open"
    inputs = ", ".join(_text(inference.shapes.get(i)) for i in node.inputs if i)
    raise WorkloadError(f"{where}: {what}; the shapes of its inputs are {inputs}. {_way_out(free, shape)}")


def _way_out(free: tuple[str, ...], shape: OpenShape | None) -> str:
    """What a user can do about a shape that stays open."""
    if free:
        names = ", ".join(f"'{name}'" for name in free)
        bind = " ".join(f"--bind {name}=SIZE" for name in free)
        return f"The free dimension {names} of the inputs leaves it open: give {bind}, or export with fixed shapes."
    if closed(shape) is None and not can_run():
        return (
            "Export the model with fixed shapes; or install accelsim[onnx-run], with which one run of onnxruntime "
            "tells them."
        )
    return "Export the model with fixed shapes."


def _why_not(model: onnx.ModelProto) -> str:
    """What shape inference complains of when it is asked to be strict."""
    from onnx import shape_inference

    try:
        shape_inference.infer_shapes(model, strict_mode=True)
    except shape_inference.InferenceError as error:
        return f": {_one_line(error)}"
    return ""


def _text(shape: OpenShape | None) -> str:
    return "unknown" if shape is None else f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


def _is_batched(many: Inference, one: Inference, batch: int) -> bool:
    """Whether everything computed has ``batch`` times the elements, so that the samples are independent in size."""
    for node in many.live:
        if node.op in STEPS_FIRST and many.shapes.get(node.inputs[0]) != one.shapes.get(node.inputs[0]):
            return False  # what scales are steps, which depend on each other
        large, small = closed(many.shapes.get(node.output)), closed(one.shapes.get(node.output))
        if large is None or small is None or prod(large) != batch * prod(small):
            return False
    return True
