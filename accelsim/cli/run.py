"""``accelsim run``, ``schedule``, ``explain`` and ``demo``: from a workload's name to a report."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from accelsim.cli import common
from accelsim.cli.search import SearchOptions, search
from accelsim.errors import InputError, MissingExtra
from accelsim.files import write_whole

if TYPE_CHECKING:
    from accelsim.hardware.accelerator import Accelerator
    from accelsim.program.tables import Program
    from accelsim.schedule.notation import Schedule
    from accelsim.timeline.table import Timeline
    from accelsim.workload.graph import Workload

MOST_NOTES = 6
"""More notes about a workload than these are only counted."""


@click.command("run")
@common.what_runs
@common.engine
@click.option("--per-layer", is_flag=True, help="Add a line for each operator.")
@click.option("--out", type=click.Path(), help="Folder for timeline.npz, schedule.json, summary.json and report.html.")
@common.as_json
def run_command(engine: str, per_layer: bool, out: str | None, as_json: bool, **what: Any) -> None:
    """Find a schedule, lower it, simulate it, report."""
    from accelsim.analysis.report import report

    if out is not None:
        common.make_folder(Path(out))
    timeline, schedule = run(engine=engine, **what)
    result = report(timeline, per_layer=per_layer)
    if out is not None:
        write_run(Path(out), timeline, schedule)
    if as_json:
        common.print_json(result.to_dict())
    else:
        click.echo(str(result))


@click.command("schedule")
@common.what_runs
@click.option("--out", required=True, type=click.Path(), help="The schedule file to write.")
@common.as_json
def schedule_command(out: str, as_json: bool, **what: Any) -> None:
    """Only find a schedule, and save it."""
    from accelsim.formats.schedule_json import write_schedule

    _, _, found, facts = find_schedule(**what)
    write_whole(Path(out), write_schedule(found).encode())
    if as_json:
        common.print_json({**facts, "workload": found.workload, "out": out})
    else:
        tiles = f"{len(found.groups)} fused groups in {len(found.layer_groups)} layer groups"
        click.echo(f"{out}: {tiles}, by {facts['scheduler']} in {facts['search_seconds']:.2f} s")


@click.command("explain")
@common.what_runs
@click.option("--rows", type=click.IntRange(min=1), default=40, show_default=True, help="Rows a table.")
@common.as_json
def explain_command(rows: int, as_json: bool, **what: Any) -> None:
    """The Program in words and tables, before it runs."""
    from accelsim.program.explain import explain

    program, _, _ = lower(**what)
    explanation = explain(program, rows)
    if as_json:
        common.print_json(explanation.to_dict())
    else:
        click.echo(str(explanation))


@click.command("demo")
def demo_command() -> None:
    """ResNet-50 on a 16 TOPS edge machine, layer by layer and scheduled: prints both, writes report.html here."""
    from accelsim.analysis.report import report
    from accelsim.library import shipped_onnx
    from accelsim.plot.report_page import report_page
    from accelsim.search import BEST

    out = Path("report.html")
    timelines = []
    for scheduler in dict.fromkeys(("layerwise", BEST)):
        model = str(shipped_onnx("resnet50"))
        timeline, _ = run(workload=model, hardware="soma_edge", scheduler=scheduler, time_limit=20.0)
        timelines.append(timeline)
        click.echo(f"{report(timeline)}\n")
    if len(timelines) > 1:
        slow, fast = (timeline.latency_cycles for timeline in timelines)
        click.echo(f"{BEST} is {slow / fast:.2f} times as fast as layerwise.")
    with common.progress("drawing the timelines"):
        report_page(timelines, out)
    click.echo(f"The timelines as pictures, and all tables: {out}")


def run(*, engine: str = "compiled", workload: str, hardware: str, **what: Any) -> tuple[Timeline, Schedule]:
    """Searches, lowers and simulates; the timeline's provenance says how."""
    from accelsim.engine import simulate
    from accelsim.timeline.provenance import with_provenance

    program, schedule, facts = lower(workload=workload, hardware=hardware, **what)
    with common.progress("simulating"):
        began = time.perf_counter()
        timeline = simulate(program, engine=engine)
        facts["simulate_seconds"] = time.perf_counter() - began
    return with_provenance(timeline, **facts), schedule


