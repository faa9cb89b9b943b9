"""Many protobuf messages of one kind at once, written by columns (https://protobuf.dev/programming-guides/encoding/).

A field is a column with a value for each message; where it is absent it takes no bytes. Nothing loops over messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Lengths = npt.NDArray[np.int64]
Where = npt.NDArray[np.bool_] | None
VARINT, FIXED64, LENGTH_DELIMITED = 0, 1, 2


@dataclass
class Messages:
    """``count`` messages in the making; fields stand in the order in which they are added."""

    count: int
    pieces: list[tuple[Lengths, Bytes, Lengths | None]] = field(default_factory=list)
    """Of each field its bytes by message: lengths, and a row of bytes each; or, with starts, slices of one string."""

    @property
    def lengths(self) -> Lengths:
        """Bytes of each message."""
        return sum((lengths for lengths, _, _ in self.pieces), np.zeros(self.count, dtype=np.int64))

    def varint(self, number: int, values: npt.ArrayLike, where: Where = None) -> Messages:
        """An integer of 0 or more for each message, or one for all."""
        self._key(number, VARINT, where)
        self._varint(np.broadcast_to(np.asarray(values, dtype=np.uint64), (self.count,)), where)
        return self

    def double(self, number: int, values: npt.NDArray[np.float64], where: Where = None) -> Messages:
        """A number in floating point."""
        self._key(number, FIXED64, where)
        self._rows(np.ascontiguousarray(values, dtype="<f8").view(np.uint8).reshape(self.count, 8), 8, where)
        return self

    def repeated_fixed64(self, number: int, owner: Lengths, values: npt.NDArray[np.uint64]) -> Messages:
        """Any number of 64-bit values for each message: ``owner``, ascending, tells for each value whose it is."""
        key = np.frombuffer(_key(number, FIXED64), dtype=np.uint8)
        entries = np.empty((len(values), len(key) + 8), dtype=np.uint8)
        entries[:, : len(key)] = key
        entries[:, len(key) :] = np.ascontiguousarray(values, dtype="<u8").view(np.uint8).reshape(-1, 8)
        counts = np.bincount(owner, minlength=self.count)
        starts = np.cumsum(counts) - counts
        width = entries.shape[1]
        self.pieces.append((counts * width, entries.reshape(-1), starts * width))
        return self

    def message(self, number: int, messages: Messages, where: Where = None) -> Messages:
        """A message of others in each message."""
        self._key(number, LENGTH_DELIMITED, where)
        self._varint(messages.lengths.astype(np.uint64), where)
        for lengths, rows, starts in messages.pieces:
            self.pieces.append((lengths if where is None else np.where(where, lengths, 0), rows, starts))
        return self

    def to_bytes(self) -> bytes:
        """All messages behind one another, without anything between them."""
        lengths = self.lengths
        out = np.empty(int(lengths.sum()), dtype=np.uint8)
        place = np.cumsum(lengths) - lengths
        for size, rows, starts in self.pieces:
            if starts is None:
                for byte in range(rows.shape[1]):
                    having = np.flatnonzero(size > byte)
                    out[place[having] + byte] = rows[having, byte] if len(rows) == self.count else rows[0, byte]
            else:
                within = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
                out[np.repeat(place, size) + within] = rows[np.repeat(starts, size) + within]
            place = place + size
        return out.tobytes()

    def _key(self, number: int, kind: int, where: Where) -> None:
        key = np.frombuffer(_key(number, kind), dtype=np.uint8).reshape(1, -1)
        self._rows(key, key.shape[1], where)

    def _rows(self, rows: Bytes, length: int | Lengths, where: Where) -> None:
        lengths = np.broadcast_to(np.asarray(length, dtype=np.int64), (self.count,))
        self.pieces.append((lengths if where is None else np.where(where, lengths, 0), rows, None))

    def _varint(self, values: npt.NDArray[np.uint64], where: Where) -> None:
        """Seven bits a byte, the lowest first; the highest bit says that more follow."""
        longest = _varint_length(int(values.max())) if self.count else 1
        rows = np.empty((self.count, longest), dtype=np.uint8)
        lengths = np.ones(self.count, dtype=np.int64)
        left = values.copy()
        for byte in range(longest):
            rows[:, byte] = left & np.uint64(0x7F)
            left >>= np.uint64(7)
            if byte + 1 < longest:
                more = left > 0
                rows[more, byte] |= 0x80
                lengths += more
        self._rows(rows, lengths, where)


def _varint_length(value: int) -> int:
    return max(1, -(-value.bit_length() // 7))


def _key(number: int, kind: int) -> bytes:
    """What stands before a field's value: its number and how it is encoded."""
    value, found = number << 3 | kind, bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def field_number(message: Any, name: str) -> int:
    """The number of a field, from the class that the format's own package has."""
    return int(message.DESCRIPTOR.fields_by_name[name].number)
