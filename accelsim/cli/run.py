"""``accelsim run``, ``schedule``, ``explain`` and ``demo``: from a workload's name to a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli import common
from accelsim.cli.cycles import check_detail, cycle_facts, cycle_text, with_cycles, write_cycles
from accelsim.cli.search import search
from accelsim.cli.share import Shared, sharing, sharing_options
from accelsim.errors import MissingExtra
from accelsim.files import write_whole

if TYPE_CHECKING:
    from accelsim.job import Found
    from accelsim.program.tables import Program
    from accelsim.schedule.notation import Schedule
    from accelsim.timeline.table import Timeline

MOST_NOTES = 6
"""More notes about a workload than these are only counted."""


@click.command("run")
@common.what_runs
@click.argument("others", nargs=-1, metavar="[WORKLOAD]...")
@sharing_options
@common.engine
@click.option("--per-layer", is_flag=True, help="Add a line for each operator.")
@click.option("--detail", default="tile", show_default=True, help="tile, or cycle: the arrays clock by clock.")
@click.option("--out", type=click.Path(), help="Folder for timeline.npz, schedule.json, summary.json and report.html.")
@common.as_json
def run_command(
    engine: str,
    per_layer: bool,
    detail: str,
    out: str | None,
    as_json: bool,
    others: tuple[str, ...],
    shared: Shared,
    **what: Any,
) -> None:
    """Find a schedule, lower it, simulate it, report; of several WORKLOADs at once with --share.

    WORKLOAD is a name (accelsim list workloads) or a file: .onnx, .yaml, a config.json of Hugging Face, a SCALE-Sim
    topology .csv, a layer list .json.

    \b
      accelsim run resnet50 --hardware soma_edge
      accelsim run model.onnx --hardware my_chip.yaml --scheduler best --out run1
      accelsim run resnet50 --hardware soma_edge --set "dram.bandwidth=32 GB/s" --json
    """
    from accelsim.analysis.report import report

    if out is not None:
        common.make_folder(Path(out))
    shared.check(len(others), what["schedule_file"])
    check_detail(detail)
    if others:
        timeline, schedule = run_together((what.pop("workload"), *others), shared, engine, **what), None
    else:
        timeline, schedule = run(engine=engine, **what)
    result = report(timeline, per_layer=per_layer)
    texts, figures = [str(result)], result.to_dict()
    if others:
        found = sharing(timeline)
        texts.append(str(found))
        figures |= found.to_dict()
    if detail == "cycle":
        timeline, cycles = with_cycles(timeline)
        texts.append(cycle_text(cycles))
        figures["cycle_detail"] = cycle_facts(cycles)
        if out is not None:
            write_cycles(Path(out), cycles)
    if out is not None:
        write_run(Path(out), timeline, schedule)
    if as_json:
        common.print_json(figures)
    else:
        click.echo("\n".join(texts))


@click.command("schedule")
@common.what_runs
@click.option("--out", required=True, type=click.Path(), help="The schedule file to write.")
@common.as_json
def schedule_command(out: str, as_json: bool, **what: Any) -> None:
    """Only find a schedule, and save it."""
    from accelsim.formats.schedule_json import write_schedule

    _, _, schedule, facts, _ = find_schedule(**what)
    write_whole(Path(out), write_schedule(schedule).encode())
    if as_json:
        facts.pop("hardware_template")
        common.print_json({**facts, "workload": schedule.workload, "out": out})
    else:
        tiles = f"{len(schedule.groups)} fused groups in {len(schedule.layer_groups)} layer groups"
        click.echo(f"{out}: {tiles}, by {facts['scheduler']} in {facts['search_seconds']:.2f} s")


@click.command("explain")
@common.what_runs
@click.option("--rows", type=click.IntRange(min=1), default=40, show_default=True, help="Rows a table.")
@common.as_json
def explain_command(rows: int, as_json: bool, **what: Any) -> None:
    """The Program in words and tables, before it runs."""
    from accelsim.program.explain import explain

    _, program = lower(**what)
    explanation = explain(program, rows, common.terminal_columns())
    if as_json:
        common.print_json(explanation.to_dict())
    else:
        click.echo(str(explanation))


@click.command("demo")
def demo_command() -> None:
    """ResNet-50 on a 16 TOPS edge machine, layer by layer and scheduled: prints both, writes report.html here."""
    from accelsim.analysis.compare_report import bullets, compare
    from accelsim.analysis.report import report
    from accelsim.library import shipped_onnx
    from accelsim.plot.report_page import report_page
    from accelsim.search import BEST

    out = Path("report.html")
    timelines = []
    for scheduler in dict.fromkeys(("layerwise", BEST)):
        model = str(shipped_onnx("resnet50"))
        timeline, _ = run(workload=model, hardware="soma_edge", scheduler=scheduler, bits=8, time_limit=20.0)
        timelines.append(timeline)
        click.echo(f"{report(timeline)}\n")
    if len(timelines) > 1:
        click.echo("B against A:")
        click.echo("\n".join(bullets(compare(*timelines).sentences)))
    with common.progress("drawing the timelines"):
        report_page(timelines, out)
    click.echo(f"The timelines as pictures, and all tables: {out}")


def run(*, engine: str = "compiled", **what: Any) -> tuple[Timeline, Schedule]:
    """Searches, lowers and simulates; the timeline's provenance says how."""
    found, program = lower(**what)
    with common.progress("simulating"):
        return found.run(program, engine), found.schedule


