"""The roofline as one page: both maps side by side, linked to each other and to a table; it loads nothing."""

from __future__ import annotations

import html
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.analysis.ceilings import ceilings
from accelsim.analysis.ladder import energy_ladder, performance_ladder
from accelsim.analysis.ledger_report import ladder_rows
from accelsim.analysis.sections import Section, section_table
from accelsim.plot.report_page import STYLE

if TYPE_CHECKING:
    from accelsim.analysis.roofs import Roof
    from accelsim.plot.roofline import Roofline, Run

PAGE_STYLE = """
body { max-width: 1500px; }
.controls { align-items: center; display: flex; flex-wrap: wrap; gap: .4rem 1.4rem; margin: 0 0 .8rem; }
.controls fieldset { border: 0; display: flex; gap: 1rem; margin: 0; padding: 0; }
.controls input[type=search] { background: var(--card); border: 1px solid var(--line); border-radius: 6px;
  color: var(--ink); font: inherit; padding: .2rem .6rem; }
.maps { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(480px, 1fr)); }
.maps figure { margin: 0; }
.maps figcaption { font-weight: 650; margin: 0 0 .3rem; }
.maps svg { display: block; height: auto; width: 100%; }
.maps text { fill: var(--ink); font: 12px system-ui, "DejaVu Sans", sans-serif; }
.maps text.soft { fill: var(--soft); }
.maps text.halo { paint-order: stroke; stroke: var(--ground); stroke-linejoin: round; stroke-width: 4px; }
.maps .grid { stroke: var(--line); stroke-width: 1; }
.maps .minor { opacity: .45; }
.maps .roof { fill: none; stroke: var(--ink); stroke-width: 2; }
.maps .datasheet { stroke-dasharray: 7 5; }
.maps .thin { stroke: var(--soft); stroke-width: 1.4; }
.maps .mark { stroke: var(--soft); stroke-dasharray: 2 4; stroke-width: 1; }
.maps .plot { position: relative; }
.maps canvas { height: 100%; left: 0; pointer-events: none; position: absolute; top: 0; width: 100%; }
.maps .over { pointer-events: none; position: absolute; top: 0; }
.maps .lit { fill: none; stroke: var(--ink); stroke-width: 2.5; }
.maps .ribbon { fill: var(--soft); opacity: .25; }
.maps .ceiling { stroke: #009E73; stroke-dasharray: 2 4; stroke-width: 1.5; }
.maps text.green { fill: #009E73; }
.maps .path { fill: none; stroke: var(--soft); stroke-width: 1; }
.maps .window { stroke: var(--ink); stroke-width: .6; pointer-events: auto; }
.maps .knee { fill: none; stroke: var(--soft); stroke-width: 1.4; }
#tip { background: var(--card); border: 1px solid var(--line); border-radius: 8px; box-shadow: 0 2px 10px #0003;
  display: none; font-size: .86rem; max-width: 330px; padding: .5rem .7rem; pointer-events: none; position: fixed;
  z-index: 2; }
#tip b { display: block; overflow-wrap: anywhere; }
#tip table { margin: 0; width: auto; }
#tip td { border: 0; padding: 0 0 0 1rem; }
#tip td:first-child { padding: 0; text-align: left; }
.scroll { max-height: 460px; overflow: auto; }
#table thead th { background: var(--ground); cursor: pointer; position: sticky; top: 0; }
#table tr.lit { background: var(--card); outline: 1px solid var(--soft); }
"""


