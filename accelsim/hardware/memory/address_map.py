"""Which channel, bank and row an address lies in.

A map deals the bits of an address out to the fields of a DRAM location, from the lowest bit up, after those bits that
count bytes inside one access. What the lowest bits choose decides more about bandwidth than anything else: consecutive
accesses in one bank group are tCCD_L apart, those in different groups only tCCD_S.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accelsim.errors import UnknownName
from accelsim.jit import kernel
from accelsim.units import did_you_mean

IntColumn = npt.NDArray[np.int64]

FIELDS = ("channel", "rank", "pseudo", "stack", "group", "bank", "row", "column")

ADDRESS_MAPS = {
    "bank_group_low": "low to high: bank group, channel, pseudo-channel, column, stack, bank, rank, row",
    "bank_group_low_hash": "bank_group_low, then bank group and bank XOR the lowest bits of the row",
    "column_low": "low to high: channel, column, rank, pseudo-channel, bank group, bank, row (Ramulator: RoBaRaCoCh)",
    "mop4clxor": "low to high: channel, 2 column bits, rank, bank group, bank, column, row; all XOR column bits",
    "rochrababgco": "six two-letter fields, highest first, as DRAMsim3 writes them; any order of ro ch ra ba bg co",
}
"""Name to description."""

_LOW_TO_HIGH = {
    "bank_group_low": ("group", "channel", "pseudo", "column", "stack", "bank", "rank", "row"),
    "bank_group_low_hash": ("group", "channel", "pseudo", "column", "stack", "bank", "rank", "row"),
    "column_low": ("channel", "column", "rank", "pseudo", "stack", "group", "bank", "row"),
}
_TWO_LETTERS = {"ro": "row", "ch": "channel", "ra": "rank", "ba": "bank", "bg": "group", "co": "column"}
_XOR_ORDER = ("rank", "pseudo", "stack", "group", "bank", "row")


class Location(NamedTuple):
    """Where accesses lie; each column one entry an access. ``bank`` counts all banks of all channels."""

    channel: IntColumn
    bank: IntColumn
    row: IntColumn
    column: IntColumn


class MapTables(NamedTuple):
    """A map as compiled code reads it."""

    pieces: npt.NDArray[np.int64]
    """From the lowest bit up: field (index in :data:`FIELDS`), width, and how many bits of the field are below."""
    xors: npt.NDArray[np.int64]
    """In turn: field that is changed, field that it is XORed with, the latter's lowest bit, width."""
    bits: IntColumn
    """Width of each of :data:`FIELDS`, then the bits inside an access."""
    location: IntColumn
    """What :func:`locate_one` writes: one entry each of :data:`FIELDS`, then the bank among all banks."""


CHANNEL, ROW, BANK = FIELDS.index("channel"), FIELDS.index("row"), len(FIELDS)
"""Entries of :attr:`MapTables.location`."""
_FIELD_COUNT, _BANK_FIELDS = len(FIELDS), ROW


@kernel
def locate_one(m: MapTables, address: int) -> None:
    """Write the location of an address; as :meth:`AddressMap.locate`."""
    rest = address >> m.bits[_FIELD_COUNT]
    for field in range(_FIELD_COUNT):
        m.location[field] = 0
    for piece in range(m.pieces.shape[0]):
        width = m.pieces[piece, 1]
        m.location[m.pieces[piece, 0]] |= (rest & ((1 << width) - 1)) << m.pieces[piece, 2]
        rest >>= width
    for xor in range(m.xors.shape[0]):
        other = m.location[m.xors[xor, 1]] >> m.xors[xor, 2]
        m.location[m.xors[xor, 0]] ^= other & ((1 << m.xors[xor, 3]) - 1)
    bank = m.location[CHANNEL]
    for field in range(1, _BANK_FIELDS):
        bank = (bank << m.bits[field]) | m.location[field]
    m.location[BANK] = bank


