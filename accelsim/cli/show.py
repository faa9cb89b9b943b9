"""``accelsim list`` and ``accelsim export``."""

from __future__ import annotations

import textwrap
from pathlib import Path

import click

from accelsim.cli import common
from accelsim.errors import InputError
from accelsim.units import counted

KINDS = ("workloads", "hardware", "schedulers", "dataflows", "memories", "energies", "formats")


@click.command("list")
@click.argument("kind", metavar="KIND", type=click.Choice(KINDS))
@common.as_json
def list_command(kind: str, as_json: bool) -> None:
    """What there is, one line each.

    KIND is workloads, hardware, schedulers, dataflows, memories, energies or formats.
    """
    found = _listing(kind)
    if as_json:
        common.print_json({kind: [{"name": name, "text": text} for name, text in found.items()]})
        return
    width = max((len(name) for name in found), default=0)
    columns = common.terminal_columns()
    for name, text in found.items():
        line = f"{name:<{width}}  {text}"
        if columns:
            line = textwrap.fill(line, max(columns, width + 30), subsequent_indent=" " * (width + 2))
        click.echo(line)


def _listing(kind: str) -> dict[str, str]:
    from accelsim import library

    if kind == "workloads":
        return library.list_workloads()
    if kind == "hardware":
        return library.list_accelerators()
    if kind == "memories":
        return library.list_memories()
    if kind == "energies":
        return library.list_energy_tables()
    if kind == "dataflows":
        from accelsim.hardware.dataflow import DATAFLOWS

        return {name: _first_sentence(dataflow.__doc__) for name, dataflow in DATAFLOWS.items()}
    if kind == "formats":
        from accelsim.formats import FORMATS, READ_FORMATS

        export = {name: f"export: {text}" for name, text in FORMATS.items()}
        return export | {name: f"replay: {text}" for name, text in READ_FORMATS.items()}
    from accelsim.search import BEST, SCHEDULERS

    found = {name: scheduler.text for name, scheduler in SCHEDULERS.items()}
    return {**found, "best": f"the one that we recommend: {BEST}"}


def _first_sentence(text: str | None) -> str:
    return (text or "").strip().split(".")[0].replace("\n", " ")


SUFFIXES = {".pftrace": "perfetto", ".json": "chrome", ".csv": "csv", ".parquet": "parquet"}
"""Of exported files, where --format is not given."""


@click.command("export")
@click.argument("timeline", type=click.Path())
@click.option(
    "--format",
    "format_name",
    help="perfetto, chrome, csv or parquet. [default: what the suffix of --out says: .pftrace, .json, .csv, .parquet]",
)
@click.option("--out", required=True, type=click.Path(), help="The file to write.")
def export_command(timeline: str, format_name: str | None, out: str) -> None:
    """A timeline in another tool's format.

    TIMELINE is a timeline.npz, or the folder of a run. `perfetto` opens in ui.perfetto.dev, `chrome` in
    chrome://tracing; `csv` and `parquet` are tables with a row for each event.
    """
    from accelsim.formats import export_timeline, load_timeline

    if format_name is None:
        suffix = Path(out).suffix.lower()
        if suffix not in SUFFIXES:
            raise InputError(f"--out {out}: the suffix names no format; give --format, or one of {', '.join(SUFFIXES)}")
        format_name = SUFFIXES[suffix]
    loaded = load_timeline(timeline)
    with common.progress(f"writing {format_name}"):
        export_timeline(loaded, Path(out), format_name)
    events = len(loaded.events.activity)
    click.echo(f"{out}: {counted(events, 'event')}, {Path(out).stat().st_size:,} bytes of {format_name}", err=True)
