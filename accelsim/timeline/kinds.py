"""What people tell apart in a timeline: three kinds of tiles, two of loads, stores and messages."""

from __future__ import annotations

import numpy as np

from accelsim.program.tables import ActivityKind, IntColumn, Program

KINDS = ("array tile", "vector tile", "load of weights", "load of inputs", "store", "send", "other tile")
"""``other tile``: of which it is not known what runs it, as in traces of other tools."""
SELDOM = ("send", "other tile")
"""Not counted where there are none."""


def activity_kinds(program: Program) -> IntColumn:
    """For each activity the place of its kind in :data:`KINDS`.

    A weight serves all tiles of its operator, so that its transfer belongs to none of them.
    """
    activities = program.activities
    on_array = (activities.macs > 0) | (activities.shape >= 0)
    of_tile = np.where(on_array, KINDS.index("array tile"), KINDS.index("other tile"))
    of_tile = np.where(activities.vector_ops > 0, KINDS.index("vector tile"), of_tile)
    of_load = np.where(activities.tile < 0, KINDS.index("load of weights"), KINDS.index("load of inputs"))
    found: IntColumn = np.select(
        [activities.kind == kind for kind in (ActivityKind.TILE, ActivityKind.LOAD, ActivityKind.STORE)],
        [of_tile, of_load, KINDS.index("store")],
        KINDS.index("send"),
    )
    return found
