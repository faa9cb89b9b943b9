"""The page of a comparison: all timelines above one another on one axis, and what made the difference."""

from __future__ import annotations

import html
import math

from accelsim.analysis.compare_report import Comparison
from accelsim.analysis.compare_runs import Runs
from accelsim.analysis.grids import grid_html
from accelsim.analysis.report import report
from accelsim.plot.report_page import document, picture
from accelsim.plot.viewer import viewer
from accelsim.timeline.table import Timeline

ROWS = 20
"""Rows of a long table."""


def compare_page(comparison: Comparison | Runs) -> str:
    """The page as text; it loads nothing from anywhere, and equal comparisons are equal bytes.

    The timelines are linked: zoom and pan move all of them, and an event that is clicked in one is shown in the others.
    Pictures have the same scale: that of the longest run, in seconds where all clocks are known, else in cycles.
    """
    if isinstance(comparison, Comparison):
        sides = [("A", comparison.a), ("B", comparison.b)]
        title = "Two runs compared"
    else:
        sides = list(zip(comparison.labels, comparison.timelines, strict=True))
        title = f"{len(sides)} runs compared"
    tables = [] if comparison.identical else [grid_html(grid) for grid in comparison.grids(ROWS)]
    runs = "".join(f"<p><b>{name}</b>: {html.escape(report(timeline).title)}</p>" for name, timeline in sides)
    body = [f"<h1>{title}</h1>", runs, comparison.sentences_html(), viewer(sides)]
    if tables:
        body += ["<h2>Where the difference comes from</h2>", f'<div class="tables">{"".join(tables)}</div>']
    ends = common_ends([timeline for _, timeline in sides])
    pictures = [f"<h3>{name}</h3>{picture(one, end)}" for (name, one), end in zip(sides, ends, strict=True)]
    body.append(f"<details><summary>The timelines as pictures</summary>{''.join(pictures)}</details>")
    return document(title, body)


def common_ends(timelines: list[Timeline]) -> list[int]:
    """The last cycle of each picture, so that all show the same time."""
    latencies = [timeline.latency_cycles for timeline in timelines]
    clocks = [timeline.program.facts.get("clock_hz") for timeline in timelines]
    found = [float(clock) if isinstance(clock, int | float) and clock > 0 else math.inf for clock in clocks]
    if not all(map(math.isfinite, found)):
        return [max(latencies)] * len(latencies)
    longest = max(cycles / clock for cycles, clock in zip(latencies, found, strict=True))
    return [max(math.ceil(longest * clock), cycles) for cycles, clock in zip(latencies, found, strict=True)]
