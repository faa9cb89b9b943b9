"""Output-stationary tiles: against an array that is clocked on real numbers, and against SCALE-Sim's figures."""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.hardware.buffer import Buffer
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.hardware.dataflow.output_stationary import OutputStationary
from tests.naive.output_stationary import multiply

TABLE = Path(__file__).parents[1] / "data" / "scalesim_gemm_os.csv"
FULL_TABLE = Path(__file__).parents[3] / "shared" / "data" / "systolic" / "scalesim_gemm_open.csv"


def array(rows: int, columns: int, counting: str = "causal", rate: Fraction | None = None) -> OutputStationary:
    # 1 pJ a byte read, 1000 a byte written: the energy of the buffer shows both counts.
    return OutputStationary(rows, columns, counting, 0.5, Buffer("global", 1 << 20, rate, 1.0, 1e6))  # type: ignore[arg-type]


def tiles(**columns: int | list[int]) -> TileColumns:
    """Columns from scalars or lists; what is not given is 1 (``weights_from_operator``: 0)."""
    given_columns = dict.fromkeys(TileColumns._fields, 1) | {"weights_from_operator": 0} | columns
    if "filters_per_group" not in columns:
        given_columns["filters_per_group"] = given_columns["filters"]
    return TileColumns(
        *(np.array(column) for column in np.broadcast_arrays(*map(np.atleast_1d, given_columns.values())))
    )


@given(
    m=st.integers(1, 12), n=st.integers(1, 12), k=st.integers(1, 9), rows=st.integers(1, 6), columns=st.integers(1, 6)
)
@settings(max_examples=60, deadline=None)
def test_the_closed_form_is_what_a_clocked_array_takes(m: int, n: int, k: int, rows: int, columns: int) -> None:
    random = np.random.default_rng(m * 10007 + n * 101 + k)
    a, b = random.integers(-128, 128, (m, k)), random.integers(-128, 128, (k, n))
    product, cycles = multiply(a, b, rows, columns)
    assert (product == a @ b).all()
    cost = array(rows, columns).cost(tiles(rows=m, filters=n, channels=k))
    assert cost.cycles.tolist() == [cycles]
    assert cost.energy_pj[0, 0] == 0.5 * m * n * k


def _agree(rows: list[dict[str, str]]) -> None:
    for row in rows:
        number = {name: int(row[name]) for name in row}
        r, c = number["array_rows"], number["array_cols"]
        cost = array(r, c, "scalesim").cost(tiles(rows=number["M"], filters=number["N"], channels=number["K"]))
        assert cost.cycles[0] == number["compute_cycles"] + 1, row
        folds = -(-number["M"] // r) * -(-number["N"] // c)
        reads = number["sram_ifmap_reads"] + number["sram_filter_reads"]
        assert cost.energy_pj[0, 1] == reads + 1e6 * (number["sram_ofmap_writes"] - folds * (r + c)), row


def test_counting_scalesim_gives_its_figures() -> None:
    rows = list(csv.DictReader(line for line in TABLE.read_text().splitlines() if not line.startswith("#")))
    assert len(rows) >= 20
    _agree(rows)


def test_counting_scalesim_gives_its_figures_over_the_full_table() -> None:
    if not FULL_TABLE.exists():
        pytest.skip(f"the full table of SCALE-Sim runs is not at {FULL_TABLE}")
    table = csv.DictReader(line for line in FULL_TABLE.read_text().splitlines() if not line.startswith("#"))
    names = TABLE.read_text().splitlines()[1].split(",")
    rows = [{name: row[name] for name in names} for row in table if row["dataflow"] == "os"]
    assert len(rows) > 100
    _agree(rows)


def test_convolutions_are_products() -> None:
    # 2 samples, 5 x 7 outputs, 6 channels, 3 x 3: M = 70, N = 8, K = 54 on 16 x 4: 5 x 2 folds of 32 + 4 + 54 - 2.
    conv = tiles(batch=2, channels=6, filters=8, rows=5, columns=7, kernel_rows=3, kernel_columns=3, stride_rows=2)
    cost = array(16, 4).cost(conv)
    assert cost.cycles[0] == 10 * 88
    assert cost.energy_pj[0].tolist() == [0.5 * 70 * 8 * 54, 2 * 70 * 54 + 5 * 54 * 8 + 1e6 * 70 * 8]


def test_groups_run_one_after_another() -> None:
    # Depthwise, 10 groups of one channel and one filter: 10 products of 9 x 1 x 9, each 1 fold of 16 + 8 + 9 - 2.
    depthwise = tiles(
        channels=10, filters=10, filters_per_group=1, groups=10, rows=3, columns=3, kernel_rows=3, kernel_columns=3
    )
    cost = array(8, 8).cost(depthwise)
    assert cost.cycles[0] == 10 * (2 * (16 + 8 + 9 - 2))  # 9 positions are two row folds
    assert cost.energy_pj[0, 0] == 0.5 * 10 * 9 * 9


def test_without_groups_an_inflated_tile_is_one_product() -> None:
    # 12 filters in the tile of an operator with 8: one product of 1 x 12 x 5 in two column folds, not two products.
    cost = array(8, 8).cost(tiles(channels=5, filters=12, filters_per_group=8))
    assert cost.cycles[0] == 2 * (16 + 8 + 5 - 2)
    assert cost.energy_pj[0].tolist() == [0.5 * 60, 2 * 5 + 5 * 12 + 1e6 * 12]


def test_weights_of_another_operator_differ_in_every_sample() -> None:
    # 3 samples of one row each: 3 products of 1 x 4 x 5 instead of one of 3 x 4 x 5.
    shared, own = array(8, 8).cost(tiles(batch=3, channels=5, filters=4, weights_from_operator=[0, 1])).cycles
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
        assert array(8, 8, rate=rate).cost(product).cycles[0] == cycles


def test_only_scalesim_counting_never_cuts_a_layer() -> None:
    assert array(4, 4, "scalesim").one_tile_per_operator
    assert not array(4, 4).one_tile_per_operator
