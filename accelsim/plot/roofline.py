"""The dual roofline of a machine, with the points of its runs: as text, as data, as picture, and as page."""

from __future__ import annotations

import html
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from accelsim.analysis.measure import Measurement
from accelsim.analysis.roofline import Point, Roof, datasheet_roofs, roofline_points
from accelsim.analysis.roofs_file import measured_roofs
from accelsim.files import write_whole
from accelsim.hardware.accelerator import Accelerator
from accelsim.timeline.table import Timeline

LISTED = 10
"""Operators in the text."""


@dataclass(frozen=True)
class Run:
    """A run on the roofline."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Roofline:
    """A machine's roofs and the runs added to them. Frozen: :meth:`add` returns a new one."""

    accelerator: Accelerator
    roofs: tuple[Roof, ...]
    measurement: Measurement | None = None
    runs: tuple[Run, ...] = ()

    def add(self, timeline: Timeline, name: str | None = None) -> Roofline:
        """The same roofline with the points of one more run.

        Args:
            timeline: a run on this machine.
            name: what it is called; by default its workload and scheduler.

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
        return replace(self, runs=(*self.runs, Run(name, roofline_points(self.accelerator, timeline))))

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
            "roofs": [roof.to_dict() for roof in self.roofs],
            "points": points,
            **knee,
        }

    def save(self, path: str | Path) -> None:
        """Writes a page (``.html``) or a picture (``.png``, ``.svg``, ``.pdf``); it appears whole or not at all.

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

            save_figure(roofline_figure(self), path)

    def __str__(self) -> str:
        lines = [f"Roofs of {self.accelerator.name}", ""]
        for roof in self.roofs:
            kernel = f" by {roof.kernel}" if roof.kernel else ""
            lines.append(
                f"  {roof.level:<14} {roof.value:>12,.6g} {roof.unit:<9} {roof.of:<18} {roof.source}{kernel}".rstrip()
            )
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


def roofline(accelerator: Accelerator, *, measured: bool = False) -> Roofline:
    """The dual roofline of a machine: performance and energy, at each memory level.

    Args:
        accelerator: the machine.
        measured: run the micro-kernels on it too, or use what they found before.
    """
    found = measured_roofs(accelerator).measurement if measured else None
    return Roofline(accelerator, (*datasheet_roofs(accelerator), *(found.roofs if found else ())), found)
