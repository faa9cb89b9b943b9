"""Each rule of docs/machine_rules.md on both engines, with cycles worked out by hand."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from accelsim.engine import ENGINES, simulate
from accelsim.engine.heap import pop, push
from accelsim.errors import BufferOverflow, Deadlock, MalformedProgram, UnknownName
from accelsim.program.check import activity_name, check_program, same_program
from accelsim.program.tables import MAXIMUM_TOTAL, Arbitration
from accelsim.timeline.table import Cause
from tests.strategies.programs import Draft

pytestmark = pytest.mark.kernel

NONE, LOAD, STORE, BUFFER, TILE, QUEUE, RESOURCE, SEND, LIMIT = Cause


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def spans(draft: Draft, engine: str) -> list[tuple[int, int, int]]:
    """(activity, start, end) of each event."""
    events = simulate(draft.program(), engine).events
    return list(zip(events.activity.tolist(), events.start_cycles.tolist(), events.end_cycles.tolist(), strict=True))


def causes(draft: Draft, engine: str) -> dict[int, tuple[int, int, int]]:
    """(start, cause, cause_activity) of the first event of each activity."""
    events = simulate(draft.program(), engine).events
    first: dict[int, tuple[int, int, int]] = {}
    for row, activity in enumerate(events.activity.tolist()):
        found = (int(events.start_cycles[row]), int(events.cause[row]), int(events.cause_activity[row]))
        first.setdefault(activity, found)
    return first


def cores(draft: Draft, count: int) -> list[int]:
    """The queues of so many new cores with one queue each."""
    return [draft.queue(draft.core()) for _ in range(count)]


# --- The worked example of the notation: three layers, two tiles, 16 bytes per cycle ----------------------------------


def worked_example(early: bool) -> Draft:
    """Layers A (30 cycles a tile), B (20), C (40); ``early``: the weights of C may come once A's first tile is done."""
    draft = Draft()
    core, dram = draft.queue(draft.core()), draft.queue(draft.link(16))
    weight_a = draft.load(dram, 320)
    input_1 = draft.load(dram, 160)
    a1 = draft.tile(core, 30, weight_a, input_1)
    weight_b = draft.load(dram, 160)
    input_2 = draft.load(dram, 160, a1)
    draft.tile(core, 20, weight_b)
    a2 = draft.tile(core, 30, input_2)
    draft.tile(core, 20)
    weight_c = draft.load(dram, 960, a1 if early else a2)
    c1 = draft.tile(core, 40, weight_c)
    draft.store(dram, 320, c1)
    return draft


def test_worked_example_with_default_durations(engine: str) -> None:
    assert {row: (start, end) for row, start, end in spans(worked_example(False), engine)} == {
        0: (0, 20),
        1: (20, 30),
        2: (30, 60),
        3: (30, 40),
        4: (60, 70),
        5: (60, 80),
        6: (80, 110),
        7: (110, 130),
        8: (110, 170),
        9: (170, 210),
        10: (210, 230),
    }
    assert simulate(worked_example(False).program(), engine).latency_cycles == 230
    assert causes(worked_example(False), engine) == {
        0: (0, NONE, -1),
        1: (20, QUEUE, 0),
        2: (30, LOAD, 1),
        3: (30, QUEUE, 1),
        4: (60, TILE, 2),
        5: (60, QUEUE, 2),
        6: (80, QUEUE, 5),
        7: (110, QUEUE, 6),
        8: (110, TILE, 6),
        9: (170, LOAD, 8),
        10: (210, TILE, 9),
    }


def test_worked_example_with_an_earlier_load(engine: str) -> None:
    found = spans(worked_example(True), engine)
    assert found[-3:] == [(7, 110, 130), (9, 130, 170), (10, 170, 190)]
    assert (8, 70, 130) in found
    assert causes(worked_example(True), engine)[9] == (
        130,
        LOAD,
        8,
    )  # tile 7 hands on at 130, too: the lower code stands


# --- 1 and 2: queues, links, time ----------------------------------------------------------------------------------


