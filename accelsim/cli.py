"""The command line: arguments in, calls out. Everything heavy is imported inside the command that needs it."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from accelsim import __version__
from accelsim.errors import AccelsimError, InputError, MissingExtra
from accelsim.files import write_whole

if TYPE_CHECKING:
    from accelsim.hardware.accelerator import Accelerator
    from accelsim.program.tables import Program
    from accelsim.schedule.notation import Schedule
    from accelsim.timeline.table import Timeline
    from accelsim.workload.graph import Workload

Command = TypeVar("Command", bound=Callable[..., Any])

KINDS = ("workloads", "hardware", "schedulers", "dataflows", "memories", "formats")


def main() -> NoReturn:
    """Entry point. A user's mistake ends with status 2 and a message, a fault of ours with status 1."""
    try:
        status = cli.main(standalone_mode=False)
        sys.stdout.flush()
        sys.exit(status if isinstance(status, int) else 0)
    except AccelsimError as error:
        click.echo(f"accelsim: {type(error).__name__}: {error}", err=True)
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("accelsim: stopped", err=True)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has gone, as in `accelsim list … | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (OSError, MemoryError) as error:
        click.echo(f"accelsim: {error}", err=True)
        sys.exit(2)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__)
def cli() -> None:
    """Cycle-level simulation of machine-learning accelerators."""


def _options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_what_runs = _options(
    click.argument("workload"),
    click.option("--hardware", required=True, help="Name of a template (accelsim list hardware), or a path to one."),
    click.option("--scheduler", default=None, help="How to find a schedule. [default: layerwise]"),
    click.option("--schedule", "schedule_file", type=click.Path(), help="A schedule file, instead of a scheduler."),
    click.option("--batch", type=click.IntRange(min=1, max=1 << 20), default=1, help="Samples at once. [default: 1]"),
    click.option("--sequence-length", type=click.IntRange(min=1, max=1 << 24), help="Tokens, for language models."),
    click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a field of the template."),
    click.option("--objective", default="energy^1*delay^1", show_default=True, help="What the search minimises."),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the search."),
    click.option("--time-limit", type=click.FloatRange(min=0, min_open=True), help="Seconds that the search may take."),
    click.option("--allow-unsupported", is_flag=True, help="Count operators that are not understood as moved data."),
)
_as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_engine = click.option("--engine", default="compiled", show_default=True, help="compiled or reference.")


@cli.command("list")
@click.argument("kind", type=click.Choice(KINDS))
@_as_json
def list_command(kind: str, as_json: bool) -> None:
    """What there is, one line each."""
    found = _listing(kind)
    if as_json:
        _print_json({kind: [{"name": name, "text": text} for name, text in found.items()]})
        return
    width = max((len(name) for name in found), default=0)
    for name, text in found.items():
        click.echo(f"{name:<{width}}  {text}")


@cli.command()
@_what_runs
@_engine
@click.option("--per-layer", is_flag=True, help="Add a line for each operator.")
@click.option("--out", type=click.Path(), help="Folder for timeline.npz, schedule.json, summary.json and report.html.")
@_as_json
def run(engine: str, per_layer: bool, out: str | None, as_json: bool, **what: Any) -> None:
    """Find a schedule, lower it, simulate it, report."""
    from accelsim.analysis.report import report

    if out is not None:
        _make_folder(Path(out))
    timeline, schedule = _run(engine=engine, **what)
    result = report(timeline, per_layer=per_layer)
    if out is not None:
        _write_run(Path(out), timeline, schedule)
    if as_json:
        _print_json(result.to_dict())
    else:
        click.echo(str(result))


@cli.command()
@_what_runs
@click.option("--out", required=True, type=click.Path(), help="The schedule file to write.")
@_as_json
def schedule(out: str, as_json: bool, **what: Any) -> None:
    """Only find a schedule, and save it."""
    from accelsim.formats.schedule_json import write_schedule

    _, _, found, facts = _find_schedule(**what)
    write_whole(Path(out), write_schedule(found).encode())
    if as_json:
        _print_json({**facts, "workload": found.workload, "out": out})
    else:
        tiles = f"{len(found.groups)} fused groups in {len(found.layer_groups)} layer groups"
        click.echo(f"{out}: {tiles}, by {facts['scheduler']} in {facts['search_seconds']:.2f} s")


@cli.command()
@_what_runs
@click.option("--rows", type=click.IntRange(min=1), default=40, show_default=True, help="Rows a table.")
@_as_json
def explain(rows: int, as_json: bool, **what: Any) -> None:
    """The Program in words and tables, before it runs."""
    from accelsim.program.explain import explain as explain_program

    program, _, _ = _lower(**what)
    explanation = explain_program(program, rows)
    if as_json:
        _print_json(explanation.to_dict())
    else:
        click.echo(str(explanation))


@cli.command()
@click.argument("timeline", type=click.Path())
@click.option("--format", "format_name", required=True, help="perfetto, csv … (accelsim list formats).")
@click.option("--out", required=True, type=click.Path(), help="The file to write.")
def export(timeline: str, format_name: str, out: str) -> None:
    """A timeline in another tool's format."""
    from accelsim.formats import export_timeline, load_timeline

    loaded = load_timeline(timeline)
    with _progress(f"writing {format_name}"):
        export_timeline(loaded, Path(out), format_name)
    click.echo(f"{out}: {Path(out).stat().st_size:,} bytes", err=True)


@cli.command()
def demo() -> None:
    """ResNet-50 on a 16 TOPS edge machine: runs it, prints the report, writes report.html here."""
    from accelsim.analysis.report import report
    from accelsim.library import shipped_onnx
    from accelsim.plot.report_page import report_page

    out = Path("report.html")
    timeline, _ = _run(workload=str(shipped_onnx("resnet50")), hardware="soma_edge", scheduler="layerwise")
    click.echo(str(report(timeline)))
    with _progress("drawing the timeline"):
        report_page([timeline], out)
    click.echo(f"\nThe timeline as a picture, and all tables: {out}")


def _run(*, engine: str = "compiled", workload: str, hardware: str, **what: Any) -> tuple[Timeline, Schedule]:
    """Searches, lowers and simulates; the timeline's provenance says how."""
    from accelsim.engine import simulate
    from accelsim.timeline.provenance import with_provenance

    program, schedule, facts = _lower(workload=workload, hardware=hardware, **what)
    with _progress("simulating"):
        began = time.perf_counter()
        timeline = simulate(program, engine=engine)
        facts["simulate_seconds"] = time.perf_counter() - began
    return with_provenance(timeline, **facts), schedule


def _lower(**what: Any) -> tuple[Program, Schedule, dict[str, Any]]:
    from accelsim.program.lower import lower

    workload, accelerator, schedule, facts = _find_schedule(**what)
    with _progress("lowering"):
        return lower(workload, accelerator, schedule), schedule, facts


def _find_schedule(
    *,
    workload: str,
    hardware: str,
    scheduler: str | None = None,
    schedule_file: str | None = None,
    batch: int = 1,
    sequence_length: int | None = None,
    overrides: tuple[str, ...] = (),
    objective: str = "energy^1*delay^1",
    seed: int = 0,
    time_limit: float | None = None,
    allow_unsupported: bool = False,
) -> tuple[Workload, Accelerator, Schedule, dict[str, Any]]:
    """Loads workload and machine, and the schedule or a search for one; with the facts that provenance keeps."""
    from accelsim.formats.schedule_json import read_schedule
    from accelsim.library import load_accelerator, load_workload
    from accelsim.search import BEST, SCHEDULERS
    from accelsim.search.objective import parse_objective
    from accelsim.units import did_you_mean
    from accelsim.workload.cut import cut_to_fit

    if scheduler is not None and schedule_file is not None:
        raise InputError("--scheduler and --schedule exclude each other: search for a schedule, or give one")
    goal = parse_objective(objective)
    accelerator = load_accelerator(hardware, overrides)
    parameters = {} if sequence_length is None else {"sequence_length": sequence_length}
    with _progress(f"reading {workload}"):
        loaded = load_workload(workload, batch=batch, allow_unsupported=allow_unsupported, **parameters)
    fitted = cut_to_fit(loaded, accelerator.buffers["global"].capacity_bytes)
    for note in fitted.notes:
        click.echo(f"note: {note}", err=True)
    facts: dict[str, Any] = {"scheduler": None, "seed": seed, "objective": str(goal), "search_seconds": 0.0}
    if schedule_file is not None:
        return fitted, accelerator, read_schedule(schedule_file), facts
    name = {None: "layerwise", "best": BEST}.get(scheduler, scheduler)
    if name not in SCHEDULERS:
        raise InputError(
            f"no scheduler '{name}'{did_you_mean(str(name), SCHEDULERS)}; there are {', '.join(SCHEDULERS)}"
        )
    with _progress(f"scheduling with {name}"):
        began = time.perf_counter()
        result = SCHEDULERS[name]().search(fitted, accelerator)
    return (
        fitted,
        accelerator,
        result.schedule,
        {
            **facts,
            "scheduler": result.scheduler,
            "search_seconds": time.perf_counter() - began,
        },
    )


def _listing(kind: str) -> dict[str, str]:
    from accelsim import library

    if kind == "workloads":
        return library.list_workloads()
    if kind == "hardware":
        return library.list_accelerators()
    if kind == "memories":
        return library.list_memories()
    if kind == "dataflows":
        from accelsim.hardware.dataflow import DATAFLOWS

        return {name: _first_sentence(dataflow.__doc__) for name, dataflow in DATAFLOWS.items()}
    if kind == "formats":
        from accelsim.formats import FORMATS

        return dict(FORMATS)
    from accelsim.search import BEST, SCHEDULERS

    found = {name: scheduler.text for name, scheduler in SCHEDULERS.items()}
    return {**found, "best": f"the one that we recommend: {BEST}"}


def _first_sentence(text: str | None) -> str:
    return (text or "").strip().split(".")[0].replace("\n", " ")


def _progress(text: str) -> AbstractContextManager[object]:
    """A spinner on stderr, if somebody watches."""
    from rich.console import Console

    return Console(stderr=True).status(text)


def _print_json(content: dict[str, Any]) -> None:
    click.echo(json.dumps(content, allow_nan=False))


def _make_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder}: is a file; give a folder")
    folder.mkdir(parents=True, exist_ok=True)


def _write_run(folder: Path, timeline: Timeline, schedule: Schedule) -> None:
    """What ``run --out`` leaves: each file appears whole or not at all."""
    from accelsim.analysis.report import report
    from accelsim.formats import save_timeline
    from accelsim.formats.schedule_json import write_schedule
    from accelsim.plot.report_page import report_page

    save_timeline(timeline, folder / "timeline.npz")
    write_whole(folder / "schedule.json", write_schedule(schedule).encode())
    summary = json.dumps(report(timeline, per_layer=True).to_dict(), indent=1, allow_nan=False)
    write_whole(folder / "summary.json", summary.encode())
    try:
        with _progress("drawing the timeline"):
            report_page([timeline], folder / "report.html")
    except MissingExtra as error:
        click.echo(f"note: no report.html: {error}", err=True)
