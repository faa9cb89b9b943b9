"""What Programs of traces have in common: a queue for each resource, no buffers, and only moved bytes have a price."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.link import Link, Network
from accelsim.program.tables import (
    SHAPE_COLUMNS,
    ActivityKind,
    ActivityTable,
    Arbitration,
    BufferTable,
    ClaimTable,
    DependencyTable,
    FloatTable,
    IntColumn,
    Program,
    QueueTable,
    ReleaseTable,
    ResourceKind,
    ResourceTable,
)

MEMORY, SEND_PART = "dram", "link"
"""The parts of the machine that loads and stores, and messages, book their energy on."""

AS_RECORDED = "as recorded"
"""The fact ``hardware`` of a trace that runs on no machine that is known."""


class TraceRows(NamedTuple):
    """One row an activity; columns as in :class:`accelsim.program.tables.ActivityTable`, queues are resources."""

    resource: IntColumn
    kind: IntColumn
    cycles: IntColumn
    bytes: IntColumn
    operator: IntColumn
    tile: IntColumn
    macs: IntColumn


def trace_program(
    workload: str,
    rows: TraceRows,
    dependencies: DependencyTable,
    operator_names: Sequence[str],
    resources: Sequence[tuple[str, Link | Network | None]],
    accelerator: Accelerator | None = None,
    *,
    clock_hz: int = 10**9,
    devices: int = 1,
    notes: Sequence[str] = (),
) -> Program:
    """The Program of a trace, whose queues are served in the order of rows.

    Args:
        workload: what reports call it.
        rows: the activities.
        dependencies: between them.
        operator_names: what ``rows.operator`` counts.
        resources: their names, each with the link that it is, or None for a core.
        accelerator: what it runs on; None where all times are recorded.
        clock_hz: cycles a second; by default a cycle is a nanosecond.
        devices: how many such accelerators there are.
        notes: what readers should know.
    """
    count, none = len(rows.kind), np.zeros(0, dtype=np.int64)
    minus, zero = np.full(count, -1), np.zeros(count, dtype=np.int64)
    parts, energy_pj = _energies(rows, accelerator)
    names = tuple(name for name, _ in resources)
    facts: dict[str, int | float | str] = {
        "workload": workload,
        "clock_hz": float(clock_hz),
        "hardware": accelerator.name if accelerator else AS_RECORDED,
    }
    if accelerator is not None:
        facts["hardware_digest"] = accelerator.digest
        facts["macs_per_cycle"] = accelerator.macs_per_cycle * devices
    facts |= {"devices": devices} if devices > 1 else {}
    facts |= {"notes": "\n".join(notes)} if notes else {}
    return Program(
        resources=_resource_table(link for _, link in resources),
        queues=QueueTable(np.arange(len(resources))),
        activities=ActivityTable(
            queue=rows.resource,
            kind=rows.kind,
            cycles=rows.cycles,
            bytes=rows.bytes,
            operator=rows.operator,
            tile=rows.tile,
            tensor=minus,
            position=minus,
            macs=rows.macs,
            vector_ops=zero,
            shape=minus,
        ),
        dependencies=dependencies,
        claims=ClaimTable(none, none, none, none),
        releases=ReleaseTable(none, none),
        buffers=BufferTable(none),
        energy_pj=energy_pj,
        shapes=np.zeros((0, len(SHAPE_COLUMNS)), dtype=np.int64),
        resource_names=names,
        queue_names=names,
        buffer_names=(),
        operator_names=tuple(operator_names),
        tensor_names=(),
        part_names=parts,
        static_pj_per_cycle=accelerator.static_pj_per_cycle * devices if accelerator else 0.0,
        facts=facts,
    )


def _resource_table(links: Iterable[Link | Network | None]) -> ResourceTable:
    rows = []
    for link in links:
        if link is None:
            rows.append((ResourceKind.CORE, 0, 1, 0, Arbitration.ROUND_ROBIN, 0))
        else:
            rate = link.bytes_per_cycle
            served = (rate.numerator, rate.denominator, link.latency_cycles, Arbitration.IN_ORDER, 0)
            rows.append((ResourceKind.LINK, *served))
    return ResourceTable(*np.array(rows, dtype=np.int64).reshape(-1, len(ResourceTable._fields)).T)


def _energies(rows: TraceRows, accelerator: Accelerator | None) -> tuple[tuple[str, ...], FloatTable]:
    """What moving bytes costs; the energy of computing is not recorded."""
    if accelerator is None:
        return (), np.zeros((len(rows.kind), 0))
    network = accelerator.link
    parts = (*accelerator.part_names, *((SEND_PART,) if network and network.pj_per_byte else ()))
    energy_pj = np.zeros((len(rows.kind), len(parts)))
    rates = {
        ActivityKind.LOAD: (MEMORY, accelerator.dram.read_pj_per_byte),
        ActivityKind.STORE: (MEMORY, accelerator.dram.write_pj_per_byte),
        ActivityKind.SEND: (SEND_PART, network.pj_per_byte if network else 0.0),
    }
    for moves, (part, pj_per_byte) in rates.items():
        if part in parts:
            mine = rows.kind == moves
            energy_pj[mine, parts.index(part)] = rows.bytes[mine] * pj_per_byte
    return parts, energy_pj