def test_a_transfer_finishes_a_latency_after_its_last_byte(engine: str) -> None:
    draft = Draft()
    core, dram = draft.queue(draft.core()), draft.queue(draft.link(2, latency=7))
    first = draft.load(dram, 21)  # ceil(21 / 2) = 11 cycles
    draft.load(dram, 4)
    draft.tile(core, 5, first)
    assert spans(draft, engine) == [(0, 0, 11), (1, 11, 13), (2, 18, 23)]
    assert simulate(draft.program(), engine).events.finish_cycles.tolist() == [18, 20, 23]
    assert causes(draft, engine)[2] == (18, LOAD, 0)


def test_the_latency_of_a_run_includes_that_of_its_last_transfer(engine: str) -> None:
    draft = Draft()
    draft.store(draft.queue(draft.link(1, latency=9)), 4)
    assert simulate(draft.program(), engine).latency_cycles == 13


def test_round_robin_grants_take_turns_and_consecutive_ones_are_one_event(engine: str) -> None:
    draft = Draft()
    link = draft.link(1, arbitration=Arbitration.ROUND_ROBIN, grant=4)
    draft.load(draft.queue(link), 14)
    draft.store(draft.queue(link), 6)
    assert spans(draft, engine) == [(0, 0, 4), (1, 4, 8), (0, 8, 12), (1, 12, 14), (0, 14, 20)]
    events = simulate(draft.program(), engine).events
    assert events.bytes.tolist() == [4, 4, 4, 2, 6]
    assert events.ready_cycles.tolist() == [0] * 5
    assert events.cause.tolist() == [NONE, RESOURCE, RESOURCE, RESOURCE, RESOURCE]
    assert events.cause_activity.tolist() == [-1, 0, 1, 0, 1]


def test_grants_add_up_to_the_whole_transfer_at_a_fractional_rate(engine: str) -> None:
    # 3 bytes in 2 cycles: ceil(2 k / 3) = 0, 2, 3, 4, 5 at k = 0, 2, 4, 6, 7
    draft = Draft()
    link = draft.link(3, 2, arbitration=Arbitration.ROUND_ROBIN, grant=2)
    draft.load(draft.queue(link), 7)
    draft.load(draft.queue(link), 1)
    assert spans(draft, engine) == [(0, 0, 2), (1, 2, 3), (0, 3, 6)]


def test_grants_of_no_cycles_are_served_within_the_instant(engine: str) -> None:
    # 4 bytes per cycle: the first byte of a transfer takes a cycle, the next three none.
    draft = Draft()
    link = draft.link(4, arbitration=Arbitration.ROUND_ROBIN, grant=1)
    draft.load(draft.queue(link), 4)
    draft.load(draft.queue(link), 4)
    assert spans(draft, engine) == [(0, 0, 1), (1, 1, 2), *[(0, 2, 2)] * 3, *[(1, 2, 2)] * 3]


def test_whole_transfers_take_turns_without_grants(engine: str) -> None:
    draft = Draft()
    link = draft.link(1, arbitration=Arbitration.ROUND_ROBIN)
    one, other = draft.queue(link), draft.queue(link)
    for queue, size in ((one, 3), (one, 4), (other, 5), (other, 6)):
        draft.load(queue, size)
    assert spans(draft, engine) == [(0, 0, 3), (2, 3, 8), (1, 8, 12), (3, 12, 18)]


def test_the_turn_passes_over_queues_that_do_not_ask(engine: str) -> None:
    draft = Draft()
    core = draft.core()
    queues = [draft.queue(core) for _ in range(3)]
    gate = draft.tile(draft.queue(draft.core()), 4)
    draft.tile(queues[0], 3)
    draft.tile(queues[0], 3)
    draft.tile(queues[1], 3, gate)
    draft.tile(queues[2], 3)
    # At 3 queue 1 does not ask yet: queue 2. At 6 the search goes on with queue 0, though queue 1 asks since 4.
    assert spans(draft, engine) == [(1, 0, 3), (0, 0, 4), (4, 3, 6), (2, 6, 9), (3, 9, 12)]


