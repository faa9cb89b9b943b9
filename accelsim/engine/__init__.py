"""The machine: a Program in, a Timeline out. Two engines, one behaviour, written down in ``docs/machine_rules.md``."""

from importlib import import_module

from accelsim.engine.memory_use import memory_use, with_memory_energy
from accelsim.errors import UnknownName
from accelsim.program.check import check_program
from accelsim.program.tables import Program
from accelsim.timeline.table import Timeline

__all__ = ["ENGINES", "simulate"]

ENGINES = ("compiled", "reference")


def simulate(program: Program, engine: str = "compiled") -> Timeline:
    """Run a program on the machine.

    Args:
        program: what to run; it is checked first.
        engine: ``"compiled"``, or ``"reference"``: the readable definition, many times slower. They give the same
            events.

    Raises:
        UnknownName: there is no such engine.
        MalformedProgram: the program's tables contradict themselves.
        BufferOverflow: an activity claims more space than its buffer has.
        Deadlock: activities are left and none of them can ever start.
    """
    if engine not in ENGINES:
        raise UnknownName(f"no engine {engine!r}; there are {' and '.join(map(repr, ENGINES))}")
    check_program(program)
    run = import_module(f"accelsim.engine.{engine}").run  # imported when used: each needs a library of its own
    events, served = run(program)
    if served is None or program.memory is None:
        return Timeline(events, program, engine)
    counted = with_memory_energy(program, program.memory, served)
    return Timeline(events, counted, engine, memory=memory_use(program, program.memory, served))
