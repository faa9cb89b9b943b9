"""Timelines in the JSON trace event format, for chrome://tracing and the many viewers that read it.

The format counts in microseconds; one cycle is written as one nanosecond, as the file says under ``otherData``. A flow
(``s``, ``f``) is an arrow to an event from the one that let it start; viewers bind its ends to the slices around them.
"""

from __future__ import annotations

import json

import numpy as np

from accelsim.timeline.columns import event_columns
from accelsim.timeline.stalls import cause_events
from accelsim.timeline.table import Timeline

_CYCLES_PER_MICROSECOND = 1000


def write_chrome_json(timeline: Timeline) -> bytes:
    """A process for each resource, a thread for each queue, a complete event (``X``) for each event."""
    program = timeline.program
    trace: list[dict[str, object]] = []
    for resource, name in enumerate(program.resource_names):
        trace.append({"ph": "M", "name": "process_name", "pid": resource + 1, "args": {"name": name}})
    for queue, (resource, name) in enumerate(zip(program.queues.resource.tolist(), program.queue_names, strict=True)):
        place = {"pid": resource + 1, "tid": queue + 1}
        trace.append({"ph": "M", "name": "thread_name", **place, "args": {"name": name}})
    columns = event_columns(timeline)
    plain = [values if isinstance(values, list) else values.tolist() for values in columns.values()]
    events = timeline.events
    places = [
        {"pid": resource + 1, "tid": queue + 1, "ts": start / _CYCLES_PER_MICROSECOND}
        for resource, queue, start in zip(
            events.resource.tolist(), events.queue.tolist(), events.start_cycles.tolist(), strict=True
        )
    ]
    lengths = (events.end_cycles - events.start_cycles).tolist()
    for place, cycles, *values in zip(places, lengths, *plain, strict=True):
        event = dict(zip(columns, values, strict=True))
        name = event["tensor"] or event["operator"] or event["kind"]
        duration = {"dur": cycles / _CYCLES_PER_MICROSECOND}
        trace.append({"ph": "X", "name": name, "cat": event["kind"], **place, **duration, "args": event})
    sources = cause_events(timeline)
    for target in np.flatnonzero(sources >= 0).tolist():
        flow = {"id": target, "name": columns["cause"][target], "cat": "cause"}
        trace.append({"ph": "s", **flow, **places[sources[target]]})
        trace.append({"ph": "f", "bp": "e", **flow, **places[target]})
    other = {"clock": "1 ns is 1 cycle", **{key: str(value) for key, value in sorted(program.facts.items())}}
    return json.dumps({"traceEvents": trace, "displayTimeUnit": "ns", "otherData": other}).encode()
