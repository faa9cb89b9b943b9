"""Puts what an engine recorded into the event table: order, and the columns that follow from the program."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from accelsim.program.tables import IntColumn, Program
from accelsim.timeline.table import EventTable

IntTable = npt.NDArray[np.int64]
"""Two-dimensional: rows, columns."""

RECORDED = ("start_cycles", "end_cycles", "activity", "bytes", "cause", "cause_activity")
"""The columns that an engine records, one row an event, in the order in which the events started."""


def event_table(
    program: Program, recorded: IntTable, ask_cycles: IntColumn, finish_cycles: IntColumn | None = None
) -> EventTable:
    """The canonical event table: rows by (start, resource, end, activity), equal ones in the order of service.

    Args:
        program: the program that ran to its end.
        recorded: shape (events, len(RECORDED)).
        ask_cycles: shape (activities,): when each activity asked.
        finish_cycles: shape (activities,): when it finished; -1, or None for all, where that is a latency behind its
            end.
    """
    resource_of_activity = program.queues.resource[program.activities.queue]
    # Starts ascend already; only the rows that start together are sorted, among themselves.
    same = recorded[1:, 0] == recorded[:-1, 0]
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    start, end, activity = recorded[tied, :3].T
    rows = np.arange(len(recorded))
    rows[tied] = tied[np.lexsort((activity, end, resource_of_activity[activity], start))]

    start, end, activity, moved, cause, cause_activity = (recorded[rows, column] for column in range(len(RECORDED)))
    del same, rows
    resource = resource_of_activity[activity]
    finish = end.copy()
    last_event = np.empty(program.size, dtype=np.int64)
    last_event[activity] = np.arange(len(finish))  # of an activity's rows the last one stays
    finish[last_event] += program.resources.latency_cycles[resource_of_activity]
    if finish_cycles is not None:
        finish[last_event] = np.where(finish_cycles >= 0, finish_cycles, finish[last_event])
    queue = program.activities.queue[activity]
    asked = ask_cycles[activity]
    table = EventTable(start, end, finish, asked, resource, queue, activity, moved, cause, cause_activity)
    for column in table:
        column.setflags(write=False)  # so that the timeline takes it as it is
    return table
