"""The compiled event loop: the small kernels that work on the machine's tables.

It looks only at what can have changed: a heap of the next ends, the resources that were freed or asked for, and the
activities that stand before a buffer.
"""

from __future__ import annotations

from accelsim.engine.arbiter import account, claims_left_to_take, next_start, send_request
from accelsim.engine.events import IntTable
from accelsim.engine.heap import pop, push
from accelsim.engine.port import enter_port, leave_port, postponed
from accelsim.engine.state import (
    ACTIVITY,
    AFTER,
    AFTER_CAUSE,
    AHEAD,
    ASKED_AT,
    BACK,
    BEHIND,
    BLOCKED_BY,
    BLOCKED_IN,
    BLOCKED_SHORT,
    BUFFER,
    BUSY,
    BYTES,
    CAPACITY,
    CAUSE,
    CAUSE_ACTIVITY,
    CLAIMED,
    CYCLES,
    DENOMINATOR,
    END,
    EVENTS,
    FINISHED,
    FIRST_CLAIM,
    FIRST_RELEASE,
    FIRST_RETURN,
    FIRST_SUCCESSOR,
    FRONT,
    GIVER,
    GRANT,
    HANDED,
    HANDED_ON,
    HEAD,
    HEAP,
    IN_USE,
    IS_OPEN,
    LAST,
    LAST_EVENT,
    LATENCY,
    LEFT,
    LIMIT,
    MEMORY_ASKED,
    MEMORY_LINK,
    MOVED,
    NEXT,
    NOW,
    NUMERATOR,
    OFFERED,
    OFFERED_FROM,
    OFFERED_UNTIL,
    OLDEST,
    OPEN,
    PENDING,
    PHASE,
    POOL,
    PORT,
    PORT_CYCLES,
    QUEUE,
    RANK,
    READY,
    RELEASE,
    RELEASED_AT,
    RESOURCE,
    RETURN_AT,
    RETURNED_BY,
    SERVED,
    SHORT,
    SHORT_AT,
    SHORT_BEFORE,
    STALE,
    STALE_POOLS,
    START,
    SWEEPS,
    TAKEN,
    UNFINISHED,
    WAKING,
    Machine,
)
from accelsim.engine.status import ASK_MEMORY, DONE, MORE_EVENTS, STUCK
from accelsim.jit import kernel
from accelsim.timeline.table import Cause

CAUSE_BUFFER, CAUSE_QUEUE, CAUSE_RESOURCE = int(Cause.BUFFER), int(Cause.QUEUE), int(Cause.RESOURCE)
CAUSE_LIMIT = int(Cause.LIMIT)


@kernel
def open_resource(m: Machine, resource: int) -> None:
    """Have the next arbitration look at the resource."""
    if m.resources[resource, IS_OPEN] == 0:
        m.resources[resource, IS_OPEN] = 1
        m.open[m.counts[OPEN]] = resource
        m.counts[OPEN] += 1


@kernel
def mark_stale(m: Machine, buffer: int) -> None:
    """Have the next arbitration sweep the pool of the buffer."""
    pool = m.buffers[buffer, POOL]
    if m.buffers[pool, STALE] == 0:
        m.buffers[pool, STALE] = 1
        m.stale[m.counts[STALE_POOLS]] = pool
        m.counts[STALE_POOLS] += 1


@kernel
def pool_of(m: Machine, activity: int) -> int:
    """The pool that an activity with claims claims from."""
    claim = m.claim_of_taker[m.activities[activity, FIRST_CLAIM]]
    return int(m.buffers[m.claims[claim, BUFFER], POOL])


@kernel
def link(m: Machine, pool: int, ahead: int, behind: int) -> None:
    """Make two standing queues neighbours; -1 is the end of the line."""
    if ahead >= 0:
        m.queues[ahead, BEHIND] = behind
    else:
        m.buffers[pool, FRONT] = behind
    if behind >= 0:
        m.queues[behind, AHEAD] = ahead
    else:
        m.buffers[pool, BACK] = ahead


