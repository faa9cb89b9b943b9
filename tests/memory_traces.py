"""Request traces of the reference runs in ``tests/data/dram_runs.csv``, made anew from the parameters of each row.

Engine s works from (s + 1) * 64 MiB, staggered ones s * (1 MiB + 12 KiB) further. Random numbers are splitmix64:
the k-th value mixes seed + k * 0x9E3779B97F4A7C15.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from accelsim.hardware.memory.memory import ALWAYS, ONE_BURST, MemoryRequests

MIB = 1 << 20
ARRIVAL_SEED = 7


def rows_of(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a table; lines that begin with # are notes."""
    with path.open(encoding="utf-8") as file:
        yield from csv.DictReader(line for line in file if not line.startswith("#"))


def splitmix(seed: int, count: int) -> np.ndarray:
    z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform(seed: int, count: int) -> np.ndarray:
    return (splitmix(seed, count) >> np.uint64(11)).astype(np.float64) / 2.0**53


def base(engine: int, parameters: dict) -> int:
    staggered = parameters.get("layout") == "staggered"
    return (engine + 1) * 64 * MIB + (engine * (MIB + 12 * 1024) if staggered else 0)


def tiles(count: int, access: int, start: int, parameters: dict) -> np.ndarray:
    width, pitch, height = max(parameters["w"], access), parameters["pitch"], parameters["h"]
    i, per_row = np.arange(count), width // access
    tile = i // (per_row * height)
    down, right = tile // (pitch // width), tile % (pitch // width)
    row = down * height + i // per_row % height
    return start + (row * pitch + right * width + i % per_row * access) % (256 * MIB)


def in_turn(streams: list[tuple[np.ndarray, bool, int]], chunk: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Address, write and engine of streams that are served round robin, ``chunk`` accesses times its weight a turn."""
    turn = np.concatenate([np.arange(len(a)) // (chunk * weight) for a, _, weight in streams])
    engine = np.concatenate([np.full(len(a), number) for number, (a, _, _) in enumerate(streams)])
    order = np.lexsort((engine, turn))
    address = np.concatenate([a for a, _, _ in streams])[order]
    is_write = np.concatenate([np.full(len(a), write) for a, write, _ in streams])[order]
    return address, is_write, engine[order]


def requests_of(row: dict[str, str]) -> MemoryRequests:
    """The trace of one row."""
    parameters, access, count = json.loads(row["pattern_params"]), int(row["access_bytes"]), int(row["n_requests"])
    kind, i = parameters["pattern"], np.arange(count)
    is_write, engine = np.full(count, bool(parameters.get("wr"))), np.zeros(count, dtype=np.int64)
    if kind == "seq":
        address = base(0, parameters) + i * access
    elif kind == "stride":
        address = base(0, parameters) + i * parameters["stride"] % (1 << 30)
    elif kind == "random":
        address = (splitmix(parameters["seed"], count) % np.uint64((1 << 30) // access)).astype(np.int64) * access
        is_write = uniform(parameters["seed"] + 1, count) < parameters["wfrac"]
    elif kind == "tile":
        address = tiles(count, access, base(0, parameters), parameters)
    elif kind == "streams":
        each = np.arange(count // len(parameters["rw"])) * access
        streams = [(base(s, parameters) + each, letter == "W", 1) for s, letter in enumerate(parameters["rw"])]
        address, is_write, engine = in_turn(streams, parameters["chunk"])
    else:
        part = count // 7
        weights = base(0, parameters) + np.arange(4 * part) * access
        inputs = tiles(2 * part, access, base(1, parameters), parameters)
        outputs = base(2, parameters) + np.arange(part) * access
        streams = [(weights, False, 4), (inputs, False, 2), (outputs, True, 1)]
        address, is_write, engine = in_turn(streams, parameters["chunk"])
    arrival = np.full(len(address), ALWAYS)
    if row["rate_of_peak"] != "sat":
        mean = access / (float(row["rate_of_peak"]) * float(row["peak_bytes_per_cycle"]))
        arrival = np.floor(np.cumsum(-np.log(1.0 - uniform(ARRIVAL_SEED, len(address))) * mean)).astype(np.int64)
    return MemoryRequests(arrival, address.astype(np.int64), np.full(len(address), ONE_BURST), is_write, engine)
