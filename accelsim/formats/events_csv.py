"""The events of a timeline as comma-separated values, one line an event."""

from __future__ import annotations

import csv
import io

from accelsim.timeline.columns import event_columns
from accelsim.timeline.table import Timeline


def write_events_csv(timeline: Timeline) -> bytes:
    """The columns of :func:`accelsim.timeline.columns.event_columns` under a line of their names."""
    columns = event_columns(timeline)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    plain = (values if isinstance(values, list) else values.tolist() for values in columns.values())
    writer.writerows(zip(*plain, strict=True))
    return text.getvalue().encode(errors="replace")
