"""Systolic arrays: closed forms and compiled clock against the same machine stepped on real numbers, and by hand."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from accelsim.errors import InputError, UnsupportedOperator
from accelsim.hardware.buffer import Buffer
from accelsim.hardware.dataflow import DATAFLOWS
from accelsim.hardware.dataflow.dataflow import MOST_CYCLES, TileColumns
from accelsim.hardware.dataflow.systolic import SystolicArray
from accelsim.hardware.dataflow.systolic_activity import active_elements
from accelsim.hardware.dataflow.systolic_cycles import clocked_product
from accelsim.library import load_accelerator
from tests.naive import systolic as twin

FLOWS = ("output_stationary", "weight_stationary", "input_stationary")


def array(flow: str, rows: int, columns: int, rate: Fraction | None = None, **switches: Any) -> SystolicArray:
    # 1 pJ a byte read, 10^6 a byte written: the energy of the buffer shows both counts.
    given = {"counting": "causal"} | switches
    return DATAFLOWS[flow](  # type: ignore[call-arg,return-value]
        rows=rows, columns=columns, mac_pj=0.5, buffer=Buffer("global", 1 << 20, rate, 1.0, 1e6), **given
    )


def tiles(**columns: int | list[int]) -> TileColumns:
    """Columns from scalars or lists; what is not given is 1 (``weights_from_operator``: 0)."""
    given_columns = dict.fromkeys(TileColumns._fields, 1) | {"weights_from_operator": 0} | columns
    if "filters_per_group" not in columns:
        given_columns["filters_per_group"] = given_columns["filters"]
    return TileColumns(
        *(np.array(column) for column in np.broadcast_arrays(*map(np.atleast_1d, given_columns.values())))
    )


@pytest.mark.parametrize("flow", FLOWS)
def test_closed_forms_and_compiled_clock_are_what_the_twin_does(flow: str) -> None:
    """2,000 tiles under all combinations of switches: product, cycles, every access, and who works when."""
    random = np.random.default_rng(FLOWS.index(flow))
    for _ in range(2000):
        M, N, K = (int(size) for size in random.integers(1, 8, 3))
        rows, columns, groups = int(random.integers(1, 5)), int(random.integers(1, 5)), int(random.integers(1, 3))
        compact, overlap, preload = (bool(bit) for bit in random.integers(0, 2, 3))
        preload = preload and flow != "output_stationary"
        pairs = [(random.integers(-128, 128, (M, K)), random.integers(-128, 128, (K, N))) for _ in range(groups)]
        switches = twin.Switches(compact, overlap, preload)
        products, cycles, crossings = getattr(twin, flow)(pairs, rows, columns, switches)
        for product, (a, b) in zip(products, pairs, strict=True):
            assert (product == a @ b).all()

        options = {"compact_edge_folds": compact, "fold_overlap": overlap}
        if flow != "output_stationary":
            options["stationary_preload"] = preload
        machine = array(flow, rows, columns, **options)
        tile = tiles(rows=M, channels=K * groups, filters=N * groups, filters_per_group=N, groups=groups)
        assert machine.cost(tile).cycles.tolist() == [cycles], (M, N, K, rows, columns, groups, switches)
        inputs, weights = crossings.from_left, crossings.from_top
        if flow == "input_stationary":
            inputs, weights = weights, inputs
        counts = [column.item() for column in machine.accesses(tile)]
        assert counts == [inputs, weights, crossings.out, crossings.sums_read_back]

        multiplied = [crossings.multiplied[cycle] for cycle in range(cycles)]
        assert active_elements(machine, M, N, K, repeats=groups).tolist() == multiplied
        if groups == 1:
            clocked = clocked_product(machine, *pairs[0])
            assert (clocked.product == pairs[0][0] @ pairs[0][1]).all()
            assert clocked.active.tolist() == multiplied


# 5 inputs, 8 filters, 8 terms on 4 x 4. Weights held: 2 x 2 folds of 4 rows, 4 columns, 5 items.
# Serial: load 4, then 4 + 4 + 5 - 2 = 11. Preload: one load, then 11 each. Overlap: a load starts with the last of the
# 5 items, 5 - 1 + 4 = 8 from start to start. Both: items follow without a gap, 5.
@pytest.mark.parametrize(
    ("preload", "overlap", "cycles"),
    [(False, False, 4 * 15), (True, False, 4 + 4 * 11), (False, True, 4 + 3 * 8 + 11), (True, True, 4 + 3 * 5 + 11)],
)
def test_how_folds_with_held_weights_follow_one_another(preload: bool, overlap: bool, cycles: int) -> None:
    machine = array("weight_stationary", 4, 4, stationary_preload=preload, fold_overlap=overlap)
    assert machine.cost(tiles(rows=5, filters=8, channels=8)).cycles.tolist() == [cycles]
    # The transposed product with inputs held is the same one.
    machine = array("input_stationary", 4, 4, stationary_preload=preload, fold_overlap=overlap)
    assert machine.cost(tiles(rows=8, filters=5, channels=8)).cycles.tolist() == [cycles]


def test_how_folds_with_held_outputs_follow_one_another() -> None:
    # 8 x 8 outputs over 9 terms on 4 x 4: 4 folds of 8 + 4 + 9 - 2 = 19; overlapped, 9 from start to start.
    tile = tiles(rows=8, filters=8, channels=9)
    assert array("output_stationary", 4, 4).cost(tile).cycles.tolist() == [4 * 19]
    assert array("output_stationary", 4, 4, fold_overlap=True).cost(tile).cycles.tolist() == [3 * 9 + 19]
    # Over 2 terms it is the drain of 4 rows that spaces them.
    tile = tiles(rows=8, filters=8, channels=2)
    assert array("output_stationary", 4, 4, fold_overlap=True).cost(tile).cycles.tolist() == [3 * 4 + 12]


def test_compact_edge_folds_are_small_arrays() -> None:
    # 5 x 5 held on 4 x 4, 7 items: folds of 4x4, 1x4, 4x1, 1x1 take 2r + c + 5 = 17, 11, 14, 8 instead of 4 x 17.
    for flow, sizes in (
        ("output_stationary", {"rows": 5, "filters": 5, "channels": 7}),
        ("weight_stationary", {"rows": 7, "filters": 5, "channels": 5}),
        ("input_stationary", {"rows": 5, "filters": 7, "channels": 5}),
    ):
        assert array(flow, 4, 4, compact_edge_folds=True).cost(tiles(**sizes)).cycles.tolist() == [17 + 11 + 14 + 8]
        assert array(flow, 4, 4).cost(tiles(**sizes)).cycles.tolist() == [4 * 17]


def test_a_full_pipeline_takes_one_cycle_an_input_row() -> None:
    # Jouppi et al., ISCA 2017, section 2: a product of B x 256 by 256 x 256 takes B cycles, pipelined.
    machine = load_accelerator("tpu_v1")
    one, two, four = machine.array_cost(
        tiles(rows=[1000, 2000, 1000], channels=[256, 256, 512], filters=[256, 256, 512])
    ).cycles.tolist()
    assert two - one == 1000
    assert four - one == 3 * 1000


@pytest.mark.parametrize("flow", FLOWS)
def test_arrays_share_positions_filters_or_products(flow: str) -> None:
    """Two arrays take as long as the one with the larger share, under the best of the ways to share out."""
    random = np.random.default_rng(9)
    one, two = array(flow, 8, 4), array(flow, 8, 4, arrays=2)
    assert two.macs_per_cycle == 2 * one.macs_per_cycle
    for _ in range(100):
        M, N, K, groups = (int(size) for size in random.integers(1, [60, 40, 40, 5]))

        def cycles(machine: SystolicArray, M: int, N: int, groups: int, K: int = K) -> int:
            sizes = {"rows": M, "channels": K * groups, "filters": N * groups, "filters_per_group": N, "groups": groups}
            return machine.cost(tiles(**sizes)).cycles.item()

        ways = ((-(-M // 2), N, groups), (M, -(-N // 2), groups), (M, N, -(-groups // 2)))
        assert cycles(two, M, N, groups) == min(cycles(one, *way) for way in ways)


def test_switches_only_save_time() -> None:
    random = np.random.default_rng(5)
    columns = tiles(**{name: random.integers(1, 200, 200).tolist() for name in ("rows", "channels", "filters")})
    for flow in FLOWS:
        names = DATAFLOWS[flow].switches  # type: ignore[attr-defined]
        for on in itertools.product([False, True], repeat=len(names)):
            options = dict(zip(names, on, strict=True))
            cycles = array(flow, 16, 8, **options).cost(columns).cycles
            for name in names:
                if name == "compact_edge_folds" and options["fold_overlap"]:
                    continue  # a low fold may have to wait for the sums of a high one ahead of it
                more = array(flow, 16, 8, **options | {name: True}).cost(columns).cycles
                assert (more <= cycles).all(), (flow, on, name)


def test_overlapped_a_low_fold_waits_for_the_sums_of_a_high_one() -> None:
    # 5 outputs on 4 x 1 over 1 term: the fold of 1 row starts 2 x 4 - 1 cycles after that of 4, and takes 2.
    machine = array("output_stationary", 4, 1, fold_overlap=True, compact_edge_folds=True)
    assert machine.cost(tiles(rows=5)).cycles.tolist() == [7 + 2]


def test_convolutions_are_products() -> None:
    # 2 samples, 5 x 7 outputs, 6 channels, 3 x 3: M = 70, N = 8, K = 54 on 16 x 4: 5 x 2 folds of 32 + 4 + 54 - 2.
    conv = tiles(batch=2, channels=6, filters=8, rows=5, columns=7, kernel_rows=3, kernel_columns=3, stride_rows=2)
    cost = array("output_stationary", 16, 4).cost(conv)
    assert cost.cycles[0] == 10 * 88
    assert cost.energy_pj[0].tolist() == [0.5 * 70 * 8 * 54, 2 * 70 * 54 + 5 * 54 * 8 + 1e6 * 70 * 8]


def test_partial_sums_are_written_and_read_back_at_four_bytes() -> None:
    # 3 inputs, 5 filters, 10 terms on 4 x 8, weights held: 3 row folds, so 2 times 15 sums of 4 bytes go out and back.
    cost = array("weight_stationary", 4, 8).cost(tiles(rows=3, filters=5, channels=10))
    assert cost.cycles.tolist() == [3 * (2 * 4 + 8 + 3 - 2)]
    assert cost.energy_pj[0].tolist() == [0.5 * 150, 30 + 50 + 4 * 30 + 1e6 * (4 * 30 + 15)]


def test_groups_run_one_after_another() -> None:
    # Depthwise, 10 groups of one channel and one filter: 10 products of 9 x 1 x 9, each 2 row folds of 16 + 8 + 9 - 2.
    depthwise = tiles(
        channels=10, filters=10, filters_per_group=1, groups=10, rows=3, columns=3, kernel_rows=3, kernel_columns=3
    )
    cost = array("output_stationary", 8, 8).cost(depthwise)
    assert cost.cycles[0] == 10 * (2 * (16 + 8 + 9 - 2))
    assert cost.energy_pj[0, 0] == 0.5 * 10 * 9 * 9


def test_without_groups_an_inflated_tile_is_one_product() -> None:
    # 12 filters in the tile of an operator with 8: one product of 1 x 12 x 5 in two column folds, not two products.
    cost = array("output_stationary", 8, 8).cost(tiles(channels=5, filters=12, filters_per_group=8))
    assert cost.cycles[0] == 2 * (16 + 8 + 5 - 2)
    assert cost.energy_pj[0].tolist() == [0.5 * 60, 2 * 5 + 5 * 12 + 1e6 * 12]


def test_weights_of_another_operator_differ_in_every_sample() -> None:
    # 3 samples of one row each: 3 products of 1 x 4 x 5 instead of one of 3 x 4 x 5.
    tile = tiles(batch=3, channels=5, filters=4, weights_from_operator=[0, 1])
    shared, own = array("output_stationary", 8, 8).cost(tile).cycles
    assert (shared, own) == (16 + 8 + 5 - 2, 3 * (16 + 8 + 5 - 2))


def test_the_read_port_limits() -> None:
    # 8 x 8 x 100 on 8 x 8: 122 cycles; 1600 bytes read take 1600 / rate.
    product = tiles(rows=8, filters=8, channels=100)
    for rate, cycles in [
        (Fraction(1600, 121), 122),
        (Fraction(1600, 122), 122),
        (Fraction(1600, 123), 123),
        (Fraction(3, 2), 1067),
    ]:
        machine = array("output_stationary", 8, 8, rate=rate)
        assert machine.cost(product).cycles[0] == cycles
        assert machine.port_bytes(product).tolist() == [1600]


@pytest.mark.parametrize("flow", FLOWS)
def test_only_scalesim_counting_never_cuts_a_layer(flow: str) -> None:
    assert array(flow, 4, 4, counting="scalesim").one_tile_per_operator
    assert not array(flow, 4, 4).one_tile_per_operator


@pytest.mark.parametrize("flow", FLOWS)
def test_the_largest_tiles_neither_overflow_nor_pass(flow: str) -> None:
    # 2^40 MACs on a 1 x 1 array: a fold each for two of the three sizes; cycles in whole numbers of any size.
    M, N, K = 1 << 14, 1 << 13, 1 << 13
    machine = array(flow, 1, 1, rate=Fraction(1, 1 << 10))
    cost = machine.cost(tiles(rows=M, filters=N, channels=K))
    reads = 2 * M * N * K if flow == "output_stationary" else M * N * K + (M if flow[0] == "i" else N) * K
    if flow != "output_stationary":
        reads += 4 * M * N * (K - 1)
    assert cost.cycles.tolist() == [reads << 10]
    with pytest.raises(UnsupportedOperator, match="multiply-accumulates"):
        machine.cost(tiles(rows=1 << 30, filters=1 << 20, channels=1 << 10))


@pytest.mark.kernel
@pytest.mark.parametrize("flow", FLOWS)
def test_the_clocked_array_on_larger_products(flow: str) -> None:
    random = np.random.default_rng(3)
    switches: tuple[str, ...] = DATAFLOWS[flow].switches  # type: ignore[attr-defined]
    for M, N, K, rows, columns in [(1, 1, 1, 5, 7), (30, 20, 10, 8, 8), (9, 40, 23, 4, 16), (33, 5, 17, 16, 4)]:
        a, b = random.integers(-128, 128, (M, K), dtype=np.int8), random.integers(-128, 128, (K, N), dtype=np.int8)
        for on in itertools.product([False, True], repeat=len(switches)):
            machine = array(flow, rows, columns, **dict(zip(switches, on, strict=True)))
            product, active = clocked_product(machine, a, b)
            assert (product == a.astype(np.int64) @ b.astype(np.int64)).all()
            assert len(active) == machine.cost(tiles(rows=M, filters=N, channels=K)).cycles[0]
            assert active.sum() == M * N * K
            assert active.max() <= rows * columns
            assert (active == active_elements(machine, M, N, K)).all()


@pytest.mark.kernel
@pytest.mark.parametrize("flow", FLOWS)
def test_several_arrays_begin_together(flow: str) -> None:
    """Each does its share; together they do all, in the time of the largest share."""
    one = array(flow, 4, 3)
    for sizes, arrays in [((9, 2, 5), 2), ((2, 11, 4), 3), ((7, 3, 5), 4), ((1, 1, 6), 2)]:
        several, repeats = array(flow, 4, 3, arrays=arrays), arrays + 1
        active = active_elements(several, *sizes, repeats)
        M, N, K = sizes
        assert active.sum() == M * N * K * repeats
        assert active[0] <= arrays
        cost = several.cost(
            tiles(rows=M, filters=N * repeats, filters_per_group=N, channels=K * repeats, groups=repeats)
        )
        assert len(active) == cost.cycles[0] <= len(active_elements(one, *sizes, repeats))


def test_what_cannot_be_clocked_is_refused() -> None:
    machine = array("output_stationary", 4, 4)
    ones = np.ones((3, 3), dtype=np.int64)
    for a, b, words in [
        (ones, np.ones((2, 3), dtype=np.int64), "have no product"),
        (np.ones(3, dtype=np.int64), ones, "have no product"),
        (np.ones((0, 3), dtype=np.int64), ones, "have no product"),
        (ones * 0.5, ones, "whole numbers"),
    ]:
        with pytest.raises(InputError, match=words):
            clocked_product(machine, a, b)
    with pytest.raises(InputError, match="set it to causal"):
        clocked_product(array("output_stationary", 4, 4, counting="scalesim"), ones, ones)
    with pytest.raises(InputError, match=r"set pe_array\.arrays to 1"):
        clocked_product(array("output_stationary", 4, 4, arrays=2), ones, ones)
    with pytest.raises(InputError, match="sizes from 1"):
        active_elements(machine, 3, 0, 3)
    with pytest.raises(InputError, match=f"at most {MOST_CYCLES} are clocked"):
        active_elements(machine, 1 << 14, 1 << 14, 1 << 10)
