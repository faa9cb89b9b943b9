"""A Program on another machine: what follows from the machine is computed anew, all else stays.

Dependencies, claims, and the order of each queue stay. Transfers keep their bytes and take their time from the new
link; tiles whose shape or vector operations are known are priced on the new array; the rest keep their cycles.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.program.links import SEPARATE, SHARED, DramLinks, dram_links, joined_queues, joined_resources
from accelsim.program.memory_plan import with_memory
from accelsim.program.shared_ports import with_shared_ports
from accelsim.program.tables import (
    ActivityKind,
    Arbitration,
    BufferTable,
    FloatTable,
    IntColumn,
    Program,
    QueueTable,
    ResourceKind,
    ResourceTable,
)
from accelsim.schedule.notation import TensorKind

BUFFER = "global"
NETWORK = "link"
"""Begins the names of links to other accelerators, as :mod:`accelsim.program.recorded_rows` calls them."""

RATES = ("bytes_numerator", "bytes_denominator", "latency_cycles")

Rows = npt.NDArray[np.bool_]


def rebind(program: Program, accelerator: Accelerator, recorded: Accelerator | None = None) -> Program:
    """The same activities on ``accelerator``.

    What :func:`accelsim.program.lower.lower` made, rebound, is what it makes of the same schedule for the new machine,
    except that it is not refused where claims exceed the buffer: they block, and may come to a deadlock when run.

    Args:
        program: what to run; returned as it is if it was made for this very machine.
        accelerator: prices tiles, and gives the link, the buffers and the energies. Links and buffers that it does not
            name stay as they are.
        recorded: the machine that the program was made for, if known: tiles keep their cycles where the new one has the
            same array, or the same vector unit.

    Raises:
        MappingError: a tile that the new array's own buffers cannot hold.
        UnsupportedOperator: a stored shape makes no sense, or is too large.
    """
    if program.facts.get("hardware_digest") == accelerator.digest:
        return program
    activities = program.activities
    priced = _priced_tiles(program, accelerator, recorded)
    on_link = np.isin(program.queues.resource[activities.queue], [*_links(program), *_rows_called(program, *SHARED)])
    cycles, energy_pj, part_names = _costs(program, accelerator, priced, on_link)
    link = _bound_links(program, accelerator)
    link = link._replace(resources=_of_devices(link, accelerator))
    capacities, over = _capacities(program, accelerator)
    recomputed = ("ideal_cycles", "over_capacity_bytes")
    facts = {name: value for name, value in program.facts.items() if name not in recomputed}
    machines = max(len(program.tenant_names), 1)
    facts |= {
        "hardware": f"{machines} x {accelerator.name}" if machines > 1 else accelerator.name,
        "hardware_digest": accelerator.digest,
        "macs_per_cycle": machines * accelerator.macs_per_cycle,
        "clock_hz": float(accelerator.clock_hz),
    }
    if (ideal := _ideal_cycles(program, accelerator)) is not None:
        facts["ideal_cycles"] = ideal
    if over:
        facts["over_capacity_bytes"] = over
    rebound = dataclasses.replace(
        program,
        resources=link.resources,
        resource_names=link.resource_names,
        queues=link.queues,
        queue_names=link.queue_names,
        activities=activities._replace(cycles=cycles, queue=link.queue_of_activity),
        buffers=BufferTable(capacities),
        energy_pj=energy_pj,
        part_names=part_names,
        static_pj_per_cycle=machines * accelerator.static_pj_per_cycle,
        facts=facts,
    )
    rebound = with_shared_ports(rebound, accelerator)
    return with_memory(rebound, accelerator, _links(rebound)[0]) if _links(rebound) else rebound


def unpriced_tiles(program: Program) -> int:
    """Tiles of which neither shape nor vector operations are known: their cycles stay on every machine."""
    activities = program.activities
    unknown = (activities.shape < 0) & (activities.vector_ops == 0) & (activities.cycles > 0)
    return int(((activities.kind == ActivityKind.TILE) & unknown).sum())


class _Priced(NamedTuple):
    """The tiles that are priced anew, on the array and on the vector unit."""

    on_array: Rows
    on_vector_unit: Rows


def _priced_tiles(program: Program, accelerator: Accelerator, recorded: Accelerator | None) -> _Priced:
    activities = program.activities
    tile = activities.kind == ActivityKind.TILE
    new_array = recorded is None or recorded.dataflow != accelerator.dataflow
    new_array |= recorded is not None and recorded.arithmetic != accelerator.arithmetic
    new_vector_unit = recorded is None or recorded.vector_unit != accelerator.vector_unit
    return _Priced(
        on_array=tile & (activities.shape >= 0) & new_array,
        on_vector_unit=tile & (activities.shape < 0) & (activities.vector_ops > 0) & new_vector_unit,
    )


def _links(program: Program) -> list[int]:
    """The rows of the links to DRAM: those that are called so, or the only one, whatever its name."""
    links = np.flatnonzero(program.resources.kind == ResourceKind.LINK).tolist()
    named = [link for link in links if program.resource_names[link] in (*SHARED, *SEPARATE)]
    others = np.setdiff1d(links, [*_rows_called(program, NETWORK), *_rows_called(program, *SHARED)]).tolist()
    return named or (others if len(others) == 1 else [])


def _rows_called(program: Program | _Bound, first_word: str) -> list[int]:
    """The resources of several devices, whose names end in a rank, or of one."""
    return [row for row, name in enumerate(program.resource_names) if name.split(" ")[0] == first_word]


def _of_devices(bound: _Bound, accelerator: Accelerator) -> ResourceTable:
    """Bandwidth and latency of links between accelerators, and of each one's path to DRAM where there are several."""
    columns = {name: getattr(bound.resources, name).copy() for name in RATES}
    alone = [row for row, name in enumerate(bound.resource_names) if name in SHARED]
    for first_word, link in ((NETWORK, accelerator.link), (*SHARED, accelerator.dram)):
        rows = [row for row in _rows_called(bound, first_word) if row not in alone]
        if link is not None and rows:
            numbers = (link.bytes_per_cycle.numerator, link.bytes_per_cycle.denominator, link.latency_cycles)
            for name, number in zip(RATES, numbers, strict=True):
                columns[name][rows] = number
    return bound.resources._replace(**columns)


