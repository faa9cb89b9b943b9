"""The page of a comparison: both timelines above one another on one axis, and what made the difference."""

from __future__ import annotations

import html
import math

from accelsim.analysis.compare_report import Comparison, table_html
from accelsim.analysis.report import report
from accelsim.plot.report_page import document, picture
from accelsim.plot.viewer import viewer

ROWS = 40
"""Rows of a long table."""


def compare_page(comparison: Comparison) -> str:
    """The page as text; it loads nothing from anywhere, and equal comparisons are equal bytes.

    Both timelines have the same scale: that of the longer one, in seconds where both clocks are known, else in cycles.
    """
    body = ["<h1>Two runs compared</h1>"]
    sides = (("A", comparison.a), ("B", comparison.b))
    body += [f"<p><b>{name}</b>: {html.escape(report(timeline).title)}</p>" for name, timeline in sides]
    body.append(comparison.sentences_html())
    ends = _common_end(comparison)
    for (name, timeline), end in zip(sides, ends, strict=True):
        body += [f"<h2>Run {name}</h2>", picture(timeline, end)]
    body += ["<h2>Look closer</h2>", viewer(sides)]
    if not comparison.identical:
        body.append("<h2>Where the difference comes from</h2>")
        tables = "".join(table_html(table) for table in comparison.tables(ROWS))
        body.append(f'<div class="tables">{tables}</div>')
    return document("Two runs compared", body)


def _common_end(comparison: Comparison) -> tuple[int, int]:
    """The last cycle of each picture, so that both show the same time."""
    longest = max(comparison.a.latency_cycles, comparison.b.latency_cycles)
    if comparison.seconds is None or not longest:
        return longest, longest
    a, b = (
        math.ceil(max(comparison.seconds) * timeline.latency_cycles / seconds) if seconds else longest
        for timeline, seconds in zip((comparison.a, comparison.b), comparison.seconds, strict=True)
    )
    return a, b
