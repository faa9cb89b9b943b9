"""Puts what an engine recorded into the event table: order, and the columns that follow from the program."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.program.tables import IntColumn, Program
from accelsim.timeline.table import EventTable


class Recorded(NamedTuple):
    """What an engine writes down: one row an event, in the order in which the events started."""

    start_cycles: IntColumn
    end_cycles: IntColumn
    activity: IntColumn
    bytes: IntColumn
    cause: IntColumn
    cause_activity: IntColumn


def event_table(program: Program, recorded: Recorded, ask_cycles: IntColumn) -> EventTable:
    """The canonical event table: rows by (start, resource, end, activity), equal ones in the order of service.

    Args:
        program: the program that ran to its end.
        recorded: its events.
        ask_cycles: shape (activities,): when each activity asked.
    """
    queue = program.activities.queue[recorded.activity]
    resource = program.queues.resource[queue]
    finish = recorded.end_cycles.copy()
    last_event = np.empty(program.size, dtype=np.int64)
    last_event[recorded.activity] = np.arange(len(finish))  # of equal rows the last one stays
    finish[last_event] += program.resources.latency_cycles[program.queues.resource[program.activities.queue]]
    table = EventTable(
        recorded.start_cycles,
        recorded.end_cycles,
        finish,
        ask_cycles[recorded.activity],
        resource,
        queue,
        recorded.activity,
        recorded.bytes,
        recorded.cause,
        recorded.cause_activity,
    )
    order = np.lexsort((table.activity, table.end_cycles, table.resource, table.start_cycles))
    return EventTable(*(column[order] for column in table))