def _costs(
    program: Program, accelerator: Accelerator, priced: _Priced, on_link: Rows
) -> tuple[IntColumn, FloatTable, tuple[str, ...]]:
    """Cycles and energies of all activities; energies of parts that the new machine lacks stay only if still paid."""
    activities = program.activities
    sends = (activities.kind == ActivityKind.SEND) & (accelerator.link is not None)
    stays = ~(priced.on_array | priced.on_vector_unit | on_link | sends)
    kept = [
        name
        for column, name in enumerate(program.part_names)
        if name not in accelerator.part_names and program.energy_pj[stays, column].any()
    ]
    if accelerator.link is not None and accelerator.link.pj_per_byte and sends.any() and NETWORK not in kept:
        kept.append(NETWORK)
    parts = (*accelerator.part_names, *kept)
    cycles = activities.cycles.copy()
    energy_pj = np.zeros((program.size, len(parts)))
    for column, name in enumerate(program.part_names):
        if name in parts:
            energy_pj[stays, parts.index(name)] = program.energy_pj[stays, column]
    own = len(accelerator.part_names)
    if priced.on_array.any():
        costs = accelerator.array_cost(TileColumns(*np.ascontiguousarray(program.shapes.T)))
        shape = activities.shape[priced.on_array]
        cycles[priced.on_array] = costs.cycles[shape]
        energy_pj[priced.on_array, :own] = costs.energy_pj[shape]
    functions = _vector_functions(program, activities.operator[priced.on_vector_unit])
    costs = accelerator.vector_cost(activities.vector_ops[priced.on_vector_unit], functions)
    cycles[priced.on_vector_unit] = costs.cycles
    energy_pj[priced.on_vector_unit, :own] = costs.energy_pj
    for kind, pj_per_byte in (
        (ActivityKind.LOAD, accelerator.dram.read_pj_per_byte),
        (ActivityKind.STORE, accelerator.dram.write_pj_per_byte),
    ):
        moved = on_link & (activities.kind == kind)
        energy_pj[moved, parts.index("dram")] = activities.bytes[moved] * pj_per_byte
    if accelerator.link is not None and NETWORK in parts:
        energy_pj[sends, parts.index(NETWORK)] = activities.bytes[sends] * accelerator.link.pj_per_byte
    return cycles, energy_pj, parts


class _Bound(NamedTuple):
    """Resources and queues, with the new machine's links to DRAM."""

    resources: ResourceTable
    resource_names: tuple[str, ...]
    queues: QueueTable
    queue_names: tuple[str, ...]
    queue_of_activity: IntColumn


def _bound_links(program: Program, accelerator: Accelerator) -> _Bound:
    """The links keep their rows and queues where the new machine has the same; else new ones stand below the others.

    Rows of activities are in DRAM tensor order, and queues are served in the order of rows. Tenants keep their queues,
    and the rule between them; only bandwidth and latency are the new machine's.
    """
    old, new = _links(program), dram_links(accelerator.dram)
    now = _Bound(
        program.resources, program.resource_names, program.queues, program.queue_names, program.activities.queue
    )
    if not old:
        return now
    in_order = Arbitration.IN_ORDER
    was_in_order = (program.resources.arbitration[old] == in_order).all()
    if program.tenant_names:
        return now._replace(resources=_with_rows(program.resources, old, new.resources, RATES))
    if len(old) == len(new.names) and was_in_order == (new.resources.arbitration == in_order).all():
        resources = _with_rows(program.resources, old, new.resources, ResourceTable._fields)
        names = [name for name in new.queue_names if program.queue_names.count(name) == 1]
        rows = [program.queue_names.index(name) for name in names]
        rules = QueueTable(*(column[[new.queue_names.index(name) for name in names]] for column in new.queues.filled()))
        queues = _with_rows(program.queues, rows, rules, ("weight", "rank"))
        outstanding = np.where(np.isin(queues.resource, old), accelerator.dram.outstanding, queues.outstanding)
        queues = queues._replace(outstanding=outstanding)
        return now._replace(resources=resources, queues=queues)
    return _with_new_links(program, old, new)


