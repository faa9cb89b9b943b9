"""Roofs measured as one measures those of a real machine: micro-kernels are lowered, run on the simulator, and timed.

Kernels (workloads of :mod:`accelsim.workload.models.micro`):

* K1 computes: one matrix product, or one element-wise operator, that is a single tile, timed from its start to its end.
* K2 moves bytes: chunks stream from DRAM, to it, or both, and nothing is computed; for the global buffer's read port, a
  matrix product with few rows, again as a single tile.
* K3 uses each byte of weights so many times: a chain of matrix products with 1, 2, 4 … rows, double-buffered. It gives
  the roof itself, knee included, and how well the machine overlaps.

Rates are marginal: the work that a run of twice the size adds, over the cycles that it adds. What a run costs at its
begin and end, such as fill, drain and latency, drops out, while size over time would still be a few percent low at
megabytes. The best kernel of each kind counts, as in the Empirical Roofline Toolkit, but not one whose rate is not yet
steady (three sizes, not on a line). Of kernels that are equally fast, the one with the least overhead counts: where
sizes do not fit the array, what is rounded up would else tilt the line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from accelsim.analysis.roofline import ARRAY, BUFFER, DRAM, OPERATIONS_PER_MAC, VECTOR_UNIT, Roof
from accelsim.engine import simulate
from accelsim.errors import BufferOverflow, MappingError
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.program.bounds import busy_cycles
from accelsim.program.lower import lower
from accelsim.program.tables import ActivityKind
from accelsim.schedule.notation import Schedule
from accelsim.search import Layerwise
from accelsim.timeline.table import Timeline
from accelsim.workload.graph import Workload
from accelsim.workload.models.micro import matmul_chain, stream, vector

STEADY = 0.001
"""A rate is steady if doubling the size once more changes it by no more than this, relatively."""
LARGEST_CHUNK_BYTES = 1 << 20
CHUNKS = 8
SIDES = (16, 32, 64, 120, 128, 168, 240, 256, 336, 480, 512, 672, 1024, 1680, 2048)
"""Sides of K1's matrix product: powers of two and numbers with many divisors, so that any array is filled exactly."""
PORT_ROWS = (1, 4, 16, 64)
CHAIN = 4
"""Products in K3's shorter chain; the longer one has twice as many."""
MOST_ROWS = 1 << 12


class Counts(NamedTuple):
    """What a run of a kernel did, read from its counters."""

    cycles: int
    operations: int
    bytes: int
    energy_pj: float
    """Of the part that the kernel is about."""
    compute_cycles: int = 0
    """Cycles in which the core was busy."""
    transfer_cycles: int = 0
    """Cycles in which the link was busy."""


class Rate(NamedTuple):
    """What a larger run adds to a smaller one, for each cycle and for each picojoule."""

    operations_per_cycle: float
    bytes_per_cycle: float
    operations_per_pj: float
    pj_per_byte: float
    overhead: float
    """Share of the larger run that this rate does not explain: fill and drain, or an array that is partly idle."""


class KneePoint(NamedTuple):
    """A run of K3."""

    intensity: float
    """Operations for each byte of DRAM."""
    ops_per_cycle: float
    compute_share: float
    """Share of its cycles in which the core was busy."""
    transfer_share: float
    """Share of its cycles in which the link was busy."""


@dataclass(frozen=True)
class Measurement:
    """The measured roofs of a machine, and the knee between them."""

    roofs: tuple[Roof, ...]
    knee: tuple[KneePoint, ...]
    overlap_exponent: float
    """p of T = (T_compute^p + T_memory^p)^(1/p), fitted to K3: 1 overlaps nothing, infinite is a hard corner."""

    def to_dict(self) -> dict[str, Any]:
        """Knee and exponent, as ``accelsim roofline --json --measured`` adds them; an infinite exponent is None."""
        exponent = self.overlap_exponent if self.overlap_exponent < math.inf else None
        return {"kernel": "K3", "overlap_exponent": exponent, "points": [point._asdict() for point in self.knee]}


def measure(accelerator: Accelerator) -> Measurement:
    """Runs the micro-kernels on a machine. A roof that no kernel reaches steadily is left out."""
    knee = tuple(_knee(accelerator))
    roofs = (
        *_array_roofs(accelerator),
        *_vector_roofs(accelerator),
        *_port_roofs(accelerator),
        *_dram_roofs(accelerator),
    )
    return Measurement(roofs, knee, _overlap_exponent(knee))


