"""A controller that serves the oldest request whose command is ready (FR-FCFS), one channel and one cycle at a time.

First-ready first-come-first-served: Rixner et al., "Memory Access Scheduling", ISCA 2000. Reads and writes wait in two
queues and are served in batches. A request that has opened its row moves to a third queue, which goes first, and nobody
may close that row before it is done. A pending refresh holds back all but that third queue. In this form, with the same
thresholds, it is the controller of Ramulator 2.1; the fields of :class:`Policy` add limits that keep it fair.
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import NamedTuple

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
    Device,
    Gap,
    IntColumn,
    IntTable,
    access,
    activate,
    precharge,
    precharge_all,
    ready_to_access,
    ready_to_activate,
    refresh,
    refresh_bank,
)
from accelsim.jit import kernel

# Columns of Controller.requests. ACCEPTED and FINISHED are cycles, OUTCOME is what the first command found.
ARRIVAL, AT_CHANNEL, AT_BANK, AT_ROW, IS_WRITE, ENGINE, ADDRESS, ACCEPTED, FINISHED, OUTCOME, NEXT_OF_ENGINE = range(11)
REQUEST_COLUMNS = NEXT_OF_ENGINE + 1

WAITING, HIT, MISS, CONFLICT, FORWARDED, MERGED = range(-1, 5)
"""OUTCOME: no command yet; row open, bank closed, other row open; read from, or merged with, a write that waited."""

# Columns of Controller.channels. The first three are lengths of the queues in rows 3 c .. 3 c + 2 of the queue table;
# REFRESHES counts the refreshes due, REFRESHED those begun; SERVED the requests of the direction since it was switched.
READS, WRITES, ACTIVES, WRITE_MODE, ROW_BUS_FREE, NEXT_REFRESH, REFRESHES, REFRESHED, SERVED, SCAN, WAKE = range(11)
PAIRED_AT, PAIRED_RANK, PAIRED_BANK = range(11, 14)
FIRST_READER, FIRST_WRITER = range(14, 16)  # of channel 0: the engine that is asked first for a read, for a write
CHANNEL_COLUMNS = FIRST_WRITER + 1

ANY, COLUMN, ROW_COMMANDS = range(3)
"""Which commands a slot of the command bus takes."""


class Policy(IntEnum):
    """Rows of the table of choices."""

    DUAL_BUS = 0
    """Column and row commands have a bus of their own (HBM)."""
    HALF_CYCLES = auto()
    """Cycles are half clocks; only precharges may start on the second half (HBM3)."""
    READ_QUEUE = auto()
    WRITE_QUEUE = auto()
    HIGH = auto()
    """Writes are served once more than this many wait."""
    LOW = auto()
    """Reads are served again once fewer than this many writes wait."""
    HIT_FIRST = auto()
    """A row is not closed while an older request waits for it."""
    HIT_CAP = auto()
    """With HIT_FIRST: after this many accesses an open row has no claim any more."""
    WRITE_BATCH = auto()
    """With reads waiting, serve at most this many writes before reads have their turn."""
    READ_BATCH = auto()
    """Serve at least this many reads, if there are so many, before writes have their turn."""
    AGE_LIMIT = auto()
    """A request that has waited for longer goes before all others, and its bank belongs to it."""
    REFRESH = auto()
    """0 off, 1 all banks of a rank at once, 2 one bank after another."""
    REFRESH_INTERVAL = auto()
    QUEUE_PER_BANK = auto()
    """1: the controller of ``per_bank.py``, 0: that of ``frfcfs.py``."""
    INJECTION = auto()
    """0 one queue for all engines; one queue an engine: 1 the first one asked changes every cycle, 2 whoever was
    accepted goes last."""


ACCEPTS = 2
"""Requests that are accepted in one cycle, for each channel that there is."""


class Controller(NamedTuple):
    """The device, the requests, and what the controllers of all channels remember."""

    device: Device
    policy: IntColumn
    requests: IntTable
    channels: IntTable
    queues: IntTable
    """Indices of requests: three rows a channel (reads, writes, those that have opened their row), in order of
    acceptance, the third of activation; then a row a bank, for controllers with a queue a bank."""
    engines: IntTable
    """The first request that was not accepted yet: of each engine (-1 for none left), or, in row 0, of all."""


@kernel
def remove(m: Controller, queue: int, length: int, at: int) -> None:
    """Take an entry out of a queue; those behind it move up."""
    for place in range(at, length - 1):
        m.queues[queue, place] = m.queues[queue, place + 1]


@kernel
def finish(m: Controller, request: int, cycle: int) -> None:
    """The access command has been sent: a write is done, a read when its last data is back."""
    if m.requests[request, IS_WRITE]:
        m.requests[request, FINISHED] = cycle
    else:
        m.requests[request, FINISHED] = cycle + m.device.gaps[Gap.READ_RETURN]


@kernel
def serve_active(m: Controller, c: int, t: int) -> int:
    """Send the access of the oldest request that has opened its row and is ready. Returns ``t`` if one was sent, else
    the first cycle at which one will be ready."""
    queue, d = 3 * c + ACTIVES, m.device
    best, best_accepted, soonest = -1, NEVER, NEVER
    for at in range(m.channels[c, ACTIVES]):
        request = m.queues[queue, at]
        ready = ready_to_access(d, m.requests[request, AT_BANK], m.requests[request, IS_WRITE])
        if ready > t:
            soonest = min(soonest, ready)
        elif m.requests[request, ACCEPTED] < best_accepted:
            best, best_accepted = at, m.requests[request, ACCEPTED]
    if best < 0:
        return int(soonest)
    request = m.queues[queue, best]
    bank = m.requests[request, AT_BANK]
    access(d, bank, m.requests[request, IS_WRITE], t)
    d.banks[bank, ACTIVE] -= 1
    d.ranks[d.banks[bank, RANK], R_ACTIVE] -= 1
    finish(m, request, t)
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
    reserved = choose_direction(m, c, t)
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
        if bank == reserved and at > 0:
            continue
        row = d.banks[bank, ROW]
        if row == m.requests[request, AT_ROW]:
            if slot == ROW_COMMANDS:
                continue
            ready = whole(m, t, ready_to_access(d, bank, is_write))
            if ready <= t:
                access(d, bank, is_write, t)
                if m.requests[request, OUTCOME] == WAITING:
                    m.requests[request, OUTCOME] = HIT
                finish(m, request, t)
                remove(m, queue, length, at)
                m.channels[c, kind] -= 1
                m.channels[c, SERVED] += 1
                return t
        elif slot == COLUMN:
            continue
        elif row < 0:
            ready = whole(m, t, max(ready_to_activate(d, bank), m.channels[c, ROW_BUS_FREE]))
            if ready <= t:
                activate(d, bank, m.requests[request, AT_ROW], t)
                m.channels[c, ROW_BUS_FREE] = t + d.gaps[Gap.ROW_BUS]
                rank = d.banks[bank, RANK]
                pair(m, c, rank, bank, t, d.gaps[Gap.ROW_BUS])
                if m.requests[request, OUTCOME] == WAITING:
                    m.requests[request, OUTCOME] = MISS
                d.banks[bank, ACTIVE] += 1
                d.ranks[rank, R_ACTIVE] += 1
                m.queues[3 * c + ACTIVES, m.channels[c, ACTIVES]] = request
                m.channels[c, ACTIVES] += 1
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
    for _ in range(2 if dual else 1):  # one place for each call: every call is compiled in anew
        sent = NEVER
        if slot == COLUMN and m.policy[Policy.HALF_CYCLES] and t & 1:
            sent = t + 1
        else:
            if slot != ROW_COMMANDS:
                sent = whole(m, t, serve_active(m, c, t))
            due = m.channels[c, REFRESHES] > m.channels[c, REFRESHED]
            if sent > t and due and slot != COLUMN:
                sent = min(sent, serve_refresh(m, c, t))
            elif sent > t and not due:
                sent = min(sent, serve_queue(m, c, t, slot))
        soonest = min(soonest, sent)
        slot = ROW_COMMANDS
    return int(max(soonest, t + 1))
