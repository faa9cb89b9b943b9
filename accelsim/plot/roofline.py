"""The dual roofline of a machine, with the points of its runs: as text, as data, as picture, and as page."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from accelsim.analysis.ceilings import ceilings
from accelsim.analysis.ladder import energy_ladder, performance_ladder
from accelsim.analysis.ladder import to_dict as ladder_dict
from accelsim.analysis.ledger import Ledger, ledger
from accelsim.analysis.measure import Measurement
from accelsim.analysis.roof_forms import efficiency_at_ridge, energy_balance, ridge
from accelsim.analysis.roofline import Point, check_points, roofline_points
from accelsim.analysis.roofline_detail import group_points, tile_points
from accelsim.analysis.roofs import OPERATIONS_PER_MAC, Limits, Roof, datasheet_roofs
from accelsim.analysis.roofs_file import measured_roofs
from accelsim.analysis.trajectory import Trajectory, trajectory
from accelsim.errors import InputError
from accelsim.files import write_whole
from accelsim.hardware.accelerator import Accelerator
from accelsim.timeline.table import Timeline

Detail = Literal["operators", "groups", "tiles"]
Form = Literal["hard", "p-norm", "smooth"]
Counted = Literal["dense", "effectual"]
WINDOWS = 60
LISTED = 10
"""Operators in the text."""


@dataclass(frozen=True)
class Run:
    """A run on the roofline."""

    name: str
    points: tuple[Point, ...]
    ledger: Ledger
    trajectory: Trajectory


@dataclass(frozen=True)
class Roofline:
    """A machine's roofs and the runs added to them. Frozen: :meth:`add` returns a new one."""

    accelerator: Accelerator
    roofs: tuple[Roof, ...]
    measurement: Measurement | None = None
    runs: tuple[Run, ...] = ()
    form: Form = "hard"
    """Of the performance roof: ``hard``; ``p-norm``, rounded by the measured overlap; ``smooth``: nothing overlaps."""
    power_cap_watts: float | None = None
    """A limit of power, drawn as a further roof."""
    operations: Counted = "dense"
    """What points count: ``dense``, as if there were no zeros; ``effectual``, without products of known zeros."""

    @property
    def exponent(self) -> float:
        """p of the performance roof that is drawn."""
        if self.form == "p-norm" and self.measurement is not None:
            return self.measurement.overlap_exponent
        return 1.0 if self.form == "smooth" else math.inf

    @property
    def balance(self) -> dict[str, float]:
        """Ridge and energy balance at DRAM, in operations a byte; their ratio; what of the best efficiency is reached
        at the ridge; and the power there, array and link both busy."""
        limits, machine = Limits.of(self.accelerator), self.accelerator
        at_ridge = ridge(OPERATIONS_PER_MAC * limits.macs_per_cycle, float(limits.dram_bytes_per_cycle))
        found = {"ridge": at_ridge}
        if limits.mac_pj:
            balance = energy_balance(limits.mac_pj / OPERATIONS_PER_MAC, machine.dram.read_pj_per_byte)
            found |= {"energy_balance": balance, "balance_gap": balance / at_ridge}
            found["efficiency_at_ridge"] = efficiency_at_ridge(at_ridge, balance)
        per_cycle = limits.macs_per_cycle * limits.mac_pj + machine.static_pj_per_cycle
        per_cycle += float(limits.dram_bytes_per_cycle) * machine.dram.read_pj_per_byte
        return {**found, "watts_at_ridge": per_cycle * machine.clock_hz * 1e-12}

    def add(
        self, timeline: Timeline, name: str | None = None, *, windows: int = WINDOWS, detail: Detail = "operators"
    ) -> Roofline:
        """The same roofline with the points of one more run.

        Args:
            timeline: a run on this machine.
            name: what it is called; by default its workload and scheduler.
            windows: of its trajectory over time.
            detail: which points there are beside those of the run and its operators: fused groups, or those and tiles.

        Raises:
            InputError: it ran on another machine, or a point lies above its roof.
        """
        if name is None:
            workload = str(timeline.program.facts.get("workload", "a trace"))
            scheduler = timeline.provenance.get("scheduler")
            name = f"{workload}, {scheduler}" if scheduler else workload
        known = [run.name for run in self.runs]
        if name in known:
            name = f"{name} ({sum(one.split(' (')[0] == name for one in known) + 1})"
        effectual = self.operations == "effectual"
        points = roofline_points(self.accelerator, timeline, effectual=effectual)
        more = [] if detail == "operators" else list(group_points(timeline, points))
        if detail == "tiles":
            more += tile_points(self.accelerator, timeline, effectual=effectual)
        check_points(more)
        run = Run(
            name,
            (*points, *more),
            ledger(timeline, self.accelerator),
            trajectory(self.accelerator, timeline, windows),
        )
        return replace(self, runs=(*self.runs, run))

    def to_dict(self) -> dict[str, Any]:
        """Roofs, points, and what K3 measured, as ``accelsim roofline --json`` prints them."""
        several = len(self.runs) > 1
        points = [
            {**point.to_dict(), **({"timeline": run.name} if several else {})}
            for run in self.runs
            for point in run.points
        ]
        knee = {"knee": self.measurement.to_dict()} if self.measurement else {}
        return {
            "hardware": self.accelerator.name,
            "operations": self.operations,
            "roofs": [roof.to_dict() for roof in self.roofs],
            "points": points,
            "balance": self.balance,
            "runs": [self._run_dict(run) for run in self.runs],
            **knee,
        }

    def _run_dict(self, run: Run) -> dict[str, Any]:
        """Ceilings, ladders and trajectory of a run."""
        point = next(one for one in run.points if one.name == "run")
        return {
            "timeline": run.name,
            "ceilings": [one._asdict() for one in ceilings(self.accelerator, run.ledger, run.points)],
            "ladders": {
                "performance": ladder_dict(performance_ladder(run.ledger, point)),
                "energy": ladder_dict(energy_ladder(run.ledger, point)),
            },
            "trajectory": run.trajectory.to_dict(),
        }

    def save(self, path: str | Path, *, over_time: bool = False) -> None:
        """Writes a page (``.html``) or a picture (``.png``, ``.svg``, ``.pdf``); it appears whole or not at all.

        ``over_time`` draws the path of the first run instead of its operators; as a picture only.

        The page needs no other file and no network. Equal rooflines are equal bytes.

        Raises:
            InputError: another suffix, or the file cannot be written.
            MissingExtra: a picture, and matplotlib is not installed.
        """
        path = Path(path)
        if path.suffix.lower() in (".html", ".htm"):
            from accelsim.plot.roofline_page import roofline_page

            write_whole(path, roofline_page(self).encode(errors="xmlcharrefreplace"))
        else:
            from accelsim.plot.roofline_figure import roofline_figure
            from accelsim.plot.style import save_figure
            from accelsim.plot.trajectory_figure import trajectory_figure

            save_figure((trajectory_figure if over_time else roofline_figure)(self), path)

    def __str__(self) -> str:
        counted = "" if self.operations == "dense" else "; points count effectual operations, without known zeros"
        lines = [f"Roofs of {self.accelerator.name}{counted}", ""]
        for roof in self.roofs:
            kernel = f" by {roof.kernel}" if roof.kernel else ""
            lines.append(
                f"  {roof.level:<14} {roof.value:>12,.6g} {roof.unit:<9} {roof.of:<18} {roof.source}{kernel}".rstrip()
            )
        lines += ["", f"  {_balance_text(self.balance)}"]
        for run in self.runs:
            lines += ["", f"{run.name}: the run, and the operators with most cycles", "", _HEAD]
            operators = [point for point in run.points if point.level == "dram"]
            shown = operators[:1] + sorted(operators[1:], key=lambda point: -point.cycles_attributed)[:LISTED]
            lines += [_line(point) for point in shown]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from accelsim.plot.roofline_page import roofline_page

        page = html.escape(roofline_page(self))
        return f'<iframe srcdoc="{page}" style="width:100%;height:820px;border:0"></iframe>'


