"""Bits of the elements of an ONNX graph's values, by the types of the file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

    from accelsim.formats.onnx.inference import Node

_NAMED = {"FLOAT": 32, "DOUBLE": 64, "BOOL": 8}
"""Types whose names do not say their bits."""
STORED_AS = frozenset(
    ["Cast", "CastLike", "DequantizeLinear", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"]
)
"""What these make of a constant is stored as the constant was, and made wider when it is used."""


def type_bits(element_type: int) -> int | None:
    """Bits of an element of an ONNX type; None for text and for what has no type."""
    from onnx import TensorProto

    name = TensorProto.DataType.Name(element_type) if element_type in TensorProto.DataType.values() else ""
    number = re.search(r"\d+", name)
    return _NAMED.get(name) or (int(number[0]) if number else None)


def value_bits(graph: onnx.GraphProto, nodes: Iterable[Node], constants: set[str]) -> dict[str, int]:
    """Bits of an element of each value of a graph whose types are inferred.

    What an operator of an unknown type writes has those of its first input. A constant that is only made wider or
    rearranged before it is used has those that it is stored with.
    """
    found: dict[str, int] = {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        if (bits := type_bits(value.type.tensor_type.elem_type)) is not None:
            found[value.name] = bits
    found |= {tensor.name: bits for tensor in graph.initializer if (bits := type_bits(tensor.data_type)) is not None}
    for node in nodes:
        source = next((name for name in node.inputs if name in found), None)
        if source is None:
            continue
        for name in filter(None, node.outputs):
            found.setdefault(name, found[source])
            if node.op in STORED_AS and name in constants and source == node.inputs[0]:
                found[name] = min(found[name], found[source])
    return found
