"""The machine of ``docs/machine_rules.md``, compiled: what :mod:`accelsim.engine.reference` does, event for event."""

from __future__ import annotations

import numpy as np

from accelsim.engine.events import RECORDED, IntTable, event_table
from accelsim.engine.loop import CAUSE_QUEUE, begin, run_loop
from accelsim.engine.memory_use import Served
from accelsim.engine.state import (
    ASKED_AT,
    BYTES,
    COUNTS,
    CYCLES,
    EVENTS,
    FINISHED,
    FIRST_CLAIM,
    FIRST_RELEASE,
    FIRST_SUCCESSOR,
    HANDED,
    LEFT,
    MEMORY_LINK,
    NEXT,
    NOW,
    OFFERED,
    PENDING,
    PHASE,
    PORT_CYCLES,
    QUEUE,
    RELEASE,
    SERVED,
    TAKEN,
    UNFINISHED,
    Machine,
)
from accelsim.engine.status import ASK_MEMORY, MORE_EVENTS, STUCK, Stuck, deadlock
from accelsim.jit import kernel
from accelsim.program.tables import (
    MAXIMUM_TOTAL,
    Arbitration,
    IntColumn,
    Program,
    ResourceKind,
    account_queues,
    byte_costs,
    port_cycles,
    port_shares,
)
from accelsim.timeline.table import Cause, EventTable

CAUSE_OF_KIND = np.array((Cause.TILE, Cause.LOAD, Cause.STORE, Cause.SEND), dtype=np.int64)
"""By :class:`accelsim.program.tables.ActivityKind`."""


@kernel
def group(keys: IntColumn, first: IntColumn, rows: IntColumn) -> None:
    """Sort rows by key, stably; see :func:`grouped`. ``first``: zeros, two more than there are keys."""
    for key in keys:
        if key >= 0:
            first[key + 2] += 1
    for key in range(2, len(first)):
        first[key] += first[key - 1]
    for row in range(len(keys)):
        if keys[row] >= 0:
            rows[first[keys[row] + 1]] = row
            first[keys[row] + 1] += 1


@kernel
def chain(queue: IntColumn, first: IntColumn, following: IntColumn) -> None:
    """The first activity of each queue (filled with -1 before) and, for each activity, the next one on its queue."""
    for activity in range(len(queue) - 1, -1, -1):
        following[activity] = first[queue[activity]]
        first[queue[activity]] = activity


@kernel
def join_pools(takers: IntColumn, buffers: IntColumn, pool: IntColumn) -> None:
    """Join the pools of buffers from which one activity claims. Claims stand in the order of their takers."""
    for row in range(1, len(takers)):
        if takers[row] == takers[row - 1]:
            one, other = buffers[row - 1], buffers[row]
            while pool[one] != one:
                one = pool[one]
            while pool[other] != other:
                other = pool[other]
            pool[max(one, other)] = min(one, other)
    for buffer in range(len(pool)):
        pool[buffer] = pool[pool[buffer]]


def grouped(keys: IntColumn, count: int) -> tuple[IntColumn, IntColumn]:
    """The rows of each key below ``count``, in row order: ``rows[first[key]:first[key + 1]]``; none below 0."""
    first = np.zeros(count + 2, dtype=np.int64)
    rows = np.empty(len(keys), dtype=np.int64)
    group(keys, first, rows)
    return first[:-1], rows[: first[count]]


def columns(rows: int, *values: IntColumn | int) -> IntTable:
    """A table with these columns; a number fills its column."""
    table = np.empty((rows, len(values)), dtype=np.int64)
    for column, value in enumerate(values):
        table[:, column] = value
    return table


