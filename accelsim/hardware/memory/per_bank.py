"""A controller with a command queue for each bank, served in turn; one channel and one cycle at a time.

The structure and the limits are those of DRAMsim3 (Li et al., IEEE Computer Architecture Letters 19(2), 2020): requests
wait in a read and a write queue and move, one a cycle, to the queue of their bank. Writes are drained in one go once
their queue is full, or half idle. The banks take turns from the one served last; within a bank any ready row hit may
pass, a row is closed for the first request only, and only if nobody wants it any more or it has served four. A refresh
blocks its rank alone, and closes its banks one by one.
"""

from __future__ import annotations

from accelsim.hardware.memory.controller import (
    ACTIVES,
    ADDRESS,
    ANY,
    AT_BANK,
    AT_ROW,
    COLUMN,
    CONFLICT,
    HIT,
    IS_WRITE,
    MISS,
    NEXT_REFRESH,
    OUTCOME,
    READS,
    REFRESHED,
    REFRESHES,
    ROW_BUS_FREE,
    ROW_COMMANDS,
    SCAN,
    SERVED,
    WAITING,
    WRITES,
    Controller,
    Policy,
    finish,
    remove,
)
from accelsim.hardware.memory.device import (
    HITS,
    NEVER,
    PRE,
    QUEUED,
    R_PRE,
    R_REF,
    RANK,
    ROW,
    Command,
    Gap,
    access,
    activate,
    precharge,
    ready_to_access,
    ready_to_activate,
    refresh,
)
from accelsim.jit import kernel

BANK_QUEUE = 8
"""Requests that wait before one bank."""
ROW_SERVES = 4
"""Accesses after which a row may be closed although others want it."""
DRAIN_ABOVE = 8
"""More writes than these are drained when all bank queues are empty."""


@kernel
def bank_queue(m: Controller, bank: int) -> int:
    """The row of a bank's queue."""
    return int(3 * m.channels.shape[0] + bank)


@kernel
def waits_for_bank(m: Controller, request: int) -> bool:
    """Whether a write to the same address waits before the bank."""
    bank = m.requests[request, AT_BANK]
    queue = bank_queue(m, bank)
    for at in range(m.device.banks[bank, QUEUED]):
        other = m.queues[queue, at]
        if m.requests[other, IS_WRITE] and m.requests[other, ADDRESS] == m.requests[request, ADDRESS]:
            return True
    return False


@kernel
def is_wanted(m: Controller, bank: int) -> bool:
    """Whether a request before the bank is for its open row."""
    queue, row = bank_queue(m, bank), m.device.banks[bank, ROW]
    for at in range(m.device.banks[bank, QUEUED]):  # noqa: SIM110  (compiled)
        if m.requests[m.queues[queue, at], AT_ROW] == row:
            return True
    return False


@kernel
def follows_read(m: Controller, bank: int, place: int) -> bool:
    """Whether a read of the same address stands before this write in the bank's queue."""
    queue = bank_queue(m, bank)
    address = m.requests[m.queues[queue, place], ADDRESS]
    for at in range(place):  # noqa: SIM110  (compiled)
        if m.requests[m.queues[queue, at], ADDRESS] == address:
            return True
    return False


@kernel
def serve_bank(m: Controller, c: int, bank: int, t: int, slot: int) -> int:
    """Send the first ready command of a bank's queue. Returns ``t`` if one was sent, else the first cycle at which one
    will be ready."""
    d = m.device
    queue, row, rank = bank_queue(m, bank), d.banks[bank, ROW], d.banks[bank, RANK]
    soonest = NEVER
    if row < 0:
        if slot == COLUMN or d.banks[bank, QUEUED] == 0:
            return NEVER
        ready = max(ready_to_activate(d, bank), m.channels[c, ROW_BUS_FREE])
        if ready <= t:
            request = m.queues[queue, 0]
            activate(d, bank, m.requests[request, AT_ROW], t)
            m.channels[c, ROW_BUS_FREE] = t + d.gaps[Gap.ROW_BUS]
            if m.requests[request, OUTCOME] == WAITING:
                m.requests[request, OUTCOME] = MISS
        return int(ready)
    for at in range(d.banks[bank, QUEUED]):
        request = m.queues[queue, at]
        if m.requests[request, AT_ROW] == row:
            if slot == ROW_COMMANDS:
                continue
            is_write = m.requests[request, IS_WRITE]
            if is_write and follows_read(m, bank, at):
                continue
            ready = ready_to_access(d, bank, is_write)
            if ready <= t:
                access(d, bank, is_write, t)
                if m.requests[request, OUTCOME] == WAITING:
                    m.requests[request, OUTCOME] = HIT
                finish(m, request, t)
                remove(m, queue, d.banks[bank, QUEUED], at)
                d.banks[bank, QUEUED] -= 1
                m.channels[c, ACTIVES] -= 1
                return t
        elif at > 0 or slot == COLUMN or (d.banks[bank, HITS] < ROW_SERVES and is_wanted(m, bank)):
            continue
        else:
            ready = max(max(d.banks[bank, PRE], d.ranks[rank, R_PRE]), m.channels[c, ROW_BUS_FREE])
            if ready <= t:
                precharge(d, bank, t)
                if m.requests[request, OUTCOME] == WAITING:
                    m.requests[request, OUTCOME] = CONFLICT
                return t
        soonest = min(soonest, ready)
    return int(soonest)


