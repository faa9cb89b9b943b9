"""A memory with banks behind the reference engine's link, written to be read.

The controller is the compiled one, asked one cycle at a time: which request it accepts, and what it sends. What this
file has of its own, and the compiled engine too, is the rest: which bursts a grant is, where they lie, when they are
offered, what is done when, and how the two clocks meet.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from accelsim.engine.memory_use import Served
from accelsim.hardware.memory import controller as table
from accelsim.hardware.memory.device import NEVER
from accelsim.hardware.memory.frfcfs import step
from accelsim.hardware.memory.inject import accept
from accelsim.program.memory_plan import MemoryPlan
from accelsim.program.tables import ActivityKind, IntColumn, Program

WORDS = {table.HIT: "hits", table.MISS: "misses", table.CONFLICT: "conflicts"}


class Grant(NamedTuple):
    """Bytes of a transfer that the link moves now."""

    activity: int
    bursts: deque[tuple[int, int, int, int]]
    """Address, channel, bank and row of those not accepted yet."""
    earliest_end: int
    """The link itself needs until then."""


class BankedMemory:
    """The memory, its clock, and what is under way in it."""

    def __init__(
        self, program: Program, plan: MemoryPlan, wake_at: Callable[[int, int], None], run_at: Callable[[int], None]
    ) -> None:
        self.dram, self.plan = plan.memory.dram, plan
        self.wake_at = wake_at
        """To be called with the machine's cycle and the activity that ends, or finishes, then."""
        self.run_at = run_at
        """To be called with a cycle of the machine at which :meth:`tick` shall be called."""
        self.latency = int(program.resources.latency_cycles[plan.link])
        self.stores = program.activities.kind == ActivityKind.STORE
        self.controller = self.dram.controller()
        self.places = list(range(len(self.controller.requests)))
        self.grant: Grant | None = None
        self.under_way: Counter[int] = Counter()
        """By activity: bursts accepted and not done."""
        self.last: Counter[int] = Counter()
        """By activity: the memory's cycle at which the last burst was done."""
        self.counts: Counter[tuple[int, str]] = Counter()
        self.handed_on: dict[int, int] = {}
        """By activity: the machine's cycle."""
        self.finished: dict[int, int] = {}
        self.next_cycle = 0
        self.next_tick = -1

    def first_memory_cycle(self, cycle: int) -> int:
        """The first cycle of the memory that begins in a cycle of the machine, or behind it."""
        return -int(-cycle * self.plan.clock_ratio // 1)

    def over_at(self, memory_cycle: int) -> int:
        """The machine's first cycle that does not begin before a cycle of the memory is over."""
        return -int(-(memory_cycle + 1) / self.plan.clock_ratio // 1)

    def take(self, now: int, activity: int, first: int, last: int, earliest_end: int) -> None:
        """The link is granted to the bytes [first, last) of a transfer."""
        self.run_before(self.first_memory_cycle(now))
        self.next_cycle = self.first_memory_cycle(now)
        self.grant = Grant(activity, deque(self.bursts(activity, first, last)), earliest_end)
        self.tick_at(now)

    def bursts(self, activity: int, first: int, last: int) -> list[tuple[int, int, int, int]]:
        """Of each run the accesses that it touches; those whose first byte in the run is granted."""
        base, run, pitch = (int(column[activity]) for column in self.plan.placement)
        access = self.dram.access_bytes
        addresses = []
        for number in range(first // run, -(-last // run)):
            begin = base + number * pitch
            aligned = range(begin // access * access + access, begin + run, access)
            addresses += [address for address in (begin, *aligned) if first <= number * run + address - begin < last]
        found = self.dram.address_map.locate(np.array(addresses, dtype=np.int64))
        columns = (addresses, found.channel.tolist(), found.bank.tolist(), found.row.tolist())
        return list(zip(*columns, strict=True))

    def hand_on(self, now: int, activity: int) -> None:
        """All bytes of a transfer were granted and accepted; it finishes when they are done."""
        self.handed_on[activity] = now
        if not self.under_way[activity]:
            self.finish(activity)

    def finish(self, activity: int) -> None:
        """All bursts of a transfer are done: the rest is the link's latency."""
        done = self.over_at(self.last[activity]) + self.latency
        self.finished[activity] = max(self.handed_on[activity], done)
        self.wake_at(self.finished[activity], activity)

    def tick_at(self, cycle: int) -> None:
        """Run the memory's cycles that begin in this cycle of the machine, once its last instant is settled."""
        self.next_tick = cycle
        self.run_at(cycle)

    def tick(self, now: int) -> None:
        """One cycle of the machine."""
        if now != self.next_tick:
            return  # a grant has come in between
        self.next_tick = -1
        self.run_before(self.first_memory_cycle(now + 1))
        if self.grant or self.under_way.total():
            self.tick_at(max(now + 1, int(self.next_cycle / self.plan.clock_ratio)))

    def run_before(self, limit: int) -> None:
        """All cycles of the memory before this one at which anything can happen."""
        while self.next_cycle < limit:
            self.next_cycle = self.run_cycle(self.next_cycle)

    def run_cycle(self, t: int) -> int:
        """Offer bursts, then let each channel send what it can; returns the next cycle at which anything can happen."""
        following = self.offer(t) if self.grant else NEVER
        channels = self.controller.channels
        for channel in range(len(channels)):
            if channels[channel, table.WAKE] <= t:
                channels[channel, table.WAKE] = step(self.controller, channel, t)
                if channels[channel, table.DONE] >= 0:
                    self.done(int(channels[channel, table.DONE]))
                    channels[channel, table.DONE] = -1
        return min(following, int(channels[:, table.WAKE].min()))

    def offer(self, t: int) -> int:
        """Have bursts accepted, in order, until one is refused; the grant ends with the last."""
        assert self.grant is not None
        activity, bursts, earliest_end = self.grant
        for _ in range(table.ACCEPTS * len(self.controller.channels)):
            if bursts and not self.accept(activity, *bursts[0], t):
                return NEVER
            if bursts:
                bursts.popleft()
        if bursts:
            return t + 1
        self.grant = None
        self.wake_at(max(earliest_end, self.over_at(t)), activity)
        return NEVER

    def accept(self, activity: int, address: int, channel: int, bank: int, row: int, t: int) -> bool:
        """Whether the controller takes the burst."""
        requests, place = self.controller.requests, self.places[-1]
        requests[place] = 0
        requests[place, [table.AT_CHANNEL, table.AT_BANK, table.AT_ROW]] = channel, bank, row
        requests[place, table.ADDRESS] = address // self.dram.access_bytes
        requests[place, table.IS_WRITE] = self.stores[activity]
        requests[place, table.ENGINE] = activity
        requests[place, table.OUTCOME] = table.WAITING
        if not accept(self.controller, place, t):
            return False
        self.places.pop()
        self.under_way[activity] += 1
        if requests[place, table.OUTCOME] != table.WAITING:
            self.done(place)
        return True

    def finish_cycles(self, size: int) -> IntColumn:
        """The machine's cycle at which each of so many activities finished; -1 for those that are no transfers."""
        return np.array([self.finished.get(activity, -1) for activity in range(size)], dtype=np.int64)

    def served(self, size: int, latency_cycles: int) -> Served:
        """What the memory did until the end of the run; refreshes go on to the end."""
        cycles = self.first_memory_cycle(latency_cycles)
        self.run_before(cycles)
        words = ("bursts", "activations", *WORDS.values())
        counted = (np.array([self.counts[row, word] for row in range(size)], dtype=np.int64) for word in words)
        return Served(self.controller, cycles, *counted)

    def done(self, place: int) -> None:
        """A burst is done, or will be at a known cycle of the memory."""
        request = self.controller.requests[place]
        activity, outcome = int(request[table.ENGINE]), int(request[table.OUTCOME])
        until = int(request[table.FINISHED]) + (self.dram.write_data_cycles if self.stores[activity] else 0)
        self.last[activity] = max(self.last[activity], until)
        self.under_way[activity] -= 1
        self.counts[activity, "activations"] += int(request[table.ACTIVATED])
        if outcome in WORDS:
            self.counts[activity, "bursts"] += 1
            self.counts[activity, WORDS[outcome]] += 1
        self.places.append(place)
        if activity in self.handed_on and not self.under_way[activity]:
            self.finish(activity)
