"""Memory traces: one request a line. Three forms, told apart by the first line that holds a request.

* ``LoadStore`` of Ramulator: ``LD 0x1f40`` or ``ST 8000``. No time: every request is offered from the beginning.
* DRAMsim3: ``0x1f40 READ 17`` or ``0x1f40 WRITE 20``: hexadecimal address, kind, cycle of arrival.
* ours: a header ``arrival,address,bytes,kind,engine`` and lines such as ``17,0x1f40,4096,read,2``. Columns may stand in
  any order; only ``address`` and ``kind`` are required. Without ``arrival`` requests are always offered, without
  ``bytes`` each is one burst, without ``engine`` all are of engine 0.

Empty lines and lines that begin with ``#`` are skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from accelsim.errors import FormatError
from accelsim.files import write_whole
from accelsim.hardware.memory.memory import ALWAYS, ONE_BURST, MemoryRequests
from accelsim.yaml_source import read_text

MAXIMUM_FILE_BYTES = 4 << 30
COLUMNS = ("arrival", "address", "bytes", "kind", "engine")
LARGEST = {"arrival": 1 << 56, "address": 1 << 56, "bytes": 1 << 40, "engine": 1 << 16}

LOAD_STORE = {"LD": False, "ST": True}
READ_WRITE = {"READ": False, "WRITE": True, "P_MEM_RD": False, "P_MEM_WR": True, "BOFF": False}
KINDS = {"read": False, "write": True, "r": False, "w": True}

_Row = tuple[int, int, int, bool, int]


def read_memory_trace(path: str | Path) -> MemoryRequests:
    """The requests of a trace file in any of the three forms.

    Raises:
        FormatError: no such file, no request in it, a line that is none, or one that arrives before the one above it;
            with file and line.
    """
    path = Path(path)
    lines = [
        (number, line)
        for number, line in enumerate(read_text(path, FormatError, MAXIMUM_FILE_BYTES).splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise FormatError(f"{path}: no request in it; expected lines such as 'LD 0x1f40'")
    first = lines[0][1]
    if "," in first:
        header = [name.strip() for name in first.split(",")]
        parse = _ours(header, f"{path}:{lines[0][0]}")
        lines = lines[1:]
        if not lines:
            raise FormatError(f"{path}: a header but no request; expected lines such as '17,0x1f40,64,read,0'")
    else:
        parse = _load_store if len(first.split()) == 2 else _dramsim3
    columns: tuple[list[int], ...] = ([], [], [], [], [])
    for number, line in lines:
        try:
            row = parse(line)
        except ValueError as problem:
            raise FormatError(f"{path}:{number}: {line.strip()[:60]!r}: {problem}") from None
        if columns[0] and row[0] < columns[0][-1]:
            raise FormatError(
                f"{path}:{number}: cycle {row[0]:,} comes after cycle {columns[0][-1]:,}; lines must be in order"
            )
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    arrival, address, size, is_write, engine = (np.array(column, dtype=np.int64) for column in columns)
    return MemoryRequests(arrival, address, size, is_write.astype(np.bool_), engine)


def write_memory_trace(requests: MemoryRequests, path: str | Path) -> None:
    """Writes the requests in our form. Raises :class:`InputError` where the file cannot be written."""
    rows = [",".join(COLUMNS)]
    for arrival, address, size, is_write, engine in zip(*requests, strict=True):
        rows.append(f"{arrival},{address:#x},{size},{'write' if is_write else 'read'},{engine}")
    write_whole(Path(path), ("\n".join(rows) + "\n").encode())


def _load_store(line: str) -> _Row:
    words = line.split()
    if len(words) != 2 or words[0] not in LOAD_STORE:
        raise ValueError("expected LD or ST and an address, as in 'LD 0x1f40'")
    return ALWAYS, _number(words[1], "address"), ONE_BURST, LOAD_STORE[words[0]], 0


def _dramsim3(line: str) -> _Row:
    words = line.split()
    if len(words) != 3 or words[1].upper() not in READ_WRITE:
        raise ValueError("expected an address, READ or WRITE and a cycle, as in '0x1f40 READ 17', or 'LD 0x1f40'")
    address = _number(words[0] if words[0].lower().startswith("0x") else f"0x{words[0]}", "address")
    return _number(words[2], "arrival"), address, ONE_BURST, READ_WRITE[words[1].upper()], 0


def _ours(header: list[str], place: str) -> Callable[[str], _Row]:
    """Reads lines under a header. Raises :class:`FormatError` for a header that is none."""
    unknown = [name for name in header if name not in COLUMNS]
    missing = [name for name in ("address", "kind") if name not in header]
    if unknown or missing or len(set(header)) < len(header):
        what = f"unknown column {unknown[0]!r}" if unknown else f"no column '{missing[0]}'" if missing else "twice"
        raise FormatError(f"{place}: {what}; expected a header with some of {','.join(COLUMNS)}, each at most once")
    at = {name: header.index(name) for name in header}

    def parse(line: str) -> _Row:
        words = [word.strip() for word in line.split(",")]
        if len(words) != len(header):
            raise ValueError(f"{len(words)} fields; the header has {len(header)}: {','.join(header)}")
        kind = words[at["kind"]].lower()
        if kind not in KINDS:
            raise ValueError(f"kind is {kind!r}; expected read or write")
        return (
            _number(words[at["arrival"]], "arrival") if "arrival" in at else ALWAYS,
            _number(words[at["address"]], "address"),
            _number(words[at["bytes"]], "bytes") if "bytes" in at else ONE_BURST,
            KINDS[kind],
            _number(words[at["engine"]], "engine") if "engine" in at else 0,
        )

    return parse


def _number(text: str, what: str) -> int:
    try:
        value = int(text, 16 if text[:2].lower() == "0x" else 10)
    except ValueError:
        raise ValueError(f"{what} is {text[:30]!r}; expected a whole number, decimal or 0x…") from None
    lowest = ALWAYS if what == "arrival" else 0
    if not lowest <= value <= LARGEST[what]:
        raise ValueError(f"{what} is {value}; expected {lowest} to {LARGEST[what]}")
    return value