def test_chains_of_no_cycles_end_within_the_instant(engine: str) -> None:
    draft = Draft()
    one, other = cores(draft, 2)
    dram = draft.queue(draft.link(1))
    a = draft.tile(one, 0)
    b = draft.tile(other, 0, a)
    empty = draft.load(dram, 0, b)
    c = draft.tile(one, 0, empty)
    draft.tile(other, 5, c)
    assert spans(draft, engine) == [(0, 0, 0), (3, 0, 0), (1, 0, 0), (4, 0, 5), (2, 0, 0)]
    assert causes(draft, engine) == {
        0: (0, NONE, -1),
        1: (0, TILE, 0),
        2: (0, TILE, 1),
        3: (0, LOAD, 2),
        4: (0, TILE, 3),
    }


def test_the_empty_program_takes_no_time(engine: str) -> None:
    draft = Draft()
    draft.queue(draft.core())
    assert simulate(draft.program(), engine).latency_cycles == 0
    assert simulate(Draft().program(), engine).latency_cycles == 0


# --- 3 and 4: buffers, arbitration -----------------------------------------------------------------------------------


def test_an_asker_without_room_holds_back_those_behind_it(engine: str) -> None:
    draft = Draft()
    queues = cores(draft, 5)
    buffer = draft.buffer(10)
    x = draft.tile(queues[0], 10)
    w = draft.tile(queues[1], 1)
    y = draft.tile(queues[2], 10)
    gate = draft.tile(queues[3], 3)
    z = draft.tile(queues[4], 10, gate)
    for activity, size in ((x, 6), (w, 2), (y, 6), (z, 2)):
        draft.claim(buffer, size, activity, activity)
    # y lacks room until x ends; z would fit from cycle 3 on, but asked after y. w asks in the same cycle, before y.
    assert spans(draft, engine) == [(x, 0, 10), (w, 0, 1), (gate, 0, 3), (y, 10, 20), (z, 10, 20)]
    assert causes(draft, engine)[y] == (10, BUFFER, x)
    assert causes(draft, engine)[z] == (10, BUFFER, x)


def test_an_asker_that_fits_but_whose_resource_is_busy_holds_nobody_back(engine: str) -> None:
    draft = Draft()
    core = draft.core()
    first, second = draft.queue(core), draft.queue(core)
    other, third = cores(draft, 2)
    buffer = draft.buffer(10)
    p = draft.tile(first, 10)
    q = draft.tile(second, 5)
    gate = draft.tile(other, 1)
    r = draft.tile(third, 19, gate)
    draft.claim(buffer, 4, q, q)
    draft.claim(buffer, 8, r, r)
    assert spans(draft, engine) == [(p, 0, 10), (gate, 0, 1), (r, 1, 20), (q, 20, 25)]
    assert causes(draft, engine)[q] == (20, BUFFER, r)  # the core was free since 10; only the room came at 20


def test_one_held_back_that_fits_holds_nobody_back(engine: str) -> None:
    draft = Draft()
    queues = cores(draft, 4)
    x, y = draft.buffer(10), draft.buffer(10)
    user = draft.tile(queues[0], 10)
    a, b, c = (draft.tile(queue, 5) for queue in queues[1:])
    draft.claim(x, 6, user, user)
    draft.claim(x, 6, a, a)
    draft.claim(x, 1, b, b)
    draft.claim(y, 1, b, b)
    draft.claim(y, 1, c, c)
    assert spans(draft, engine) == [(user, 0, 10), (c, 0, 5), (a, 10, 15), (b, 10, 15)]


def test_without_room_in_one_buffer_an_asker_holds_back_in_all_its_buffers(engine: str) -> None:
    draft = Draft()
    queues = cores(draft, 3)
    x, y = draft.buffer(10), draft.buffer(10)
    user, a, b = (draft.tile(queue, 10) for queue in queues)
    draft.claim(y, 6, user, user)
    draft.claim(x, 1, a, a)
    draft.claim(y, 6, a, a)
    draft.claim(x, 1, b, b)
    assert spans(draft, engine) == [(user, 0, 10), (a, 10, 20), (b, 10, 20)]
    assert causes(draft, engine)[b] == (10, BUFFER, user)  # the buffer that was short for a, which held b back


def test_claims_of_one_activity_count_together(engine: str) -> None:
    draft = Draft()
    queues = cores(draft, 2)
    buffer = draft.buffer(10)
    one, other = (draft.tile(queue, 10) for queue in queues)
    draft.claim(buffer, 3, one, one)
    draft.claim(buffer, 4, other, other)
    draft.claim(buffer, 4, other, other)
    assert spans(draft, engine) == [(one, 0, 10), (other, 10, 20)]


