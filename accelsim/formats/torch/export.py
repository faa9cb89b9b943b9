"""PyTorch modules as workloads, by ``torch.export``. Nothing is computed: shapes and types are all that is traced.

What is counted is as in ``onnx/reader.py``; and here

* bits per element are those of the tensors' types, parameters stored narrower than they are used included;
* operators are called by the path of their module (``layers.0.attention.query``);
* views are free, and so are permutations that keep the last axis, or that only matrix products read.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from accelsim.errors import FormatError, MissingExtra, WorkloadError
from accelsim.formats.onnx.builder import Builder
from accelsim.formats.onnx.file import Graph
from accelsim.formats.onnx.reader import workload_of
from accelsim.formats.torch.graph import TorchGraph, Unknown
from accelsim.formats.torch.operators import TRANSLATIONS
from accelsim.formats.torch.rules import TORCH_RULES
from accelsim.workload.graph import Workload

OPERATOR_SET = 23
"""The ONNX operator set whose rules apply."""
CHECKS = ("_assert_tensor_metadata", "_assert_async", "_assert_scalar", "sym_constrain_range_for_size")
"""Operators that compute nothing."""


def from_torch(
    module: Any,
    example_inputs: Sequence[Any],
    example_keywords: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
    bits: int | None = None,
    batch: int | None = None,
    allow_unsupported: bool = False,
) -> Workload:
    """The workload that a ``torch.nn.Module`` computes on inputs shaped like these.

    Args:
        module: in evaluation mode. Its weights are not read, so it can be made under ``torch.device("meta")``, where
            it takes no memory.
        example_inputs: positional arguments of its ``forward``; only shapes and types of tensors count. They may be on
            the meta device too.
        example_keywords: its keyword arguments.
        name: of the workload; the module's class by default.
        bits: per element of weights and activations, instead of those of the types; integer inputs then have 32.
        batch: samples at once. By default the leading size of the inputs, if all of them have it and everything
            computed scales with it; else that is part of the one sample, and a note says so.
        allow_unsupported: operators of unknown cost are counted as moved data instead of refused.

    Raises:
        MissingExtra: torch is not installed.
        FormatError: this is no module, or torch cannot export it.
        UnsupportedOperator: an operator is not understood; the message names its node, its type and its shapes.
        WorkloadError: nothing is computed, or a shape is only known when it runs.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingExtra("from_torch needs PyTorch: install accelsim[torch]") from error
    if not isinstance(module, torch.nn.Module):
        raise FormatError(f"from_torch takes a torch.nn.Module; this is a {type(module).__name__}")
    if not isinstance(example_inputs, (tuple, list)):
        raise FormatError(f"example_inputs is a {type(example_inputs).__name__}; expected a tuple of arguments")
    name = name or type(module).__name__
    keywords = dict(example_keywords or {})
    arguments, keywords = _on_device_of(torch, module, (tuple(example_inputs), keywords))
    notes: list[str] = []
    graph, translated = _trace(torch, module, arguments, keywords, name)
    samples = _leading_size(torch, (arguments, keywords))
    if samples > 1:
        one = None
        try:
            arguments, keywords = _first_sample(torch, (arguments, keywords))
            one = _trace(torch, module, arguments, keywords, name)
        except (FormatError, WorkloadError):
            pass  # then the module wants just that size
        if one is not None and _scales(graph, one[0], samples):
            graph, translated = one
        else:
            notes.append(
                f"the leading size {samples} of the inputs is part of the sample, since not everything computed "
                "scales with it"
            )
            samples = 1
    builder = Builder(graph, bits)
    builder.reasons |= translated.reasons
    if bits:
        notes.append(f"weights and activations are counted at {bits} bits an element, whatever the module's types")
    try:
        workload = workload_of(
            name, graph, builder, notes, allow_unsupported=allow_unsupported, rules=TORCH_RULES
        ).with_batch(samples if batch is None else batch)
    except (FormatError, WorkloadError) as error:
        raise type(error)(f"{name}: {error}") from error
    return workload


