"""Roofs measured as one measures those of a real machine: micro-kernels are lowered, run on the simulator, and timed.

Kernels (workloads of :mod:`accelsim.workload.models.micro`):

* K1 computes: one matrix product, or one element-wise operator, that is a single tile, timed from its start to its end.
* K2 moves bytes: chunks stream from DRAM, to it, or both, and nothing is computed; for the global buffer's read port, a
  matrix product with few rows, again as a single tile.
* K3 uses each byte of weights so many times: a chain of matrix products with 1, 2, 4 … rows, double-buffered, whose
  results stay on chip. It gives the roof itself, knee included, and how well the machine overlaps.

K4 to K11 are in :mod:`accelsim.analysis.micro_kernels`, the closure of energy in :mod:`accelsim.analysis.closure`.

The best kernel of each kind counts, as in the Empirical Roofline Toolkit, but not one whose rate is not yet steady
(three sizes, not on a line). Of kernels that are equally fast, the one with the least overhead counts: where sizes do
not fit the array, what is rounded up would else tilt the line. Each measured roof says how uncertain it is
(:class:`Uncertainty`), and, where it lies below the datasheet's, why (:func:`causes`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from accelsim.analysis.kernel_runs import (
    Counts,
    Rate,
    best,
    chain,
    moved,
    power_of_two,
    steady,
    tile,
)
from accelsim.analysis.roofs import ARRAY, BUFFER, DRAM, VECTOR_UNIT, Roof, Uncertainty, datasheet_roofs
from accelsim.engine import simulate
from accelsim.errors import InputError
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.template import parse_template
from accelsim.program.lower import lower
from accelsim.schedule.notation import Schedule
from accelsim.workload.graph import Workload
from accelsim.workload.models.micro import matmul_chain, stream, vector

LARGEST_CHUNK_BYTES = 1 << 20
CHUNKS = 8
SIDES = (16, 32, 64, 120, 128, 168, 240, 256, 336, 480, 512, 672, 1024, 1152, 1680, 2048)
"""Sides of K1's matrix product: powers of two and numbers with many divisors, so that any array is filled exactly."""
SHAPES = (*((side, side, side) for side in SIDES), (2048, 1152, 512))
"""Rows, depth and columns of K1's product; the last one is for arrays of 9 x 2^n rows, as in-memory ones have them."""
PORT_ROWS = (1, 4, 16, 64)
CHAIN = 4
"""Products in K3's shorter chain; the longer one has twice as many."""
MOST_ROWS = 1 << 12
BELOW = 0.99
"""A measured roof that is lower than this share of the datasheet's has a cause."""


class KneePoint(NamedTuple):
    """A run of K3."""

    intensity: float
    """Operations for each byte of DRAM."""
    ops_per_cycle: float
    compute_share: float
    """Share of its cycles in which the core was busy."""
    transfer_share: float
    """Share of its cycles in which the link was busy."""


class Fit(NamedTuple):
    """T = ((W/P)^p + (Q/B)^p)^(1/p), fitted jointly to all points of K3 in the logarithm."""

    ops_per_cycle: float
    """P."""
    bytes_per_cycle: float
    """B."""
    exponent: float
    """p: 1 overlaps nothing, infinite is a hard corner. Roofs are sharp, this one is soft: take it as one digit."""
    error: float
    """Root of the mean square of the relative residuals."""


@dataclass(frozen=True)
class Measurement:
    """The measured roofs of a machine, and the knee between them."""

    roofs: tuple[Roof, ...]
    knee: tuple[KneePoint, ...]
    fit: Fit | None

    @property
    def overlap_exponent(self) -> float:
        """p of the fit; infinite where K3 could not run."""
        return self.fit.exponent if self.fit else math.inf

    def to_dict(self) -> dict[str, Any]:
        """Knee and exponent, as ``accelsim roofline --json --measured`` adds them; an infinite exponent is None."""
        exponent = self.overlap_exponent if self.overlap_exponent < math.inf else None
        fit = {**self.fit._asdict(), "exponent": exponent} if self.fit else None
        points = [point._asdict() for point in self.knee]
        return {"kernel": "K3", "overlap_exponent": exponent, "fit": fit, "points": points}