def test_a_resource_serves_another_queue_while_the_head_of_one_lacks_room(engine: str) -> None:
    draft = Draft()
    core = draft.core()
    first, second = draft.queue(core), draft.queue(core)
    buffer = draft.buffer(4)
    (other,) = cores(draft, 1)
    blocked = draft.tile(first, 2)
    free = draft.tile(second, 5)
    user = draft.tile(other, 3)
    draft.claim(buffer, 4, -1, user)
    draft.claim(buffer, 4, blocked, blocked)
    assert spans(draft, engine) == [(free, 0, 5), (user, 0, 3), (blocked, 5, 7)]
    assert causes(draft, engine)[blocked] == (5, RESOURCE, free)  # room since 3, the core since 5


def test_room_goes_to_the_one_who_asked_first(engine: str) -> None:
    draft = Draft()
    low, high, third = cores(draft, 3)
    buffer = draft.buffer(1)
    gate = draft.tile(third, 2)
    late, early, first = draft.tile(low, 5, gate), draft.tile(high, 5), 3
    draft.tile(third, 4)
    draft.claim(buffer, 1, -1, first)
    draft.claim(buffer, 1, late, late)
    draft.claim(buffer, 1, early, early)
    # All wait until 6. ``late`` has the lower resource, but asks since 2; ``early`` since 0.
    assert spans(draft, engine) == [(gate, 0, 2), (first, 2, 6), (early, 6, 11), (late, 11, 16)]


def test_a_claim_is_kept_until_the_last_of_its_releasers_finishes(engine: str) -> None:
    draft = Draft()
    queues = cores(draft, 3)
    dram = draft.queue(draft.link(1, latency=6))
    buffer = draft.buffer(1)
    taker, user = draft.tile(queues[0], 1), draft.tile(queues[1], 2)
    load = draft.load(dram, 4)
    next_ = draft.tile(queues[2], 1)
    draft.claim(buffer, 1, taker, taker, user, load)
    draft.claim(buffer, 1, next_, next_)
    assert causes(draft, engine)[next_] == (10, BUFFER, load)  # 4 bytes, and 6 cycles of latency


def test_a_claim_whose_releasers_have_finished_occupies_nothing_once_taken(engine: str) -> None:
    draft = Draft()
    one, other = cores(draft, 2)
    buffer = draft.buffer(1)
    done = draft.tile(one, 2)
    taker = draft.tile(one, 10)
    follower = draft.tile(other, 1, done)
    draft.claim(buffer, 1, taker, done)
    draft.claim(buffer, 1, follower, follower)
    assert spans(draft, engine) == [(done, 0, 2), (taker, 2, 12), (follower, 2, 3)]


def test_claims_of_cycle_0_are_taken_before_anything_starts(engine: str) -> None:
    draft = Draft()
    one, other = cores(draft, 2)
    buffer = draft.buffer(5)
    first, second = draft.tile(one, 3), draft.tile(other, 1)
    draft.claim(buffer, 3, -1, first)
    draft.claim(buffer, 3, second, second)
    assert spans(draft, engine) == [(first, 0, 3), (second, 3, 4)]


# --- 5: causes -------------------------------------------------------------------------------------------------------


def test_waiting_for_a_resource(engine: str) -> None:
    draft = Draft()
    core = draft.core()
    one, other = draft.queue(core), draft.queue(core)
    a, b, c = draft.tile(one, 2), draft.tile(one, 2), draft.tile(other, 3)
    assert causes(draft, engine) == {a: (0, NONE, -1), c: (2, RESOURCE, a), b: (5, RESOURCE, c)}
    assert simulate(draft.program(), engine).events.ready_cycles.tolist() == [0, 0, 2]


def test_waiting_for_a_store_and_ties_go_to_the_lower_code_then_the_lower_row(engine: str) -> None:
    draft = Draft()
    (core,) = cores(draft, 1)
    links = [draft.queue(draft.link(1)) for _ in range(4)]
    store_1, store_0 = draft.store(links[0], 5), draft.store(links[1], 5)
    late, load = draft.load(links[2], 5), draft.load(links[3], 5)
    stored = draft.tile(core, 0, store_0, store_1)
    loaded = draft.tile(core, 1, load, late, store_0)
    found = causes(draft, engine)
    assert found[stored] == (5, STORE, store_1)
    assert found[loaded] == (5, LOAD, late)  # the queue was handed on, and the store finished, at 5, too
    assert late < load


