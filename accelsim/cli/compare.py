"""``accelsim compare``: timelines, aligned and explained."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from accelsim.cli import common
from accelsim.errors import InputError
from accelsim.files import write_whole

if TYPE_CHECKING:
    from accelsim.analysis.compare_report import Comparison
    from accelsim.analysis.compare_runs import Runs

SLOWER_STATUS = 1
"""Exit status where a run is slower than ``--fail-if-slower`` allows."""


@click.command("compare")
@click.argument("runs", metavar="A B [MORE]...", nargs=-1, type=click.Path())
@click.option("--out", type=click.Path(), help="File to write: .html (with the timelines), .json or .txt.")
@click.option(
    "--fail-if-slower", metavar="PERCENT", help="End with status 1 if one takes over PERCENT longer than A: 2%."
)
@common.as_json
def compare_command(runs: tuple[str, ...], out: str | None, fail_if_slower: str | None, as_json: bool) -> int:
    """Timelines, aligned and explained; every difference is B less A.

    A, B … are timeline.npz files, folders of runs, or traces of other tools, of one workload or of several versions of
    it: operators and tensors are matched by name. Of more than two, A is the baseline, and a ladder leads from each to
    the next. Exit status: 0; 1 where --fail-if-slower says so; 2 for a mistake.
    """
    from accelsim.analysis.compare_report import Comparison, compare
    from accelsim.analysis.compare_runs import LABELS, compare_runs
    from accelsim.formats import load_trace

    allowed = None if fail_if_slower is None else _percent(fail_if_slower)
    if out is not None and Path(out).suffix not in (".html", ".json", ".txt"):
        raise InputError(f"--out {out}: comparisons are written as .html, .json or .txt")
    if not 2 <= len(runs) <= len(LABELS):
        given = f"{len(runs)} timeline{'' if len(runs) == 1 else 's'}"
        raise InputError(f"compare takes 2 to {len(LABELS)} timelines, {given} given: accelsim compare A.npz B.npz")
    timelines = [load_trace(run) for run in runs]
    comparison = compare(*timelines) if len(runs) == 2 else compare_runs(timelines)
    if out is not None:
        _write(comparison, Path(out))
    if as_json:
        common.print_json(comparison.to_dict())
    else:
        click.echo(str(comparison))
    status = 0
    against_a = (comparison,) if isinstance(comparison, Comparison) else comparison.comparisons
    for label, one in zip(LABELS[1:], against_a, strict=False):
        if allowed is not None and _is_slower(one, allowed):
            percent = f"{100 * (one.times_as_long - 1):.3g} %"
            limit = f"--fail-if-slower allows {fail_if_slower}"
            click.echo(f"accelsim: {label} takes {percent} longer than A; {limit}", err=True)
            status = SLOWER_STATUS
    return status


def _percent(text: str) -> Fraction:
    """``2%`` as 1/50."""
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*%\s*", text, re.ASCII)
    if match is None:
        raise InputError(f"--fail-if-slower {text!r}: expected a percentage of 0 or more, for example 2%")
    return Fraction(match[1]) / 100


def _is_slower(comparison: Comparison, allowed: Fraction) -> bool:
    """Compares without rounding: cycles, or seconds where the clocks differ."""
    a, b = Fraction(comparison.a.latency_cycles), Fraction(comparison.b.latency_cycles)
    if comparison.seconds is not None:
        clock_a, clock_b = (side.program.facts["clock_hz"] for side in (comparison.a, comparison.b))
        a, b = a / Fraction(clock_a), b / Fraction(clock_b)
    return b > a * (1 + allowed)


def _write(comparison: Comparison | Runs, path: Path) -> None:
    if path.suffix == ".html":
        from accelsim.plot.compare_page import compare_page

        with common.progress("drawing the timelines"):
            write_whole(path, compare_page(comparison).encode(errors="xmlcharrefreplace"))
    elif path.suffix == ".json":
        write_whole(path, json.dumps(comparison.to_dict(), indent=1, allow_nan=False).encode())
    else:
        write_whole(path, f"{comparison}\n".encode(errors="replace"))
