"""``accelsim list`` and ``accelsim export``."""

from __future__ import annotations

from pathlib import Path

import click

from accelsim.cli import common

KINDS = ("workloads", "hardware", "schedulers", "dataflows", "memories", "formats")


@click.command("list")
@click.argument("kind", type=click.Choice(KINDS))
@common.as_json
def list_command(kind: str, as_json: bool) -> None:
    """What there is, one line each."""
    found = _listing(kind)
    if as_json:
        common.print_json({kind: [{"name": name, "text": text} for name, text in found.items()]})
        return
    width = max((len(name) for name in found), default=0)
    for name, text in found.items():
        click.echo(f"{name:<{width}}  {text}")


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
        from accelsim.formats import FORMATS, READ_FORMATS

        export = {name: f"export: {text}" for name, text in FORMATS.items()}
        return export | {name: f"replay: {text}" for name, text in READ_FORMATS.items()}
    from accelsim.search import BEST, SCHEDULERS

    found = {name: scheduler.text for name, scheduler in SCHEDULERS.items()}
    return {**found, "best": f"the one that we recommend: {BEST}"}


def _first_sentence(text: str | None) -> str:
    return (text or "").strip().split(".")[0].replace("\n", " ")


@click.command("export")
@click.argument("timeline", type=click.Path())
@click.option("--format", "format_name", required=True, help="perfetto, csv … (accelsim list formats).")
@click.option("--out", required=True, type=click.Path(), help="The file to write.")
def export_command(timeline: str, format_name: str, out: str) -> None:
    """A timeline in another tool's format."""
    from accelsim.formats import export_timeline, load_timeline

    loaded = load_timeline(timeline)
    with common.progress(f"writing {format_name}"):
        export_timeline(loaded, Path(out), format_name)
    click.echo(f"{out}: {Path(out).stat().st_size:,} bytes", err=True)
