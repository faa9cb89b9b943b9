"""A run cycle by cycle: how many elements of the array multiply in each cycle, and why not more.

Every array tile is clocked by its dataflow's compiled kernel (:meth:`Dataflow.activity`), once for each shape. A tile
that takes longer than its array, because a port of the buffer is too slow or taken, has the array's cycles spread
evenly over its own: the array stands still in the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accelsim.errors import InputError
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.dataflow.dataflow import MOST_CYCLES, TileColumns
from accelsim.program.tables import ActivityKind, IntColumn
from accelsim.timeline.stalls import CAUSE_NAMES, DRAIN, idle_intervals
from accelsim.timeline.table import Cause, Timeline

MULTIPLY, FILL_DRAIN, PORT, VECTOR, COMPUTE = "multiply", "fill_drain", "wait_port", "vector", "compute"
CYCLE_CAUSES = (MULTIPLY, FILL_DRAIN, PORT, VECTOR, COMPUTE, *dict.fromkeys(CAUSE_NAMES.values()), "drain")
"""What a cycle goes to: elements multiply; a tile runs, but operands or results are on their way only; the array waits
for a port of the buffer; the vector unit works; a tile of which the trace does not say what it does; and the causes of
idle cycles, as in :func:`accelsim.timeline.stalls.cycles_by_cause`. Of several cores the first in this order counts."""
_CODE = {name: code for code, name in enumerate(CYCLE_CAUSES)}


class CycleActivity(NamedTuple):
    """One entry a cycle, from 0 up to the latency."""

    active_elements: npt.NDArray[np.int32]
    """Elements, of all cores, that multiply; together the multiply-accumulates executed, and what zeros fill up."""
    cause: npt.NDArray[np.uint8]
    """Index into :data:`CYCLE_CAUSES`."""

    def cycles_by_cause(self) -> dict[str, int]:
        """Cycles by name; they add up to the latency."""
        counts = np.bincount(self.cause, minlength=len(CYCLE_CAUSES)).tolist()
        return {name: count for name, count in zip(CYCLE_CAUSES, counts, strict=True) if count}


def cycle_activity(timeline: Timeline, accelerator: Accelerator) -> CycleActivity:
    """The run cycle by cycle.

    Args:
        timeline: of a program that was made for ``accelerator``.
        accelerator: whose arrays are clocked.

    Raises:
        InputError: the array is none that is clocked, a tile takes another time than the accelerator's, or the run is
            too long.
    """
    program, latency = timeline.program, timeline.latency_cycles
    if latency > MOST_CYCLES:
        raise InputError(f"the run takes {latency:,} cycles; at most {MOST_CYCLES:,} are written down one by one")
    active = np.zeros(latency, dtype=np.int32)
    cause = np.full(latency, len(CYCLE_CAUSES), dtype=np.uint8)
    clocked: dict[int, IntColumn] = {}
    events, activities = timeline.events, program.activities
    for row in np.flatnonzero(activities.kind[events.activity] == ActivityKind.TILE).tolist():
        tile, start, end = (int(column[row]) for column in (events.activity, events.start_cycles, events.end_cycles))
        shape = int(activities.shape[tile])
        if shape < 0:
            code = _CODE[VECTOR if activities.vector_ops[tile] else COMPUTE]
            np.minimum(cause[start:end], code, out=cause[start:end])
            continue
        if shape not in clocked:
            shapes = TileColumns(*np.ascontiguousarray(program.shapes[shape : shape + 1].T))
            clocked[shape] = accelerator.dataflow.activity(shapes)
        counts = clocked[shape]
        if end - start < len(counts) or counts.sum() < activities.macs[tile]:
            raise InputError(
                f"tile {tile} takes {end - start:,} cycles for {activities.macs[tile]:,} multiply-accumulates; "
                f"{accelerator.name!r} takes {len(counts):,} for {counts.sum():,}: it ran on another machine"
            )
        at = start + np.arange(len(counts)) * (end - start) // len(counts)
        active[at] += counts.astype(np.int32)
        np.minimum(cause[start:end], _CODE[PORT], out=cause[start:end])
        cause[at] = np.minimum(cause[at], np.where(counts > 0, _CODE[MULTIPLY], _CODE[FILL_DRAIN]))
    idle = idle_intervals(timeline)
    for start, end, code in zip(*(column.tolist() for column in idle[:3]), strict=True):
        cause[start:end] = _CODE["drain" if code == DRAIN else CAUSE_NAMES[Cause(code)]]
    return CycleActivity(active, cause)
