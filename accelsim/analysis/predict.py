"""What a change would make of a run, predicted from where its cycles went, without running anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from accelsim.analysis.energy import DRAM, flowing_pj_per_cycle
from accelsim.analysis.options import Change
from accelsim.analysis.traffic import traffic
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.program.bounds import busy_cycles
from accelsim.program.lower import effectual_shapes
from accelsim.program.rebind import rebind
from accelsim.program.tables import ActivityKind, FloatTable, IntColumn, Program, ResourceKind
from accelsim.timeline.stalls import operator_intervals
from accelsim.timeline.table import Timeline
from accelsim.workload.graph import Workload
from accelsim.workload.operator import ArrayWork

UNFUSED = "layerwise"
"""The scheduler that keeps nothing on chip, whatever the buffer holds."""
KEPT_BY_DOUBLING = 2**-0.5
"""Share of the spilled bytes that still spill when the buffer doubles: intensity grows with the root of its size."""


class Cost(NamedTuple):
    """What a run costs."""

    latency_cycles: int
    energy_pj: float


class Bottlenecks(NamedTuple):
    """Where the cycles of a run went. One row an operator, the last one for what belongs to none."""

    program: Program
    window_cycles: IntColumn
    """The operator's share of the latency: its tiles, and the waiting before them."""
    link_cycles: IntColumn
    """Cycles of that in which the link was busy, for whatever operator."""
    both_cycles: IntColumn
    """Cycles of that in which the link was busy while a tile ran."""
    weight_bytes: IntColumn
    """Bytes of parameters that are loaded for it."""
    moved_bytes: IntColumn
    """All bytes that are moved for it."""
    spilled_bytes: int
    """Of results that were stored and loaded again."""
    small_spilled_bytes: int
    """Of those among them that would fit into half the buffer."""
    fuses: bool
    """Whether the scheduler uses buffer space to keep results on chip."""
    memory_pj_per_cycle: float | None = None
    """Refreshes and standby of a memory whose energy was counted, command by command; None if its was not."""

    @staticmethod
    def of(timeline: Timeline) -> Bottlenecks:
        """Those of a run."""
        program, events = timeline.program, timeline.events
        starts, ends, operators = operator_intervals(timeline)
        rows = len(program.operator_names) + 1
        window, link, both, weights, all_bytes = np.zeros((5, rows), dtype=np.int64)
        np.add.at(window, operators, ends - starts)
        on_link = np.flatnonzero((program.resources.kind == ResourceKind.LINK)[events.resource])
        busy = _busy_before(events.start_cycles[on_link], events.end_cycles[on_link])
        np.add.at(link, operators, np.minimum(busy(ends) - busy(starts), ends - starts))
        tiles = np.flatnonzero((program.resources.kind == ResourceKind.CORE)[events.resource])
        begin, end = events.start_cycles[tiles], events.end_cycles[tiles]
        of_tile = program.activities.operator[events.activity[tiles]]
        np.add.at(both, of_tile, np.minimum(busy(end) - busy(begin), end - begin))
        activities = program.activities
        np.add.at(all_bytes, activities.operator, activities.bytes)
        of_weights = (activities.kind == ActivityKind.LOAD) & (activities.tile < 0)
        np.add.at(weights, activities.operator[of_weights], activities.bytes[of_weights])
        stored = np.zeros(len(program.tensor_names) + 1, dtype=np.int64)
        loaded = stored.copy()
        for kind, total in ((ActivityKind.STORE, stored), (ActivityKind.LOAD, loaded)):
            mine = activities.kind == kind
            np.add.at(total, activities.tensor[mine], activities.bytes[mine])
        spills = (stored[:-1] > 0) & (loaded[:-1] > 0)
        spilled = (stored + loaded)[:-1]
        small = spills & (2 * stored[:-1] <= program.buffers.capacity_bytes.max(initial=0))
        return Bottlenecks(
            program=program,
            window_cycles=window,
            link_cycles=link,
            both_cycles=np.minimum(both, link),
            weight_bytes=weights,
            moved_bytes=all_bytes,
            spilled_bytes=int(spilled[spills].sum()),
            small_spilled_bytes=int(spilled[small].sum()),
            fuses=timeline.provenance.get("scheduler") not in (None, UNFUSED),
            memory_pj_per_cycle=_memory_pj_per_cycle(timeline),
        )


