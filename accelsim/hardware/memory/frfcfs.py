"""A controller that serves the oldest request whose command is ready (FR-FCFS), one channel and one cycle at a time.

First-ready first-come-first-served: Rixner et al., "Memory Access Scheduling", ISCA 2000. Reads and writes wait in two
queues and are served in batches. A request that has opened its row moves to a third queue, which goes first, and nobody
may close that row before it is done. A pending refresh holds back all but that third queue. In this form, with the same
thresholds, it is the controller of Ramulator 2.1; the fields of :class:`Policy` add limits that keep it fair.
"""

from __future__ import annotations

from accelsim.hardware.memory.controller import (
    ACCEPTED,
    ACTIVATED,
    ACTIVES,
    ANY,
    AT_BANK,
    AT_ROW,
    CLOCK_UNTIL,
    COLUMN,
    CONFLICT,
    HIT,
    IS_WRITE,
    MISS,
    NEXT_REFRESH,
    OUTCOME,
    PAIRED_AT,
    PAIRED_BANK,
    PAIRED_RANK,
    READS,
    REFRESHED,
    REFRESHES,
    ROW_BUS_FREE,
    ROW_COMMANDS,
    SCAN,
    SERVED,
    SPLIT_BANK,
    SPLIT_DUE,
    SPLIT_REQUEST,
    SYNCED,
    WAITING,
    WRITE_MODE,
    WRITES,
    Controller,
    Policy,
    finish,
    remove,
)
from accelsim.hardware.memory.device import (
    ACTIVE,
    HIT_SCAN,
    HIT_SINCE,
    HITS,
    NEVER,
    OPEN,
    PRE,
    R_ACTIVE,
    R_PRE,
    R_PREA,
    R_REF,
    R_REFB,
    RANK,
    REFB,
    ROW,
    Command,
    Gap,
    access,
    activate,
    precharge,
    precharge_all,
    ready_to_access,
    ready_to_activate,
    record,
    refresh,
    refresh_bank,
)
from accelsim.jit import kernel


@kernel
def open_for(m: Controller, c: int, request: int) -> None:
    """The row of the request is open: it goes before those that wait."""
    m.queues[3 * c + ACTIVES, m.channels[c, ACTIVES]] = request
    m.channels[c, ACTIVES] += 1


@kernel
def finish_activation(m: Controller, c: int, t: int) -> None:
    """The second half of an activation (LPDDR5)."""
    bank, request = m.channels[c, SPLIT_BANK], m.channels[c, SPLIT_REQUEST]
    record(m.device, t, Command.ACT2, m.device.banks[bank, RANK], bank, m.device.banks[bank, ROW])
    m.channels[c, SPLIT_BANK] = -1
    open_for(m, c, request)


@kernel
def send_access(m: Controller, c: int, request: int, t: int) -> bool:
    """Send the access of a request that is ready; or, if the data clock has stopped, the command that starts it
    (LPDDR5), whose access follows in the next cycle. Returns whether the access was sent."""
    d, bank, is_write = m.device, m.requests[request, AT_BANK], m.requests[request, IS_WRITE]
    runs_on = m.policy[Policy.WRITE_CLOCK] if is_write else m.policy[Policy.READ_CLOCK]
    if runs_on > 0:
        if t >= m.channels[c, CLOCK_UNTIL] and m.channels[c, SYNCED] != request:
            if m.channels[c, SPLIT_BANK] >= 0 and m.channels[c, SPLIT_DUE] <= t + 1:
                finish_activation(m, c, t)
            else:
                record(d, t, Command.CAS, d.banks[bank, RANK], bank, d.banks[bank, ROW])
                m.channels[c, SYNCED] = request
            return False
        m.channels[c, SYNCED] = -1
        m.channels[c, CLOCK_UNTIL] = max(m.channels[c, CLOCK_UNTIL], t + runs_on)
    access(d, bank, is_write, t)
    finish(m, request, t)
    return True


