"""The machine of ``docs/machine_rules.md`` as one compiled event loop.

It does what :mod:`accelsim.engine.reference` does, event for event, and looks only at what can have changed: a heap of
the next ends, the resources that were freed or asked for, and the activities that stand before a buffer. Kernels pass
the whole machine as one NamedTuple of a few wide tables, because the time to compile a kernel grows with the number of
arrays it is handed, and because what is read together then lies together in memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.engine.events import RECORDED, IntTable, event_table
from accelsim.engine.status import DONE, MORE_EVENTS, STUCK, Stuck, deadlock
from accelsim.jit import kernel
from accelsim.program.tables import MAXIMUM_TOTAL, IntColumn, Program
from accelsim.timeline.table import Cause, EventTable

CAUSE_BUFFER, CAUSE_QUEUE, CAUSE_RESOURCE = int(Cause.BUFFER), int(Cause.QUEUE), int(Cause.RESOURCE)
CAUSE_OF_KIND = np.array((Cause.TILE, Cause.LOAD, Cause.STORE), dtype=np.int64)
"""By :class:`accelsim.program.tables.ActivityKind`."""

# Columns of Machine.activities. From the program; NEXT is behind the activity on its queue. Its list of successors is
# rows [a, FIRST_SUCCESSOR] .. [a + 1, FIRST_SUCCESSOR] of their table, and so on; hence one row more than activities.
QUEUE, NEXT, CYCLES, BYTES, FIRST_SUCCESSOR, FIRST_CLAIM, FIRST_RELEASE = range(7)
# What changes. PENDING counts the dependencies unfinished, plus one for the predecessor on the queue; RELEASED_AT is the
# last cycle at which one was resolved, RELEASE the least cause * (activities + 1) + activity of that cycle, or -1.
PENDING, ASKED_AT, RELEASED_AT, RELEASE, SERVED, PHASE = range(7, 13)
HANDED_ON, FINISHED = 1, 2  # PHASE

# Columns of Machine.queues. RANK is the queue's place in queue_of_resource. SHORT is the buffer without room for the
# head, or for the one that holds it back, or -1; SHORT_BEFORE the same at the end of the cycle before.
RESOURCE, RANK, HEAD, READY, SHORT, SHORT_BEFORE = range(6)

# Columns of Machine.resources. TURN is the slot, among the queues of the resource, at which the search begins.
NUMERATOR, DENOMINATOR, LATENCY, GRANT, FIRST_QUEUE, QUEUES, BUSY, TURN, LAST, LAST_EVENT, IS_OPEN = range(11)

# Columns of Machine.buffers. GIVER gave space back last. In sweep number BLOCKED_IN, the asker at place BLOCKED_BY was
# the first without room.
CAPACITY, IN_USE, GIVER, BLOCKED_IN, BLOCKED_BY = range(5)

# Columns of Machine.claims (LEFT = releasers that have not finished, -1 without any), successors, heap and events.
BUFFER, CLAIMED, LEFT, TAKEN = range(4)
AFTER, AFTER_CAUSE = range(2)
DUE_AT, DUE = range(2)
START, END, ACTIVITY, MOVED, CAUSE, CAUSE_ACTIVITY = range(6)

# Rows of Machine.counts.
NOW, EVENTS, HEAP, STANDING, OPEN, SWEEPS, STALE, UNFINISHED = range(8)


class Machine(NamedTuple):
    """The program as the loop reads it, and all that changes while it runs."""

    activities: IntTable
    queues: IntTable
    resources: IntTable
    buffers: IntTable
    claims: IntTable
    successors: IntTable
    claim_of_taker: IntColumn
    claim_of_releaser: IntColumn
    queue_of_resource: IntColumn
    heap: IntTable
    """Ends and finishes to come, ordered by (cycle, activity)."""
    open: IntColumn
    """The resources to look at in the next arbitration."""
    standing: IntColumn
    """The queues whose head asks and has claims to take, in the order of asking."""
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
def push(m: Machine, cycle: int, activity: int) -> None:
    """Add to the heap. An activity stands in it at most once."""
    heap = m.heap
    child = m.counts[HEAP]
    m.counts[HEAP] += 1
    while child > 0:
        parent = (child - 1) >> 1
        if heap[parent, DUE_AT] < cycle or (heap[parent, DUE_AT] == cycle and heap[parent, DUE] < activity):
            break
        heap[child, DUE_AT] = heap[parent, DUE_AT]
        heap[child, DUE] = heap[parent, DUE]
        child = parent
    heap[child, DUE_AT] = cycle
    heap[child, DUE] = activity


@kernel
def pop(m: Machine) -> int:
    """Take the least (cycle, activity) out of the heap; returns the activity."""
    heap = m.heap
    top = heap[0, DUE]
    m.counts[HEAP] -= 1
    size = m.counts[HEAP]
    cycle, activity = heap[size, DUE_AT], heap[size, DUE]
    parent = 0
    while 2 * parent + 1 < size:
        child = 2 * parent + 1
        if child + 1 < size:
            left, right = heap[child, DUE_AT], heap[child + 1, DUE_AT]
            if right < left or (right == left and heap[child + 1, DUE] < heap[child, DUE]):
                child += 1
        if cycle < heap[child, DUE_AT] or (cycle == heap[child, DUE_AT] and activity < heap[child, DUE]):
            break
        heap[parent, DUE_AT] = heap[child, DUE_AT]
        heap[parent, DUE] = heap[child, DUE]
        parent = child
    heap[parent, DUE_AT] = cycle
    heap[parent, DUE] = activity
    return int(top)


@kernel
def open_resource(m: Machine, resource: int) -> None:
    """Have the next arbitration look at the resource."""
    if m.resources[resource, IS_OPEN] == 0:
        m.resources[resource, IS_OPEN] = 1
        m.open[m.counts[OPEN]] = resource
        m.counts[OPEN] += 1


@kernel
def claims_left_to_take(m: Machine, activity: int) -> bool:
    """Whether the activity has claims and has not started."""
    begun = m.activities[activity, SERVED] > 0
    return bool(not begun and m.activities[activity, FIRST_CLAIM] < m.activities[activity + 1, FIRST_CLAIM])


@kernel
def ask(m: Machine, queue: int) -> None:
    """The head of the queue asks now. If it has claims, the next sweep says whether there is room."""
    activity = m.queues[queue, HEAD]
    m.activities[activity, ASKED_AT] = m.counts[NOW]
    if not claims_left_to_take(m, activity):
        m.queues[queue, READY] = 1
        open_resource(m, m.queues[queue, RESOURCE])
        return
    place = m.counts[STANDING]
    while place > 0:
        other = m.standing[place - 1]
        earlier = m.activities[m.queues[other, HEAD], ASKED_AT] < m.counts[NOW]
        if earlier or m.queues[other, RANK] < m.queues[queue, RANK]:
            break
        m.standing[place] = other
        place -= 1
    m.standing[place] = queue
    m.counts[STANDING] += 1
    m.counts[STALE] = 1


@kernel
def release(m: Machine, activity: int, cause: int, by: int) -> None:
    """One thing less to wait for: ``by`` has finished or handed on."""
    key = cause * len(m.activities) + by
    if m.activities[activity, RELEASED_AT] < m.counts[NOW] or key < m.activities[activity, RELEASE]:
        m.activities[activity, RELEASE] = key
    m.activities[activity, RELEASED_AT] = m.counts[NOW]
    m.activities[activity, PENDING] -= 1
    if m.activities[activity, PENDING] == 0:
        ask(m, m.activities[activity, QUEUE])


@kernel
def hand_on(m: Machine, activity: int) -> bool:
    """A tile or grant has ended: its resource is free. Returns whether the activity finishes in this instant, too."""
    queue = m.activities[activity, QUEUE]
    resource = m.queues[queue, RESOURCE]
    m.resources[resource, BUSY] = 0
    open_resource(m, resource)
    if m.activities[activity, SERVED] < m.activities[activity, BYTES]:
        m.queues[queue, READY] = 1
        return False
    m.activities[activity, PHASE] = HANDED_ON
    following = m.activities[activity, NEXT]
    m.queues[queue, HEAD] = following
    if following >= 0:
        release(m, following, CAUSE_QUEUE, activity)
    if m.resources[resource, LATENCY] == 0:
        return True
    push(m, m.counts[NOW] + m.resources[resource, LATENCY], activity)
    return False


@kernel
def finish(m: Machine, activity: int) -> None:
    """Let the dependents go on and give claims back."""
    m.activities[activity, PHASE] = FINISHED
    m.counts[UNFINISHED] -= 1
    for row in range(m.activities[activity, FIRST_SUCCESSOR], m.activities[activity + 1, FIRST_SUCCESSOR]):
        release(m, m.successors[row, AFTER], m.successors[row, AFTER_CAUSE], activity)
    for row in range(m.activities[activity, FIRST_RELEASE], m.activities[activity + 1, FIRST_RELEASE]):
        claim = m.claim_of_releaser[row]
        m.claims[claim, LEFT] -= 1
        if m.claims[claim, LEFT] == 0 and m.claims[claim, TAKEN]:
            buffer = m.claims[claim, BUFFER]
            m.buffers[buffer, IN_USE] -= m.claims[claim, CLAIMED]
            m.buffers[buffer, GIVER] = activity
            m.counts[STALE] = 1


@kernel
def lacking_buffer(m: Machine, activity: int) -> int:
    """The lowest buffer in which the activity's claims together do not fit, or -1."""
    first, last = m.activities[activity, FIRST_CLAIM], m.activities[activity + 1, FIRST_CLAIM]
    lacking = -1
    for row in range(first, last):
        claim = m.claim_of_taker[row]
        m.buffers[m.claims[claim, BUFFER], IN_USE] += m.claims[claim, CLAIMED]
    for row in range(first, last):
        buffer = m.claims[m.claim_of_taker[row], BUFFER]
        if m.buffers[buffer, IN_USE] > m.buffers[buffer, CAPACITY] and (lacking < 0 or buffer < lacking):
            lacking = buffer
    for row in range(first, last):
        claim = m.claim_of_taker[row]
        m.buffers[m.claims[claim, BUFFER], IN_USE] -= m.claims[claim, CLAIMED]
    return lacking


