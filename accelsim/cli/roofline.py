"""``accelsim roofline`` and ``advise``: what a machine can attain, where runs stand, and what to change first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from accelsim.cli import common
from accelsim.errors import InputError

if TYPE_CHECKING:
    from accelsim.analysis.advice import Payoff
    from accelsim.hardware.accelerator import Accelerator
    from accelsim.plot.roofline import Counted, Detail, Form
    from accelsim.timeline.table import Timeline
    from accelsim.workload.graph import Workload

SUFFIXES = (".html", ".htm", ".png", ".svg", ".pdf")


@click.command("roofline")
@click.argument("hardware", metavar="HW")
@click.argument("timelines", metavar="[TIMELINE]...", nargs=-1, type=click.Path())
@common.overrides
@click.option("--measured", is_flag=True, help="Measure the roofs too, by micro-kernels run on the machine.")
@click.option(
    "--form",
    type=click.Choice(["hard", "p-norm", "smooth"]),
    default="hard",
    show_default=True,
    help="Of the performance roof: a hard corner; rounded by the measured overlap; nothing overlaps.",
)
@click.option("--power-cap", metavar="POWER", help="Draw the roof that this limit of power gives, such as '2 W'.")
@click.option(
    "--detail",
    type=click.Choice(["operators", "groups", "tiles"]),
    default="operators",
    show_default=True,
    help="Points of fused groups too, or of these and of tiles.",
)
@click.option(
    "--operations",
    type=click.Choice(["dense", "effectual"]),
    default="dense",
    show_default=True,
    help="What points count: products of known zeros too, or not.",
)
@click.option("--over-time", type=click.IntRange(2, 100_000), help="Draw the first run's path in so many windows.")
@click.option("--out", type=click.Path(), help="A page (.html) or a picture (.png, .svg, .pdf) to write.")
@common.as_json
def roofline_command(
    hardware: str,
    timelines: tuple[str, ...],
    overrides: tuple[str, ...],
    measured: bool,
    form: Form,
    power_cap: str | None,
    detail: Detail,
    operations: Counted,
    over_time: int | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Performance and energy rooflines of a machine, with the points of runs.

    HW is the template that the runs were made with; give the --set of the runs too. TIMELINE is a timeline.npz of
    `accelsim run --out`.
    """
    from accelsim.formats import load_timeline
    from accelsim.library import load_accelerator
    from accelsim.plot.roofline import WINDOWS, roofline
    from accelsim.units import parse_power

    if over_time is not None and out is not None and Path(out).suffix.lower() in (".html", ".htm"):
        raise InputError(f"--out {out}: the path over time is a picture: .png, .svg or .pdf")
    if over_time is not None and not timelines:
        raise InputError("--over-time needs a timeline")
    watts = None if power_cap is None else float(parse_power(power_cap))
    if out is not None and Path(out).suffix.lower() not in SUFFIXES:
        raise InputError(f"--out {out}: rooflines are written as {', '.join(SUFFIXES)}")
    accelerator = load_accelerator(hardware, overrides)
    with common.progress("running the micro-kernels" if measured else "reading"):
        found = roofline(accelerator, measured=measured, form=form, power_cap_watts=watts, operations=operations)
    for path in timelines:
        found = found.add(load_timeline(path), windows=over_time or WINDOWS, detail=detail)
    if out is not None:
        with common.progress("drawing"):
            found.save(out, over_time=over_time is not None)
    if as_json:
        common.print_json(found.to_dict())
    else:
        click.echo(str(found))


@click.command("advise")
@click.argument("timeline", type=click.Path())
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="Options that are simulated.")
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="Seconds that a search for a new schedule may take, for each option.",
)
@click.option(
    "--payoff",
    type=click.Choice(["time", "energy"]),
    default="time",
    show_default=True,
    help="What options are ranked by: what each saves of a sample.",
)
@click.option("--hardware", help="The machine that it ran on, for a timeline that does not hold its template.")
@common.overrides
@common.as_json
def advise_command(
    timeline: str,
    top: int,
    time_limit: float,
    payoff: Payoff,
    hardware: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Investments ranked by payoff, each predicted from the run and then simulated.

    TIMELINE is a timeline.npz of `accelsim run --out`, or a trace. Where its workload is still found, schedules are
    searched anew for the changed machines; else the recorded one runs on them.
    """
    from accelsim.analysis.advise import advise
    from accelsim.engine.replay import recorded_accelerator
    from accelsim.formats import load_timeline
    from accelsim.library import load_accelerator

    loaded = load_timeline(timeline)
    if hardware is None and overrides:
        raise InputError("--set changes the machine that --hardware names; give that too")
    machine = recorded_accelerator(loaded) if hardware is None else load_accelerator(hardware, overrides)
    with common.progress("predicting and simulating"):
        found = advise(
            loaded, _workload_of(loaded, machine), machine, top=top, time_limit_seconds=time_limit, payoff=payoff
        )
    if as_json:
        common.print_json(found.to_dict())
    else:
        click.echo(str(found))


def _workload_of(timeline: Timeline, machine: Accelerator) -> Workload | None:
    """What ran, read again from where it came from; None, with a note, where that is gone or has changed."""
    from accelsim.library import load_workload
    from accelsim.workload.cut import cut_to_fit

    provenance, facts = timeline.provenance, timeline.program.facts
    source, parameters = provenance.get("workload_source"), provenance.get("workload_parameters", {})
    why = "the timeline does not say where its workload came from"
    if isinstance(source, str) and isinstance(parameters, dict):
        try:
            workload = load_workload(
                source,
                batch=int(facts.get("batch", 1)),
                allow_unsupported=provenance.get("allow_unsupported") is True,
                **{str(name): value for name, value in parameters.items()},
            )
            capacity_bytes = machine.buffers["global"].capacity_bytes
            if cut_to_fit(workload, capacity_bytes).digest == facts.get("workload_digest"):
                return workload
            why = f"the workload {source} has changed since the run"
        except InputError as error:
            why = f"the workload of the run cannot be read again: {error}"
    click.echo(f"note: {why}; the recorded schedule is used on the changed machines", err=True)
    return None
