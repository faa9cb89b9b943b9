"""A Program on another machine: what follows from the machine is computed anew, all else stays.

Dependencies, claims, and the order of each queue stay. Transfers keep their bytes and take their time from the new
link; tiles whose shape or vector operations are known are priced on the new array; the rest keep their cycles.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.dataflow.dataflow import TileColumns
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

LINK = "dram"
"""The link that a template describes; in a program with a single link it is that one, whatever its name."""
BUFFER = "global"

Rows = npt.NDArray[np.bool_]


def rebind(program: Program, accelerator: Accelerator, recorded: Accelerator | None = None) -> Program:
    """The same activities on ``accelerator``.

    What :func:`accelsim.program.lower.lower` made, rebound, is what it makes of the same schedule for the new machine,
    with two exceptions: it is not refused where claims exceed the buffer (they block, and may come to a deadlock when
    run), and the fact ``ideal_cycles`` is left out where the program does not tell it.

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
    link = _link(program)
    on_link = program.queues.resource[activities.queue] == link
    cycles, energy_pj, part_names = _costs(program, accelerator, priced, on_link)
    queues = _queues(program, accelerator, link)
    capacities, over = _capacities(program, accelerator)
    recomputed = ("ideal_cycles", "over_capacity_bytes")
    facts = {name: value for name, value in program.facts.items() if name not in recomputed}
    facts |= {
        "hardware": accelerator.name,
        "hardware_digest": accelerator.digest,
        "macs_per_cycle": accelerator.macs_per_cycle,
        "clock_hz": float(accelerator.clock_hz),
    }
    if (ideal := _ideal_cycles(program, accelerator)) is not None:
        facts["ideal_cycles"] = ideal
    if over:
        facts["over_capacity_bytes"] = over
    return dataclasses.replace(
        program,
        resources=_resources(program, accelerator, link),
        queues=queues.table,
        queue_names=queues.names,
        activities=activities._replace(cycles=cycles, queue=queues.of_activity),
        buffers=BufferTable(capacities),
        energy_pj=energy_pj,
        part_names=part_names,
        static_pj_per_cycle=accelerator.static_pj_per_cycle,
        facts=facts,
    )


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
    new_vector_unit = recorded is None or recorded.vector_unit != accelerator.vector_unit
    return _Priced(
        on_array=tile & (activities.shape >= 0) & new_array,
        on_vector_unit=tile & (activities.shape < 0) & (activities.vector_ops > 0) & new_vector_unit,
    )


def _link(program: Program) -> int:
    """The row of the link to DRAM; -1 if none is called so and there are several."""
    links = np.flatnonzero(program.resources.kind == ResourceKind.LINK).tolist()
    named = [link for link in links if program.resource_names[link] == LINK]
    return int(named[0]) if named else int(links[0]) if len(links) == 1 else -1


def _costs(
    program: Program, accelerator: Accelerator, priced: _Priced, on_link: Rows
) -> tuple[IntColumn, FloatTable, tuple[str, ...]]:
    """Cycles and energies of all activities; energies of parts that the new machine lacks stay only if still paid."""
    activities = program.activities
    stays = ~(priced.on_array | priced.on_vector_unit | on_link)
    kept = [
        name
        for column, name in enumerate(program.part_names)
        if name not in accelerator.part_names and program.energy_pj[stays, column].any()
    ]
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
    costs = accelerator.vector_cost(activities.vector_ops[priced.on_vector_unit])
    cycles[priced.on_vector_unit] = costs.cycles
    energy_pj[priced.on_vector_unit, :own] = costs.energy_pj
    for kind, pj_per_byte in (
        (ActivityKind.LOAD, accelerator.dram.read_pj_per_byte),
        (ActivityKind.STORE, accelerator.dram.write_pj_per_byte),
    ):
        moved = on_link & (activities.kind == kind)
        energy_pj[moved, parts.index("dram")] = activities.bytes[moved] * pj_per_byte
    return cycles, energy_pj, parts


def _resources(program: Program, accelerator: Accelerator, link: int) -> ResourceTable:
    if link < 0:
        return program.resources
    dram = accelerator.dram
    numbers = {
        "bytes_numerator": dram.bytes_per_cycle.numerator,
        "bytes_denominator": dram.bytes_per_cycle.denominator,
        "latency_cycles": dram.latency_cycles,
        "arbitration": Arbitration[dram.arbitration.upper()],
        "grant_bytes": dram.grant_bytes,
    }
    columns = {name: getattr(program.resources, name).copy() for name in numbers}
    for name, number in numbers.items():
        columns[name][link] = number
    return program.resources._replace(**columns)


class _Queues(NamedTuple):
    table: QueueTable
    names: tuple[str, ...]
    of_activity: IntColumn


def _queues(program: Program, accelerator: Accelerator, link: int) -> _Queues:
    """An in-order link has one queue; where it had been in order and is no longer, one for each kind of tensor.

    Rows of activities are in DRAM tensor order, and queues are served in the order of rows.
    """
    was = Arbitration(int(program.resources.arbitration[link])) if link >= 0 else None
    now = Arbitration[accelerator.dram.arbitration.upper()]
    if was is None or (was == Arbitration.IN_ORDER) == (now == Arbitration.IN_ORDER):
        return _Queues(program.queues, program.queue_names, program.activities.queue)
    activities = program.activities
    others = np.flatnonzero(program.queues.resource != link)
    row_of = np.full(len(program.queues.resource), -1)
    row_of[others] = np.arange(len(others))
    of_activity = row_of[activities.queue]
    mine = of_activity < 0
    names: list[str] = [LINK]
    number = np.zeros(program.size, dtype=np.int64)
    if now != Arbitration.IN_ORDER:
        names = [str(kind) for kind in TensorKind]
        weights, inputs, outputs = (
            names.index(kind) for kind in (TensorKind.LOAD_WEIGHT, TensorKind.LOAD_INPUT, TensorKind.STORE_OUTPUT)
        )
        loads = np.where(activities.tile < 0, weights, inputs)
        number = np.where(activities.kind == ActivityKind.STORE, outputs, loads)
    of_activity[mine] = len(others) + number[mine]
    table = QueueTable(np.concatenate([program.queues.resource[others], np.full(len(names), link)]))
    return _Queues(table, (*(program.queue_names[row] for row in others.tolist()), *names), of_activity)


def _capacities(program: Program, accelerator: Accelerator) -> tuple[IntColumn, int]:
    """The buffers' bytes, and how many more the global one is given; the rule is that of lowering."""
    capacities = program.buffers.capacity_bytes.copy()
    over = 0
    for buffer, name in enumerate(program.buffer_names):
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
    """As lowering counts them, where nothing was computed twice, so that each operator's own vector work is known."""
    own, executed = program.operator_macs, np.zeros(len(program.operator_names) + 1, dtype=np.int64)
    np.add.at(executed, program.activities.operator, program.activities.vector_ops)
    if not len(own) or executed.sum() != program.facts.get("vector_ops"):
        return None
    rate = accelerator.vector_unit.operations_per_cycle
    on_vector_unit = executed * rate.denominator // rate.numerator
    return int((own // accelerator.macs_per_cycle).sum() + on_vector_unit.sum())
