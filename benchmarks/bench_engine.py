"""Times both engines on 100,000 activities, and checks that what was timed is right.

Four cores share one round-robin link. Each core runs load, compute, store in a loop, double-buffered: two input and two
output tiles fit into its buffer. ``python benchmarks/bench_engine.py`` prints the times; the answers are asserted.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

import accelsim.engine.compiled  # noqa: F401 (it would otherwise be imported at the first run)
from accelsim.engine import simulate
from accelsim.program.check import check_program
from accelsim.program.tables import (
    SHAPE_COLUMNS,
    ActivityKind,
    ActivityTable,
    Arbitration,
    BufferTable,
    ClaimTable,
    DependencyTable,
    IntColumn,
    Program,
    QueueTable,
    ReleaseTable,
    ResourceKind,
    ResourceTable,
)

LINK_BYTES_PER_CYCLE = 16
Answer = TypeVar("Answer")


def double_buffered(cores: int, activities: int, seed: int = 0) -> Program:
    """Load n, tile n and store n of each core, interleaved; input and output of a tile each hold space of their own.

    The space of input n is taken when load n starts and given back when tile n finishes; that of output n is taken when
    tile n starts and given back when store n finishes. A buffer holds two inputs and two outputs.
    """
    tiles = activities // (3 * cores)
    random = np.random.default_rng(seed)
    kind = np.tile([ActivityKind.LOAD, ActivityKind.TILE, ActivityKind.STORE], cores * tiles)
    core = np.tile(np.repeat(np.arange(cores), 3), tiles)
    row = np.arange(len(kind))
    number = row // (3 * cores)
    tile = kind == ActivityKind.TILE
    # Queues: a tile queue, a load queue and a store queue for each core. Resources: the cores, then the link.
    queue = core + cores * np.array([1, 0, 2])[np.arange(len(kind)) % 3]
    size = np.where(tile, 0, random.integers(1_000, 2_000, len(kind)))
    loads, tiles_, stores = row[kind == ActivityKind.LOAD], row[tile], row[kind == ActivityKind.STORE]
    of_core = core[loads]
    none = np.full(len(kind), -1)
    claims = 2 * len(loads)
    return Program(
        resources=ResourceTable(
            kind=np.array([ResourceKind.CORE] * cores + [ResourceKind.LINK]),
            bytes_numerator=np.array([0] * cores + [LINK_BYTES_PER_CYCLE]),
            bytes_denominator=np.ones(cores + 1, dtype=np.int64),
            latency_cycles=np.array([0] * cores + [20]),
            arbitration=np.full(cores + 1, Arbitration.ROUND_ROBIN),
            grant_bytes=np.zeros(cores + 1, dtype=np.int64),
        ),
        queues=QueueTable(np.concatenate((np.arange(cores), np.full(2 * cores, cores)))),
        activities=ActivityTable(
            queue=queue,
            kind=kind,
            cycles=np.where(tile, random.integers(600, 900, len(kind)), 0),
            bytes=size,
            operator=none * 0,
            tile=number,
            tensor=np.where(tile, -1, 0),
            position=none,
            macs=none * 0,
            vector_ops=none * 0,
            shape=none,
        ),
        dependencies=DependencyTable(np.concatenate((loads, tiles_)), np.concatenate((tiles_, stores))),
        claims=ClaimTable(
            buffer=np.concatenate((of_core, of_core + cores)),
            bytes=np.full(claims, 1),
            taken_by=np.concatenate((loads, tiles_)),
            tensor=np.full(claims, -1),
        ),
        releases=ReleaseTable(np.arange(claims), np.concatenate((tiles_, stores))),
        buffers=BufferTable(np.full(2 * cores, 2)),
        energy_pj=np.zeros((len(kind), 3)),
        shapes=np.zeros((0, len(SHAPE_COLUMNS)), dtype=np.int64),
        resource_names=(*(f"core{index}" for index in range(cores)), "link"),
        queue_names=tuple(f"{what}{index}" for what in ("tiles", "loads", "stores") for index in range(cores)),
        buffer_names=tuple(f"{what}{index}" for what in ("inputs", "outputs") for index in range(cores)),
        operator_names=("op",),
        tensor_names=("tensor",),
        part_names=("array", "buffer", "memory"),
    )


def recurrence(program: Program) -> int:
    """Latency of ``double_buffered`` with one core and a link of its own, without an event loop.

    A load waits for the load before it on its queue and for tile n-2 to give back its input; a tile for its load, the
    tile before it and store n-2; a store for its tile and the store before it. With two queues the link is contended,
    so this is a lower limit of the latency: the exact value where the link is never the bottleneck.
    """
    cycles = -(-program.activities.bytes // LINK_BYTES_PER_CYCLE) + program.activities.cycles
    latency = int(program.resources.latency_cycles[-1])
    longest = 0
    for core in range(len(program.resources.kind) - 1):
        rows = [program.activities.queue == core + which * (len(program.resources.kind) - 1) for which in (1, 0, 2)]
        load, tile, store = (cycles[mask].tolist() for mask in rows)
        load_end = tile_end = store_end = 0
        tile_ends, store_finishes = [0, 0], [0, 0]
        for n in range(len(tile)):
            load_end = max(load_end, tile_ends[n]) + load[n]
            tile_end = max(tile_end, load_end + latency, store_finishes[n]) + tile[n]
            store_end = max(store_end, tile_end) + store[n]
            tile_ends.append(tile_end)
            store_finishes.append(store_end + latency)
        longest = max(longest, store_finishes[-1])
    return longest


def busy_cycles(program: Program) -> IntColumn:
    """Cycles that each resource must be busy for."""
    cycles = -(-program.activities.bytes // LINK_BYTES_PER_CYCLE) + program.activities.cycles
    resource_of = program.queues.resource[program.activities.queue]
    busy: IntColumn = np.bincount(resource_of, weights=cycles).astype(np.int64)
    return busy


def best_of(count: int, run: Callable[..., Answer], *arguments: object) -> tuple[float, Answer]:
    """The least CPU time of some runs, in seconds, and the answer of the last."""
    times = []
    for _ in range(count):
        begin = time.process_time()
        answer = run(*arguments)
        times.append(time.process_time() - begin)
    return min(times), answer


def megabytes() -> float:
    """The most memory that the process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    after_import = megabytes()
    for cores in (4, 16, 64, 256):
        program = double_buffered(cores, 100_000)
        first, _ = best_of(1, simulate, program)  # compiles, or loads what was compiled
        check, _ = best_of(5, check_program, program)
        compiled, timeline = best_of(5, simulate, program)
        grown = megabytes() - after_import
        least = max(recurrence(program), int(busy_cycles(program).max()))
        assert least <= timeline.latency_cycles <= 1.05 * least, (least, timeline.latency_cycles)
        print(
            f"{cores:3} cores, {program.size:,} activities, {timeline.latency_cycles:,} cycles (at least {least:,}): "
            f"compiled {compiled * 1e3:.1f} ms, {check * 1e3:.1f} ms of it the check; first call {first:.2f} s; "
            f"the process has grown by {grown:.0f} MB"
        )
        if cores > 4:
            continue
        reference, definition = best_of(1, simulate, program, "reference")
        for name, one, other in zip(timeline.events._fields, timeline.events, definition.events, strict=True):
            assert np.array_equal(one, other), f"the engines differ in {name}"
        print(f"          reference {reference:.2f} s, {reference / compiled:.0f} times as long, every event equal")
        assert compiled <= 0.050, f"compiled engine: {compiled * 1e3:.1f} ms, the target is 50 ms"
        assert reference <= 5.0, f"reference engine: {reference:.2f} s, the target is 5 s"
        assert grown < 200, f"the process grew by {grown:.0f} MB, the target is 200 MB"


if __name__ == "__main__":
    main()
