"""``accelsim compare``: two timelines, aligned and explained."""

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

SLOWER_STATUS = 1
"""Exit status where B is slower than ``--fail-if-slower`` allows."""


@click.command("compare")
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path())
@click.option("--out", type=click.Path(), help="File to write: .html (with both timelines), .json or .txt.")
@click.option("--fail-if-slower", metavar="PERCENT", help="End with status 1 if B takes over PERCENT longer: 2%.")
@common.as_json
def compare_command(a: str, b: str, out: str | None, fail_if_slower: str | None, as_json: bool) -> int:
    """Two timelines, aligned and explained; every difference is B less A.

    A and B are timeline.npz files (or traces of PyTorch's profiler), of one workload or of several versions of it:
    operators and tensors are matched by name. Exit status: 0; 1 where --fail-if-slower says so; 2 for a mistake.
    """
    from accelsim.analysis.compare_report import compare
    from accelsim.formats import load_trace

    allowed = None if fail_if_slower is None else _percent(fail_if_slower)
    if out is not None and Path(out).suffix not in (".html", ".json", ".txt"):
        raise InputError(f"--out {out}: comparisons are written as .html, .json or .txt")
    comparison = compare(load_trace(a), load_trace(b))
    if out is not None:
        _write(comparison, Path(out))
    if as_json:
        common.print_json(comparison.to_dict())
    else:
        click.echo(str(comparison))
    if allowed is None or not _is_slower(comparison, allowed):
        return 0
    percent = 100 * (comparison.times_as_long - 1)
    click.echo(f"accelsim: B takes {percent:.3g} % longer than A; --fail-if-slower allows {fail_if_slower}", err=True)
    return SLOWER_STATUS


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


def _write(comparison: Comparison, path: Path) -> None:
    if path.suffix == ".html":
        from accelsim.plot.compare_page import compare_page

        with common.progress("drawing both timelines"):
            write_whole(path, compare_page(comparison).encode(errors="xmlcharrefreplace"))
    elif path.suffix == ".json":
        write_whole(path, json.dumps(comparison.to_dict(), indent=1, allow_nan=False).encode())
    else:
        write_whole(path, f"{comparison}\n".encode(errors="replace"))