def test_a_dependency_on_the_predecessor_counts_as_queue(engine: str) -> None:
    draft = Draft()
    dram = draft.queue(draft.link(1, latency=5))
    first = draft.load(dram, 3)
    second = draft.load(dram, 3, first)
    assert causes(draft, engine)[second] == (8, QUEUE, first)


def test_room_that_came_earlier_than_the_resource_is_no_cause(engine: str) -> None:
    draft = Draft()
    core = draft.core()
    one, other = draft.queue(core), draft.queue(core)
    (third,) = cores(draft, 1)
    buffer = draft.buffer(1)
    running, waiting, user = draft.tile(one, 8), draft.tile(other, 1), draft.tile(third, 8)
    draft.claim(buffer, 1, -1, user)
    draft.claim(buffer, 1, waiting, waiting)
    assert causes(draft, engine)[waiting] == (8, BUFFER, user)  # both at 8: it lacked room when cycle 7 ended
    draft.activities[user] = (third, 0, 7, 0)
    assert causes(draft, engine)[waiting] == (8, RESOURCE, running)


def test_of_those_who_give_back_together_the_highest_row_is_named(engine: str) -> None:
    draft = Draft()
    queues = cores(draft, 3)
    buffer = draft.buffer(2)
    one, other, waiting = (draft.tile(queue, 4) for queue in queues)
    for activity, size in ((one, 1), (other, 1), (waiting, 2)):
        draft.claim(buffer, size, activity, activity)
    assert causes(draft, engine)[waiting] == (4, BUFFER, other)


# --- 6: standstill, and what is refused before a run -----------------------------------------------------------------


def test_a_circle_of_dependencies_is_named(engine: str) -> None:
    draft = Draft()
    one, other = cores(draft, 2)
    draft.tile(one, 3)
    a, b = draft.tile(one, 1), draft.tile(other, 1)
    draft.dependencies += [(a, b), (b, a)]
    with pytest.raises(Deadlock) as caught:
        simulate(draft.program(), engine)
    assert str(caught.value).splitlines() == [
        "cycle 3: 2 of 3 activities are left and none of them can ever start",
        "  queue 'queue0': tile 0 of 'op1' waits for tile 0 of 'op2' to finish",
        "  queue 'queue1': tile 0 of 'op2' waits for tile 0 of 'op1' to finish",
        "In a circle: tile 0 of 'op1' waits for tile 0 of 'op2'; tile 0 of 'op2' waits for tile 0 of 'op1'.",
        "Reorder the queues, or break the circle of dependencies.",
    ]


def test_waiting_for_what_stands_behind_on_the_queue(engine: str) -> None:
    draft = Draft()
    dram, core = draft.queue(draft.link(1)), draft.queue(draft.core())
    store, load = draft.store(dram, 1), draft.load(dram, 1)
    tile = draft.tile(core, 1, load)
    draft.dependencies.append((tile, store))
    with pytest.raises(
        Deadlock, match=r"tile 0 of 'op2' waits for load of 'tensor1' \(behind store of 'tensor0' on queue"
    ):
        simulate(draft.program(), engine)


def test_who_holds_a_full_buffer_and_who_is_held_back_is_named(engine: str) -> None:
    draft = Draft()
    queues = cores(draft, 4)
    buffer = draft.buffer(100)
    first, second, third = (draft.tile(queue, 1) for queue in queues[:3])
    last = draft.tile(queues[3], 1, second)
    draft.claim(buffer, 70, first, last)
    draft.claim(buffer, 40, second, second)
    draft.claim(buffer, 10, third, third)
    with pytest.raises(Deadlock) as caught:
        simulate(draft.program(), engine)
    assert str(caught.value).splitlines() == [
        "cycle 1: 3 of 4 activities are left and none of them can ever start",
        "  queue 'queue1': tile 0 of 'op1' asks for 40 bytes of buffer 'buffer0', where 30 are free",
        "  queue 'queue2': tile 0 of 'op2' is held back by tile 0 of 'op1', which asked before it",
        "  queue 'queue3': tile 0 of 'op3' waits for tile 0 of 'op1' to finish",
        "  buffer 'buffer0': 70 of 100 bytes held by claim 0 of tile 0 of 'op0' "
        "(70 bytes, until tile 0 of 'op3' has finished)",
        "In a circle: tile 0 of 'op1' waits for tile 0 of 'op3'; tile 0 of 'op3' waits for tile 0 of 'op1'.",
        "Reorder the queues, let go of buffer space earlier, or give the buffer more room.",
    ]


