"""Chakra execution traces (MLCommons): what a device computed, loaded, stored and sent, as a graph of nodes.

Three forms of files: ``.et``, messages of protobuf each with its length before it (the first is metadata); the JSON
that ``chakra_jsonizer`` makes of it, one object after another; and the JSON that Chakra's feeder reads, with a list
``workload_graph``. All may be compressed with gzip. A folder holds one trace a device, ``NAME.RANK.et`` each.

Sizes and kinds are read from the attributes ``tensor_size``, ``num_ops``, ``comm_type``, ``comm_size``, ``comm_src``,
``comm_dst``, ``comm_tag``, ``pg_name``, ``is_cpu_op`` and ``involved_dim``. A node's tensors and starting times are not
used: it starts when what it depends on has finished.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from accelsim.errors import FormatError, InputError
from accelsim.formats.chakra_messages import COLLECTIVE_TYPES, NODE_TYPES, SCALARS, node_class
from accelsim.formats.trace_file import json_values, unpacked
from accelsim.hardware.accelerator import Accelerator
from accelsim.program.lower_recorded import lower_recorded
from accelsim.program.recorded import NodeKind, RecordedDevice, RecordedNode
from accelsim.program.tables import Program

LARGEST = 1 << 53
"""Of any number in a trace: times in microseconds, bytes, operations."""
MOST_DEVICES = 1 << 12

KINDS = {
    "METADATA_NODE": NodeKind.MARK,
    "MEM_LOAD_NODE": NodeKind.LOAD,
    "MEM_STORE_NODE": NodeKind.STORE,
    "COMP_NODE": NodeKind.COMPUTE,
    "COMM_SEND_NODE": NodeKind.SEND,
    "COMM_RECV_NODE": NodeKind.RECEIVE,
    "COMM_COLL_NODE": NodeKind.COLLECTIVE,
}
RANK = re.compile(r"\.(\d{1,6})\.(et|et\.gz|json|json\.gz)$")
"""Of a file's name: whose trace it is."""


def read_chakra(path: str | Path, accelerator: Accelerator | None = None, times: str | Path | None = None) -> Program:
    """Reads the trace of a device that stands for all, or a folder with one of each; for ``accelerator`` to run.

    Raises:
        FormatError: a file cannot be read, is no such trace, or contradicts itself; with file and node.
        InputError: the machine lacks what the trace needs, or there is none and the trace does not tell all times.
    """
    path = Path(path)
    if times is not None:
        raise InputError(f"{path}: --times is for execution traces of PyTorch, this is none")
    if not path.is_dir():
        device = RecordedDevice(0, str(path), nodes_of(path))
        return lower_recorded([device], accelerator, path.name.removesuffix(".gz").removesuffix(".et"))
    files: dict[int, Path] = {}
    for file in sorted(path.iterdir()):
        if found := RANK.search(file.name):
            if (rank := int(found[1])) in files:
                raise FormatError(f"{path}: {files[rank].name} and {file.name} are both of device {rank}")
            files[rank] = file
    if not 1 <= len(files) <= MOST_DEVICES:
        raise FormatError(
            f"{path}: it has {len(files)} files NAME.RANK.et; expected one a device, at most {MOST_DEVICES:,}"
        )
    devices = [RecordedDevice(rank, file.name, nodes_of(file)) for rank, file in files.items()]
    return lower_recorded(devices, accelerator, path.resolve().name)


def chakra_program(values: list[Any], path: Path, accelerator: Accelerator | None) -> Program:
    """The Program of a trace's JSON, ``values``, of the file ``path``. Errors as of :func:`read_chakra`."""
    device = RecordedDevice(0, str(path), _json_nodes(values, str(path)))
    return lower_recorded([device], accelerator, path.name.split(".json")[0])


def nodes_of(path: Path) -> list[RecordedNode]:
    """The nodes of a file in any of the forms."""
    content = unpacked(path)
    if content.lstrip()[:1] in (b"{", b"["):
        return _json_nodes(json_values(content, str(path)), str(path))
    return _nodes(_protobuf_fields(content, str(path)), str(path))


