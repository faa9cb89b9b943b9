"""The closure of energy: constants regressed from total energies of kernels, against those that the template states.

Each kernel is a run whose counters are known: operations, bytes read from and written to each buffer and DRAM, cycles.
Its total energy is regressed on them,

    E = N_mac e_mac + N_vector e_vector + sum of bytes x e_buffer + Q_read e_read + Q_write e_write + T P_0,

by least squares in relative terms, every column scaled to length 1. A simulator's ledger is exact, so what comes out
must be what the template states; what does not is a cost that the formula above does not see.

A memory that counts its commands has a further column, the rows that it activated; its refreshes and its standby, which
it counts too, are taken off beforehand.

Columns that rise and fall together cannot be told apart. Columns in a constant ratio are regressed as one; the
condition number of the rest is printed, and where it is above :data:`MOST_CONDITION` the columns that it comes from are
refused, with the kernel that is missing to tell them apart (condition indices and variance proportions: Belsley, Kuh
and Welsch, *Regression Diagnostics*, 1980, which gives 30 as the border).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from accelsim.analysis.energy import energy_pj
from accelsim.analysis.kernel_runs import power_of_two
from accelsim.analysis.micro_kernels import with_bubble
from accelsim.engine import simulate
from accelsim.errors import BufferOverflow, MappingError, ProgramError
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.program.lower import lower
from accelsim.program.tables import ActivityKind, FloatTable, Program
from accelsim.schedule.notation import Schedule
from accelsim.workload.graph import Workload
from accelsim.workload.models.micro import matmul_chain, stream, vector

MOST_CONDITION = 30.0
BANKS = "banks"
ALIKE = 1e-9
"""Columns whose angle is smaller than this are in a constant ratio."""
CLOSED = 0.01
BUBBLES = (1_000, 100_000)


class Constant(NamedTuple):
    """One regressed constant."""

    name: str
    """``mac``, ``vector``, ``dram.read``, ``static``, ``buffer.global.write``, or several joined by `` + ``."""
    unit: str
    regressed: float
    stated: float | None
    """By the template."""

    @property
    def error(self) -> float:
        """Regressed over stated, less one."""
        if not self.stated:
            return 0.0 if not self.stated and abs(self.regressed) < 1e-9 else math.inf
        return self.regressed / self.stated - 1


class Refusal(NamedTuple):
    """Columns that the kernels cannot tell apart."""

    names: tuple[str, ...]
    reason: str
    """Which kernel is missing."""


@dataclass(frozen=True)
class Closure:
    """What the regression found."""

    constants: tuple[Constant, ...]
    refusals: tuple[Refusal, ...]
    condition: float
    residual: float
    """The largest relative difference of a kernel's energy from the formula with the regressed constants."""
    kernels: int

    @property
    def closes(self) -> bool:
        """All regressed constants are within one percent of those stated."""
        return all(abs(constant.error) <= CLOSED for constant in self.constants)

    def to_dict(self) -> dict[str, Any]:
        """As in ``roofs.json``."""
        return {
            "constants": [{**one._asdict(), "error": one.error} for one in self.constants],
            "refusals": [one._asdict() for one in self.refusals],
            "condition": self.condition,
            "residual": self.residual,
            "kernels": self.kernels,
            "closes": self.closes,
        }

    def __str__(self) -> str:
        lines = [
            f"Energy closure: {self.kernels} kernels, condition number {self.condition:.1f}, "
            f"largest residual {100 * self.residual:.2g} %"
        ]
        for one in self.constants:
            stated = "" if one.stated is None else f"  stated {one.stated:.6g}, off by {100 * one.error:+.3g} %"
            lines.append(f"  {one.name:<36} {one.regressed:>12.6g} {one.unit:<9}{stated}")
        lines += [f"  refused: {', '.join(one.names)}: {one.reason}" for one in self.refusals]
        return "\n".join(lines)