def measure(accelerator: Accelerator) -> Measurement:
    """Runs the micro-kernels on a machine. A roof that no kernel reaches steadily is left out."""
    knee = tuple(_knee(accelerator))
    check_rising("K3", [point.intensity for point in knee])
    roofs = tuple(with_constants(accelerator, roof) for kernel in ROOF_KERNELS.values() for roof in kernel(accelerator))
    return Measurement(tuple(causes(accelerator, roofs)), knee, joint_fit(knee))


def check_rising(kernel: str, intensities: Sequence[float]) -> None:
    """Refuses points of a kernel that is made to move right along the roof, and does not.

    Raises:
        InputError: with the list of what may be wrong.
    """
    for number, (one, other) in enumerate(pairwise(intensities), 2):
        if other < one * (1 - 1e-9):
            raise InputError(
                f"the intensity of {kernel} falls from {one:.6g} to {other:.6g} op/B at point {number}; each has "
                "more work a byte. Possible causes: a larger case no longer fits the buffer and moves bytes twice; the "
                "dataflow counts bytes that it does not move"
            )


def _uncertainty(chosen: Rate, variants: list[float], value: float) -> Uncertainty:
    """Of a measured roof: ``variants`` are the values that other kernels for it give."""
    return Uncertainty(
        repeatability=0.0,
        finite_size=chosen.overhead,
        kernel_below=min(variants, default=value) / value - 1,
        kernel_above=max(variants, default=value) / value - 1,
        fit=chosen.unsteady,
    )


PARTS = {ARRAY: "mac", VECTOR_UNIT: "vector", BUFFER: BUFFER}
"""The part of energy that a level's roof is of."""


def with_constants(accelerator: Accelerator, roof: Roof) -> Roof:
    """A roof of energy with the band of the constant that it rests on, where the machine's energies are a table's."""
    band = accelerator.energy_bands.get(PARTS.get(roof.level, ""))
    if band is None or roof.uncertainty is None or roof.unit not in ("op/pJ", "pJ/B"):
        return roof
    low, high = band if roof.unit == "pJ/B" else (1 / band[1], 1 / band[0])
    return replace(roof, uncertainty=roof.uncertainty._replace(constants=(low - 1, high - 1)))


def _array_roofs(accelerator: Accelerator) -> Iterator[Roof]:
    """K1 on the array, each of the three dimensions doubled in turn: dataflows fill and drain along different ones."""
    mac = accelerator.part_names.index("mac")
    rates: dict[tuple[tuple[int, int, int], str], Rate] = {}
    for shape in SHAPES:  # whether or not the buffer holds them: a program of a single tile gets the room that it needs
        for doubled in ("rows", "depth", "columns"):

            def run(size: int, shape: tuple[int, int, int] = shape, doubled: str = doubled) -> Counts:
                sizes = dict(zip(("rows", "depth", "columns"), shape, strict=True))
                return tile(matmul_chain(**{**sizes, doubled: size * sizes[doubled]}), accelerator, mac)

            rates.update(((shape, doubled), rate) for rate in steady(run))
    if chosen := best(rates.values()):
        shape = next(key[0] for key, rate in rates.items() if rate is chosen)
        same = [rate for key, rate in rates.items() if key[0] == shape]
        value = chosen.operations_per_cycle
        doubt = _uncertainty(chosen, [rate.operations_per_cycle for rate in same], value)
        yield Roof(ARRAY, "measured", "op/cycle", value, "MACs", "K1", doubt)
        if chosen.operations_per_pj:
            value = chosen.operations_per_pj
            doubt = _uncertainty(chosen, [rate.operations_per_pj for rate in same], value)
            yield Roof(ARRAY, "measured", "op/pJ", value, "MACs", "K1", doubt)