def test_a_long_standstill_is_told_in_twelve_lines(engine: str) -> None:
    draft = Draft()
    queues = cores(draft, 40)
    for queue in queues:
        draft.tile(queue, 1)
    for row in range(40):
        draft.dependencies.append((row, (row + 1) % 40))
        draft.claim(draft.buffer(1), 1, -1)
    with pytest.raises(Deadlock, match="and 36 more queues that wait") as caught:
        simulate(draft.program(), engine)
    assert len(str(caught.value).splitlines()) <= 12
    assert len(str(caught.value)) < 1500


def test_a_claim_that_never_fits_is_refused() -> None:
    draft = Draft()
    (core,) = cores(draft, 1)
    buffer, other = draft.buffer(10), draft.buffer(100)
    tile = draft.tile(core, 1)
    draft.claim(other, 90, tile, tile)
    draft.claim(buffer, 6, tile, tile)
    check_program(draft.program())  # 96 bytes in all, but neither buffer overflows
    draft.claim(buffer, 5, tile, tile)
    with pytest.raises(BufferOverflow, match=r"tile 0 of 'op0' claims 11 bytes of buffer 'buffer0', 1 over its 10;"):
        check_program(draft.program())


def test_claims_of_cycle_0_that_never_fit_are_refused() -> None:
    draft = Draft()
    cores(draft, 1)
    buffer = draft.buffer(10)
    draft.claim(buffer, 6, -1)
    check_program(draft.program())
    draft.claim(buffer, 6, -1)
    with pytest.raises(BufferOverflow, match="taken at cycle 0 need 12 bytes of buffer 'buffer0', 2 over its 10"):
        check_program(draft.program())


def small() -> Draft:
    """A core, an in-order link, a load and the tile that needs it, a claim."""
    draft = Draft()
    core, dram = draft.queue(draft.core()), draft.queue(draft.link(1))
    load = draft.load(dram, 4)
    tile = draft.tile(core, 4, load)
    draft.claim(draft.buffer(4), 4, load, tile)
    return draft


