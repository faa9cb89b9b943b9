"""The ledger of a run: every cycle of every resource has one label, every picojoule one account.

The labels of a resource add up to the latency, to the cycle; the accounts add up to the energy. Both for the whole run,
and operator by operator. What a label means stands in :data:`LABELS`, in :data:`ACCOUNTS` for accounts.

On one core the labels split the causes of :func:`accelsim.timeline.stalls.cycles_by_cause` further: ``compute`` into
what its tiles did, ``wait_load`` into what the load was waiting for. A core's cycles belong to operators as in
:func:`~accelsim.timeline.stalls.cycles_by_operator`; the idle cycles of a link to the operator of its next transfer,
and to none after the last one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from accelsim.analysis.ledger_tiles import TILE_LABELS, USEFUL, needed_share, tile_cycles
from accelsim.engine.replay import TEMPLATE, recorded_accelerator
from accelsim.hardware.accelerator import Accelerator
from accelsim.program.tables import ActivityKind, FloatTable, IntColumn, ResourceKind
from accelsim.timeline.stalls import (
    CAUSE_NAMES,
    DRAIN,
    NO_OPERATOR,
    cycles_by_operator,
    idle_intervals,
    recorded,
    stored_last,
)
from accelsim.timeline.table import Cause, Timeline

BANDWIDTH, LATENCY, SCHEDULE = "wait_load_bandwidth", "wait_load_latency", "wait_load_schedule"
SHARED_PORT = "shared_port"
READS, WRITES, SENDS, NO_WORK = "reads", "writes", "sends", "no_work"
LABELS: Mapping[str, str] = {
    "useful_mac": "MACs that were needed, at the peak rate",
    "useful_vector": "vector operations, at the peak rate",
    "recompute": "MACs done again, at the peak rate",
    "idle_lanes": "lanes that a tile leaves unused",
    "fill_drain": "the array fills or drains",
    "wait_port": "the buffer's read port is too slow",
    SHARED_PORT: "a transfer passes the buffer's port",
    "array_idle": "the array, not fully used",
    "compute": "a tile runs, of which the trace does not say what it does",
    BANDWIDTH: "waiting for a load while a link moves bytes",
    LATENCY: "waiting out the latency of a load",
    SCHEDULE: "waiting for a load that was asked for late: no link was busy",
    "wait_store": "waiting for a store",
    "wait_buffer": "waiting for buffer space",
    "wait_load": "waiting for a load to finish",
    "wait_tile": "waiting for a tile to finish",
    "wait_resource": "waiting while the resource serves another queue",
    "wait_communication": "waiting for a message from another accelerator",
    "wait_limit": "waiting until fewer requests are on their way",
    "wait_other": "waiting, for no recorded cause",
    "drain": "after the last tile",
    READS: "bytes read from memory",
    WRITES: "bytes written to memory",
    SENDS: "messages to other accelerators",
    NO_WORK: "after the last transfer",
}
"""Meaning of each label, in the order in which they stand."""
ACCOUNTS: Mapping[str, str] = {
    "mac": "MACs that were needed",
    "mac.recomputed": "MACs done again",
    "vector": "vector operations",
    "buffer.*": "reads and writes of that buffer",
    "dram.read": "bytes read from memory",
    "dram.write": "bytes written to memory",
    "dram.refresh": "refreshes of a memory that counts its commands",
    "dram.background": "standby of such a memory",
    "static.useful": "static power in cycles at the peak rate",
    "static.lost": "static power in all other cycles",
}
"""Meaning of each account; what a part is not split into stands under the part's own name."""


class CycleLedger(NamedTuple):
    """The cycles of one resource."""

    resource: str
    kind: ResourceKind
    labels: tuple[str, ...]
    cycles: IntColumn
    """Shape (operators + 1, labels); the last row is for cycles that belong to no operator."""

    def by_label(self, operator: int | None = None) -> dict[str, int]:
        """Cycles by label, of the run or of the operator in that row; those that are not 0."""
        row = self.cycles.sum(axis=0) if operator is None else self.cycles[operator]
        return {label: int(value) for label, value in zip(self.labels, row.tolist(), strict=True) if value}


