"""Chakra traces written byte by byte, after the field numbers of MLCommons' ``et_def.proto`` (0.0.4): no protobuf."""

from __future__ import annotations

from collections.abc import Iterable

METADATA, LOAD, STORE, COMPUTE, SEND, RECEIVE, COLLECTIVE = range(1, 8)
ALL_REDUCE, REDUCE, ALL_GATHER, GATHER, SCATTER, BROADCAST, ALL_TO_ALL, REDUCE_SCATTER, _, BARRIER = range(10)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    """A whole number: wire type 0."""
    return varint(field << 3) + varint(value)


def text(field: int, value: bytes | str) -> bytes:
    """Text, bytes or a message: wire type 2."""
    content = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(content)) + content


def attribute(name: str, value: int | bool | str | list[bool]) -> bytes:
    """An AttributeProto: int64_val is field 9, bool_val 27, bool_list 28, string_val 29."""
    if isinstance(value, bool):
        content = number(27, value)
    elif isinstance(value, int):
        content = number(9, value)
    elif isinstance(value, str):
        content = text(29, value)
    else:
        content = text(28, text(1, bytes(value)))
    return text(10, text(1, name) + content)


def node(
    identity: int,
    kind: int,
    name: str = "",
    after: Iterable[int] = (),
    micros: int = 0,
    control: Iterable[int] = (),
    **more,
) -> bytes:
    """A Node; ``more`` are its attributes."""
    packed = b"".join(varint(parent) for parent in after)
    body = number(1, identity) + text(2, name or f"n{identity}") + number(3, kind)
    body += b"".join(number(4, parent) for parent in control)  # not packed: both must be read
    body += (text(5, packed) if packed else b"") + (number(7, micros) if micros else b"")
    return body + b"".join(attribute(key, value) for key, value in more.items())


def framed(*messages: bytes) -> bytes:
    return b"".join(varint(len(message)) + message for message in messages)


def trace(*nodes: bytes) -> bytes:
    """A whole file."""
    return framed(text(1, "0.0.4"), *nodes)