def roofline_page(roofline: Roofline) -> str:
    """The page as text; names in it are escaped."""
    accelerator = roofline.accelerator
    title = f"Roofline of {accelerator.name}"
    content = {
        "roofs": [_roof(roof) for roof in roofline.roofs],
        "runs": [_run(roofline, run) for run in roofline.runs],
        "knee": [_rounded(point._asdict()) for point in roofline.measurement.knee] if roofline.measurement else [],
        "clock_hz": accelerator.clock_hz,
    }
    data = json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    scripts = Path(__file__).parent / "scripts"
    script = "".join((scripts / name).read_text(encoding="utf-8") for name in ("roofline.js", "roofline_over.js"))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}{PAGE_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{html.escape(title)}</h1>\n"
        f'<p class="note">{html.escape(accelerator.description)}. {_COUNTED[roofline.operations]} {_EXPLANATION}</p>\n'
        '<div class="controls"><fieldset id="levels"></fieldset><span id="runs" class="legend"></span>'
        f"{_CHECKS}"
        '<input type="search" id="search" placeholder="find an operator" aria-label="find an operator"></div>\n'
        f'<div class="maps"><figure><figcaption>Performance</figcaption>{_plot("performance")}</figure>'
        f"<figure><figcaption>Energy</figcaption>{_plot('energy')}</figure>"
        '<figure style="display:none"><figcaption>Utilisation over time</figcaption><svg id="plane"></svg></figure>'
        "</div>\n"
        f"{_ladders(roofline)}"
        '<h2>Points</h2><div class="scroll"><table id="table"></table></div><p id="more" class="note"></p>'
        '<div id="tip"></div>\n'
        "<noscript>The maps are drawn by a script inside this page.</noscript>\n"
        f'<script type="application/json" id="data">{data}</script>\n<script>\n{script}</script>\n</body>\n</html>\n'
    )


_CHECKS = "".join(
    f'<label style="display:none"><input type="checkbox" id="show-{name}"> {text}</label>'
    for name, text in (("ceilings", "ceilings of the first run"), ("path", "its path over time"))
)
_COUNTED = {
    "dense": "One multiply-accumulate counts two operations, zeros or not.",
    "effectual": "One multiply-accumulate counts two operations, and none where an operand is known to be zero.",
}
_EXPLANATION = (
    "Roofs of the datasheet are dashed, measured ones solid; a point's "
    "area is its share of the run's cycles. An operator's time is that attributed to it, or that of its transfers "
    "where these took longer, hidden behind other operators."
)


def _ladders(roofline: Roofline) -> str:
    """The losses of each run, from the roofs down to its point."""
    tables = []
    for run in roofline.runs:
        point = next(one for one in run.points if one.name == "run")
        for name, unit, rungs in (
            ("performance", "op/cycle", performance_ladder(run.ledger, point)),
            ("energy", "op/pJ", energy_ladder(run.ledger, point)),
        ):
            if rungs:
                title = f"{run.name}: from the {name} roof to the point, {unit}"
                tables.append(section_table(Section(title, ladder_rows(rungs, unit))))
    return f'<h2>From roof to point</h2><div class="tables">{"".join(tables)}</div>\n' if tables else ""


def _plot(name: str) -> str:
    """Axes and roofs, upon them the points as pixels, and above all the labels."""
    return f'<div class="plot"><svg id="{name}"></svg><canvas></canvas><svg class="over"></svg></div>'


def _roof(roof: Roof) -> dict[str, Any]:
    """A roof, and how far it may lie below and above."""
    band = {"band": [round(end, 7) for end in roof.uncertainty.band]} if roof.uncertainty else {}
    fields = ("level", "unit", "source", "value")
    return {**_rounded({name: getattr(roof, name) for name in fields}), **band}


def _run(roofline: Roofline, run: Run) -> dict[str, Any]:
    """Points, ceilings, and the path over time; a window without bytes has no intensity."""
    path = run.trajectory
    columns = ("intensity", "ops_per_cycle", "ops_per_pj", "utilization", "memory_utilization")
    return {
        "name": run.name,
        **_columns([_rounded(point.to_dict()) for point in run.points]),
        "ceilings": [_rounded(one._asdict()) for one in ceilings(roofline.accelerator, run.ledger, run.points)],
        "path": {
            "cycles": path.cycles,
            **{
                name: [
                    float(f"{value:.5g}") if math.isfinite(value) else None for value in getattr(path, name).tolist()
                ]
                for name in columns
            },
        },
    }


def _columns(points: list[dict[str, Any]]) -> dict[str, Any]:
    """Many points in few bytes: the names of the fields once, then a row a point."""
    return {"fields": list(points[0]) if points else [], "rows": [list(point.values()) for point in points]}


def _rounded(fields: dict[str, Any]) -> dict[str, Any]:
    """Numbers to seven digits, which no screen shows more of."""
    return {name: float(f"{value:.7g}") if isinstance(value, float) else value for name, value in fields.items()}
