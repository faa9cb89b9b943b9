"""The parts of the reference machine: what each holds, and the rules that are its own."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

from accelsim.program.tables import ActivityKind, Arbitration


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
    arbitration: Arbitration
    queues: list[Queue] = field(default_factory=list)
    turn: int = 0
    """Where in ``queues`` a search in turn starts."""
    reached: int = 0
    """What the account that was served last had come to then."""
    grants: int = 0
    """Served so far."""
    busy: bool = False
    last: int = -1
    """The activity served last."""
    last_event: int = -1

    def grant_bytes(self, activity: Activity) -> int:
        """The size of the transfer's next grant; a queue that is alone and has no limit need not take turns."""
        left = activity.bytes - activity.bytes_served
        return left if len(self.queues) == 1 and not activity.queue.outstanding else min(self.grant or left, left)

    def start_tag(self, queue: Queue) -> int:
        """What the queue's account has come to; one that was idle does not save up what it did not use."""
        return max(self.reached, queue.account.served)

    def order(self, queue: Queue) -> tuple[int, int, int, int]:
        """The least of the queues whose heads could start is served."""
        turn = (queue.slot - self.turn) % len(self.queues)
        match self.arbitration:
            case Arbitration.IN_ORDER:
                assert queue.head is not None
                return queue.head.ask_cycle, 0, 0, queue.slot
            case Arbitration.ROUND_ROBIN:
                return 0, 0, 0, turn
            case Arbitration.PRIORITY:
                return 0, queue.rank, queue.served_in, queue.slot
        return self.start_tag(queue), queue.rank, queue.served_in, queue.slot

    def count(self, queue: Queue, granted: int) -> None:
        """The queue is served a grant of so many bytes."""
        self.turn = (queue.slot + 1) % len(self.queues)
        self.grants += 1
        queue.served_in = self.grants
        self.reached = self.start_tag(queue)
        queue.account.served = self.reached + granted * queue.cost

    def cycles(self, first: int, last: int) -> int:
        """How long the bytes [first, last) of a transfer take."""
        return self.cycles_until(last) - self.cycles_until(first)

    def cycles_until(self, count: int) -> int:
        """ceil(count / rate), in integers."""
        return (count * self.denominator + self.numerator - 1) // self.numerator


@dataclass(slots=True, eq=False)
class Port:
    """Of a core's buffer, which transfers pass, too."""

    share: Fraction
    """Cycles of the port that a link takes in one of its own."""
    links: dict[Resource, int] = field(default_factory=dict)
    """Those that pass it now, and since when."""
    busy: int = 0
    """Cycles of links that passed it before, those of several links each for itself."""
    tile_from: int = 0
    """When the core's tile started."""
    busy_from: int = 0
    """What :meth:`busy_at` came to then."""

    def busy_at(self, cycle: int) -> int:
        """Cycles before this one in which links passed."""
        return self.busy + sum(cycle - since for since in self.links.values())

    def tile_end(self, tile: Activity, cycle: int) -> int:
        """When the tile ends, from what is known at this cycle: the port serves it, and all that passed meanwhile."""
        taken = math.ceil((self.busy_at(cycle) - self.busy_from) * self.share)
        return self.tile_from + max(tile.cycles, tile.port_cycles + taken)


@dataclass(slots=True, eq=False)
class Account:
    """What a tenant, or a queue on its own, has been served on one link."""

    served: int = 0


@dataclass(slots=True, eq=False)
class Queue:
    """Activities in the order in which they must be served."""

    row: int
    resource: Resource
    slot: int
    """Its place among the queues of the resource."""
    port: Port | None
    """That its transfers pass, too."""
    account: Account
    cost: int
    """What a byte counts in the account."""
    rank: int
    outstanding: int
    """The most requests on their way; 0 = any number."""
    head: Activity | None = None
    served_in: int = 0
    """The number, among the grants of the resource, of its last one."""
    requests: list[tuple[int, Activity]] = field(default_factory=list)
    """When each of its last ``outstanding`` grants came back, or will."""

    def waits_for_request(self, cycle: int) -> bool:
        """As many requests are on their way as may be."""
        return self.oldest_request is not None and self.oldest_request[0] > cycle

    @property
    def oldest_request(self) -> tuple[int, Activity] | None:
        """The one that must have come back before the next grant; None if there were fewer than may be."""
        full = self.outstanding and len(self.requests) == self.outstanding
        return self.requests[0] if full else None


@dataclass(slots=True, eq=False)
class Activity:
    """A tile or a transfer, and how far it has come."""

    row: int
    kind: ActivityKind
    queue: Queue
    cycles: int
    bytes: int
    port_cycles: int
    """For which it needs a port that transfers pass, too."""
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
