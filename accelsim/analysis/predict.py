"""What a change would make of a run, predicted from where its cycles went, without running anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from accelsim.analysis.traffic import traffic
from accelsim.hardware.accelerator import Accelerator
from accelsim.program.bounds import busy_cycles
from accelsim.program.rebind import rebind
from accelsim.program.tables import ActivityKind, IntColumn, Program, ResourceKind
from accelsim.timeline.stalls import operator_intervals
from accelsim.timeline.table import Timeline

UNFUSED = "layerwise"
"""The scheduler that keeps nothing on chip, whatever the buffer holds."""
KEPT_BY_DOUBLING = 2**-0.5
"""Share of the spilled bytes that still spill when the buffer doubles: intensity grows with the root of its size."""


class Cost(NamedTuple):
    """What a run costs."""

    latency_cycles: int
    energy_pj: float


class Ledger(NamedTuple):
    """Where the cycles of a run went. One row an operator, the last one for what belongs to none."""

    program: Program
    window_cycles: IntColumn
    """The operator's share of the latency: its tiles, and the waiting before them."""
    link_cycles: IntColumn
    """Cycles of that in which the link was busy, for whatever operator."""
    spilled_bytes: int
    """Of results that were stored and loaded again."""
    small_spilled_bytes: int
    """Of those among them that would fit into half the buffer."""
    fuses: bool
    """Whether the scheduler uses buffer space to keep results on chip."""

    @staticmethod
    def of(timeline: Timeline) -> Ledger:
        """That of a run."""
        program, events = timeline.program, timeline.events
        starts, ends, operators = operator_intervals(timeline)
        rows = len(program.operator_names) + 1
        window, link = np.zeros((2, rows), dtype=np.int64)
        np.add.at(window, operators, ends - starts)
        on_link = np.flatnonzero((program.resources.kind == ResourceKind.LINK)[events.resource])
        busy = _busy_before(events.start_cycles[on_link], events.end_cycles[on_link])
        np.add.at(link, operators, np.minimum(busy(ends) - busy(starts), ends - starts))
        stored = np.zeros(len(program.tensor_names) + 1, dtype=np.int64)
        loaded = stored.copy()
        activities = program.activities
        for kind, total in ((ActivityKind.STORE, stored), (ActivityKind.LOAD, loaded)):
            mine = activities.kind == kind
            np.add.at(total, activities.tensor[mine], activities.bytes[mine])
        spills = (stored[:-1] > 0) & (loaded[:-1] > 0)
        both = (stored + loaded)[:-1]
        small = spills & (2 * stored[:-1] <= program.buffers.capacity_bytes.max(initial=0))
        return Ledger(
            program=program,
            window_cycles=window,
            link_cycles=link,
            spilled_bytes=int(both[spills].sum()),
            small_spilled_bytes=int(both[small].sum()),
            fuses=timeline.provenance.get("scheduler") not in (None, UNFUSED),
        )


def _busy_before(starts: IntColumn, ends: IntColumn) -> Callable[[IntColumn], IntColumn]:
    """A function from cycles to the busy cycles before them, summed over all links."""
    starts, ends = np.sort(starts), np.sort(ends)
    sums = [np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(column)]) for column in (starts, ends)]

    def busy(cycles: IntColumn) -> IntColumn:
        begun, ended = (np.searchsorted(column, cycles, side="right") for column in (starts, ends))
        total: IntColumn = (begun * cycles - sums[0][begun]) - (ended * cycles - sums[1][ended])
        return total

    return busy


def predict(ledger: Ledger, machine: Accelerator, changed: Accelerator, searched_anew: bool) -> Cost:
    """A bottleneck model, operator by operator; of a schedule that was searched, of the run as a whole.

    Of the cycles of an operator, those of its tiles are priced on the changed machine, and those in which the link was
    busy shrink with the bandwidth and with the bytes; the slower of the two counts. What neither explains is waiting
    for transfers, and shrinks with the bandwidth too. A searched schedule moves transfers ahead into any operator's
    time, so there the sums are compared. For another scheduler: no waiting at all, and results that fit into half the
    buffer stay on chip.

    Args:
        ledger: of the run.
        machine: on which it ran.
        changed: the machine of the prediction.
        searched_anew: by a scheduler that fuses operators and moves transfers ahead.
    """
    new, old = rebind(ledger.program, changed, machine), ledger.program
    tile = old.activities.kind == ActivityKind.TILE
    before, after = np.zeros((2, len(ledger.window_cycles)), dtype=np.int64)
    np.add.at(before, old.activities.operator[tile], old.activities.cycles[tile])
    np.add.at(after, new.activities.operator[tile], new.activities.cycles[tile])
    bandwidth = float(machine.dram.bytes_per_cycle / changed.dram.bytes_per_cycle)
    moved = max(traffic(old).total_bytes, 1)
    saved = 0.0
    if searched_anew:
        saved = ledger.small_spilled_bytes / moved
    elif ledger.fuses and changed.buffers["global"].capacity_bytes > machine.buffers["global"].capacity_bytes:
        saved = (1 - KEPT_BY_DOUBLING) * ledger.spilled_bytes / moved
    link = ledger.link_cycles * bandwidth * (1 - saved)
    if searched_anew:
        cycles = max(float(after.sum()), (1 - saved) * busy_cycles(new).get("dram", 0))
    else:
        explained = [np.minimum(before, ledger.window_cycles), ledger.link_cycles]
        slower = np.maximum(after, link).sum() if not ledger.fuses else max(after.sum(), link.sum())
        rest = ledger.window_cycles.sum() - (
            np.maximum(*explained).sum() if not ledger.fuses else max(column.sum() for column in explained)
        )
        cycles = float(slower + rest * bandwidth)
    moves = new.activities.kind != ActivityKind.TILE
    dynamic_pj = float(new.energy_pj[~moves].sum() + (1 - saved) * new.energy_pj[moves].sum())
    return Cost(round(cycles), dynamic_pj + new.static_pj_per_cycle * cycles)