def _nodes(fields: Iterable[dict[str, Any]], place: str) -> list[RecordedNode]:
    nodes = [_node(one, place) for one in fields]
    if not any(node.kind is not NodeKind.MARK for node in nodes):
        raise FormatError(
            f"{place}: none of its {len(nodes)} nodes computes, moves or sends anything: nothing to replay"
        )
    return nodes


def _protobuf_fields(content: bytes, place: str) -> Iterator[dict[str, Any]]:
    """The fields of each node, attributes among them."""
    at, number, view = 0, 0, memoryview(content)
    while at < len(content):
        size, shift, start = 0, 0, at
        while True:
            if at >= len(content) or shift > 28:
                raise FormatError(
                    f"{place}: byte {start:,}: here the length of a message should stand; no Chakra trace?"
                )
            size |= (content[at] & 0x7F) << shift
            shift += 7
            at += 1
            if content[at - 1] < 0x80:
                break
        if size > len(content) - at:
            raise FormatError(
                f"{place}: byte {start:,}: message {number} should have {size:,} bytes, {len(content) - at:,} are "
                "left; the file is cut short, or is no Chakra trace"
            )
        node = node_class()()
        try:
            node.ParseFromString(view[at : at + size])
            broken = False
        except DecodeError:
            broken = True
        # The first message is the metadata, whose fields mean something else; it never has a type. Old traces lack it.
        if number or (not broken and node.type):
            if broken:
                raise FormatError(f"{place}: byte {start:,}: message {number} is no Chakra node")
            yield {
                "id": node.id,
                "name": node.name,
                "type": NODE_TYPES.get(node.type, node.type),
                "ctrl_deps": list(node.ctrl_deps),
                "data_deps": list(node.data_deps),
                "duration_micros": node.duration_micros,
                **{attribute.name: _value(attribute) for attribute in node.attr if attribute.name in _ATTRIBUTES},
            }
        at += size
        number += 1


_ATTRIBUTES = frozenset(("is_cpu_op", "num_ops", "tensor_size", "pg_name", "involved_dim"))
_ATTRIBUTES |= {"comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag"}


def _value(attribute: Any) -> Any:
    field = attribute.WhichOneof("value")
    if field is None:
        return None
    value = getattr(attribute, field)
    return list(value.values) if field.endswith("_list") else value


def _json_nodes(values: list[Any], place: str) -> list[RecordedNode]:
    """The nodes of either form of JSON."""
    entries = _entries(values, place)
    return _nodes((_json_fields(entry, place, number) for number, entry in enumerate(entries)), place)


def _entries(found: list[Any], place: str) -> list[Any]:
    if len(found) == 1 and isinstance(found[0], dict) and "workload_graph" in found[0]:
        found = [found[0]["workload_graph"]]
        if not isinstance(found[0], list):
            raise FormatError(f"{place}: workload_graph is {str(found[0])[:40]!r}, must be a list of nodes")
    if len(found) == 1 and isinstance(found[0], list):
        entries: list[Any] = found[0]
        return entries
    nodes = [entry for entry in found if not isinstance(entry, dict) or "type" in entry]
    if not nodes:
        raise FormatError(f"{place}: is JSON, but no Chakra trace: no object in it has a 'type'")
    return nodes


_FEEDER_NAMES = {"Id": "id", "Name": "name", "NodeType": "type", "runtime": "duration_micros"}


def _json_fields(entry: Any, place: str, number: int) -> dict[str, Any]:
    """A node's fields under the names of protobuf's; its attributes among them."""
    if not isinstance(entry, dict):
        raise FormatError(f"{place}: node number {number} is {str(entry)[:40]!r}, must be an object")
    fields: dict[str, Any] = {"id": 0}
    for name, value in entry.items():
        plain = _FEEDER_NAMES.get(name) or re.sub("([A-Z])", lambda found: f"_{found[0].lower()}", name)
        fields[plain] = value
    attributes = fields.get("attr", [])
    for attribute in attributes if isinstance(attributes, list) else []:
        name = str(attribute.get("name")) if isinstance(attribute, dict) else ""
        for scalar in SCALARS if name in _ATTRIBUTES else ():
            if f"{scalar}Val" in attribute:
                fields[name] = attribute[f"{scalar}Val"]
            elif isinstance(values := attribute.get(f"{scalar}List"), dict):
                fields[name] = values.get("values", [])
    return fields


