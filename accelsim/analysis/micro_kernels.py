"""Micro-kernels beyond the roofs: what keeps a machine from its roofs, each measured by runs on the simulator.

| kernel | does | finds |
| --- | --- | --- |
| K4 | a 1 x 1 convolution with stride 1, 2, 4, 8 | how far strides slow reads down |
| K6 | loads that each wait for the one before | latency of DRAM |
| K7 | square matrix products, T = 16, 32, … | points that move right along the roof: intensity in proportion to T |
| K8 | a matrix product with M = 1, 2, 4, … rows | the share of the array that few rows use: the corner of decode |
| K9 | tiles and loads at once, with one, two, three buffers | overlap exponent p, the price of single buffering |
| K10 | the same work with a bubble of N cycles | power that flows whatever happens |
| K11 | a product with S - 1, S and S + 1 columns | what edges cost: the law of spatial utilisation |

K1 to K3 are in :mod:`accelsim.analysis.measure`; K5 is ``accelsim memory``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar

import numpy as np

from accelsim.analysis.energy import energy_pj
from accelsim.analysis.kernel_runs import on_chip, power_of_two, tile
from accelsim.engine import simulate
from accelsim.errors import BufferOverflow, MappingError, ProgramError, ScheduleError
from accelsim.hardware.accelerator import Accelerator
from accelsim.program.bounds import busy_cycles
from accelsim.program.lower import lower
from accelsim.program.tables import ACTIVITY_SIZES, ActivityKind, DependencyTable, Program, ResourceKind
from accelsim.schedule.notation import Schedule
from accelsim.timeline.table import Timeline
from accelsim.workload.graph import Workload
from accelsim.workload.models.micro import matmul_chain, stream, strided

P = ParamSpec("P")
T = TypeVar("T")

LONG = 24
"""Products in the chains of K9."""


@dataclass(frozen=True)
class Finding:
    """One result of a micro-kernel."""

    kernel: str
    name: str
    value: float
    unit: str
    at: float
    """What was varied: stride, rows, side, buffers, columns; 0 where nothing is."""
    expected: float | None = None
    """What the template says; None where it says nothing."""
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As in ``roofs.json``; an infinite value is None."""
        found = dataclasses.asdict(self)
        return {name: None if value in (math.inf, -math.inf) else value for name, value in found.items()}


def micro_findings(accelerator: Accelerator) -> tuple[Finding, ...]:
    """Runs all of them. What a machine cannot run is left out."""
    found: list[Finding] = []
    for kernel in KERNELS.values():
        for finding in kernel(accelerator):
            found.append(finding)
    return tuple(found)


def _strides(accelerator: Accelerator) -> Iterator[Finding]:
    """K4: cycles of a strided convolution over those that port and array need for it; 1 where nothing conflicts."""
    mac, rate = accelerator.part_names.index("mac"), accelerator.buffers["global"].read_bytes_per_cycle
    for stride in (1, 2, 4, 8) if rate else ():
        counts = _maybe(tile, strided(stride=stride), accelerator, mac)
        if counts is not None and counts.bytes and rate:
            needed = max(math.ceil(counts.bytes / rate), counts.operations / 2 / accelerator.macs_per_cycle)
            yield Finding("K4", "cycles over those of port and array", counts.cycles / needed, "", stride, 1.0)


def _latency(accelerator: Accelerator) -> Iterator[Finding]:
    """K6: what one more dependent load adds, less its own time on the link."""
    chunk = 64
    cycles, busy = [], []
    for count in (8, 16):
        schedule = Schedule("stream", ("stream",), (), (), (count,))
        program = lower(stream(reads=1, writes=0, chunk_bytes=chunk).with_batch(count), accelerator, schedule)
        loads = np.flatnonzero(program.activities.kind == ActivityKind.LOAD)
        edges, loaded = program.dependencies, program.activities.kind == ActivityKind.LOAD
        chased = dataclasses.replace(
            program,
            activities=program.activities._replace(bytes=np.where(loaded, program.activities.bytes, 0)),
            dependencies=DependencyTable(
                np.concatenate([edges.before, loads[:-1]]), np.concatenate([edges.after, loads[1:]])
            ),
        )
        timeline = _maybe(simulate, chased)
        if timeline is None:
            return
        mine = np.isin(timeline.events.activity, loads)
        cycles.append(int(timeline.events.finish_cycles[mine].max()))
        busy.append(busy_cycles(chased)["dram"])
    each, own = ((ends[1] - ends[0]) / 8 for ends in (cycles, busy))
    yield Finding("K6", "latency of DRAM", each - own, "cycles", chunk, float(accelerator.dram.latency_cycles))