@pytest.mark.parametrize(
    ("table", "row", "values", "message"),
    [
        ("resources", 0, (2, 0, 1, 0, 1, 0), r"resources.kind\[0\] is 2"),
        ("resources", 1, (1, 0, 1, 0, 0, 0), r"resources.bytes_numerator\[1\] is 0: the bandwidth of a link"),
        ("resources", 1, (1, 1, 0, 0, 0, 0), r"resources.bytes_denominator\[1\] is 0"),
        ("resources", 1, (1, 1, 1, -1, 0, 0), r"resources.latency_cycles\[1\] is -1"),
        ("resources", 1, (1, 1, 1, 0, 5, 0), r"resources.arbitration\[1\] is 5"),
        ("resources", 1, (1, 1, 1, 0, 0, -4), r"resources.grant_bytes\[1\] is -4"),
        ("resources", 0, (0, 0, 1, 5, 1, 0), r"resources.latency_cycles\[0\] is 5: a core has none"),
        ("queues", 0, 2, r"queues.resource\[0\] is 2: a row of resources \(it has 2 rows\) must be below 2"),
        ("rules", 1, (0, 1, 0, 0, -1), r"queues.tenant\[1\] is 0: a row of tenant_names \(it has 0 rows\)"),
        ("rules", 0, (-1, 1, 0, 0, 0), r"queues.port\[0\] is 0: transfers on a link pass the port of a core"),
        ("rules", 1, (-1, 1, 0, 0, 1), r"queues.port\[1\] is 1: transfers on a link pass the port of a core"),
        ("rules", 1, (-1, 1, 0, 0, 0), r"queues.port\[1\] is 0: core 'resource0' has no port with a bandwidth"),
        ("port_cycles", 0, 3, r"activities.port_cycles\[0\] is 3: load of 'tensor0': only tiles wait for ports"),
        ("rules", 1, (-1, 0, 0, 0, -1), r"queues.weight\[1\] is 0: a weight must be at least 1"),
        ("rules", 1, (-1, 1, -1, 0, -1), r"queues.rank\[1\] is -1"),
        (
            "rules",
            1,
            (-1, 1, 0, 1 << 17, -1),
            r"queues.outstanding\[1\] is 131,072: a limit of requests",
        ),
        ("rules", 0, (-1, 1, 0, 2, -1), r"queues.outstanding\[0\] is 2: a core has no requests on their way"),
        ("activities", 0, (2, 1, 0, 4), r"activities.queue\[0\] is 2"),
        ("activities", 0, (1, 4, 0, 4), r"activities.kind\[0\] is 4"),
        ("activities", 0, (0, 1, 0, 4), r"activities.queue\[0\] is 0: load of 'tensor0': tiles run on cores"),
        ("activities", 1, (0, 0, -1, 0), r"activities.cycles\[1\] is -1"),
        ("activities", 0, (1, 1, 3, 4), r"activities.cycles\[0\] is 3"),
        ("activities", 1, (0, 0, 3, 4), r"activities.bytes\[1\] is 4"),
        ("activities", 1, (0, 0, MAXIMUM_TOTAL - 1, 0), r"cycles in all"),
        ("dependencies", 0, (0, 7), r"dependencies.after\[0\] is 7"),
        ("dependencies", 0, (1, 1), r"tile 0 of 'op1' cannot depend on itself"),
        ("claims", 0, (3, 4, 0), r"claims.buffer\[0\] is 3"),
        ("claims", 0, (0, -4, 0), r"claims.bytes\[0\] is -4"),
        ("claims", 0, (0, 4, -2), r"claims.taken_by\[0\] is -2"),
        ("releases", 0, (1, 1), r"releases.claim\[0\] is 1"),
        ("releases", 0, (0, -1), r"releases.activity\[0\] is -1"),
        ("buffers", 0, -1, r"buffers.capacity_bytes\[0\] is -1"),
    ],
)
def test_malformed_programs_are_refused_by_row_and_column(table: str, row: int, values: object, message: str) -> None:
    draft = small()
    check_program(draft.program())
    getattr(draft, table)[row] = values
    with pytest.raises(MalformedProgram, match=message):
        check_program(draft.program())


def test_bytes_times_denominator_must_not_overflow() -> None:
    draft = small()
    draft.resources[1] = (1, 1 << 40, 1 << 40, 0, 0, 0)
    draft.activities[0] = (1, 1, 0, 1 << 30)
    with pytest.raises(MalformedProgram, match="link 'resource1'"):
        check_program(draft.program())


def test_columns_of_unequal_length_and_energy_that_is_no_number_are_refused() -> None:
    program = small().program()
    object.__setattr__(program, "queue_names", ("one",))
    with pytest.raises(MalformedProgram, match="queue_names has 1 names, queues has 2 rows"):
        check_program(program)
    program = small().program()
    object.__setattr__(program, "releases", program.releases._replace(claim=np.zeros(3, dtype=np.int64)))
    with pytest.raises(MalformedProgram, match=r"releases\.activity has shape"):
        check_program(program)
    program = small().program()
    object.__setattr__(program, "part_names", ("array",))
    object.__setattr__(program, "energy_pj", np.array([[1.0], [np.nan]]))
    with pytest.raises(MalformedProgram, match=r"energy_pj\[1, 'array'\] is nan"):
        check_program(program)


def test_an_unknown_engine_is_named_with_those_there_are() -> None:
    with pytest.raises(UnknownName, match="no engine 'fast'; there are 'compiled' and 'reference'"):
        simulate(small().program(), "fast")


def test_programs_are_the_same_only_if_every_number_is() -> None:
    assert same_program(small().program(), small().program())
    other = small()
    other.activities[0] = (1, 1, 0, 5)
    assert not same_program(small().program(), other.program())


