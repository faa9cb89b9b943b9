"""A timeline's events with names instead of row numbers: what is shown, exported, or made a data frame of."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from accelsim.program.check import KIND_WORDS
from accelsim.program.tables import ActivityKind, IntColumn
from accelsim.timeline.table import Cause, Timeline


def event_columns(timeline: Timeline) -> dict[str, IntColumn | npt.NDArray[np.float64] | list[str]]:
    """One entry a column, one value an event: cycles and numbers as they are, everything that has a name by its name.

    A transfer served in several events divides its energy among them by their bytes, so that the columns add up to the
    run's bytes, MACs, vector operations and dynamic energy. An empty text, and -1, mean none.
    """
    events, program = timeline.events, timeline.program
    activities, activity = program.activities, events.activity
    causes = [cause.name.lower() for cause in Cause]
    kinds = [KIND_WORDS[kind] for kind in ActivityKind]
    return {
        "start_cycles": events.start_cycles,
        "end_cycles": events.end_cycles,
        "finish_cycles": events.finish_cycles,
        "ready_cycles": events.ready_cycles,
        "resource": _named(program.resource_names, events.resource),
        "queue": _named(program.queue_names, events.queue),
        "activity": events.activity,
        "kind": _named(kinds, activities.kind[activity]),
        "operator": _named(program.operator_names, activities.operator[activity]),
        "tile": activities.tile[activity],
        "tensor": _named(program.tensor_names, activities.tensor[activity]),
        "bytes": events.bytes,
        "macs": activities.macs[activity],
        "vector_ops": activities.vector_ops[activity],
        "energy_pj": event_energy_pj(timeline),
        "cause": _named(causes, events.cause),
        "cause_activity": events.cause_activity,
    }


def event_energy_pj(timeline: Timeline) -> npt.NDArray[np.float64]:
    """Dynamic energy of each event, in picojoules; that of a transfer is divided among its events by their bytes."""
    program, activity = timeline.program, timeline.events.activity
    energy = program.energy_pj.sum(axis=1)[activity]
    size = program.activities.bytes[activity]
    share = np.ones(len(activity))
    np.divide(timeline.events.bytes, size, out=share, where=size > 0)
    return np.asarray(energy * share, dtype=np.float64)


def _named(names: list[str] | tuple[str, ...], rows: IntColumn) -> list[str]:
    known = (*names, "")  # -1 is the last
    return [known[row] for row in rows.tolist()]
