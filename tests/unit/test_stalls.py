"""Causes, operators and the critical path, against figures counted by hand."""

import numpy as np
import pytest

from accelsim.engine import ENGINES, simulate
from accelsim.timeline.occupancy import bin_edges, buffer_occupancy, bytes_in_bins, cycles_in_bins
from accelsim.timeline.stalls import (
    DRAIN,
    NO_OPERATOR,
    critical_path,
    cycles_by_cause,
    cycles_by_operator,
    idle_intervals,
)
from accelsim.timeline.table import Cause
from tests.strategies.programs import Draft
from tests.timelines import CORE, LINK, WORKED_EVENTS, hand_timeline, worked_example, worked_program


@pytest.mark.parametrize("engine", ENGINES)
def test_the_hand_written_events_are_those_of_the_machine(engine):
    for name, found, expected in zip(
        worked_example().events._fields,
        simulate(worked_program(), engine=engine).events,
        worked_example().events,
        strict=True,
    ):
        assert found.tolist() == expected.tolist(), name


def test_causes_of_the_worked_example():
    # 0-30 before A1 and 130-170 before C1 wait for loads; 210-230 stores; the tiles take 30 + 20 + 30 + 20 + 40.
    assert cycles_by_cause(worked_example()) == {
        "compute": 140,
        "wait_load": 70,
        "wait_store": 0,
        "wait_buffer": 0,
        "drain": 20,
    }


def test_idle_intervals_of_the_worked_example():
    idle = idle_intervals(worked_example())
    assert list(zip(*(column.tolist() for column in idle), strict=True)) == [
        (0, 30, Cause.LOAD, 2),
        (130, 170, Cause.LOAD, 9),
        (210, 230, DRAIN, -1),
    ]


def test_operators_of_the_worked_example():
    # A: 0-60 and 80-110; B: 60-80 and 110-130; C: its wait and tile 130-210 and the drain of its store.
    assert cycles_by_operator(worked_example()) == {"A": 90, "B": 40, "C": 100}


def test_critical_path_of_the_worked_example():
    timeline = worked_example()
    path = critical_path(timeline)
    # OC1 <- C1 <- WC <- A2 <- B1 <- A1 <- IA1 <- WA
    assert [WORKED_EVENTS[row][3] for row in path.tolist()] == [5, 6, 0, 1, 2, 9, 4, 10]
    events = timeline.events
    assert events.start_cycles[path[0]] == 0
    assert (events.end_cycles[path[:-1]] == events.start_cycles[path[1:]]).all()


def two_cores(rows):
    """Tiles 0 and 1 on core 0, 2 and 3 on core 1, then a load (4) and a store (5)."""
    draft = Draft()
    cores = [draft.queue(draft.core()), draft.queue(draft.core())]
    link = draft.queue(draft.link(1))
    for queue in (cores[0], cores[0], cores[1], cores[1]):
        draft.tile(queue, 10)
    draft.load(link, 10)
    draft.store(link, 10)
    return hand_timeline(draft.program(), rows)


def test_a_cycle_computes_while_any_core_runs():
    timeline = two_cores(
        [
            (0, 10, 0, 4, Cause.NONE, -1),
            (10, 20, 10, 0, Cause.LOAD, 4),
            (15, 25, 15, 2, Cause.BUFFER, 4),
            (25, 35, 20, 5, Cause.QUEUE, 4),
            (40, 50, 40, 1, Cause.STORE, 5),
            (40, 50, 40, 3, Cause.BUFFER, 5),
        ]
    )
    # 10-25 and 40-50 compute; 25-40 belongs to the lower core, whose tile waits for the store; nothing drains.
    assert cycles_by_cause(timeline) == {
        "compute": 25,
        "wait_load": 10,
        "wait_store": 15,
        "wait_buffer": 0,
        "drain": 0,
    }
    # 10-20 to op0, 20-25 to op2; the wait and the tile 25-50 to op1, which started on the lower core.
    assert cycles_by_operator(timeline) == {"op0": 20, "op2": 5, "op1": 25}


def test_other_causes_have_a_name_when_they_occur():
    timeline = two_cores(
        [
            (3, 10, 0, 0, Cause.NONE, -1),
            (15, 25, 15, 2, Cause.TILE, 0),
            (30, 40, 28, 1, Cause.RESOURCE, 2),
            (47, 50, 40, 3, Cause.QUEUE, 2),
            (50, 50, 50, 4, Cause.NONE, -1),
            (50, 51, 50, 5, Cause.QUEUE, 4),
        ]
    )
    found = cycles_by_cause(timeline)
    assert found == {
        "compute": 30,
        "wait_load": 0,
        "wait_store": 0,
        "wait_buffer": 0,
        "wait_tile": 5,
        "wait_resource": 5,
        "wait_other": 3 + 7,
        "drain": 1,
    }


