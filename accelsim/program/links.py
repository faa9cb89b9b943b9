"""The links that an accelerator's ``dram`` section makes of a Program: their resources, and their queues by tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from accelsim.hardware.link import Link
from accelsim.program.tables import Arbitration, IntColumn, QueueTable, ResourceKind, ResourceTable
from accelsim.schedule.notation import TensorKind

SHARED, SEPARATE = ("dram",), ("dram.read", "dram.write")


class DramLinks(NamedTuple):
    """Links by name and queues by name, in the order of their rows."""

    names: tuple[str, ...]
    resources: ResourceTable
    queue_names: tuple[str, ...]
    queues: QueueTable
    """``resource`` counts from the first of these links."""
    queue_of: Mapping[TensorKind, int]
    """Counted from the first of these queues."""


def dram_links(dram: Link) -> DramLinks:
    """One link, or one for loads and one for stores; a queue for each kind of tensor, or one for all on an in-order
    link."""
    names = SEPARATE if dram.separate_directions else SHARED
    link_of = {kind: int(dram.separate_directions and kind is TensorKind.STORE_OUTPUT) for kind in TensorKind}
    count = np.ones(len(names), dtype=np.int64)
    resources = ResourceTable(
        kind=ResourceKind.LINK * count,
        bytes_numerator=dram.bytes_per_cycle.numerator * count,
        bytes_denominator=dram.bytes_per_cycle.denominator * count,
        latency_cycles=dram.latency_cycles * count,
        arbitration=Arbitration[dram.arbitration.upper()] * count,
        grant_bytes=dram.grant_bytes * count,
    )
    if dram.arbitration == "in_order":
        queues = QueueTable(np.arange(len(names)), outstanding=dram.outstanding * count)
        return DramLinks(names, resources, names, queues, link_of)

    def column(numbers: Mapping[TensorKind, int]) -> IntColumn:
        return np.array([numbers[kind] for kind in TensorKind])

    queues = QueueTable(
        resource=column(link_of),
        weight=column({kind: getattr(dram.weights, kind) for kind in TensorKind}),
        rank=column({kind: getattr(dram.ranks, kind) for kind in TensorKind}),
        outstanding=column(dict.fromkeys(TensorKind, dram.outstanding)),
    )
    return DramLinks(
        names, resources, tuple(map(str, TensorKind)), queues, {kind: row for row, kind in enumerate(TensorKind)}
    )


def joined_resources(*tables: ResourceTable) -> ResourceTable:
    """One table below the other."""
    return ResourceTable(*(np.concatenate(columns) for columns in zip(*tables, strict=True)))


def joined_queues(*tables: QueueTable) -> QueueTable:
    """One table below the other; columns that were left out are filled."""
    filled = [table.filled() for table in tables]
    return QueueTable(*(np.concatenate(columns) for columns in zip(*filled, strict=True)))