@kernel
def sweep(m: Machine) -> None:
    """Go through those that stand before buffers, in the order of asking: who has room, who is held back by whom."""
    m.counts[STALE] = 0
    m.counts[SWEEPS] += 1
    for place in range(m.counts[STANDING]):
        queue = m.standing[place]
        activity = m.queues[queue, HEAD]
        lacking = lacking_buffer(m, activity)
        holder = place
        for row in range(m.activities[activity, FIRST_CLAIM], m.activities[activity + 1, FIRST_CLAIM]):
            buffer = m.claims[m.claim_of_taker[row], BUFFER]
            if m.buffers[buffer, BLOCKED_IN] == m.counts[SWEEPS]:
                holder = min(holder, m.buffers[buffer, BLOCKED_BY])
            elif lacking >= 0:
                m.buffers[buffer, BLOCKED_IN] = m.counts[SWEEPS]
                m.buffers[buffer, BLOCKED_BY] = place
        if lacking < 0 and holder < place:
            lacking = m.queues[m.standing[holder], SHORT]
        m.queues[queue, SHORT] = lacking
        m.queues[queue, READY] = 0 if lacking >= 0 else 1
        if lacking < 0 and m.resources[m.queues[queue, RESOURCE], BUSY] == 0:
            open_resource(m, m.queues[queue, RESOURCE])


