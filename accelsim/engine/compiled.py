"""The machine of ``docs/machine_rules.md`` as one compiled event loop.

It does what :mod:`accelsim.engine.reference` does, event for event, and looks only at what can have changed: a heap of
the next ends, the resources that were freed or asked for, and the activities that stand before a buffer. Kernels pass
the program and the state of the machine as two NamedTuples of columns; a claim that must wait costs one pass over those
that stand before the buffers, an activity without claims none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.engine.events import Recorded, event_table
from accelsim.engine.status import DONE, MORE_EVENTS, STUCK, Stuck, deadlock
from accelsim.jit import kernel
from accelsim.program.tables import MAXIMUM_TOTAL, IntColumn, Program
from accelsim.timeline.table import Cause, EventTable

CAUSE_BUFFER = int(Cause.BUFFER)
CAUSE_QUEUE = int(Cause.QUEUE)
CAUSE_RESOURCE = int(Cause.RESOURCE)
CAUSE_OF_KIND = np.array((Cause.TILE, Cause.LOAD, Cause.STORE), dtype=np.int64)
"""By :class:`accelsim.program.tables.ActivityKind`."""

# What an activity has done (State.phase).
ENDED = 1
FINISHED = 2
# Whether the head of a queue can start (State.ready); 0 = it does not ask, or it is served.
LACKS_SPACE = 1
READY = 2
# Rows of State.counts.
NOW, EVENTS, HEAP, STANDING, OPEN, SWEEPS, STALE, LEFT = range(8)


class Machine(NamedTuple):
    """The program as the loop reads it. ``x_of_y`` with ``y_first`` lists the x of each y, one after another."""

    bytes_numerator: IntColumn
    bytes_denominator: IntColumn
    latency: IntColumn
    grant: IntColumn
    resource_first: IntColumn
    queue_of_resource: IntColumn
    resource: IntColumn
    """Of each queue."""
    rank: IntColumn
    """Place of each queue in ``queue_of_resource``: the order in which ties are broken."""
    queue: IntColumn
    """Of each activity, as all columns down to ``claim_of_releaser``."""
    next: IntColumn
    """Behind it on its queue, or -1."""
    dependency_cause: IntColumn
    cycles: IntColumn
    bytes: IntColumn
    successor_first: IntColumn
    successor: IntColumn
    claim_first: IntColumn
    claim_of_taker: IntColumn
    release_first: IntColumn
    claim_of_releaser: IntColumn
    claim_buffer: IntColumn
    claim_bytes: IntColumn
    capacity: IntColumn


class State(NamedTuple):
    """All that changes while the loop runs."""

    pending: IntColumn
    """Activities: dependencies unfinished, plus one for the predecessor on the queue."""
    ask: IntColumn
    released: IntColumn
    """Activities: the last cycle at which something it had waited for happened …"""
    release: IntColumn
    """… and the least (cause, activity) of that cycle, as cause * activities + activity; -1 = none."""
    served: IntColumn
    """Activities: bytes granted."""
    phase: IntColumn
    head: IntColumn
    """Queues, as the next three."""
    ready: IntColumn
    short: IntColumn
    """The buffer without room for the head or for the one that holds it back; -1 = there is room."""
    short_before: IntColumn
    """``short`` at the end of the last cycle at which anything happened."""
    busy: IntColumn
    """Resources, as the next four."""
    last_activity: IntColumn
    last_event: IntColumn
    turn: IntColumn
    """The slot at which the search for the next queue starts."""
    is_open: IntColumn
    """Stands in ``open``."""
    open: IntColumn
    """The resources to look at."""
    standing: IntColumn
    """The queues whose head asks and has claims to take, in the order of asking."""
    in_use: IntColumn
    """Buffers, as the next three."""
    giver: IntColumn
    blocked_in: IntColumn
    """The last sweep in which the buffer was blocked …"""
    blocked_by: IntColumn
    """… and the place in ``standing`` of the first that had no room."""
    claim_left: IntColumn
    """Claims: releasers that have not finished."""
    claim_taken: IntColumn
    heap_cycle: IntColumn
    heap_activity: IntColumn
    counts: IntColumn


@kernel
def group(keys: IntColumn, count: int) -> tuple[IntColumn, IntColumn]:
    """The rows of each key below ``count``, in row order: ``rows[first[key]:first[key + 1]]``; none below 0."""
    first = np.zeros(count + 1, dtype=np.int64)
    for key in keys:
        if key >= 0:
            first[key + 1] += 1
    for key in range(count):
        first[key + 1] += first[key]
    rows = np.empty(first[count], dtype=np.int64)
    place = first[:count].copy()
    for row in range(len(keys)):
        key = keys[row]
        if key >= 0:
            rows[place[key]] = row
            place[key] += 1
    return first, rows


@kernel
def chain(queue: IntColumn, queues: int) -> tuple[IntColumn, IntColumn]:
    """The first activity of each queue and, for each activity, the next one on its queue; -1 = none."""
    first = np.full(queues, -1, dtype=np.int64)
    following = np.empty(len(queue), dtype=np.int64)
    for activity in range(len(queue) - 1, -1, -1):
        following[activity] = first[queue[activity]]
        first[queue[activity]] = activity
    return first, following


@kernel
def push(s: State, cycle: int, activity: int) -> None:
    """Add to the heap, ordered by (cycle, activity). An activity stands in it at most once."""
    child = s.counts[HEAP]
    s.counts[HEAP] += 1
    while child > 0:
        parent = (child - 1) >> 1
        if s.heap_cycle[parent] < cycle or (s.heap_cycle[parent] == cycle and s.heap_activity[parent] < activity):
            break
        s.heap_cycle[child] = s.heap_cycle[parent]
        s.heap_activity[child] = s.heap_activity[parent]
        child = parent
    s.heap_cycle[child] = cycle
    s.heap_activity[child] = activity


@kernel
def pop(s: State) -> int:
    """Take the least (cycle, activity) out of the heap; returns the activity."""
    top = s.heap_activity[0]
    s.counts[HEAP] -= 1
    size = s.counts[HEAP]
    cycle, activity = s.heap_cycle[size], s.heap_activity[size]
    parent = 0
    while 2 * parent + 1 < size:
        child = 2 * parent + 1
        if child + 1 < size and (
            s.heap_cycle[child + 1] < s.heap_cycle[child]
            or (s.heap_cycle[child + 1] == s.heap_cycle[child] and s.heap_activity[child + 1] < s.heap_activity[child])
        ):
            child += 1
        if cycle < s.heap_cycle[child] or (cycle == s.heap_cycle[child] and activity < s.heap_activity[child]):
            break
        s.heap_cycle[parent] = s.heap_cycle[child]
        s.heap_activity[parent] = s.heap_activity[child]
        parent = child
    s.heap_cycle[parent] = cycle
    s.heap_activity[parent] = activity
    return int(top)


@kernel
def open_resource(s: State, resource: int) -> None:
    """Have the next arbitration look at the resource."""
    if s.is_open[resource] == 0:
        s.is_open[resource] = 1
        s.open[s.counts[OPEN]] = resource
        s.counts[OPEN] += 1


@kernel
def ask(m: Machine, s: State, queue: int) -> None:
    """The head of the queue asks now."""
    activity = s.head[queue]
    s.ask[activity] = s.counts[NOW]
    if m.claim_first[activity] == m.claim_first[activity + 1]:
        s.ready[queue] = READY
        open_resource(s, m.resource[queue])
        return
    s.ready[queue] = LACKS_SPACE
    place = s.counts[STANDING]
    while place > 0:
        other = s.standing[place - 1]
        if s.ask[s.head[other]] < s.counts[NOW] or m.rank[other] < m.rank[queue]:
            break
        s.standing[place] = other
        place -= 1
    s.standing[place] = queue
    s.counts[STANDING] += 1
    s.counts[STALE] = 1


@kernel
def release(m: Machine, s: State, activity: int, cause: int, by: int) -> None:
    """One thing less to wait for: ``by`` has finished or handed on."""
    key = cause * len(m.queue) + by
    if s.released[activity] < s.counts[NOW] or key < s.release[activity]:
        s.release[activity] = key
    s.released[activity] = s.counts[NOW]
    s.pending[activity] -= 1
    if s.pending[activity] == 0:
        ask(m, s, m.queue[activity])


@kernel
def finish(m: Machine, s: State, activity: int) -> None:
    """Let the dependents go on and give claims back."""
    s.phase[activity] = FINISHED
    s.counts[LEFT] -= 1
    for row in range(m.successor_first[activity], m.successor_first[activity + 1]):
        after = m.successor[row]
        cause = CAUSE_QUEUE if m.next[activity] == after else m.dependency_cause[activity]
        release(m, s, after, cause, activity)
    for row in range(m.release_first[activity], m.release_first[activity + 1]):
        claim = m.claim_of_releaser[row]
        s.claim_left[claim] -= 1
        if s.claim_left[claim] == 0 and s.claim_taken[claim]:
            buffer = m.claim_buffer[claim]
            s.in_use[buffer] -= m.claim_bytes[claim]
            s.giver[buffer] = activity
            s.counts[STALE] = 1


@kernel
def end(m: Machine, s: State, activity: int) -> None:
    """What the heap announced: the end of a tile or grant, or the finish of a transfer after the link's latency."""
    if s.phase[activity] == ENDED:
        finish(m, s, activity)
        return
    queue = m.queue[activity]
    resource = m.resource[queue]
    s.busy[resource] = 0
    open_resource(s, resource)
    if s.served[activity] < m.bytes[activity]:
        s.ready[queue] = READY
        return
    s.phase[activity] = ENDED
    s.head[queue] = m.next[activity]
    if m.next[activity] >= 0:
        release(m, s, m.next[activity], CAUSE_QUEUE, activity)
    if m.latency[resource] == 0:
        finish(m, s, activity)
    else:
        push(s, s.counts[NOW] + m.latency[resource], activity)


