"""The viewer: timelines to zoom, pan and search in a page, above one another on one axis.

The events travel as columns of numbers, compressed, inside the page; the scripts of :data:`PARTS` draw the part that is
looked at.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from accelsim.analysis.energy import flowing_pj_per_cycle
from accelsim.analysis.report import known, report
from accelsim.analysis.roofs import ARRAY, DRAM, OPERATIONS_PER_MAC, VECTOR_UNIT, Roof, datasheet_roofs
from accelsim.analysis.roofs_file import kept_roofs
from accelsim.engine.replay import recorded_accelerator
from accelsim.errors import AccelsimError
from accelsim.plot.style import CAUSE_COLORS, FINER_CAUSE_COLORS, KIND_COLORS
from accelsim.program.tables import ActivityKind, ResourceKind
from accelsim.timeline.columns import event_energy_pj
from accelsim.timeline.kinds import KINDS, activity_kinds
from accelsim.timeline.occupancy import activity_spans, buffer_occupancy
from accelsim.timeline.stalls import CAUSE_NAMES, cause_events, critical_path, operator_intervals
from accelsim.timeline.table import Cause, Timeline

PARTS = ("series.js", "raster.js", "tracks.js", "curves.js", "panels.js", "viewer.js")
"""Files of ``scripts/``, in the order in which they become one script."""
GZIP_LEVEL = 5
CONTROLS = """<div class="bar-of-tools">
<input type="search" placeholder="find an operator or tensor" aria-label="search"><span class="matches note"></span>
<select aria-label="colours"><option value="kind">colour: kind</option>
<option value="operator">colour: operator</option>
<option value="cause">colour: what it waited for</option></select>
<button type="button" data-do="path" aria-pressed="false" title="C">critical path</button>
<button type="button" data-do="in" title="W" aria-label="zoom in">+</button>
<button type="button" data-do="out" title="S" aria-label="zoom out">−</button>
<button type="button" data-do="range" title="Z">zoom to selection</button>
<button type="button" data-do="all" title="F">whole run</button>
<details class="help"><summary>help</summary><div>Drag to pan; Ctrl + wheel, or the wheel over the axis, to zoom; double
click to zoom in. Shift + drag, or drag along the axis, to select a range; click the operator strip to select an
operator's cycles. Click an event for its causes, a buffer's curve for its contents, a label with ▸ for its rows. Keys:
W S zoom, A D or arrows pan, F whole run, Z zoom to the selection, / search, Enter or N next match, C critical path,
O all rows, Esc clear.</div></details></div>
"""
FRAME = (
    '<div class="stage" tabindex="0" aria-label="timeline"><div class="pane"><canvas></canvas>'
    '<canvas class="over"></canvas></div><div class="spacer"></div><div class="tip" hidden></div></div>'
    '<p class="legend key"></p>'
    '<div class="panels"><div class="event"></div><div class="range"></div>'
    '<div class="roofs" hidden><svg></svg></div></div>'
)
STYLE = """
.viewer { margin: 1.2rem 0; }
.viewer .bar-of-tools { align-items: center; display: flex; flex-wrap: wrap; gap: .4rem; margin: 0 0 .6rem; }
.viewer input, .viewer select, .viewer button { background: var(--card); border: 1px solid var(--line);
  border-radius: 6px; color: inherit; cursor: pointer; font: inherit; font-size: .88rem; padding: .2rem .6rem; }
.viewer input { cursor: text; width: 15rem; }
.viewer button[aria-pressed=true] { background: var(--ink); color: var(--ground); }
.viewer .stage { border-radius: 4px; cursor: grab; min-height: 120px; outline-offset: 3px; overflow: hidden auto;
  position: relative; touch-action: pan-y; user-select: none; }
