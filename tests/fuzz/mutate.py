"""Turns valid files into invalid ones: by bytes, by tokens, by structure, each from a seeded random state."""

from __future__ import annotations

import copy
import io
import json
import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np

JUNK: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 7, 63, 64, 65, 255, 256, 1000, 4096, 65536),
    *(2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, -(10**30)),
    *(0.5, 1.5, -0.0, 1e-300, 1e308, float("inf"), float("-inf"), float("nan")),
    *(None, True, False, "", " ", "0", "1e999", "nan", "-1", "1_000", "٣", "0x10", "NaN GB/s", "-3 MiB", "1e400 GHz"),
    *(
        "<script>alert(1)</script>",
        "[bold]x[/bold]",
        "\x1b[31mred",
        "\u202eabc",
        "a\nb",
        "a" * 5000,
        "é",
        "\x00",
        "../../etc",
    ),
    *([], {}, [[]], [1], {"a": 1}, [None] * 3),
)
"""What takes the place of something in a tree."""
WORDS = tuple(
    [str(value) for value in JUNK if isinstance(value, (int, float, str))]
    + [
        "[",
        "]",
        "{",
        "}",
        ":",
        ",",
        "- ",
        "&a",
        "*a",
        "|",
        ">",
        "!!python/object:os.system",
        "#",
        '"',
        "'",
        "\t",
        "%",
        "---",
    ]
)
"""What takes the place of a token of a text."""
_TOKEN = re.compile(r"[A-Za-z_][\w.]*|[-+]?\d[\w.]*|\s+|.", re.DOTALL)


def mutate_bytes(state: random.Random, content: bytes) -> bytes:
    """A few bytes changed, cut out, doubled, or all behind a place cut off."""
    data = bytearray(content)
    for _ in range(state.choice((1, 1, 2, 5, 20))):
        if not data:
            break
        place = state.randrange(len(data))
        kind = state.randrange(6)
        if kind == 0:
            data[place] ^= 1 << state.randrange(8)
        elif kind == 1:
            data[place] = state.randrange(256)
        elif kind == 2:
            del data[place : place + state.choice((1, 2, 8, 100))]
        elif kind == 3:
            data[place:place] = data[place : place + state.choice((1, 4, 50))]
        elif kind == 4:
            data[place:place] = bytes(state.randrange(256) for _ in range(state.choice((1, 4))))
        elif state.random() < 0.3:
            del data[place:]
    return bytes(data)


def mutate_text(state: random.Random, content: bytes) -> bytes:
    """Tokens exchanged, dropped, doubled or replaced by junk; lines too."""
    text = content.decode("utf-8", "replace")
    if state.random() < 0.3:
        lines = text.split("\n")
        for _ in range(state.choice((1, 2, 4))):
            place = state.randrange(len(lines))
            kind = state.randrange(4)
            if kind == 0 and len(lines) > 1:
                del lines[place]
            elif kind == 1:
                lines.insert(place, lines[state.randrange(len(lines))])
            elif kind == 2:
                lines[place] = " " * state.randrange(5) + lines[place]
            else:
                other = state.randrange(len(lines))
                lines[place], lines[other] = lines[other], lines[place]
        return "\n".join(lines).encode("utf-8", "replace")
    tokens = _TOKEN.findall(text)
    for _ in range(state.choice((1, 1, 1, 2, 3, 8))):
        if not tokens:
            break
        place = state.randrange(len(tokens))
        kind = state.randrange(5)
        if kind == 0:
            del tokens[place]
        elif kind == 1:
            tokens[place] = tokens[state.randrange(len(tokens))]
        elif kind == 2:
            tokens.insert(place, state.choice(WORDS))
        else:
            tokens[place] = state.choice(WORDS)
    return "".join(tokens).encode("utf-8", "replace")


def mutate_tree(state: random.Random, tree: Any) -> Any:
    """Some values of a tree of dictionaries and lists replaced, dropped, renamed, moved or nested deeply."""
    tree = json.loads(json.dumps(tree))
    for _ in range(state.choice((1, 1, 1, 2, 3))):
        places: list[tuple[Any, Any]] = []
        _collect(tree, places)
        if not places:
            break
        parent, key = places[state.randrange(len(places))]
        kind = state.randrange(8)
        if kind == 0:
            del parent[key]
        elif kind == 1 and isinstance(parent, dict):
            parent[state.choice(("x", "", str(key) + "s", "name", "\x1b[0m"))] = parent.pop(key)
        elif kind == 2:
            other, place = places[state.randrange(len(places))]
            parent[key] = json.loads(json.dumps(other[place]))
        elif kind == 3 and isinstance(parent[key], (int, float)) and not isinstance(parent[key], bool):
            parent[key] = state.choice(
                (parent[key] + 1, parent[key] - 1, -parent[key], parent[key] * 2, parent[key] / 3)
            )
        elif kind == 4 and isinstance(parent, list):
            parent.insert(key, json.loads(json.dumps(parent[key])))
        elif kind == 5 and state.random() < 0.2:
            parent[key] = _nested(state.choice((3, 50, 2000)))
            break  # what is nested deeply cannot be copied
        else:
            parent[key] = copy.deepcopy(state.choice(JUNK))  # what is changed next must not be the junk itself
    return tree


