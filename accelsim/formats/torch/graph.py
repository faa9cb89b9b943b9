"""The graph of an exported PyTorch program in the terms of the ONNX reader: nodes, values, shapes and constants."""

from __future__ import annotations

from math import prod
from typing import Any

from accelsim.formats.onnx.inference import Node, Shape

TorchNode = Any
"""A ``torch.fx.Node``; torch is not imported here."""
Arguments = dict[str, Any]
"""Arguments of a node by the names of its operator's schema; what is left out has its default, where it has one."""


class Unknown(Exception):  # noqa: N818  (caught where nodes are translated: the node is handed on as it is)
    """A node that cannot be said in the terms of ONNX."""


class TorchGraph:
    """What is known of every value, and the nodes that were emitted; filled by the functions of ``torch_operators``."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.shapes: dict[str, Shape] = {}
        self.bits: dict[str, int] = {}
        self.constants: set[str] = set()
        self.reasons: dict[str, str] = {}
        """Why the node behind a value is not understood."""
        self._aliases: dict[str, str] = {}

    def describe(self, node: TorchNode) -> None:
        """Notes shape and bits of what a node computes, of each part where they are several."""
        value = node.meta.get("val")
        if hasattr(value, "shape"):
            self.declare(node.name, sizes(value), bits_of(value))
        elif isinstance(value, (list, tuple)):
            for number, part in enumerate(value):
                if hasattr(part, "shape"):
                    self.declare(self.part(node, number), sizes(part), bits_of(part))

    def declare(self, name: str, shape: Shape, bits: int) -> None:
        """Notes shape and bits of a value."""
        self.shapes[name], self.bits[name] = shape, bits

    def alias(self, node: TorchNode) -> None:
        """A node that picks one part of what another computes."""
        source, number = node.args[0], node.args[1]
        self._aliases[node.name] = self.part(source, number)

    def resolve(self, name: str) -> str:
        """The value that a node's name stands for."""
        return self._aliases.get(name, name)

    def shape(self, name: str) -> Shape:
        """Shape of a value.

        Raises :class:`Unknown` where it is no tensor.
        """
        name = self.resolve(name)
        if name not in self.shapes:
            name = f"{name}#0"
        if name not in self.shapes:
            raise Unknown("it computes no tensor")
        return self.shapes[name]

    def bits_of(self, node: TorchNode) -> int:
        """Bits of an element of what a node computes."""
        name = self.resolve(node.name)
        return self.bits[name if name in self.bits else f"{name}#0"]

    def is_constant(self, name: str) -> bool:
        """Whether a value follows from parameters alone."""
        return self.resolve(name) in self.constants

    def constant(self, name: str, shape: Shape, bits: int) -> None:
        """Notes a value that is a parameter."""
        self.declare(name, shape, bits)
        self.constants.add(name)

    def number(self, node: TorchNode) -> str:
        """A number among the arguments of a node, as a parameter without axes."""
        name = f"{node.name}/number"
        self.constant(name, (), self.bits_of(node))
        return name

    def between(self, node: TorchNode, what: str, shape: Shape) -> str:
        """A value between the nodes that stand for ``node``, of its bits."""
        name = f"{node.name}/{what}"
        self.declare(name, shape, self.bits_of(node))
        return name

    @staticmethod
    def part(node: TorchNode, number: int) -> str:
        """The value that is one part of what a node computes."""
        return f"{node.name}#{number}"

    def parts(self, node: TorchNode) -> list[Shape]:
        """Shapes of the parts of what a node computes."""
        return [self.shapes[self.part(node, number)] for number in range(len(node.meta["val"]))]

    def is_used(self, node: TorchNode, number: int) -> bool:
        """Whether somebody reads this part of what a node computes."""
        return any(user.args[1] == number for user in node.users if self.operator(user) == "getitem")

    @staticmethod
    def operator(node: TorchNode) -> str:
        """Name of a node's operator, without namespace and overload; in place or not is the same."""
        target = node.target
        name = str(target._schema.name).rpartition("::")[2] if hasattr(target, "_schema") else target.__name__
        return name[:-1] if name.endswith("_") and not name.endswith("__") else name

    def users(self, node: TorchNode) -> list[str]:
        """Operators that read what a node computes; an output is one of them."""
        return [self.operator(user) if user.op == "call_function" else user.op for user in node.users]

    def tensors(self, node: TorchNode) -> list[str]:
        """The values that a node reads, in the order of its arguments, repeats included."""
        found: list[str] = []

        def walk(value: Any) -> None:
            if hasattr(value, "all_input_nodes"):
                if hasattr(value.meta.get("val"), "shape"):
                    found.append(value.name)
            elif isinstance(value, (list, tuple)):
                for item in value:
                    walk(item)

        walk(node.args)
        walk(list(node.kwargs.values()))
        return found

    def emit(
        self,
        node: TorchNode,
        op: str,
        inputs: list[str],
        attributes: dict[str, Any] | None = None,
        *,
        output: str = "",
        suffix: str = "",
        parts: int = 1,
    ) -> None:
        """Adds a node of one output (or the first ``parts`` of them); one of constants alone makes constants."""
        if output:
            outputs = [output]
        elif node.name in self.shapes:
            outputs = [node.name]
        else:
            outputs = [self.part(node, number) for number in range(parts)]
        self.emit_parts(node, op, inputs, attributes or {}, outputs, suffix=suffix)

    def emit_parts(
        self,
        node: TorchNode,
        op: str,
        inputs: list[str],
        attributes: dict[str, Any],
        outputs: list[str],
        suffix: str = "",
    ) -> None:
        """Adds a node of these outputs."""
        inputs = [self.resolve(name) for name in inputs]
        if self.constants.issuperset(inputs):
            self.constants.update(outputs)
            if len(inputs) == 1 and prod(self.shapes[inputs[0]]) == prod(self.shapes[outputs[0]]):
                # A view, or a number made wider when it is used: stored as it was.
                self.bits[outputs[0]] = min(self.bits[outputs[0]], self.bits[inputs[0]])
            return
        self.nodes.append(Node(op, path_of(node) + suffix, tuple(inputs), tuple(outputs), attributes))


def sizes(value: Any) -> Shape:
    """Shape of a tensor of the export.

    Raises :class:`Unknown` where a size is only known at run time.
    """
    if not all(isinstance(size, int) for size in value.shape):
        raise Unknown(f"its shape {list(value.shape)} is only known when it runs")
    return tuple(value.shape)


def bits_of(value: Any) -> int:
    """Bits of an element, as it is stored."""
    return int(value.dtype.itemsize) * 8


def path_of(node: TorchNode) -> str:
    """How a node is called: by the path of its module, and by its operator where the module's class does not say it."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path, kind = stack[-1] if stack else ("", "")
    path = str(path).removeprefix("L['self']").lstrip(".").replace("['", ".").replace("']", "")
    operator = TorchGraph.operator(node)
    kind = str(getattr(kind, "__name__", kind)).rpartition(".")[2].lower()
    if path and operator.strip("_").replace("_", "") in kind:
        return path
    return f"{path}.{operator}" if path else operator
