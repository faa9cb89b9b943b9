"""Runs a recorded timeline again, on its own machine or on another one."""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.engine import simulate
from accelsim.errors import InputError
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.template import parse_template
from accelsim.program.rebind import rebind
from accelsim.timeline.provenance import lasting, with_provenance
from accelsim.timeline.table import Timeline

TEMPLATE = "hardware_template"
"""Of a timeline's provenance: the text of the template that it was recorded with, overrides written into it."""


def replay(timeline: Timeline, accelerator: Accelerator | None = None, *, engine: str = "compiled") -> Timeline:
    """Runs the program of a timeline again.

    Dependencies, claims and the order of queues are those of the recording. On another machine transfers are computed
    anew from their bytes, and tiles from their shapes; see :func:`accelsim.program.rebind.rebind`.

    Args:
        timeline: the recording.
        accelerator: the machine; None for the one of the recording, which gives the same events again.
        engine: as in :func:`accelsim.simulate`.

    Raises:
        ProgramError: the program cannot run on this machine; a deadlock says who holds what and who waits for whom.
        InputError: the machine that the recording names cannot be read.
    """
    if accelerator is None:
        return with_provenance(simulate(timeline.program, engine), **_kept(timeline))
    recorded = recorded_accelerator(timeline) if TEMPLATE in timeline.provenance else None
    program, kept = rebind(timeline.program, accelerator, recorded), _kept(timeline)
    del timeline  # if nobody else holds it, what the new machine changes is freed before the run
    return with_provenance(simulate(program, engine), **(kept | {TEMPLATE: accelerator.source}))


def recorded_accelerator(timeline: Timeline, overrides: Sequence[str] = ()) -> Accelerator:
    """The machine that a timeline was recorded on, from the template that its provenance holds.

    ``overrides`` are texts of the form ``KEY=VALUE`` (``dram.bandwidth=32 GB/s``).

    Raises:
        InputError: it holds none, or one that is no template; or an override is refused.
    """
    source = timeline.provenance.get(TEMPLATE)
    if not isinstance(source, str):
        raise InputError(
            f"the timeline does not say which machine it was recorded on (its provenance has no '{TEMPLATE}'); "
            "give the machine with --hardware"
        )
    return parse_template(source, "the recorded template", overrides)


def _kept(timeline: Timeline) -> dict[str, object]:
    """What of a recording's provenance holds for every run of it."""
    of_this_run = ("accelsim", "python", "numpy", "program_digest", "workload_digest", "hardware_digest")
    return {name: value for name, value in lasting(timeline.provenance).items() if name not in of_this_run}