def _memory_pj_per_cycle(timeline: Timeline) -> float | None:
    memory = timeline.memory
    counted = memory is not None and bool(memory.energy_by_command_pj)
    return flowing_pj_per_cycle(timeline) - timeline.program.static_pj_per_cycle if counted else None


def _busy_before(starts: IntColumn, ends: IntColumn) -> Callable[[IntColumn], IntColumn]:
    """A function from cycles to the busy cycles before them, summed over all links."""
    starts, ends = np.sort(starts), np.sort(ends)
    sums = [np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(column)]) for column in (starts, ends)]

    def busy(cycles: IntColumn) -> IntColumn:
        begun, ended = (np.searchsorted(column, cycles, side="right") for column in (starts, ends))
        total: IntColumn = (begun * cycles - sums[0][begun]) - (ended * cycles - sums[1][ended])
        return total

    return busy


def work_left(workload: Workload, program: Program, machine: Accelerator, changed: Accelerator) -> FloatTable:
    """What another treatment of zeros leaves of a program's array work: shape (operators + 1, 2).

    Each row is an operator's products, and their energy in the multipliers, over those that ``machine`` has; operators
    that the workload does not have, such as parts of those that were cut, get the mean.
    """
    works = {o.name: work for o in workload.operators if isinstance(work := o.whole_work(1), ArrayWork)}
    left = []
    for one in (machine, changed):
        shapes, per_mac = effectual_shapes(list(works.values()), one)
        of = TileColumns(*shapes.T.astype(np.float64))
        products = of.batch * of.filters * of.rows * of.columns * of.channels / of.groups
        products = products * of.kernel_rows * of.kernel_columns
        left.append(np.stack([products, products * per_mac], axis=1))
    ratio = dict(zip(works, left[1] / left[0], strict=True))
    mean = left[1].sum(axis=0) / left[0].sum(axis=0) if works else np.ones(2)
    share: FloatTable = np.array([ratio.get(name, mean) for name in (*program.operator_names, "")])
    return share