.viewer .stage:active { cursor: grabbing; }
.viewer .stage.opens { cursor: pointer; }
.viewer .pane { height: 0; position: sticky; top: 0; }
.viewer .pane canvas { left: 0; position: absolute; top: 0; }
.viewer .tip { background: var(--card); border: 1px solid var(--line); border-radius: 6px; font-size: .82rem;
  max-width: 340px; overflow-wrap: anywhere; padding: .3rem .55rem; pointer-events: none; position: absolute;
  z-index: 3; }
.viewer .panels > * { min-width: 0; }
.viewer .panels { display: grid; gap: .4rem 1.8rem;
  grid-template-columns: repeat(auto-fit, minmax(min(330px, 100%), 1fr)); }
.viewer h3 { font-size: 1rem; margin: .5rem 0 .2rem; overflow-wrap: anywhere; }
.viewer h3 i, .viewer td i { border-radius: 2px; display: inline-block; height: .75em; margin-right: .45em;
  width: .75em; }
.viewer .panels table { font-size: .84rem; margin: .3rem 0 .6rem; }
.viewer .panels th { min-width: 0; overflow-wrap: normal; padding-right: 1rem; white-space: nowrap; }
.viewer .panels td { overflow-wrap: anywhere; padding-left: .9rem; padding-right: 0; white-space: normal; }
.viewer .panels p { margin: .2rem 0; }
.viewer .why { margin: .2rem 0; padding-left: 1.4rem; }
.viewer .why li { color: var(--soft); font-size: .88rem; margin: .2rem 0; overflow-wrap: anywhere; }
.viewer .why button { font-size: .85rem; padding: 0 .4rem; text-align: left; }
.viewer figure { margin: 0; }
.viewer .inset { display: block; max-width: 520px; width: 100%; }
.viewer .inset text { fill: var(--soft); font: 10px system-ui, "DejaVu Sans", sans-serif; }
.viewer .inset .grid { stroke: var(--line); }
.viewer .inset .roof { fill: none; stroke: var(--ink); stroke-width: 1.8; }
.viewer .inset .thin { stroke: var(--soft); stroke-width: 1; }
.viewer .inset .measured { stroke: var(--bar); stroke-dasharray: 5 3; stroke-width: 1.4; }
.viewer .help { font-size: .88rem; position: relative; }
.viewer .help summary { color: var(--soft); font-weight: 400; padding: .2rem .4rem; }
.viewer .help div { background: var(--card); border: 1px solid var(--line); border-radius: 6px; max-width: 30rem;
  padding: .6rem .8rem; position: absolute; right: 0; width: 80vw; z-index: 4; }
"""


def viewer(timelines: Sequence[tuple[str, Timeline]]) -> str:
    """HTML for the body of a page: the timelines, each with its label, and the script that draws them.

    It loads nothing from anywhere; equal timelines are equal bytes, as long as the same is measured of their machines.
    Where clocks differ, all are drawn in cycles of the first one's clock.
    """
    clock_hz = known(timelines[0][1].program, "clock_hz") if timelines else None
    payload, runs = _Payload(), []
    for label, timeline in timelines:
        clock = known(timeline.program, "clock_hz")
        scale = clock_hz / clock if clock_hz and clock else 1
        runs.append(_described(timeline, label) | {"scale": scale, "columns": _columns(payload, timeline)})
    text = json.dumps(
        {"runs": runs, "kindColors": [KIND_COLORS[kind] for kind in KINDS], "causeColors": _cause_colors()},
        separators=(",", ":"),
    )
    packed = base64.b64encode(gzip.compress(payload.content, GZIP_LEVEL, mtime=0)).decode()
    return (
        f'<div class="viewer">{CONTROLS}{FRAME}'
        f'<script type="application/json">{_in_script(text)}</script>'
        f'<script type="text/plain">{packed}</script>'
        f"<script>{script()}</script></div>"
    )


def _cause_colors() -> dict[str, str]:
    """By the name of the cause in lower case, as the columns' codes are named; and ``drain``."""
    causes = {cause.name.lower(): CAUSE_COLORS[CAUSE_NAMES[cause]] for cause in Cause}
    return causes | FINER_CAUSE_COLORS | {"drain": CAUSE_COLORS["drain"]}