def closure(accelerator: Accelerator, without: Sequence[str] = ()) -> Closure:
    """Runs the kernels and regresses.

    Args:
        accelerator: the machine.
        without: kernels to leave out (``K1``, ``K2``, ``K8``, ``K10`` …), to see what their absence makes inseparable.
    """
    runs = [row for name, row in _kernels(accelerator) if name not in without]
    stated = _stated(accelerator)
    names = [name for name in stated if any(run.get(name) for _, run in runs)]
    table = np.array([[run.get(name, 0.0) for name in names] for _, run in runs])
    energy = np.array([total for total, _ in runs])
    paid = energy > 0
    table, energy = table[paid], energy[paid]
    columns, members, ratios = _merged(table / energy[:, None], names)
    condition, refused = _condition(columns), _refusals(columns, members)
    inseparable = {name for refusal in refused for name in refusal.names}
    size = np.linalg.norm(columns, axis=0)
    found = np.linalg.lstsq(columns / size, np.ones(len(columns)), rcond=None)[0] / size
    residual = float(np.abs(columns @ found - 1).max()) if len(columns) else 0.0
    constants = tuple(
        Constant(
            name=" + ".join(group),
            unit=_unit(group[0]),
            regressed=float(value),
            stated=float(sum(stated[name] * ratio for name, ratio in zip(group, shares, strict=True))),
        )
        for group, shares, value in zip(members, ratios, found.tolist(), strict=True)
        if " + ".join(group) not in inseparable
    )
    if residual > CLOSED:
        reason = (
            f"the formula misses {100 * residual:.2g} % of a kernel's energy, a cost that none of its counters sees; "
            "a kernel is missing that varies it alone"
        )
        unseen = tuple(constant.name for constant in constants)
        constants, refused = (), (*refused, *((Refusal(unseen, reason),) if unseen else ()))
    return Closure(constants, refused, condition, residual, len(columns))


def _merged(table: FloatTable, names: list[str]) -> tuple[FloatTable, list[tuple[str, ...]], list[tuple[float, ...]]]:
    """Columns in a constant ratio become one: its first member's, and for each member its ratio to that."""
    columns: list[FloatTable] = []
    members: list[tuple[str, ...]] = []
    ratios: list[tuple[float, ...]] = []
    for place, name in enumerate(names):
        mine = table[:, place]
        for other, column in enumerate(columns):
            cosine = float(mine @ column) / float(np.linalg.norm(mine) * np.linalg.norm(column))
            if 1 - cosine < ALIKE:
                members[other] += (name,)
                ratios[other] += (float(np.linalg.norm(mine) / np.linalg.norm(column)),)
                break
        else:
            columns.append(mine)
            members.append((name,))
            ratios.append((1.0,))
    return np.stack(columns, axis=1), members, ratios


def _condition(columns: FloatTable) -> float:
    if not columns.size:
        return 1.0
    return float(np.linalg.cond(columns / np.linalg.norm(columns, axis=0)))


def _refusals(columns: FloatTable, members: list[tuple[str, ...]]) -> tuple[Refusal, ...]:
    """For each condition index above the border, the columns most of whose variance it is."""
    if not columns.size:
        return ()
    _, size, vectors = np.linalg.svd(columns / np.linalg.norm(columns, axis=0), full_matrices=False)
    shares = (vectors / np.maximum(size, 1e-300)[:, None]) ** 2
    shares /= shares.sum(axis=0)
    found = []
    for index, share in zip(size[0] / np.maximum(size, 1e-300), shares, strict=True):
        names = tuple(" + ".join(members[place]) for place in np.flatnonzero(share > 0.5).tolist())
        if index > MOST_CONDITION and names:
            found.append(Refusal(names, _missing(names, float(index))))
    return tuple(found)


_NEEDED = {
    "static": "K10 (bubbles) varies cycles at equal work",
    "dram": "K2 (streams in one direction) varies the bytes of DRAM",
    "vector": "K1 on the vector unit varies vector operations",
    "mac": "K1 with products of many sizes varies operations over bytes",
    "buffer": "K7 and K8 (square products, few rows) vary the bytes of a buffer over operations",
}


def _missing(names: Sequence[str], condition: float) -> str:
    needed = dict.fromkeys(_NEEDED[name.split(".")[0]] for name in names)
    return (
        f"they rise and fall together (condition number {condition:.0f}, at most {MOST_CONDITION:.0f}); "
        + "; ".join(needed)
    )


def _unit(name: str) -> str:
    return "pJ" if name in ("mac", "vector", "dram.activate") else "pJ/cycle" if name == "static" else "pJ/B"


