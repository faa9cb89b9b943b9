"""What a notebook shows: the viewer in a frame of its own, so that its style and script meet nothing else."""

from __future__ import annotations

import html
from collections.abc import Sequence

from accelsim.plot.report_page import document
from accelsim.plot.viewer import viewer
from accelsim.timeline.table import Timeline

MOST_EVENTS = 200_000
"""Beyond these a notebook's file would become too large to be handled."""
HEAD_PIXELS, LANE_PIXELS, CURVE_PIXELS, PANEL_PIXELS = 190, 28, 58, 330


def viewer_frame(timelines: Sequence[tuple[str, Timeline]]) -> str:
    """HTML of the viewer as a frame; with more than :data:`MOST_EVENTS` events, what to do instead."""
    events = sum(len(timeline.events.activity) for _, timeline in timelines)
    if events > MOST_EVENTS:
        return (
            f"<p>{events:,} events are too many for a notebook: write them to a page with <code>report_page</code> "
            "of <code>accelsim.plot.report_page</code>.</p>"
        )
    page = document("Timeline", [viewer(timelines)])
    height = HEAD_PIXELS + PANEL_PIXELS
    for _, timeline in timelines:
        program = timeline.program
        curves = len(program.resource_names) + len(program.buffer_names) + 2
        height += LANE_PIXELS * (len(program.queue_names) + 2) + CURVE_PIXELS * curves
    style = f"border:0;height:{min(height, 900)}px;width:100%"
    return f'<iframe srcdoc="{html.escape(page)}" style="{style}"></iframe>'