@dataclass(frozen=True)
class Ledger:
    """Where all cycles and all picojoules of a run went."""

    latency_cycles: int
    operator_names: tuple[str, ...]
    resources: tuple[CycleLedger, ...]
    accounts: tuple[str, ...]
    energy_pj: FloatTable
    """Shape (operators + 1, accounts)."""

    def by_account(self, operator: int | None = None) -> dict[str, float]:
        """Picojoules by account, of the run or of the operator in that row; those that are not 0."""
        rows = self.energy_pj if operator is None else self.energy_pj[[operator]]
        totals = (math.fsum(column) for column in rows.T.tolist())
        return {name: total for name, total in zip(self.accounts, totals, strict=True) if total}

    @property
    def core(self) -> CycleLedger | None:
        """The first core's cycles."""
        return next((found for found in self.resources if found.kind == ResourceKind.CORE), None)

    def rows(self) -> Iterator[tuple[int, str]]:
        """The operators that have cycles or energy: row and name."""
        names = (*self.operator_names, NO_OPERATOR)
        for row, name in enumerate(names):
            if self.energy_pj[row].any() or any(found.cycles[row].any() for found in self.resources):
                yield row, name

    def to_dict(self, per_layer: bool = False) -> dict[str, Any]:
        """As ``accelsim ledger --json`` prints it."""

        def content(operator: int | None) -> dict[str, Any]:
            return {
                "cycles": {found.resource: found.by_label(operator) for found in self.resources},
                "energy_pj": self.by_account(operator),
            }

        found = {"latency_cycles": self.latency_cycles, **content(None)}
        return (
            {**found, "layers": [{"name": name, **content(row)} for row, name in self.rows()]} if per_layer else found
        )


def ledger(timeline: Timeline, accelerator: Accelerator | None = None) -> Ledger:
    """The ledger of a run.

    Args:
        timeline: the run.
        accelerator: the machine that it ran on; by default the one that its provenance holds. Without either, what
            tiles take beyond their work is not told apart.

    Raises:
        InputError: the machine that the provenance holds cannot be read.
    """
    if accelerator is None and TEMPLATE in timeline.provenance:
        accelerator = recorded_accelerator(timeline)
    program = timeline.program
    kinds = program.resources.kind.tolist()
    found = []
    for resource, (name, kind) in enumerate(zip(program.resource_names, kinds, strict=True)):
        of = _core_cycles if kind == ResourceKind.CORE else _link_cycles
        by_label = of(timeline, resource, accelerator)
        labels = tuple(label for label in dict.fromkeys((*LABELS, *by_label)) if label in by_label)
        labels = tuple(label for label in labels if by_label[label].any())
        columns = [by_label[label] for label in labels] or [np.zeros((len(program.operator_names) + 1), dtype=np.int64)]
        cycles = np.stack(columns, axis=1)[:, : len(labels)]
        found.append(CycleLedger(name, ResourceKind(kind), labels, cycles))
    accounts = _accounts(timeline, found)
    table = np.stack(list(accounts.values()), axis=1)
    return Ledger(timeline.latency_cycles, program.operator_names, tuple(found), tuple(accounts), table)


def _core_cycles(timeline: Timeline, resource: int, accelerator: Accelerator | None) -> dict[str, IntColumn]:
    program, events = timeline.program, timeline.events
    operators = len(program.operator_names) + 1
    ran = (events.resource == resource) & recorded(timeline)
    tiles = tile_cycles(program, accelerator, events.activity[ran])
    found = {label: tiles[:, place] for place, label in enumerate(TILE_LABELS)}
    idle = idle_intervals(timeline, resource)
    operator = _operator_of(timeline, idle.event, stored_last(timeline))
    size = idle.end_cycles - idle.start_cycles

    def book(label: str, cycles: IntColumn, rows: IntColumn) -> None:
        np.add.at(found.setdefault(label, np.zeros(operators, dtype=np.int64)), rows, cycles)

    tile = events.activity[ran]
    longer = (events.end_cycles - events.start_cycles)[ran] - program.activities.cycles[tile]
    book(SHARED_PORT, longer, program.activities.operator[tile])
    for code in (*Cause, DRAIN):
        mine = idle.cause == code
        if code == Cause.LOAD:
            parts = _load_waits(timeline, idle.start_cycles[mine], idle.end_cycles[mine], idle.event[mine])
            for label, cycles in parts.items():
                book(label, cycles, operator[mine])
        else:
            book("drain" if code == DRAIN else CAUSE_NAMES[Cause(code)], size[mine], operator[mine])
    return found


def _load_waits(timeline: Timeline, starts: IntColumn, ends: IntColumn, event: IntColumn) -> dict[str, IntColumn]:
    """Waits for loads, split: at the end the latency of the load; before that, links are busy or they are not."""
    program, events = timeline.program, timeline.events
    awaited = events.cause_activity[event]
    link = program.queues.resource[program.activities.queue[awaited]]
    latency = np.minimum(program.resources.latency_cycles[link], ends - starts)
    moving = _busy_before(timeline)
    head = ends - latency
    busy = moving(head) - moving(starts)
    return {BANDWIDTH: busy, LATENCY: latency, SCHEDULE: head - starts - busy}