def lower(**what: Any) -> tuple[Program, Schedule, dict[str, Any]]:
    """Searches and lowers; with the facts that provenance keeps."""
    from accelsim.program.lower import lower as lower_schedule

    workload, accelerator, schedule, facts = find_schedule(**what)
    facts["hardware_template"] = accelerator.source  # from which `replay` makes the machine again
    with common.progress("lowering"):
        program = lower_schedule(workload, accelerator, schedule)
    if over := program.facts.get("over_capacity_bytes"):
        click.echo(
            f"note: this run was given {over} bytes more than the global buffer holds: see docs/model.md", err=True
        )
    return program, schedule, facts


def find_schedule(
    *,
    workload: str,
    hardware: str,
    scheduler: str | None = None,
    schedule_file: str | None = None,
    batch: int = 1,
    phase: str | None = None,
    sequence_length: int | None = None,
    context_length: int | None = None,
    bits: int | None = None,
    bind: dict[str, int] | None = None,
    overrides: tuple[str, ...] = (),
    objective: str = "energy^1*delay^1",
    seed: int = 0,
    seeds: int = 1,
    time_limit: float | None = None,
    checkpoint: str | None = None,
    allow_unsupported: bool = False,
) -> tuple[Workload, Accelerator, Schedule, dict[str, Any]]:
    """Loads workload and machine, and the schedule or a search for one; with the facts that provenance keeps."""
    from accelsim.formats.schedule_json import read_schedule
    from accelsim.library import load_accelerator, load_workload
    from accelsim.search.objective import parse_objective
    from accelsim.workload.cut import cut_to_fit

    if scheduler is not None and schedule_file is not None:
        raise InputError("--scheduler and --schedule exclude each other: search for a schedule, or give one")
    goal = parse_objective(objective)
    accelerator = load_accelerator(hardware, overrides)
    given: dict[str, Any] = {
        "phase": phase,
        "sequence_length": sequence_length,
        "context_length": context_length,
        "bits": bits,
        "bind": bind,
    }
    parameters = {name: value for name, value in given.items() if value is not None}
    with common.progress(f"reading {workload}"):
        loaded = load_workload(workload, batch=batch, allow_unsupported=allow_unsupported, **parameters)
    whole = accelerator.dataflow.one_tile_per_operator
    fitted = loaded if whole else cut_to_fit(loaded, accelerator.buffers["global"].capacity_bytes)
    notes = (*accelerator.notes, *fitted.notes)
    for note in notes[:MOST_NOTES]:
        click.echo(f"note: {note}", err=True)
    if len(notes) > MOST_NOTES:
        click.echo(f"note: and {len(notes) - MOST_NOTES} more of this kind", err=True)
    facts: dict[str, Any] = {"scheduler": None, "seed": seed, "objective": str(goal), "search_seconds": 0.0}
    facts["workload_source"] = workload  # with the two below, from which `advise` makes the workload again
    facts |= {"workload_parameters": parameters} if parameters else {}
    facts |= {"allow_unsupported": True} if allow_unsupported else {}
    if schedule_file is not None:
        return fitted, accelerator, read_schedule(schedule_file), facts
    began = time.perf_counter()
    place = None if checkpoint is None else Path(checkpoint)
    options = SearchOptions(scheduler or "layerwise", goal, seed, seeds, time_limit, place)
    result = search(fitted, accelerator, options)
    facts["seed"] = seed if result.seed is None else result.seed
    facts |= {"scheduler": result.scheduler, "search_seconds": time.perf_counter() - began}
    return fitted, accelerator, result.schedule, facts


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
