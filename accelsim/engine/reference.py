"""The machine of ``docs/machine_rules.md``, written to be read: this is the definition, in SimPy.

SimPy keeps the clock. Every end of a tile or grant, and every finish of a transfer, is one of its timeouts; all that
are due at one cycle are collected, and one event of low priority settles the instant: ends first, in row order, then
arbitration. So nothing depends on the order in which SimPy happens to call back.
"""

from __future__ import annotations

from bisect import insort
from typing import cast

import numpy as np
import simpy
from simpy.events import EventPriority

from accelsim.engine.events import RECORDED, event_table
from accelsim.engine.memory_use import Served
from accelsim.engine.parts import Account, Activity, Buffer, Claim, Port, Queue, Resource
from accelsim.engine.reference_banks import BankedMemory
from accelsim.engine.status import Stuck, deadlock
from accelsim.program.tables import (
    ActivityKind,
    Arbitration,
    Program,
    ResourceKind,
    account_queues,
    byte_costs,
    port_cycles,
    port_shares,
)
from accelsim.timeline.table import Cause, EventTable

AFTER_ALL_ENDS = EventPriority(2)  # SimPy's own events have 0 and 1
AFTER_THE_INSTANT = EventPriority(3)
CAUSE_OF_KIND = {kind: Cause[kind.name] for kind in ActivityKind}