@kernel
def serve_active(m: Controller, c: int, t: int) -> int:
    """Send the access of the oldest request that has opened its row and is ready. Returns ``t`` if one was sent, else
    the first cycle at which one will be ready."""
    queue, d = 3 * c + ACTIVES, m.device
    best, best_accepted, soonest = -1, NEVER, NEVER
    for at in range(m.channels[c, ACTIVES]):
        request = m.queues[queue, at]
        if m.channels[c, SYNCED] >= 0 and m.channels[c, SYNCED] != request:
            continue
        ready = ready_to_access(d, m.requests[request, AT_BANK], m.requests[request, IS_WRITE])
        if ready > t:
            soonest = min(soonest, ready)
        elif m.requests[request, ACCEPTED] < best_accepted:
            best, best_accepted = at, m.requests[request, ACCEPTED]
    if best < 0:
        return int(soonest)
    request = m.queues[queue, best]
    if not send_access(m, c, request, t):
        return t
    bank = m.requests[request, AT_BANK]
    d.banks[bank, ACTIVE] -= 1
    d.ranks[d.banks[bank, RANK], R_ACTIVE] -= 1
    remove(m, queue, m.channels[c, ACTIVES], best)
    m.channels[c, ACTIVES] -= 1
    return t


@kernel
def serve_refresh(m: Controller, c: int, t: int) -> int:
    """Take the next step towards the refresh that is due; returns as :func:`serve_active`."""
    d = m.device
    ranks = d.ranks.shape[0] // m.channels.shape[0]
    if m.policy[Policy.REFRESH] == 2:
        banks = d.banks.shape[0] // m.channels.shape[0]
        bank = c * banks + m.channels[c, REFRESHED] % banks
        rank = d.banks[bank, RANK]
        if d.banks[bank, ROW] >= 0:
            if d.banks[bank, ACTIVE] > 0:
                return NEVER
            ready = max(max(d.banks[bank, PRE], d.ranks[rank, R_PRE]), m.channels[c, ROW_BUS_FREE])
            if may_precharge(m, c, rank, bank, t) and ready <= t:
                precharge(d, bank, t)
                pair(m, c, rank, bank, t, 1)
                return t
            return int(max(ready, t + 1))
        ready = whole(m, t, max(max(d.banks[bank, REFB], d.ranks[rank, R_REFB]), m.channels[c, ROW_BUS_FREE]))
        if ready <= t:
            refresh_bank(d, bank, t)
            pair(m, c, rank, bank, t, 1)
            m.channels[c, REFRESHED] += 1
            return t
        return ready
    rank = c * ranks + m.channels[c, REFRESHED] % ranks
    if d.ranks[rank, OPEN] > 0:
        if d.ranks[rank, R_ACTIVE] > 0:
            return NEVER
        ready = max(d.ranks[rank, R_PREA], m.channels[c, ROW_BUS_FREE])
        if ready <= t and may_precharge(m, c, rank, -1, t):
            precharge_all(d, rank, t)
            pair(m, c, rank, -1, t, 1)
            return t
        return int(max(ready, t + 1))
    ready = whole(m, t, max(d.ranks[rank, R_REF], m.channels[c, ROW_BUS_FREE]))
    if ready <= t:
        refresh(d, rank, t)
        pair(m, c, rank, -1, t, 1)
        m.channels[c, REFRESHED] += 1
        return t
    return ready


@kernel
def whole(m: Controller, t: int, cycle: int) -> int:
    """The first cycle from ``cycle`` and from ``t`` on at which other commands than precharges may start."""
    if not m.policy[Policy.HALF_CYCLES]:
        return cycle
    cycle = max(t, cycle)
    return cycle + (cycle & 1)


@kernel
def pair(m: Controller, c: int, rank: int, bank: int, t: int, length: int) -> None:
    """Remember a row command of the first half of a clock, for the precharge that may share its clock (HBM3)."""
    if m.policy[Policy.HALF_CYCLES] and not t & 1:
        m.channels[c, PAIRED_AT] = t + length
        m.channels[c, PAIRED_RANK] = rank
        m.channels[c, PAIRED_BANK] = bank