@cache
def script() -> str:
    """The script of the viewer: its parts as one function, so that several viewers in a page do not meet."""
    parts = "\n".join((Path(__file__).parent / "scripts" / part).read_text(encoding="utf-8") for part in PARTS)
    return f'(() => {{\n"use strict";\n{parts}}})();'


def _in_script(text: str) -> str:
    """JSON that cannot end the element it stands in."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


class _Payload:
    """Columns of numbers behind one another, in few bytes: small types, differences, first bytes beside first bytes."""

    def __init__(self) -> None:
        self.content = b""

    def add(self, values: npt.NDArray[np.generic], *, rising: bool = False) -> list[object]:
        """Appends a column; returns its type, where it starts, its length, and whether it holds differences."""
        if rising:
            values = np.diff(values, prepend=values.dtype.type(0))
        kind = "f4" if values.dtype.kind == "f" else _smallest(values)
        start = len(self.content)
        raw = np.ascontiguousarray(values.astype(f"<{kind}")).view(np.uint8)
        self.content += np.ascontiguousarray(raw.reshape(len(values), -1).T).tobytes() if len(values) else b""
        return [kind, start, len(values), int(rising)]


def _smallest(values: npt.NDArray[np.generic]) -> str:
    """The smallest type that holds all values; ``f8`` holds whole numbers up to 2^53, beyond which it rounds."""
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    limits = (("u1", 0, 255), ("i2", -(1 << 15), (1 << 15) - 1), ("i4", -(1 << 31), (1 << 31) - 1))
    return next((kind for kind, least, most in limits if least <= low and high <= most), "f8")


def _described(timeline: Timeline, label: str) -> dict[str, object]:
    """What is not a column: names, rates, capacities."""
    program = timeline.program
    resources = program.resources
    queues = np.bincount(program.queues.resource, minlength=len(resources.kind)).tolist()
    rates = [
        float(Fraction(int(top), int(bottom))) if bottom else 0.0
        for top, bottom in zip(resources.bytes_numerator, resources.bytes_denominator, strict=True)
    ]
    return {
        "label": label,
        "title": f"{label}{': ' if label else ''}{report(timeline).title}",
        "latency": timeline.latency_cycles,
        "clock": known(program, "clock_hz") or 0,
        "macsPerCycle": known(program, "macs_per_cycle") or 0,
        "staticEnergy": flowing_pj_per_cycle(timeline),
        "roofs": _roofs(timeline),
        "resources": [
            {"name": name, "core": kind == ResourceKind.CORE, "rate": rate, "queues": count}
            for name, kind, rate, count in zip(
                program.resource_names, resources.kind.tolist(), rates, queues, strict=True
            )
        ],
        "queueNames": program.queue_names,
        "buffers": [
            {"name": name, "capacity": int(capacity)}
            for name, capacity in zip(program.buffer_names, program.buffers.capacity_bytes, strict=True)
        ],
        "operators": program.operator_names,
        "tensors": program.tensor_names,
        "kinds": KINDS,
        "causes": [cause.name.lower() for cause in Cause],
    }


def _roofs(timeline: Timeline) -> dict[str, object] | None:
    """The roofs of the recorded machine in operations and bytes a cycle, with the links whose bytes count.

    They are those of its template's datasheet, as often as the program has machines of it, and with them those that
    were measured on it, if they are kept; of a trace without a template, what its program says of array and links. The
    link is the one to DRAM; where none is called so, all that loads and stores cross.
    """
    program = timeline.program
    kind, queue = program.activities.kind, program.activities.queue
    used = np.unique(
        program.queues.resource[queue[(kind == ActivityKind.LOAD) | (kind == ActivityKind.STORE)]]
    ).tolist()
    links = [row for row in used if program.resource_names[row] == DRAM] or used
    if not links:
        return None
    rate = sum(
        Fraction(int(program.resources.bytes_numerator[row]), int(program.resources.bytes_denominator[row]))
        for row in links
    )
    array = known(program, "macs_per_cycle")
    found: dict[str, object] = {"bandwidth": float(rate), "links": links, "source": "program", "vector": 0}
    found["array"] = OPERATIONS_PER_MAC * array if array else 0
    try:
        accelerator = recorded_accelerator(timeline)
        roofs = datasheet_roofs(accelerator)
    except AccelsimError:
        return found if array else None
    machines = max(1, round((array or 0) / max(accelerator.macs_per_cycle, 1)))
    found |= {"source": "datasheet", "array": machines * _rate(roofs, ARRAY)}
    found["vector"] = machines * _rate(roofs, VECTOR_UNIT)
    kept = kept_roofs(accelerator) if machines == 1 else None
    if kept is not None:
        levels = {"array": ARRAY, "vector": VECTOR_UNIT, "bandwidth": DRAM}
        found["measured"] = {key: _rate(kept.measurement.roofs, level) for key, level in levels.items()}
    return found


def _rate(roofs: Sequence[Roof], level: str) -> float:
    """The highest rate of a level a cycle, 0 if there is none."""
    return max((roof.value for roof in roofs if roof.level == level and roof.unit.endswith("/cycle")), default=0)


def _columns(payload: _Payload, timeline: Timeline) -> dict[str, list[object]]:
    """Columns of events, of activities (``a_``), claims (``c_``), operators' cycles (``o_``) and what buffers hold.

    An event's end, ``ready`` and cause are told as distances from its start and row: those are small numbers.
    """
    events, program, activities = timeline.events, timeline.program, timeline.program.activities
    on_path = np.zeros(len(events.activity), dtype=np.uint8)
    on_path[critical_path(timeline)] = 1
    because = cause_events(timeline)
    strip_start, strip_end, strip_operator = operator_intervals(timeline)
    start, finish = activity_spans(timeline)
    claims = program.claims
    taken = np.where(claims.taken_by >= 0, start[claims.taken_by], 0) if program.size else 0 * claims.bytes
    back = np.full(len(claims.bytes), -1)
    np.maximum.at(back, program.releases.claim, finish[program.releases.activity])
    add = payload.add
    columns = {
        "start": add(events.start_cycles, rising=True),
        "cycles": add(events.end_cycles - events.start_cycles),
        "wait": add(events.start_cycles - events.ready_cycles),
        "bytes": add(events.bytes),
        "energy": add(event_energy_pj(timeline)),
        "resource": add(events.resource),
        "activity": add(events.activity, rising=True),
        "cause": add(events.cause),
        "back": add(np.where(because >= 0, np.arange(len(because)) - because, 0)),
        "path": add(on_path),
        "a_kind": add(activity_kinds(program)),
        "a_queue": add(activities.queue),
        "a_operator": add(activities.operator),
        "a_tile": add(activities.tile),
        "a_tensor": add(activities.tensor),
        "a_macs": add(activities.macs),
        "a_vector": add(activities.vector_ops),
        "o_start": add(strip_start, rising=True),
        "o_cycles": add(strip_end - strip_start),
        "o_operator": add(strip_operator),
        "c_buffer": add(claims.buffer),
        "c_bytes": add(claims.bytes),
        "c_tensor": add(claims.tensor),
        "c_taken": add(taken),
        "c_back": add(np.where(back >= 0, np.maximum(back, taken), timeline.latency_cycles)),
    }
    for buffer in range(len(program.buffer_names)):
        held = buffer_occupancy(timeline, buffer)
        columns[f"h{buffer}_cycles"] = add(held.cycles, rising=True)
        columns[f"h{buffer}_bytes"] = add(held.values)
    return columns