def run_together(workloads: tuple[str, ...], shared: Shared, engine: str, **what: Any) -> Timeline:
    """Searches for each workload on its own, and simulates all on one machine."""
    from accelsim.engine import simulate
    from accelsim.timeline.provenance import with_provenance

    found = [lower(workload=workload, **what) for workload in workloads]
    with common.progress("simulating"):
        timeline = simulate([program for _, program in found], engine, **shared.arguments())
    facts = {name: value for name, value in found[0][0].facts.items() if name in ("scheduler", "seed", "objective")}
    return with_provenance(timeline, **facts, hardware_template=found[0][0].accelerator.source)


def lower(**what: Any) -> tuple[Found, Program]:
    """Searches and lowers."""
    found = find_schedule(**what)
    with common.progress("lowering"):
        program = found.lower()
    if over := program.facts.get("over_capacity_bytes"):
        click.echo(
            f"note: this run was given {over} bytes more than the global buffer holds: see docs/model.md", err=True
        )
    return found, program


def find_schedule(**what: Any) -> Found:
    """Loads workload and machine, and the schedule or a search for one; says on stderr what one should know of them."""
    from accelsim.job import Job

    found = Job(**what).find_schedule(search, common.progress)
    for note in found.notes[:MOST_NOTES]:
        click.echo(f"note: {note}", err=True)
    if len(found.notes) > MOST_NOTES:
        click.echo(f"note: and {len(found.notes) - MOST_NOTES} more of this kind", err=True)
    return found


def write_run(folder: Path, timeline: Timeline, schedule: Schedule | None) -> None:
    """What ``--out`` leaves: each file appears whole or not at all."""
    from accelsim.analysis.report import report
    from accelsim.formats import save_timeline
    from accelsim.formats.schedule_json import write_schedule
    from accelsim.plot.report_page import report_page

    save_timeline(timeline, folder / "timeline.npz")
    if schedule is not None:
        write_whole(folder / "schedule.json", write_schedule(schedule).encode())
    summary = json.dumps(report(timeline, per_layer=True).to_dict(), indent=1, allow_nan=False)
    write_whole(folder / "summary.json", summary.encode())
    try:
        with common.progress("drawing the timeline"):
            report_page([timeline], folder / "report.html")
    except MissingExtra as error:
        click.echo(f"note: no report.html: {error}", err=True)