Table = TypeVar("Table", ResourceTable, QueueTable)


def _with_rows(table: Table, rows: Sequence[int], other: Table, names: Sequence[str]) -> Table:
    """The table with the other one's columns of these names in its rows; one row of the other may serve for all."""
    columns = {name: getattr(table, name).copy() for name in names}
    for name, column in columns.items():
        column[list(rows)] = getattr(other, name)[: len(rows)]
    return table._replace(**columns)


def _with_new_links(program: Program, old: list[int], new: DramLinks) -> _Bound:
    """The other resources and queues, and below them the new links and theirs."""
    activities, queues = program.activities, program.queues
    resources = np.setdiff1d(np.arange(len(program.resource_names)), old)
    row_of_resource = np.full(len(program.resource_names), -1)
    row_of_resource[resources] = np.arange(len(resources))
    others = np.flatnonzero(~np.isin(queues.resource, old))
    row_of_queue = np.full(len(queues.resource), -1)
    row_of_queue[others] = np.arange(len(others))
    weights, inputs, outputs = (
        new.queue_of[kind] for kind in (TensorKind.LOAD_WEIGHT, TensorKind.LOAD_INPUT, TensorKind.STORE_OUTPUT)
    )
    loads = np.where(activities.tile < 0, weights, inputs)
    number = len(others) + np.where(activities.kind == ActivityKind.STORE, outputs, loads)
    kept = QueueTable(*(column[others] for column in queues))
    return _Bound(
        joined_resources(ResourceTable(*(column[resources] for column in program.resources)), new.resources),
        (*(program.resource_names[row] for row in resources.tolist()), *new.names),
        joined_queues(
            kept._replace(resource=row_of_resource[kept.resource], port=np.full(len(others), -1)),
            new.queues._replace(resource=len(resources) + new.queues.resource),
        ),
        (*(program.queue_names[row] for row in others.tolist()), *new.queue_names),
        np.where(row_of_queue[activities.queue] < 0, number, row_of_queue[activities.queue]),
    )


def _capacities(program: Program, accelerator: Accelerator) -> tuple[IntColumn, int]:
    """The buffers' bytes, and how many more the global one is given; the rule is that of lowering."""
    capacities = program.buffers.capacity_bytes.copy()
    over = 0
    for buffer, called in enumerate(program.buffer_names):
        name = called.rpartition("/")[2] if program.tenant_names else called
        if name in accelerator.buffers:
            capacities[buffer] = accelerator.buffers[name].capacity_bytes
    tiles = int((program.activities.kind == ActivityKind.TILE).sum())
    if BUFFER in program.buffer_names and (tiles == 1 or accelerator.dataflow.one_tile_per_operator):
        buffer = program.buffer_names.index(BUFFER)
        over = max(_needed_bytes(program, buffer) - int(capacities[buffer]), 0)
        capacities[buffer] += over
    return capacities, over


def _needed_bytes(program: Program, buffer: int) -> int:
    """The most that is alive at once if the activities run in the order of their rows."""
    claims, releases = program.claims, program.releases
    last = np.where(np.isin(np.arange(len(claims.bytes)), releases.claim), -1, program.size)
    tile = program.activities.kind[releases.activity] == ActivityKind.TILE
    np.maximum.at(last, releases.claim[tile], releases.activity[tile])
    mine = claims.buffer == buffer
    change = np.zeros(program.size + 3, dtype=np.int64)
    np.add.at(change, claims.taken_by[mine] + 1, claims.bytes[mine])
    np.subtract.at(change, last[mine] + 2, claims.bytes[mine])
    return int(np.cumsum(change).max())


def _ideal_cycles(program: Program, accelerator: Accelerator) -> int | None:
    """As lowering counts them, where the program tells each operator's own work."""
    macs, vector_ops = program.operator_macs, program.operator_vector_ops
    if not len(macs) or not len(vector_ops):
        return None
    rates = accelerator.vector_unit.rates(_vector_functions(program, np.arange(len(vector_ops))))
    pairs = zip(vector_ops.tolist(), rates, strict=True)
    on_vector_unit = sum(operations * rate.denominator // rate.numerator for operations, rate in pairs)
    return int((macs // accelerator.macs_per_cycle).sum()) + int(on_vector_unit)


def _vector_functions(program: Program, operators: IntColumn) -> list[str]:
    """The kinds of operators, where they were recorded (on a machine to which they matter); else an empty text each."""
    recorded = str(program.facts.get("vector_functions", "")).split(",")
    known = len(recorded) == len(program.operator_names)
    return [recorded[row] if known and row >= 0 else "" for row in operators.tolist()]