@kernel
def lacking_buffer(m: Machine, s: State, activity: int) -> int:
    """The lowest buffer in which the activity's claims together do not fit, or -1."""
    first, last = m.claim_first[activity], m.claim_first[activity + 1]
    lacking = -1
    for row in range(first, last):
        claim = m.claim_of_taker[row]
        s.in_use[m.claim_buffer[claim]] += m.claim_bytes[claim]
    for row in range(first, last):
        buffer = m.claim_buffer[m.claim_of_taker[row]]
        if s.in_use[buffer] > m.capacity[buffer] and (lacking < 0 or buffer < lacking):
            lacking = buffer
    for row in range(first, last):
        claim = m.claim_of_taker[row]
        s.in_use[m.claim_buffer[claim]] -= m.claim_bytes[claim]
    return lacking


@kernel
def sweep(m: Machine, s: State) -> None:
    """Go through those that stand before buffers, in the order of asking: who has room, who is held back by whom."""
    s.counts[STALE] = 0
    s.counts[SWEEPS] += 1
    for place in range(s.counts[STANDING]):
        queue = s.standing[place]
        activity = s.head[queue]
        lacking = lacking_buffer(m, s, activity)
        holder = place
        for row in range(m.claim_first[activity], m.claim_first[activity + 1]):
            buffer = m.claim_buffer[m.claim_of_taker[row]]
            if s.blocked_in[buffer] == s.counts[SWEEPS]:
                holder = min(holder, s.blocked_by[buffer])
            elif lacking >= 0:
                s.blocked_in[buffer] = s.counts[SWEEPS]
                s.blocked_by[buffer] = place
        if lacking < 0 and holder < place:
            lacking = s.short[s.standing[holder]]
        s.short[queue] = lacking
        s.ready[queue] = LACKS_SPACE if lacking >= 0 else READY
        if lacking < 0 and s.busy[m.resource[queue]] == 0:
            open_resource(s, m.resource[queue])


