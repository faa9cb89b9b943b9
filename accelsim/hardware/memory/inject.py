"""How requests reach the controllers, and the loop over the cycles at which anything can happen."""

from __future__ import annotations

from accelsim.hardware.memory.controller import (
    ACCEPTED,
    ACCEPTS,
    ACTIVES,
    ADDRESS,
    ARRIVAL,
    AT_CHANNEL,
    FINISHED,
    FIRST_READER,
    FORWARDED,
    IS_WRITE,
    MERGED,
    NEXT_OF_ENGINE,
    OUTCOME,
    READS,
    SPLIT_BANK,
    WAKE,
    WRITES,
    Controller,
    Policy,
)
from accelsim.hardware.memory.device import NEVER
from accelsim.hardware.memory.frfcfs import step
from accelsim.hardware.memory.per_bank import nothing_left, step_per_bank, waits_for_bank
from accelsim.jit import kernel


@kernel
def accept(m: Controller, request: int, t: int) -> bool:
    """Take a request into its queue, if there is room. A read of what waits to be written, and a write over it, need
    none: they are answered one cycle later and at once."""
    c = m.requests[request, AT_CHANNEL]
    is_write = m.requests[request, IS_WRITE]
    address = m.requests[request, ADDRESS]
    for at in range(m.channels[c, WRITES]):
        if m.requests[m.queues[3 * c + WRITES, at], ADDRESS] == address:
            m.requests[request, ACCEPTED] = t
            m.requests[request, FINISHED] = t if is_write else t + 1
            m.requests[request, OUTCOME] = MERGED if is_write else FORWARDED
            return True
    if m.policy[Policy.QUEUE_PER_BANK] and waits_for_bank(m, request):
        m.requests[request, ACCEPTED] = t
        m.requests[request, FINISHED] = t if is_write else t + 1
        m.requests[request, OUTCOME] = MERGED if is_write else FORWARDED
        return True
    kind = WRITES if is_write else READS
    length = m.channels[c, kind]
    if length >= m.policy[Policy.WRITE_QUEUE if is_write else Policy.READ_QUEUE]:
        return False
    m.requests[request, ACCEPTED] = t
    m.queues[3 * c + kind, length] = request
    m.channels[c, kind] = length + 1
    m.channels[c, WAKE] = t
    return True


@kernel
def accept_from_one_queue(m: Controller, t: int) -> int:
    """Accept requests in order until one has not arrived or is refused. Returns the next cycle to try at, or NEVER if
    only a command can make room."""
    head, size = m.engines[0, 0], m.requests.shape[0]
    last = min(head + ACCEPTS * m.channels.shape[0], size)
    while head < last and m.requests[head, ARRIVAL] <= t and accept(m, head, t):
        head += 1
    m.engines[0, 0] = head
    if head == size:
        return NEVER
    if m.requests[head, ARRIVAL] > t:
        return int(m.requests[head, ARRIVAL])
    return t + 1 if head == last else NEVER


@kernel
def accept_from_queue_per_engine(m: Controller, t: int) -> int:
    """Accept the head of each engine's queue, skipping those that are refused. Returns as
    :func:`accept_from_one_queue`.

    As in the reference runs the engine that is asked first changes every cycle; two readers that wait for one place
    are then not equal, for it matters who stands between them. Or, the fair way, reads and writes are accepted in turn
    each among themselves.
    """
    engines = m.engines.shape[0]
    fair = m.policy[Policy.INJECTION] == 2
    left = ACCEPTS * m.channels.shape[0]
    following = NEVER
    for kind in range(2 if fair else 1):
        first = m.channels[0, FIRST_READER + kind] if fair else t
        for turn in range(engines):
            engine = (first + turn) % engines
            head = m.engines[engine, 0]
            if head < 0 or (fair and m.requests[head, IS_WRITE] != kind):
                continue
            if m.requests[head, ARRIVAL] > t:
                following = min(following, m.requests[head, ARRIVAL])
            elif left > 0 and accept(m, head, t):
                m.engines[engine, 0] = m.requests[head, NEXT_OF_ENGINE]
                m.channels[0, FIRST_READER + kind] = engine + 1
                left -= 1
                following = t + 1
    return int(following) if left > 0 else t + 1


@kernel
def admit(m: Controller, t: int) -> int:
    """Accept what has arrived; returns the next cycle to try at, or NEVER if only a command can make room."""
    if m.policy[Policy.INJECTION]:
        return accept_from_queue_per_engine(m, t)
    return accept_from_one_queue(m, t)


@kernel
def is_idle(m: Controller, c: int) -> bool:
    """Whether a channel has nothing to do but refresh."""
    waiting = m.channels[c, READS] + m.channels[c, WRITES] + m.channels[c, ACTIVES]
    return bool(waiting == 0 and m.channels[c, SPLIT_BANK] < 0)


@kernel
def run_frfcfs(m: Controller) -> None:
    """Serve all requests with the controller of ``frfcfs.py``. Only cycles at which anything can happen are looked at.

    This loop stands here twice, once for each controller: who needs one does not wait until both are compiled.
    """
    t, all_accepted = 0, False
    while t < NEVER:
        following = admit(m, t)
        last = not all_accepted and following == NEVER and nothing_left(m)
        all_accepted = all_accepted or last
        idle = all_accepted
        for c in range(m.channels.shape[0]):
            if m.channels[c, WAKE] <= t or last:
                m.channels[c, WAKE] = step(m, c, t)
            following = min(following, m.channels[c, WAKE])
            idle = idle and is_idle(m, c)
        if idle:
            break
        t = following


@kernel
def run_per_bank(m: Controller) -> None:
    """Serve all requests with the controller of ``per_bank.py``; otherwise as :func:`run_frfcfs`."""
    t, all_accepted = 0, False
    while t < NEVER:
        following = admit(m, t)
        last = not all_accepted and following == NEVER and nothing_left(m)
        all_accepted = all_accepted or last
        idle = all_accepted
        for c in range(m.channels.shape[0]):
            if m.channels[c, WAKE] <= t or last:  # at the end, writes that no longer wait for company
                m.channels[c, WAKE] = step_per_bank(m, c, t)
            following = min(following, m.channels[c, WAKE])
            idle = idle and is_idle(m, c)
        if idle:
            break
        t = following