@kernel
def ask(m: Machine, queue: int) -> None:
    """The head of the queue asks now. If it has claims, the next sweep says whether there is room."""
    activity = m.queues[queue, HEAD]
    m.activities[activity, ASKED_AT] = m.counts[NOW]
    m.queues[queue, SHORT] = -1
    if not claims_left_to_take(m, activity):
        m.queues[queue, READY] = 1
        open_resource(m, m.queues[queue, RESOURCE])
        return
    pool = pool_of(m, activity)
    ahead, behind = m.buffers[pool, BACK], -1
    while ahead >= 0:
        earlier = m.activities[m.queues[ahead, HEAD], ASKED_AT] < m.counts[NOW]
        if earlier or m.queues[ahead, RANK] < m.queues[queue, RANK]:
            break
        ahead, behind = m.queues[ahead, AHEAD], ahead
    link(m, pool, ahead, queue)
    link(m, pool, queue, behind)
    mark_stale(m, pool)


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
    leave_port(m, resource)
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
    if resource == m.counts[MEMORY_LINK] and m.activities[activity, BYTES] > 0:
        m.counts[HANDED] = activity
        return False
    if m.resources[resource, LATENCY] == 0:
        return True
    push(m.heap, m.counts[HEAP], m.counts[NOW] + m.resources[resource, LATENCY], activity)
    m.counts[HEAP] += 1
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
            mark_stale(m, buffer)


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
def judge(m: Machine, queue: int, short: int) -> None:
    """Note that the head of the queue lacks room in the buffer ``short``, or that it has room (-1)."""
    if m.queues[queue, SHORT_AT] < m.counts[NOW]:
        m.queues[queue, SHORT_BEFORE] = m.queues[queue, SHORT]
        m.queues[queue, SHORT_AT] = m.counts[NOW]
    m.queues[queue, SHORT] = short
    m.queues[queue, READY] = 0 if short >= 0 else 1
    if short < 0 and m.resources[m.queues[queue, RESOURCE], BUSY] == 0:
        open_resource(m, m.queues[queue, RESOURCE])


@kernel
def sweep(m: Machine, pool: int) -> None:
    """Go through those that stand before a pool, in the order of asking: who has room, who is held back by whom."""
    m.buffers[pool, STALE] = 0
    m.counts[SWEEPS] += 1
    place = 0
    queue = m.buffers[pool, FRONT]
    while queue >= 0:
        activity = m.queues[queue, HEAD]
        lacking = lacking_buffer(m, activity)
        holder, held = place, -1
        for row in range(m.activities[activity, FIRST_CLAIM], m.activities[activity + 1, FIRST_CLAIM]):
            buffer = m.claims[m.claim_of_taker[row], BUFFER]
            if m.buffers[buffer, BLOCKED_IN] != m.counts[SWEEPS]:
                if lacking >= 0:
                    m.buffers[buffer, BLOCKED_IN] = m.counts[SWEEPS]
                    m.buffers[buffer, BLOCKED_BY] = place
                    m.buffers[buffer, BLOCKED_SHORT] = lacking
            elif m.buffers[buffer, BLOCKED_BY] < holder:
                holder, held = m.buffers[buffer, BLOCKED_BY], m.buffers[buffer, BLOCKED_SHORT]
        judge(m, queue, lacking if lacking >= 0 else held)
        place += 1
        queue = m.queues[queue, BEHIND]


@kernel
def take(m: Machine, queue: int) -> None:
    """The head takes its claims and stands before the buffers no longer."""
    activity = m.queues[queue, HEAD]
    for row in range(m.activities[activity, FIRST_CLAIM], m.activities[activity + 1, FIRST_CLAIM]):
        claim = m.claim_of_taker[row]
        if m.claims[claim, LEFT] != 0:  # else all who would give it back have finished already
            m.buffers[m.claims[claim, BUFFER], IN_USE] += m.claims[claim, CLAIMED]
            m.claims[claim, TAKEN] = 1
    pool = pool_of(m, activity)
    link(m, pool, m.queues[queue, AHEAD], m.queues[queue, BEHIND])
    mark_stale(m, pool)