def machine(program: Program) -> Machine:
    """The machine as it stands at cycle 0, before anything asks."""
    count, queues, resources = program.size, len(program.queues.resource), program.resources
    first_queue, queue_of_resource = grouped(program.queues.resource, len(resources.kind))
    rank = np.empty(queues, dtype=np.int64)
    rank[queue_of_resource] = np.arange(queues)
    queue_count = np.diff(first_queue)
    limit = program.queues.outstanding
    limited = np.zeros(len(queue_count), dtype=np.bool_)
    limited[program.queues.resource[limit > 0]] = True
    whole = (resources.grant_bytes == 0) | ((queue_count == 1) & ~limited)
    grant = np.where(whole, MAXIMUM_TOTAL, resources.grant_bytes)
    alone = (resources.kind == ResourceKind.CORE) | (queue_count == 1)
    policy = np.where(alone, Arbitration.ROUND_ROBIN, resources.arbitration)
    first_return = np.cumsum(limit) - limit
    account, costs = account_queues(program.queues), np.array(byte_costs(program), dtype=np.int64)
    arbitration = (account, costs, 0, program.queues.rank, 0, limit, first_return, 0, 0, program.queues.port)

    # Programs can be long, so each column is put into its table and forgotten before the next one is made.
    activities = np.empty((count + 1, 14), dtype=np.int64)
    activities[:count, QUEUE] = program.activities.queue
    activities[:count, CYCLES] = program.activities.cycles
    activities[:count, BYTES] = program.activities.bytes
    activities[:count, PORT_CYCLES] = port_cycles(program)
    activities[:, ASKED_AT : RELEASE + 1] = -1
    activities[:, SERVED : PHASE + 1] = 0
    head, successors = _order(program, activities)
    claims = program.claims
    activities[:, FIRST_CLAIM], claim_of_taker = grouped(claims.taken_by, count)
    activities[:, FIRST_RELEASE], release = grouped(program.releases.activity, count)
    claim_of_releaser = program.releases.claim[release]
    del release
    releasers = np.bincount(program.releases.claim, minlength=len(claims.bytes))
    in_use = np.zeros(len(program.buffers.capacity_bytes), dtype=np.int64)
    pool = np.arange(len(in_use))
    join_pools(claims.taken_by[claim_of_taker], claims.buffer[claim_of_taker], pool)
    at_once = claims.taken_by < 0
    np.add.at(in_use, claims.buffer[at_once], claims.bytes[at_once])
    counts = np.zeros(COUNTS, dtype=np.int64)
    counts[UNFINISHED] = count
    counts[[MEMORY_LINK, OFFERED, HANDED]] = -1
    numerator, denominator = resources.bytes_numerator.copy(), resources.bytes_denominator.copy()
    for core, share in port_shares(program).items():
        numerator[core], denominator[core] = share.numerator, share.denominator
    rates = (numerator, denominator, resources.latency_cycles, grant)
    return Machine(
        activities,
        columns(queues, program.queues.resource, rank, head, 0, -1, -1, -1, -1, -1, *arbitration),
        columns(len(grant), *rates, first_queue[:-1], queue_count, 0, 0, -1, -1, 0, policy, 0, 0, 0, 0, 0, -1),
        columns(len(in_use), program.buffers.capacity_bytes, in_use, -1, pool, 0, 0, 0, -1, -1, 0),
        columns(
            len(releasers),
            claims.buffer,
            claims.bytes,
            np.where(releasers == 0, -1, releasers),
            at_once.astype(np.int64),
        ),
        successors,
        claim_of_taker,
        claim_of_releaser,
        queue_of_resource,
        heap=np.empty((count + 1 + queues, 2), dtype=np.int64),
        open=np.empty(len(grant), dtype=np.int64),
        stale=np.empty(len(in_use), dtype=np.int64),
        returns=np.full((int(limit.sum()), 2), -1, dtype=np.int64),
        counts=counts,
    )


def _order(program: Program, activities: IntTable) -> tuple[IntColumn, IntTable]:
    """Who follows whom, filled into the activities' table; the first of each queue, and the successors."""
    count = program.size
    head = np.full(len(program.queues.resource), -1, dtype=np.int64)
    following = np.empty(count, dtype=np.int64)
    chain(program.activities.queue, head, following)
    activities[:count, NEXT] = following
    activities[:, FIRST_SUCCESSOR], edges = grouped(program.dependencies.before, count)
    before, after = program.dependencies.before[edges], program.dependencies.after[edges]
    cause = np.where(following[before] == after, CAUSE_QUEUE, CAUSE_OF_KIND[program.activities.kind[before]])
    pending = np.bincount(after, minlength=count)
    pending[following[following >= 0]] += 1
    activities[:count, PENDING] = pending
    return head, columns(len(after), after, cause)


def run(program: Program) -> tuple[EventTable, Served | None]:
    """Run a checked program to its end; with a memory with banks, also what that served.

    Raises:
        Deadlock: activities are left and none of them can ever start.
    """
    m = machine(program)
    events = np.empty((program.size + len(m.resources), len(RECORDED)), dtype=np.int64)
    behind = None
    if program.memory is not None and program.memory.fidelity == "banks":
        from accelsim.engine.banks import BankedMemory  # compiled code that other programs do without

        behind = BankedMemory(program, program.memory)
        m.counts[MEMORY_LINK] = program.memory.link
    begin(m)
    while (status := run_loop(m, events)) in (MORE_EVENTS, ASK_MEMORY):
        if status == MORE_EVENTS:
            events = np.concatenate((events, np.empty_like(events)))
        elif behind is not None:
            behind.advance(m, events)
    asked = m.activities[:-1, ASKED_AT]
    if status == STUCK:
        held = (m.claims[:, TAKEN] == 1) & (m.claims[:, LEFT] != 0)
        raise deadlock(program, Stuck(int(m.counts[NOW]), asked, m.activities[:-1, PHASE] == FINISHED, held))
    recorded = events[: m.counts[EVENTS]]
    if behind is None:
        del m  # of a long program it is three times as large as the events
        asked = asked.copy()
        return event_table(program, recorded, asked), None
    table = event_table(program, recorded, asked, behind.finish_cycles)
    return table, behind.served(m, events, int(table.finish_cycles.max(initial=0)))