def _busy_before(timeline: Timeline) -> Any:
    """A function from cycles to the cycles before them in which any link was busy."""
    events = timeline.events
    on_link = timeline.program.resources.kind[events.resource] == ResourceKind.LINK
    starts, ends = events.start_cycles[on_link], events.end_cycles[on_link]
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order]) if len(order) else ends
    before = np.concatenate([np.zeros(1, dtype=np.int64), reach])
    begin = np.maximum(starts, before[:-1])
    busy = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.maximum(reach - begin, 0))])

    def until(cycles: IntColumn) -> IntColumn:
        place = np.searchsorted(starts, cycles, side="right")
        over: IntColumn = busy[place] - np.maximum(before[place] - cycles, 0)
        return over

    return until


def _link_cycles(timeline: Timeline, resource: int, _: Accelerator | None) -> dict[str, IntColumn]:
    program, events = timeline.program, timeline.events
    found: dict[str, IntColumn] = {}

    def book(label: str, cycles: IntColumn, rows: IntColumn) -> None:
        column = found.setdefault(label, np.zeros(len(program.operator_names) + 1, dtype=np.int64))
        np.add.at(column, rows, cycles)

    mine = np.flatnonzero(events.resource == resource)
    activity = events.activity[mine]
    size = events.end_cycles[mine] - events.start_cycles[mine]
    for kind, label in ((ActivityKind.LOAD, READS), (ActivityKind.STORE, WRITES), (ActivityKind.SEND, SENDS)):
        chosen = program.activities.kind[activity] == kind
        book(label, size[chosen], program.activities.operator[activity[chosen]])
    idle = idle_intervals(timeline, resource)
    operator = _operator_of(timeline, idle.event, -1)
    for code in (*Cause, DRAIN):
        chosen = idle.cause == code
        cycles = (idle.end_cycles - idle.start_cycles)[chosen]
        book(_LINK_WAITS.get(code, "wait_other"), cycles, operator[chosen])
    return found


_LINK_WAITS = {
    Cause.LOAD: "wait_load",
    Cause.STORE: "wait_store",
    Cause.BUFFER: "wait_buffer",
    Cause.TILE: "wait_tile",
    Cause.SEND: "wait_communication",
    Cause.LIMIT: "wait_limit",
    DRAIN: NO_WORK,
}


def _operator_of(timeline: Timeline, event: IntColumn, without: int) -> IntColumn:
    """The operators of events; ``without`` where there is no event (-1)."""
    if not len(timeline.events.activity):
        return np.full(len(event), without)
    operator = timeline.program.activities.operator[timeline.events.activity[event]]
    return np.where(event >= 0, operator, without)


def _accounts(timeline: Timeline, resources: list[CycleLedger]) -> dict[str, FloatTable]:
    """Picojoules by account and operator, accounts in the order of the program's parts."""
    program, activities = timeline.program, timeline.program.activities
    operators = len(program.operator_names) + 1

    def booked(values: FloatTable, chosen: Any) -> FloatTable:
        column = np.zeros(operators)
        np.add.at(column, activities.operator[chosen], values[chosen])
        return column

    found: dict[str, FloatTable] = {}
    stores = activities.kind == ActivityKind.STORE
    for part, name in enumerate(program.part_names):
        values = program.energy_pj[:, part]
        if name == "mac":
            spent = booked(values, slice(None))
            needed: FloatTable = spent * needed_share(program)
            found[name], found[f"{name}.recomputed"] = needed, spent - needed
        elif name == "dram":
            found["dram.read"], found["dram.write"] = booked(values, ~stores), booked(values, stores)
        else:
            found[name] = booked(values, slice(None))
    attributed = np.zeros(operators, dtype=np.int64)
    rows = {name: row for row, name in reversed([*enumerate((*program.operator_names, NO_OPERATOR))])}
    for name, cycles in cycles_by_operator(timeline).items():
        attributed[rows[name]] += cycles
    if timeline.memory is not None:  # flows all the time, as static power does
        for command, account in (("ref", "dram.refresh"), ("background", "dram.background")):
            whole = timeline.memory.energy_by_command_pj.get(command, 0.0)
            found[account] = whole * attributed / max(timeline.latency_cycles, 1)
    useful = np.zeros(operators, dtype=np.int64)
    for one in resources:
        useful += one.cycles[:, [label in USEFUL for label in one.labels]].sum(axis=1)
    static, useful = program.static_pj_per_cycle, np.minimum(useful, attributed)
    found["static.useful"] = np.asarray(static * useful, dtype=np.float64)
    found["static.lost"] = np.asarray(static * (attributed - useful), dtype=np.float64)
    return found
