"""Memory requests as something to replay: what ``accelsim memory`` reads, and SCALE-Sim's DRAM traces.

The requests go over the machine's path to DRAM, in the order of the file: a core ``requester`` lets the
recorded time pass between them; a cycle of the trace is one of the machine. So a replay shows how long the
path takes for this traffic, and where requests queue up; for banks and rows there is ``accelsim memory``.

SCALE-Sim writes lines of a cycle and the addresses that are asked for in it, -1 for none, one word each;
words are taken to be of one byte. Files with OFMAP in their name are written, others read.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from accelsim.errors import FormatError, InputError
from accelsim.formats.memory_trace import MAXIMUM_FILE_BYTES, read_memory_trace
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.memory.memory import ALWAYS, ONE_BURST, MemoryRequests
from accelsim.program.requests import requests_program
from accelsim.program.tables import Program
from accelsim.yaml_source import read_text

BURST_BYTES = 64
"""Of a request without a size: a burst of DDR4 and DDR5 modules."""
_SCALESIM_LINE = re.compile(r"\s*-?\d+(\.0*)?\s*(,\s*(-?\d+(\.0*)?)?\s*)+")
_LATEST = 1 << 53


def read_request_trace(
    path: str | Path, accelerator: Accelerator | None = None, times: str | Path | None = None
) -> Program:
    """Reads a trace of memory requests, for ``accelerator`` to serve.

    Raises:
        FormatError: it cannot be read, or a line is no request; with file and line.
        InputError: there is no machine.
    """
    path = Path(path)
    if times is not None:
        raise InputError(f"{path}: --times is for execution traces of PyTorch, this is none")
    text = read_text(path, FormatError, MAXIMUM_FILE_BYTES)
    is_scalesim = _SCALESIM_LINE.fullmatch(text[: text.find("\n") if "\n" in text else len(text)].rstrip("\r"))
    requests = _scalesim_requests(text, path) if is_scalesim else read_memory_trace(path)
    if accelerator is None:
        raise InputError(
            f"{path}: a trace of memory requests does not tell how fast they are served; give the machine with "
            "--hardware"
        )
    notes = []
    if without := int((requests.bytes == ONE_BURST).sum()):
        notes.append(f"{without:,} requests without a size are taken for one burst of {BURST_BYTES} bytes")
    if (requests.arrival_cycles == ALWAYS).all():
        notes.append("the trace has no times: every request is offered from the beginning")
    if accelerator.dram.memory is not None:
        notes.append("the path to memory is taken as a link; for its banks and rows there is accelsim memory")
    if is_scalesim:
        notes.append("SCALE-Sim does not tell the size of a word; taken for one byte")
    size = np.where(requests.bytes == ONE_BURST, BURST_BYTES, requests.bytes)
    arrival = np.where(requests.arrival_cycles == ALWAYS, 0, requests.arrival_cycles)
    return requests_program(arrival, size, requests.is_write, accelerator, path.name.split(".")[0], notes)


def _scalesim_requests(text: str, path: Path) -> MemoryRequests:
    """One request a line; cycle 0 is that of the first, for prefetches have negative ones."""
    is_write = "ofmap" in path.name.lower()
    cycles: list[int] = []
    sizes: list[int] = []
    addresses: list[int] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        if not _SCALESIM_LINE.fullmatch(line):
            raise FormatError(f"{path}:{number}: {line.strip()[:60]!r} is no line of a cycle and addresses")
        words = [int(word.strip().partition(".")[0]) for word in line.split(",") if word.strip()]
        cycle, asked = words[0], [word for word in words[1:] if word >= 0]
        if cycles and cycle < cycles[-1]:
            raise FormatError(
                f"{path}:{number}: cycle {cycle:,} comes after cycle {cycles[-1]:,}; lines must be in order"
            )
        if not -_LATEST < cycle < _LATEST:
            raise FormatError(f"{path}:{number}: cycle {cycle:,} is beyond the clock")
        if asked:
            cycles.append(cycle)
            sizes.append(len(asked))
            addresses.append(min(asked[0], _LATEST))
    if not cycles:
        raise FormatError(f"{path}: no line asks for an address")
    arrival = np.array(cycles, dtype=np.int64) - cycles[0]
    count = len(cycles)
    return MemoryRequests(
        arrival,
        np.array(addresses, dtype=np.int64),
        np.array(sizes, dtype=np.int64),
        np.full(count, is_write),
        np.zeros(count, dtype=np.int64),
    )
