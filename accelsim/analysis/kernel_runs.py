"""Runs of micro-kernels on the simulator, and the rates that follow from their counters.

Rates are marginal: what twice the work adds, over the cycles that it adds. What a run costs at its begin and end, such
as fill, drain and latency, drops out; size over time would still be a few percent low at megabytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from accelsim.analysis.roofs import OPERATIONS_PER_MAC
from accelsim.engine import simulate
from accelsim.errors import BufferOverflow, MappingError, TilingNumberError
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.program.bounds import busy_cycles
from accelsim.program.lower import lower
from accelsim.program.tables import ActivityKind
from accelsim.schedule.living import default_tensors, service_key
from accelsim.schedule.notation import DramTensor, Schedule, TensorKind
from accelsim.schedule.tiling import tile as tile_schedule
from accelsim.timeline.table import Timeline
from accelsim.workload.graph import Workload

STEADY = 0.001
"""A rate is steady if doubling the size once more changes it by no more than this, relatively."""

MOST_OVERHEAD = 0.05


class Counts(NamedTuple):
    """What a run of a kernel did, read from its counters."""

    cycles: int
    operations: int
    bytes: int
    energy_pj: float
    """Of the part that the kernel is about."""
    compute_cycles: int = 0
    """Cycles in which the core was busy."""
    transfer_cycles: int = 0
    """Cycles in which the link was busy."""


class Rate(NamedTuple):
    """What a larger run adds to a smaller one, for each cycle and for each picojoule."""

    operations_per_cycle: float
    bytes_per_cycle: float
    operations_per_pj: float
    pj_per_byte: float
    overhead: float
    """Share of the larger run that this rate does not explain: fill and drain, or an array that is partly idle."""
    unsteady: float = 0.0
    """How much the rate changed with the last doubling, relatively."""


def power_of_two(most: int) -> int:
    """The largest power of two up to ``most``; at least 1."""
    return 1 << max(most.bit_length() - 1, 0)


def on_chip(workload: Workload, buffers: int = 2) -> Schedule:
    """Operators one after another, each a single tile, whose results stay on chip; only weights move.

    With one buffer the weights of an operator are loaded when its turn has come, with two while the one before it runs,
    with three one earlier still.
    """
    order = tuple(operator.name for operator in workload.operators)
    schedule = Schedule(workload.name, order, tuple(range(1, len(order))), (), (1,) * len(order))
    moved: list[DramTensor] = []
    for tensor in default_tensors(tile_schedule(workload, schedule)):
        if tensor.dram is None:
            continue
        dram = tensor.dram
        if dram.kind is TensorKind.LOAD_WEIGHT:
            dram = replace(dram, start=max(order.index(dram.operator) + 1 - buffers, -1))
        moved.append(dram)
    return replace(schedule, dram_tensors=tuple(sorted(moved, key=service_key)))


def chain(workload: Workload, accelerator: Accelerator, part: int) -> Counts | None:
    """Runs a chain whose results stay on chip, double-buffered; None where the machine cannot."""
    try:
        return moved(simulate(lower(workload, accelerator, on_chip(workload))), part)
    except (BufferOverflow, MappingError, TilingNumberError):
        return None


def moved(timeline: Timeline, part: int) -> Counts:
    """The counters of a whole run."""
    activities, energy_pj = timeline.program.activities, timeline.program.energy_pj
    busy = busy_cycles(timeline.program)
    return Counts(
        cycles=timeline.latency_cycles,
        operations=OPERATIONS_PER_MAC * int(activities.macs.sum()) + int(activities.vector_ops.sum()),
        bytes=int(activities.bytes.sum()),
        energy_pj=math.fsum(energy_pj[:, part].tolist()),
        compute_cycles=busy["core"],
        transfer_cycles=max(cycles for name, cycles in busy.items() if name != "core"),
    )


def tile(workload: Workload, accelerator: Accelerator, part: int) -> Counts:
    """Runs an operator as one tile, and counts from the tile's start to its end.

    Raises :class:`MappingError` where the array cannot hold the tile.
    """
    name = workload.operators[0].name
    program = lower(workload, accelerator, Schedule(workload.name, (name,), (), (), (1,)))
    timeline = simulate(program)
    row = int(np.flatnonzero(program.activities.kind == ActivityKind.TILE)[0])
    event = int(np.flatnonzero(timeline.events.activity == row)[0])
    read = accelerator.dataflow.port_bytes(TileColumns(*np.ascontiguousarray(program.shapes.T)))
    return Counts(
        cycles=int(timeline.events.end_cycles[event] - timeline.events.start_cycles[event]),
        operations=OPERATIONS_PER_MAC * int(program.activities.macs[row]) + int(program.activities.vector_ops[row]),
        bytes=int(read[0]) if read is not None and len(read) else 0,
        energy_pj=float(program.energy_pj[row, part]),
    )


def steady(run: Callable[[int], Counts]) -> Iterator[Rate]:
    """The marginal rate from size 2 to size 4, if that from 1 to 2 is the same."""
    try:
        once, twice, four_times = (run(size) for size in (1, 2, 4))
    except (BufferOverflow, MappingError):
        return
    first, second = twice.cycles - once.cycles, four_times.cycles - twice.cycles
    if first > 0 and abs(second / (2 * first) - 1) <= STEADY:
        operations, moved = four_times.operations - twice.operations, four_times.bytes - twice.bytes
        energy_pj = four_times.energy_pj - twice.energy_pj
        yield Rate(
            operations_per_cycle=operations / second,
            bytes_per_cycle=moved / second,
            operations_per_pj=operations / energy_pj if energy_pj else 0.0,
            pj_per_byte=energy_pj / moved if moved else 0.0,
            overhead=abs(
                1
                - (four_times.operations / operations if operations else four_times.bytes / max(moved, 1))
                * second
                / four_times.cycles
            ),
            unsteady=abs(second / (2 * first) - 1),
        )


def best(rates: Iterable[Rate]) -> Rate | None:
    """The fastest rate; of all that are within a percent of it, the one with the least overhead.

    Rates that leave much of their own run unexplained are used only where there is no other: between two sizes that
    both waste a part of the array, work is added to lanes that had been idle, faster than the array could ever run.
    """
    found = list(rates)
    trusted = [rate for rate in found if rate.overhead <= MOST_OVERHEAD] or found
    fastest = max((rate.operations_per_cycle for rate in trusted), default=0.0)
    near = [rate for rate in trusted if rate.operations_per_cycle >= 0.99 * fastest]
    return min(near, key=lambda rate: rate.overhead, default=None)
