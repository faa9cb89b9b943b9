"""Arbitration, compiled: which queue each free resource would serve, and who of all starts first."""

from __future__ import annotations

from accelsim.engine.heap import push
from accelsim.engine.state import (
    ACCOUNT,
    ASKED_AT,
    BUSY,
    COST,
    FIRST_CLAIM,
    FIRST_QUEUE,
    FIRST_RETURN,
    GRANTS,
    HEAD,
    HEAP,
    IS_OPEN,
    LIMIT,
    NOW,
    OLDEST,
    OPEN,
    POLICY,
    PRIORITY,
    QUEUES,
    RANK,
    REACHED,
    READY,
    RETURN_AT,
    RETURNED_BY,
    SERVED,
    SERVED_IN,
    SERVED_TO,
    TURN,
    WAKING,
    Machine,
)
from accelsim.jit import kernel
from accelsim.program.tables import Arbitration

IN_ORDER, ROUND_ROBIN, BY_RANK = int(Arbitration.IN_ORDER), int(Arbitration.ROUND_ROBIN), int(Arbitration.PRIORITY)


@kernel
def claims_left_to_take(m: Machine, activity: int) -> bool:
    """Whether the activity has claims and has not started."""
    begun = m.activities[activity, SERVED] > 0
    return bool(not begun and m.activities[activity, FIRST_CLAIM] < m.activities[activity + 1, FIRST_CLAIM])


@kernel
def may_go_on(m: Machine, queue: int) -> bool:
    """Whether few enough requests of the queue are on their way. If not, the heap says when that changes."""
    if m.queues[queue, LIMIT] == 0:
        return True
    back = m.returns[m.queues[queue, FIRST_RETURN] + m.queues[queue, OLDEST], RETURN_AT]
    if back <= m.counts[NOW]:
        return True
    if m.queues[queue, WAKING] == 0:
        m.queues[queue, WAKING] = 1
        push(m.heap, m.counts[HEAP], back, len(m.activities) + queue)
        m.counts[HEAP] += 1
    return False


@kernel
def choose(m: Machine, resource: int) -> int:
    """The queue that the resource would serve now, or -1."""
    if m.resources[resource, BUSY]:
        return -1
    if m.resources[resource, POLICY] != ROUND_ROBIN:
        return choose_least(m, resource)
    count = m.resources[resource, QUEUES]
    slot = m.resources[resource, TURN]
    for _ in range(count):
        queue = m.queue_of_resource[m.resources[resource, FIRST_QUEUE] + slot]
        if m.queues[queue, READY] and may_go_on(m, queue):
            return int(queue)
        slot = slot + 1 if slot + 1 < count else 0
    return -1


@kernel
def start_tag(m: Machine, resource: int, queue: int) -> int:
    """What the queue's account has come to; one that was idle does not save up what it did not use."""
    return int(max(m.resources[resource, REACHED], m.queues[m.queues[queue, ACCOUNT], SERVED_TO]))


@kernel
def choose_least(m: Machine, resource: int) -> int:
    """Of the queues whose heads could start, the least by the policy of the link; -1 if there is none."""
    policy = m.resources[resource, POLICY]
    best, best_tag, best_rank, best_served = -1, 0, 0, 0
    first = m.resources[resource, FIRST_QUEUE]
    for place in range(first, first + m.resources[resource, QUEUES]):
        queue = m.queue_of_resource[place]
        if not (m.queues[queue, READY] and may_go_on(m, queue)):
            continue
        tag, rank, served = 0, m.queues[queue, PRIORITY], m.queues[queue, SERVED_IN]
        if policy == IN_ORDER:
            tag, rank, served = m.activities[m.queues[queue, HEAD], ASKED_AT], 0, 0
        elif policy != BY_RANK:
            tag = start_tag(m, resource, queue)
        less = tag < best_tag or (
            tag == best_tag and (rank < best_rank or (rank == best_rank and served < best_served))
        )
        if best < 0 or less:
            best, best_tag, best_rank, best_served = queue, tag, rank, served
    return int(best)


@kernel
def account(m: Machine, resource: int, queue: int, size: int) -> None:
    """The queue is served a grant of so many bytes: whose turn is next."""
    slot = m.queues[queue, RANK] - m.resources[resource, FIRST_QUEUE] + 1
    m.resources[resource, TURN] = slot if slot < m.resources[resource, QUEUES] else 0
    if m.resources[resource, POLICY] == ROUND_ROBIN:
        return
    m.counts[GRANTS] += 1
    m.queues[queue, SERVED_IN] = m.counts[GRANTS]
    tag = start_tag(m, resource, queue)
    m.resources[resource, REACHED] = tag
    m.queues[m.queues[queue, ACCOUNT], SERVED_TO] = tag + size * m.queues[queue, COST]


@kernel
def send_request(m: Machine, queue: int, activity: int, back: int) -> None:
    """A grant of a queue with a limit is on its way until cycle ``back``."""
    row = m.queues[queue, FIRST_RETURN] + m.queues[queue, OLDEST]
    m.returns[row, RETURN_AT] = back
    m.returns[row, RETURNED_BY] = activity
    m.queues[queue, OLDEST] = (m.queues[queue, OLDEST] + 1) % m.queues[queue, LIMIT]


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
