"""Both engines give the same events on generated programs, and the events obey the laws that any run must."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from accelsim.engine import simulate
from accelsim.engine.loop import begin, run_loop
from accelsim.errors import Deadlock
from accelsim.program.tables import ActivityKind, Program, ResourceKind
from accelsim.timeline.table import Cause, EventTable
from tests.strategies.programs import Dice, arbitrary_program, arbitrary_programs, legal_program, legal_programs

pytestmark = pytest.mark.kernel

GENERATED = settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def outcome(program: Program, engine: str) -> EventTable | str:
    """The events, or the sentences of the deadlock."""
    try:
        return simulate(program, engine).events
    except Deadlock as error:
        return str(error)


def assert_engines_equal(program: Program) -> EventTable | str:
    compiled, reference = outcome(program, "compiled"), outcome(program, "reference")
    if isinstance(compiled, str) or isinstance(reference, str):
        assert compiled == reference
        return compiled
    for name, one, other in zip(EventTable._fields, compiled, reference, strict=True):
        assert one.tolist() == other.tolist(), name
    return compiled


def assert_lawful(program: Program, events: EventTable) -> None:
    """What holds for every run, read from the events alone, without any engine's rules."""
    activities, resources = program.activities, program.resources
    rows = list(zip(*(column.tolist() for column in events), strict=True))
    assert rows == sorted(rows, key=lambda row: (row[0], row[4], row[1], row[6]))
    starts, ends, finishes = first_starts(program, events), last(program, events, 1), last(program, events, 2)
    busy = np.zeros(len(resources.kind), dtype=np.int64)
    for activity in range(program.size):
        mine = events.activity == activity
        resource = int(program.queues.resource[activities.queue[activity]])
        assert set(events.resource[mine].tolist()) == {resource}
        assert int(events.bytes[mine].sum()) == activities.bytes[activity]
        cycles = int(activities.cycles[activity])
        if resources.kind[resource] == ResourceKind.LINK:
            rate = Fraction(int(resources.bytes_numerator[resource]), int(resources.bytes_denominator[resource]))
            cycles = math.ceil(int(activities.bytes[activity]) / rate)
        served = int((events.end_cycles - events.start_cycles)[mine].sum())
        if resources.kind[resource] == ResourceKind.CORE:
            cycles = cycles_with_port(program, events, activity, cycles)
        assert served == cycles
        assert finishes[activity] == ends[activity] + resources.latency_cycles[resource]
        busy[resource] += cycles
    # Each resource does one thing at a time, each queue in order; so no run is shorter than its busiest resource.
    for key in (events.resource, events.queue):
        for value in set(key.tolist()):
            of_one = key == value
            spans = sorted(zip(events.start_cycles[of_one].tolist(), events.end_cycles[of_one].tolist(), strict=True))
            assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    for queue in range(len(program.queues.resource)):
        queued = np.flatnonzero(activities.queue == queue)
        assert (starts[queued[1:]] >= ends[queued[:-1]]).all()
    assert max(busy, default=0) <= max(finishes, default=0)
    # Dependencies hold, and nobody starts before it asked.
    before, after = program.dependencies
    assert (starts[after] >= finishes[before]).all()
    assert (events.start_cycles >= events.ready_cycles).all()
    assert_room(program, starts, finishes)
    assert_causes(program, events, ends, finishes)


def cycles_with_port(program: Program, events: EventTable, activity: int, cycles: int) -> int:
    """The least cycles of a tile in which its port could serve it and all that links moved through it meanwhile."""
    resources, queues = program.resources, program.queues
    core = int(queues.resource[program.activities.queue[activity]])
    needed = int(program.activities.port_cycles[activity])
    passing = np.flatnonzero(queues.port[events.queue] == core)
    if not needed or not (queues.port == core).any():
        return cycles
    link = int(queues.resource[np.flatnonzero(queues.port == core)[0]])
    of_link, of_core = (
        Fraction(int(resources.bytes_numerator[row]), int(resources.bytes_denominator[row])) for row in (link, core)
    )
    start = int(events.start_cycles[np.flatnonzero(events.activity == activity)[0]])
    cycles = max(cycles, needed)
    while True:
        busy = sum(
            max(min(int(events.end_cycles[row]), start + cycles) - max(int(events.start_cycles[row]), start), 0)
            for row in passing
        )
        if cycles >= needed + busy * of_link / of_core:
            return cycles
        cycles += 1