def _trace(
    torch: Any, module: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], name: str
) -> tuple[Graph, TorchGraph]:
    """The exported graph, translated; and what was translated on the way."""
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # about how torch itself traces
            program = torch.export.export(module, arguments, keywords or None)
            program = program.run_decompositions({})
    except Exception as error:  # torch raises what it likes
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise FormatError(
            f"{name}: torch.export refuses this module: {type(error).__name__}: {' '.join(lines[:2])[:300]}"
        ) from error
    translated = TorchGraph()
    kinds = {spec.arg.name: (spec.kind.name, spec.target) for spec in program.graph_signature.input_specs}
    changed = set(program.graph_signature.buffers_to_mutate.values())
    inputs: list[tuple[str, bool]] = []
    outputs: tuple[str, ...] = ()
    for node in program.graph.nodes:
        try:
            translated.describe(node)
        except Unknown as unknown:
            raise WorkloadError(f"{name}: node '{node.name}' ({node.target}): {unknown}") from unknown
        if node.op == "placeholder" and node.name in translated.shapes:
            kind, target = kinds[node.name]
            if kind == "USER_INPUT" or target in changed:
                value = node.meta["val"]
                inputs.append((node.name, not value.is_floating_point()))
            else:
                translated.constants.add(node.name)
        elif node.op == "get_attr" and node.name in translated.shapes:
            translated.constants.add(node.name)
        elif node.op == "call_function":
            _translate(translated, node)
        elif node.op == "output":
            outputs = tuple(translated.resolve(value) for value in translated.tensors(node))
    needed = set(outputs)
    live = []
    for entry in reversed(translated.nodes):
        if needed.intersection(entry.outputs):
            live.append(entry)
            needed.update(entry.inputs)
    graph = Graph(
        nodes=tuple(live[::-1]),
        inputs=tuple(inputs),
        outputs=tuple(value for value in dict.fromkeys(outputs) if value not in translated.constants),
        shapes=translated.shapes,
        constants=frozenset(translated.constants),
        arrays={},
        bits=translated.bits,
        opset=OPERATOR_SET,
        samples=1,
        notes=(),
    )
    return graph, translated


def _translate(graph: TorchGraph, node: Any) -> None:
    """Emits what a node is in the terms of the rules; itself, under its own name, where nothing is known of it."""
    operator = graph.operator(node)
    if operator == "getitem":
        graph.alias(node)
        return
    if operator in CHECKS:
        return
    translation = TRANSLATIONS.get(operator)
    try:
        if translation is None:
            raise Unknown("no rule tells its cost")
        translation(graph, node, _arguments(node))
    except Unknown as unknown:
        values = node.meta.get("val")
        count = len(values) if isinstance(values, (list, tuple)) else 1
        graph.emit(node, str(node.target), graph.tensors(node), parts=count)
        graph.reasons[graph.resolve(node.name) if node.name in graph.shapes else graph.part(node, 0)] = str(unknown)


def _arguments(node: Any) -> dict[str, Any]:
    """A node's arguments by name."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return {}
    given = {argument.name: argument.default_value for argument in schema.arguments}
    names = [argument.name for argument in schema.arguments]
    return given | dict(zip(names, node.args, strict=False)) | dict(node.kwargs)


def _on_device_of(torch: Any, module: Any, tree: Any) -> Any:
    """The inputs, on the meta device if the module is there."""
    first = next(iter([*module.parameters(), *module.buffers()]), None)
    if first is None or first.device.type != "meta":
        return tree
    pytree = torch.utils._pytree
    return pytree.tree_map(lambda value: value.to("meta") if isinstance(value, torch.Tensor) else value, tree)


def _tensors(torch: Any, tree: Any) -> list[Any]:
    return [value for value in torch.utils._pytree.tree_leaves(tree) if isinstance(value, torch.Tensor)]


def _leading_size(torch: Any, tree: Any) -> int:
    """The leading size that all tensors have; 1 where they differ."""
    leading = {tuple(value.shape[:1]) for value in _tensors(torch, tree)}
    return int(next(iter(leading))[0]) if len(leading) == 1 and leading != {()} else 1


def _first_sample(torch: Any, tree: Any) -> Any:
    return torch.utils._pytree.tree_map(lambda value: value[:1] if isinstance(value, torch.Tensor) else value, tree)


def _scales(many: Graph, one: Graph, samples: int) -> bool:
    """Whether everything that one sample computes is there ``samples`` times."""
    if [node.op for node in many.nodes] != [node.op for node in one.nodes]:
        return False
    pairs = [
        (many.shapes[large], one.shapes[small])
        for first, second in zip(many.nodes, one.nodes, strict=True)
        for large, small in zip(first.outputs, second.outputs, strict=True)
    ]
    return all(large[:1] == (samples,) and small == (1, *large[1:]) for large, small in pairs)
