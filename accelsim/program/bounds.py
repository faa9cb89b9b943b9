"""Lower limits of a Program: what no machine with these resources could beat."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import numpy as np

from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.arithmetic import Arithmetic
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.program.tables import ActivityKind, FloatTable, IntColumn, Program


def activity_cycles(program: Program) -> IntColumn:
    """For each activity, the cycles that it occupies its resource: its duration, or ceil(bytes / bandwidth)."""
    activities, resources = program.activities, program.resources
    resource = program.queues.resource[activities.queue]
    numerator = np.maximum(resources.bytes_numerator[resource], 1)
    transfer = -(-activities.bytes * resources.bytes_denominator[resource] // numerator)
    return np.where(activities.kind == ActivityKind.TILE, activities.cycles, transfer)


def busy_cycles(program: Program) -> dict[str, int]:
    """For each resource, the cycles that its activities occupy it."""
    totals = np.zeros(len(program.resource_names), dtype=np.int64)
    np.add.at(totals, program.queues.resource[program.activities.queue], activity_cycles(program))
    return dict(zip(program.resource_names, totals.tolist(), strict=True))


def lower_bound_cycles(program: Program) -> int:
    """The busy cycles of the busiest resource (HPCA 2025, section VI: the larger of all tiles and all transfers)."""
    return max(busy_cycles(program).values(), default=0)


def macs_left(accelerator: Accelerator, program: Program) -> IntColumn:
    """Multiply-accumulates of each activity that the array had to do, where it skips zeros or has narrow products."""
    macs = program.activities.macs
    if accelerator.arithmetic == Arithmetic():
        return macs
    of = TileColumns(*program.shapes.T)
    each = (
        of.batch * of.filters * of.rows * of.columns * (of.channels // of.groups) * of.kernel_rows * of.kernel_columns
    )
    left: IntColumn = np.minimum(macs, np.append(each, 0)[program.activities.shape])
    return left


def effectual_share(program: Program) -> FloatTable:
    """For each operator, the share of its multiply-accumulates of which neither operand is known to be zero; last, 1.

    Lowering records it where a workload knows of zeros (fact ``effectual``); those of the two operands are independent.
    """
    shares = str(program.facts.get("effectual", "")).split(",")
    found = np.ones(len(program.operator_names) + 1)
    if len(shares) == len(program.operator_names):
        with suppress(ValueError, ZeroDivisionError):  # a file that somebody else wrote
            found[:-1] = [min(max(float(Fraction(share)), 0.0), 1.0) for share in shares]
    return found
