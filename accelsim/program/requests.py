"""Memory requests as a Program: who asks, and the path to DRAM that serves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from accelsim.hardware.accelerator import Accelerator
from accelsim.program.tables import ActivityKind, DependencyTable, IntColumn, Program
from accelsim.program.trace_program import MEMORY, TraceRows, trace_program

REQUESTER, LINK = 0, 1


def requests_program(
    arrival_cycles: IntColumn,
    size_bytes: IntColumn,
    is_write: npt.NDArray[np.bool_],
    accelerator: Accelerator,
    workload: str,
    notes: Sequence[str] = (),
) -> Program:
    """Requests in their order, each offered at its cycle but not before the one in front of it.

    A core ``requester`` has a tile for each stretch of time between requests; a request depends on the tile that ends
    when it is offered, and the path to DRAM serves requests in order.
    """
    offered = np.maximum.accumulate(arrival_cycles) if len(arrival_cycles) else arrival_cycles
    gaps = np.diff(offered, prepend=0)
    stretch = np.flatnonzero(gaps > 0)
    tiles, count = len(stretch), len(offered)
    tile_of = np.searchsorted(stretch, np.arange(count), side="right") - 1  # the last stretch that ends by then
    waits = np.flatnonzero(tile_of >= 0)

    def columns(of_tiles: npt.ArrayLike, of_requests: npt.ArrayLike) -> IntColumn:
        return np.concatenate([np.broadcast_to(of_tiles, tiles), np.broadcast_to(of_requests, count)])

    rows = TraceRows(
        resource=columns(REQUESTER, LINK),
        kind=columns(ActivityKind.TILE, np.where(is_write, ActivityKind.STORE, ActivityKind.LOAD)),
        cycles=columns(gaps[stretch], 0),
        bytes=columns(0, size_bytes),
        operator=columns(0, 1),
        tile=columns(np.arange(tiles), np.arange(count)),
        macs=columns(0, 0),
    )
    return trace_program(
        workload,
        rows,
        DependencyTable(tile_of[waits], tiles + waits),
        ("(between requests)", "requests"),
        [("requester", None), (MEMORY, accelerator.dram)],
        accelerator,
        clock_hz=accelerator.clock_hz,
        notes=notes,
    )
