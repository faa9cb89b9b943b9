"""Programs for tests: a draft to write small ones by hand, and Hypothesis strategies for legal and for arbitrary ones.

Legal programs reach their end by construction. Rows stand in an order in which one after another could run: edges, and
queues, lead from lower to higher rows. So if nothing runs, the lowest row left, h, has asked; it must only find room.

* A *private* buffer is claimed by one queue only, so claims of rows above h cannot be in it; claims may last until any
  later row has finished, and the capacity is at least what is alive when the rows run one by one. So h fits.
* A *shared* buffer is claimed by any queue. Its claims either end with the activity that took them, or they last; and
  the capacity is at least all that last plus the largest need of one activity. So when nothing runs, everybody fits.
* No activity claims from both kinds, so none that waits before a private buffer holds h back in a shared one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from accelsim.program.tables import (
    SHAPE_COLUMNS,
    ActivityKind,
    ActivityTable,
    Arbitration,
    BufferTable,
    ClaimTable,
    DependencyTable,
    Program,
    QueueTable,
    ReleaseTable,
    ResourceKind,
    ResourceTable,
)


@dataclass
class Draft:
    """A program in the making. Every method returns the row it has added."""

    resources: list[tuple[int, ...]] = field(default_factory=list)
    queues: list[int] = field(default_factory=list)
    rules: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """Of each queue: tenant, weight, rank, outstanding, port."""
    port_cycles: dict[int, int] = field(default_factory=dict)
    tenants: int = 0
    activities: list[tuple[int, int, int, int]] = field(default_factory=list)
    dependencies: list[tuple[int, int]] = field(default_factory=list)
    claims: list[tuple[int, int, int]] = field(default_factory=list)
    releases: list[tuple[int, int]] = field(default_factory=list)
    buffers: list[int] = field(default_factory=list)

    def core(self, port: tuple[int, int] = (0, 1)) -> int:
        """``port``: bytes per cycle of the port that transfers pass, too, as a fraction."""
        self.resources.append((ResourceKind.CORE, *port, 0, Arbitration.ROUND_ROBIN, 0))
        return len(self.resources) - 1

    def link(
        self,
        numerator: int = 1,
        denominator: int = 1,
        *,
        latency: int = 0,
        arbitration: Arbitration = Arbitration.IN_ORDER,
        grant: int = 0,
    ) -> int:
        self.resources.append((ResourceKind.LINK, numerator, denominator, latency, arbitration, grant))
        return len(self.resources) - 1

    def queue(
        self, resource: int, *, tenant: int = -1, weight: int = 1, rank: int = 0, outstanding: int = 0, port: int = -1
    ) -> int:
        self.queues.append(resource)
        self.rules.append((tenant, weight, rank, outstanding, port))
        self.tenants = max(self.tenants, tenant + 1)
        return len(self.queues) - 1

    def activity(self, kind: ActivityKind, queue: int, size: int, after: tuple[int, ...] = ()) -> int:
        row = len(self.activities)
        tile = kind == ActivityKind.TILE
        self.activities.append((queue, kind, size if tile else 0, 0 if tile else size))
        self.dependencies += [(before, row) for before in after]
        return row

    def tile(self, queue: int, cycles: int, *after: int) -> int:
        return self.activity(ActivityKind.TILE, queue, cycles, after)

    def load(self, queue: int, size: int, *after: int) -> int:
        return self.activity(ActivityKind.LOAD, queue, size, after)

    def store(self, queue: int, size: int, *after: int) -> int:
        return self.activity(ActivityKind.STORE, queue, size, after)

    def buffer(self, capacity: int) -> int:
        self.buffers.append(capacity)
        return len(self.buffers) - 1

    def claim(self, buffer: int, size: int, taken_by: int, *released_by: int) -> int:
        row = len(self.claims)
        self.claims.append((buffer, size, taken_by))
        self.releases += [(row, activity) for activity in released_by]
        return row

    def program(self) -> Program:
        """Activity n works on operator ``n`` and, if it is a transfer, moves tensor ``n``."""

        def columns(rows: Sequence[tuple[int, ...]], width: int) -> list[np.ndarray]:
            return list(np.array(rows, dtype=np.int64).reshape(-1, width).T)

        queue, kind, cycles, size = columns(self.activities, 4)
        count = len(queue)
        none = np.full(count, -1)
        rows = np.arange(count)
        tile = kind == ActivityKind.TILE
        buffer, claimed, taken_by = columns(self.claims, 3)
        return Program(
            resources=ResourceTable(*columns(self.resources, 6)),
            queues=QueueTable(np.array(self.queues, dtype=np.int64), *columns(self.rules, 5)),
            activities=ActivityTable(
                queue=queue,
                kind=kind,
                cycles=cycles,
                bytes=size,
                operator=rows,
                tile=np.where(tile, 0, -1),
                tensor=np.where(tile, -1, rows),
                position=none,
                macs=none * 0,
                vector_ops=none * 0,
                shape=none,
                port_cycles=np.array([self.port_cycles.get(row, 0) for row in range(count)], dtype=np.int64),
            ),
            dependencies=DependencyTable(*columns(self.dependencies, 2)),
            claims=ClaimTable(buffer, claimed, taken_by, np.full(len(buffer), -1)),
            releases=ReleaseTable(*columns(self.releases, 2)),
            buffers=BufferTable(np.array(self.buffers, dtype=np.int64)),
            energy_pj=np.zeros((count, 0)),
            shapes=np.zeros((0, len(SHAPE_COLUMNS)), dtype=np.int64),
            resource_names=tuple(f"resource{row}" for row in range(len(self.resources))),
            queue_names=tuple(f"queue{row}" for row in range(len(self.queues))),
            buffer_names=tuple(f"buffer{row}" for row in range(len(self.buffers))),
            operator_names=tuple(f"op{row}" for row in range(count)),
            tensor_names=tuple(f"tensor{row}" for row in range(count)),
            part_names=(),
            tenant_names=tuple(f"tenant{row}" for row in range(self.tenants)),
        )


class Dice:
    """Draws from a seeded generator, for programs larger than Hypothesis likes to make."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def integer(self, least: int, most: int) -> int:
        return int(self.random.integers(least, most + 1))


