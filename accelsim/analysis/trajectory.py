"""A run over time: where it stands on the roofline in each of its windows, and how it uses array and link.

The run is cut into windows of equal length. What an event does (operations, bytes, picojoules) is spread evenly over
its cycles, so that the windows together are the run: their operations, bytes and energies add up to its own, whatever
their number. A window without bytes has no intensity; on the utilisation plane (share of the peak rate, share of the
bandwidth) it still has a place.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from accelsim.analysis.energy import energy_pj
from accelsim.analysis.roofs import OPERATIONS_PER_MAC, Limits
from accelsim.hardware.accelerator import Accelerator
from accelsim.program.tables import FloatTable, IntColumn
from accelsim.timeline.table import Timeline


class Trajectory(NamedTuple):
    """One row a window."""

    start_cycles: FloatTable
    cycles: float
    """Of each window."""
    operations: FloatTable
    """Executed, recomputed ones included."""
    bytes: FloatTable
    """Of DRAM."""
    energy_pj: FloatTable
    utilization: FloatTable
    """Of the peak rate of the window's mix of work."""
    memory_utilization: FloatTable
    """Of the bandwidth of DRAM."""

    @property
    def intensity(self) -> FloatTable:
        """Operations a byte; infinite where no bytes move."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found: FloatTable = np.where(self.bytes > 0, self.operations / self.bytes, np.inf)
        return found

    @property
    def ops_per_cycle(self) -> FloatTable:
        """Operations in the mean cycle of each window."""
        found: FloatTable = self.operations / self.cycles
        return found

    @property
    def ops_per_pj(self) -> FloatTable:
        """Operations for each picojoule; 0 where none is spent."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found: FloatTable = np.where(self.energy_pj > 0, self.operations / self.energy_pj, 0.0)
        return found

    def to_dict(self) -> dict[str, Any]:
        """As JSON: lists, one entry a window."""
        names = ("start_cycles", "operations", "bytes", "energy_pj", "utilization", "memory_utilization")
        return {"cycles": self.cycles, **{name: getattr(self, name).tolist() for name in names}}


def trajectory(accelerator: Accelerator, timeline: Timeline, windows: int = 60) -> Trajectory:
    """Where a run stands, window by window.

    Args:
        accelerator: the machine that ran it.
        timeline: the run.
        windows: how many; equal parts of its latency.
    """
    limits, program, events = Limits.of(accelerator), timeline.program, timeline.events
    activities, latency = program.activities, max(timeline.latency_cycles, 1)
    edges = np.linspace(0.0, float(latency), windows + 1)
    mine = events.activity
    length = (events.end_cycles - events.start_cycles).astype(np.float64)
    whole = np.zeros(program.size)
    np.add.at(whole, mine, length)
    pieces = np.bincount(mine, minlength=program.size) if len(mine) else np.ones(program.size)
    share = np.where(whole[mine] > 0, length / np.maximum(whole[mine], 1), 1.0 / np.maximum(pieces[mine], 1))
    macs, vector_ops = activities.macs[mine] * share, activities.vector_ops[mine] * share
    peak_cycles = macs / limits.macs_per_cycle + vector_ops / float(limits.vector_ops_per_cycle)
    dynamic = program.energy_pj.sum(axis=1)[mine] * share

    def spread(amount: IntColumn | FloatTable) -> FloatTable:
        return _spread(events.start_cycles, events.end_cycles, amount.astype(np.float64), edges)

    energy = spread(dynamic)
    energy += (energy_pj(timeline) - float(dynamic.sum())) / windows  # what flows all the time
    size = latency / windows
    operations = spread(OPERATIONS_PER_MAC * macs + vector_ops)
    moved = spread(events.bytes)
    return Trajectory(
        start_cycles=edges[:-1],
        cycles=size,
        operations=operations,
        bytes=moved,
        energy_pj=energy,
        utilization=spread(peak_cycles) / size,
        memory_utilization=moved / float(limits.dram_bytes_per_cycle) / size,
    )


def _spread(starts: IntColumn, ends: IntColumn, amount: FloatTable, edges: FloatTable) -> FloatTable:
    """Amounts, each evenly over its interval, by window; what takes no time goes to the window where it happens."""
    lasting = ends > starts
    order = np.sort(np.unique(np.concatenate([edges, starts[lasting], ends[lasting]])))
    rate = np.zeros(len(order))
    density = amount[lasting] / (ends - starts)[lasting]
    np.add.at(rate, np.searchsorted(order, starts[lasting]), density)
    np.subtract.at(rate, np.searchsorted(order, ends[lasting]), density)
    until = np.concatenate([[0.0], np.cumsum(np.cumsum(rate)[:-1] * np.diff(order))])
    total: FloatTable = np.diff(np.interp(edges, order, until))
    places = np.clip(np.searchsorted(edges, starts[~lasting], side="right") - 1, 0, len(total) - 1)
    np.add.at(total, places, amount[~lasting])
    found: FloatTable = np.maximum(total, 0.0)  # rounding of sums
    return found
