"""What must hold for any network, any cuts and any tiling numbers, under both tile rules."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accelsim.errors import TilingNumberError
from accelsim.schedule.living import default_tensors, live_tensors, usage_bytes
from accelsim.schedule.notation import Schedule
from accelsim.schedule.rules import check_dram, check_layer_fusion, check_tile_order
from accelsim.schedule.tiling import Tiling, tile
from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.operator import ArrayWork
from accelsim.workload.tensor import Box, whole_box
from tests.strategies.networks import layer_fusions, networks


def tiled(data: st.DataObject, rule: TileRule | None = None) -> tuple[Workload, Schedule, Tiling]:
    workload = data.draw(networks(rule))
    schedule = data.draw(layer_fusions(workload))
    check_layer_fusion(workload, schedule)
    try:
        return workload, schedule, tile(workload, schedule)
    except TilingNumberError:
        assume(False)
        raise


def inside(small: Box, large: Box) -> bool:
    return all(c <= a and b <= d for (a, b), (c, d) in zip(small, large, strict=True))


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_every_tile_stands_behind_what_it_reads_and_defaults_are_legal(data: st.DataObject) -> None:
    workload, schedule, tiling = tiled(data)
    assert [tiling.position(step.place, step.tile) for step in tiling.steps] == list(range(len(tiling.steps)))
    tensors = default_tensors(tiling)
    check_dram(tiling, tensors)
    check_tile_order(tensors)
    listed = Schedule(
        workload.name,
        schedule.order,
        schedule.fusion_cuts,
        schedule.dram_cuts,
        schedule.tiling_numbers,
        tuple(tensor.dram for tensor in tensors if tensor.dram),
    )
    assert live_tensors(tile(workload, listed)) == tensors


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_usage_is_the_sum_of_what_is_alive(data: st.DataObject) -> None:
    _, _, tiling = tiled(data)
    tensors = default_tensors(tiling)
    positions = range(-1, len(tiling.steps))
    expected = [sum(t.bytes for t in tensors if t.start <= p < t.end) for p in positions]
    assert usage_bytes(tensors, len(tiling.steps)) == expected


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_exact_tiles_compute_all_that_is_read_of_them(data: st.DataObject) -> None:
    """Counted element by element: what a tile reads was computed before it, in its own fused group by the same tile."""
    workload, _, tiling = tiled(data, TileRule.EXACT)
    made: dict[str, np.ndarray] = {}
    for operator in workload.operators:
        made[operator.name] = np.zeros((workload.batch, *operator.output.shape), dtype=bool)
    for step in tiling.steps:
        operator = workload.operator(tiling.schedule.order[step.place])
        assert inside(step.block.box, whole_box(workload.batch, operator.output.shape))
        for index, operand in enumerate(operator.operands):
            for producer, box in operand.source_boxes(operator.operand_box(index, step.block.box)):
                if producer not in made:
                    continue
                maker = tiling.place[producer]
                if tiling.group_of[maker] == tiling.group_of[step.place]:
                    assert inside(box, tiling.steps[tiling.position(maker, step.tile)].block.box)
                else:
                    assert made[producer][tuple(slice(*span) for span in box)].all()
        made[operator.name][tuple(slice(*span) for span in step.block.box)] = True
    for name in workload.outputs:
        assert made[name].all()


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_exact_rule_stores_every_byte_once_and_computes_no_less_than_the_work(data: st.DataObject) -> None:
    workload, _, tiling = tiled(data, TileRule.EXACT)
    stored: dict[int, int] = {}
    for tensor in default_tensors(tiling):
        if tensor.dram and tensor.dram.kind == "store_output":
            stored[tensor.place] = stored.get(tensor.place, 0) + tensor.moved_bytes
    for place, moved in stored.items():
        assert moved == workload.batch * workload.operator(tiling.schedule.order[place]).output.sample_bytes
    macs = sum(step.block.work.macs for step in tiling.steps if isinstance(step.block.work, ArrayWork))
    # An operator whose rows nobody reads (a strided 1x1 window) need not compute them.
    unread = any(
        getattr(op, "stride", (1, 1))[axis] > getattr(op, "kernel", (1, 1))[axis]
        or (
            op.operands[0].shape[1 + axis]
            + 2 * getattr(op, "padding", (0, 0))[axis]
            - getattr(op, "kernel", (1, 1))[axis]
        )
        % getattr(op, "stride", (1, 1))[axis]
        for op, axis in product(workload.operators, (0, 1))
    )
    assert unread or macs >= workload.macs
    if all(group.size == 1 for group in tiling.groups):
        assert macs == workload.macs


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_soma_rule_gives_all_tiles_of_an_operator_one_shape(data: st.DataObject) -> None:
    """Pure output operators: ceil of the even share, all channels; tiles together cover the output."""
    workload, _, tiling = tiled(data, TileRule.SOMA)
    shapes: dict[int, set[Box]] = {}
    for step in tiling.steps:
        shapes.setdefault(step.place, set()).add(step.block.box)
    assert all(len(found) == 1 for found in shapes.values())
    for group in tiling.groups:
        names = tiling.schedule.order[group.begin : group.end]
        for place, name in enumerate(names, group.begin):
            if set(workload.consumers[name]) & set(names):
                continue
            (box,) = shapes[place]
            samples, channels, rows, columns = (end for _, end in box)
            operator = workload.operator(name)
            assert channels == operator.output.shape[0]
            assert workload.batch % samples == 0
            parts = group.tiles // (workload.batch // samples)
            best = min(
                -(-operator.output.shape[1] // (parts // d)) * -(-operator.output.shape[2] // d)
                for d in range(1, parts + 1)
                if parts % d == 0
            )
            assert best <= rows * columns <= operator.output.shape[1] * operator.output.shape[2]
            assert rows * columns * parts >= operator.output.shape[1] * operator.output.shape[2]