@kernel
def record(m: Machine, events: IntTable, queue: int) -> None:
    """A new event: it starts now, and why not earlier."""
    activity = m.queues[queue, HEAD]
    resource = m.queues[queue, RESOURCE]
    begins = m.activities[activity, SERVED] == 0
    cause, by = CAUSE_RESOURCE, m.resources[resource, LAST]
    row = m.queues[queue, FIRST_RETURN] + m.queues[queue, OLDEST]
    if begins and m.activities[activity, ASKED_AT] == m.counts[NOW]:
        key = m.activities[activity, RELEASE]
        cause, by = (key // len(m.activities), key % len(m.activities)) if key >= 0 else (0, -1)
    elif begins and m.queues[queue, SHORT_AT] == m.counts[NOW] and m.queues[queue, SHORT_BEFORE] >= 0:
        cause, by = CAUSE_BUFFER, m.buffers[m.queues[queue, SHORT_BEFORE], GIVER]
    elif m.queues[queue, LIMIT] > 0 and m.returns[row, RETURN_AT] == m.counts[NOW]:
        cause, by = CAUSE_LIMIT, m.returns[row, RETURNED_BY]
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
    goes_on = served > 0 and m.resources[resource, LAST] == activity
    if not goes_on or events[m.resources[resource, LAST_EVENT], END] < m.counts[NOW]:
        record(m, events, queue)
    if claims_left_to_take(m, activity):
        take(m, queue)
    event = m.resources[resource, LAST_EVENT]
    end = m.counts[NOW] + m.activities[activity, CYCLES]
    granted = 0
    if size > 0:
        numerator, denominator = m.resources[resource, NUMERATOR], m.resources[resource, DENOMINATOR]
        granted = min(m.resources[resource, GRANT], size - served)
        end -= (served * denominator + numerator - 1) // numerator
        end += ((served + granted) * denominator + numerator - 1) // numerator
        m.activities[activity, SERVED] = served + granted
        events[event, MOVED] += granted
    events[event, END] = end
    m.queues[queue, READY] = 0
    m.resources[resource, BUSY] = 1
    account(m, resource, queue, granted)
    if m.queues[queue, PORT] >= 0 or m.activities[activity, PORT_CYCLES] > 0:
        enter_port(m, queue, activity)
    if m.queues[queue, LIMIT] > 0:
        send_request(m, queue, activity, end + m.resources[resource, LATENCY])
    if resource == m.counts[MEMORY_LINK] and size > 0:  # the memory says when it ends
        m.counts[OFFERED], m.counts[OFFERED_FROM], m.counts[OFFERED_UNTIL] = activity, served, served + granted
        return
    push(m.heap, m.counts[HEAP], end, activity)
    m.counts[HEAP] += 1


@kernel
def wake(m: Machine, queue: int) -> None:
    """A request of the queue has come back: its head may go on."""
    m.queues[queue, WAKING] = 0
    open_resource(m, m.queues[queue, RESOURCE])


@kernel
def run_loop(m: Machine, events: IntTable) -> int:
    """Run until nothing more can happen or ``events`` is full; the machine knows where to go on. Returns a status."""
    while True:
        if m.counts[EVENTS] + len(m.resources) > len(events):
            return MORE_EVENTS
        queue = 0
        while queue >= 0:
            while m.counts[STALE_POOLS]:
                m.counts[STALE_POOLS] -= 1
                sweep(m, m.stale[m.counts[STALE_POOLS]])
            queue = next_start(m)
            if queue >= 0:
                start(m, events, queue)
        if m.counts[MEMORY_LINK] >= 0 and m.counts[MEMORY_ASKED] == 0:
            return ASK_MEMORY
        m.counts[MEMORY_ASKED] = 0
        if m.counts[HEAP] == 0:
            return STUCK if m.counts[UNFINISHED] else DONE
        cycle = m.heap[0, 0]
        m.counts[NOW] = cycle
        while m.counts[HEAP] and m.heap[0, 0] == cycle:
            activity = pop(m.heap, m.counts[HEAP])
            m.counts[HEAP] -= 1
            if activity >= len(m.activities):
                wake(m, activity - len(m.activities))
            elif m.activities[activity, PHASE] == HANDED_ON or (
                not postponed(m, events, activity) and hand_on(m, activity)
            ):
                finish(m, activity)


@kernel
def begin(m: Machine) -> None:
    """Cycle 0: the heads of all queues ask, if they depend on nothing."""
    for queue in range(len(m.queues)):
        head = m.queues[queue, HEAD]
        if head >= 0 and m.activities[head, PENDING] == 0:
            ask(m, queue)
