"""A lesson of the roofline: a claim, a table of runs, and whether they bear it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accelsim.analysis.roofline import Point, roofline_points
from accelsim.analysis.roofs import DRAM
from accelsim.hardware.accelerator import Accelerator
from accelsim.timeline.table import Timeline


@dataclass(frozen=True)
class Lesson:
    """A claim, the runs that were made, and whether they bear it out."""

    name: str
    claim: str
    head: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...]
    conclusion: str
    holds: bool

    def to_dict(self) -> dict[str, Any]:
        """As ``accelsim lessons --json`` prints it."""
        rows = [dict(zip(self.head, row, strict=True)) for row in self.rows]
        return {
            "name": self.name,
            "claim": self.claim,
            "rows": rows,
            "conclusion": self.conclusion,
            "holds": self.holds,
        }

    def __str__(self) -> str:
        cells = [self.head, *(tuple(_shown(cell) for cell in row) for row in self.rows)]
        widths = [max(len(row[column]) for row in cells) for column in range(len(self.head))]
        lines = ["  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
        verdict = "holds" if self.holds else "does not hold here"
        return "\n".join([f"{self.name}: {self.claim}", "", *lines, "", f"  {self.conclusion} So it {verdict}."])


def _shown(cell: str | float) -> str:
    return cell if isinstance(cell, str) else f"{cell:,.4g}"


def run_point(machine: Accelerator, timeline: Timeline) -> Point:
    """The point of the whole run, at DRAM."""
    return next(point for point in roofline_points(machine, timeline) if (point.name, point.level) == ("run", DRAM))