def predict(found: Bottlenecks, machine: Accelerator, change: Change, left: FloatTable | None = None) -> Cost:
    """A bottleneck model, operator by operator; of a schedule that was searched, of the run as a whole.

    The tiles of an operator are priced on the changed machine, and the cycles in which the link was busy in its time
    shrink with the bandwidth and with the bytes. Where the link was the slower of the two, cycles in which only tiles
    ran are a part that nothing can hide, and so are, where computing was slower, those in which only the link was
    busy: these add up, of the rest the slower one counts. What is left is latency.

    A searched schedule moves transfers ahead into any operator's time, so there the sums are compared. For another
    scheduler: no waiting at all, and results that fit into half the buffer stay on chip.

    Args:
        found: of the run.
        machine: on which it ran.
        change: what is changed; with a larger batch the cost is that of all of it.
        left: what the change leaves of the array's work, as :func:`work_left` says; by default all.
    """
    changed, anew = change.accelerator, change.scheduler is not None
    new, old = rebind(found.program, changed, machine), found.program
    tile = old.activities.kind == ActivityKind.TILE
    before, after = np.zeros((2, len(found.window_cycles)))
    np.add.at(before, old.activities.operator[tile], old.activities.cycles[tile])
    cycles_of, energy_of = _tile_cycles(new, changed, change.batch), new.energy_pj
    if left is not None:
        mine = np.where(new.activities.shape[:, None] >= 0, left[new.activities.operator], 1.0)
        cycles_of, energy_of = cycles_of * mine[:, 0], energy_of * mine[:, :1]
        mac = new.part_names.index("mac")
        energy_of[:, mac] = new.energy_pj[:, mac] * mine[:, 1]
    np.add.at(after, new.activities.operator[tile], cycles_of[tile])
    slower_link = float(machine.link_bytes_per_cycle / changed.link_bytes_per_cycle)
    others = found.moved_bytes - found.weight_bytes
    share = np.where(
        found.moved_bytes > 0,
        change.bits * (found.weight_bytes + change.batch * others) / np.maximum(found.moved_bytes, 1),
        change.bits,
    )
    moved = max(traffic(old).total_bytes, 1)
    saved = 0.0
    if anew:
        saved = found.small_spilled_bytes / moved
    elif found.fuses and changed.buffers["global"].capacity_bytes > machine.buffers["global"].capacity_bytes:
        saved = (1 - KEPT_BY_DOUBLING) * found.spilled_bytes / moved
    link = found.link_cycles * slower_link * share * (1 - saved)
    if anew:
        links = (new.resources.kind == ResourceKind.LINK).tolist()
        busiest = max(
            (cycles for cycles, link in zip(busy_cycles(new).values(), links, strict=True) if link), default=0
        )
        cycles = max(float(after.sum()), (1 - saved) * busiest)
    else:
        busy = (before, found.link_cycles, found.both_cycles, found.window_cycles, after, link)
        columns = [column.astype(np.float64) for column in busy]
        if found.fuses:
            columns = [column.sum(keepdims=True) for column in columns]
        cycles = float(_windows(*columns, latency=_latency_ratio(machine, changed)).sum())
    moves, flowing_pj = new.activities.kind != ActivityKind.TILE, new.static_pj_per_cycle
    if found.memory_pj_per_cycle is not None:  # not as the link's energies a byte would have it
        energy_of = energy_of.copy()
        part = new.part_names.index(DRAM), old.part_names.index(DRAM)
        energy_of[moves, part[0]] = old.energy_pj[moves, part[1]]
        flowing_pj += found.memory_pj_per_cycle * _standby_ratio(machine, changed)
    of_operator = share[new.activities.operator[moves]]
    dynamic_pj = float(
        change.batch * energy_of[~moves].sum() + (1 - saved) * (energy_of[moves].sum(axis=1) * of_operator).sum()
    )
    return Cost(round(cycles), dynamic_pj + flowing_pj * cycles)


def _windows(
    core: FloatTable,
    link: FloatTable,
    both: FloatTable,
    window: FloatTable,
    core_after: FloatTable,
    link_after: FloatTable,
    *,
    latency: float,
) -> FloatTable:
    """Lengths of windows after a change, from how long core, link and both were busy in each of them before it."""
    core = np.minimum(core, window)
    both = np.minimum(both, np.minimum(core, link))
    faster_core, faster_link = core_after / np.maximum(core, 1), link_after / np.maximum(link, 1)
    alone = np.where(link >= core, (core - both) * faster_core, (link - both) * faster_link)
    hidden = np.where(
        link >= core, np.maximum(core_after - alone, link_after), np.maximum(core_after, link_after - alone)
    )
    neither = np.maximum(window - core - link + both, 0)
    lengths: FloatTable = hidden + alone + neither * latency
    return lengths


def _latency_ratio(machine: Accelerator, changed: Accelerator) -> float:
    before = machine.dram.latency_cycles
    return changed.dram.latency_cycles / before if before else 1.0


def _standby_ratio(machine: Accelerator, changed: Accelerator) -> float:
    """Standby and refreshes in a cycle, after over before: a power for each channel."""
    before, after = machine.dram.memory, changed.dram.memory
    channels = after.dram.template.channels / before.dram.template.channels if before and after else 1.0
    return channels * float(machine.clock_hz / changed.clock_hz)


def _tile_cycles(program: Program, accelerator: Accelerator, batch: int) -> FloatTable:
    """Cycles of tiles that do ``batch`` times the work, on the array in one go: it fills and drains once."""
    cycles = program.activities.cycles.astype(np.float64)
    if batch == 1:
        return cycles
    shapes = TileColumns(*np.ascontiguousarray(program.shapes.T))
    cycles *= batch
    on_array = program.activities.shape >= 0
    if on_array.any():
        larger = accelerator.array_cost(shapes._replace(batch=batch * shapes.batch)).cycles
        cycles[on_array] = np.minimum(cycles[on_array], larger[program.activities.shape[on_array]])
    return cycles
