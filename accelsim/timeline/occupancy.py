"""What a run held and moved over time: bytes in a buffer, bytes over a link, busy cycles of a resource.

Sums over bins are exact: what is spread over an event is spread in whole units, so that the bins add up to the total.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accelsim.program.tables import IntColumn
from accelsim.timeline.table import Timeline


class StepFunction(NamedTuple):
    """``values[i]`` holds from ``cycles[i]`` up to ``cycles[i + 1]``; the last one holds from then on."""

    cycles: IntColumn
    """Strictly rising, from 0."""
    values: IntColumn

    @property
    def peak(self) -> int:
        """The largest value."""
        return int(self.values.max())


def activity_spans(timeline: Timeline) -> tuple[IntColumn, IntColumn]:
    """For each activity, when its first event starts and when its last one finishes."""
    events, size = timeline.events, timeline.program.size
    start = np.full(size, np.iinfo(np.int64).max)
    finish = np.zeros(size, dtype=np.int64)
    np.minimum.at(start, events.activity, events.start_cycles)
    np.maximum.at(finish, events.activity, events.finish_cycles)
    return start, finish


def buffer_occupancy(timeline: Timeline, buffer: int) -> StepFunction:
    """Bytes claimed of a buffer over time (``buffer`` is its row in the program's table).

    A claim is taken when its taker's first event starts, or at cycle 0, and given back when the last of its releasers
    finishes; at one cycle what is given back counts before what is taken. What is given back in the cycle in which it
    is taken, or whose releasers finished even before, does not show.
    """
    program = timeline.program
    claims, releases = program.claims, program.releases
    start, finish = activity_spans(timeline)
    back = np.full(len(claims.bytes), -1)
    np.maximum.at(back, releases.claim, finish[releases.activity])
    mine = np.flatnonzero(claims.buffer == buffer)
    taken = np.where(claims.taken_by[mine] >= 0, start[claims.taken_by[mine]], 0) if program.size else 0 * mine
    size, returned = claims.bytes[mine], back[mine] >= 0
    given_back = np.maximum(back[mine], taken)[returned]
    cycles, where = np.unique(np.concatenate([[0], taken, given_back]), return_inverse=True)
    change = np.zeros(len(cycles), dtype=np.int64)
    np.add.at(change, where, np.concatenate([[0], size, -size[returned]]))
    return StepFunction(cycles.astype(np.int64), np.cumsum(change))


def peak_buffer_bytes(timeline: Timeline) -> dict[str, int]:
    """For each buffer, the most bytes claimed at once."""
    names = timeline.program.buffer_names
    return {name: buffer_occupancy(timeline, buffer).peak for buffer, name in enumerate(names)}


def bin_edges(timeline: Timeline, bins: int) -> IntColumn:
    """``bins`` + 1 cycles from 0 to the latency, as evenly apart as whole cycles allow; fewer for a shorter run."""
    latency = timeline.latency_cycles
    bins = max(1, min(bins, latency))
    whole, rest = divmod(latency, bins)
    steps = np.arange(bins + 1, dtype=np.int64)
    return steps * whole + steps * rest // bins


def cycles_in_bins(start_cycles: IntColumn, end_cycles: IntColumn, edges: IntColumn) -> IntColumn:
    """Cycles of the intervals [start, end) in each bin. Intervals that overlap count each for itself."""
    start, end = np.sort(start_cycles), np.sort(end_cycles)
    busy: IntColumn = np.diff(_cycles_before(start, edges) - _cycles_before(end, edges))
    return busy


def _cycles_before(at: IntColumn, edges: IntColumn) -> IntColumn:
    """For each edge, the sum over all ``at`` (sorted) of the cycles that have passed since."""
    sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(at)])
    count = np.searchsorted(at, edges, side="right")
    passed: IntColumn = count * edges - sums[count]
    return passed


def bytes_in_bins(timeline: Timeline, of_events: npt.NDArray[np.bool_], edges: IntColumn) -> IntColumn:
    """Bytes that the chosen events, of one link, move in each bin; ``edges`` reach from 0 to the latency or beyond.

    An event's bytes are spread evenly over its cycles, in whole bytes.
    """
    events = timeline.events
    rows = np.flatnonzero(of_events)
    start, end, size = events.start_cycles[rows], events.end_cycles[rows], events.bytes[rows]
    sums = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(size)])
    whole = np.searchsorted(end, edges, side="right")  # a link serves one transfer at a time, so ends rise as starts do
    moved = sums[whole]
    inside = np.minimum(whole, len(rows) - 1)
    if len(rows):
        for edge in np.flatnonzero((whole < len(rows)) & (start[inside] < edges)).tolist():
            row = int(inside[edge])  # as Python's integers, for the product can be larger than int64
            passed, length = int(edges[edge] - start[row]), int(end[row] - start[row])
            moved[edge] += int(size[row]) * passed // length
    moved[0] = 0  # what an event of no cycles moves at cycle 0 belongs to the first bin
    return np.diff(moved)
