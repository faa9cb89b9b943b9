"""The machine of ``docs/machine_rules.md``, written to be read: this is the definition, in SimPy.

SimPy keeps the clock. Every end of a tile or grant, and every finish of a transfer, is one of its timeouts; all that
are due at one cycle are collected, and one event of low priority settles the instant: ends first, in row order, then
arbitration. So nothing depends on the order in which SimPy happens to call back.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import simpy
from simpy.events import EventPriority

from accelsim.engine.events import RECORDED, event_table
from accelsim.engine.status import Stuck, deadlock
from accelsim.program.tables import ActivityKind, Program
from accelsim.timeline.table import Cause, EventTable

AFTER_ALL_ENDS = EventPriority(2)  # SimPy's own events have 0 and 1
CAUSE_OF_KIND = {kind: Cause[kind.name] for kind in ActivityKind}


@dataclass(slots=True, eq=False)
class Buffer:
    """Space that is taken and given back."""

    row: int
    capacity: int
    in_use: int = 0
    giver: int = -1
    """The activity whose finish gave space back last."""


@dataclass(slots=True, eq=False)
class Claim:
    """Bytes of a buffer, kept until all its releasers have finished."""

    buffer: Buffer
    bytes: int
    releasers_left: int = 0
    has_releasers: bool = False
    held: bool = False

    def take(self) -> None:
        """Occupy the space."""
        if self.releasers_left or not self.has_releasers:  # else all who would give it back have finished already
            self.held = True
            self.buffer.in_use += self.bytes

    def released_by(self, activity: int) -> None:
        """One releaser has finished; give the space back if it was the last."""
        self.releasers_left -= 1
        if not self.releasers_left and self.held:
            self.held = False
            self.buffer.in_use -= self.bytes
            self.buffer.giver = activity


@dataclass(slots=True, eq=False)
class Resource:
    """A core or a link: it serves one of its queues at a time."""

    row: int
    numerator: int
    denominator: int
    latency: int
    grant: int
    queues: list[Queue] = field(default_factory=list)
    turn: int = 0
    """Where in ``queues`` the search for the next starts."""
    busy: bool = False
    last: int = -1
    """The activity served last."""
    last_event: int = -1

    def cycles(self, first: int, last: int) -> int:
        """How long the bytes [first, last) of a transfer take."""
        return self.cycles_until(last) - self.cycles_until(first)

    def cycles_until(self, count: int) -> int:
        """ceil(count / rate), in integers."""
        return (count * self.denominator + self.numerator - 1) // self.numerator


@dataclass(slots=True, eq=False)
class Queue:
    """Activities in the order in which they must be served."""

    row: int
    resource: Resource
    slot: int
    """Its place among the queues of the resource."""
    head: Activity | None = None


@dataclass(slots=True, eq=False)
class Activity:
    """A tile or a transfer, and how far it has come."""

    row: int
    kind: ActivityKind
    queue: Queue
    cycles: int
    bytes: int
    previous: Activity | None = None
    next: Activity | None = None
    dependencies: list[Activity] = field(default_factory=list)
    dependents: list[Activity] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    needs: dict[Buffer, int] = field(default_factory=dict)
    """Bytes of all its claims, by buffer."""
    releases: list[Claim] = field(default_factory=list)
    pending: int = 0
    """Dependencies not finished, plus one for the predecessor on the queue."""
    bytes_served: int = 0
    ask_cycle: int = -1
    hand_on_cycle: int = -1
    finish_cycle: int = -1

    @property
    def order(self) -> tuple[int, int, int]:
        """Who comes first among those that ask."""
        return self.ask_cycle, self.queue.resource.row, self.queue.row

    @property
    def must_take(self) -> bool:
        """It has claims and has not started."""
        return bool(self.claims) and not self.bytes_served


class Machine:
    """A program that runs."""

    def __init__(self, program: Program) -> None:
        self.environment = simpy.Environment()
        self.buffers = [Buffer(row, capacity) for row, capacity in enumerate(program.buffers.capacity_bytes.tolist())]
        columns = program.resources
        rates = (columns.bytes_numerator, columns.bytes_denominator, columns.latency_cycles, columns.grant_bytes)
        self.resources = [
            Resource(row, *values) for row, values in enumerate(zip(*map(np.ndarray.tolist, rates), strict=True))
        ]
        self.queues: list[Queue] = []
        for row, resource in enumerate(program.queues.resource.tolist()):
            queues = self.resources[resource].queues
            self.queues.append(Queue(row, self.resources[resource], len(queues)))
            queues.append(self.queues[row])
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
        self.cycle = 0
        self.recorded: list[list[int]] = []

    def read_activities(self, program: Program) -> list[Activity]:
        """The activities, linked along their queues and dependencies."""
        columns = program.activities
        activities: list[Activity] = []
        last: dict[Queue, Activity] = {}
        rows = zip(*map(np.ndarray.tolist, (columns.kind, columns.queue, columns.cycles, columns.bytes)), strict=True)
        for row, (kind, queue_row, cycles, size) in enumerate(rows):
            queue = self.queues[queue_row]
            activity = Activity(row, ActivityKind(kind), queue, cycles, size, last.get(queue))
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
        resource.busy = False
        if activity.bytes_served < activity.bytes:
            return
        activity.hand_on_cycle = self.cycle
        queue.head = activity.next
        if activity.next is not None:
            self.one_less(activity.next)
        if resource.latency:
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
        """Round robin: the first queue, from the one whose turn it is, whose head could start now."""
        for queue in resource.queues[resource.turn :] + resource.queues[: resource.turn]:
            head = queue.head
            if head is not None and not head.pending and head not in self.short:
                return head
        return None

    def start(self, activity: Activity) -> None:
        """A tile, or the next grant of a transfer, starts and takes its claims."""
        queue, resource = activity.queue, activity.queue.resource
        if not activity.bytes_served or resource.last != activity.row:
            resource.last_event = len(self.recorded)
            self.recorded.append([self.cycle, self.cycle, activity.row, 0, *self.cause(activity)])
        if activity.must_take:
            self.standing.remove(activity)
            for claim in activity.claims:
                claim.take()
        cycles = activity.cycles
        if activity.bytes:
            left = activity.bytes - activity.bytes_served
            granted = left if len(resource.queues) == 1 else min(resource.grant or left, left)
            cycles = resource.cycles(activity.bytes_served, activity.bytes_served + granted)
            activity.bytes_served += granted
            self.recorded[resource.last_event][3] += granted
        self.recorded[resource.last_event][1] = self.cycle + cycles
        resource.busy = True
        resource.last = activity.row
        resource.turn = (queue.slot + 1) % len(resource.queues)
        self.wake_after(cycles, activity)

    def cause(self, activity: Activity) -> tuple[int, int]:
        """What the event that starts now had waited for last, and the activity that brought it."""
        if activity.bytes_served or activity.ask_cycle < self.cycle:
            buffer = self.short_before.get(activity)
            return (Cause.RESOURCE, activity.queue.resource.last) if buffer is None else (Cause.BUFFER, buffer.giver)
        previous = activity.previous
        causes = [
            (Cause.QUEUE if before is previous else CAUSE_OF_KIND[before.kind], before.row)
            for before in activity.dependencies
            if before.finish_cycle == self.cycle
        ]
        if previous is not None and previous.hand_on_cycle == self.cycle:
            causes.append((Cause.QUEUE, previous.row))
        return min(causes, default=(Cause.NONE, -1))


def run(program: Program) -> EventTable:
    """Run a checked program to its end.

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
    return event_table(program, recorded, ask_cycles)
