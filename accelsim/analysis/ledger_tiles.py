"""Where the cycles of tiles went: work, work done again, idle lanes, fill and drain, and waiting for the read port.

A tile of n cycles on an array of L lanes has n L lane-cycles. Those that did needed work are counted, the others are
told apart by asking the same array again:

* what the tile would not take if the global buffer's read port never limited is waiting for the port;
* of the rest, what the mapping leaves idle while operands stream (the spatial utilisation) is idle lanes;
* and what is still left is filling and draining.

So the labels of a tile add up to its lane-cycles. Lane-cycles become whole cycles operator by operator, so that the
labels of an operator add up to its cycles, each within one cycle of its share.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelsim.errors import InputError, MappingError
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.hardware.template import parse_template
from accelsim.program.bounds import macs_left
from accelsim.program.tables import ActivityKind, FloatTable, IntColumn, Program

MAC, VECTOR, RECOMPUTE, IDLE_LANES, FILL_DRAIN, WAIT_PORT, ARRAY_IDLE, UNKNOWN = (
    "useful_mac",
    "useful_vector",
    "recompute",
    "idle_lanes",
    "fill_drain",
    "wait_port",
    "array_idle",
    "compute",
)
TILE_LABELS = (MAC, VECTOR, RECOMPUTE, IDLE_LANES, FILL_DRAIN, WAIT_PORT, ARRAY_IDLE, UNKNOWN)
USEFUL = (MAC, VECTOR)
MANY = 1 << 16
UNLIMITED_PORT = "buffers.global.read_bandwidth=1e9 B/cycle"


def tile_cycles(program: Program, accelerator: Accelerator | None, activities: IntColumn) -> IntColumn:
    """Cycles of tiles by operator and label.

    Args:
        program: whose tiles they are.
        accelerator: that it was made for; without it what an array tile takes beyond its work is ``array_idle``.
        activities: rows of the tiles.

    Returns:
        Shape (operators + 1, len(TILE_LABELS)); the last row is for what belongs to no operator.
    """
    columns, operators = program.activities, len(program.operator_names) + 1
    rows = activities[columns.kind[activities] == ActivityKind.TILE]
    shape = columns.shape[rows]
    lanes = _lanes(program, accelerator)
    on_array = ((shape >= 0) | (columns.macs[rows] > 0)) & (lanes > 0)
    cycles = columns.cycles[rows]
    parts = np.zeros((len(rows), len(TILE_LABELS)))  # shares of each tile's cycles
    if lanes:
        parts[on_array] = _array_shares(program, accelerator, rows[on_array], lanes)
    on_vector_unit = ~on_array & (shape < 0) & (columns.vector_ops[rows] > 0)
    rate = None if accelerator is None else accelerator.vector_ops_per_cycle
    busy = cycles[on_vector_unit].astype(np.float64)
    work = busy if rate is None else np.minimum(columns.vector_ops[rows][on_vector_unit] / float(rate), busy)
    parts[on_vector_unit, TILE_LABELS.index(VECTOR)] = work
    parts[on_vector_unit, TILE_LABELS.index(IDLE_LANES)] = busy - work
    rest = ~(on_array | on_vector_unit)
    parts[rest, TILE_LABELS.index(UNKNOWN)] = cycles[rest]
    by_operator = np.zeros((operators, len(TILE_LABELS)))
    total = np.zeros(operators, dtype=np.int64)
    np.add.at(by_operator, columns.operator[rows], parts)
    np.add.at(total, columns.operator[rows], cycles)
    return np.array([whole(shares, size) for shares, size in zip(by_operator.tolist(), total.tolist(), strict=True)])


def _lanes(program: Program, accelerator: Accelerator | None) -> int:
    if accelerator is not None:
        return accelerator.macs_per_cycle
    found = program.facts.get("macs_per_cycle", 0)
    return int(found) if isinstance(found, int | float) and found > 0 else 0


def _array_shares(program: Program, accelerator: Accelerator | None, rows: IntColumn, lanes: int) -> FloatTable:
    """Cycles of array tiles by label, as fractions of cycles."""
    columns = program.activities
    cycles, shape = columns.cycles[rows].astype(np.float64), columns.shape[rows]
    macs = columns.macs if accelerator is None else macs_left(accelerator, program)  # skipped zeros are no work
    executed = np.minimum(macs[rows] / lanes, cycles)
    needed = executed * needed_share(program)[columns.operator[rows]]
    found = np.zeros((len(rows), len(TILE_LABELS)))
    found[:, TILE_LABELS.index(MAC)] = needed
    found[:, TILE_LABELS.index(RECOMPUTE)] = executed - needed
    known = shape >= 0
    if accelerator is None or not known.any():
        found[:, TILE_LABELS.index(ARRAY_IDLE)] = cycles - executed
        return found
    unlimited, streaming = _without_port(program, accelerator, macs, lanes)
    free = np.clip(unlimited[shape], executed, cycles)
    streams = free if streaming is None else np.clip(streaming[shape], executed, free)
    for label, part in (
        (WAIT_PORT, cycles - free),
        (IDLE_LANES, streams - executed),
        (FILL_DRAIN, free - streams),
    ):
        found[:, TILE_LABELS.index(label)] = np.where(known, part, 0.0)
    found[:, TILE_LABELS.index(ARRAY_IDLE)] = np.where(known, 0.0, cycles - executed)
    return found


def _without_port(
    program: Program, accelerator: Accelerator, macs: IntColumn, lanes: int
) -> tuple[FloatTable, FloatTable | None]:
    """For each shape, the cycles that it would take with a read port that never limits, and those of streaming alone.

    The latter is None where the dataflow does not tell them apart.
    """
    shapes = TileColumns(*np.ascontiguousarray(program.shapes.T))
    changed = accelerator
    buffer = accelerator.buffers["global"]
    if buffer.read_bytes_per_cycle is not None:
        overrides = [UNLIMITED_PORT]
        if buffer.ports is not None:
            overrides = [f"buffers.global.ports.{name}={MANY}" for name in ("read", "write")[: 2 - buffer.ports.single]]
        try:
            changed = parse_template(accelerator.source, "<template>", overrides)
        except InputError:  # a machine that no template describes
            changed = accelerator
    try:
        unlimited = changed.array_cost(shapes).cycles.astype(np.float64)
        efficiency = accelerator.dataflow.mapping_efficiency(shapes)
    except MappingError:  # a trace of tiles that this array could not run
        return np.full(len(program.shapes), np.inf), None
    if efficiency is None:
        return unlimited, None
    of_shape = np.zeros(len(program.shapes))
    on_array = program.activities.shape >= 0
    of_shape[program.activities.shape[on_array]] = macs[on_array]
    return unlimited, of_shape / lanes / np.maximum(efficiency, 1e-300)


def needed_share(program: Program) -> FloatTable:
    """For each operator, its own multiply-accumulates over those executed, at most 1; last, what belongs to none."""
    operators = len(program.operator_names) + 1
    executed = np.zeros(operators, dtype=np.int64)
    np.add.at(executed, program.activities.operator, program.activities.macs)
    share = np.ones(operators)
    if len(program.operator_macs):
        own = np.append(program.operator_macs, 0).astype(np.float64)
        share = np.where(executed > 0, np.minimum(own / np.maximum(executed, 1), 1.0), 1.0)
        share[-1] = 1.0
    return share


def whole(shares: Sequence[float], total: int) -> list[int]:
    """Shares of a whole number of cycles, which they add up to, as whole numbers that do so exactly.

    Each is its share rounded up or down: what is rounded off is handed on to the next one.
    """
    sum_of_shares = sum(shares)
    if not sum_of_shares:
        return [0] * len(shares)
    found, before, cumulated = [], 0, 0.0
    for share in shares:
        cumulated += share
        upto = min(max(round(cumulated / sum_of_shares * total), before), total)
        found.append(upto - before)
        before = upto
    last = max(place for place, share in enumerate(shares) if share)
    found[last] += total - before
    return found
