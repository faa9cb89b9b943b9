"""Where the cycles of a run went: the cause of each idle cycle, the operator it belongs to, and the critical path.

Nothing is guessed: the engines record with each event what it had waited for last, and everything here is read from
that column. The rule: a cycle is ``compute`` if any core runs a tile; else it takes the cause of the next tile to start
(lowest core first), and belongs to that tile's operator; after the last tile it is ``drain``, and belongs to the
operator that was stored last.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accelsim.program.tables import ActivityKind, IntColumn, ResourceKind
from accelsim.timeline.table import Cause, Timeline

DRAIN = len(Cause)
"""Cause code of the cycles after the last tile, which no tile waits for."""

CAUSE_NAMES = {
    Cause.LOAD: "wait_load",
    Cause.STORE: "wait_store",
    Cause.BUFFER: "wait_buffer",
    Cause.TILE: "wait_tile",
    Cause.SEND: "wait_communication",
    Cause.RESOURCE: "wait_resource",
    Cause.LIMIT: "wait_resource",
    Cause.NONE: "wait_other",
    Cause.QUEUE: "wait_other",
}
ALWAYS_NAMED = ("compute", "wait_load", "wait_store", "wait_buffer", "drain")
UNRECORDED = "(not recorded)"
"""Operator of tiles that stand for idle time of a foreign trace that nothing in it explains: no work, but a wait."""
NO_OPERATOR = "(no operator)"
"""Takes the cycles that belong to no operator, such as those of a trace without operators."""


class Intervals(NamedTuple):
    """One row an interval of cycles, in order of time; no two overlap."""

    start_cycles: IntColumn
    end_cycles: IntColumn
    cause: IntColumn
    """:class:`Cause` of the tile that ends the interval, or ``DRAIN``."""
    event: IntColumn
    """The tile that ends the interval, as a row of ``timeline.events``; -1 with ``DRAIN``."""


def recorded(timeline: Timeline) -> npt.NDArray[np.bool_]:
    """For each event whether it is work, and no :data:`UNRECORDED` time."""
    program = timeline.program
    unrecorded = [row for row, name in enumerate(program.operator_names) if name == UNRECORDED]
    return ~np.isin(program.activities.operator[timeline.events.activity], unrecorded)


def _tiles(timeline: Timeline, resource: int | None) -> tuple[IntColumn, IntColumn, IntColumn, IntColumn]:
    """The tiles on one core or on all, in order of start: their event rows, starts and ends, and for each the cycle up
    to which an earlier tile keeps a core busy."""
    events = timeline.events
    if resource is None:
        rows = np.flatnonzero((timeline.program.resources.kind == ResourceKind.CORE)[events.resource])
    else:
        rows = np.flatnonzero(events.resource == resource)
    start, end = events.start_cycles[rows], events.end_cycles[rows]
    reach = np.concatenate([np.zeros(1, dtype=np.int64), np.maximum.accumulate(end)])
    return rows, start, end, reach


def idle_intervals(timeline: Timeline, resource: int | None = None) -> Intervals:
    """The intervals in which no core runs a tile, or in which the core ``resource`` runs none.

    What only :data:`UNRECORDED` tiles fill is idle, too, for no cause; its event is such a tile.
    """
    rows, start, end, reach = _tiles(timeline, resource)
    waits = np.flatnonzero(start > reach[:-1])
    found = Intervals(reach[waits], start[waits], timeline.events.cause[rows[waits]], rows[waits])
    unexplained = ~recorded(timeline)[rows]
    if unexplained.any():
        found = _in_order(found, _covered_only_by(rows, start, end, unexplained))
    if timeline.latency_cycles == reach[-1]:
        return found
    drain = (reach[-1], timeline.latency_cycles, DRAIN, -1)
    return Intervals(*(np.append(column, value) for column, value in zip(found, drain, strict=True)))


def _covered_only_by(rows: IntColumn, start: IntColumn, end: IntColumn, chosen: npt.NDArray[np.bool_]) -> Intervals:
    """Where some of the chosen spans lie and none of the others."""
    edges = np.unique(np.concatenate([start, end]))
    open_spans = np.zeros((2, len(edges)), dtype=np.int64)
    for side, mine in enumerate((chosen, ~chosen)):
        np.add.at(open_spans[side], np.searchsorted(edges, start[mine]), 1)
        np.add.at(open_spans[side], np.searchsorted(edges, end[mine]), -1)
    some, others = np.cumsum(open_spans, axis=1)
    place = np.flatnonzero((some > 0) & (others == 0))
    event = rows[chosen][np.searchsorted(start[chosen], edges[place], side="right") - 1]
    return Intervals(edges[place], edges[place + 1], np.full(len(place), int(Cause.NONE)), event)


def _in_order(one: Intervals, other: Intervals) -> Intervals:
    both = [np.concatenate(columns) for columns in zip(one, other, strict=True)]
    order = np.argsort(both[0], kind="stable")
    return Intervals(*(column[order] for column in both))


def cycles_by_cause(timeline: Timeline) -> dict[str, int]:
    """Cycles by ``compute``, ``wait_load``, ``wait_store``, ``wait_buffer`` and ``drain``; they add up to the latency.

    Further keys stand there when they are not 0: ``wait_tile`` (a tile on another core), ``wait_communication`` (a
    message between accelerators), ``wait_resource`` (the core
    served another queue) and ``wait_other`` (a recorded trace that does not say).
    """
    idle = idle_intervals(timeline)
    by_code = np.zeros(DRAIN + 1, dtype=np.int64)
    np.add.at(by_code, idle.cause, idle.end_cycles - idle.start_cycles)
    cycles = dict.fromkeys(ALWAYS_NAMED[:-1], 0)
    cycles["compute"] = timeline.latency_cycles - int(by_code.sum())
    for cause, name in CAUSE_NAMES.items():
        if by_code[cause] or name in cycles:
            cycles[name] = cycles.get(name, 0) + int(by_code[cause])
    return {**cycles, "drain": int(by_code[DRAIN])}


def operator_intervals(timeline: Timeline) -> tuple[IntColumn, IntColumn, IntColumn]:
    """The whole run from cycle 0 to its latency, divided among the operators: starts, ends and operators.

    Each tile's interval goes from where those before it reach, over its waiting, to its end; a cycle in which several
    cores run belongs to the tile that started first. Operator is -1 where there is none.
    """
    rows, _, _, reach = _tiles(timeline, None)
    grows = np.flatnonzero(reach[1:] > reach[:-1])
    operator = timeline.program.activities.operator[timeline.events.activity]
    starts, ends, operators = reach[:-1][grows], reach[1:][grows], operator[rows[grows]]
    if timeline.latency_cycles > reach[-1]:
        starts = np.append(starts, reach[-1])
        ends = np.append(ends, timeline.latency_cycles)
        operators = np.append(operators, stored_last(timeline))
    return starts, ends, operators


def stored_last(timeline: Timeline) -> int:
    """The operator of the store that finishes last; without stores, that of the tile that does; -1 for neither."""
    activities, events = timeline.program.activities, timeline.events
    kind = activities.kind[events.activity]
    for wanted in (ActivityKind.STORE, ActivityKind.TILE):
        rows = np.flatnonzero(kind == wanted)
        if len(rows):
            last = rows[len(rows) - 1 - int(np.argmax(events.finish_cycles[rows][::-1]))]
            return int(activities.operator[events.activity[last]])
    return -1


def cycles_by_operator(timeline: Timeline) -> dict[str, int]:
    """Cycles by operator, waiting included, in order of their first cycle; they add up to the latency."""
    starts, ends, operators = operator_intervals(timeline)
    total = np.zeros(len(timeline.program.operator_names) + 1, dtype=np.int64)
    np.add.at(total, operators, ends - starts)  # -1 is the last row
    names = (*timeline.program.operator_names, NO_OPERATOR)
    cycles: dict[str, int] = {}
    for operator in dict.fromkeys(operators.tolist()):
        cycles[names[operator]] = cycles.get(names[operator], 0) + int(total[operator])  # a trace may use a name twice
    return cycles


def _event_before(timeline: Timeline) -> IntColumn:
    """For each event, the row of the event before it of the same activity, or -1."""
    activity = timeline.events.activity
    order = np.argsort(activity, kind="stable")
    before = np.full(len(activity), -1, dtype=np.int64)
    same = activity[order[1:]] == activity[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    return before


def cause_events(timeline: Timeline) -> IntColumn:
    """For each event, the row of the event that let it start; -1 where it waited for nothing.

    Of the events of its ``cause_activity`` it is the last one that had ended by then. If none had, the event waited for
    that activity to start, and step out of the way before a buffer: then it is that activity's first one.
    """
    events, count = timeline.events, len(timeline.events.activity)
    order = np.argsort(events.activity, kind="stable")
    first = order[np.minimum(np.searchsorted(events.activity[order], events.cause_activity), max(count - 1, 0))]
    # Sorted together, by activity and time, each question stands behind the events that had ended when it is asked.
    activity = np.concatenate([events.activity, events.cause_activity])
    cycle = np.concatenate([events.end_cycles, events.start_cycles])
    both = np.lexsort((np.arange(2 * count) >= count, cycle, activity))
    latest = np.maximum.accumulate(np.where(both < count, np.arange(2 * count), -1))
    found = np.full(count, -1)
    asked = both >= count
    found[both[asked] - count] = np.where(latest[asked] >= 0, both[latest[asked]], -1)
    ended = (found >= 0) & (events.activity[found] == events.cause_activity) if count else found >= 0
    return np.where(events.cause_activity < 0, -1, np.where(ended, found, first)).astype(np.int64)


def critical_path(timeline: Timeline) -> IntColumn:
    """The chain of events that made the run as long as it is: rows of ``timeline.events``, from the first to the last.

    Each one started at the instant in which the one before it finished, handed on its queue or its resource, or stepped
    out of the way; the first waited for nothing. To shorten the run, one of these must become shorter.
    """
    finish = timeline.events.finish_cycles
    if not len(finish):
        return np.zeros(0, dtype=np.int64)
    causes = cause_events(timeline).tolist()
    row = len(finish) - 1 - int(np.argmax(finish[::-1]))  # of those that finish last, the one that started last
    path = {row: None}
    before = _event_before(timeline).tolist()
    while (row := causes[row]) >= 0:
        while row in path and row >= 0:  # grants of no cycles: two events of one activity end in one instant
            row = before[row]
        if row < 0:  # no run comes back to itself; a forged trace could
            break
        path[row] = None
    return np.array(list(path)[::-1], dtype=np.int64)