@kernel
def choose(m: Machine, resource: int) -> int:
    """The queue that the resource would serve now, or -1."""
    if m.resources[resource, BUSY]:
        return -1
    count = m.resources[resource, QUEUES]
    slot = m.resources[resource, TURN]
    for _ in range(count):
        queue = m.queue_of_resource[m.resources[resource, FIRST_QUEUE] + slot]
        if m.queues[queue, READY]:
            return int(queue)
        slot = slot + 1 if slot + 1 < count else 0
    return -1


@kernel
def next_start(m: Machine) -> int:
    """The queue to serve now, or -1: of the choices of the free resources the one that asked first.

    A choice without claims changes nothing for the others, and goes at once.
    """
    best, best_asked, best_rank = -1, 0, 0
    place = 0
    while place < m.counts[OPEN]:
        resource = m.open[place]
        queue = choose(m, resource)
        if queue >= 0 and claims_left_to_take(m, m.queues[queue, HEAD]):
            asked, rank = m.activities[m.queues[queue, HEAD], ASKED_AT], m.queues[queue, RANK]
            if best < 0 or asked < best_asked or (asked == best_asked and rank < best_rank):
                best, best_asked, best_rank = queue, asked, rank
            place += 1
            continue
        m.counts[OPEN] -= 1
        m.open[place] = m.open[m.counts[OPEN]]
        m.resources[resource, IS_OPEN] = 0
        if queue >= 0:
            return queue
    return best


