"""``accelsim replay``: a recorded trace, run again on its machine or on another one."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from accelsim.cli import common
from accelsim.cli.run import write_run
from accelsim.units import counted

if TYPE_CHECKING:
    from accelsim.hardware.accelerator import Accelerator
    from accelsim.timeline.table import Timeline


@click.command("replay")
@click.argument("trace", type=click.Path())
@click.option("--hardware", default=None, help="Template, by name or path. [default: the machine of the recording]")
@click.option("--times", type=click.Path(), help="For PyTorch's execution trace: the profiler's trace of the same run.")
@common.overrides
@common.engine
@click.option("--per-layer", is_flag=True, help="Add a line for each operator.")
@click.option("--out", type=click.Path(), help="Folder for timeline.npz, summary.json and report.html.")
@common.as_json
def replay_command(
    trace: str,
    hardware: str | None,
    times: str | None,
    overrides: tuple[str, ...],
    engine: str,
    per_layer: bool,
    out: str | None,
    as_json: bool,
) -> None:
    """Run a recorded trace again, on its machine or on another one.

    TRACE is a timeline.npz; a trace of PyTorch's profiler, or an execution trace of PyTorch (.json, .json.gz); a Chakra
    trace (.et, .json), or a folder with one a device; memory requests (.trace, .txt, .csv). On its own machine the same
    events come out. On another one (--hardware, or --set for single fields) dependencies and buffer claims are kept,
    transfers are computed anew from their bytes, and tiles from their shapes.
    """
    from accelsim.analysis.report import report
    from accelsim.engine.replay import replay
    from accelsim.formats import load_trace
    from accelsim.library import load_accelerator, trace_path

    if out is not None:
        common.make_folder(Path(out))
    accelerator = load_accelerator(hardware, overrides) if hardware is not None else None
    with common.progress(f"reading {trace}"):
        recorded = load_trace(trace_path(trace), accelerator, times=times, events=False)
    for note in str(recorded.program.facts.get("notes", "")).splitlines():
        click.echo(f"note: {note}", err=True)
    accelerator = _machine(recorded, accelerator, overrides)
    with common.progress("simulating"):
        began = time.perf_counter()
        last = [recorded]
        del recorded  # a long trace is large: on another machine only what stays of it is kept
        again = replay(last.pop(), accelerator, engine=engine)
        measured = {"simulate_seconds": time.perf_counter() - began}
        again = dataclasses.replace(again, provenance={**again.provenance, **measured})
    result = report(again, per_layer=per_layer)
    if out is not None:
        write_run(Path(out), again, None)
    if as_json:
        common.print_json(result.to_dict())
    else:
        click.echo(str(result))


def _machine(recorded: Timeline, given: Accelerator | None, overrides: tuple[str, ...]) -> Accelerator | None:
    """The machine to run on, None for that of the recording; says on stderr what stays as recorded on another one."""
    from accelsim.engine.replay import recorded_accelerator
    from accelsim.program.rebind import unpriced_tiles

    if given is None and not overrides:
        return None
    accelerator = recorded_accelerator(recorded, overrides) if given is None else given
    tiles = unpriced_tiles(recorded.program)
    if tiles and recorded.program.facts.get("hardware_digest") != accelerator.digest:
        untold = f"neither shape nor operations of {counted(tiles, 'tile')}"
        click.echo(f"note: the trace tells {untold}, whose cycles stay as recorded", err=True)
    return accelerator
