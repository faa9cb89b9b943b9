"""Points between the run and its operators, and below them: groups that stay on chip together, and tiles.

A program does not say which operators its schedule fused; its claims do: operators belong together whose tiles
alternate, or of which one keeps its result in the buffer for the other and never stores it. A group's point is the sum
of its operators' (operations, bytes, energy, cycles that belong to them).

A tile's point has the multiply-accumulates that it executes, the bytes of its own transfers (weights serve all tiles of
an operator, and belong to none), and the cycles that it, or its transfers, took.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from accelsim.analysis.energy import flowing_pj_per_cycle
from accelsim.analysis.roofline import Point
from accelsim.analysis.roofs import BUFFER, DRAM, Limits
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.arithmetic import Arithmetic
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.program.bounds import activity_cycles, effectual_share, macs_left
from accelsim.program.explain import activity_name
from accelsim.program.tables import ActivityKind, Program
from accelsim.timeline.table import Timeline


def fused_groups(program: Program) -> list[list[str]]:
    """Names of operators that belong together, groups of two and more, in computing order."""
    activities, claims, releases = program.activities, program.claims, program.releases
    is_tile = activities.kind == ActivityKind.TILE
    tiles = np.flatnonzero(is_tile & (activities.operator >= 0) & (activities.position >= 0))
    first = np.full(len(program.operator_names), np.iinfo(np.int64).max)
    last = np.full(len(program.operator_names), -1)
    np.minimum.at(first, activities.operator[tiles], activities.position[tiles])
    np.maximum.at(last, activities.operator[tiles], activities.position[tiles])
    spans = [(int(first[row]), int(last[row])) for row in np.flatnonzero(last >= 0).tolist()]
    stored = set(activities.tensor[activities.kind == ActivityKind.STORE].tolist())
    results = set(program.operator_names)
    until = np.full(len(claims.bytes), -1)
    of_tile = is_tile[releases.activity]
    np.maximum.at(until, releases.claim[of_tile], activities.position[releases.activity[of_tile]])
    for claim, (tensor, taker) in enumerate(zip(claims.tensor.tolist(), claims.taken_by.tolist(), strict=True)):
        if tensor >= 0 and tensor not in stored and program.tensor_names[tensor] in results and taker >= 0:
            spans.append((int(activities.position[taker]), int(until[claim])))
    ends: list[list[int]] = []
    for start, end in sorted(span for span in spans if 0 <= span[0] <= span[1]):
        if ends and start <= ends[-1][1]:
            ends[-1][1] = max(ends[-1][1], end)
        else:
            ends.append([start, end])
    groups = []
    for start, end in ends:
        inside = np.flatnonzero((first >= start) & (first <= end))
        names = [program.operator_names[row] for row in inside[np.argsort(first[inside], kind="stable")].tolist()]
        groups.append(names)
    return [group for group in groups if len(group) > 1]


def group_points(timeline: Timeline, points: Sequence[Point]) -> Iterator[Point]:
    """The fused groups at every level.

    Args:
        timeline: the run.
        points: of the run and its operators.
    """
    for group in fused_groups(timeline.program):
        name = f"{group[0]} … {group[-1]} ({len(group)} operators)"
        for level in dict.fromkeys(point.level for point in points):
            mine = [point for point in points if point.level == level and point.name in group]
            if mine:
                yield _sum(name, mine)


def _sum(name: str, points: Sequence[Point]) -> Point:
    attributed = sum(point.cycles_attributed for point in points)
    transfers, peak = (
        math.fsum(getattr(point, field) for point in points) for field in ("transfer_cycles", "peak_cycles")
    )
    return replace(
        points[0],
        name=name,
        macs=sum(point.macs for point in points),
        vector_ops=sum(point.vector_ops for point in points),
        bytes=sum(point.bytes for point in points),
        cycles=max(attributed, math.ceil(transfers - 1e-6), math.ceil(peak - 1e-6)),
        cycles_attributed=attributed,
        energy_pj=math.fsum(point.energy_pj for point in points),
        level_pj=math.fsum(point.level_pj for point in points),
        peak_cycles=peak,
        transfer_cycles=transfers,
        peak_pj=math.fsum(point.peak_pj for point in points),
    )


def tile_points(accelerator: Accelerator, timeline: Timeline, *, effectual: bool = False) -> Iterator[Point]:
    """Every tile, at every level, in computing order; ``effectual`` as :func:`roofline_points` has it."""
    limits, program, flowing = Limits.of(accelerator), timeline.program, flowing_pj_per_cycle(timeline)
    activities = program.activities
    key = activities.operator * (int(activities.tile.max(initial=0)) + 2) + activities.tile
    is_tile = activities.kind == ActivityKind.TILE
    rows = np.flatnonzero(is_tile & (activities.operator >= 0))
    rows = rows[np.argsort(activities.position[rows], kind="stable")]
    own = np.flatnonzero(~is_tile & (activities.tile >= 0) & (activities.operator >= 0))
    order = rows[np.argsort(key[rows], kind="stable")]
    place = np.searchsorted(key[order], key[own])
    found = (place < len(order)) & (key[order[np.minimum(place, max(len(order) - 1, 0))]] == key[own])
    of_tile = np.full(program.size, -1)
    of_tile[own[found]] = order[place[found]]
    moved, link, transfer_pj = np.zeros((3, program.size))
    cycles, energy_pj = activity_cycles(program), program.energy_pj.sum(axis=1)
    mine = np.flatnonzero(of_tile >= 0)
    for total, values in ((moved, activities.bytes), (link, cycles), (transfer_pj, energy_pj)):
        np.add.at(total, of_tile[mine], values[mine])
    read = accelerator.dataflow.port_bytes(TileColumns(*np.ascontiguousarray(program.shapes.T)))
    left = macs_left(accelerator, program)
    share = effectual_share(program) if effectual else np.ones(len(program.operator_names) + 1)
    mac = program.part_names.index("mac") if "mac" in program.part_names else None
    for row in rows.tolist():
        macs, vector_ops, own_cycles = int(activities.macs[row]), int(activities.vector_ops[row]), int(cycles[row])
        spent = max(own_cycles, int(link[row]))
        mac_pj = macs * limits.mac_pj
        if accelerator.arithmetic != Arithmetic() and mac is not None:
            mac_pj = min(mac_pj, float(program.energy_pj[row, mac]))
        levels = [(DRAM, int(moved[row]), float(transfer_pj[row]), limits.dram_bytes_per_cycle)]
        if read is not None and activities.shape[row] >= 0 and limits.port_bytes_per_cycle is not None:
            size = max(int(read[activities.shape[row]]), 0)
            levels.append((BUFFER, size, size * limits.port_pj_per_byte, limits.port_bytes_per_cycle))
        for level, size, level_pj, rate in levels:
            yield Point(
                name=activity_name(program, row),
                level=level,
                macs=int(macs * share[activities.operator[row]]),
                vector_ops=vector_ops,
                bytes=size,
                cycles=spent,
                cycles_attributed=own_cycles,
                energy_pj=float(energy_pj[row] + transfer_pj[row] + flowing * spent),
                level_pj=level_pj,
                peak_cycles=int(left[row]) / limits.macs_per_cycle + float(vector_ops / limits.vector_ops_per_cycle),
                transfer_cycles=float(size / rate),
                peak_pj=mac_pj + vector_ops * limits.vector_pj,
            )
