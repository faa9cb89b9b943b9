"""``accelsim roofline`` and ``advise``: what a machine can attain, where runs stand, and what to change first."""

from __future__ import annotations

from pathlib import Path

import click

from accelsim.cli import common
from accelsim.errors import InputError

SUFFIXES = (".html", ".htm", ".png", ".svg", ".pdf")


@click.command("roofline")
@click.argument("hardware", metavar="HW")
@click.argument("timelines", metavar="[TIMELINE]...", nargs=-1, type=click.Path())
@common.overrides
@click.option("--measured", is_flag=True, help="Measure the roofs too, by micro-kernels run on the machine.")
@click.option("--out", type=click.Path(), help="A page (.html) or a picture (.png, .svg, .pdf) to write.")
@common.as_json
def roofline_command(
    hardware: str,
    timelines: tuple[str, ...],
    overrides: tuple[str, ...],
    measured: bool,
    out: str | None,
    as_json: bool,
) -> None:
    """Performance and energy rooflines of a machine, with the points of runs.

    HW is the template that the runs were made with; give the --set of the runs too. TIMELINE is a timeline.npz of
    `accelsim run --out`.
    """
    from accelsim.formats import load_timeline
    from accelsim.library import load_accelerator
    from accelsim.plot.roofline import roofline

    if out is not None and Path(out).suffix.lower() not in SUFFIXES:
        raise InputError(f"--out {out}: rooflines are written as {', '.join(SUFFIXES)}")
    accelerator = load_accelerator(hardware, overrides)
    with common.progress("running the micro-kernels" if measured else "reading"):
        found = roofline(accelerator, measured=measured)
    for path in timelines:
        found = found.add(load_timeline(path))
    if out is not None:
        with common.progress("drawing"):
            found.save(out)
    if as_json:
        common.print_json(found.to_dict())
    else:
        click.echo(str(found))
