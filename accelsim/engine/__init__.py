"""The machine: a Program in, a Timeline out. Two engines, one behaviour, written down in ``docs/machine_rules.md``."""

from collections.abc import Sequence
from importlib import import_module

from accelsim.engine.memory_use import memory_use, with_memory_energy
from accelsim.errors import InputError, UnknownName
from accelsim.program.check import check_program
from accelsim.program.share import USUAL_GRANT_BYTES
from accelsim.program.share import share as shared_program
from accelsim.program.tables import Program
from accelsim.timeline.table import Timeline

__all__ = ["ENGINES", "simulate"]

ENGINES = ("compiled", "reference")


def simulate(
    program: Program | Sequence[Program],
    engine: str = "compiled",
    *,
    share: str | Sequence[str] | None = None,
    arbitration: str = "fair",
    weights: Sequence[int] | None = None,
    grant_bytes: int = USUAL_GRANT_BYTES,
) -> Timeline:
    """Run a program, or several on one machine, and return what happened.

    Args:
        program: what to run; it is checked first. Several run at once, each on its own cores and buffers, with links in
            common; :func:`accelsim.sharing` tells what that costs each of them.
        engine: ``"compiled"``, or ``"reference"``: the readable definition, many times slower. They give the same
            events.
        share: of several programs, the links that they share: ``"dram"``.
        arbitration, weights, grant_bytes: who is served next on these; see :func:`accelsim.program.share.share`.

    Raises:
        UnknownName: there is no such engine, link or arbitration.
        InputError: the programs cannot share a machine, or ``share`` is missing.
        MalformedProgram: the program's tables contradict themselves.
        BufferOverflow: an activity claims more space than its buffer has.
        Deadlock: activities are left and none of them can ever start.
    """
    if engine not in ENGINES:
        raise UnknownName(f"no engine {engine!r}; there are {' and '.join(map(repr, ENGINES))}")
    if not isinstance(program, Program):
        if share is None:
            raise InputError("several programs share something or have nothing to do with one another: share='dram'?")
        program = shared_program(program, share, arbitration=arbitration, weights=weights, grant_bytes=grant_bytes)
    elif share is not None:
        raise InputError(f"one program shares {share!r} with nobody; give a list of programs")
    check_program(program)
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
