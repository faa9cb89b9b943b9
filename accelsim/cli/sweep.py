"""``accelsim sweep`` and ``study``: many runs, their results in one file, and what they say."""

from __future__ import annotations

from pathlib import Path

import click

from accelsim.cli import common
from accelsim.errors import InputError


@click.command("sweep")
@click.argument("spec", type=click.Path())
@click.option("--results", required=True, type=click.Path(), help="File of results; if it is there, go on with it.")
@click.option("--processes", type=click.IntRange(min=1, max=4096), help="Runs at once. [default: one a core]")
@click.option("--retry", is_flag=True, help="Run those again too that were refused, or failed.")
@common.as_json
def sweep_command(spec: str, results: str, processes: int | None, retry: bool, as_json: bool) -> None:
    """Run all combinations that SPEC.yaml describes.

    Each result is kept as it comes: a sweep that was stopped goes on where it was, and one that has been run is not run
    again unless its files or accelsim's code have changed. `accelsim study show FILE` shows the results, at any time.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from accelsim.sweep import ResultStore, SweepCounts, read_sweep, run_sweep
    from accelsim.sweep.store import CRASHED, FAULT, OK

    points = read_sweep(spec)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    last = SweepCounts(len(points), 0)
    with ResultStore(results) as store, Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("running", total=len(points))

        def show(counts: SweepCounts) -> None:
            nonlocal last
            last = counts
            progress.update(task, completed=counts.done)

        try:
            run_sweep(points, store, processes, retry, show)
        except KeyboardInterrupt:
            progress.stop()
            click.echo(f"{results}: {last.done} of {len(points)} runs kept; the same command goes on", err=True)
            raise
    counts = {"total": last.total, "kept": last.kept, **last.by_status}
    if as_json:
        common.print_json({"results": results, "runs": counts})
    else:
        words = ", ".join(f"{count} {status}" for status, count in last.by_status.items()) or "nothing to run"
        click.echo(f"{results}: {last.total} runs, {last.kept} from before, {words}")
        click.echo(f"see them with: accelsim study show {results}")
    bad = last.by_status.get(FAULT, 0) + last.by_status.get(CRASHED, 0)
    if bad:
        click.echo(f"accelsim: {bad} runs ended by a fault of accelsim, see the table", err=True)
        raise SystemExit(1)
    if last.by_status and OK not in last.by_status and not last.kept:
        raise InputError("every run was refused; the table says why")


@click.group("study")
def study_command() -> None:
    """Look at the results of a sweep."""


@study_command.command("show")
@click.argument("results", type=click.Path())
@click.option("--where", multiple=True, metavar="SETTING=VALUE", help="Only runs with this setting.")
@click.option("--sort", metavar="FIGURE", help="Best first by a figure of `accelsim run --json`, as energy_pj.")
@click.option("--figure", "figures", multiple=True, metavar="FIGURE", help="Columns, instead of the usual ones.")
@click.option("--x", metavar="SETTING", help="The picture's axis. [default: the first setting that is a number]")
@click.option("--y", metavar="FIGURE", default="latency_cycles", show_default=True, help="The figure drawn over it.")
@click.option("--out", type=click.Path(), help="A page (.html), the table (.csv), or a picture (.png, .svg, .pdf).")
@common.as_json
def show_command(
    results: str,
    where: tuple[str, ...],
    sort: str | None,
    figures: tuple[str, ...],
    x: str | None,
    y: str,
    out: str | None,
    as_json: bool,
) -> None:
    """The table of a results file, its Pareto front marked."""
    from accelsim.sweep import load_study
    from accelsim.sweep.study import METRICS

    study = load_study(results)
    for text in where:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--where {text}: expected SETTING=VALUE, as batch=4")
        study = study.where(**{name: value})
    if sort is not None:
        study = study.sort(sort)
    if out is not None:
        study.save(Path(out), x, y, figures or METRICS)
    if as_json:
        common.print_json(study.to_dict())
    else:
        click.echo(study.text(figures or METRICS))
