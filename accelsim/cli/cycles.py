"""``accelsim run --detail cycle``: the arrays clock by clock, as rows of the report, in JSON, and in ``cycles.npz``."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.cli import common
from accelsim.errors import UnknownName
from accelsim.files import write_whole

if TYPE_CHECKING:
    from accelsim.timeline.cycles import CycleActivity
    from accelsim.timeline.table import Timeline

FILE = "cycles.npz"


def check_detail(detail: str) -> None:
    """Raise unless there is such a detail.

    Raises:
        UnknownName: there is not.
    """
    from accelsim.engine import DETAILS

    if detail not in DETAILS:
        raise UnknownName(f"--detail {detail}: there are {' and '.join(DETAILS)}")


def with_cycles(timeline: Timeline) -> tuple[Timeline, CycleActivity]:
    """The run with its cycles, on the machine that its provenance holds."""
    from accelsim.engine.replay import recorded_accelerator
    from accelsim.timeline.cycles import cycle_activity

    with common.progress("clocking the arrays"):
        cycles = cycle_activity(timeline, recorded_accelerator(timeline))
    return replace(timeline, cycles=cycles), cycles


def cycle_facts(cycles: CycleActivity) -> dict[str, Any]:
    """What ``--json`` says of them."""
    total, most = len(cycles.active_elements), cycles.active_elements.max(initial=0)
    mean = float(cycles.active_elements.sum(dtype=float)) / total if total else 0.0
    return {"mean_active_elements": mean, "most_active_elements": int(most), "cycles": cycles.cycles_by_cause()}


def cycle_text(cycles: CycleActivity) -> str:
    """A section for the end of the report."""
    from accelsim.analysis.sections import Row, Section, section_lines

    facts, total = cycle_facts(cycles), max(len(cycles.cause), 1)
    rows = [Row(name, f"{count:,}", "", count / total) for name, count in facts["cycles"].items()]
    mean, most = facts["mean_active_elements"], facts["most_active_elements"]
    rows.append(Row("active elements", f"{mean:,.1f}", f"in the mean of all cycles, {most:,} at most"))
    return "\n".join(section_lines(Section("Cycle by cycle", rows)))


def write_cycles(folder: Path, cycles: CycleActivity) -> None:
    """``cycles.npz``: ``active_elements`` and ``cause``, one entry a cycle, and ``causes``, their names as JSON."""
    import numpy as np

    from accelsim.timeline.cycles import CYCLE_CAUSES

    file = io.BytesIO()
    names = np.frombuffer(json.dumps(CYCLE_CAUSES).encode(), dtype=np.uint8)
    np.savez_compressed(file, active_elements=cycles.active_elements, cause=cycles.cause, causes=names)
    write_whole(folder / FILE, file.getvalue())
