"""Rules for the recurrent ONNX operators: LSTM, GRU, RNN.

Each direction becomes three operators: the product of all inputs with the input weights, at once; the recurrence, step
by step; and the functions and products of the gates.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from accelsim.errors import FormatError
from accelsim.formats.onnx.builder import Builder, Rule
from accelsim.formats.onnx.inference import Node
from accelsim.formats.onnx.quantized_rules import quantize
from accelsim.workload.operator import Operand, Source
from accelsim.workload.operators import Elementwise, MatMul, Move, Recurrent
from accelsim.workload.tensor import Tensor
from accelsim.workload.views import joined, sliced

_GATES = {"LSTM": 4, "DynamicQuantizeLSTM": 4, "GRU": 3, "RNN": 1}
_OPERATIONS = {4: 9, 3: 8, 1: 1}
"""Vector operations a hidden element and step, by number of gates; a sum that an accumulator starts from is free.

LSTM: three sigmoids and two tanh, three products and one sum (Hochreiter and Schmidhuber, Neural Computation 9(8),
1997, with forget gates). GRU: two sigmoids and one tanh, the reset product, and (1 - z) n + z h (Cho et al., EMNLP
2014). Plain: one function.
"""
_PEEPHOLE_OPERATIONS = 6
"""A product and a sum for three gates."""


class _Layer(NamedTuple):
    gates: int
    steps: int
    sequences: int
    width: int
    hidden: int
    directions: int


def recurrent(builder: Builder, node: Node) -> None:
    """LSTM, GRU, RNN, and the LSTM of onnxruntime whose weights are quantized."""
    layer = _layer(builder, node)
    source = quantize(builder, node, ".quantized") if node.op == "DynamicQuantizeLSTM" else builder.operand(node)
    rows = layer.steps * layer.sequences
    source = builder.view(node, source, (rows, layer.width))
    hidden, last, cells = [], [], []
    for number in range(layer.directions):
        reverse = number == 1 or node.attributes.get("direction") == "reverse"
        suffix = (".reverse" if reverse else ".forward") if layer.directions > 1 else ""
        written = _direction(builder, node, layer, source, number, reverse, suffix)
        shape = (layer.steps, layer.sequences, layer.hidden)
        begin = (0 if reverse else layer.steps - 1, 0, 0)
        final = sliced(written, begin, (1, *shape[1:]))
        hidden.append(builder.view(node, written, (layer.steps, 1, *shape[1:])))
        last.append(final)
        if _is_read(builder, node, 2):
            name = builder.name(node, f"{suffix}.cell")
            builder.operators[name] = Move(name, (final,), builder.tensor(name, final.shape), of="cell state")
            cells.append(Operand((Source(name),), final.shape))
    for number, (parts, axis) in enumerate(((hidden, 1), (last, 0), (cells, 0))):
        if _is_read(builder, node, number):
            whole = joined(parts, axis)
            assert whole is not None  # none of them is a concatenation
            builder.define(node, whole, number)


def _is_read(builder: Builder, node: Node, number: int) -> bool:
    return number < len(node.outputs) and bool(node.outputs[number]) and builder.readers[node.outputs[number]] > 0


def _layer(builder: Builder, node: Node) -> _Layer:
    """Sizes of the layer, checked against each other."""
    gates = _GATES[node.op]
    shape = builder.shape(node.inputs[0])
    weight, state = builder.parameter(node, 1), builder.parameter(node, 2)
    if node.op == "DynamicQuantizeLSTM" and weight is not None and state is not None:  # stored as (depth, columns)
        weight, state = ((one[0], *one[:0:-1]) for one in (weight, state))
    for number in (3, 7):
        builder.parameter(node, number)
    if weight is None or state is None or len(shape) != 3 or len(weight) != 3 or len(state) != 3:
        raise FormatError(f"an input of shape {shape} and weights of {weight} and {state}; expected three axes each")
    layer = _Layer(gates, shape[0], shape[1], shape[2], state[2], state[0])
    if node.attributes.get("layout", 0):
        if shape[0] != 1:
            raise builder.refusal(node, "layout 1 with more than one sequence is not understood")
        layer = layer._replace(steps=shape[1], sequences=1)
    directions = 2 if node.attributes.get("direction") == "bidirectional" else 1
    columns = gates * layer.hidden
    if weight != (directions, columns, layer.width) or state != (directions, columns, layer.hidden):
        raise FormatError(
            f"weights of {weight} and {state} do not fit {gates} gates of {layer.hidden} in {directions} directions "
            f"over {layer.width} features"
        )
    for number in (5, 6):
        value = node.inputs[number] if number < len(node.inputs) else ""
        if value and prod(builder.shape(value)) != directions * layer.sequences * layer.hidden:
            raise FormatError(f"an initial state of shape {builder.shape(value)} does not fit the layer")
    return layer


def _direction(
    builder: Builder, node: Node, layer: _Layer, source: Operand, number: int, reverse: bool, suffix: str
) -> Operand:
    """The three operators of one direction; the hidden states of all steps."""
    columns = layer.gates * layer.hidden
    shape = (layer.steps, layer.sequences, columns)
    has_bias = len(node.inputs) > 3 and bool(node.inputs[3])

    def tensors(name: str, depth: int) -> tuple[Tensor, ...]:
        weight = builder.weight(f"{name}.weight", (depth, columns))
        return (weight, builder.tensor(f"{name}.bias", (columns,))) if has_bias else (weight,)

    name = builder.name(node, f"{suffix}.input")
    output = builder.tensor(name, (layer.steps * layer.sequences, columns))
    builder.operators[name] = MatMul(name, (source,), output, tensors(name, layer.width))
    operands = [builder.view(node, Operand((Source(name),), output.shape), shape)]
    state = _state(builder, node, layer, 5, number)
    operands += [] if state is None else [state]
    name = builder.name(node, f"{suffix}.recurrence")
    recurrence = Recurrent(
        name,
        tuple(operands),
        builder.tensor(name, shape),
        tensors(name, layer.hidden),
        hidden=layer.hidden,
        reverse=reverse,
    )
    builder.operators[name] = recurrence
    written = Operand((Source(name),), shape)
    pieces = [sliced(written, (0, 0, gate * layer.hidden), (*shape[:2], layer.hidden)) for gate in range(layer.gates)]
    cell = _state(builder, node, layer, 6, number)
    pieces += [] if cell is None else [cell]
    name = builder.name(node, suffix)
    peepholes = len(node.inputs) > 7 and bool(node.inputs[7]) and layer.gates == 4
    parameters = (builder.tensor(f"{name}.peepholes", (3 * layer.hidden,)),) if peepholes else ()
    operations = _OPERATIONS[layer.gates] + (_PEEPHOLE_OPERATIONS if peepholes else 0)
    output = builder.tensor(name, (*shape[:2], layer.hidden))
    builder.operators[name] = Elementwise(name, tuple(pieces), output, parameters, operations)
    return Operand((Source(name),), output.shape)


def _state(builder: Builder, node: Node, layer: _Layer, number: int, direction: int) -> Operand | None:
    """The initial state of one direction, where another operator or an input provides it."""
    if number not in builder.activations(node):
        return None
    shape = (layer.sequences, layer.hidden)
    whole = builder.operand(node, number, (layer.directions, *shape))
    return builder.view(node, sliced(whole, (direction, 0, 0), (1, *shape)), shape)


RECURRENT_RULES: dict[str, Rule] = dict.fromkeys(_GATES, recurrent)