def _collect(tree: Any, places: list[tuple[Any, Any]]) -> None:
    pending = [tree]
    while pending:
        node = pending.pop()
        items = (
            list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
        )
        for key, value in items:
            places.append((node, key))
            pending.append(value)


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def mutate_json(state: random.Random, content: bytes) -> bytes:
    """A JSON document changed as a tree, or as a text."""
    if state.random() < 0.25:
        return state.choice((mutate_text, mutate_bytes))(state, content)
    tree = mutate_tree(state, json.loads(content))
    return _dumps(tree).encode("utf-8", "replace")


def _dumps(tree: Any) -> str:
    try:
        return json.dumps(tree)
    except RecursionError:
        return "[" * 5000 + "]" * 5000


def mutate_lines(state: random.Random, content: bytes) -> bytes:
    """A text changed by tokens, seldom by bytes."""
    return (mutate_bytes if state.random() < 0.15 else mutate_text)(state, content)


def mutate_npz(state: random.Random, content: bytes) -> bytes:
    """An archive of arrays: one of its arrays, or its JSON header, changed; or its bytes."""
    if state.random() < 0.2:
        return mutate_bytes(state, content)
    with np.load(io.BytesIO(content)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    for _ in range(state.choice((1, 1, 2, 3))):
        name = state.choice(list(arrays))
        if name.endswith(".json"):
            header = json.loads(arrays[name].tobytes())
            arrays[name] = np.frombuffer(_dumps(mutate_tree(state, header)).encode("utf-8", "replace"), np.uint8)
        else:
            arrays[name] = _changed(state, arrays[name])
        if state.random() < 0.05:
            del arrays[state.choice(list(arrays))]
            break
    out = io.BytesIO()
    np.savez(out, **arrays)  # type: ignore[arg-type]
    return out.getvalue()


def _changed(state: random.Random, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    kind = state.randrange(8)
    if kind == 0:
        return array[: state.randrange(len(array) + 1)] if array.ndim else array
    if kind == 1:
        return array.astype(state.choice((np.float64, np.int32, np.uint64, np.bool_, "U3", np.float16)))
    if kind == 2:
        return array.reshape(1, *array.shape)
    if kind == 3:
        return np.concatenate([array, array]) if array.ndim else array
    changed = array.copy()
    if changed.size and changed.dtype.kind in "if":
        junk = [value for value in JUNK if type(value) is int and -(2**63) <= value < 2**63]
        values: list[Any] = [*junk, float("nan")] if changed.dtype.kind == "f" else junk
        for _ in range(state.choice((1, 1, 3))):
            changed.reshape(-1)[state.randrange(changed.size)] = state.choice(values)
    return changed


def mutate_onnx(state: random.Random, content: bytes) -> bytes:
    """A model changed by its fields, seldom by bytes."""
    if state.random() < 0.15:
        return mutate_bytes(state, content)
    import onnx

    model = onnx.ModelProto.FromString(content)
    for _ in range(state.choice((1, 1, 2, 4))):
        _change_model(state, model)
    return model.SerializeToString()


def _change_model(state: random.Random, model: Any) -> None:
    graph = model.graph
    numbers = [value for value in JUNK if type(value) is int and -(2**63) <= value < 2**63]
    values = [value.name for value in (*graph.input, *graph.initializer)] + [n for x in graph.node for n in x.output]
    node = graph.node[state.randrange(len(graph.node))] if graph.node else None
    kind = state.randrange(9)
    if kind == 0 and node is not None and node.input:
        node.input[state.randrange(len(node.input))] = state.choice([*values, "", "missing"])
    elif kind == 1 and node is not None:
        node.op_type = state.choice(
            [*(other.op_type for other in graph.node), "Loop", "LSTM", "Resize", "Odd", "Einsum"]
        )
    elif kind == 2 and node is not None and node.attribute:
        attribute = node.attribute[state.randrange(len(node.attribute))]
        if attribute.ints:
            attribute.ints[state.randrange(len(attribute.ints))] = state.choice(numbers)
        else:
            attribute.i = state.choice(numbers)
    elif kind == 3 and node is not None and node.attribute:
        del node.attribute[state.randrange(len(node.attribute))]
    elif kind == 4 and graph.initializer:
        tensor = graph.initializer[state.randrange(len(graph.initializer))]
        if tensor.dims:
            tensor.dims[state.randrange(len(tensor.dims))] = state.choice(numbers)
    elif kind == 5 and graph.input:
        dims = graph.input[state.randrange(len(graph.input))].type.tensor_type.shape.dim
        if dims:
            dims[state.randrange(len(dims))].dim_value = state.choice(numbers)
    elif kind == 6 and node is not None and node.output:
        node.output[0] = state.choice([*values, "x", ""])
    elif kind == 7 and node is not None:
        graph.node.add().CopyFrom(node)
    elif node is not None:
        node.name = state.choice(("", "\x1b[31m", "<script>", "a" * 5000, "\x00"))


Mutate = Callable[[random.Random, bytes], bytes]
"""From a random state and a valid file: a file that may be invalid."""
