"""Operators of PyTorch that compute nothing, in the terms of the rules: views, and what is moved."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from accelsim.formats.torch.graph import Arguments, TorchGraph, TorchNode
from accelsim.formats.torch.rules import MOVED, SAME

Translation = Callable[[TorchGraph, TorchNode, Arguments], None]


def pair(value: Any, count: int) -> list[int]:
    """An argument that is a size an axis, or one for all axes."""
    sizes = [value] if isinstance(value, int) else list(value)
    return sizes * count if len(sizes) == 1 else sizes


def _same(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    graph.emit(node, "Identity", graph.tensors(node)[:1])


def _moved(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    graph.emit(node, graph.operator(node), graph.tensors(node))


def _embedding(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    graph.emit(node, "Gather", [given["weight"].name, given["indices"].name], {"axis": 0})


def _index(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    """By one list of rows of a table of parameters it is an embedding; else data are moved."""
    table, places = given["self"].name, given["indices"]
    if len(places) == 1 and len(graph.shape(table)) == 2 and graph.is_constant(table):
        graph.emit(node, "Gather", [table, places[0].name], {"axis": 0})
    else:
        _moved(graph, node, given)


def _permutation(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    """Free where the last axis stays, or where only matrix products read it, in any order; else moved and paid."""
    rank = len(graph.shape(given["self"].name))
    order = list(range(rank))
    if "dims" in given:
        order = [axis % rank for axis in given["dims"]]
    elif rank > 1:
        first, second = (given.get(name, default) % rank for name, default in _SWAPPED)
        order[first], order[second] = second, first
    free = order[-1:] == [rank - 1] or all(user in _PRODUCTS for user in graph.users(node))
    graph.emit(node, "permute" if free else "Transpose", graph.tensors(node), {"perm": order})


_SWAPPED = (("dim0", 0), ("dim1", 1))
_PRODUCTS = ("matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "linear", "scaled_dot_product_attention")


def _movedim(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    rank = len(graph.shape(given["self"].name))
    source, destination = ([axis % rank for axis in pair(given[name], 1)] for name in ("source", "destination"))
    order = [axis for axis in range(rank) if axis not in source]
    for place, axis in sorted(zip(destination, source, strict=True)):
        order.insert(place, axis)
    _permutation(graph, node, {"self": given["self"], "dims": order})


def _concat(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    parts = [part.name for part in given["tensors"] if prod(graph.shape(part.name))]
    if graph.operator(node) == "cat":
        graph.emit(node, "Concat", parts, {"axis": given["dim"]})
        return
    shape = graph.shape(node.name)
    axis = given["dim"] % len(shape)
    single = (*shape[:axis], 1, *shape[axis + 1 :])
    outputs = [graph.between(node, f"part{number}", single) for number in range(len(parts))]
    for part, output in zip(parts, outputs, strict=True):
        graph.emit(node, "Reshape", [part], output=output)
    graph.emit(node, "Concat", outputs, {"axis": axis})


def _split(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    """split, chunk, unbind: a block for each part that is used."""
    shape = graph.shape(given["self"].name)
    axis = given.get("dim", 0) % len(shape)
    begin = 0
    for number, part in enumerate(graph.parts(node)):
        size = 1 if graph.operator(node) == "unbind" else part[axis]
        _block(graph, node, given["self"].name, axis, begin, size, graph.part(node, number))
        begin += size


def _block(graph: TorchGraph, node: TorchNode, source: str, axis: int, begin: int, size: int, output: str) -> None:
    shape = graph.shape(source)
    first = [begin if i == axis else 0 for i in range(len(shape))]
    block = (*shape[:axis], size, *shape[axis + 1 :])
    graph.emit(node, "block", [source], {"begin": first, "shape": list(block)}, output=output)


def _slice(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    shape = graph.shape(given["self"].name)
    axis = given["dim"] % len(shape)
    begin, _, step = slice(given["start"], given["end"], given["step"]).indices(shape[axis])
    if step != 1:
        _moved(graph, node, given)
    else:
        _block(graph, node, given["self"].name, axis, begin, graph.shape(node.name)[axis], node.name)


def _select(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    shape = graph.shape(given["self"].name)
    axis = given["dim"] % len(shape)
    if graph.operator(node) == "narrow":
        _block(graph, node, given["self"].name, axis, given["start"] % shape[axis], given["length"], node.name)
    else:
        _block(graph, node, given["self"].name, axis, given["index"] % shape[axis], 1, node.name)


def _expand(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    before, after = graph.shape(given["self"].name), graph.shape(node.name)
    graph.emit(node, "Identity" if prod(before) == prod(after) else "Expand", [given["self"].name])


def _pad(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    rank = len(graph.shape(node.name))
    pads = list(given["pad"])
    pairs = [(0, 0)] * (rank - len(pads) // 2) + [(pads[i], pads[i + 1]) for i in range(len(pads) - 2, -1, -2)]
    attributes = {
        "pads": [low for low, _ in pairs] + [high for _, high in pairs],
        "mode": given.get("mode", "constant"),
    }
    graph.emit(node, "Pad", [given["self"].name], attributes)


VIEWS: dict[str, Translation] = {
    **dict.fromkeys(SAME.split(), _same),
    **dict.fromkeys(MOVED.split(), _moved),
    "embedding": _embedding,
    "index": _index,
    **dict.fromkeys(("permute", "transpose", "t", "swapaxes", "swapdims"), _permutation),
    "movedim": _movedim,
    **dict.fromkeys(("cat", "stack"), _concat),
    **dict.fromkeys(("split", "split_with_sizes", "chunk", "unbind", "tensor_split"), _split),
    "slice": _slice,
    **dict.fromkeys(("select", "narrow"), _select),
    **dict.fromkeys(("expand", "broadcast_to"), _expand),
    **dict.fromkeys(("pad", "constant_pad_nd"), _pad),
}
