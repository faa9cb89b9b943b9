"""A memory with banks behind the compiled machine's link: bursts from grants, cycle by cycle, and what ends when.

The machine and the memory have clocks of their own. Cycle c of the memory belongs to the machine's cycle T in which it
begins; grants of T are offered to it from the first of these on, and what is over with memory cycle c is over at the
first cycle of the machine that does not begin before. So the memory may run ahead up to the next instant at which the
machine does anything, and no further. The rules: ``docs/machine_rules.md``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.engine.events import IntTable
from accelsim.engine.heap import push
from accelsim.engine.memory_use import Served
from accelsim.engine.state import (
    END,
    HANDED,
    HANDED_ON,
    HEAP,
    LAST_EVENT,
    LATENCY,
    MEMORY_ASKED,
    MEMORY_LINK,
    NOW,
    OFFERED,
    OFFERED_FROM,
    OFFERED_UNTIL,
    PHASE,
    Machine,
)
from accelsim.hardware.memory.address_map import BANK, CHANNEL, ROW, MapTables, locate_one
from accelsim.hardware.memory.controller import (
    ACCEPTS,
    ACTIVATED,
    ADDRESS,
    AT_BANK,
    AT_CHANNEL,
    AT_ROW,
    DONE,
    ENGINE,
    FINISHED,
    FORWARDED,
    HIT,
    IS_WRITE,
    OUTCOME,
    WAITING,
    WAKE,
    Controller,
)
from accelsim.hardware.memory.device import NEVER
from accelsim.hardware.memory.frfcfs import step
from accelsim.hardware.memory.inject import accept
from accelsim.jit import kernel
from accelsim.program.memory_plan import MemoryPlan
from accelsim.program.tables import ActivityKind, IntColumn, Program

# Columns of Banks.transfers. UNDERWAY counts the bursts accepted and not done, LAST is the last memory cycle at which
# one of them was done, FINISH the machine's cycle at which the transfer finishes, or -1. The rest count what was sent.
BASE, RUN, PITCH, STORES, UNDERWAY, LAST, FINISH, BURSTS, ACTIVATIONS, HITS, MISSES, CONFLICTS = range(12)
# Rows of Banks.state. CYCLE is the memory's next one; OFFERS the transfer whose bytes from NEXT_BYTE up to LAST_BYTE
# are still to be accepted, or -1; FREE the number of free places. A cycle of the machine is RATIO / RATIO_OF cycles of
# the memory. WRITE_DATA: from a write to its last data.
CYCLE, OFFERS, NEXT_BYTE, LAST_BYTE, FREE, WAITS, RATIO, RATIO_OF, ACCESS, WRITE_DATA = range(10)


class Banks(NamedTuple):
    """The memory, and what the machine has asked of it."""

    controller: Controller
    """Its requests are places that bursts take while they are under way."""
    map: MapTables
    transfers: IntTable
    """One row an activity."""
    free: IntColumn
    """The places that are free."""
    state: IntColumn


@kernel
def first_memory_cycle(b: Banks, cycle: int) -> int:
    """The first cycle of the memory that belongs to a cycle of the machine."""
    return int((cycle * b.state[RATIO] + b.state[RATIO_OF] - 1) // b.state[RATIO_OF])


@kernel
def over_at(b: Banks, memory_cycle: int) -> int:
    """The machine's cycle at which a cycle of the memory is over."""
    return int(((memory_cycle + 1) * b.state[RATIO_OF] + b.state[RATIO] - 1) // b.state[RATIO])


@kernel
def to_heap(m: Machine, cycle: int, activity: int) -> None:
    """Have the machine settle the end, or the finish, of a transfer at a cycle."""
    push(m.heap, m.counts[HEAP], cycle, activity)
    m.counts[HEAP] += 1


@kernel
def finish_transfer(b: Banks, m: Machine, activity: int) -> None:
    """The transfer has handed on and all its bursts are done: it finishes a link's latency later."""
    done = over_at(b, b.transfers[activity, LAST])
    b.transfers[activity, FINISH] = max(m.counts[NOW], done + m.resources[m.counts[MEMORY_LINK], LATENCY])
    to_heap(m, b.transfers[activity, FINISH], activity)


@kernel
def done(b: Banks, m: Machine, place: int) -> None:
    """A burst is done, or will be at a known cycle: count it, and free its place."""
    requests = b.controller.requests
    activity = requests[place, ENGINE]
    until, outcome = requests[place, FINISHED], requests[place, OUTCOME]
    if requests[place, IS_WRITE]:
        until += b.state[WRITE_DATA]
    b.transfers[activity, LAST] = max(b.transfers[activity, LAST], until)
    b.transfers[activity, UNDERWAY] -= 1
    b.transfers[activity, ACTIVATIONS] += requests[place, ACTIVATED]
    if outcome < FORWARDED:
        b.transfers[activity, BURSTS] += 1
        b.transfers[activity, HITS + outcome - HIT] += 1
    b.free[b.state[FREE]] = place
    b.state[FREE] += 1
    b.state[WAITS] -= 1
    if b.transfers[activity, UNDERWAY] == 0 and m.activities[activity, PHASE] == HANDED_ON:
        finish_transfer(b, m, activity)


@kernel
def next_burst(b: Banks, activity: int, byte: int) -> int:
    """Where the burst behind the one that begins with ``byte`` begins: the next access, or the next run."""
    access, run = b.state[ACCESS], b.transfers[activity, RUN]
    within = byte % run
    address = b.transfers[activity, BASE] + byte // run * b.transfers[activity, PITCH] + within
    return int(byte + min(access - address % access, run - within))


@kernel
def offer(b: Banks, m: Machine, events: IntTable, t: int) -> int:
    """Have the bursts of the grant accepted in order, until one is refused; the grant ends with the last.

    Returns the next cycle to try at, or NEVER if only a command can make room or nothing is offered.
    """
    c, activity = b.controller, b.state[OFFERS]
    if activity < 0:
        return NEVER
    for _ in range(ACCEPTS * c.channels.shape[0]):
        if b.state[NEXT_BYTE] >= b.state[LAST_BYTE]:
            break
        byte, run = b.state[NEXT_BYTE], b.transfers[activity, RUN]
        address = b.transfers[activity, BASE] + byte // run * b.transfers[activity, PITCH] + byte % run
        place = b.free[b.state[FREE] - 1]
        locate_one(b.map, address)
        c.requests[place, AT_CHANNEL] = b.map.location[CHANNEL]
        c.requests[place, AT_BANK] = b.map.location[BANK]
        c.requests[place, AT_ROW] = b.map.location[ROW]
        c.requests[place, ADDRESS] = address // b.state[ACCESS]
        c.requests[place, IS_WRITE] = b.transfers[activity, STORES]
        c.requests[place, ENGINE] = activity
        c.requests[place, OUTCOME] = WAITING
        c.requests[place, ACTIVATED] = 0
        if not accept(c, place, t):
            return NEVER
        b.state[FREE] -= 1
        b.state[WAITS] += 1
        b.transfers[activity, UNDERWAY] += 1
        if c.requests[place, OUTCOME] >= FORWARDED:
            done(b, m, place)
        b.state[NEXT_BYTE] = next_burst(b, activity, byte)
    if b.state[NEXT_BYTE] < b.state[LAST_BYTE]:
        return t + 1
    b.state[OFFERS] = -1
    event = m.resources[m.counts[MEMORY_LINK], LAST_EVENT]
    events[event, END] = max(events[event, END], over_at(b, t))
    to_heap(m, events[event, END], activity)
    return NEVER


@kernel
def take_grant(b: Banks, m: Machine) -> None:
    """The machine has granted the link, in this instant, to bytes of a transfer."""
    activity, byte = m.counts[OFFERED], m.counts[OFFERED_FROM]
    if byte > 0:  # the access that the grant before has begun is on its way
        run, access = b.transfers[activity, RUN], b.state[ACCESS]
        within = byte % run
        address = b.transfers[activity, BASE] + byte // run * b.transfers[activity, PITCH] + within
        if within > 0 and address % access:
            byte += min(access - address % access, run - within)
    b.state[OFFERS], b.state[NEXT_BYTE], b.state[LAST_BYTE] = activity, byte, m.counts[OFFERED_UNTIL]
    b.state[CYCLE] = min(b.state[CYCLE], first_memory_cycle(b, m.counts[NOW]))
    m.counts[OFFERED] = -1


@kernel
def advance(b: Banks, m: Machine, events: IntTable, until: int) -> None:
    """Run the memory up to the machine's next instant, which it may itself bring about; or, with nothing to come and
    nothing under way, up to cycle ``until`` of the machine."""
    handed = m.counts[HANDED]
    if handed >= 0:
        m.counts[HANDED] = -1
        if b.transfers[handed, UNDERWAY] == 0:
            finish_transfer(b, m, handed)
    if m.counts[OFFERED] >= 0:
        take_grant(b, m)
    m.counts[MEMORY_ASKED] = 1
    c = b.controller
    while True:
        limit = NEVER
        if m.counts[HEAP]:
            limit = first_memory_cycle(b, m.heap[0, 0])
        elif b.state[WAITS] == 0 and b.state[OFFERS] < 0:
            limit = first_memory_cycle(b, until)
        t = b.state[CYCLE]
        if t >= limit:
            break
        following = offer(b, m, events, t)
        for channel in range(c.channels.shape[0]):
            if c.channels[channel, WAKE] <= t:
                c.channels[channel, WAKE] = step(c, channel, t)
                place = c.channels[channel, DONE]
                if place >= 0:
                    c.channels[channel, DONE] = -1
                    done(b, m, place)
            following = min(following, c.channels[channel, WAKE])
        b.state[CYCLE] = following


class BankedMemory:
    """The memory of a program's plan, at cycle 0."""

    def __init__(self, program: Program, plan: MemoryPlan) -> None:
        dram, activities = plan.memory.dram, program.activities
        controller = dram.controller()
        places = len(controller.requests)
        transfers = np.zeros((program.size, CONFLICTS + 1), dtype=np.int64)
        transfers[:, BASE], transfers[:, RUN], transfers[:, PITCH] = plan.placement
        transfers[:, FINISH] = -1
        transfers[:, STORES] = activities.kind == ActivityKind.STORE
        state = np.zeros(WRITE_DATA + 1, dtype=np.int64)
        state[OFFERS], state[FREE] = -1, places
        state[RATIO], state[RATIO_OF] = plan.clock_ratio.numerator, plan.clock_ratio.denominator
        state[ACCESS], state[WRITE_DATA] = dram.access_bytes, dram.write_data_cycles
        self.banks = Banks(controller, dram.address_map.tables(), transfers, np.arange(places), state)

    def advance(self, m: Machine, events: IntTable, until: int = 0) -> None:
        """As the kernel of that name."""
        advance(self.banks, m, events, until)

    @property
    def finish_cycles(self) -> IntColumn:
        """The machine's cycle at which each transfer finished; -1 for others."""
        return self.banks.transfers[:, FINISH]

    def served(self, m: Machine, events: IntTable, latency_cycles: int) -> Served:
        """What the memory did until the end of the run; refreshes go on to the end."""
        self.advance(m, events, latency_cycles)
        b = self.banks
        counted = (b.transfers[:, column].copy() for column in (BURSTS, ACTIVATIONS, HITS, MISSES, CONFLICTS))
        return Served(b.controller, int(first_memory_cycle(b, latency_cycles)), *counted)
