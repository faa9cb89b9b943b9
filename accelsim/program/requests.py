"""Memory requests as a Program: who asks, and the path to DRAM that serves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from accelsim.hardware.accelerator import Accelerator
from accelsim.program.tables import (
    SHAPE_COLUMNS,
    ActivityKind,
    ActivityTable,
    Arbitration,
    BufferTable,
    ClaimTable,
    DependencyTable,
    IntColumn,
    Program,
    QueueTable,
    ReleaseTable,
    ResourceKind,
    ResourceTable,
)

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
    zero, none = np.zeros(tiles + count, dtype=np.int64), np.zeros(0, dtype=np.int64)
    waits = np.flatnonzero(tile_of >= 0)
    kind = np.concatenate(
        [np.full(tiles, ActivityKind.TILE), np.where(is_write, ActivityKind.STORE, ActivityKind.LOAD)]
    )
    dram = accelerator.dram
    rate = dram.bytes_per_cycle
    parts = accelerator.part_names
    energy_pj = np.zeros((tiles + count, len(parts)))
    energy_pj[tiles:, parts.index("dram")] = size_bytes * np.where(
        is_write, dram.write_pj_per_byte, dram.read_pj_per_byte
    )
    facts: dict[str, int | float | str] = {
        "workload": workload,
        "hardware": accelerator.name,
        "hardware_digest": accelerator.digest,
        "clock_hz": float(accelerator.clock_hz),
        "macs_per_cycle": accelerator.macs_per_cycle,
    }
    if notes:
        facts["notes"] = "\n".join(notes)
    return Program(
        resources=ResourceTable(
            kind=np.array([ResourceKind.CORE, ResourceKind.LINK]),
            bytes_numerator=np.array([0, rate.numerator]),
            bytes_denominator=np.array([1, rate.denominator]),
            latency_cycles=np.array([0, dram.latency_cycles]),
            arbitration=np.array([Arbitration.ROUND_ROBIN, Arbitration.IN_ORDER]),
            grant_bytes=np.array([0, 0]),
        ),
        queues=QueueTable(np.array([REQUESTER, LINK])),
        activities=ActivityTable(
            queue=np.concatenate([np.full(tiles, REQUESTER), np.full(count, LINK)]),
            kind=kind,
            cycles=np.concatenate([gaps[stretch], np.zeros(count, dtype=np.int64)]),
            bytes=np.concatenate([np.zeros(tiles, dtype=np.int64), size_bytes]),
            operator=np.concatenate([np.zeros(tiles, dtype=np.int64), np.ones(count, dtype=np.int64)]),
            tile=np.concatenate([np.arange(tiles), np.arange(count)]),
            tensor=zero - 1,
            position=zero - 1,
            macs=zero,
            vector_ops=zero,
            shape=zero - 1,
        ),
        dependencies=DependencyTable(tile_of[waits], tiles + waits),
        claims=ClaimTable(none, none, none, none),
        releases=ReleaseTable(none, none),
        buffers=BufferTable(none),
        energy_pj=energy_pj,
        shapes=np.zeros((0, len(SHAPE_COLUMNS)), dtype=np.int64),
        resource_names=("requester", "dram"),
        queue_names=("requester", "dram"),
        buffer_names=(),
        operator_names=("(between requests)", "requests"),
        tensor_names=(),
        part_names=parts,
        static_pj_per_cycle=accelerator.static_pj_per_cycle,
        facts=facts,
    )
