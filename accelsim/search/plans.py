"""Plans of fused groups: what every tile of a group's operators costs, kept by group so that a search prices it once.

A plan depends on which operators the group has and on its tiling number, not on their order. Under SoMa's rule the
kernel below shapes the tiles itself, as :mod:`accelsim.schedule.tiling_soma` does one operator at a time; under the
exact rule a missing plan is reported, and made in Python by the rule itself.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from accelsim.jit import kernel
from accelsim.search.network import (
    CONVOLUTION,
    POOL,
    TRANSPOSE,
    UPSAMPLE,
    FloatColumn,
    IntColumn,
    Network,
)
from accelsim.search.plan_store import PlanStore, group_key, has_room, plan_slot
from accelsim.search.tile_costs import TileCostTable, cost_slot

LEGAL, ILLEGAL, MISSING_COST, MISSING_PLAN, FULL, TOO_LONG = range(6)
"""Outcomes of planning and evaluating; from MISSING_COST on they ask Python for something, and for another try."""

MAXIMUM_POSITIONS = 1 << 20
"""A choice with more tiles than this is called illegal: no search would keep it."""


class Shapes(NamedTuple):
    """Scratch of the planner, one row an operator."""

    samples: IntColumn
    channels: IntColumn
    rows: IntColumn
    columns: IntColumn
    cycles: IntColumn
    mark: IntColumn
    """1: in the group."""
    group: IntColumn
    """The group's operators in a topological order, handed in."""
    energy_pj: FloatColumn


def empty_shapes(operators: int) -> Shapes:
    """Scratch for ``operators`` operators."""
    samples, channels, rows, columns, cycles, mark, group = (np.zeros(operators, dtype=np.int64) for _ in range(7))
    return Shapes(samples, channels, rows, columns, cycles, mark, group, np.zeros(operators))


@kernel
def greatest_common_divisor(a: int, b: int) -> int:
    """Euclid's."""
    while b:
        a, b = b, a % b
    return a


@kernel
def column_parts_of(rest: int, rows: int, columns: int) -> int:
    """How many parts the columns get of ``rest``; see :func:`accelsim.schedule.tiling.split_tiling_number`."""
    ideal = math.sqrt(rest * columns / rows)
    below = min(int(ideal), rest)
    while below >= 1 and rest % below:
        below -= 1
    above = int(ideal) + 1
    while above <= rest and rest % above:
        above += 1
    if below < 1:
        return above
    if above > rest:
        return below
    ratio = rows / columns
    if abs(rest / above - ratio * above) <= abs(rest / below - ratio * below):
        return above
    return below