def _array_roofs(accelerator: Accelerator) -> Iterator[Roof]:
    """K1 on the array, each of the three dimensions doubled in turn: dataflows fill and drain along different ones."""
    mac = accelerator.part_names.index("mac")
    rates: list[Rate] = []
    for side in SIDES:  # whether or not the buffer holds them: a program of a single tile gets the room that it needs
        for doubled in ("rows", "depth", "columns"):

            def run(size: int, side: int = side, doubled: str = doubled) -> Counts:
                sizes = {"rows": side, "depth": side, "columns": side, doubled: size * side}
                return _tile(matmul_chain(**sizes), accelerator, mac)

            rates += _steady(run)
    if best := _best(rates):
        yield Roof(ARRAY, "measured", "op/cycle", best.operations_per_cycle, "MACs", "K1")
        if best.operations_per_pj:
            yield Roof(ARRAY, "measured", "op/pJ", best.operations_per_pj, "MACs", "K1")


def _vector_roofs(accelerator: Accelerator) -> Iterator[Roof]:
    """K1 on the vector unit."""
    part = accelerator.part_names.index("vector")
    elements = max(accelerator.buffers["global"].capacity_bytes // 16, 1)
    rates = list(_steady(lambda size: _tile(vector(elements=size * elements), accelerator, part)))
    if best := _best(rates):
        yield Roof(VECTOR_UNIT, "measured", "op/cycle", best.operations_per_cycle, "vector operations", "K1")
        if best.operations_per_pj:
            yield Roof(VECTOR_UNIT, "measured", "op/pJ", best.operations_per_pj, "vector operations", "K1")


def _port_roofs(accelerator: Accelerator) -> Iterator[Roof]:
    """K2 on the read port of the global buffer, where it has a limit: few rows, so that weights are hardly reused."""
    if accelerator.buffers["global"].read_bytes_per_cycle is None:
        return
    part = accelerator.part_names.index(BUFFER)
    side = _power_of_two(math.isqrt(accelerator.buffers["global"].capacity_bytes // 6))
    rates: list[Rate] = []
    for rows in PORT_ROWS:
        # Deeper sums leave the results as they are: all that is added are reads.
        rates += _steady(
            lambda size, rows=rows: _tile(  # type: ignore[misc]
                matmul_chain(rows=rows, depth=size * side, columns=side), accelerator, part
            )
        )
    best = max(rates, key=lambda rate: rate.bytes_per_cycle, default=None)
    if best is not None and best.bytes_per_cycle:
        yield Roof(BUFFER, "measured", "B/cycle", best.bytes_per_cycle, "reads", "K2")
        yield Roof(BUFFER, "measured", "pJ/B", best.pj_per_byte, "reads", "K2")


def _dram_roofs(accelerator: Accelerator) -> Iterator[Roof]:
    """K2 on DRAM, in each direction and both."""
    part = accelerator.part_names.index("dram")
    room = accelerator.buffers["global"].capacity_bytes
    for of, reads, writes in (("reads", 1, 0), ("writes", 0, 1), ("reads and writes", 1, 1)):
        chunk_bytes = max(min(LARGEST_CHUNK_BYTES, room // 8), 1)
        workload = stream(reads=reads, writes=writes, chunk_bytes=chunk_bytes)

        def run(size: int, workload: Workload = workload) -> Counts:
            chunks = CHUNKS * size
            schedule = Schedule(workload.name, ("stream",), (), (), (chunks,))
            timeline = simulate(lower(workload.with_batch(chunks), accelerator, schedule))
            return _moved(timeline, part)

        for rate in _steady(run):
            yield Roof(DRAM, "measured", "B/cycle", rate.bytes_per_cycle, of, "K2")
            if of != "reads and writes":
                yield Roof(DRAM, "measured", "pJ/B", rate.pj_per_byte, of, "K2")


def _knee(accelerator: Accelerator) -> Iterator[KneePoint]:
    """K3, in order of intensity."""
    room = accelerator.buffers["global"].capacity_bytes
    side = _power_of_two(math.isqrt(room // 3))
    part = accelerator.part_names.index("dram")
    rows = 1
    while rows <= MOST_ROWS:
        short, long = (
            _chain(matmul_chain(rows=rows, depth=side, columns=side, operators=length), accelerator, part)
            for length in (CHAIN, 2 * CHAIN)
        )
        if short is not None and long is not None:
            operations, cycles = long.operations - short.operations, long.cycles - short.cycles
            if cycles <= 0:
                continue
            yield KneePoint(
                intensity=operations / (long.bytes - short.bytes),
                ops_per_cycle=operations / cycles,
                compute_share=(long.compute_cycles - short.compute_cycles) / cycles,
                transfer_share=(long.transfer_cycles - short.transfer_cycles) / cycles,
            )
        rows *= 2


def _power_of_two(most: int) -> int:
    """The largest power of two up to ``most``; at least 1."""
    return 1 << max(most.bit_length() - 1, 0)


def _chain(workload: Workload, accelerator: Accelerator, part: int) -> Counts | None:
    """Runs a chain; None where the machine cannot."""
    try:
        schedule = Layerwise().search(workload, accelerator).schedule
        return _moved(simulate(lower(workload, accelerator, schedule)), part)
    except (BufferOverflow, MappingError):
        return None


def _moved(timeline: Timeline, part: int) -> Counts:
    """The counters of a whole run."""
    activities, energy_pj = timeline.program.activities, timeline.program.energy_pj
    busy = busy_cycles(timeline.program)
    return Counts(
        cycles=timeline.latency_cycles,
        operations=OPERATIONS_PER_MAC * int(activities.macs.sum()) + int(activities.vector_ops.sum()),
        bytes=int(activities.bytes.sum()),
        energy_pj=math.fsum(energy_pj[:, part].tolist()),
        compute_cycles=busy["core"],
        transfer_cycles=max(cycles for name, cycles in busy.items() if name != "core"),
    )


def _tile(workload: Workload, accelerator: Accelerator, part: int) -> Counts:
    """Runs an operator as one tile, and counts from the tile's start to its end.

    Raises :class:`MappingError` where the array cannot hold the tile.
    """
    name = workload.operators[0].name
    program = lower(workload, accelerator, Schedule(workload.name, (name,), (), (), (1,)))
    timeline = simulate(program)
    row = int(np.flatnonzero(program.activities.kind == ActivityKind.TILE)[0])
    event = int(np.flatnonzero(timeline.events.activity == row)[0])
    read = accelerator.dataflow.port_bytes(TileColumns(*np.ascontiguousarray(program.shapes.T)))
    return Counts(
        cycles=int(timeline.events.end_cycles[event] - timeline.events.start_cycles[event]),
        operations=OPERATIONS_PER_MAC * int(program.activities.macs[row]) + int(program.activities.vector_ops[row]),
        bytes=int(read[0]) if read is not None and len(read) else 0,
        energy_pj=float(program.energy_pj[row, part]),
    )


def _steady(run: Callable[[int], Counts]) -> Iterator[Rate]:
    """The marginal rate from size 2 to size 4, if that from 1 to 2 is the same."""
    try:
        once, twice, four_times = (run(size) for size in (1, 2, 4))
    except (BufferOverflow, MappingError):
        return
    first, second = twice.cycles - once.cycles, four_times.cycles - twice.cycles
    if first > 0 and abs(second / (2 * first) - 1) <= STEADY:
        operations, moved = four_times.operations - twice.operations, four_times.bytes - twice.bytes
        energy_pj = four_times.energy_pj - twice.energy_pj
        yield Rate(
            operations_per_cycle=operations / second,
            bytes_per_cycle=moved / second,
            operations_per_pj=operations / energy_pj if energy_pj else 0.0,
            pj_per_byte=energy_pj / moved if moved else 0.0,
            overhead=abs(1 - four_times.operations / operations * second / four_times.cycles) if operations else 0.0,
        )


def _best(rates: Iterable[Rate]) -> Rate | None:
    """The fastest rate; of all that are within a percent of it, the one with the least overhead."""
    found = list(rates)
    fastest = max((rate.operations_per_cycle for rate in found), default=0.0)
    near = [rate for rate in found if rate.operations_per_cycle >= 0.99 * fastest]
    return min(near, key=lambda rate: rate.overhead, default=None)


EXPONENTS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 15.0, 20.0, math.inf)
"""Roofs are sharp, the exponent is soft: these are as many as one can tell apart."""


def _overlap_exponent(knee: Iterable[KneePoint]) -> float:
    """The exponent that fits best in the logarithm; infinite where K3 could not run."""
    points = list(knee)
    if not points:
        return math.inf

    def misfit(exponent: float) -> float:
        total = 0.0
        for point in points:
            slow, fast = sorted((point.compute_share, point.transfer_share), reverse=True)
            share = slow * (1 + (fast / slow) ** exponent) ** (1 / exponent) if exponent < math.inf else slow
            total += math.log(share) ** 2
        return total

    return min(EXPONENTS, key=misfit)
