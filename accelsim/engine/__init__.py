"""The machine: a Program in, a Timeline out. Two engines, one behaviour, written down in ``docs/machine_rules.md``."""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

from accelsim.engine.memory_use import memory_use, with_memory_energy
from accelsim.errors import InputError, UnknownName
from accelsim.hardware.accelerator import Accelerator
from accelsim.program.check import check_program
from accelsim.program.share import USUAL_GRANT_BYTES
from accelsim.program.share import share as shared_program
from accelsim.program.tables import Program
from accelsim.timeline.table import Timeline

__all__ = ["ENGINES", "simulate"]

ENGINES = ("compiled", "reference")
DETAILS = ("tile", "cycle")


def simulate(
    program: Program | Sequence[Program],
    engine: str = "compiled",
    *,
    share: str | Sequence[str] | None = None,
    arbitration: str = "fair",
    weights: Sequence[int] | None = None,
    grant_bytes: int = USUAL_GRANT_BYTES,
    detail: str = "tile",
    accelerator: Accelerator | None = None,
) -> Timeline:
    """Run a program, or several on one machine, and return what happened.

    Args:
        program: what to run; it is checked first. Several run at once, each on its own cores and buffers, with links in
            common; :func:`accelsim.sharing` tells what that costs each of them.
        engine: ``"compiled"``, or ``"reference"``: the readable definition, many times slower. They give the same
            events.
        share: of several programs, the links that they share: ``"dram"``.
        detail: ``"tile"``, or ``"cycle"``: every array tile is clocked besides, and ``cycles`` of the timeline says
            what each cycle went to; the events are the same.
        accelerator: whose arrays are clocked; needed with ``"cycle"``.
        arbitration, weights, grant_bytes: who is served next on these; see :func:`accelsim.program.share.share`.

    Raises:
        UnknownName: there is no such engine, detail, link or arbitration.
        InputError: the programs cannot share a machine, or ``share`` is missing; the machine cannot be clocked.
        MalformedProgram: the program's tables contradict themselves.
        BufferOverflow: an activity claims more space than its buffer has.
        Deadlock: activities are left and none of them can ever start.
    """
    if engine not in ENGINES:
        raise UnknownName(f"no engine {engine!r}; there are {' and '.join(map(repr, ENGINES))}")
    if detail not in DETAILS:
        raise UnknownName(f"no detail {detail!r}; there are {' and '.join(map(repr, DETAILS))}")
    if not isinstance(program, Program):
        if share is None:
            raise InputError("several programs share something or have nothing to do with one another: share='dram'?")
        program = shared_program(program, share, arbitration=arbitration, weights=weights, grant_bytes=grant_bytes)
    elif share is not None:
        raise InputError(f"one program shares {share!r} with nobody; give a list of programs")
    check_program(program)
    timeline = _run(program, engine)
    if detail == "tile":
        return timeline
    from accelsim.timeline.cycles import cycle_activity  # compiled code that other runs do without

    if accelerator is None:
        raise InputError("detail='cycle' clocks the arrays of an accelerator: give it, accelerator=…")
    return replace(timeline, cycles=cycle_activity(timeline, accelerator))


def _run(program: Program, engine: str) -> Timeline:
    run = import_module(f"accelsim.engine.{engine}").run  # imported when used: each needs a library of its own
    if program.memory is not None and program.memory.fidelity == "calibrated":
        from accelsim.engine.calibrated import run_calibrated  # compiled code that other programs do without

        events, use = run_calibrated(program, program.memory, run)
        return Timeline(events, program, engine, memory=use)
    events, served = run(program)
    if served is None or program.memory is None:
        return Timeline(events, program, engine)
    counted = with_memory_energy(program, program.memory, served)
    return Timeline(events, counted, engine, memory=memory_use(program, program.memory, served))