class Drawn:
    """Draws from Hypothesis, which can shrink what it drew."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def integer(self, least: int, most: int) -> int:
        return self.draw(st.integers(least, most))


def machine(source: Dice | Drawn) -> Draft:
    """One to three cores and links, one to three queues each, of all kinds of rates, latencies and grants.

    Some links pass the port of one of the cores, all these with the same rate.
    """
    draft = Draft()
    ports = source.integer(0, 2) == 0
    rate = (source.integer(1, 7), source.integer(1, 3))
    for _ in range(source.integer(1, 3)):
        core = draft.core((source.integer(1, 9), source.integer(1, 2)) if ports else (0, 1))
        for _ in range(source.integer(1, 3)):
            draft.queue(core)
    for _ in range(source.integer(1, 3)):
        passed = source.integer(0, core) if ports and source.integer(0, 3) else -1
        link = draft.link(
            *(rate if passed >= 0 else (source.integer(1, 7), source.integer(1, 3))),
            latency=source.integer(0, 6) if source.integer(0, 1) else 0,
            arbitration=Arbitration(source.integer(0, len(Arbitration) - 1)),
            grant=source.integer(1, 9) if source.integer(0, 1) else 0,
        )
        weights = [source.integer(1, 5) for _ in range(3)]
        for own in range(source.integer(1, 4)):
            tenant = source.integer(-1, 1)
            draft.queue(
                link,
                tenant=tenant,
                weight=weights[tenant] if tenant >= 0 else 1 + own,
                rank=source.integer(0, 2),
                outstanding=source.integer(1, 3) if source.integer(0, 2) == 0 else 0,
                port=passed if source.integer(0, 3) else -1,
            )
    return draft


def add_activities(draft: Draft, source: Dice | Drawn, count: int) -> None:
    """Tiles, loads, stores and sends, up to three edges each from the rows just before; many are of size 0 or alike."""
    for row in range(count):
        queue = source.integer(0, len(draft.queues) - 1)
        size = source.integer(0, 12) if source.integer(0, 3) else 0
        reach = min(row, 8)
        after = {row - source.integer(1, reach) for _ in range(source.integer(0, 3))} if reach else set()
        kind = ActivityKind(source.integer(1, 3))
        if draft.resources[draft.queues[queue]][0] == ResourceKind.CORE:
            kind = ActivityKind.TILE
        row = draft.activity(kind, queue, size, tuple(sorted(after)))
        if kind == ActivityKind.TILE and draft.resources[draft.queues[queue]][1]:
            draft.port_cycles[row] = source.integer(0, 12)


def add_private_buffer(draft: Draft, source: Dice | Drawn, rows: list[int]) -> None:
    """Claims of one queue's rows, kept for rows up to eight later; room for what one-by-one execution needs."""
    count = len(draft.activities)
    buffer = draft.buffer(0)
    spans = []
    for row in [-1] * min(count, source.integer(0, 1)) + rows:
        for _ in range(source.integer(0, 2)):
            size = source.integer(0, 10)
            keepers = {min(max(row + source.integer(-3, 8), 0), count - 1) for _ in range(source.integer(1, 3))}
            draft.claim(buffer, size, row, *sorted(keepers))
            spans.append((row, max(keepers), size))
    alive = [sum(size for first, last, size in spans if first <= row and last >= row) for row in range(-1, count)]
    # A claim counts while it is being taken, even if all its keepers have finished.
    taken = [sum(size for first, last, size in spans if first == row > last) for row in range(-1, count)]
    draft.buffers[buffer] = max(a + t for a, t in zip(alive, taken, strict=True)) + source.integer(0, 3)


