"""``accelsim ledger``: where every cycle and every picojoule of a run went."""

from __future__ import annotations

from pathlib import Path

import click

from accelsim.cli import common
from accelsim.errors import InputError

SUFFIXES = (".png", ".svg", ".pdf")


@click.command("ledger")
@click.argument("timeline", type=click.Path())
@click.option("--operator", help="One operator instead of the whole run.")
@click.option("--per-layer", is_flag=True, help="With --json: all operators too.")
@click.option("--out", type=click.Path(), help="A picture of both ladders, from roof to point (.png, .svg, .pdf).")
@common.as_json
def ledger_command(timeline: str, operator: str | None, per_layer: bool, out: str | None, as_json: bool) -> None:
    """Every cycle of every resource with one label, every picojoule in one account, and the ladder from roof to point.

    TIMELINE is a timeline.npz of `accelsim run --out`.
    """
    from accelsim.analysis.ledger_report import ledger_report
    from accelsim.formats import load_timeline

    if out is not None and Path(out).suffix.lower() not in SUFFIXES:
        raise InputError(f"--out {out}: ladders are drawn as {', '.join(SUFFIXES)}")
    found = ledger_report(load_timeline(timeline), operator=operator)
    if out is not None:
        from accelsim.plot.ladder_figure import ladder_figure
        from accelsim.plot.style import save_figure

        with common.progress("drawing"):
            save_figure(ladder_figure(found), Path(out))
    if as_json:
        common.print_json(found.to_dict(per_layer))
    else:
        click.echo(str(found))
