"""A link whose transfers take the time that a sample through the memory's controller says.

A DRAM moves a stream of bytes at some share of the rate of its pins, its *efficiency*. That depends on which streams
are served together: on their directions, on how many bytes lie side by side and how far apart the next ones, on where
the streams begin, and in which turns they are served. All that is the *mix*. Its efficiency is measured by running a
short sample of such streams through the controller, once for each mix, and kept.

A transfer is then as long on the link as if it had more bytes; so both engines run it as any other.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from accelsim.hardware.memory.attached import AttachedMemory
from accelsim.hardware.memory.dram import DramMemory
from accelsim.hardware.memory.memory import ALWAYS, MemoryRequests
from accelsim.program.memory_plan import MemoryPlan
from accelsim.program.tables import ActivityKind, IntColumn, Program
from accelsim.timeline.memory_use import MemoryUse
from accelsim.timeline.table import EventTable

SAMPLE = 4000
"""Accesses of a sample."""
WARM_UP = 0.2
"""Share of the sample that is left out, until the queues are full."""
FAR = 1 << 26
"""Streams of a sample begin so far apart, plus the place of the real one within ``NEAR`` bytes, in ``STEP``s."""
NEAR, STEP = 1 << 16, 1 << 12
REFRESHES, LONGEST = 8, 1 << 18
"""Refresh intervals, and accesses at most, of the sample that says what refreshes cost."""
LONG_TURN = 256
"""Accesses of one direction from which on the cost of a change does not depend on how many follow."""


class Stream(NamedTuple):
    """What a transfer is to a memory."""

    is_store: bool
    run_bytes: int
    """So many bytes lie side by side; 0: all of them."""
    pitch_bytes: int
    offset: int
    """Where it begins within ``NEAR`` bytes, in steps of ``STEP``."""


def streams(program: Program, plan: MemoryPlan) -> list[Stream]:
    """For each activity what its transfer is."""
    address, run, pitch = plan.placement
    contiguous = (run >= program.activities.bytes) | (run == pitch)
    columns = (
        program.activities.kind == ActivityKind.STORE,
        np.where(contiguous, 0, run),
        np.where(contiguous, 0, pitch),
        np.maximum(address, 0) % NEAR // STEP * STEP,
    )
    return [Stream(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


@lru_cache(maxsize=4)
def without_refresh(memory: AttachedMemory) -> DramMemory:
    """The memory for samples; refreshes are too far apart for them, and are added as a share of the time."""
    return DramMemory(memory.dram.template.model_copy(update={"refresh": "off", "injection": "one_queue"}))


@lru_cache(maxsize=4)
def refresh_share(memory: AttachedMemory) -> float:
    """The share of the time that refreshes leave.

    Of all banks they take tRFC + tRP + tRCD / 2 of every tREFI, for each rank. What those of one bank take from the
    others is measured, with sequential reads.
    """
    dram, timing = memory.dram, memory.dram.template.timing
    if dram.template.refresh == "off":
        return 1.0
    if dram.template.refresh == "all_bank":
        return 1 - dram.template.ranks * (timing.tRFC + timing.tRP + timing.tRCDRD / 2) / timing.tREFI
    cycles = REFRESHES * timing.tREFI * dram.cycles_per_clock
    number = np.arange(min(int(cycles * dram.peak_bytes_per_cycle) // dram.access_bytes, LONGEST))
    always, size = np.full(len(number), ALWAYS), np.full(len(number), dram.access_bytes)
    requests = MemoryRequests(always, number * dram.access_bytes, size, number < 0, number * 0)
    return without_refresh(memory).serve(requests).cycles / dram.serve(requests).cycles


@lru_cache(maxsize=4096)
def efficiency(memory: AttachedMemory, mix: tuple[Stream, ...], turn_accesses: int) -> float:
    """Bytes moved over what the pins could move, for streams served in turns of so many accesses."""
    dram = without_refresh(memory)
    each = SAMPLE // len(mix)
    number = np.arange(each * len(mix))
    turn, within = np.divmod(number, turn_accesses)
    stream, place = turn % len(mix), turn // len(mix) * turn_accesses + within
    address, is_write = np.zeros(len(number), dtype=np.int64), np.zeros(len(number), dtype=np.bool_)
    for row, one in enumerate(mix):
        mine = stream == row
        byte = place[mine] * dram.access_bytes
        if one.run_bytes:
            in_run = -(-one.run_bytes // dram.access_bytes)
            byte = place[mine] // in_run * one.pitch_bytes + place[mine] % in_run * dram.access_bytes
        address[mine] = (row * FAR + one.offset + byte) % dram.capacity_bytes
        is_write[mine] = one.is_store
    size = np.full(len(number), dram.access_bytes)
    address = address // dram.access_bytes * dram.access_bytes
    run = dram.serve(MemoryRequests(np.full(len(number), ALWAYS), address, size, is_write, number * 0))
    finished = np.sort(run.finished_cycles)
    first = int(WARM_UP * len(number))
    cycles = int(finished[-1] - finished[first])
    moved = (len(number) - 1 - first) * dram.access_bytes
    return min(moved / max(cycles, 1) / dram.peak_bytes_per_cycle, 1.0) * refresh_share(memory)


def turnaround_accesses(memory: AttachedMemory, accesses: int) -> float:
    """What a change of direction costs between transfers of so many accesses: how many more could have been served."""
    turn = 1 << min(max(accesses, 1), LONG_TURN).bit_length() - 1
    apart = [1 / efficiency(memory, (Stream(is_store, 0, 0, 0),), turn) for is_store in (False, True)]
    together = 1 / efficiency(memory, (Stream(False, 0, 0, 0), Stream(True, 0, 0, 0)), turn)
    return max(0.0, together - sum(apart) / 2) * turn


@lru_cache(maxsize=64)
def idle_latency_cycles(memory: AttachedMemory) -> int:
    """Of the memory: from the offer of a read to a memory that is idle until its data are there."""
    one = np.zeros(1, dtype=np.int64)
    return int(without_refresh(memory).serve(MemoryRequests(one, one, one, one > 0, one)).finished_cycles[0]) + 1


def side_by_side(program: Program, plan: MemoryPlan, events: EventTable, rows: IntColumn) -> list[list[int]]:
    """For each of these transfers itself and, of each other queue of the link, the transfer that stood there, asking or
    served, for the longest part of its time, if that is at least a half."""
    begin, end = np.full(program.size, 1 << 62), np.zeros(program.size, dtype=np.int64)
    np.minimum.at(begin, events.activity, events.start_cycles)
    np.maximum.at(end, events.activity, events.end_cycles)
    asked = np.zeros(program.size, dtype=np.int64)
    asked[events.activity] = events.ready_cycles
    queue_of, found = program.activities.queue, [[int(row)] for row in rows]
    for queue in np.flatnonzero(program.queues.resource == plan.link).tolist():
        others = rows[queue_of[rows] == queue]  # served in this order, so their ends ascend
        for mix in found:
            row = mix[0]
            if queue_of[row] == queue or not len(others):
                continue
            first = int(np.searchsorted(end[others], begin[row], side="right"))
            last = int(np.searchsorted(asked[others], end[row], side="left"))
            shared = [
                (int(min(end[other], end[row]) - max(asked[other], begin[row])), int(other))
                for other in others[first : max(first, last)]
            ]
            longest, other = max(shared, default=(0, -1))
            if 2 * longest >= end[row] - begin[row] > 0:
                mix.append(other)
    return found


def paid_bytes(program: Program, plan: MemoryPlan, events: EventTable | None = None) -> IntColumn:
    """For each activity the bytes that its transfer is as long as, at the link's own bandwidth.

    On a link with one queue transfers follow each other: each pays for its own stream, and for a change of direction.
    On others it pays for the mix of those that ``events`` of a run before show beside it.
    """
    activities, resources = program.activities, program.resources
    of_link = program.queues.resource[activities.queue] == plan.link
    rows = np.flatnonzero(of_link & (activities.bytes > 0))
    kinds, dram = streams(program, plan), plan.memory.dram
    queues = int((program.queues.resource == plan.link).sum())
    grant = int(resources.grant_bytes[plan.link])
    link_rate = Fraction(int(resources.bytes_numerator[plan.link]), int(resources.bytes_denominator[plan.link]))
    over_pins = float(link_rate / plan.clock_ratio) / dram.peak_bytes_per_cycle
    paid = activities.bytes.copy()
    mixes = [[int(row)] for row in rows]
    if events is not None and queues > 1:
        mixes = side_by_side(program, plan, events, rows)
    before = -1  # the row
    for row, mix in zip(rows.tolist(), mixes, strict=True):
        size = int(activities.bytes[row])
        sizes = [int(activities.bytes[one]) for one in mix]
        turn = min(grant or min(sizes), *sizes) if len(mix) > 1 else size
        accesses = 1 << max(-(-turn // dram.access_bytes), 1).bit_length() - 1 if len(mix) > 1 else 1
        chosen = tuple(sorted(kinds[one] for one in mix))
        longer = 1 / efficiency(plan.memory, chosen, accesses)
        extra = 0.0
        if queues == 1 and before >= 0 and activities.kind[before] != activities.kind[row]:
            shorter = min(size, int(activities.bytes[before])) // dram.access_bytes
            extra = turnaround_accesses(plan.memory, shorter) * dram.access_bytes
        paid[row] = max(size, math.ceil((size * longer + extra) * over_pins))
        before = row
    return paid


def run_calibrated(
    program: Program, plan: MemoryPlan, run: Callable[[Program], tuple[EventTable, object]]
) -> tuple[EventTable, MemoryUse]:
    """Run the program with an engine; on a link with several queues twice, to see first who stands beside whom."""
    resources, activities = program.resources, program.activities
    latency = resources.latency_cycles.copy()
    latency[plan.link] += math.ceil(idle_latency_cycles(plan.memory) / plan.clock_ratio)

    def paying(paid: IntColumn) -> EventTable:
        grant, whole = resources.grant_bytes.copy(), max(int(activities.bytes.sum()), 1)
        grant[plan.link] = -(-int(grant[plan.link]) * int(paid.sum()) // whole)
        longer = dataclasses.replace(
            program,
            resources=resources._replace(latency_cycles=latency, grant_bytes=grant),
            activities=activities._replace(bytes=paid),
            memory=None,
        )
        return run(longer)[0]

    paid = paid_bytes(program, plan)
    events = paying(paid)
    if int((program.queues.resource == plan.link).sum()) > 1:
        paid = paid_bytes(program, plan, events)
        events = paying(paid)
    dram = plan.memory.dram
    use = MemoryUse(
        fidelity=plan.fidelity,
        memory=dram.name,
        channels=dram.template.channels,
        peak_bytes_per_cycle=float(dram.peak_bytes_per_cycle * plan.clock_ratio),
    )
    return events._replace(bytes=moved_bytes(activities.bytes, paid, events)), use


def moved_bytes(size: IntColumn, paid: IntColumn, events: EventTable) -> IntColumn:
    """What each event moved in truth: shares of a transfer's bytes as of those that it paid for, whole numbers."""
    done, moved = np.zeros(len(size), dtype=np.int64), np.zeros(len(events.bytes), dtype=np.int64)
    for row, (activity, part) in enumerate(zip(events.activity.tolist(), events.bytes.tolist(), strict=True)):
        whole, of = int(size[activity]), max(int(paid[activity]), 1)
        moved[row] = (int(done[activity]) + part) * whole // of - int(done[activity]) * whole // of
        done[activity] += part
    return moved