@kernel
def take(m: Machine, queue: int) -> None:
    """The head takes its claims and stands before the buffers no longer."""
    activity = m.queues[queue, HEAD]
    for row in range(m.activities[activity, FIRST_CLAIM], m.activities[activity + 1, FIRST_CLAIM]):
        claim = m.claim_of_taker[row]
        if m.claims[claim, LEFT] != 0:  # else all who would give it back have finished already
            m.buffers[m.claims[claim, BUFFER], IN_USE] += m.claims[claim, CLAIMED]
            m.claims[claim, TAKEN] = 1
    place = 0
    while m.standing[place] != queue:
        place += 1
    m.counts[STANDING] -= 1
    for later in range(place, m.counts[STANDING]):
        m.standing[later] = m.standing[later + 1]
    m.queues[queue, SHORT_BEFORE] = -1
    m.counts[STALE] = 1


@kernel
def record(m: Machine, events: IntTable, queue: int) -> None:
    """A new event: it starts now, and why not earlier."""
    activity = m.queues[queue, HEAD]
    resource = m.queues[queue, RESOURCE]
    cause, by = CAUSE_RESOURCE, m.resources[resource, LAST]
    if m.activities[activity, SERVED] == 0:
        if m.activities[activity, ASKED_AT] == m.counts[NOW]:
            key = m.activities[activity, RELEASE]
            cause, by = (key // len(m.activities), key % len(m.activities)) if key >= 0 else (0, -1)
        elif m.queues[queue, SHORT_BEFORE] >= 0:
            cause, by = CAUSE_BUFFER, m.buffers[m.queues[queue, SHORT_BEFORE], GIVER]
    event = m.counts[EVENTS]
    m.counts[EVENTS] += 1
    m.resources[resource, LAST] = activity
    m.resources[resource, LAST_EVENT] = event
    events[event, START] = m.counts[NOW]
    events[event, ACTIVITY] = activity
    events[event, MOVED] = 0
    events[event, CAUSE] = cause
    events[event, CAUSE_ACTIVITY] = by


@kernel
def start(m: Machine, events: IntTable, queue: int) -> None:
    """Serve the head of the queue: a tile, or the next grant of a transfer."""
    activity = m.queues[queue, HEAD]
    resource = m.queues[queue, RESOURCE]
    served, size = m.activities[activity, SERVED], m.activities[activity, BYTES]
    if served == 0 or m.resources[resource, LAST] != activity:
        record(m, events, queue)
    if claims_left_to_take(m, activity):
        take(m, queue)
    event = m.resources[resource, LAST_EVENT]
    end = m.counts[NOW] + m.activities[activity, CYCLES]
    if size > 0:
        numerator, denominator = m.resources[resource, NUMERATOR], m.resources[resource, DENOMINATOR]
        until = served + min(m.resources[resource, GRANT], size - served)
        end -= (served * denominator + numerator - 1) // numerator
        end += (until * denominator + numerator - 1) // numerator
        m.activities[activity, SERVED] = until
        events[event, MOVED] += until - served
    events[event, END] = end
    m.queues[queue, READY] = 0
    m.resources[resource, BUSY] = 1
    slot = m.queues[queue, RANK] - m.resources[resource, FIRST_QUEUE] + 1
    m.resources[resource, TURN] = slot if slot < m.resources[resource, QUEUES] else 0
    push(m, end, activity)


@kernel
def run_loop(m: Machine, events: IntTable) -> int:
    """Run until nothing more can happen or ``events`` is full; the machine knows where to go on. Returns a status."""
    while True:
        if m.counts[EVENTS] + len(m.resources) > len(events):
            return MORE_EVENTS
        queue = 0
        while queue >= 0:
            if m.counts[STALE]:
                sweep(m)
            queue = next_start(m)
            if queue >= 0:
                start(m, events, queue)
        if m.counts[HEAP] == 0:
            return STUCK if m.counts[UNFINISHED] else DONE
        cycle = m.heap[0, DUE_AT]
        if cycle > m.counts[NOW]:
            for place in range(m.counts[STANDING]):
                standing = m.standing[place]
                m.queues[standing, SHORT_BEFORE] = m.queues[standing, SHORT]
            m.counts[NOW] = cycle
        while m.counts[HEAP] and m.heap[0, DUE_AT] == cycle:
            activity = pop(m)
            if m.activities[activity, PHASE] == HANDED_ON or hand_on(m, activity):
                finish(m, activity)


@kernel
def begin(m: Machine) -> None:
    """Cycle 0: the heads of all queues ask, if they depend on nothing."""
    for queue in range(len(m.queues)):
        head = m.queues[queue, HEAD]
        if head >= 0 and m.activities[head, PENDING] == 0:
            ask(m, queue)


def columns(rows: int, *values: IntColumn | int) -> IntTable:
    """A table with these columns; a number fills its column."""
    table = np.empty((rows, len(values)), dtype=np.int64)
    for column, value in enumerate(values):
        table[:, column] = value
    return table


def machine(program: Program) -> Machine:
    """The machine as it stands at cycle 0, before anything asks."""
    count, queues, resources = program.size, len(program.queues.resource), program.resources
    first_queue, queue_of_resource = group(program.queues.resource, len(resources.kind))
    rank = np.empty(queues, dtype=np.int64)
    rank[queue_of_resource] = np.arange(queues)
    queue_count = np.diff(first_queue)
    whole = (resources.grant_bytes == 0) | (queue_count == 1)  # alone on a link, grants follow each other without a gap
    grant = np.where(whole, MAXIMUM_TOTAL, resources.grant_bytes)

    head, following = chain(program.activities.queue, queues)
    first_successor, edges = group(program.dependencies.before, count)
    before, after = program.dependencies.before[edges], program.dependencies.after[edges]
    cause = np.where(following[before] == after, CAUSE_QUEUE, CAUSE_OF_KIND[program.activities.kind[before]])
    pending = np.bincount(after, minlength=count)
    pending[following[following >= 0]] += 1

    claims = program.claims
    first_claim, claim_of_taker = group(claims.taken_by, count)
    first_release, release = group(program.releases.activity, count)
    releasers = np.bincount(program.releases.claim, minlength=len(claims.bytes))
    in_use = np.zeros(len(program.buffers.capacity_bytes), dtype=np.int64)
    at_once = claims.taken_by < 0
    np.add.at(in_use, claims.buffer[at_once], claims.bytes[at_once])

    activities = np.empty((count + 1, 13), dtype=np.int64)
    activities[:count, QUEUE] = program.activities.queue
    activities[:count, NEXT] = following
    activities[:count, CYCLES] = program.activities.cycles
    activities[:count, BYTES] = program.activities.bytes
    activities[:, FIRST_SUCCESSOR] = first_successor
    activities[:, FIRST_CLAIM] = first_claim
    activities[:, FIRST_RELEASE] = first_release
    activities[:count, PENDING] = pending
    activities[:, ASKED_AT : RELEASE + 1] = -1
    activities[:, SERVED : PHASE + 1] = 0
    counts = np.zeros(8, dtype=np.int64)
    counts[UNFINISHED] = count
    rates = (resources.bytes_numerator, resources.bytes_denominator, resources.latency_cycles, grant)
    return Machine(
        activities,
        columns(queues, program.queues.resource, rank, head, 0, -1, -1),
        columns(len(grant), *rates, first_queue[:-1], queue_count, 0, 0, -1, -1, 0),
        columns(len(in_use), program.buffers.capacity_bytes, in_use, -1, 0, 0),
        columns(
            len(releasers),
            claims.buffer,
            claims.bytes,
            np.where(releasers == 0, -1, releasers),
            at_once.astype(np.int64),
        ),
        columns(len(after), after, cause),
        claim_of_taker,
        program.releases.claim[release],
        queue_of_resource,
        heap=np.empty((count + 1, 2), dtype=np.int64),
        open=np.empty(len(grant), dtype=np.int64),
        standing=np.empty(queues, dtype=np.int64),
        counts=counts,
    )


def run(program: Program) -> EventTable:
    """Run a checked program to its end.

    Raises:
        Deadlock: activities are left and none of them can ever start.
    """
    m = machine(program)
    events = np.empty((program.size + len(m.resources), len(RECORDED)), dtype=np.int64)
    begin(m)
    while (status := run_loop(m, events)) == MORE_EVENTS:
        events = np.concatenate((events, np.empty_like(events)))
    asked = m.activities[:-1, ASKED_AT]
    if status == STUCK:
        held = (m.claims[:, TAKEN] == 1) & (m.claims[:, LEFT] != 0)
        raise deadlock(program, Stuck(int(m.counts[NOW]), asked, m.activities[:-1, PHASE] == FINISHED, held))
    return event_table(program, events[: m.counts[EVENTS]], asked)
