"""Kernels of the search against the definitions in Python that they are compiled twins of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accelsim.engine import simulate
from accelsim.errors import ScheduleError
from accelsim.hardware.accelerator import Accelerator
from accelsim.program.bounds import busy_cycles
from accelsim.program.lower import lower
from accelsim.schedule.living import live_tensors, usage_bytes
from accelsim.schedule.notation import Schedule
from accelsim.schedule.rules import check_dram, check_layer_fusion, check_tile_order
from accelsim.schedule.tiling import Tiling, group_tiler, split_tiling_number, tile
from accelsim.search import Objective
from accelsim.search.choice import Result
from accelsim.search.network import network_of
from accelsim.search.plans import LEGAL, column_parts_of, empty_shapes, shape_tiles
from accelsim.search.session import Session
from accelsim.workload.graph import TileRule, Workload
from tests.strategies.machines import machines
from tests.strategies.networks import layer_fusions, networks

pytestmark = pytest.mark.kernel

PLENTY = 1 << 40


def priced_with_ease(session: Session, schedule: Schedule) -> tuple[Result, Tiling] | None:
    """What the kernel says of a schedule in a buffer that holds everything; None if both call it illegal."""
    found = session.price(session.choice(schedule), PLENTY)
    try:
        check_layer_fusion(session.workload, schedule)
        tiling = tile(session.workload, schedule)
    except ScheduleError:
        assert found is None
        return None
    assert found is not None
    return found, tiling


@given(networks(), machines(), st.data())
@settings(max_examples=150, deadline=None)
def test_double_buffering_costs_what_its_program_costs(
    workload: Workload, accelerator: Accelerator, data: st.DataObject
) -> None:
    schedule = data.draw(layer_fusions(workload))
    session = Session(workload, accelerator, Objective(), None)
    priced = priced_with_ease(session, schedule)
    if priced is None:
        return
    found, tiling = priced
    peak = max(usage_bytes(live_tensors(tiling), len(tiling.steps)))
    assert (found.positions, found.peak_bytes) == (len(tiling.steps), peak)
    capacity = accelerator.buffers["global"].capacity_bytes
    assert (session.price(session.choice(schedule), capacity) is None) == (peak > capacity)
    if peak > capacity:
        return
    program = lower(workload, accelerator, schedule)
    timeline = simulate(program)
    assert found.latency_cycles == timeline.latency_cycles
    energy = program.energy_pj.sum() + program.static_pj_per_cycle * timeline.latency_cycles
    assert found.energy_pj == pytest.approx(energy, rel=1e-12)


@given(networks(TileRule.SOMA), machines(), st.sampled_from([24, 40, 96]), st.data())
@settings(max_examples=150, deadline=None)
def test_tiles_that_repeat_themselves_cost_what_all_of_them_cost(
    workload: Workload, accelerator: Accelerator, samples: int, data: st.DataObject
) -> None:
    """Groups of so many tiles are not walked one by one; their programs are."""
    workload = workload.with_batch(samples)
    schedule = data.draw(layer_fusions(workload))
    numbers = st.sampled_from([samples, 2 * samples, samples // 2, 1])
    schedule = replace(schedule, tiling_numbers=tuple(data.draw(numbers) for _ in schedule.tiling_numbers))
    session = Session(workload, accelerator, Objective(), None)
    priced = priced_with_ease(session, schedule)
    if priced is None:
        return
    found, tiling = priced
    tensors = live_tensors(tiling)
    assert (found.positions, found.peak_bytes) == (len(tiling.steps), max(usage_bytes(tensors, len(tiling.steps))))
    endless = replace(accelerator.buffers["global"], capacity_bytes=PLENTY)
    large = replace(accelerator, buffers={**accelerator.buffers, "global": endless})
    program = lower(workload, large, schedule)
    assert found.latency_cycles == simulate(program).latency_cycles
    assert [found.tile_cycles, found.transfer_cycles] == list(busy_cycles(program).values())
    assert found.energy_pj == pytest.approx(
        program.energy_pj.sum() + program.static_pj_per_cycle * found.latency_cycles, rel=1e-12
    )


@given(networks(), machines(), st.data())
@settings(max_examples=150, deadline=None)
def test_list_scheduling_is_legal_and_costs_what_it_says(
    workload: Workload, accelerator: Accelerator, data: st.DataObject
) -> None:
    schedule = data.draw(layer_fusions(workload))
    session = Session(workload, accelerator, Objective(), None)
    choice = session.choice(schedule)
    horizon = data.draw(st.sampled_from([0, 1, 2, 1 << 40]))
    found = session.price(choice, session.capacity_bytes, (horizon, horizon))
    if found is None:
        # Then nothing fits: list scheduling holds back every load and ends every store as early as can be.
        try:
            tiling = tile(workload, schedule)
        except ScheduleError:
            return
        least = [
            tensor._replace(start=tiling.position(tensor.place, tensor.tile or 0), end=tensor.least_end)
            for tensor in live_tensors(tiling)
        ]
        assert max(usage_bytes(least, len(tiling.steps))) > session.capacity_bytes
        return
    listed = session.list_schedule(choice, (horizon, horizon))
    tiling = tile(workload, listed)
    tensors = live_tensors(tiling)
    check_dram(tiling, tensors)
    check_tile_order(tensors)
    program = lower(workload, accelerator, listed)
    timeline = simulate(program)
    assert found.latency_cycles == timeline.latency_cycles
    energy = program.energy_pj.sum() + program.static_pj_per_cycle * timeline.latency_cycles
    assert found.energy_pj == pytest.approx(energy, rel=1e-12)


@given(networks(TileRule.SOMA), st.integers(1, 12), st.data())
@settings(max_examples=200, deadline=None)
def test_tile_shapes_are_those_of_the_rule(workload: Workload, tiles: int, data: st.DataObject) -> None:
    order: Schedule = data.draw(layer_fusions(workload))
    begin, end = data.draw(st.sampled_from(order.groups))
    group = [workload.operator(name) for name in order.order[begin:end]]
    network, shapes = network_of(workload), empty_shapes(len(workload.operators))
    for place, operator in enumerate(group):
        shapes.group[place] = workload.index[operator.name]
        shapes.mark[workload.index[operator.name]] = 1
    status = shape_tiles(network, shapes, len(group), tiles)
    try:
        blocks = group_tiler(TileRule.SOMA)(workload, group, tiles)
    except ScheduleError:
        assert status != LEGAL
        return
    assert status == LEGAL
    for operator, row in zip(group, blocks, strict=True):
        number = workload.index[operator.name]
        shape = tuple(int(column[number]) for column in shapes[:4])
        assert shape == tuple(end - begin for begin, end in row[0].box)


@given(st.integers(1, 4096), st.integers(1, 300), st.integers(1, 300))
@settings(max_examples=300, deadline=None)
def test_columns_are_cut_as_the_definition_cuts(rest: int, rows: int, columns: int) -> None:
    from tests.strategies.networks import three_layers

    assume(rest <= rows * columns)
    operator = three_layers().operators[0]
    found = int(column_parts_of(rest, rows, columns))
    assert rest % found == 0
    try:
        parts = split_tiling_number(operator, 1, rest, rows, columns)
    except ScheduleError:
        assert found > columns or rest // found > rows
        return
    assert parts.columns == found


def test_no_two_keys_are_one() -> None:
    """Groups and tiling numbers that differ, in whatever way, have plans of their own."""
    from accelsim.search.plan_store import group_key

    keys = set()
    count = 0
    for size in range(4):
        for group in np.ndindex(*(6,) * size):
            if list(group) == sorted(set(group)):
                for tiles in (1, 2, 3, 4, 5, 6, 1 << 20):
                    keys.add(tuple(int(part) for part in group_key(np.array(group, dtype=np.int64), size, tiles)))
                    count += 1
    assert len(keys) == count
    forward, backward = np.array([0, 3, 5]), np.array([5, 0, 3])
    assert group_key(forward, 3, 2) == group_key(backward, 3, 2)
