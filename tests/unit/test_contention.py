"""Who had the link and who waited for whom, against a count cycle by cycle."""

from __future__ import annotations

from collections import Counter

import pytest

from accelsim.engine import simulate
from accelsim.program.tables import Arbitration, ResourceKind
from accelsim.timeline.contention import FOR_BUFFER, FOR_REQUESTS, bandwidth_by_queue, holder_name, link_waits
from accelsim.timeline.table import Cause, Timeline
from tests.strategies.programs import Dice, Draft, legal_program


def counted_waits(timeline: Timeline) -> dict[str, dict[str, int]]:
    """Every cycle of every transfer that has asked and is not being served, looked at one by one."""
    program = timeline.program
    rows = [dict(zip(timeline.events._fields, row, strict=True)) for row in zip(*timeline.events, strict=True)]
    found: dict[str, Counter[str]] = {}
    for activity in range(program.size):
        queue = int(program.activities.queue[activity])
        if program.resources.kind[program.queues.resource[queue]] != ResourceKind.LINK:
            continue
        mine = [row for row in rows if row["activity"] == activity]
        since = mine[0]["ready_cycles"]
        for row in mine:
            for cycle in range(since, row["start_cycles"]):
                holders = [
                    other["queue"]
                    for other in rows
                    if other["resource"] == row["resource"] and other["start_cycles"] <= cycle < other["end_cycles"]
                ]
                name = FOR_REQUESTS if program.queues.outstanding[queue] else FOR_BUFFER
                if row["cause"] == Cause.BUFFER:
                    name = FOR_BUFFER
                elif holders:
                    name = holder_name(timeline, int(holders[0]))
                found.setdefault(holder_name(timeline, queue), Counter())[name] += 1
            since = row["end_cycles"]
    return {name: dict(count) for name, count in found.items()}


@pytest.mark.parametrize("seed", range(25))
def test_waits_are_those_of_a_count_cycle_by_cycle(seed: int) -> None:
    timeline = simulate(legal_program(Dice(seed), 40))
    assert link_waits(timeline) == counted_waits(timeline)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("bins", [1, 7, 1000])
def test_bandwidth_adds_up_to_what_each_queue_moved(seed: int, bins: int) -> None:
    timeline = simulate(legal_program(Dice(seed), 40))
    program = timeline.program
    found = bandwidth_by_queue(timeline, bins)
    assert found.edges_cycles[0] == 0 and found.edges_cycles[-1] == timeline.latency_cycles
    assert found.bytes.shape == (len(found.queues), len(found.edges_cycles) - 1)
    for row, queue in enumerate(found.queues.tolist()):
        mine = program.activities.queue == queue
        assert found.bytes[row].sum() == program.activities.bytes[mine].sum()
    assert found.bytes.min(initial=0) >= 0


def test_two_queues_that_take_turns_have_half_each() -> None:
    draft = Draft()
    link = draft.link(2, arbitration=Arbitration.FAIR, grant=2)
    draft.load(draft.queue(link), 20)
    draft.load(draft.queue(link), 20)
    timeline = simulate(draft.program())
    found = bandwidth_by_queue(timeline, 5)
    assert found.edges_cycles.tolist() == [0, 4, 8, 12, 16, 20]
    assert found.bytes.tolist() == [[4] * 5, [4] * 5]
    # The first waits for the other's 9 grants between its own; the other for the first one's 10.
    assert link_waits(timeline) == {"queue0": {"queue1": 9}, "queue1": {"queue0": 10}}
