"""ONNX models as workloads.

What is counted, and what is not:

* Elements have the bits of their types in the file. A constant that is dequantized before it is used counts as stored.
* Constants are folded first; a subgraph of constants costs nothing. A bias is a parameter like a weight.
* A batch normalization, or a scale or shift by constants, is folded into the convolution or matrix product before it
  where nothing else reads that; what is left of it is a bias. Elsewhere it is a scale and shift of two operations.
* An activation function is applied by the output stage of the convolution, matrix product or addition before it where
  nothing else reads that; elsewhere it takes one vector operation an element.
* Reshape, Slice and Concat are free views. What is rearranged (Transpose, Pad away from windows, …) is moved and paid.
* An operator that is not understood is refused, or, if allowed, counted as moved data and named in the notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from accelsim.errors import FormatError, UnsupportedOperator, WorkloadError
from accelsim.formats.onnx import microsoft_rules
from accelsim.formats.onnx.builder import UNKNOWN_BITS, Builder, Rule
from accelsim.formats.onnx.file import Graph, load_graph
from accelsim.formats.onnx.inference import Node
from accelsim.formats.onnx.microsoft_shapes import MICROSOFT
from accelsim.formats.onnx.rules import MICROSOFT_RULES, REFUSED, RULES, SEVERAL_OUTPUTS, WITHOUT_DOMAIN
from accelsim.workload.graph import TileRule, Workload


def read_onnx(
    path: str | Path,
    *,
    batch: int | None = None,
    bits: int | None = None,
    allow_unsupported: bool = False,
    bind: Mapping[str, int] = MappingProxyType({}),
) -> Workload:
    """The workload in an ONNX file, ``batch`` samples at once (default: as many as the file fixes, or 1).

    ``bits`` count for every weight and activation, instead of those of the types; integer inputs then have 32.
    ``bind`` gives sizes to free dimensions of the inputs, by their name in the file or as ``INPUT.AXIS``, and values to
    integer inputs. A leading dimension of an input that is free and not bound becomes 1. One that is N is taken as N
    samples, if everything computed scales with it; if not, it is part of one sample, and a note says so.

    Raises:
        FormatError: there is no such file, or it is not a whole and valid ONNX model, or its external data lie outside
            its folder.
        UnknownName, InputError: ``bind`` names nothing that is free, or a size below 1.
        UnsupportedOperator: an operator is not understood, and ``allow_unsupported`` is not set.
        WorkloadError: a shape cannot be inferred, or the shapes do not meet.
    """
    path = Path(path)
    graph = load_graph(path, bind)
    notes = [_of_bits(graph, bits), *graph.notes]
    try:
        workload = workload_of(path.stem, graph, Builder(graph, bits), notes, allow_unsupported=allow_unsupported)
        return workload if batch is None else workload.with_batch(batch)
    except (FormatError, WorkloadError) as error:
        raise type(error)(f"{path}: {error}") from error


def _of_bits(graph: Graph, bits: int | None) -> str:
    """The note that says what elements are taken to be."""
    if bits is not None:
        return f"weights and activations are counted at {bits} bits an element, whatever the file stores"
    computed = {graph.bits.get(node.output, UNKNOWN_BITS) for node in graph.nodes}
    widths = " and ".join(map(str, sorted(computed)))
    return f"elements have the bits of their types in the file, results {widths}; --bits counts all of them alike"


def workload_of(
    name: str,
    graph: Graph,
    builder: Builder,
    notes: list[str],
    *,
    allow_unsupported: bool = False,
    rules: Mapping[str, Rule] = RULES,
) -> Workload:
    """The workload that the nodes of a graph become by these rules.

    Raises:
        UnsupportedOperator: an operator is not understood, and ``allow_unsupported`` is not set.
        FormatError, WorkloadError: a node contradicts itself, or shapes do not meet.
    """
    for node in graph.nodes:
        try:
            _build(builder, node, rules, allow_unsupported, notes)
        except UnsupportedOperator:
            raise
        except (FormatError, WorkloadError) as error:
            raise type(error)(f"{node.label}: {error}") from error
    operators = tuple(builder.operators.values())
    if not operators:
        raise WorkloadError("the graph computes nothing from its inputs")
    read = {source for operator in operators for source in operator.producers()}
    return Workload(
        name=name,
        operators=operators,
        inputs=tuple(tensor for tensor in builder.inputs.values() if tensor.name in read),
        batch=graph.samples,
        tile_rule=TileRule.EXACT,
        outputs=builder.written(),
        notes=tuple(notes),
    )


def _build(builder: Builder, node: Node, rules: Mapping[str, Rule], allow_unsupported: bool, notes: list[str]) -> None:
    several = SEVERAL_OUTPUTS
    rule = rules.get(node.op)
    if node.domain == MICROSOFT and node.op in MICROSOFT_RULES:
        rule, several = MICROSOFT_RULES[node.op], microsoft_rules.SEVERAL_OUTPUTS
    elif node.domain not in ("", "ai.onnx") and node.op not in WITHOUT_DOMAIN:
        rule = None
    builder.begin(node)
    try:
        if rule is None:
            why = builder.reasons.get(node.output) or REFUSED.get(node.op, "no rule tells its cost")
            raise builder.refusal(node, why)
        if node.op not in several and any(builder.readers[value] for value in node.outputs[1:] if value):
            raise builder.refusal(node, "more than its first output is used")
        rule(builder, node)
    except UnsupportedOperator as error:
        if not allow_unsupported:
            raise
        builder.move(node)
        notes.append(f"counted as moved data: {error}")