def first_starts(program: Program, events: EventTable) -> np.ndarray:
    starts = np.full(program.size, np.iinfo(np.int64).max)
    np.minimum.at(starts, events.activity, events.start_cycles)
    return starts


def last(program: Program, events: EventTable, column: int) -> np.ndarray:
    values = np.full(program.size, -1)
    np.maximum.at(values, events.activity, events[column])
    return values


def assert_room(program: Program, starts: np.ndarray, finishes: np.ndarray) -> None:
    """No buffer holds more than its capacity at any cycle. (Within a cycle space may change hands at no time.)"""
    claims, releases = program.claims, program.releases
    changes: list[Counter[int]] = [Counter() for _ in program.buffers.capacity_bytes]
    for claim in range(len(claims.bytes)):
        taken_by = int(claims.taken_by[claim])
        taken = 0 if taken_by < 0 else int(starts[taken_by])
        releasers = releases.activity[releases.claim == claim]
        changes[claims.buffer[claim]][taken] += int(claims.bytes[claim])
        if len(releasers):
            changes[claims.buffer[claim]][max(taken, int(finishes[releasers].max()))] -= int(claims.bytes[claim])
    for capacity, change in zip(program.buffers.capacity_bytes.tolist(), changes, strict=True):
        in_use = 0
        for cycle in sorted(change):
            in_use += change[cycle]
            assert 0 <= in_use <= capacity


def assert_causes(program: Program, events: EventTable, ends: np.ndarray, finishes: np.ndarray) -> None:
    """What an event names as its cause happened at the cycle at which it started."""
    kinds = {Cause[kind.name]: kind for kind in ActivityKind}
    segments = set(zip(events.activity.tolist(), events.end_cycles.tolist(), strict=True))
    for row in range(len(events.cause)):
        cause, by, start = Cause(int(events.cause[row])), int(events.cause_activity[row]), int(events.start_cycles[row])
        if cause == Cause.NONE:
            assert (by, start) == (-1, 0)
        elif cause == Cause.QUEUE:
            assert program.activities.queue[by] == events.queue[row]
            assert start in (ends[by], finishes[by])
        elif cause == Cause.LIMIT:
            assert program.activities.queue[by] == events.queue[row]
            assert program.queues.outstanding[events.queue[row]] > 0
        elif cause == Cause.RESOURCE:
            assert (by, start) in segments
            assert program.queues.resource[program.activities.queue[by]] == events.resource[row]
        else:
            assert finishes[by] == start
            assert cause == Cause.BUFFER or program.activities.kind[by] == kinds[cause]


@GENERATED
@given(legal_programs())
def test_engines_agree_on_legal_programs(program: Program) -> None:
    events = assert_engines_equal(program)
    assert not isinstance(events, str), events
    assert_lawful(program, events)


@GENERATED
@given(arbitrary_programs())
def test_engines_agree_on_arbitrary_programs_and_on_why_they_stand_still(program: Program) -> None:
    events = assert_engines_equal(program)
    if not isinstance(events, str):
        assert_lawful(program, events)


@pytest.mark.parametrize("seed", range(12))
def test_engines_agree_on_larger_programs(seed: int) -> None:
    program = legal_program(Dice(seed), 100 + 25 * seed)
    events = assert_engines_equal(program)
    assert not isinstance(events, str), events
    assert_lawful(program, events)


def test_generated_programs_meet_every_cause_and_the_standstill() -> None:
    """The generators reach what the comparison is meant to compare."""
    met: Counter[int] = Counter()
    ends: Counter[bool] = Counter()
    for seed in range(100):
        met.update(simulate(legal_program(Dice(seed), 40)).events.cause.tolist())
        ends[isinstance(outcome(arbitrary_program(Dice(seed), 12), "compiled"), str)] += 1
    assert all(met[cause] >= 20 for cause in Cause), met
    assert min(ends[True], ends[False]) >= 10, ends


def test_equal_programs_give_equal_bytes() -> None:
    for engine in ("compiled", "reference"):
        one, other = (simulate(legal_program(Dice(3), 200), engine).events for _ in range(2))
        assert all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


def test_the_loop_is_compiled_for_one_signature_only() -> None:
    for seed in range(5):
        simulate(legal_program(Dice(seed), 10 * seed))
    for function in (run_loop, begin):
        assert len(getattr(function, "signatures", [()])) == 1