def _stated(accelerator: Accelerator) -> dict[str, float]:
    """The constants of the template, by the names of the columns."""
    found = {"mac": _mac_pj(accelerator), "vector": accelerator.vector_unit.pj_per_operation}
    for name, buffer in accelerator.buffers.items():
        found[f"buffer.{name}.read"], found[f"buffer.{name}.write"] = buffer.read_pj_per_byte, buffer.write_pj_per_byte
    if (memory := accelerator.dram.memory) is not None and accelerator.dram.fidelity == BANKS:
        energy = memory.dram.template.energy
        found |= {"dram.read": float(energy.read), "dram.write": float(energy.write)}
        found["dram.activate"] = float(energy.activate)
    else:
        found["dram.read"], found["dram.write"] = accelerator.dram.read_pj_per_byte, accelerator.dram.write_pj_per_byte
    return {**found, "static": accelerator.static_pj_per_cycle}


def _mac_pj(accelerator: Accelerator) -> float:
    from accelsim.analysis.roofs import Limits

    return Limits.of(accelerator).mac_pj


_Run = tuple[float, dict[str, float]]


def _kernels(accelerator: Accelerator) -> Iterator[tuple[str, _Run]]:
    """Every kernel's total energy and counters, as a row of columns."""
    room = accelerator.buffers["global"].capacity_bytes
    side = min(power_of_two(math.isqrt(room // 8)), 1024)
    for name, workload in _workloads(side, room):
        try:
            order = (workload.operators[0].name,)
            chunks = workload.batch if name == "K2" else 1
            program = lower(workload, accelerator, Schedule(workload.name, order, (), (), (chunks,)))
            yield name, _row(accelerator, program)
            if name == "K10":
                for cycles in BUBBLES:
                    yield name, _row(accelerator, with_bubble(program, cycles))
        except (BufferOverflow, MappingError, ProgramError):
            continue


def _workloads(side: int, room: int) -> Iterator[tuple[str, Workload]]:
    chunk = max(min(1 << 16, room // 8), 1)
    for reads, writes in ((1, 0), (0, 1), (1, 1), (2, 1)):
        yield "K2", stream(reads=reads, writes=writes, chunk_bytes=chunk).with_batch(16)
    for operations in (1, 64):
        yield "K1", vector(elements=max(room // 16, 1), operations_per_element=operations)
    for rows, depth, columns in ((8, 8, 1), (1, 8, 8), (8, 1, 8), (1, 1, 1), (8, 8, 8)):
        yield "K1", matmul_chain(rows=rows * side, depth=depth * side, columns=columns * side)
    for few in (1, 4, 16):
        yield "K8", matmul_chain(rows=few, depth=side, columns=side)
        yield "K7", matmul_chain(rows=side, depth=few, columns=side)
        yield "K7", matmul_chain(rows=side, depth=side, columns=few)
    for rows, depth, columns in ((side, 1, 1), (1, side, 1), (1, 1, side), (16, 1, side), (side, 1, 16)):
        yield "K7", matmul_chain(rows=rows, depth=depth, columns=columns)
    yield "K11", matmul_chain(rows=side + 1, depth=side - 1, columns=max(side // 2, 1) + 1)
    yield "K10", matmul_chain(rows=16, depth=64, columns=64)


def _row(accelerator: Accelerator, program: Program) -> _Run:
    """The total energy of a run, and its counters."""
    timeline = simulate(program)
    activities = program.activities
    stores = activities.kind == ActivityKind.STORE
    row = {
        "mac": float(activities.macs.sum()),
        "vector": float(activities.vector_ops.sum()),
        "dram.read": float(activities.bytes[~stores].sum()),
        "dram.write": float(activities.bytes[stores].sum()),
        "static": float(timeline.latency_cycles),
    }
    unshared_pj = 0.0
    if (memory := timeline.memory) is not None and memory.fidelity == BANKS:
        row["dram.read"] = float(memory.bursts_read * memory.burst_bytes)
        row["dram.write"] = float(memory.bursts_written * memory.burst_bytes)
        row["dram.activate"] = float(memory.row_misses + memory.row_conflicts)
        unshared_pj = memory.unshared_pj
    on_array = activities.shape >= 0
    accessed = accelerator.dataflow.accessed_bytes(TileColumns(*np.ascontiguousarray(program.shapes.T)))
    for name, (read, written) in (accessed or {}).items():
        for way, counts in (("read", read), ("write", written)):
            row[f"buffer.{name}.{way}"] = float(counts[activities.shape[on_array]].sum())
    return energy_pj(timeline) - unshared_pj, row