@kernel
def serve_banks(m: Controller, c: int, t: int, refreshing: int, slot: int) -> int:
    """Ask the banks in turn, beginning behind the one served last; returns as :func:`serve_bank`. Those of the rank
    ``refreshing`` are left out."""
    d = m.device
    banks = d.banks.shape[0] // m.channels.shape[0]
    soonest = NEVER
    for turn in range(banks):
        place = (m.channels[c, SCAN] + 1 + turn) % banks
        bank = c * banks + place
        if d.banks[bank, QUEUED] == 0 or d.banks[bank, RANK] == refreshing:
            continue
        ready = serve_bank(m, c, bank, t, slot)
        if ready <= t:
            m.channels[c, SCAN] = place
            return t
        soonest = min(soonest, ready)
    return int(soonest)


@kernel
def serve_rank_refresh(m: Controller, c: int, rank: int, t: int) -> int:
    """Close the next bank of a rank that is to be refreshed, or refresh it; returns as :func:`serve_bank`."""
    d, bus_free = m.device, m.channels[c, ROW_BUS_FREE]
    banks = d.banks.shape[0] // d.ranks.shape[0]
    soonest = NEVER
    is_open = False
    for bank in range(rank * banks, (rank + 1) * banks):
        if d.banks[bank, ROW] >= 0:
            is_open = True
            ready = max(max(d.banks[bank, PRE], d.ranks[rank, R_PRE]), bus_free)
            if ready <= t:
                precharge(d, bank, t)
                return t
            soonest = min(soonest, ready)
    if not is_open:
        soonest = max(d.ranks[rank, R_REF], bus_free)
        if soonest <= t:
            refresh(d, rank, t)
            return t
    return int(soonest)


@kernel
def nothing_left(m: Controller) -> bool:
    """Whether all requests have been accepted."""
    if not m.policy[Policy.INJECTION]:
        return bool(m.engines[0, 0] == m.requests.shape[0])
    for engine in range(m.engines.shape[0]):  # noqa: SIM110  (compiled)
        if m.engines[engine, 0] >= 0:
            return False
    return True


@kernel
def overtakes_read(m: Controller, c: int, request: int) -> bool:
    """Whether a read of the address of this write is still in the read queue."""
    for at in range(m.channels[c, READS]):
        if m.requests[m.queues[3 * c + READS, at], ADDRESS] == m.requests[request, ADDRESS]:
            return True
    return False


@kernel
def move_to_bank(m: Controller, c: int) -> bool:
    """Move the first request whose bank has room from the read or the write queue to that of its bank."""
    d = m.device
    reads, writes = m.channels[c, READS], m.channels[c, WRITES]
    if m.channels[c, SERVED] == 0:
        idle = m.channels[c, ACTIVES] == 0
        last = idle and reads == 0 and nothing_left(m)  # the tool would leave these writes for ever
        if writes >= m.policy[Policy.WRITE_QUEUE] or (idle and writes > DRAIN_ABOVE) or last:
            m.channels[c, SERVED] = writes
    for kind in (WRITES, READS):
        if (kind == WRITES) != (m.channels[c, SERVED] > 0):
            continue
        for at in range(m.channels[c, kind]):
            request = m.queues[3 * c + kind, at]
            bank = m.requests[request, AT_BANK]
            if d.banks[bank, QUEUED] >= BANK_QUEUE:
                continue
            if kind == WRITES and overtakes_read(m, c, request):
                m.channels[c, SERVED] = 0  # reads have their turn
                break
            m.channels[c, SERVED] -= 1 if kind == WRITES else 0
            m.queues[bank_queue(m, bank), d.banks[bank, QUEUED]] = request
            d.banks[bank, QUEUED] += 1
            m.channels[c, ACTIVES] += 1
            remove(m, 3 * c + kind, m.channels[c, kind], at)
            m.channels[c, kind] -= 1
            return True
    return False


@kernel
def step_per_bank(m: Controller, c: int, t: int) -> int:
    """All that the controller of a channel does at cycle ``t``; returns the next cycle at which it can do something."""
    counts = m.device.counts
    ranks = m.device.ranks.shape[0] // m.channels.shape[0]
    if t == m.channels[c, NEXT_REFRESH]:
        m.channels[c, NEXT_REFRESH] += m.policy[Policy.REFRESH_INTERVAL]
        m.channels[c, REFRESHES] += 1
    soonest = m.channels[c, NEXT_REFRESH]
    refreshing, slot, slots = -1, ANY, 2 if m.policy[Policy.DUAL_BUS] else 1
    if m.channels[c, REFRESHES] > m.channels[c, REFRESHED]:
        refreshing = c * ranks + m.channels[c, REFRESHED] % ranks
        before = counts[Command.REF]
        ready = serve_rank_refresh(m, c, refreshing, t)
        soonest = min(soonest, ready)
        m.channels[c, REFRESHED] += counts[Command.REF] - before
        if ready <= t:
            slot, slots = COLUMN, slots - 1
    if not m.policy[Policy.DUAL_BUS] and m.channels[c, ROW_BUS_FREE] > t:
        soonest, slots = min(soonest, m.channels[c, ROW_BUS_FREE]), 0
    for _ in range(slots):  # the second bus takes what the first does not
        columns = counts[Command.RD] + counts[Command.WR]
        ready = serve_banks(m, c, t, refreshing, slot)
        soonest = min(soonest, ready)
        if ready > t:
            break
        slot = COLUMN if counts[Command.RD] + counts[Command.WR] == columns else ROW_COMMANDS
    if move_to_bank(m, c):
        soonest = t + 1
    return int(max(soonest, t + 1))
