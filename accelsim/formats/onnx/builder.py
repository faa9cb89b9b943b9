"""From the nodes of an ONNX graph to operators: what the rules of ``rules.py`` build with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import prod
from typing import Any

from accelsim.errors import FormatError, UnsupportedOperator, WorkloadError
from accelsim.formats.onnx.file import Graph
from accelsim.formats.onnx.inference import Node, Shape
from accelsim.workload.operator import Operand, Operator, Source
from accelsim.workload.operators import Elementwise, Move, Transpose
from accelsim.workload.tensor import Tensor
from accelsim.workload.views import reshaped

INDEX_BITS = 32
"""Bits of an integer input (token ids), where the bits of everything are given."""
UNKNOWN_BITS = 32
"""Bits of a value whose type nothing tells."""


def sample_shape(shape: Shape) -> Shape:
    """Shape of one sample of an ONNX value: without the leading 1, if there is one."""
    return shape[1:] if shape[:1] == (1,) else shape


class Builder:
    """Operators and operands under construction, by the names of the ONNX values that they stand for."""

    def __init__(self, graph: Graph, bits: int | None = None) -> None:
        """``bits`` an element for everything, instead of those of the values' types."""
        self.graph = graph
        self.parameters = set(graph.constants)
        """Values that are parameters, or follow from parameters alone."""
        self._of_types = bits is None
        self.bits = self._weight_bits = bits or UNKNOWN_BITS
        self.operators: dict[str, Operator] = {}
        self.inputs: dict[str, Tensor] = {}
        self.reasons: dict[str, str] = {}
        """Why the node behind a value is not understood, where whoever read the graph knows."""
        self.padding: dict[str, tuple[int, int]] = {}
        """Rows above and columns left that a Pad node adds to a value, left to the window operator that reads it."""
        self._operands: dict[str, Operand] = {}
        self._origins: dict[str, str] = {}
        """Value to the operator that wrote it, where nothing else reads that operator's output."""
        self._linear: dict[str, int] = {}
        """Operators that can absorb a scale and shift by channel, and their channel axis counted from the right."""
        self._open: set[str] = set()
        """Operators that can absorb an activation function."""
        self.readers = Counter(graph.outputs)
        for node in graph.nodes:
            self.readers.update(name for name in (*node.inputs, *node.captured) if name)
        self._names = {name for name, _ in graph.inputs}
        for name, is_integer in graph.inputs:
            if self.readers[name]:
                width = INDEX_BITS if is_integer and not self._of_types else self._bits_of(name)
                tensor = Tensor(name, sample_shape(self.shape(name)), width)
                self.inputs[name] = tensor
                self._operands[name] = Operand((Source(name),), tensor.shape)

    def shape(self, value: str) -> Shape:
        """The ONNX shape of a value, the batch of 1 included."""
        if value not in self.graph.shapes:
            raise WorkloadError(f"the shape of '{value}' is not known")
        return self.graph.shapes[value]

    def is_constant(self, value: str) -> bool:
        """Whether a value is a parameter, or follows from parameters alone."""
        return value in self.parameters

    def refusal(self, node: Node, why: str) -> UnsupportedOperator:
        """The error that names a node, its type, its shapes and what is not understood of it."""
        shapes = [
            " and ".join(str(list(self.graph.shapes[v])) if v in self.graph.shapes else "?" for v in values if v)
            for values in (node.inputs, node.outputs)
        ]
        return UnsupportedOperator(
            f"{node.label} of shapes {shapes[0]} -> {shapes[1]}: {why}. "
            "Allowing unsupported operators counts it as moved data."
        )

    def name(self, node: Node, suffix: str = "") -> str:
        """A name that nothing has yet: the node's, or that of its first output, with ``suffix``."""
        base = "".join(
            c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in (node.name or node.output) + suffix
        )
        name, number = base, 1
        while name in self._names:
            number += 1
            name = f"{base}_{number}"
        self._names.add(name)
        return name

    def begin(self, node: Node) -> None:
        """What is built from here on belongs to a node: its tensors have the bits of its output, or of its weights."""
        if self._of_types:
            self.bits = self._bits_of(node.output)
            weights = [value for value in node.inputs if value and self.is_constant(value)]
            largest = max(weights, key=lambda value: prod(self.graph.shapes.get(value, ())), default=node.output)
            self._weight_bits = self._bits_of(largest)

    def _bits_of(self, value: str) -> int:
        return self.graph.bits.get(value, UNKNOWN_BITS) if self._of_types else self.bits

    def tensor(self, name: str, shape: Iterable[int]) -> Tensor:
        """A tensor of as many bits per element as what the node computes."""
        return Tensor(name, tuple(shape), self.bits)

    def weight(self, name: str, shape: Iterable[int]) -> Tensor:
        """A tensor of as many bits per element as the node's largest parameter."""
        return Tensor(name, tuple(shape), self._weight_bits)

    def parameter(self, node: Node, number: int) -> Shape | None:
        """The shape of input ``number``, which must be a constant; None where it is left out."""
        if number >= len(node.inputs) or not node.inputs[number]:
            return None
        if not self.is_constant(node.inputs[number]):
            raise self.refusal(node, f"its input {number} is not constant")
        return self.shape(node.inputs[number])

    def operand(self, node: Node, number: int = 0, shape: Shape | None = None) -> Operand:
        """Input ``number`` of a node, under ``shape`` (of one sample) if given."""
        name = node.inputs[number] if number < len(node.inputs) else ""
        if name not in self._operands:
            raise self.refusal(node, f"its input {number} is {'constant' if name else 'left out'}")
        operand = self._operands[name]
        return operand if shape is None else self.view(node, operand, shape)

    def activations(self, node: Node) -> list[int]:
        """Numbers of the inputs that are not constant."""
        return [number for number, name in enumerate(node.inputs) if name in self._operands]

    def constants(self, node: Node, name: str) -> tuple[Tensor, ...]:
        """Constant inputs as parameters of the operator ``name``; a scalar is part of the instruction."""
        values = [(i, value) for i, value in enumerate(node.inputs) if value and self.is_constant(value)]
        tensors = (Tensor(f"{name}.constant{i}", self.shape(value), self._bits_of(value)) for i, value in values)
        return tuple(tensor for tensor in tensors if tensor.elements > 1)

    def view(self, node: Node, operand: Operand, shape: Shape) -> Operand:
        """``operand`` under another shape: free, unless it is a concatenation that has to be written out first."""
        view = reshaped(operand, shape)
        if view is None:
            name = self.name(node, ".join")
            self.operators[name] = Move(name, (operand,), self.tensor(name, operand.shape), of="Concat")
            view = reshaped(Operand((Source(name),), operand.shape), shape)
            assert view is not None  # one tensor can be reshaped at will
        return view

    def transposed(self, node: Node, operand: Operand) -> Operand:
        """A matrix, transposed and written out."""
        name, shape = self.name(node, ".transpose"), operand.shape[::-1]
        self.operators[name] = Transpose(name, (operand,), self.tensor(name, shape), permutation=(1, 0))
        return Operand((Source(name),), shape)

    def define(self, node: Node, operand: Operand, number: int = 0) -> None:
        """Lets output ``number`` of a node stand for ``operand``, viewed under the shape that it has there."""
        value = node.outputs[number]
        self._operands[value] = self.view(node, operand, sample_shape(self.shape(value)))

    def add(
        self,
        node: Node,
        operator: Operator,
        *,
        result: Operand | None = None,
        channel_axis: int | None = None,
        takes_activation: bool = False,
    ) -> None:
        """Adds the operator that computes a node's first output, which is ``result`` (default: its output as it is).

        ``channel_axis``, counted from the right, lets it absorb a scale and shift by channel from what reads it;
        ``takes_activation`` an activation function.
        """
        self.operators[operator.name] = operator
        self.define(node, result or Operand((Source(operator.name),), operator.output.shape))
        self._origins[node.outputs[0]] = operator.name
        if channel_axis is not None:
            self._linear[operator.name] = channel_axis
        if takes_activation or channel_axis is not None:
            self._open.add(operator.name)

    def same(self, node: Node, number: int = 0) -> None:
        """The first output is input ``number``, perhaps of another shape; it costs nothing."""
        value, output = node.inputs[number], node.outputs[0]
        self.define(node, self.operand(node, number))
        if self.sole_origin(value) is not None and self.shape(value) == self.shape(output):
            self._origins[output] = self._origins[value]

    def leave_padding(self, node: Node, before: tuple[int, int]) -> None:
        """The first output is input 0 with zeros around it, which the window operator that reads it makes itself."""
        value = node.inputs[0]
        rows, columns = self.padding.get(value, (0, 0))
        self.padding[node.outputs[0]] = (before[0] + rows, before[1] + columns)
        self._operands[node.outputs[0]] = self.operand(node)

    def sole_origin(self, value: str) -> str | None:
        """The operator that wrote a value, if only one node reads that value."""
        return self._origins.get(value) if self.readers[value] == 1 else None

    def absorb_scale(self, node: Node, number: int, channels: Shape) -> bool:
        """Folds a scale or shift of shape ``channels`` into the operator behind input ``number``, if it can be.

        It can be if that operator is a convolution, a matrix product with weights or a scale and shift, if this node
        alone reads it, and if ``channels`` is one value a channel. Folding leaves a bias.
        """
        value = node.inputs[number]
        name = self.sole_origin(value)
        if name is None or name not in self._linear:
            return False
        axis = self._linear[name]
        if any(size != 1 for i, size in enumerate(channels, start=-len(channels)) if i != axis):
            return False
        if self.shape(value) != self.shape(node.outputs[0]):
            return False
        operator = self.operators[name]
        bias = self.tensor(f"{name}.bias", (self.shape(value)[axis],))
        if not isinstance(operator, Elementwise) and bias.name not in [weight.name for weight in operator.weights]:
            self.operators[name] = replace(operator, weights=(*operator.weights, bias))
        self.same(node, number)
        return True

    def absorb_activation(self, node: Node, weights: tuple[Tensor, ...] = ()) -> bool:
        """Leaves an activation function to the output stage of the operator behind input 0, if that has one to give."""
        name = self.sole_origin(node.inputs[0])
        if name is None or name not in self._open:
            return False
        self._open.discard(name)
        self._linear.pop(name, None)
        operator = self.operators[name]
        self.operators[name] = replace(operator, weights=(*operator.weights, *weights))
        self.same(node)
        return True

    def narrow(self, node: Node) -> None:
        """The operator behind input 0, which only this node reads, writes elements of this node's bits."""
        operator = self.operators[self._origins[node.inputs[0]]]
        self.operators[operator.name] = replace(operator, output=replace(operator.output, bits=self.bits))

    def move(self, node: Node) -> None:
        """Counts a node as moved data: all it reads is read, each output that is used is written."""
        for value in node.outputs:
            if not value or not self.readers[value]:
                continue
            operands = [self.operand(node, number) for number in self.activations(node)]
            operands += [self._operands[name] for name in node.captured if name in self._operands]
            if not operands:
                raise self.refusal(node, "nothing that it reads is computed by the graph")
            name = self.name(node if value == node.output else replace(node, name=value))
            shape = sample_shape(self.shape(value))
            self.operators[name] = Move(
                name, tuple(operands), self.tensor(name, shape), self.constants(node, name), of=node.op
            )
            self._operands[value] = Operand((Source(name),), shape)

    def written(self) -> tuple[str, ...]:
        """The operators behind the outputs of the graph."""
        names = (s.producer for v in self.graph.outputs if v in self._operands for s in self._operands[v].sources)
        return tuple(dict.fromkeys(name for name in names if name in self.operators))


Rule = Callable[[Builder, Node], None]
"""How a node becomes operators, or a free view."""


def integers(node: Node, name: str, count: int, default: int) -> tuple[int, ...]:
    """A list attribute of ``count`` integers.

    Raises:
        FormatError: it is there and is not that.
    """
    value: Any = node.attributes.get(name, [default] * count)
    if not isinstance(value, list) or len(value) != count or not all(isinstance(item, int) for item in value):
        raise FormatError(f"attribute '{name}' is {value!r}; expected {count} whole numbers")
    return tuple(value)


def axis_of(node: Node, rank: int, default: int, name: str = "axis") -> int:
    """An axis attribute as a number from 0.

    Raises:
        FormatError: the tensor has no such axis.
    """
    axis = node.attributes.get(name, default)
    if not isinstance(axis, int) or not -rank <= axis < max(rank, 1):
        raise FormatError(f"attribute '{name}' is {axis!r}; the tensor has {rank} axes")
    return axis % max(rank, 1)