class Machine:
    """A program that runs."""

    def __init__(self, program: Program) -> None:
        self.environment = simpy.Environment()
        self.buffers = [Buffer(row, capacity) for row, capacity in enumerate(program.buffers.capacity_bytes.tolist())]
        columns = program.resources
        rates = (columns.bytes_numerator, columns.bytes_denominator, columns.latency_cycles, columns.grant_bytes)
        rules = [
            Arbitration.ROUND_ROBIN if kind == ResourceKind.CORE else Arbitration(arbitration)
            for kind, arbitration in zip(columns.kind.tolist(), columns.arbitration.tolist(), strict=True)
        ]
        self.resources = [
            Resource(row, *values) for row, values in enumerate(zip(*map(np.ndarray.tolist, rates), rules, strict=True))
        ]
        self.queues = self.read_queues(program)
        self.activities = self.read_activities(program)
        self.claims = self.read_claims(program)
        self.standing: list[Activity] = []
        """Askers with claims to take, in the order of asking."""
        self.due: list[Activity] = []
        """Activities whose tile, grant or latency ends at this cycle."""
        self.short: dict[Activity, Buffer] = {}
        """For each that stands: the buffer without room, for itself or for the one that holds it back."""
        self.short_before: dict[Activity, Buffer] = {}
        """The same at the end of the cycle before."""
        self.memory: BankedMemory | None = None
        if program.memory is not None and program.memory.fidelity == "banks":
            self.memory = BankedMemory(program, program.memory, self.wake_at, self.run_memory_at)
        self.cycle = 0
        self.recorded: list[list[int]] = []

    def read_queues(self, program: Program) -> list[Queue]:
        """The queues, hung on their resources; those of one tenant on one link have one account."""
        table = program.queues
        columns = (table.resource, account_queues(table), table.rank, table.outstanding, table.port)
        rows = zip(*map(np.ndarray.tolist, columns), byte_costs(program), strict=True)
        self.ports = {core: Port(part) for core, part in port_shares(program).items()}
        queues: list[Queue] = []
        for row, (resource, first, rank, outstanding, port, cost) in enumerate(rows):
            served_by = self.resources[resource]
            account = Account() if first == row else queues[first].account
            slot, passes = len(served_by.queues), self.ports.get(port)
            queues.append(Queue(row, served_by, slot, passes, account, cost, rank, outstanding))
            served_by.queues.append(queues[row])
        return queues

    def read_activities(self, program: Program) -> list[Activity]:
        """The activities, linked along their queues and dependencies."""
        columns = program.activities
        activities: list[Activity] = []
        last: dict[Queue, Activity] = {}
        values = (columns.kind, columns.queue, columns.cycles, columns.bytes, port_cycles(program))
        rows = zip(*map(np.ndarray.tolist, values), strict=True)
        for row, (kind, queue_row, cycles, size, at_port) in enumerate(rows):
            queue = self.queues[queue_row]
            activity = Activity(row, ActivityKind(kind), queue, cycles, size, at_port, last.get(queue))
            if activity.previous is None:
                queue.head = activity
            else:
                activity.previous.next = activity
                activity.pending = 1
            last[queue] = activity
            activities.append(activity)
        for before, after in zip(*map(np.ndarray.tolist, program.dependencies), strict=True):
            activities[before].dependents.append(activities[after])
            activities[after].dependencies.append(activities[before])
            activities[after].pending += 1
        return activities

    def read_claims(self, program: Program) -> list[Claim]:
        """The claims, hung on those who take and release them; those of cycle 0 are taken."""
        columns = program.claims
        claims = []
        at_once = []
        for buffer, size, taken_by in zip(*map(np.ndarray.tolist, columns[:3]), strict=True):
            claim = Claim(self.buffers[buffer], size)
            claims.append(claim)
            if taken_by < 0:
                at_once.append(claim)
            else:
                activity = self.activities[taken_by]
                activity.claims.append(claim)
                activity.needs[claim.buffer] = activity.needs.get(claim.buffer, 0) + size
        for row, releaser in zip(*map(np.ndarray.tolist, program.releases), strict=True):
            claims[row].releasers_left += 1
            claims[row].has_releasers = True
            self.activities[releaser].releases.append(claims[row])
        for claim in at_once:
            claim.take()
        return claims

    def run(self) -> None:
        """Run until nothing more can happen."""
        for queue in self.queues:
            if queue.head is not None and not queue.head.pending:
                self.ask(queue.head)
        self.settle_later()
        self.environment.run()

    def wake_after(self, cycles: int, activity: Activity) -> None:
        """Have the activity's end, or finish, settled so many cycles from now."""
        timeout = self.environment.timeout(cycles, activity)
        timeout.callbacks.append(self.wake)

    def wake_at(self, cycle: int, row: int) -> None:
        """The memory says when a grant ends, or a transfer finishes."""
        self.wake_after(cycle - int(self.environment.now), self.activities[row])

    def run_memory_at(self, cycle: int) -> None:
        """Run the memory's cycles that belong to this cycle, once its last instant is settled."""
        event = simpy.Event(self.environment)
        event.callbacks.append(self.run_memory)
        event._ok, event._value = True, None
        self.environment.schedule(event, AFTER_THE_INSTANT, cycle - int(self.environment.now))

    def run_memory(self, _: simpy.Event) -> None:
        """SimPy calls back: the memory has something to do in this cycle."""
        assert self.memory is not None
        self.memory.tick(int(self.environment.now))

    def wake(self, event: simpy.Timeout) -> None:
        """SimPy calls back: the activity is due at this cycle."""
        if not self.due:
            self.settle_later()
        self.due.append(cast(Activity, event.value))

    def settle_later(self) -> None:
        """Settle this instant, after all that is due at it."""
        event = simpy.Event(self.environment)
        event.callbacks.append(self.settle)
        event._ok, event._value = True, None
        self.environment.schedule(event, AFTER_ALL_ENDS)

    def settle(self, _: simpy.Event) -> None:
        """One instant: what is due ends, in row order; then arbitration."""
        if self.environment.now > self.cycle:
            self.cycle = int(self.environment.now)
            self.short_before = self.short
        due, self.due = sorted(self.due, key=lambda activity: activity.row), []
        for activity in due:
            self.end(activity)
        self.arbitrate()

    def end(self, activity: Activity) -> None:
        """A tile or grant ends; or a transfer, handed on before, finishes after the link's latency."""
        if activity.hand_on_cycle >= 0:
            self.finish(activity)
            return
        queue, resource = activity.queue, activity.queue.resource
        if activity.port_cycles:
            end = self.ports[resource.row].tile_end(activity, self.cycle)
            if end > self.cycle:  # transfers passed the port meanwhile
                self.wake_after(end - self.cycle, activity)
                return
        if queue.port:
            queue.port.busy += self.cycle - queue.port.links.pop(resource)
        resource.busy = False
        self.recorded[resource.last_event][1] = self.cycle  # a memory behind the link may have said when
        if activity.bytes_served < activity.bytes:
            return
        activity.hand_on_cycle = self.cycle
        queue.head = activity.next
        if activity.next is not None:
            self.one_less(activity.next)
        if self.memory and self.memory.plan.link == resource.row and activity.bytes:
            self.memory.hand_on(self.cycle, activity.row)
        elif resource.latency:
            self.wake_after(resource.latency, activity)
        else:
            self.finish(activity)

    def finish(self, activity: Activity) -> None:
        """Dependents may go on, and claims are given back."""
        activity.finish_cycle = self.cycle
        for dependent in activity.dependents:
            self.one_less(dependent)
        for claim in activity.releases:
            claim.released_by(activity.row)

    def one_less(self, activity: Activity) -> None:
        """The activity has one thing less to wait for."""
        activity.pending -= 1
        if not activity.pending:
            self.ask(activity)

    def ask(self, activity: Activity) -> None:
        """The activity could start, as far as it is concerned."""
        activity.ask_cycle = self.cycle
        if activity.claims:
            insort(self.standing, activity, key=lambda other: other.order)

    def arbitrate(self) -> None:
        """Of the choices of all free resources, the one that asked first starts; again, until there is no choice."""
        while True:
            self.short = self.shortages()
            choices = [self.choice(resource) for resource in self.resources if not resource.busy]
            starting = min(
                (activity for activity in choices if activity), key=lambda activity: activity.order, default=None
            )
            if starting is None:
                return
            self.start(starting)

    def shortages(self) -> dict[Activity, Buffer]:
        """Those that cannot have their claims now: no room, or held back by an earlier one that has no room."""
        short: dict[Activity, Buffer] = {}
        blocked: dict[Buffer, tuple[int, Buffer]] = {}
        for place, activity in enumerate(self.standing):
            full = [buffer for buffer, size in activity.needs.items() if buffer.in_use + size > buffer.capacity]
            holders = [blocked[buffer] for buffer in activity.needs if buffer in blocked]
            if full:
                short[activity] = min(full, key=lambda buffer: buffer.row)
                for buffer in activity.needs:
                    blocked.setdefault(buffer, (place, short[activity]))
            elif holders:
                short[activity] = min(holders, key=lambda holder: holder[0])[1]
        return short

    def choice(self, resource: Resource) -> Activity | None:
        """Of the queues whose heads could start now, the head of the one that is first in the resource's order."""
        could = [queue for queue in resource.queues if self.could_start(queue)]
        return min(could, key=resource.order).head if could else None

    def could_start(self, queue: Queue) -> bool:
        """The head has asked, has room in its buffers, and may send another request."""
        head = queue.head
        waits = head is None or head.pending or head in self.short
        return not waits and not queue.waits_for_request(self.cycle)

    def start(self, activity: Activity) -> None:
        """A tile, or the next grant of a transfer, starts and takes its claims."""
        queue, resource = activity.queue, activity.queue.resource
        goes_on = activity.bytes_served and resource.last == activity.row
        if not goes_on or self.recorded[resource.last_event][1] < self.cycle:
            resource.last_event = len(self.recorded)
            self.recorded.append([self.cycle, self.cycle, activity.row, 0, *self.cause(activity)])
        if activity.must_take:
            self.standing.remove(activity)
            for claim in activity.claims:
                claim.take()
        cycles, granted, first = activity.cycles, 0, activity.bytes_served
        if activity.bytes:
            granted = resource.grant_bytes(activity)
            cycles = resource.cycles(activity.bytes_served, activity.bytes_served + granted)
            activity.bytes_served += granted
            self.recorded[resource.last_event][3] += granted
        self.recorded[resource.last_event][1] = self.cycle + cycles
        resource.busy = True
        resource.last = activity.row
        resource.count(queue, granted)
        if queue.port:
            queue.port.links[resource] = self.cycle
        if activity.port_cycles:
            port = self.ports[resource.row]
            port.tile_from, port.busy_from = self.cycle, port.busy_at(self.cycle)
        if queue.outstanding:
            back = cycles + resource.latency
            queue.requests = [*queue.requests, (self.cycle + back, activity)][-queue.outstanding :]
            self.environment.timeout(back).callbacks.append(lambda _: self.settle_later())
        if self.memory and self.memory.plan.link == resource.row and activity.bytes:
            self.memory.take(self.cycle, activity.row, first, activity.bytes_served, self.cycle + cycles)
        else:
            self.wake_after(cycles, activity)

    def cause(self, activity: Activity) -> tuple[int, int]:
        """What the event that starts now had waited for last, and the activity that brought it."""
        if activity.bytes_served or activity.ask_cycle < self.cycle:
            buffer, request = self.short_before.get(activity), activity.queue.oldest_request
            if buffer is not None:
                return Cause.BUFFER, buffer.giver
            if request is not None and request[0] == self.cycle:
                return Cause.LIMIT, request[1].row
            return Cause.RESOURCE, activity.queue.resource.last
        previous = activity.previous
        causes = [
            (Cause.QUEUE if before is previous else CAUSE_OF_KIND[before.kind], before.row)
            for before in activity.dependencies
            if before.finish_cycle == self.cycle
        ]
        if previous is not None and previous.hand_on_cycle == self.cycle:
            causes.append((Cause.QUEUE, previous.row))
        return min(causes, default=(Cause.NONE, -1))


def run(program: Program) -> tuple[EventTable, Served | None]:
    """Run a checked program to its end; with a memory with banks, also what that served.

    Raises:
        Deadlock: activities are left and none of them can ever start.
    """
    machine = Machine(program)
    machine.run()
    ask_cycles = np.array([activity.ask_cycle for activity in machine.activities], dtype=np.int64)
    finished = np.array([activity.finish_cycle >= 0 for activity in machine.activities], dtype=np.bool_)
    if not finished.all():
        held = np.array([claim.held for claim in machine.claims], dtype=np.bool_)
        raise deadlock(program, Stuck(machine.cycle, ask_cycles, finished, held))
    recorded = np.array(machine.recorded, dtype=np.int64).reshape(-1, len(RECORDED))
    if machine.memory is None:
        return event_table(program, recorded, ask_cycles), None
    events = event_table(program, recorded, ask_cycles, machine.memory.finish_cycles(program.size))
    return events, machine.memory.served(program.size, int(events.finish_cycles.max(initial=0)))