def add_shared_buffer(draft: Draft, source: Dice | Drawn, rows: list[int]) -> None:
    """Claims of any rows: most end with their taker, some last longer or for ever."""
    count = len(draft.activities)
    buffer = draft.buffer(0)
    lasting = largest = 0
    for row in rows:
        need = 0
        for _ in range(source.integer(1, 2)):
            size = source.integer(0, 10)
            last = source.integer(0, 19)
            keepers = (source.integer(0, count - 1),) if last == 0 else () if last == 1 else (row,)
            draft.claim(buffer, size, row, *keepers)
            lasting += size * (last < 2)
            need += size
        largest = max(largest, need)
    draft.buffers[buffer] = lasting + largest + source.integer(0, 3)


def legal_program(source: Dice | Drawn, count: int) -> Program:
    """A program that ends; see the top of this file for why."""
    draft = machine(source)
    add_activities(draft, source, count)
    shared = [row for row in range(count) if source.integer(0, 2) == 0]
    for queue in range(len(draft.queues)):
        if source.integer(0, 2):
            own = [row for row in range(count) if draft.activities[row][0] == queue and row not in set(shared)]
            add_private_buffer(draft, source, own)
    for _ in range(source.integer(0, 3)):
        add_shared_buffer(draft, source, [row for row in shared if source.integer(0, 3)])
    return draft.program()


def arbitrary_program(source: Dice | Drawn, count: int) -> Program:
    """Edges in any direction and claims on any buffer: a program that often, but not always, comes to a standstill."""
    draft = machine(source)
    add_activities(draft, source, count)
    if count > 1 and source.integer(0, 2) == 0:
        before = source.integer(0, count - 1)
        draft.dependencies.append((before, (before + source.integer(1, count - 1)) % count))
    for _ in range(source.integer(0, 3)):
        buffer = draft.buffer(source.integer(10, 20))
        for row in range(count):
            if source.integer(0, 1):
                keepers = {min(row + source.integer(0, 4), count - 1) for _ in range(source.integer(0, 2))}
                draft.claim(buffer, source.integer(0, 10), row, *sorted(keepers))
    return draft.program()


@st.composite
def legal_programs(draw: st.DrawFn) -> Program:
    """Programs of up to 14 activities that end."""
    return legal_program(Drawn(draw), draw(st.integers(0, 14)))


@st.composite
def arbitrary_programs(draw: st.DrawFn) -> Program:
    """Programs of up to 10 activities that may come to a standstill."""
    return arbitrary_program(Drawn(draw), draw(st.integers(0, 10)))