@dataclass(frozen=True)
class AddressMap:
    """A map for one geometry.

    Args:
        name: one of :data:`ADDRESS_MAPS`, or six two-letter fields as in DRAMsim3.
        bits: width of each of :data:`FIELDS`. The row takes whatever is left above the other fields.
        access_bits: address bits inside one access.

    Raises:
        UnknownName: there is no such map.
    """

    name: str
    bits: dict[str, int]
    access_bits: int

    def __post_init__(self) -> None:
        self._pieces()

    @property
    def capacity_bytes(self) -> int:
        """The addresses that exist lie below this one."""
        return 1 << (sum(self.bits.values()) + self.access_bits)

    def _pieces(self) -> list[tuple[str, int]]:
        """Field and width, from the lowest bit up; a field may stand twice, its low bits first."""
        bits = self.bits
        if self.name == "mop4clxor":
            low = min(2, bits["column"])
            order = [("channel", bits["channel"]), ("column", low)]
            order += [(field, bits[field]) for field in _XOR_ORDER[:-1]]
            return [*order, ("column", bits["column"] - low), ("row", bits["row"])]
        if self.name in _LOW_TO_HIGH:
            return [(field, bits[field]) for field in _LOW_TO_HIGH[self.name]]
        pairs = re.findall("..", self.name)
        if len(self.name) == 12 and sorted(pairs) == sorted(_TWO_LETTERS):
            fields = [_TWO_LETTERS[pair] for pair in reversed(pairs)]
            fields[fields.index("rank") + 1 : fields.index("rank") + 1] = ["pseudo", "stack"]
            return [(field, bits[field]) for field in fields]
        near = did_you_mean(self.name, ADDRESS_MAPS)
        raise UnknownName(
            f"no address map '{self.name}'{near}; there are {', '.join(list(ADDRESS_MAPS)[:-1])}, and any order of the "
            f"six fields ro ch ra ba bg co written together, as 'rochrababgco'"
        )

    def locate(self, address: IntColumn) -> Location:
        """The location of each address."""
        rest = address >> self.access_bits
        field = {name: np.zeros_like(address) for name in FIELDS}
        filled = dict.fromkeys(FIELDS, 0)
        for name, width in self._pieces():
            if width:
                field[name] |= (rest & ((1 << width) - 1)) << filled[name]
                rest = rest >> width
                filled[name] += width
        for changed, other, low, width in self._xors():
            field[changed] ^= (field[other] >> low) & ((1 << width) - 1)
        bank = field["channel"]
        for name in _XOR_ORDER[:-1]:
            bank = (bank << self.bits[name]) | field[name]
        return Location(field["channel"], bank, field["row"], field["column"])

    def _xors(self) -> list[tuple[str, str, int, int]]:
        """In turn: the field that is changed, the one that it is XORed with, the latter's lowest bit, the width."""
        bits, xors, used = self.bits, [], 0
        if self.name == "mop4clxor":
            for name in _XOR_ORDER:
                xors.append((name, "column", used, bits[name]))
                used += bits[name]
        elif self.name == "bank_group_low_hash":
            xors = [("group", "row", 0, bits["group"]), ("bank", "row", bits["group"], bits["bank"])]
        return xors

    def tables(self) -> MapTables:
        """The map for :func:`locate_one`."""
        filled = dict.fromkeys(FIELDS, 0)
        pieces = []
        for name, width in self._pieces():
            pieces.append((FIELDS.index(name), width, filled[name]))
            filled[name] += width
        xors = [(FIELDS.index(changed), FIELDS.index(other), low, width) for changed, other, low, width in self._xors()]
        return MapTables(
            pieces=np.array(pieces, dtype=np.int64),
            xors=np.array(xors, dtype=np.int64).reshape(-1, 4),
            bits=np.array([*(self.bits[name] for name in FIELDS), self.access_bits], dtype=np.int64),
            location=np.zeros(len(FIELDS) + 1, dtype=np.int64),
        )