@kernel
def data_read(net: Network, reader: int, channels: int, rows: int, columns: int) -> tuple[int, int, int]:
    """Channels, rows and columns of operand 0 behind a tile of that shape (``tiling_soma.input_shape``)."""
    kind = net.kind[reader]
    if kind == CONVOLUTION or kind == POOL:
        height = (rows - 1) * net.stride_rows[reader] + net.window_rows[reader] - net.padding_rows[reader]
        width = (columns - 1) * net.stride_columns[reader] + net.window_columns[reader] - net.padding_columns[reader]
        rows, columns = min(height, net.read_rows[reader]), min(width, net.read_columns[reader])
        return (net.read_channels[reader] if kind == CONVOLUTION else channels), rows, columns
    if kind == UPSAMPLE:
        return channels, -(-rows // net.stride_rows[reader]), -(-columns // net.stride_columns[reader])
    if kind == TRANSPOSE:
        a, b = net.axis_of_channels[reader], net.axis_of_rows[reader]
        back_channels = channels if a == 0 else (rows if b == 0 else columns)
        back_rows = channels if a == 1 else (rows if b == 1 else columns)
        back_columns = channels if a == 2 else (rows if b == 2 else columns)
        return back_channels, back_rows, back_columns
    return channels, rows, columns


@kernel
def shape_tiles(net: Network, shapes: Shapes, size: int, tiles: int) -> int:
    """Back-calculation: the tile shape of each operator of ``shapes.group``, from the last to the first."""
    samples = 0
    height_cut = width_cut = False
    for place in range(size - 1, -1, -1):
        op = shapes.group[place]
        channels = rows = columns = 0
        inside = False
        for r in range(net.reader_begin[op], net.reader_begin[op + 1]):
            reader = net.reader[r]
            if not shapes.mark[reader]:
                continue
            inside = True
            if net.reads_weights[r]:
                channels = max(channels, net.channels[op])
                rows = max(rows, net.rows[op])
                columns = max(columns, net.columns[op])
            if net.reads_data[r]:
                a, b, c = data_read(net, reader, shapes.channels[reader], shapes.rows[reader], shapes.columns[reader])
                channels, rows, columns = max(channels, a), max(rows, b), max(columns, c)
        if not inside:
            batch_parts = greatest_common_divisor(net.batch, tiles)
            samples = net.batch // batch_parts
            rest = tiles // batch_parts
            column_parts = column_parts_of(rest, net.rows[op], net.columns[op])
            row_parts = rest // column_parts
            if row_parts > net.rows[op] or column_parts > net.columns[op]:
                return ILLEGAL
            height_cut = height_cut or row_parts > 1
            width_cut = width_cut or column_parts > 1
            channels = net.channels[op]
            rows, columns = -(-net.rows[op] // row_parts), -(-net.columns[op] // column_parts)
        shapes.channels[op], shapes.rows[op], shapes.columns[op] = channels, rows, columns
    for place in range(size):
        op = shapes.group[place]
        shapes.samples[op] = samples
        if (
            net.kind[op] == TRANSPOSE
            and (height_cut or width_cut)
            and transpose_locked(net, shapes, op, height_cut, width_cut)
        ):
            return ILLEGAL
    return LEGAL


@kernel
def transpose_locked(net: Network, shapes: Shapes, op: int, height_cut: bool, width_cut: bool) -> bool:
    """Whether a transpose behind its producer exchanges with the channels what the group is cut along."""
    inside = False
    for s in range(net.source_begin[op], net.source_begin[op + 1]):
        inside = inside or (net.source[s] >= 0 and shapes.mark[net.source[s]] != 0)
    rows_locked = net.axis_of_channels[op] == 1 or net.axis_of_rows[op] == 0
    columns_locked = net.axis_of_channels[op] == 2 or net.axis_of_columns[op] == 0
    return inside and ((rows_locked and height_cut) or (columns_locked and width_cut))


@kernel
def price_tiles(net: Network, shapes: Shapes, size: int, costs: TileCostTable) -> int:
    """Cycles and energy of a tile of each operator of the group; notes those that nobody has priced yet."""
    status = LEGAL
    for place in range(size):
        op = shapes.group[place]
        key = (op, shapes.samples[op], shapes.channels[op], shapes.rows[op], shapes.columns[op])
        slot = cost_slot(costs, key)
        if costs.key[slot, 0] >= 0:
            shapes.cycles[op], shapes.energy_pj[op] = costs.cycles[slot], costs.energy_pj[slot]
            continue
        status = MISSING_COST
        row = costs.missing_count[0]
        if row < costs.missing.shape[0]:
            for part in range(5):
                costs.missing[row, part] = key[part]
            costs.missing_count[0] += 1
    return status


@kernel
def packed_bytes(elements: int, bits: int) -> int:
    """Whole bytes of so many elements."""
    return -(-elements * bits // 8)


@kernel
def write_plan(net: Network, shapes: Shapes, size: int, tiles: int, store: PlanStore) -> int:
    """Appends the plan of the group whose tiles were shaped and priced; FULL where there is no room."""
    plan, member, read = store.counters[0], store.counters[1], store.counters[2]
    room = net.source.shape[0]
    if member + size > store.operator.shape[0] or read + room > store.read_bytes.shape[0]:
        return FULL
    store.member_begin[plan], store.read_begin[plan] = member, read
    store.members[plan], store.step[plan] = size, 0
    energy = 0.0
    first = read
    for op in range(net.kind.shape[0]):
        if not shapes.mark[op]:
            continue
        samples, channels = shapes.samples[op], shapes.channels[op]
        rows, columns = shapes.rows[op], shapes.columns[op]
        store.operator[member] = op
        store.cycles[member] = shapes.cycles[op]
        store.output_bytes[member] = packed_bytes(samples * channels * rows * columns, net.bits[op])
        store.stored_bytes[member] = store.output_bytes[member]
        store.member_read[member] = read - first
        energy += shapes.energy_pj[op]
        _, read_rows, read_columns = data_read(net, op, channels, rows, columns)
        for s in range(net.source_begin[op], net.source_begin[op + 1]):
            data = samples * net.source_channels[s] * read_rows * read_columns
            store.read_bytes[read] = packed_bytes(max(data, samples * net.source_weights[s]), net.bits[op])
            read += 1
        member += 1
    store.reads[plan] = read - first
    store.energy_pj[plan] = energy * tiles
    store.counters[1], store.counters[2] = member, read
    return LEGAL


@kernel
def find_plan(
    net: Network, shapes: Shapes, size: int, tiles: int, store: PlanStore, costs: TileCostTable
) -> tuple[int, int]:
    """The plan of the first ``size`` operators of ``shapes.group``, made if it can be: (status, plan)."""
    first, second = group_key(shapes.group, size, tiles)
    slot = plan_slot(store, first, second)
    if store.plan[slot] >= 0:
        plan = int(store.plan[slot])
        return (LEGAL if store.legal[plan] else ILLEGAL), plan
    plan = int(store.counters[0])
    if not has_room(store, size):
        return FULL, -1
    if not net.soma_rule:
        store.counters[3], store.counters[4] = size, tiles
        for place in range(size):
            store.wanted[place] = shapes.group[place]
        return MISSING_PLAN, -1
    for place in range(size):
        shapes.mark[shapes.group[place]] = 1
    status = shape_tiles(net, shapes, size, tiles)
    if status == LEGAL:
        status = price_tiles(net, shapes, size, costs)
    if status == LEGAL:
        status = write_plan(net, shapes, size, tiles, store)
    for place in range(size):
        shapes.mark[shapes.group[place]] = 0
    if status == LEGAL or status == ILLEGAL:
        store.key[slot, 0], store.key[slot, 1] = first, second
        store.plan[slot] = plan
        store.legal[plan] = status == LEGAL
        store.counters[0] += 1
    return status, plan
