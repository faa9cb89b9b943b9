"""Each rule of arbitration in docs/machine_rules.md on both engines, with cycles worked out by hand."""

from __future__ import annotations

import pytest

from accelsim.engine import ENGINES, simulate
from accelsim.errors import MalformedProgram
from accelsim.program.check import check_program
from accelsim.program.tables import Arbitration
from accelsim.timeline.table import Cause
from tests.strategies.programs import Draft

pytestmark = pytest.mark.kernel


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def served(draft: Draft, engine: str) -> list[tuple[int, int, int]]:
    """(activity, start, end) of each event."""
    events = simulate(draft.program(), engine).events
    return list(zip(events.activity.tolist(), events.start_cycles.tolist(), events.end_cycles.tolist(), strict=True))


def test_in_order_serves_whom_asked_first_and_to_the_end(engine: str) -> None:
    # Load 0 asks at 0; load 1, behind a tile of 3 cycles, at 3; load 2, behind one of 2, at 2. In grants, but in order.
    draft = Draft()
    late, soon = (draft.tile(draft.queue(draft.core()), cycles) for cycles in (3, 2))
    link = draft.link(1, arbitration=Arbitration.IN_ORDER, grant=2)
    queues = [draft.queue(link) for _ in range(3)]
    draft.load(queues[0], 6)
    draft.load(queues[1], 4, late)
    draft.load(queues[2], 4, soon)
    assert served(draft, engine)[2:] == [(2, 0, 6), (4, 6, 10), (3, 10, 14)]


def test_fair_makes_up_for_grants_that_were_short(engine: str) -> None:
    # Queue 0 moves transfers of 1 byte, queue 1 one of 8, in grants of 4: turns would give 1 byte for 4. Here they have
    # had (1, 0), (1, 4), then three more of queue 0: (4, 4), then queue 1, which was served longest ago.
    draft = Draft()
    link = draft.link(1, arbitration=Arbitration.FAIR, grant=4)
    one, other = draft.queue(link), draft.queue(link)
    for _ in range(6):
        draft.load(one, 1)
    draft.load(other, 8)
    assert served(draft, engine) == [
        (0, 0, 1),
        (6, 1, 5),
        (1, 5, 6),
        (2, 6, 7),
        (3, 7, 8),
        (6, 8, 12),
        (4, 12, 13),
        (5, 13, 14),
    ]


def test_who_was_idle_has_saved_up_nothing(engine: str) -> None:
    # Queue 1 comes at cycle 8, when queue 0 has had 8 bytes and a grant up to 8 has just begun at what 4 came to: they
    # share from there on, and queue 1 is not served 8 bytes in a row.
    draft = Draft()
    gate = draft.tile(draft.queue(draft.core()), 8)
    link = draft.link(1, arbitration=Arbitration.FAIR, grant=2)
    draft.load(draft.queue(link), 14)
    draft.load(draft.queue(link), 6, gate)
    assert served(draft, engine)[1:] == [
        (1, 0, 8),
        (2, 8, 10),
        (1, 10, 12),
        (2, 12, 14),
        (1, 14, 16),
        (2, 16, 18),
        (1, 18, 20),
    ]


def test_weighted_shares_are_as_the_weights(engine: str) -> None:
    # Weights 1 and 3, grants of 1: byte counts times 3 and 1. Ties go to whom was served longest ago.
    # (0, 0) a: (3, 0) b: (3, 1) b: (3, 2) b: (3, 3) a: (6, 3) bbb: (6, 6) a, then b is through after 2 more.
    draft = Draft()
    link = draft.link(1, arbitration=Arbitration.WEIGHTED, grant=1)
    draft.load(draft.queue(link, weight=1), 4)
    draft.load(draft.queue(link, weight=3), 8)
    assert served(draft, engine) == [(0, 0, 1), (1, 1, 4), (0, 4, 5), (1, 5, 8), (0, 8, 9), (1, 9, 11), (0, 11, 12)]


