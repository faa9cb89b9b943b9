"""The viewer: timelines to zoom, pan and search in a page, above one another on one axis.

The events travel as columns of numbers, compressed, inside the page; ``viewer.js`` draws the part that is looked at.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from accelsim.analysis.report import known, report
from accelsim.plot.style import CAUSE_COLORS, KIND_COLORS
from accelsim.program.tables import ActivityKind, Program, ResourceKind
from accelsim.timeline.columns import event_energy_pj
from accelsim.timeline.occupancy import buffer_occupancy
from accelsim.timeline.stalls import CAUSE_NAMES, cause_events, critical_path
from accelsim.timeline.table import Cause, Timeline

SCRIPT = Path(__file__).with_name("viewer.js")
CONTROLS = """<p class="legend"><input type="search" placeholder="operator or tensor" aria-label="search">
<select aria-label="colours"><option value="kind">by kind</option><option value="operator">by operator</option>
<option value="cause">by what it waited for</option></select> <span class="matches"></span><span class="key"></span></p>
"""
HELP = (
    "Drag, or A and D, to pan; Ctrl + wheel, or W and S, to zoom; double click to zoom in; F for all; N for the next "
    "match; C for the critical path. Click an event: what it is, and what it had waited for."
)


def viewer(timelines: Sequence[tuple[str, Timeline]]) -> str:
    """HTML for the body of a page: the timelines, each with its label, and the script that draws them.

    It loads nothing from anywhere; equal timelines are equal bytes. Where clocks differ, all are drawn in cycles of the
    first one's clock.
    """
    clock_hz = known(timelines[0][1].program, "clock_hz") if timelines else None
    described, payload = [], b""
    for label, timeline in timelines:
        arrays = _columns(timeline)
        clock = known(timeline.program, "clock_hz")
        columns = {}
        for name, values in arrays.items():
            columns[name] = [values.dtype.str, len(payload), len(values)]
            payload += values.tobytes()
        described.append(
            _described(timeline, label) | {"scale": clock_hz / clock if clock_hz and clock else 1, "columns": columns}
        )
    text = json.dumps({"timelines": described, "kindColors": list(KIND_COLORS.values())}, separators=(",", ":"))
    packed = base64.b64encode(gzip.compress(payload, 6, mtime=0)).decode()
    return (
        f'<div class="viewer">{CONTROLS}<canvas tabindex="0"></canvas><p class="note">{html.escape(HELP)}</p>'
        '<div class="event note"></div>'
        f'<script type="application/json">{_in_script(text)}</script>'
        f'<script type="text/plain">{packed}</script>'
        f"<script>{SCRIPT.read_text(encoding='utf-8')}</script></div>"
    )


def _in_script(text: str) -> str:
    """JSON that cannot end the element it stands in."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _described(timeline: Timeline, label: str) -> dict[str, object]:
    """What is not a column: names, rates, capacities."""
    program = timeline.program
    links = program.resources.kind == ResourceKind.LINK
    rates = [
        float(Fraction(int(numerator), int(denominator)))
        for numerator, denominator in zip(
            program.resources.bytes_numerator, program.resources.bytes_denominator, strict=True
        )
    ]
    causes = [CAUSE_NAMES[cause] for cause in Cause]
    return {
        "title": f"{label}{': ' if label else ''}{report(timeline).title}",
        "latency": timeline.latency_cycles,
        "resources": [
            {"name": name, "rate": rate if link else 0}
            for name, rate, link in zip(program.resource_names, rates, links.tolist(), strict=True)
        ],
        "buffers": [
            {"name": name, "capacity": int(capacity)}
            for name, capacity in zip(program.buffer_names, program.buffers.capacity_bytes, strict=True)
        ],
        "operators": program.operator_names,
        "tensors": program.tensor_names,
        "kinds": list(KIND_COLORS),
        "causes": [cause.name.lower() for cause in Cause],
        "causeColors": [CAUSE_COLORS.get(name, "#999999") for name in causes],
    }


def _columns(timeline: Timeline) -> dict[str, npt.NDArray[np.generic]]:
    """Columns of events, of activities (``a_``) and of the buffers' occupancy, little-endian, for JavaScript."""
    events, program = timeline.events, timeline.program
    on_path = np.zeros(len(events.activity), dtype=np.uint8)
    on_path[critical_path(timeline)] = 1
    columns: dict[str, npt.NDArray[np.generic]] = {
        "start": events.start_cycles.astype("<f8"),
        "end": events.end_cycles.astype("<f8"),
        "finish": events.finish_cycles.astype("<f8"),
        "ready": events.ready_cycles.astype("<f8"),
        "bytes": events.bytes.astype("<f8"),
        "energy": event_energy_pj(timeline).astype("<f8"),
        "resource": events.resource.astype("<i4"),
        "activity": events.activity.astype("<i4"),
        "cause": events.cause.astype("<i4"),
        "because": cause_events(timeline).astype("<i4"),
        "path": on_path.astype("<i4"),
        "a_kind": _kinds(program).astype("<i4"),
        "a_operator": program.activities.operator.astype("<i4"),
        "a_tile": program.activities.tile.astype("<i4"),
        "a_tensor": program.activities.tensor.astype("<i4"),
    }
    for buffer in range(len(program.buffer_names)):
        held = buffer_occupancy(timeline, buffer)
        columns[f"held{buffer}_cycles"] = held.cycles.astype("<f8")
        columns[f"held{buffer}_bytes"] = held.values.astype("<f8")
    return columns


def _kinds(program: Program) -> npt.NDArray[np.int64]:
    """For each activity the place of its kind in ``KIND_COLORS``."""
    activities = program.activities
    load = activities.kind == ActivityKind.LOAD
    names = list(KIND_COLORS)
    found = np.select(
        [
            activities.kind == ActivityKind.STORE,
            activities.kind == ActivityKind.SEND,
            load & (activities.tile < 0),
            load,
            activities.vector_ops > 0,
        ],
        [names.index(name) for name in ("store", "send", "load of weights", "load of inputs", "vector tile")],
        names.index("array tile"),
    )
    return found.astype(np.int64)