def _vector_roofs(accelerator: Accelerator) -> Iterator[Roof]:
    """K1 on the vector unit, by two kinds of operators: some units have a slower path for one of them."""
    part = accelerator.part_names.index("vector")
    elements = max(accelerator.buffers["global"].capacity_bytes // 16, 1)
    rates: list[Rate] = []
    for normalized in (False, True):

        def run(size: int, normalized: bool = normalized) -> Counts:
            return tile(vector(elements=size * elements, normalized=normalized), accelerator, part)

        rates += steady(run)
    if chosen := best(rates):
        value, doubt = chosen.operations_per_cycle, _uncertainty(chosen, [], 1.0)
        yield Roof(VECTOR_UNIT, "measured", "op/cycle", value, "vector operations", "K1", doubt)
        if chosen.operations_per_pj:
            value = chosen.operations_per_pj
            yield Roof(VECTOR_UNIT, "measured", "op/pJ", value, "vector operations", "K1", doubt)


def _port_roofs(accelerator: Accelerator) -> Iterator[Roof]:
    """K2 on the read port of the global buffer, where it has a limit: few rows, so that weights are hardly reused."""
    if accelerator.buffers["global"].read_bytes_per_cycle is None:
        return
    part = accelerator.part_names.index(BUFFER)
    side = power_of_two(math.isqrt(accelerator.buffers["global"].capacity_bytes // 6))
    rates: list[Rate] = []
    for rows in PORT_ROWS:
        # Deeper sums leave the results as they are: all that is added are reads.
        rates += steady(
            lambda size, rows=rows: tile(  # type: ignore[misc]
                matmul_chain(rows=rows, depth=size * side, columns=side), accelerator, part
            )
        )
    chosen = max(rates, key=lambda rate: rate.bytes_per_cycle, default=None)
    if chosen is not None and chosen.bytes_per_cycle:
        few = [rate.bytes_per_cycle for rate in rates[:2]]
        value = chosen.bytes_per_cycle
        yield Roof(BUFFER, "measured", "B/cycle", value, "reads", "K2", _uncertainty(chosen, few, value))
        doubt = _uncertainty(chosen, [rate.pj_per_byte for rate in rates], chosen.pj_per_byte)
        yield Roof(BUFFER, "measured", "pJ/B", chosen.pj_per_byte, "reads", "K2", doubt)


def _dram_roofs(accelerator: Accelerator) -> Iterator[Roof]:
    """K2 on DRAM, in each direction and both."""
    part = accelerator.part_names.index("dram")
    room = accelerator.buffers["global"].capacity_bytes
    rates: dict[str, Rate] = {}
    for of, reads, writes in (("reads", 1, 0), ("writes", 0, 1), ("reads and writes", 1, 1)):
        chunk_bytes = max(min(LARGEST_CHUNK_BYTES, room // 8), 1)
        workload = stream(reads=reads, writes=writes, chunk_bytes=chunk_bytes)

        def run(size: int, workload: Workload = workload) -> Counts:
            chunks = CHUNKS * size
            schedule = Schedule(workload.name, ("stream",), (), (), (chunks,))
            timeline = simulate(lower(workload.with_batch(chunks), accelerator, schedule))
            return moved(timeline, part)

        rates.update((of, rate) for rate in steady(run))
    for of, rate in rates.items():
        value = rate.bytes_per_cycle
        doubt = _uncertainty(rate, [other.bytes_per_cycle for other in rates.values()], value)
        yield Roof(DRAM, "measured", "B/cycle", value, of, "K2", doubt)
        if of != "reads and writes":
            yield Roof(DRAM, "measured", "pJ/B", rate.pj_per_byte, of, "K2", _uncertainty(rate, [], 1.0))


ROOF_KERNELS: dict[str, Callable[[Accelerator], Iterator[Roof]]] = {
    ARRAY: _array_roofs,
    VECTOR_UNIT: _vector_roofs,
    BUFFER: _port_roofs,
    DRAM: _dram_roofs,
}
LIFTS = 0.001
"""A cause lifts a roof by at least so much when it is switched off."""
SUSPECTS = {
    "the read port of the global buffer": "buffers.global.read_bandwidth=1e9 B/cycle",
    "the latency of DRAM, which double buffering does not cover": "dram.latency=0 cycles",
    "refresh": "dram.memory.refresh=off",
    "banks, rows and turnarounds": "dram.fidelity=link",
    "a limit of requests on their way": "dram.outstanding=0",
    "banks of the global buffer": "buffers.global.ports.banks=1024",
    "ports of the global buffer": "buffers.global.ports.read=1024",
}
"""Causes that keep a machine below its datasheet, and the override that switches each of them off."""


def causes(accelerator: Accelerator, roofs: tuple[Roof, ...]) -> Iterator[Roof]:
    """The roofs; those that lie below the datasheet's get the causes that lift them when switched off."""
    sheet = {(roof.level, roof.unit): roof.value for roof in datasheet_roofs(accelerator)}
    for roof in roofs:
        stated = sheet.get((roof.level, roof.unit), 0.0)
        if roof.unit not in ("op/cycle", "B/cycle") or roof.value >= BELOW * stated:
            yield roof
            continue
        lifted: dict[str, float] = {}
        for cause, override in SUSPECTS.items():
            try:
                changed = parse_template(accelerator.source, "<template>", [override])
            except InputError:  # the machine has no such part
                continue
            if changed.digest != accelerator.digest:
                found = ROOF_KERNELS[roof.level](changed)
                values = [one.value for one in found if (one.unit, one.of) == (roof.unit, roof.of)]
                lifted[cause] = max(values, default=0.0)
        found_causes = [name for name in lifted if lifted[name] > roof.value * (1 + LIFTS)]
        said = [f"{name} ({lifted[name]:,.6g} without)" for name in sorted(found_causes, key=lambda n: -lifted[n])]
        yield roof.because(" and ".join(said) or "no part that can be switched off explains it")


def _knee(accelerator: Accelerator) -> Iterator[KneePoint]:
    """K3, in order of intensity."""
    room = accelerator.buffers["global"].capacity_bytes
    side = power_of_two(math.isqrt(room // 8))
    part = accelerator.part_names.index("dram")
    rows = 1
    while rows <= MOST_ROWS:
        short, long = (
            chain(matmul_chain(rows=rows, depth=side, columns=side, operators=length), accelerator, part)
            for length in (CHAIN, 2 * CHAIN)
        )
        rows *= 2
        if short is not None and long is not None:
            operations, cycles = long.operations - short.operations, long.cycles - short.cycles
            if cycles > 0:
                yield KneePoint(
                    intensity=operations / (long.bytes - short.bytes),
                    ops_per_cycle=operations / cycles,
                    compute_share=(long.compute_cycles - short.compute_cycles) / cycles,
                    transfer_share=(long.transfer_cycles - short.transfer_cycles) / cycles,
                )


EXPONENTS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 15.0, 20.0, math.inf)
"""As many as one can tell apart."""


def joint_fit(knee: tuple[KneePoint, ...]) -> Fit | None:
    """P, B and p of K3 together.

    For each exponent, y^-p = P^-p + (B I)^-p is linear in P^-p and B^-p, with relative weights; a hard corner is the
    fastest point and the steepest one. The exponent with the least residuals counts.
    """
    if len(knee) < 3:
        return None
    intensity = np.array([point.intensity for point in knee])
    rate = np.array([point.ops_per_cycle for point in knee])
    fits: list[Fit] = []
    for exponent in EXPONENTS:
        if exponent < math.inf:
            scale = rate.max()  # so that powers stay within range
            columns = np.stack([(rate / scale) ** exponent, (rate / (intensity * scale)) ** exponent], axis=1)
            size = np.linalg.norm(columns, axis=0)
            found = np.linalg.lstsq(columns / size, np.ones(len(rate)), rcond=None)[0] / size
            if (found <= 0).any():
                continue
            peak, slope = (scale * float(value) ** (-1 / exponent) for value in found)
            guess = ((peak**-exponent) + (slope * intensity) ** -exponent) ** (-1 / exponent)
        else:
            peak, slope = float(rate.max()), float((rate / intensity).max())
            guess = np.minimum(peak, slope * intensity)
        error = float(np.sqrt(np.mean(np.log(guess / rate) ** 2)))
        fits.append(Fit(peak, slope, exponent, error))
    return min(fits, key=lambda one: one.error)