@kernel
def choose(m: Machine, s: State, resource: int) -> int:
    """The queue that a free resource would serve now, or -1."""
    first = m.resource_first[resource]
    count = m.resource_first[resource + 1] - first
    slot = s.turn[resource]
    for _ in range(count):
        queue = m.queue_of_resource[first + slot]
        if s.ready[queue] == READY:
            return int(queue)
        slot = slot + 1 if slot + 1 < count else 0
    return -1


@kernel
def take(m: Machine, s: State, queue: int) -> None:
    """The head takes its claims and stands before the buffers no longer."""
    activity = s.head[queue]
    for row in range(m.claim_first[activity], m.claim_first[activity + 1]):
        claim = m.claim_of_taker[row]
        if s.claim_left[claim] != 0:  # else all who would give it back have finished already
            s.in_use[m.claim_buffer[claim]] += m.claim_bytes[claim]
            s.claim_taken[claim] = 1
    place = 0
    while s.standing[place] != queue:
        place += 1
    s.counts[STANDING] -= 1
    for later in range(place, s.counts[STANDING]):
        s.standing[later] = s.standing[later + 1]
    s.short_before[queue] = -1
    s.counts[STALE] = 1


@kernel
def record(m: Machine, s: State, events: Recorded, queue: int) -> None:
    """A new event: it starts now, and why not earlier."""
    activity = s.head[queue]
    resource = m.resource[queue]
    cause, by = CAUSE_RESOURCE, s.last_activity[resource]
    if s.served[activity] == 0:
        if s.ask[activity] == s.counts[NOW]:
            key = s.release[activity]
            cause, by = (0, -1) if key < 0 else (key // len(m.queue), key % len(m.queue))
        elif s.short_before[queue] >= 0:
            cause, by = CAUSE_BUFFER, s.giver[s.short_before[queue]]
    event = s.counts[EVENTS]
    s.counts[EVENTS] += 1
    events.start_cycles[event] = s.counts[NOW]
    events.activity[event] = activity
    events.bytes[event] = 0
    events.cause[event] = cause
    events.cause_activity[event] = by
    s.last_activity[resource] = activity
    s.last_event[resource] = event


@kernel
def start(m: Machine, s: State, events: Recorded, queue: int) -> None:
    """Serve the head of the queue: a tile, or the next grant of a transfer."""
    activity = s.head[queue]
    resource = m.resource[queue]
    served, size = s.served[activity], m.bytes[activity]
    if served == 0 or s.last_activity[resource] != activity:
        record(m, s, events, queue)
    if served == 0 and m.claim_first[activity] < m.claim_first[activity + 1]:
        take(m, s, queue)
    cycles = m.cycles[activity]
    if size > 0:
        granted = min(m.grant[resource], size - served)
        numerator, denominator = m.bytes_numerator[resource], m.bytes_denominator[resource]
        done = (served * denominator + numerator - 1) // numerator
        cycles = ((served + granted) * denominator + numerator - 1) // numerator - done
        s.served[activity] = served + granted
        events.bytes[s.last_event[resource]] += granted
    s.ready[queue] = 0
    s.busy[resource] = 1
    slot = m.rank[queue] - m.resource_first[resource] + 1
    s.turn[resource] = slot if m.resource_first[resource] + slot < m.resource_first[resource + 1] else 0
    events.end_cycles[s.last_event[resource]] = s.counts[NOW] + cycles
    push(s, s.counts[NOW] + cycles, activity)


@kernel
def arbitrate(m: Machine, s: State, events: Recorded) -> None:
    """Start all that can start now: of the choices of the free resources always the one that asked first.

    A choice without claims changes nothing for the others and starts at once.
    """
    while True:
        if s.counts[STALE]:
            sweep(m, s)
        best = -1
        kept = 0
        for place in range(s.counts[OPEN]):
            resource = s.open[place]
            queue = -1 if s.busy[resource] else choose(m, s, resource)
            activity = s.head[queue] if queue >= 0 else -1
            if queue >= 0 and s.served[activity] == 0 and m.claim_first[activity] < m.claim_first[activity + 1]:
                s.open[kept] = resource
                kept += 1
                if best < 0 or (s.ask[activity], m.rank[queue]) < (s.ask[s.head[best]], m.rank[best]):
                    best = queue
                continue
            s.is_open[resource] = 0
            if queue >= 0:
                start(m, s, events, queue)
        s.counts[OPEN] = kept
        if best < 0:
            return
        start(m, s, events, best)


@kernel
def run_loop(m: Machine, s: State, events: Recorded) -> int:
    """Run until nothing more can happen or ``events`` is full; the state says where to go on. Returns a status."""
    while True:
        if s.counts[EVENTS] + len(m.latency) > len(events.activity):
            return MORE_EVENTS
        arbitrate(m, s, events)
        if s.counts[HEAP] == 0:
            return STUCK if s.counts[LEFT] else DONE
        cycle = s.heap_cycle[0]
        if cycle > s.counts[NOW]:
            for place in range(s.counts[STANDING]):
                queue = s.standing[place]
                s.short_before[queue] = s.short[queue]
            s.counts[NOW] = cycle
        while s.counts[HEAP] and s.heap_cycle[0] == cycle:
            end(m, s, pop(s))


@kernel
def begin(m: Machine, s: State) -> None:
    """Cycle 0: the heads of all queues ask, if they depend on nothing."""
    for queue in range(len(m.resource)):
        if s.head[queue] >= 0 and s.pending[s.head[queue]] == 0:
            ask(m, s, queue)


def prepare(program: Program) -> tuple[Machine, State]:
    """The columns that the loop reads, and the state in which it begins."""
    resources, queues, activities = program.resources, program.queues, program.activities
    dependencies, claims, releases = program.dependencies, program.claims, program.releases
    count, queue_count, resource_count, claim_count = (
        program.size,
        len(queues.resource),
        len(resources.kind),
        len(claims.bytes),
    )
    resource_first, queue_of_resource = group(queues.resource, resource_count)
    rank = np.empty(queue_count, dtype=np.int64)
    rank[queue_of_resource] = np.arange(queue_count)
    head, following = chain(activities.queue, queue_count)
    successor_first, edges = group(dependencies.before, count)
    claim_first, claim_of_taker = group(claims.taken_by, count)
    release_first, released = group(releases.activity, count)
    whole = (resources.grant_bytes == 0) | (
        np.diff(resource_first) == 1
    )  # alone on a link, grants follow without a gap
    machine = Machine(
        bytes_numerator=resources.bytes_numerator,
        bytes_denominator=resources.bytes_denominator,
        latency=resources.latency_cycles,
        grant=np.where(whole, MAXIMUM_TOTAL, resources.grant_bytes),
        resource_first=resource_first,
        queue_of_resource=queue_of_resource,
        resource=queues.resource,
        rank=rank,
        queue=activities.queue,
        next=following,
        dependency_cause=CAUSE_OF_KIND[activities.kind],
        cycles=activities.cycles,
        bytes=activities.bytes,
        successor_first=successor_first,
        successor=dependencies.after[edges],
        claim_first=claim_first,
        claim_of_taker=claim_of_taker,
        release_first=release_first,
        claim_of_releaser=releases.claim[released],
        claim_buffer=claims.buffer,
        claim_bytes=claims.bytes,
        capacity=program.buffers.capacity_bytes,
    )
    pending = np.bincount(dependencies.after, minlength=count) + np.isin(np.arange(count), head, invert=True)
    buffer_count = len(machine.capacity)
    in_use = np.zeros(buffer_count, dtype=np.int64)
    at_once = claims.taken_by < 0
    np.add.at(in_use, claims.buffer[at_once], claims.bytes[at_once])

    def column(length: int, value: int = 0) -> IntColumn:
        return np.full(length, value, dtype=np.int64)

    releasers = np.bincount(releases.claim, minlength=claim_count)
    state = State(
        pending=pending,
        ask=column(count, -1),
        released=column(count, -1),
        release=column(count, -1),
        served=column(count),
        phase=column(count),
        head=head,
        ready=column(queue_count),
        short=column(queue_count, -1),
        short_before=column(queue_count, -1),
        busy=column(resource_count),
        last_activity=column(resource_count, -1),
        last_event=column(resource_count, -1),
        turn=column(resource_count),
        is_open=column(resource_count),
        open=column(resource_count),
        standing=column(queue_count),
        in_use=in_use,
        giver=column(buffer_count, -1),
        blocked_in=column(buffer_count),
        blocked_by=column(buffer_count),
        claim_left=np.where(releasers == 0, -1, releasers),  # -1: never given back
        claim_taken=at_once.astype(np.int64),
        heap_cycle=column(count + 1),
        heap_activity=column(count + 1),
        counts=column(8),
    )
    state.counts[LEFT] = count
    return machine, state


def run(program: Program) -> EventTable:
    """Run a checked program to its end.

    Raises:
        Deadlock: activities are left and none of them can ever start.
    """
    machine, state = prepare(program)
    rows = program.size + len(machine.latency)
    events = Recorded(*(np.empty(rows, dtype=np.int64) for _ in Recorded._fields))
    begin(machine, state)
    while (status := run_loop(machine, state, events)) == MORE_EVENTS:
        events = Recorded(*(np.concatenate((column, np.empty_like(column))) for column in events))
    if status == STUCK:
        held = (state.claim_taken == 1) & (state.claim_left != 0)
        raise deadlock(program, Stuck(int(state.counts[NOW]), state.ask, state.phase == FINISHED, held))
    return event_table(program, Recorded(*(column[: state.counts[EVENTS]] for column in events)), state.ask)
