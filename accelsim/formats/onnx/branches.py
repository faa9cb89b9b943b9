"""``If`` nodes of an ONNX graph whose condition is known: the branch that is taken stands in their place."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.errors import FormatError
from accelsim.formats.onnx.inference import Inference, Shape
from accelsim.formats.onnx.weights import strip_weights

if TYPE_CHECKING:
    import onnx


def take_branches(path: Path, model: onnx.ModelProto, parameters: dict[str, Shape], inference: Inference) -> bool:
    """Replaces, in place, each ``If`` whose condition folded to a constant by its branch. Whether there was one.

    Raises:
        FormatError: an ``If`` has not the branches or outputs that it must have.
    """
    nodes = list(model.graph.node)
    found = False
    taken: list[onnx.NodeProto] = []
    used = {name for node in nodes for name in node.output} | {value.name for value in model.graph.input}
    for node in nodes:
        condition = inference.arrays.get(node.input[0]) if node.op_type == "If" and node.input else None
        if condition is None or condition.size != 1:
            taken.append(node)
            continue
        found = True
        wanted = "then_branch" if condition.item() else "else_branch"
        branch = next((attribute.g for attribute in node.attribute if attribute.name == wanted), None)
        if branch is None or len(branch.output) != len(node.output):
            raise FormatError(f"{path}: node '{node.name or node.output[0]}' (If) has no '{wanted}' with its outputs")
        taken.extend(_inlined(path, model, parameters, node, branch, used))
    if found:
        copies = [type(node).FromString(node.SerializeToString()) for node in taken]
        del model.graph.node[:]
        model.graph.node.extend(copies)
    return found


def _inlined(
    path: Path,
    model: onnx.ModelProto,
    parameters: dict[str, Shape],
    node: onnx.NodeProto,
    branch: onnx.GraphProto,
    used: set[str],
) -> list[onnx.NodeProto]:
    """The nodes of a branch, under names that are free outside it, and copies to the outputs of ``node``."""
    from onnx import helper

    own = [name for inner in branch.node for name in inner.output if name]
    own += [tensor.name for tensor in branch.initializer]
    own += [sparse.values.name for sparse in branch.sparse_initializer]
    names = {}
    for name in own:
        names[name] = name
        while names[name] in used:
            names[name] += "_"
        used.add(names[name])
    _rename(branch, names)
    strip_weights(path, model.graph, branch, parameters)
    copies = [
        helper.make_node("Identity", [inner.name], [outer])
        for inner, outer in zip(branch.output, node.output, strict=True)
        if outer
    ]
    return [*branch.node, *copies]


def _rename(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Gives values other names, in subgraphs too."""
    for node in graph.node:
        for values in (node.input, node.output):
            values[:] = [names.get(name, name) for name in values]
        for attribute in node.attribute:
            for subgraph in (attribute.g, *attribute.graphs):
                _rename(subgraph, names)
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = names.get(sparse.values.name, sparse.values.name)
    for value in graph.output:
        value.name = names.get(value.name, value.name)