def _squares(accelerator: Accelerator) -> Iterator[Finding]:
    """K7: T x T results of a deep sum: 2 T T D operations on (2 T D + T T) bytes."""
    mac, depth = accelerator.part_names.index("mac"), 4096
    for side in (16, 32, 64, 128, 256, 512, 1024):
        workload = matmul_chain(rows=side, depth=depth, columns=side)
        counts = _maybe(tile, workload, accelerator, mac)
        if counts is not None:
            moved = 2 * side * depth + side * side
            yield Finding(
                "K7", "intensity at DRAM", counts.operations / moved, "op/B", side, side * 2 / (2 + side / depth)
            )
            yield Finding("K7", "rate", counts.operations / counts.cycles, "op/cycle", side)


def _rows(accelerator: Accelerator) -> Iterator[Finding]:
    """K8: few rows, as when a language model decodes."""
    mac = accelerator.part_names.index("mac")
    for rows in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512):
        workload = matmul_chain(rows=rows, depth=1024, columns=1024)
        counts = _maybe(tile, workload, accelerator, mac)
        if counts is not None:
            share = counts.operations / 2 / (accelerator.macs_per_cycle * counts.cycles)
            yield Finding("K8", "share of the peak rate", share, "", rows)


def _edges(accelerator: Accelerator) -> Iterator[Finding]:
    """K11: one column more than fits costs as much as many; the numbers of columns around powers of two."""
    mac = accelerator.part_names.index("mac")
    for whole in (64, 128, 256):
        cycles = {}
        for columns in (whole - 1, whole, whole + 1):
            workload = matmul_chain(rows=1024, depth=1024, columns=columns)
            counts = _maybe(tile, workload, accelerator, mac)
            if counts is not None:
                cycles[columns] = counts.cycles
                share = counts.operations / 2 / (accelerator.macs_per_cycle * counts.cycles)
                yield Finding("K11", "share of the peak rate", share, "", columns)


