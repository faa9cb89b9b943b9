"""Lessons of the roofline: what the literature says about pushing accelerators, each shown by runs on shipped machines.

Every lesson is a claim, a table of runs, and whether they bear it out. The claims are qualitative and not ours: Choi,
Bedard, Fowler and Vuduc (IPDPS 2013) on balance in time and in energy; Hong and Kung (STOC 1981) on blocking; Verhelst,
Benini and Verma (IEEE JSSC 2025, arXiv 2505.16346) and Williams, Waterman and Patterson (CACM 2009) on the rest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

from accelsim.analysis.energy import energy_pj
from accelsim.analysis.kernel_runs import on_chip
from accelsim.analysis.lesson import Lesson, run_point
from accelsim.analysis.lessons_of_zeros import accesses, zeros
from accelsim.analysis.options import TWO, scaled, with_fewer_bits
from accelsim.analysis.roofline import Point
from accelsim.analysis.roofs import Limits, datasheet_roofs
from accelsim.engine import simulate
from accelsim.errors import InputError, UnknownName
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.template import parse_template
from accelsim.program.lower import lower
from accelsim.search import SCHEDULERS, Layerwise, Watch
from accelsim.search.objective import Objective
from accelsim.timeline.occupancy import peak_buffer_bytes
from accelsim.timeline.table import Timeline
from accelsim.units import did_you_mean
from accelsim.workload.models.micro import blocked, matmul_chain
from accelsim.workload.models.transformer import gpt2_decode
from accelsim.yaml_tree import read_tree


def ridge(machine: Accelerator) -> Lesson:
    """Energy cannot be hidden: at the ridge, where performance is full, energy efficiency is not.

    z(B_t) / z_max = 1 / (1 + B_e / B_t), with the ridge B_t = P / B and the energy balance B_e = e_byte / e_op.
    """
    limits = Limits.of(machine)
    peak, e_op = 2 * limits.macs_per_cycle, limits.mac_pj / 2
    at_ridge = peak / float(limits.dram_bytes_per_cycle)
    balance = machine.dram.read_pj_per_byte / e_op
    rows = []
    for times in (1, 4, 16, 64):
        intensity = at_ridge * times
        formula = 1 / (1 + balance / intensity)
        rows.append((times, intensity, 1.0, formula))
    runs = _chain_at(machine, at_ridge)
    reached = runs.ops_per_pj * e_op
    share = rows[0][3]
    return Lesson(
        "ridge",
        "int8 at the performance ridge reaches only a small part of the peak energy efficiency",
        ("times the ridge", "op/B", "of peak performance", "of peak efficiency"),
        tuple(rows),
        f"On {machine.name} the ridge is at {at_ridge:,.0f} op/B, the energy balance at {balance:,.0f}: "
        f"{100 * share:.1f} % of the best efficiency there; a chain of products run near it reaches "
        f"{100 * runs.utilization:.0f} % of the peak performance and {100 * reached:.1f} % of the peak efficiency, "
        "buffers included.",
        share < 0.25 and reached <= share * 1.01 * runs.intensity / at_ridge if runs.intensity else False,
    )


def _chain_at(machine: Accelerator, intensity: float) -> Point:
    """The point of a chain of products that use each byte of weights so often."""
    rows = max(round(intensity / 2), 1)
    side = 1 << max((math.isqrt(machine.buffers["global"].capacity_bytes // 8)).bit_length() - 1, 4)
    workload = matmul_chain(rows=rows, depth=side, columns=side, operators=16)
    timeline = simulate(lower(workload, machine, on_chip(workload)))
    return run_point(machine, timeline)


def buffer(machine: Accelerator) -> Lesson:
    """A product blocked into T x T x T: 2 T^3 operations on 2 T^2 bytes, in a buffer of 12 T^2 and more."""
    side = 768
    rows: list[tuple[float, ...]] = []
    for block in (96, 128, 192, 256, 384, 768):
        workload = blocked(side=side, block=block)
        room = parse_template(machine.source, "<template>", ["buffers.global.capacity=64 MiB"])
        timeline = simulate(lower(workload, room, on_chip(workload)))
        peak = _peak_bytes(timeline)
        point = run_point(room, timeline)
        rows.append((block, peak / 1024, point.intensity or 0.0))
    within = rows[:-1]
    growth = [
        (second[2] / first[2]) ** (1 / math.log2(second[1] / first[1])) for first, second in itertools.pairwise(within)
    ]
    mean = math.exp(sum(math.log(one) for one in growth) / len(growth))
    all_of_it = 2 * side / 3
    return Lesson(
        "buffer",
        "doubling a buffer buys about the square root of two in intensity, until the tensors fit",
        ("block", "KiB of buffer", "op/B"),
        tuple(rows),
        f"A product of side {side}: each doubling of the buffer multiplies the intensity by {mean:.2f} in the mean; "
        f"once all of it fits the intensity is {rows[-1][2]:.0f}, and no buffer makes it more than {all_of_it:.0f}.",
        1.3 < mean < 1.55 and rows[-1][2] <= all_of_it * 1.001,
    )


def decode(machine: Accelerator) -> Lesson:
    """Every parameter is loaded once and used for one token: no schedule changes that."""
    workload = gpt2_decode()
    rows: list[tuple[str | float, ...]] = []
    bound = True
    for name in ("layerwise", "cocco", "soma", "interleave"):
        scheduler = SCHEDULERS[name].from_options(Objective(), 0)
        schedule = scheduler.search(workload, machine, Watch(5.0)).schedule
        point = run_point(machine, simulate(lower(workload, machine, schedule)))
        bound = bound and point.transfer_cycles > 4 * point.peak_cycles
        rows.append((name, point.cycles, point.intensity or 0.0, point.memory_utilization, point.utilization))
    limits = Limits.of(machine)
    at_ridge = 2 * limits.macs_per_cycle / float(limits.dram_bytes_per_cycle)
    return Lesson(
        "decode",
        "a language model that decodes stays bound by bandwidth, whatever the schedule",
        ("scheduler", "cycles", "op/B", "of bandwidth", "of peak rate"),
        tuple(rows),
        f"A block of GPT-2 small, one token: at most {max(float(row[2]) for row in rows):.2f} op/B under every "
        f"scheduler; the ridge of {machine.name} is at {at_ridge:,.0f}.",
        bound,
    )


def peak(machine: Accelerator) -> Lesson:
    """More multipliers shorten tiles, and nobody waits for tiles."""
    workload = gpt2_decode()
    rows: list[tuple[str | float, ...]] = []
    for rows_of_array in (1, 2, 4):
        larger = parse_template(
            machine.source,
            "<template>",
            [f"pe_array.rows={rows_of_array * _rows(machine)}"] if rows_of_array > 1 else [],
        )
        timeline = simulate(lower(workload, larger, Layerwise().search(workload, larger).schedule))
        rows.append((f"{rows_of_array} x the peak", timeline.latency_cycles, energy_pj(timeline) / 1e6))
    faster = parse_template(machine.source, "<template>", [f"dram.bandwidth={_twice_bandwidth(machine)}"])
    timeline = simulate(lower(workload, faster, Layerwise().search(workload, faster).schedule))
    rows.append(("2 x the bandwidth", timeline.latency_cycles, energy_pj(timeline) / 1e6))
    first = float(rows[0][1])
    gain, of_bandwidth = first / float(rows[2][1]), first / float(rows[3][1])
    return Lesson(
        "peak",
        "a larger peak alone does not help a run that is bound by memory",
        ("machine", "cycles", "µJ"),
        tuple(rows),
        f"A block of GPT-2 small, one token: four times the peak makes it {gain:.3f} times as fast, twice the "
        f"bandwidth {of_bandwidth:.2f} times.",
        gain < 1.1 and of_bandwidth > 1.5,
    )


def bits(machine: Accelerator) -> Lesson:
    """Half the bits are half the bytes at every level; sub-word multipliers do twice the work in the same area."""
    workload = matmul_chain(rows=16, depth=1024, columns=1024, operators=8)
    halved = with_fewer_bits(workload, 0.5)
    doubled = parse_template(machine.source, "<template>", [f"pe_array.columns={2 * _columns(machine)}"])
    rows: list[tuple[str | float, ...]] = []
    points = []
    for name, one, on in (
        ("8 bits", workload, machine),
        ("4 bits", halved, machine),
        ("4 bits, sub-word", halved, doubled),
    ):
        point = run_point(on, simulate(lower(one, on, on_chip(one))))
        points.append(point)
        roof = next(roof.value for roof in datasheet_roofs(on) if roof.unit == "op/cycle")
        rows.append((name, point.intensity or 0.0, point.ops_per_cycle, roof, point.ops_per_pj))
    right = float(rows[1][1]) / float(rows[0][1])
    up = points[1].ops_per_cycle / points[0].ops_per_cycle
    better = points[1].ops_per_pj / points[0].ops_per_pj
    return Lesson(
        "bits",
        "fewer bits move a point to the right, and with sub-word multipliers they lift the roof",
        ("elements", "op/B", "op/cycle", "roof op/cycle", "op/pJ"),
        tuple(rows),
        f"Half the bits move the point {right:.2f} times to the right; bound by memory it rises by {up:.2f}, and gives "
        f"{better:.2f} times the operations for a picojoule. Sub-word multipliers are modelled as twice the columns.",
        abs(right - 2) < 0.02 and up > 1.5 and better > 1 and float(rows[2][3]) == 2 * float(rows[1][3]),
    )


LESSONS: dict[str, Callable[[Accelerator], Lesson]] = {
    "ridge": ridge,
    "buffer": buffer,
    "decode": decode,
    "peak": peak,
    "bits": bits,
    "zeros": zeros,
    "accesses": accesses,
}
"""A new lesson is a function and a line here."""


def lessons(machine: Accelerator, name: str | None = None) -> Iterator[Lesson]:
    """The lessons, one by one, or the one of that name.

    Raises:
        UnknownName: there is no such lesson.
    """
    if name is not None and name not in LESSONS:
        raise UnknownName(f"no lesson '{name}'{did_you_mean(name, LESSONS)}; there are {', '.join(LESSONS)}")
    for one, lesson in LESSONS.items():
        if name in (None, one):
            yield lesson(machine)


def _peak_bytes(timeline: Timeline) -> float:
    return float(peak_buffer_bytes(timeline)["global"])


def _number(machine: Accelerator, path: str) -> str:
    values: Any = read_tree(machine.source, "<template>", InputError).values
    for key in path.split("."):
        values = values[key]
    return str(values)


def _rows(machine: Accelerator) -> int:
    return int(_number(machine, "pe_array.rows"))


def _columns(machine: Accelerator) -> int:
    return int(_number(machine, "pe_array.columns"))


def _twice_bandwidth(machine: Accelerator) -> str:
    return scaled(_number(machine, "dram.bandwidth"), TWO) or ""