_HEAD = (
    f"  {'at DRAM':<24} {'cycles':>12} {'op/B':>9} {'op/cycle':>10} {'of roof':>8} {'op/pJ':>9} {'of roof':>8}  limit"
)


def _line(point: Point) -> str:
    intensity = "no bytes" if point.intensity is None else f"{point.intensity:,.4g}"
    name = point.name if len(point.name) <= 24 else f"{point.name[:23]}…"
    return (
        f"  {name:<24} {point.cycles:>12,} {intensity:>9} {point.ops_per_cycle:>10,.4g} "
        f"{_percent(point.ops_per_cycle, point.roof_ops_per_cycle):>8} {point.ops_per_pj:>9.4g} "
        f"{_percent(point.ops_per_pj, point.roof_ops_per_pj):>8}  {limit(point)}"
    )


def _balance_text(balance: dict[str, float]) -> str:
    found = f"ridge {balance['ridge']:,.4g} op/B"
    if "energy_balance" in balance:
        found += (
            f", energy balance {balance['energy_balance']:,.4g} op/B, {balance['balance_gap']:.3g} times as far; "
            f"at the ridge {100 * balance['efficiency_at_ridge']:.3g} % of the best efficiency"
        )
    return f"{found}, {balance['watts_at_ridge']:.3g} W"


def _percent(found: float, roof: float) -> str:
    return f"{100 * found / roof:.1f} %" if roof else ""


def limit(point: Point) -> str:
    """Which part of the roof is above a point: the level's bandwidth, the array, the vector unit, or both of these."""
    if point.transfer_cycles > point.peak_cycles:
        return point.level
    if not point.operations:
        return ""
    if not point.vector_ops:
        return "array"
    return "array and vector unit" if point.macs else "vector unit"


def roofline(
    accelerator: Accelerator,
    *,
    measured: bool = False,
    form: Form = "hard",
    power_cap_watts: float | None = None,
    operations: Counted = "dense",
) -> Roofline:
    """The dual roofline of a machine: performance and energy, at each memory level.

    Args:
        accelerator: the machine.
        measured: run the micro-kernels on it too, or use what they found before.
        form: of the performance roof that is drawn: ``hard``, ``p-norm`` with the measured overlap, or ``smooth``.
        power_cap_watts: a limit of power, drawn as a further roof.
        operations: what the points of runs count: ``dense``, or ``effectual``, without products of known zeros.

    Raises:
        InputError: ``p-norm`` without measured roofs.
    """
    if form == "p-norm" and not measured:
        raise InputError("the form p-norm needs the overlap that the micro-kernels measure: add --measured")
    found = measured_roofs(accelerator).measurement if measured else None
    roofs = (*datasheet_roofs(accelerator), *(found.roofs if found else ()))
    return Roofline(accelerator, roofs, found, (), form, power_cap_watts, operations)