def test_names_of_activities() -> None:
    program = small().program()
    assert activity_name(program, 0) == "load of 'tensor0'"
    assert activity_name(program, 1) == "tile 0 of 'op1'"
    nameless = program.activities._replace(operator=np.array([-1, -1]), tensor=np.array([-1, -1]))
    object.__setattr__(program, "activities", nameless)
    assert [activity_name(program, row) for row in (0, 1)] == ["load 0", "tile 1"]


def test_the_heap_gives_rows_in_order() -> None:
    random = np.random.default_rng(1)
    heap = np.empty((200, 2), dtype=np.int64)
    twin: list[tuple[int, int]] = []
    for activity in random.permutation(200).tolist():
        cycle = int(random.integers(0, 20))
        push(heap, len(twin), cycle, activity)
        heapq.heappush(twin, (cycle, activity))
        if random.integers(0, 3) == 0:
            assert pop(heap, len(twin)) == heapq.heappop(twin)[1]
    while twin:
        assert pop(heap, len(twin)) == heapq.heappop(twin)[1]


def test_a_link_with_one_queue_grants_whole_transfers(engine: str) -> None:
    # In grants of a byte, the second byte would take no cycle, and end only after the arbitration at cycle 1.
    draft = Draft()
    alone = draft.queue(draft.link(2, grant=1))
    link = draft.link(1, arbitration=Arbitration.ROUND_ROBIN, grant=1)
    low, high = draft.queue(link), draft.queue(link)
    interrupted = draft.load(high, 2)
    first = draft.load(alone, 2)
    second = draft.load(low, 1, first)
    assert spans(draft, engine) == [(first, 0, 1), (interrupted, 0, 1), (second, 1, 2), (interrupted, 2, 3)]


# --- 2: ports that tiles and transfers share --------------------------------------------------------------------------


def test_a_tile_waits_for_the_port_that_transfers_pass(engine: str) -> None:
    # A port of 4 bytes, a link of 2: a cycle of the link takes half of one of the port. The tile needs the port for 8
    # cycles; the link is busy in cycles 0-9, which take 5: the tile ends at 13, not at 10.
    draft = Draft()
    core, link = draft.core((4, 1)), draft.link(2)
    tile = draft.tile(draft.queue(core), 10)
    draft.port_cycles[tile] = 8
    draft.load(draft.queue(link, port=core), 20)
    assert spans(draft, engine) == [(0, 0, 13), (1, 0, 10)]


def test_only_what_passes_while_a_tile_runs_makes_it_wait(engine: str) -> None:
    # The link works from 0 to 6 and from 9 on; the tile, which needs the port all the time, runs from 4. By 4 + 5 = 9
    # two cycles of the link have passed, by 11 four (2 + 2), by 13 six, by 15 eight, by 17 nine, and no more follow.
    draft = Draft()
    core, link = draft.core((1, 1)), draft.link(1)
    gate = draft.tile(draft.queue(draft.core()), 4)
    again = draft.tile(draft.queue(draft.core()), 9)
    tile = draft.tile(draft.queue(core), 5, gate)
    draft.port_cycles[tile] = 5
    passing = draft.queue(link, port=core)
    draft.load(passing, 6)
    draft.load(passing, 7, again)
    assert sorted(spans(draft, engine)) == [(0, 0, 4), (1, 0, 9), (2, 4, 18), (3, 0, 6), (4, 9, 16)]


def test_a_port_that_is_fast_enough_makes_nobody_wait(engine: str) -> None:
    draft = Draft()
    core, link = draft.core((100, 1)), draft.link(2)
    tile = draft.tile(draft.queue(core), 10)
    draft.port_cycles[tile] = 9  # and a cycle of the port for the ten of the link
    draft.load(draft.queue(link, port=core), 20)
    assert spans(draft, engine) == [(0, 0, 10), (1, 0, 10)]


def test_links_that_pass_one_port_have_one_bandwidth() -> None:
    draft = Draft()
    core = draft.core((4, 1))
    for rate in (1, 2):
        draft.load(draft.queue(draft.link(rate), port=core), 1)
    with pytest.raises(MalformedProgram, match="links of 1 and 2 bytes per cycle pass it"):
        check_program(draft.program())
