"""Who had the links, when, and whom others waited for: read from the events, which say who was served in each cycle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from accelsim.program.tables import IntColumn, ResourceKind
from accelsim.timeline.occupancy import bin_edges, bytes_in_bins
from accelsim.timeline.table import Cause, Timeline

FOR_BUFFER, FOR_REQUESTS = "buffer space", "requests on their way"
"""What a transfer waits for besides the link."""


class Bandwidth(NamedTuple):
    """Bytes moved over time."""

    edges_cycles: IntColumn
    """Shape (bins + 1,): bin n is the cycles [edges[n], edges[n + 1])."""
    queues: IntColumn
    """Rows of the program's queues, those on links."""
    bytes: IntColumn
    """Shape (queues, bins). Those of an event are spread evenly over its cycles."""


def bandwidth_by_queue(timeline: Timeline, bins: int = 100) -> Bandwidth:
    """Bytes that each queue of a link moved, over time; a queue's bins add up to its bytes.

    Args:
        bins: into how many equal parts the run is divided; fewer for a run of fewer cycles.
    """
    edges = bin_edges(timeline, bins)
    rows = [queue for link in _links(timeline) for queue in _queues_of(timeline, link)]
    moved = [bytes_in_bins(timeline, timeline.events.queue == queue, edges) for queue in rows]
    table = np.array(moved, dtype=np.int64).reshape(len(rows), len(edges) - 1)
    return Bandwidth(edges, np.array(rows, dtype=np.int64), table)


def link_waits(timeline: Timeline) -> dict[str, dict[str, int]]:
    """For each queue of a link, in how many cycles its transfers waited, by the queue that held the link then.

    A transfer waits from when it asks to its first byte, and whenever it is interrupted. Where nobody holds the link
    meanwhile, it waits for :data:`FOR_BUFFER`, or for :data:`FOR_REQUESTS` on a queue with a limit of them; a wait that
    ends with space in a buffer was for that, all of it. All queues of one tenant go by its name. Queues that never wait
    are left out.
    """
    waits: dict[str, dict[str, int]] = {}
    for link in _links(timeline):
        queues = _queues_of(timeline, link)
        held = {queue: _held_before(timeline, queue) for queue in queues}
        for queue in queues:
            start, end, for_buffer = _waits(timeline, queue)
            other = FOR_REQUESTS if timeline.program.queues.outstanding[queue] else FOR_BUFFER
            found = {holder_name(timeline, holder): 0 for holder in queues}
            on_link = ~for_buffer
            rest = int((end - start).sum())
            found[FOR_BUFFER] = int((end - start)[for_buffer].sum())
            for holder in queues:
                before = held[holder]
                cycles = int((before(end[on_link]) - before(start[on_link])).sum())
                found[holder_name(timeline, holder)] += cycles
            found[other] = found.get(other, 0) + rest - sum(found.values())
            mine = waits.setdefault(holder_name(timeline, queue), {})
            for name, cycles in found.items():
                if cycles:
                    mine[name] = mine.get(name, 0) + cycles
    return {name: found for name, found in waits.items() if found}


def holder_name(timeline: Timeline, queue: int) -> str:
    """The tenant of a queue, or the queue itself where it stands for itself."""
    program = timeline.program
    tenant = int(program.queues.tenant[queue])
    return program.tenant_names[tenant] if tenant >= 0 else program.queue_names[queue]


def _links(timeline: Timeline) -> Iterator[int]:
    yield from np.flatnonzero(timeline.program.resources.kind == ResourceKind.LINK).tolist()


def _queues_of(timeline: Timeline, link: int) -> list[int]:
    queues: list[int] = np.flatnonzero(timeline.program.queues.resource == link).tolist()
    return queues


class _Held(NamedTuple):
    """How many cycles before a cycle one queue held its link."""

    start: IntColumn
    end: IntColumn
    before: IntColumn
    """Of each event, the cycles of those ahead of it; and of all."""

    def __call__(self, cycles: IntColumn) -> IntColumn:
        begun = np.searchsorted(self.start, cycles, side="right")
        last = np.maximum(begun - 1, 0)
        if not len(self.start):
            return np.zeros(len(cycles), dtype=np.int64)
        left = np.maximum(self.end[last] - cycles, 0)
        return np.asarray(self.before[begun] - np.where(begun > 0, left, 0), dtype=np.int64)


def _held_before(timeline: Timeline, queue: int) -> _Held:
    mine = timeline.events.queue == queue
    start, end = timeline.events.start_cycles[mine], timeline.events.end_cycles[mine]
    return _Held(start, end, np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(end - start)]))


def _waits(timeline: Timeline, queue: int) -> tuple[IntColumn, IntColumn, IntColumn]:
    """The waits of a queue's transfers: from when, until when, and whether for space in a buffer."""
    events = timeline.events
    rows = np.flatnonzero(events.queue == queue)  # in order of time: the events of one transfer follow one another
    start, end, activity = events.start_cycles[rows], events.end_cycles[rows], events.activity[rows]
    since = events.ready_cycles[rows].copy()
    goes_on = np.flatnonzero(activity[1:] == activity[:-1]) + 1
    since[goes_on] = end[goes_on - 1]
    waits = start > since
    return since[waits], start[waits], (events.cause[rows] == Cause.BUFFER)[waits]
