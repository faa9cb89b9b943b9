"""Rooflines, of performance and of energy: where a run and its operators stand under the roofs of a machine.

Two maps over one axis, the operational intensity of a memory level: operations for each byte that crosses it.

* Performance, in operations a cycle (Williams, Waterman and Patterson, CACM 2009): time overlaps, so the slowest
  resource alone counts, ``min(P, B I)``.
* Energy, in operations a picojoule (Choi, Bedard, Fowler and Vuduc, IPDPS 2013): energies add, so the roof has no
  corner, ``1 / (e_op + e_byte / I)``.

One multiply-accumulate is two operations, one operation of the vector unit is one. Array and vector unit never run at
once, so the peak of work that has both is W / (MACs / MAC rate + vector operations / vector rate).

No point can lie above its roof, by construction: see :class:`Point` for what its time and its bytes are, and
``docs/decisions/roofline_time.md`` for why.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from accelsim.analysis.energy import flowing_pj_per_cycle
from accelsim.analysis.report import known
from accelsim.analysis.roofs import BUFFER, DRAM, OPERATIONS_PER_MAC, Limits
from accelsim.errors import InputError
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.arithmetic import Arithmetic
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.program.bounds import activity_cycles, effectual_share, macs_left
from accelsim.program.tables import ActivityKind, FloatTable, IntColumn, Program
from accelsim.timeline.stalls import NO_OPERATOR, cycles_by_operator
from accelsim.timeline.table import Timeline

TOLERANCE = 1e-9
"""How far rounding of ``float64`` may lift a point above its roof, relatively."""


@dataclass(frozen=True)
class Point:
    """A run, or one of its operators, at one memory level.

    ``macs`` and ``vector_ops`` are work that was needed *and* done: what is computed again counts once. (Of an
    operator's vector operations a program only knows those executed.)

    ``bytes`` are those of its own transfers (``dram``), or those that its tiles read through the port of the buffer
    (``buffer.global``), whenever they moved.

    ``cycles`` of the run are its latency. Those of an operator are the cycles that belong to it (its tiles, and the
    waiting before them), but at least as many as each resource was busy for it: bytes that were moved ahead, in another
    operator's time, cannot have taken less than their time on the link.
    """

    name: str
    """``run``, or the operator's name."""
    level: str
    macs: int
    vector_ops: int
    bytes: int
    cycles: int
    cycles_attributed: int
    """Those that belong to it; they add up to the latency over all operators."""
    energy_pj: float
    """Of its activities, and what flows all the time in the cycles attributed to it."""
    level_pj: float
    """What ``bytes`` cost at this level."""
    peak_cycles: float
    """What its work would take at the peak rates of array and vector unit."""
    transfer_cycles: float
    """What ``bytes`` would take at the full bandwidth of the level; 0 where that never limits."""
    peak_pj: float
    """What its work costs in array and vector unit alone."""

    @property
    def operations(self) -> int:
        """A multiply-accumulate is two, a vector operation is one."""
        return OPERATIONS_PER_MAC * self.macs + self.vector_ops

    @property
    def intensity(self) -> float | None:
        """Operations for each byte; None (infinite) where nothing crosses this level."""
        return self.operations / self.bytes if self.bytes else None

    @property
    def ops_per_cycle(self) -> float:
        """Operations in the mean cycle."""
        return _ratio(self.operations, self.cycles)

    @property
    def ops_per_pj(self) -> float:
        """Operations for each picojoule, which is also TOPS/W."""
        return _ratio(self.operations, self.energy_pj)

    @property
    def roof_ops_per_cycle(self) -> float:
        """min(P, B I), for its own mix of work."""
        return _ratio(self.operations, max(self.peak_cycles, self.transfer_cycles))

    @property
    def roof_ops_per_pj(self) -> float:
        """1 / (e_op + e_byte / I), for its own mix of work, and of reads and writes."""
        return _ratio(self.operations, self.peak_pj + self.level_pj)

    @property
    def utilization(self) -> float:
        """Achieved over peak rate, y / P: the share of its cycles that the peak rate would have needed."""
        return _ratio(self.peak_cycles, self.cycles)

    @property
    def memory_utilization(self) -> float:
        """Achieved over full bandwidth, y / (B I); 0 where the level never limits."""
        return _ratio(self.transfer_cycles, self.cycles)

    def to_dict(self) -> dict[str, Any]:
        """All of it, as ``accelsim roofline --json`` prints it."""
        names = ("name", "level", "operations", "bytes", "intensity", "ops_per_cycle", "roof_ops_per_cycle")
        more = ("ops_per_pj", "roof_ops_per_pj", "macs", "vector_ops", "cycles", "cycles_attributed", "energy_pj")
        return {name: getattr(self, name) for name in (*names, *more, "utilization", "memory_utilization")}


def _ratio(number: float, by: float) -> float:
    return number / by if by else 0.0


def roofline_points(accelerator: Accelerator, timeline: Timeline, *, effectual: bool = False) -> tuple[Point, ...]:
    """The points of a run: first the whole run, then its operators in computing order, each at every level.

    Levels are ``dram`` and, where the dataflow tells the bytes, ``buffer.global``.

    Args:
        accelerator: the machine that ran it.
        timeline: the run. Of a trace that does not name its machine, ``accelerator`` is believed to be it.
        effectual: operations with a known zero do not count; by default operations are dense-equivalent.

    Raises:
        InputError: the run is another machine's; or, of a trace that does not say, a point lies above its roof, or the
            points do not add up to the run.
    """
    found = timeline.program.facts.get("hardware_digest")
    if found is not None and found != accelerator.digest:
        raise InputError(
            f"the timeline ran on '{timeline.program.facts.get('hardware')}' with other numbers (digest "
            f"{str(found)[:12]}) than the machine of the roofs, '{accelerator.name}' (digest "
            f"{accelerator.digest[:12]}); give the template of the run, and the same --set"
        )
    points = tuple(_points(Limits.of(accelerator), accelerator, timeline))
    if effectual:
        points = tuple(_effectual(points, timeline.program))
    check_points(points)
    check_complete(points)
    return points


def _effectual(points: Sequence[Point], program: Program) -> Iterator[Point]:
    """The same points without the products of zeros: the time and energy that the work needs at least stay."""
    share = dict(zip((*program.operator_names, NO_OPERATOR), effectual_share(program).tolist(), strict=True))
    left = {(point.name, point.level): int(point.macs * share.get(point.name, 1.0)) for point in points}
    for point in points:
        mine = [macs for (name, level), macs in left.items() if level == point.level and name != "run"]
        yield replace(point, macs=sum(mine) if point.name == "run" else left[point.name, point.level])


class _Shares(NamedTuple):
    """Per operator, one row each and a last one for what belongs to none."""

    macs: IntColumn
    macs_left: IntColumn
    """Those that the array had to do: fewer where it skips zeros, or does several narrow products at once."""
    mac_pj: list[float]
    """What they took on a machine that gates or skips zeros, or has products of several widths; else infinite."""
    vector_ops: IntColumn
    busy: IntColumn
    """Shape (operators + 1, resources): cycles that each resource served it."""
    energy_pj: list[float]
    dram_bytes: IntColumn
    dram_pj: list[float]
    port_bytes: IntColumn | None


def _points(limits: Limits, accelerator: Accelerator, timeline: Timeline) -> Iterator[Point]:
    program = timeline.program
    shares = _shares(accelerator, program)
    attributed = cycles_by_operator(timeline)
    names, flowing = (*program.operator_names, NO_OPERATOR), flowing_pj_per_cycle(timeline)
    rows = [names.index(name) for name in attributed if name != NO_OPERATOR]
    # What has transfers only, or nothing that took time, comes after those that have cycles of their own.
    active = np.unique(program.activities.operator) % len(names)
    rows += [row for row in active.tolist() if row not in rows]

    def at_levels(
        name: str, chosen: Sequence[int], cycles: int, cycles_attributed: int, needed_vector_ops: float | None = None
    ) -> Iterator[Point]:
        macs, vector_ops = (int(column[chosen].sum()) for column in (shares.macs, shares.vector_ops))
        if needed_vector_ops is not None:
            vector_ops = min(vector_ops, int(needed_vector_ops))
        energy_pj = math.fsum(shares.energy_pj[row] for row in chosen)
        energy_pj += flowing * cycles_attributed
        # Skipped zeros lift the roof of both maps, gated ones that of energy: work is dense-equivalent.
        left = int(shares.macs_left[chosen].sum())
        peak_cycles = left / limits.macs_per_cycle + float(vector_ops / limits.vector_ops_per_cycle)
        mac_pj = min(macs * limits.mac_pj, math.fsum(shares.mac_pj[row] for row in chosen))
        peak_pj = mac_pj + vector_ops * limits.vector_pj
        moved = int(shares.dram_bytes[chosen].sum())
        dram_pj = math.fsum(shares.dram_pj[row] for row in chosen)
        levels: list[tuple[str, int, float, Fraction | None]]
        levels = [(DRAM, moved, dram_pj, limits.dram_bytes_per_cycle)]
        if shares.port_bytes is not None:
            read = int(shares.port_bytes[chosen].sum())
            levels.append((BUFFER, read, read * limits.port_pj_per_byte, limits.port_bytes_per_cycle))
        for level, size, level_pj, rate in levels:
            yield Point(
                name=name,
                level=level,
                macs=macs,
                vector_ops=vector_ops,
                bytes=size,
                cycles=cycles,
                cycles_attributed=cycles_attributed,
                energy_pj=energy_pj,
                level_pj=level_pj,
                peak_cycles=peak_cycles,
                transfer_cycles=float(size / rate) if rate else 0.0,
                peak_pj=peak_pj,
            )

    latency = timeline.latency_cycles
    yield from at_levels("run", range(len(names)), latency, latency, known(program, "vector_ops"))
    for row in rows:
        mine = attributed.get(names[row], 0)
        yield from at_levels(names[row], [row], max(mine, int(shares.busy[row].max(initial=0))), mine)


def _shares(accelerator: Accelerator, program: Program) -> _Shares:
    activities = program.activities
    operators = len(program.operator_names) + 1  # -1 is the last row

    def summed(values: IntColumn) -> IntColumn:
        total = np.zeros(operators, dtype=np.int64)
        np.add.at(total, activities.operator, values)
        return total

    def summed_pj(values: FloatTable) -> list[float]:
        parts: list[list[float]] = [[] for _ in range(operators)]
        for operator, value in zip(activities.operator.tolist(), values.tolist(), strict=True):
            parts[operator].append(value)
        return [math.fsum(part) for part in parts]

    macs = summed(activities.macs)
    if len(program.operator_macs):
        macs = np.minimum(macs, np.append(program.operator_macs, 0))
    left, mac_pj = np.minimum(summed(macs_left(accelerator, program)), macs), np.full(program.size, np.inf)
    if accelerator.arithmetic != Arithmetic() and "mac" in program.part_names:
        mac_pj = program.energy_pj[:, program.part_names.index("mac")]
    busy = np.zeros((operators, max(len(program.resource_names), 1)), dtype=np.int64)
    resource = program.queues.resource[activities.queue]
    np.add.at(busy, (activities.operator, resource), activity_cycles(program))
    moved = activities.kind != ActivityKind.TILE
    dram_pj = np.zeros(program.size)
    if "dram" in program.part_names:
        dram_pj = np.where(moved, program.energy_pj[:, program.part_names.index("dram")], 0.0)
    read = accelerator.dataflow.port_bytes(TileColumns(*np.ascontiguousarray(program.shapes.T)))
    port_bytes = None
    if read is not None and len(read):  # by SoMa's count, a strided tile may read less than nothing
        port_bytes = summed(np.where(activities.shape >= 0, np.maximum(read, 0)[activities.shape], 0))
    return _Shares(
        macs=macs,
        macs_left=left,
        mac_pj=summed_pj(mac_pj),
        vector_ops=summed(activities.vector_ops),
        busy=busy,
        energy_pj=summed_pj(program.energy_pj.sum(axis=1)),
        dram_bytes=summed(activities.bytes),
        dram_pj=summed_pj(dram_pj),
        port_bytes=port_bytes,
    )


def check_points(points: Sequence[Point]) -> None:
    """Refuses points above their roofs.

    Raises:
        InputError: with the list of what may be wrong.
    """
    for point in points:
        for found, roof, unit in (
            (point.ops_per_cycle, point.roof_ops_per_cycle, "op/cycle"),
            (point.ops_per_pj, point.roof_ops_per_pj, "op/pJ"),
        ):
            if found > roof * (1 + TOLERANCE) or (point.operations and unit == "op/pJ" and not point.energy_pj):
                raise InputError(
                    f"'{point.name}' lies above its roof at {point.level}: {found:.6g} of {roof:.6g} {unit}. Possible "
                    "causes: the trace was recorded on another machine than the one given; its tiles count operations "
                    "instead of multiply-accumulates; its bytes and its times are of different runs; its tiles or "
                    "transfers carry no energy, or less than the machine's own"
                )


def check_complete(points: Sequence[Point]) -> None:
    """Refuses operators' points whose work or bytes do not add up to the run's, at any level.

    Raises:
        InputError: with the list of what may be wrong.
    """
    for level in dict.fromkeys(point.level for point in points):
        run, *operators = (point for point in points if point.level == level)
        for what in ("macs", "bytes"):
            found, whole = sum(getattr(point, what) for point in operators), getattr(run, what)
            if found != whole:
                raise InputError(
                    f"the points at {level} hold {found:,} {what}, the run has {whole:,}: a point is missing. Possible "
                    "causes: two operators of the trace have one name; activities belong to no operator of it"
                )