def _node(fields: dict[str, Any], place: str) -> RecordedNode:
    """What a node's fields mean.

    Raises:
        FormatError: it is of an unknown kind, or a field is not what it should be.
    """
    number = _whole(fields, "id", place, (1 << 64) - 1)
    name = str(fields.get("name", ""))
    here = f"{place}: node {number} ({name[:60]!r})"
    kind_name = fields.get("type")
    kind_name = NODE_TYPES.get(kind_name, kind_name) if isinstance(kind_name, int) else kind_name
    kind = KINDS.get(kind_name) if isinstance(kind_name, str) else None
    if kind is None:
        known = ", ".join(f"{name} ({code})" for code, name in NODE_TYPES.items())
        raise FormatError(f"{here}: its type is {str(kind_name)[:40]!r}; known are {known}")
    collective = ""
    if kind is NodeKind.COLLECTIVE:
        collective = _collective(fields.get("comm_type", 0), here)
        _check_dimensions(fields.get("involved_dim"), here)
    communicates = kind in (NodeKind.COLLECTIVE, NodeKind.SEND, NodeKind.RECEIVE)
    size = "comm_size" if communicates and "comm_size" in fields else "tensor_size"
    if communicates and size not in fields and collective != "barrier":
        raise FormatError(f"{here}: it has no attribute 'comm_size', the bytes that it communicates")
    peer = {NodeKind.SEND: "comm_dst", NodeKind.RECEIVE: "comm_src"}.get(kind)
    if peer is not None and peer not in fields:
        raise FormatError(f"{here}: it has no attribute '{peer}', the other device")
    group = fields.get("pg_name")
    return RecordedNode(
        number,
        name or f"node {number}",
        kind,
        (*_parents(fields, "ctrl_deps", here), *_parents(fields, "data_deps", here)),
        duration_ns=1000 * _whole(fields, "duration_micros", here),
        bytes=_whole(fields, size, here),
        operations=_whole(fields, "num_ops", here),
        on_host=fields.get("is_cpu_op") in (True, 1),
        collective=collective,
        peer=_whole(fields, peer, here) if peer else -1,
        tag=_whole(fields, "comm_tag", here),
        group=group if isinstance(group, str) else "",
    )


def _whole(fields: dict[str, Any], name: str, here: str, largest: int = LARGEST) -> int:
    """A number that may be missing, then 0; protobuf's JSON writes 64-bit numbers as text."""
    value = fields.get(name)
    if value is None:
        return 0
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,20}", value):
        value = int(value)
    if isinstance(value, Decimal) and 0 <= value <= largest and value == (near := int(value)):
        value = near
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
        raise FormatError(f"{here}: {name} is {str(value)[:40]!r}; must be a whole number from 0 to {largest:,}")
    return value


def _parents(fields: dict[str, Any], name: str, here: str) -> tuple[int, ...]:
    values = fields.get(name)
    if values is None:
        return ()
    if not isinstance(values, list):
        raise FormatError(f"{here}: {name} is {str(values)[:40]!r}, must be a list of nodes")
    return tuple(_whole({name: value}, name, here, (1 << 64) - 1) for value in values)


def _collective(kind: Any, here: str) -> str:
    """The operation, by the name that :mod:`accelsim.program.collectives` has for it."""
    if isinstance(kind, str) and kind.isdigit():
        kind = int(kind)
    name = COLLECTIVE_TYPES.get(kind) if isinstance(kind, int) and not isinstance(kind, bool) else kind
    if name not in COLLECTIVE_TYPES.values():
        known = ", ".join(f"{name} ({code})" for code, name in COLLECTIVE_TYPES.items())
        raise FormatError(f"{here}: comm_type is {str(kind)[:40]!r}; known are {known}")
    return str(name).lower().removesuffix("_block")


def _check_dimensions(involved: Any, here: str) -> None:
    """A link is one ring or switch: a collective along some of several dimensions has no place on it."""
    if isinstance(involved, list) and involved and not all(involved):
        raise FormatError(
            f"{here}: it involves only some of {len(involved)} network dimensions (involved_dim); the devices of a "
            "link have one dimension, and subsets of them are told by pg_name"
        )