def overlap(accelerator: Accelerator, buffers: int) -> Finding | None:
    """K9: a chain of products whose tiles take about as long as loading their weights.

    Activations stay on chip, so that only weights move. With one buffer a load begins when its tile's turn has come,
    with two a tile ahead, with three two tiles ahead.

    Args:
        accelerator: the machine.
        buffers: 1, 2 or 3.

    Returns:
        The exponent p of T = (T_compute^p + T_memory^p)^(1/p), from the cycles that a longer chain adds; None where the
        machine cannot run it.
    """
    workload = _balanced_chain(accelerator)
    if workload is None:
        return None

    def run(chain: Workload) -> Timeline:
        return simulate(lower(chain, accelerator, on_chip(chain, buffers)))

    cycles, busy = [], []
    for count in (LONG // 2, LONG):
        chain = replace(workload, operators=workload.operators[:count], outputs=())
        timeline = _maybe(run, chain)
        if timeline is None:
            return None
        events, program = timeline.events, timeline.program
        on_core = program.resources.kind[events.resource] == ResourceKind.CORE
        spent = events.end_cycles - events.start_cycles
        cycles.append(timeline.latency_cycles)
        busy.append((int(spent[on_core].sum()), int(spent[~on_core].sum())))
    longer = cycles[1] - cycles[0]
    core, link = (late - early for early, late in zip(*busy, strict=True))
    if not core or not link:
        return None
    exponent = _exponent(core, link, longer)
    share = max(core, link) / longer
    names = {1: "single buffering", 2: "double buffering", 3: "triple buffering"}
    note = f"{names[buffers]}: {100 * share:.0f} % of the roof at the knee"
    return Finding("K9", "overlap exponent", exponent, "", buffers, 1.0 if buffers == 1 else None, note)


def _overlaps(accelerator: Accelerator) -> Iterator[Finding]:
    for buffers in (1, 2, 3):
        if (finding := overlap(accelerator, buffers)) is not None:
            yield finding


def _balanced_chain(accelerator: Accelerator) -> Workload | None:
    """Products that compute about as long as their weights take to load; three of them fit into the buffer."""
    side = power_of_two(math.isqrt(accelerator.buffers["global"].capacity_bytes // 8))
    mac, link = accelerator.part_names.index("mac"), side * side / float(accelerator.dram.bytes_per_cycle)
    rows = 1
    while rows < 4 * side:
        one = _maybe(tile, matmul_chain(rows=rows, depth=side, columns=side), accelerator, mac)
        if one is None:
            return None
        if one.cycles >= link:
            break
        rows *= 2
    return matmul_chain(rows=rows, depth=side, columns=side, operators=LONG)


def _exponent(core: float, link: float, cycles: float) -> float:
    """p for which (core^p + link^p)^(1/p) is the cycles; infinite if they are no more than the larger one."""
    larger = max(core, link)
    if cycles <= larger * (1 + 1e-9):
        return math.inf
    low, high = 0.1, 1000.0
    for _ in range(100):
        middle = (low + high) / 2
        value = larger * ((core / larger) ** middle + (link / larger) ** middle) ** (1 / middle)
        low, high = (middle, high) if value > cycles else (low, middle)
    return low


def _bubbles(accelerator: Accelerator) -> Iterator[Finding]:
    """K10: energy that a bubble adds, over its cycles."""
    found = _maybe(bubble_power, accelerator)
    if found is not None:
        yield Finding("K10", "power of an idle cycle", found, "pJ/cycle", 0, accelerator.static_pj_per_cycle)


def bubble_power(accelerator: Accelerator, cycles: int = 10_000) -> float:
    """Picojoules that an idle cycle costs: the same work with and without a bubble of so many cycles at its end."""
    side = power_of_two(math.isqrt(accelerator.buffers["global"].capacity_bytes // 16))
    workload = matmul_chain(rows=side, depth=side, columns=side)
    program = lower(workload, accelerator, Schedule("bubbles", (workload.operators[0].name,), (), (), (1,)))
    short, long = (simulate(with_bubble(program, length)) for length in (1, cycles + 1))
    added = long.latency_cycles - short.latency_cycles
    return (energy_pj(long) - energy_pj(short)) / added


def with_bubble(program: Program, cycles: int) -> Program:
    """The same program with a tile of so many cycles behind the others, which does nothing and costs nothing."""
    activities = program.activities
    stores = np.flatnonzero(activities.kind == ActivityKind.STORE)
    last = int(stores[-1]) if len(stores) else program.size - 1
    core = int(np.flatnonzero(program.resources.kind[program.queues.resource] == ResourceKind.CORE)[0])
    new = dict.fromkeys(activities._fields, -1) | dict.fromkeys(ACTIVITY_SIZES, 0)
    new |= {"queue": core, "kind": int(ActivityKind.TILE), "cycles": cycles}
    columns = [np.append(getattr(activities, name), new[name]) for name in activities._fields]
    edges = program.dependencies
    return dataclasses.replace(
        program,
        activities=type(activities)(*columns),
        dependencies=DependencyTable(np.append(edges.before, last), np.append(edges.after, program.size)),
        energy_pj=np.concatenate([program.energy_pj, np.zeros((1, len(program.part_names)))]),
    )


def _maybe(run: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T | None:
    """What a run gives; None where the machine cannot run it."""
    try:
        return run(*arguments, **options)
    except (BufferOverflow, MappingError, ProgramError, ScheduleError):
        return None


KERNELS: dict[str, Callable[[Accelerator], Iterator[Finding]]] = {
    "K4": _strides,
    "K6": _latency,
    "K7": _squares,
    "K8": _rows,
    "K9": _overlaps,
    "K10": _bubbles,
    "K11": _edges,
}
