"""Each rule of the notation: a schedule that keeps it, and the error, with its words, when one breaks it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accelsim import errors
from accelsim.schedule.living import default_order, live_tensors, usage_bytes
from accelsim.schedule.notation import DramTensor, Schedule, TensorKind
from accelsim.schedule.rules import (
    check_buffer,
    check_dram,
    check_fully_connected,
    check_layer_fusion,
    check_tile_order,
)
from accelsim.schedule.tiling import split_tiling_number, tile
from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.operator import Operand, Source
from accelsim.workload.operators import Conv2d, Elementwise, Transpose
from accelsim.workload.tensor import Tensor
from tests.strategies.networks import three_layers

WORKLOAD = three_layers()
FUSED = Schedule("three", ("A", "B", "C"), (2,), (), (2, 1))
"""{A, B} in two tiles, then C; one layer group: the worked example. Positions: A0 B0 A1 B1 C."""


def moved(schedule: Schedule) -> list[DramTensor]:
    return list(default_order(tile(WORKLOAD, schedule)))


def with_tensors(tensors: list[DramTensor]) -> Schedule:
    return replace(FUSED, dram_tensors=tuple(tensors))


def check(schedule: Schedule) -> None:
    tiling = tile(WORKLOAD, schedule)
    check_dram(tiling, live_tensors(tiling))


def test_worked_example_default_living_durations() -> None:
    """Computed by hand from the definitions of the notation, with sizes and positions as above."""
    shown = [(str(tensor), tensor.start, tensor.end) for tensor in moved(FUSED)]
    assert shown == [
        ("load_weight A", -1, 3),
        ("load_input A[0] from input", -1, 1),
        ("load_weight B", 0, 4),
        ("load_input A[1] from input", 1, 3),
        ("load_weight C", 3, 5),
        ("store_output C[0]", 4, 5),
    ]
    tiling = tile(WORKLOAD, FUSED)
    on_chip = {(t.place, t.tile): (t.start, t.end, t.bytes) for t in live_tensors(tiling) if t.dram is None}
    assert on_chip == {(0, 0): (0, 2, 160), (0, 1): (2, 4, 160), (1, 0): (1, 5, 160), (1, 1): (3, 5, 160)}
    assert usage_bytes(live_tensors(tiling), 5) == [480, 800, 960, 960, 1600, 1600]


def test_worked_example_with_weights_of_c_loaded_early() -> None:
    tensors = [replace(t, start=1) if (t.operator, t.kind) == ("C", "load_weight") else t for t in moved(FUSED)]
    tiling = tile(WORKLOAD, with_tensors(tensors))
    check_dram(tiling, live_tensors(tiling))
    assert usage_bytes(live_tensors(tiling), 5) == [480, 800, 1920, 1920, 1600, 1600]
    assert check_buffer(tiling, live_tensors(tiling), 1920) == 1920
    with pytest.raises(errors.BufferOverflow, match=r"at position 1 \(tile 0 of 'B'\)[\s\S]*load_weight C"):
        check_buffer(tiling, live_tensors(tiling), 1919)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"order": ("A", "B")}, errors.OrderError, "leaves out 1 operators: C"),
        ({"order": ("A", "B", "B")}, errors.OrderError, "'B' 2 times"),
        ({"order": ("A", "B", "conv")}, errors.OrderError, "'conv', which is no operator of 'three'"),
        ({"order": ("B", "A", "C")}, errors.OrderError, "'B' is computed at place 0, before 'A' at place 1"),
        ({"fusion_cuts": (0,)}, errors.CutError, "fusion cut 0 lies outside"),
        ({"fusion_cuts": (3,)}, errors.CutError, "expected 1 to 2"),
        ({"fusion_cuts": (2, 1), "tiling_numbers": (1, 1, 1)}, errors.CutError, "must ascend: 1 follows 2"),
        ({"fusion_cuts": (2, 2), "tiling_numbers": (1, 1, 1)}, errors.CutError, "must ascend: 2 follows 2"),
        ({"dram_cuts": (1,)}, errors.CutError, r"DRAM cuts \[1\] are not among the fusion cuts"),
        ({"tiling_numbers": (1,)}, errors.TilingNumberError, "1 tiling numbers for 2 fused groups"),
        ({"tiling_numbers": (0, 1)}, errors.TilingNumberError, r"\('A' to 'B'\) has tiling number 0"),
    ],
)
def test_layer_fusion_rules(change: dict[str, object], error: type[Exception], words: str) -> None:
    check_layer_fusion(WORKLOAD, FUSED)
    with pytest.raises(error, match=words):
        check_layer_fusion(WORKLOAD, replace(FUSED, **change))


def test_tiling_number_that_cannot_be_realised() -> None:
    with pytest.raises(errors.TilingNumberError, match=r"'B' \(1 samples of 20 x 1\) into 1 x 32 x 1 parts"):
        tile(WORKLOAD, replace(FUSED, tiling_numbers=(32, 1)))


@pytest.mark.parametrize(
    ("batch", "tiles", "rows", "columns", "parts"),
    [
        (4, 8, 10, 10, (4, 1, 2)),  # r = 2, x = 1.41: d = 1 and d = 2 are equally far (|2-1| = |1-2|): the upper one
        (1, 16, 14, 14, (1, 4, 4)),
        (1, 8, 512, 1, (1, 8, 1)),  # one divisor only
        (1, 8, 32, 8, (1, 4, 2)),  # x = sqrt 2: |8/1 - 4| = 4, |8/2 - 8| = 4: the upper one
        (6, 4, 9, 9, (2, 1, 2)),  # gcd(6, 4) = 2 of the batch
    ],
)
def test_split_of_a_tiling_number(batch: int, tiles: int, rows: int, columns: int, parts: tuple[int, ...]) -> None:
    assert split_tiling_number(WORKLOAD.operators[0], batch, tiles, rows, columns) == parts


def test_dram_tensors_must_be_those_that_the_cuts_imply() -> None:
    tensors = moved(FUSED)
    check(with_tensors(tensors))
    with pytest.raises(errors.DramTensorError, match="leaves out 1 of its 6 DRAM tensors: load_weight C"):
        check(with_tensors([t for t in tensors if str(t) != "load_weight C"]))
    with pytest.raises(errors.DramTensorError, match="some of 6 of them twice"):
        check(with_tensors([*tensors, tensors[0]]))
    with pytest.raises(errors.DramTensorError, match=r"store_output B\[0\] is no DRAM tensor of this schedule"):
        check(with_tensors([*tensors, DramTensor(TensorKind.STORE_OUTPUT, "B", 0, None, 1, 3)]))


def test_producer_may_be_left_out_where_it_is_clear() -> None:
    bare = [replace(t, producer=None) for t in moved(FUSED)]
    check(with_tensors(bare))
    add = Elementwise(
        "sum", tuple(Operand((Source(name),), (2, 4, 4)) for name in ("x", "y")), Tensor("sum", (2, 4, 4))
    )
    workload = Workload("two", (add,), (Tensor("x", (2, 4, 4)), Tensor("y", (2, 4, 4))), tile_rule=TileRule.SOMA)
    schedule = Schedule("two", ("sum",), (), (), (1,))
    both = default_order(tile(workload, schedule))
    assert [tensor.producer for tensor in both] == ["x", "y", None]
    blind = replace(schedule, dram_tensors=tuple(replace(t, producer=None) for t in both))
    with pytest.raises(errors.DramTensorError, match=r"one of \['x', 'y'\]: say which"):
        live_tensors(tile(workload, blind))


@pytest.mark.parametrize(
    ("name", "start", "end", "expected"),
    [
        ("load_weight C", 5, 5, "from -1 to 4, end 5"),
        ("load_weight C", 3, 4, "from -1 to 4, end 5"),
        ("load_input A[1] from input", 3, 3, "from -1 to 2, end 3"),
        ("load_input A[1] from input", -2, 3, "from -1 to 2, end 3"),
        ("store_output C[0]", 3, 5, "start 4, end from 5 to 5"),
        ("store_output C[0]", 4, 6, "start 4, end from 5 to 5"),
    ],
)
def test_living_durations(name: str, start: int, end: int, expected: str) -> None:
    tensors = [replace(t, start=start, end=end) if str(t) == name else t for t in moved(FUSED)]
    with pytest.raises(errors.LivingDurationError, match=expected):
        check(with_tensors(tensors))


def test_dram_order_may_not_block_itself() -> None:
    """The weights of C, gated to position 3, stand before the input that tile 2 needs: nobody could go on."""
    tensors = moved(FUSED)
    tensors[3], tensors[4] = tensors[4], tensors[3]
    with pytest.raises(errors.DramOrderError, match="load_weight C waits for position 3, but load_input A"):
        check(with_tensors(tensors))


def test_store_stands_behind_what_it_needs() -> None:
    tensors = moved(FUSED)
    tensors = [tensors[5], *tensors[:5]]
    tensors[0] = replace(tensors[0])
    with pytest.raises((errors.DependencyOrderError, errors.DramOrderError), match="store_output C"):
        check(with_tensors(tensors))
    late_weights = [replace(t, start=-1) for t in moved(FUSED) if t.kind is not TensorKind.STORE_OUTPUT]
    store = moved(FUSED)[5]
    with pytest.raises(errors.DependencyOrderError, match=r"store_output C\[0\] stands before load_weight C"):
        check(with_tensors([*late_weights[:4], store, late_weights[4]]))


def test_load_stands_behind_the_store_that_it_reads() -> None:
    cut = Schedule("three", ("A", "B", "C"), (2,), (2,), (1, 1))
    tensors = moved(cut)
    store = next(i for i, t in enumerate(tensors) if str(t) == "store_output B[0]")
    load = next(i for i, t in enumerate(tensors) if str(t) == "load_input C[0] from B")
    assert store < load
    tensors[store], tensors[load] = tensors[load], tensors[store]
    tiling = tile(WORKLOAD, replace(cut, dram_tensors=tuple(tensors)))
    with pytest.raises(errors.DependencyOrderError, match=r"load_input C\[0\] from B .* stands before store_output B"):
        check_dram(tiling, live_tensors(tiling))


def transposed() -> Workload:
    """A convolution and the transpose of its rows and channels."""
    first = Conv2d("conv", (Operand((Source("x"),), (4, 8, 8)),), Tensor("conv", (4, 8, 8)))
    turn = Transpose("turn", (Operand((Source("conv"),), (4, 8, 8)),), Tensor("turn", (8, 4, 8)), permutation=(1, 0, 2))
    return Workload("turned", (first, turn), (Tensor("x", (4, 8, 8)),), batch=2, tile_rule=TileRule.SOMA)


def test_transpose_in_a_fused_group_locks_what_it_exchanges() -> None:
    workload = transposed()
    together = Schedule("turned", ("conv", "turn"), (), (), (2,))
    check_layer_fusion(workload, together)  # the batch only
    with pytest.raises(errors.TransposeTilingError, match="cuts the rows of 'turn', which 'turn'"):
        check_layer_fusion(workload, replace(together, tiling_numbers=(16,)))
    check_layer_fusion(workload, replace(together, fusion_cuts=(1,), tiling_numbers=(16, 16)))


def test_fully_connected_layer_is_a_layer_group_by_itself() -> None:
    last = WORKLOAD.operators[2]
    assert isinstance(last, Conv2d)
    workload = replace(WORKLOAD, operators=(*WORKLOAD.operators[:2], replace(last, fully_connected=True)))
    check_fully_connected(workload, replace(FUSED, dram_cuts=(2,)))
    with pytest.raises(errors.CutError, match="'C' needs a DRAM cut at 2"):
        check_fully_connected(workload, FUSED)


def test_tile_order_pruning() -> None:
    tensors = moved(FUSED)
    check_tile_order(live_tensors(tile(WORKLOAD, FUSED)))
    tensors[1], tensors[3] = replace(tensors[3], start=-1), tensors[1]
    tiling = tile(WORKLOAD, with_tensors(tensors))
    check_dram(tiling, live_tensors(tiling))  # legal, only pruned
    with pytest.raises(errors.DramOrderError, match="against the order of their tiles"):
        check_tile_order(live_tensors(tiling))