@kernel
def may_precharge(m: Controller, c: int, rank: int, bank: int, t: int) -> bool:
    """Whether a precharge may share its clock with the row command of the first half (JESD238, command pairing)."""
    if (
        not m.policy[Policy.HALF_CYCLES]
        or not t & 1
        or t != m.channels[c, PAIRED_AT]
        or rank != m.channels[c, PAIRED_RANK]
    ):
        return True
    return bank >= 0 and m.channels[c, PAIRED_BANK] >= 0 and bank != m.channels[c, PAIRED_BANK]


@kernel
def choose_direction(m: Controller, c: int, t: int) -> int:
    """Decides whether reads or writes are served. Returns the bank that belongs to an overdue request, or -1."""
    reads, writes = m.channels[c, READS], m.channels[c, WRITES]
    served, mode = m.channels[c, SERVED], m.channels[c, WRITE_MODE]
    overdue = -1
    limit = t - m.policy[Policy.AGE_LIMIT]
    for kind in range(2):
        if m.channels[c, kind] > 0:
            oldest = m.queues[3 * c + kind, 0]
            if m.requests[oldest, ACCEPTED] < limit:
                limit = m.requests[oldest, ACCEPTED]
                overdue = oldest
    if overdue >= 0:
        wanted = m.requests[overdue, IS_WRITE]
    elif mode:
        enough = writes < m.policy[Policy.LOW] or served >= m.policy[Policy.WRITE_BATCH]
        wanted = 0 if enough and reads != 0 else 1
    else:
        wanted = 1 if (writes > m.policy[Policy.HIGH] and served >= m.policy[Policy.READ_BATCH]) or reads == 0 else 0
    if wanted != mode:
        m.channels[c, WRITE_MODE] = wanted
        m.channels[c, SERVED] = 0
    return m.requests[overdue, AT_BANK] if overdue >= 0 else -1


@kernel
def mark_hits(m: Controller, queue: int, length: int, scan: int) -> None:
    """Write down, for each bank, when the oldest request for its open row was accepted."""
    banks = m.device.banks
    for at in range(length):
        request = m.queues[queue, at]
        bank = m.requests[request, AT_BANK]
        if banks[bank, ROW] == m.requests[request, AT_ROW] and banks[bank, HIT_SCAN] != scan:
            banks[bank, HIT_SCAN] = scan
            banks[bank, HIT_SINCE] = m.requests[request, ACCEPTED]