def test_priority_goes_first_but_does_not_break_a_grant(engine: str) -> None:
    # The urgent transfer asks at 3, in the middle of a grant. Of the others, of one rank, turns are taken.
    draft = Draft()
    gate = draft.tile(draft.queue(draft.core()), 3)
    link = draft.link(1, arbitration=Arbitration.PRIORITY, grant=2)
    draft.load(draft.queue(link, rank=1), 6)
    draft.load(draft.queue(link, rank=1), 4)
    draft.load(draft.queue(link, rank=0), 3, gate)
    assert served(draft, engine)[1:] == [(1, 0, 2), (2, 2, 4), (3, 4, 7), (1, 7, 9), (2, 9, 11), (1, 11, 13)]


def test_a_tenant_with_more_queues_has_no_more(engine: str) -> None:
    # Tenant 0 has two queues, tenant 1 has one; grants of 2. Within tenant 0 the queue served longest ago.
    draft = Draft()
    link = draft.link(1, arbitration=Arbitration.FAIR, grant=2)
    draft.load(draft.queue(link, tenant=0), 4)
    draft.load(draft.queue(link, tenant=0), 4)
    draft.load(draft.queue(link, tenant=1), 8)
    assert served(draft, engine) == [
        (0, 0, 2),
        (2, 2, 4),
        (1, 4, 6),
        (2, 6, 8),
        (0, 8, 10),
        (2, 10, 12),
        (1, 12, 14),
        (2, 14, 16),
    ]


def test_a_limit_of_requests_leaves_the_link_idle_for_the_latency(engine: str) -> None:
    # Grants of 2, latency 5, at most 2 on their way: 0-2, 2-4; they are back at 7 and 9. Then 7-9, 9-11, back at 14 …
    draft = Draft()
    link = draft.link(1, latency=5, grant=2)
    queue = draft.queue(link, outstanding=2)
    draft.load(queue, 8)
    draft.load(queue, 2)
    events = simulate(draft.program(), engine).events
    assert list(zip(*(events[column].tolist() for column in (6, 0, 1, 7, 8, 9)), strict=True)) == [
        (0, 0, 4, 4, Cause.NONE, -1),
        (0, 7, 11, 4, Cause.LIMIT, 0),
        (1, 14, 16, 2, Cause.LIMIT, 0),
    ]
    assert events.finish_cycles.tolist() == [4, 16, 21]  # the first event is not the transfer's last


def test_others_use_what_a_limit_leaves(engine: str) -> None:
    draft = Draft()
    link = draft.link(1, latency=4, arbitration=Arbitration.ROUND_ROBIN, grant=1)
    draft.load(draft.queue(link, outstanding=1), 3)
    draft.load(draft.queue(link), 9)
    # The limited queue: 0-1, back at 5; in the turn at 5, back at 10; and at 10.
    assert served(draft, engine) == [(0, 0, 1), (1, 1, 5), (0, 5, 6), (1, 6, 10), (0, 10, 11), (1, 11, 12)]


def test_bandwidth_of_a_limited_queue_is_its_requests_over_the_round_trip(engine: str) -> None:
    """Little's law: n requests of g bytes on their way, each for g / B + latency cycles."""
    draft = Draft()
    link = draft.link(4, latency=60, grant=16)
    draft.load(draft.queue(link, outstanding=8), 16 * 8 * 10)
    assert simulate(draft.program(), engine).latency_cycles == 9 * (4 + 60) + 8 * 4 + 60


def test_no_limit_is_felt_without_latency(engine: str) -> None:
    draft = Draft()
    draft.load(draft.queue(draft.link(1, grant=2), outstanding=1), 9)
    assert served(draft, engine) == [(0, 0, 9)]


def test_weights_of_one_tenant_on_one_link_must_agree() -> None:
    draft = Draft()
    link = draft.link(1, arbitration=Arbitration.WEIGHTED)
    draft.load(draft.queue(link, tenant=0, weight=2), 1)
    draft.load(draft.queue(link, tenant=0, weight=3), 1)
    with pytest.raises(MalformedProgram, match=r"queues.weight\[1\] is 3: queue 0 of the same tenant and link has 2"):
        check_program(draft.program())


def test_weights_without_a_small_common_multiple_are_refused() -> None:
    draft = Draft()
    link = draft.link(1, arbitration=Arbitration.WEIGHTED)
    for weight in (65521, 65519, 65497, 65479, 65449):  # primes; the product of four is above 2^62
        draft.load(draft.queue(link, weight=weight), 1)
    with pytest.raises(MalformedProgram, match="give weights with a smaller common multiple"):
        check_program(draft.program())
