"""``report.html``: everything about one run, or several side by side, in one file that loads nothing from anywhere."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from pathlib import Path

from accelsim.analysis.compare_report import Comparison
from accelsim.analysis.compare_runs import LABELS, compare_runs
from accelsim.analysis.energy import energy_by_operator_pj, energy_pj
from accelsim.analysis.report import Report, layers, report, summary
from accelsim.analysis.sections import Row, Section, section_table
from accelsim.errors import MissingExtra
from accelsim.files import write_whole
from accelsim.plot.style import CAUSE_COLORS, INK, figure_bytes
from accelsim.plot.timeline import timeline_figure
from accelsim.plot.viewer import STYLE as VIEWER_STYLE
from accelsim.plot.viewer import viewer
from accelsim.timeline.provenance import lasting
from accelsim.timeline.stalls import cycles_by_cause, cycles_by_operator
from accelsim.timeline.table import Timeline
from accelsim.units import format_bytes, format_energy, format_seconds

STYLE = """
:root { color-scheme: light dark; --ground: #ffffff; --ink: #1b1f24; --soft: #5b636e; --line: #d9dde3; --bar: #0072b2;
  --card: #f6f7f9; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171b; --ink: #e6e9ed; --soft: #9aa3af; --line: #343a42;
  --bar: #56b4e9; --card: #1c2127; } }
* { box-sizing: border-box; }
body { background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif;
  margin: 0 auto; max-width: 1760px; padding: 2rem 1.5rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 1.2rem; overflow-wrap: anywhere; }
h2 { border-top: 1px solid var(--line); font-size: 1.15rem; margin: 2.2rem 0 .8rem; padding-top: 1.2rem;
  overflow-wrap: anywhere; }
.figures { display: grid; gap: .75rem; grid-template-columns: repeat(auto-fit, minmax(165px, 1fr)); }
.figures div { background: var(--card); border-radius: 8px; padding: .7rem .9rem; }
.figures b { display: block; font-size: 1.3rem; font-weight: 650; white-space: nowrap; }
.figures span { color: var(--soft); display: block; font-size: .85rem; }
.picture { margin: 1.2rem 0; overflow-x: auto; }
.picture svg { display: block; height: auto; min-width: 760px; width: 100%; }
.picture svg text { font-family: "DejaVu Sans", Verdana, sans-serif !important; }
.tables { column-gap: 2.5rem; columns: 3 520px; }
table { border-collapse: collapse; break-inside: avoid; font-size: .9rem; margin: 0 0 1.4rem; width: 100%; }
caption { font-weight: 650; padding: .4rem 0; text-align: left; }
th, td { border-bottom: 1px solid var(--line); padding: .28rem .8rem .28rem 0; text-align: right;
  font-variant-numeric: tabular-nums; vertical-align: baseline; white-space: nowrap; }
th[scope=row] { font-weight: 400; min-width: 10.5rem; overflow-wrap: anywhere; text-align: left; white-space: normal; }
thead th { color: var(--soft); font-weight: 500; }
thead th:first-child { text-align: left; }
td.note { overflow-wrap: anywhere; text-align: left; white-space: normal; }
.bar { background: var(--line); border-radius: 2px; display: inline-block; height: .55em; min-width: 90px;
  width: 100%; }
.bar span { background: var(--bar); border-radius: 2px; display: block; height: 100%; }
.stack { border-radius: 4px; display: flex; height: 1.5rem; margin: .4rem 0 .6rem; overflow: hidden; }
.note, .legend { color: var(--soft); font-size: .88rem; }
.legend i { border-radius: 2px; display: inline-block; height: .75em; margin: 0 .35em 0 0; width: .75em; }
.legend span { margin-right: 1.1em; white-space: nowrap; }
pre { font-size: .8rem; overflow-x: auto; }
summary { cursor: pointer; font-weight: 650; padding: .4rem 0; }
@media print { :root { --ground: #fff; --ink: #000; --soft: #444; --line: #ccc; --card: #f3f3f3; --bar: #0072b2; }
  body { max-width: none; padding: 0; } .picture, table, .figures { break-inside: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""


def report_page(timelines: Sequence[Timeline], path: str | Path, sections: Sequence[str] = ()) -> None:
    """Writes the page of one or more runs; it appears whole or not at all, and equal runs are equal bytes.

    Args:
        timelines: the runs, the first of which others are compared with.
        path: the file to write.
        sections: more HTML, put before the runs as it is; who makes it escapes the names in it.

    Without matplotlib the page says how to get its pictures, and has all else.

    Raises:
        InputError: the file cannot be written.
    """
    write_whole(Path(path), page(timelines, sections).encode(errors="xmlcharrefreplace"))


def page(timelines: Sequence[Timeline], sections: Sequence[str] = ()) -> str:
    """The page as text. See :func:`report_page`."""
    reports = [report(timeline) for timeline in timelines]
    title = " and ".join(dict.fromkeys(one.title for one in reports)) or "No run"
    body = [f"<h1>{html.escape(title)}</h1>"]
    if len(reports) == 1:
        body += [*sections, *_run(reports[0], viewer([("", timelines[0])]))]
        return document(title, body)
    if reports:
        runs = Comparison(*timelines) if len(timelines) == 2 else compare_runs(timelines)
        labels = LABELS[: len(timelines)]
        body += [runs.sentences_html(), viewer(list(zip(labels, timelines, strict=True))), _side_by_side(reports)]
    body += sections
    for label, one in zip(LABELS, reports, strict=False):
        body += [f"<h2>Run {label}: {html.escape(one.title)}</h2>", *_run(one, "")]
    return document(title, body)


def document(title: str, body: Sequence[str]) -> str:
    """A whole page with the style of all pages; ``body`` is HTML, ``title`` is text."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}{VIEWER_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n"
        "</body>\n</html>\n"
    )


def _side_by_side(reports: list[Report]) -> str:
    """The key figures of all runs in one table, with the change against the first."""
    rows: list[tuple[str, list[float], Callable[[float], str]]] = [
        ("Cycles", [one.timeline.latency_cycles for one in reports], _whole),
        ("Energy", [energy_pj(one.timeline) for one in reports], format_energy),
    ]
    for cause in dict.fromkeys(cause for one in reports for cause in cycles_by_cause(one.timeline)):
        rows.append((f"Cycles: {cause}", [cycles_by_cause(one.timeline).get(cause, 0) for one in reports], _whole))
    lines = []
    for name, values, shown in rows:
        cells = [f"<td>{html.escape(shown(value))}{_change(value, values[0])}</td>" for value in values]
        lines.append(f'<tr><th scope="row">{html.escape(name)}</th>{"".join(cells)}</tr>')
    heads = "".join(
        f"<th>Run {label}: {html.escape(one.title)}</th>" for label, one in zip(LABELS, reports, strict=False)
    )
    return f"<table><caption>Side by side</caption><thead><tr><th></th>{heads}</tr></thead>{''.join(lines)}</table>"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _change(value: float, first: float) -> str:
    return f' <span class="note">{100 * (value - first) / first:+.1f} %</span>' if first and value != first else ""


def _run(one: Report, drawn: str) -> list[str]:
    timeline = one.timeline
    operators = html.escape(f"All {len(cycles_by_operator(timeline))} operators")
    return [
        _figures(timeline),
        drawn,
        _causes(timeline),
        f'<div class="tables">{"".join(section_table(section) for section in one.sections())}</div>',
        f"<details><summary>{operators}</summary>{_operators(timeline)}</details>",
        f"<details><summary>The timeline as a picture</summary>{picture(timeline)}</details>",
        f"<details><summary>Where this came from</summary>{_provenance(timeline)}</details>",
    ]


def _figures(timeline: Timeline) -> str:
    """The few numbers that one looks for first."""
    found = summary(timeline)
    seconds, gap, utilization = found["latency_seconds"], found["gap_percent"], found["utilization"]
    assert isinstance(utilization, dict)
    moved = sum(value for key in ("dram_read_bytes", "dram_write_bytes") if isinstance(value := found[key], int))
    cards = [(f"{timeline.latency_cycles:,}", "cycles")]
    cards += [(format_seconds(seconds), "latency")] if isinstance(seconds, float) else []
    cards += [(f"{gap:.1f} %", "above the lower bound")] if isinstance(gap, float) else []
    cards += [(format_energy(energy), "energy")] if (energy := energy_pj(timeline)) else []  # many traces tell none
    cards += [(format_bytes(moved), "over the links to DRAM")] if moved else []
    cards += [(f"{100 * utilization['mac']:.1f} %", "MAC utilisation")] if utilization["mac"] is not None else []
    boxes = "".join(f"<div><b>{html.escape(value)}</b><span>{text}</span></div>" for value, text in cards)
    return f'<div class="figures">{boxes}</div>'


def picture(timeline: Timeline, until_cycles: int | None = None) -> str:
    """The picture, drawn in the page's own colour of text; see :func:`accelsim.plot.timeline.timeline_figure`."""
    try:
        drawn = figure_bytes(timeline_figure(timeline, until_cycles), ".svg").decode()
    except MissingExtra as error:
        return f'<p class="note">No picture: {html.escape(str(error))}</p>'
    return f'<div class="picture">{drawn[drawn.index("<svg") :].replace(INK, "currentColor")}</div>'


def _causes(timeline: Timeline) -> str:
    """All cycles in one bar, coloured by cause."""
    latency = max(timeline.latency_cycles, 1)
    causes = {name: cycles for name, cycles in cycles_by_cause(timeline).items() if cycles}
    parts = "".join(
        f'<span style="width:{100 * cycles / latency:.4f}%;background:{CAUSE_COLORS[name]}" title="{name}"></span>'
        for name, cycles in causes.items()
    )
    legend = "".join(
        f'<span><i style="background:{CAUSE_COLORS[name]}"></i>{name} {100 * cycles / latency:.1f} %</span>'
        for name, cycles in causes.items()
    )
    return f'<div class="stack">{parts}</div><p class="legend">{legend}</p>'


def _operators(timeline: Timeline) -> str:
    """A table of all operators in computing order."""
    cycles, energy = cycles_by_operator(timeline), energy_by_operator_pj(timeline)
    rows = []
    for layer in layers(timeline):
        name, share = str(layer["name"]), layer["utilization"]
        cells = [
            f"{cycles.get(name, 0):,}",
            f"{layer['compute_cycles']:,}",
            f"{layer['macs']:,}",
            f"{100 * share:.1f} %" if isinstance(share, float) else "",
            html.escape(format_energy(energy.get(name, 0.0))),
        ]
        row = "".join(f"<td>{cell}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{html.escape(name)}</th>{row}</tr>')
    heads = "".join(
        f"<th>{head}</th>"
        for head in ("operator", "cycles, with waiting", "cycles of its tiles", "MACs", "MAC utilisation", "energy")
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _provenance(timeline: Timeline) -> str:
    """All that is known of how the run was made, and the facts of its program."""
    found = {"engine": timeline.engine, **timeline.program.facts, **lasting(timeline.provenance)}
    template = found.pop("hardware_template", None)
    shown = f"<pre>{html.escape(str(template))}</pre>" if template else ""
    return section_table(Section("", [Row(name, str(value)) for name, value in sorted(found.items())])) + shown