@kernel
def serve_queue(m: Controller, c: int, t: int, slot: int) -> int:
    """Send the next command of the oldest waiting request whose command is ready; returns as :func:`serve_active`."""
    synced, split = m.channels[c, SYNCED], m.channels[c, SPLIT_BANK]
    reserved = choose_direction(m, c, t) if synced < 0 else -1
    is_write = m.channels[c, WRITE_MODE]
    kind = WRITES if is_write else READS
    queue, length, d = 3 * c + kind, m.channels[c, kind], m.device
    hit_first = m.policy[Policy.HIT_FIRST]
    if hit_first and slot != COLUMN:
        m.channels[c, SCAN] += 1
        mark_hits(m, queue, length, m.channels[c, SCAN])
    soonest = NEVER
    for at in range(length):
        request = m.queues[queue, at]
        bank = m.requests[request, AT_BANK]
        if (bank == reserved and at > 0) or bank == split or (synced >= 0 and request != synced):
            continue
        row = d.banks[bank, ROW]
        if row == m.requests[request, AT_ROW]:
            if slot == ROW_COMMANDS:
                continue
            ready = whole(m, t, ready_to_access(d, bank, is_write))
            if ready <= t:
                if not send_access(m, c, request, t):
                    return t
                if m.requests[request, OUTCOME] == WAITING:
                    m.requests[request, OUTCOME] = HIT
                remove(m, queue, length, at)
                m.channels[c, kind] -= 1
                m.channels[c, SERVED] += 1
                return t
        elif slot == COLUMN:
            continue
        elif row < 0:
            if split >= 0:
                continue
            ready = whole(m, t, max(ready_to_activate(d, bank), m.channels[c, ROW_BUS_FREE]))
            if ready <= t:
                activate(d, bank, m.requests[request, AT_ROW], t)
                m.channels[c, ROW_BUS_FREE] = t + d.gaps[Gap.ROW_BUS]
                m.requests[request, ACTIVATED] += 1
                rank = d.banks[bank, RANK]
                pair(m, c, rank, bank, t, d.gaps[Gap.ROW_BUS])
                if m.requests[request, OUTCOME] == WAITING:
                    m.requests[request, OUTCOME] = MISS
                d.banks[bank, ACTIVE] += 1
                d.ranks[rank, R_ACTIVE] += 1
                if m.policy[Policy.SPLIT_WITHIN] > 0:
                    m.channels[c, SPLIT_BANK], m.channels[c, SPLIT_REQUEST] = bank, request
                    m.channels[c, SPLIT_DUE] = t + m.policy[Policy.SPLIT_WITHIN]
                else:
                    open_for(m, c, request)
                remove(m, queue, length, at)
                m.channels[c, kind] -= 1
                m.channels[c, SERVED] += 1
                return t
        elif d.banks[bank, ACTIVE] > 0:
            continue
        else:
            if (
                hit_first
                and bank != reserved
                and d.banks[bank, HIT_SCAN] == m.channels[c, SCAN]
                and d.banks[bank, HIT_SINCE] <= m.requests[request, ACCEPTED]
                and d.banks[bank, HITS] < m.policy[Policy.HIT_CAP]
            ):
                continue
            rank = d.banks[bank, RANK]
            ready = max(max(d.banks[bank, PRE], d.ranks[rank, R_PRE]), m.channels[c, ROW_BUS_FREE])
            if ready <= t and not may_precharge(m, c, rank, bank, t):
                ready = t + 1
            if ready <= t:
                precharge(d, bank, t)
                pair(m, c, rank, bank, t, 1)
                if m.requests[request, OUTCOME] == WAITING:
                    m.requests[request, OUTCOME] = CONFLICT
                return t
        soonest = min(soonest, ready)
    return int(soonest)


@kernel
def step(m: Controller, c: int, t: int) -> int:
    """All that the controller of a channel does at cycle ``t``; returns the next cycle at which it can do something."""
    interval = m.policy[Policy.REFRESH_INTERVAL]
    if t == m.channels[c, NEXT_REFRESH]:
        m.channels[c, NEXT_REFRESH] += interval
        ranks = m.device.ranks.shape[0] // m.channels.shape[0]
        m.channels[c, REFRESHES] += ranks if m.policy[Policy.REFRESH] == 1 else 1
    soonest = m.channels[c, NEXT_REFRESH]
    dual = m.policy[Policy.DUAL_BUS]
    slot = COLUMN if dual else ANY
    if not dual and m.channels[c, ROW_BUS_FREE] > t:  # an activation of several cycles holds the only bus
        return int(min(soonest, m.channels[c, ROW_BUS_FREE]))
    if m.channels[c, SPLIT_BANK] >= 0 and m.channels[c, SPLIT_DUE] <= t:
        finish_activation(m, c, t)
        return t + 1
    for _ in range(2 if dual else 1):  # one place for each call: every call is compiled in anew
        sent = NEVER
        if slot == COLUMN and m.policy[Policy.HALF_CYCLES] and t & 1:
            sent = t + 1
        else:
            if slot != ROW_COMMANDS:
                sent = whole(m, t, serve_active(m, c, t))
            due = m.channels[c, REFRESHES] > m.channels[c, REFRESHED] and m.channels[c, SYNCED] < 0
            if sent > t and due and slot != COLUMN:
                sent = min(sent, serve_refresh(m, c, t))
            elif sent > t and not due:
                sent = min(sent, serve_queue(m, c, t, slot))
        soonest = min(soonest, sent)
        slot = ROW_COMMANDS
    if soonest > t and m.channels[c, SPLIT_BANK] >= 0:
        finish_activation(m, c, t)
        soonest = t
    return int(max(soonest, t + 1))