def test_a_tile_of_no_cycles_ends_a_wait():
    timeline = two_cores(
        [
            (5, 5, 5, 0, Cause.LOAD, 4),
            (8, 18, 8, 1, Cause.BUFFER, 5),
            (18, 18, 18, 2, Cause.TILE, 1),
            (18, 18, 18, 3, Cause.QUEUE, 2),
        ]
    )
    assert cycles_by_cause(timeline)["wait_load"] == 5
    assert cycles_by_cause(timeline)["wait_buffer"] == 3


def test_idle_intervals_of_one_core():
    timeline = two_cores(
        [(0, 10, 0, 0, Cause.NONE, -1), (10, 20, 10, 2, Cause.TILE, 0), (20, 30, 20, 1, Cause.TILE, 2)]
    )
    assert idle_intervals(timeline).start_cycles.tolist() == []
    idle = idle_intervals(timeline, 1)
    assert list(zip(*(column.tolist() for column in idle), strict=True)) == [
        (0, 10, Cause.TILE, 1),
        (20, 30, DRAIN, -1),
    ]


def test_a_run_without_tiles_drains():
    draft = Draft()
    draft.store(draft.queue(draft.link(1)), 7)
    timeline = simulate(draft.program())
    assert cycles_by_cause(timeline)["drain"] == 7
    assert cycles_by_operator(timeline) == {"op0": 7}
    empty = simulate(Draft().program())
    assert sum(cycles_by_cause(empty).values()) == 0
    assert cycles_by_operator(empty) == {}
    assert len(critical_path(empty)) == 0


def test_cycles_without_an_operator_are_named_so():
    draft = Draft()
    draft.load(draft.queue(draft.link(1)), 7)
    assert cycles_by_operator(simulate(draft.program())) == {NO_OPERATOR: 7}


def test_occupancy_of_the_worked_example():
    held = buffer_occupancy(worked_example(), 0)
    # Bytes alive at positions -1 .. 4 as counted by hand; at 210 all but OC1 is given back.
    expected = {0: 480, 30: 800, 60: 960, 80: 960, 110: 1600, 130: 1280, 170: 1600, 210: 320, 230: 0}
    at = {cycle: int(held.values[np.searchsorted(held.cycles, cycle, side="right") - 1]) for cycle in expected}
    # B2 (position 3) frees WB and OA2 when it finishes, at 130, before C1 starts at 170.
    assert at == expected
    assert held.peak == 1600


def test_space_given_back_before_it_is_taken_never_counts():
    draft = Draft()
    core, link = draft.queue(draft.core()), draft.queue(draft.link(1))
    early = draft.tile(core, 5)
    late = draft.load(link, 9, early)
    draft.claim(draft.buffer(100), 60, late, early)
    held = buffer_occupancy(simulate(draft.program()), 0)
    assert held.peak == 0
    assert held.values.tolist() == [0] * len(held.cycles)


def test_a_claim_that_nobody_releases_stays():
    draft = Draft()
    core = draft.queue(draft.core())
    draft.tile(core, 5)
    draft.claim(draft.buffer(100), 60, draft.tile(core, 5))
    held = buffer_occupancy(simulate(draft.program()), 0)
    assert (held.cycles.tolist(), held.values.tolist()) == ([0, 5], [0, 60])


def test_bytes_and_cycles_in_bins():
    timeline = worked_example()
    edges = np.array([0, 25, 50, 115, 230])
    # 0-25: WA and half of IA1; 25-50: the rest, and WB; 50-115: IA2 and 5 cycles of WC; then the rest and OC1.
    on_link = timeline.events.resource == LINK
    assert bytes_in_bins(timeline, on_link, edges).tolist() == [320 + 80, 80 + 160, 160 + 80, 880 + 320]
    tiles = timeline.events.resource == CORE
    start, end = timeline.events.start_cycles[tiles], timeline.events.end_cycles[tiles]
    assert cycles_in_bins(start, end, edges).tolist() == [0, 20, 65, 15 + 40]


def test_bin_edges_are_whole_and_cover_the_run():
    assert bin_edges(worked_example(), 4).tolist() == [0, 57, 115, 172, 230]
    assert bin_edges(worked_example(), 1000).tolist() == list(range(231))
    assert bin_edges(simulate(Draft().program()), 10).tolist() == [0, 0]
