"""What must hold when many want one link: nothing is lost or early, and equal tenants get equal parts."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.engine import simulate
from accelsim.program.tables import Arbitration
from accelsim.timeline.table import EventTable
from tests.strategies.programs import Draft

pytestmark = pytest.mark.kernel

SIZES = st.lists(st.integers(0, 40), min_size=1, max_size=8)


def bytes_by(events: EventTable, key: np.ndarray, cycle: int, rate: int) -> dict[int, int]:
    """Bytes that each value of ``key`` was served in the cycles before ``cycle``; a whole number of them a cycle."""
    moved: dict[int, int] = {}
    for row, value in enumerate(key.tolist()):
        start, end = int(events.start_cycles[row]), int(events.end_cycles[row])
        served = int(events.bytes[row]) if end <= cycle else max(cycle - start, 0) * rate
        moved[value] = moved.get(value, 0) + served
    return moved


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(1, 9), SIZES, st.integers(1, 2), st.integers(0, 5))
def test_equal_tenants_under_fair_each_get_their_part_within_one_grant(
    tenants: int, grant: int, sizes: list[int], queues: int, latency: int
) -> None:
    """At the end of every event, while all still have work to do."""
    draft = Draft()
    link = draft.link(1, latency=latency, arbitration=Arbitration.FAIR, grant=grant)
    for tenant in range(tenants):
        for _ in range(queues):
            own = draft.queue(link, tenant=tenant)
            for size in sizes:
                draft.load(own, size)
    program = draft.program()
    events = simulate(program).events
    tenant_of = program.queues.tenant[events.queue]
    total = sum(sizes) * queues
    for cycle in sorted(set(events.end_cycles.tolist())):
        moved = bytes_by(events, tenant_of, cycle, 1)
        if max(moved.values()) == total:
            break
        part = Fraction(sum(moved.values()), tenants)
        assert all(abs(moved[tenant] - part) <= grant for tenant in range(tenants)), (cycle, moved)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=2, max_size=4), st.integers(1, 6))
def test_weighted_tenants_get_parts_as_their_weights(weights: list[int], grant: int) -> None:
    """While all have work, what one had for its weight is within a grant, for its weight, of what another had."""
    draft = Draft()
    link = draft.link(1, arbitration=Arbitration.WEIGHTED, grant=grant)
    for weight in weights:
        draft.load(draft.queue(link, weight=weight), 60 * weight)
    events = simulate(draft.program()).events
    for cycle in sorted(set(events.end_cycles.tolist())):
        moved = bytes_by(events, events.queue, cycle, 1)
        if any(moved.get(row, 0) == 60 * weight for row, weight in enumerate(weights)):
            break
        had = [Fraction(moved.get(row, 0), weight) for row, weight in enumerate(weights)]
        assert max(had) - min(had) <= Fraction(grant, min(weights)) * 2, (cycle, moved)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(Arbitration), st.integers(1, 5), st.integers(0, 9), st.integers(0, 3), SIZES)
def test_a_busy_link_wastes_no_cycle_whatever_the_rule(
    rule: Arbitration, rate: int, grant: int, latency: int, sizes: list[int]
) -> None:
    """Bytes asked are bytes moved, the last one when the link has had the cycles for all, none of them early."""
    draft = Draft()
    link = draft.link(rate, latency=latency, arbitration=rule, grant=grant)
    for rank, size in enumerate(sizes):
        draft.load(
            draft.queue(link, rank=rank % 3, weight=1 + rank % 4, tenant=rank % 2 - 1 if rank % 4 == 1 else -1), size
        )
    program = draft.program()
    timeline = simulate(program)
    moved = np.zeros(program.size, dtype=np.int64)
    np.add.at(moved, timeline.events.activity, timeline.events.bytes)
    assert moved.tolist() == sizes
    assert timeline.latency_cycles == sum(-(-size // rate) for size in sizes) + latency


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 8), st.integers(0, 30), st.integers(1, 60))
def test_more_requests_on_their_way_are_never_slower(limit: int, grant: int, latency: int, size: int) -> None:
    def latency_of(outstanding: int) -> int:
        draft = Draft()
        draft.load(draft.queue(draft.link(2, latency=latency, grant=grant), outstanding=outstanding), size)
        return simulate(draft.program()).latency_cycles

    assert latency_of(0) <= latency_of(limit + 1) <= latency_of(limit)
