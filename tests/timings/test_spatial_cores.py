"""The SoMa mapper: against the figures of the published program, against its plain-Python twin, and by hand."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import MappingError, UnsupportedOperator
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.hardware.dataflow.spatial_cores import SpatialCores
from accelsim.hardware.dataflow.spatial_mapper import AccessCosts, Grid
from accelsim.library import load_accelerator
from tests.naive import spatial_cores as naive

pytestmark = pytest.mark.kernel
TABLE = Path(__file__).parents[1] / "data" / "soma_mapper_tiles.csv"


def columns_of(rows: list[tuple[int, ...]]) -> TileColumns:
    return TileColumns(*(np.array(column) for column in zip(*rows, strict=True)))


@pytest.mark.parametrize("machine", ["edge", "cloud"])
def test_the_published_figures(machine: str) -> None:
    rows = list(csv.DictReader(line for line in TABLE.read_text().splitlines() if not line.startswith("#")))
    assert len(rows) == 13
    shapes = []
    for row in rows:
        B, C, K, H, W, R, S, stride, G = (int(row[k]) for k in ("B", "C", "K", "H", "W", "R", "S", "stride", "groups"))
        shapes.append((B, C, K, K // G, H, W, R, S, stride, stride, G, int(row["kind"] == "weights_from_layer")))
    cost = load_accelerator(f"soma_{machine}").array_cost(columns_of(shapes))
    assert cost.cycles.tolist() == [int(row[f"{machine}_cycles"]) for row in rows]
    # The program prints 7 digits: half a unit of the last one is at most 5e-7.
    np.testing.assert_allclose(cost.energy_pj.sum(axis=1), [float(row[f"{machine}_pj"]) for row in rows], rtol=6e-7)


@st.composite
def machines(draw: st.DrawFn) -> naive.Machine:
    """Small machines with odd sizes, so that every rounding and every shortage of space occurs."""
    cost = {name: draw(st.floats(0.01, 5)) for name in naive.EDGE.costs}
    return naive.Machine(
        rows=draw(st.integers(1, 5)),
        columns=draw(st.integers(1, 5)),
        vector=draw(st.sampled_from([1, 3, 4, 16])),
        lanes=draw(st.sampled_from([1, 2, 5, 32])),
        al0=draw(st.sampled_from([64, 500, 4096])),
        wl0=draw(st.sampled_from([64, 900, 8192])),
        ol0=draw(st.sampled_from([4, 64, 1000])),
        bandwidth=draw(st.sampled_from([1, 7, 256])),
        costs=cost,
        attention_is_free=draw(st.booleans()),
    )


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, ...]:
    """One row of TileColumns; groups, strides, kernels larger and smaller than the stride, attention, dilation."""
    groups = draw(st.sampled_from([1, 1, 2, 3, 8]))
    filters_per_group = draw(st.integers(1, 12))
    filters = filters_per_group * groups + draw(st.sampled_from([0, 0, 1, 5]))  # some tiles are inflated
    return (
        draw(st.integers(1, 4)),
        groups * draw(st.sampled_from([1, 2, 5, 17, 64])),
        filters,
        filters_per_group,
        draw(st.integers(1, 14)),
        draw(st.integers(1, 14)),
        draw(st.sampled_from([1, 2, 3, 7])),
        draw(st.sampled_from([1, 3, 5])),
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        groups,
        draw(st.integers(0, 1)),
        draw(st.sampled_from([1, 1, 2, 3])),
        draw(st.sampled_from([1, 1, 2])),
    )


def array_of(machine: naive.Machine) -> SpatialCores:
    grid = Grid(
        machine.rows,
        machine.columns,
        machine.vector,
        machine.lanes,
        machine.al0 // machine.vector,
        machine.wl0 // machine.vector,
        machine.ol0 // machine.lanes,
        machine.bandwidth,
        1,
        int(machine.attention_is_free),
    )
    c = machine.costs
    levels = ("gbuf", "al0", "wl0", "ol0", "ol2")
    accesses = [c[f"{level}_{kind}"] for level in levels for kind in ("read", "write")]
    return SpatialCores(grid, AccessCosts(c["mac"], *accesses))


@given(machine=machines(), rows=st.lists(shapes(), min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_the_kernel_is_its_twin(machine: naive.Machine, rows: list[tuple[int, ...]]) -> None:
    array = array_of(machine)
    expected = [naive.best_mapping(machine, *row) for row in rows]
    if None in expected:
        with pytest.raises(MappingError, match="no mapping fits tile"):
            array.cost(columns_of(rows))
        rows = [row for row, best in zip(rows, expected, strict=True) if best is not None]
    if not rows:
        return
    cost = array.cost(columns_of(rows))
    for cycles, energy, best in zip(cost.cycles, cost.energy_pj.sum(axis=1), filter(None, expected), strict=True):
        # Sums in another order may turn a tie of energy x time: then the product is equal, else both are.
        assert energy * cycles == pytest.approx(best.energy_pj * best.cycles, rel=1e-12)
        assert cycles == best.cycles or energy != pytest.approx(best.energy_pj, rel=1e-9)


@pytest.fixture(scope="module")
def edge() -> Accelerator:
    return load_accelerator("soma_edge")


def test_one_tile_by_hand(edge: Accelerator) -> None:
    # 64 channels to 128 filters, 1 x 1, 4 x 4 positions: channels over the rows and filters over the columns leave
    # 16 cycles (one a position); reads 16 x 64 inputs + 64 x 128 weights = 9216 bytes take 36 cycles at 256 a cycle.
    cost = edge.array_cost(columns_of([(1, 64, 128, 128, 4, 4, 1, 1, 1, 1, 1, 0)]))
    parts = dict(zip(edge.part_names, cost.energy_pj[0], strict=True))
    assert cost.cycles.tolist() == [36]
    assert parts["mac"] == pytest.approx(0.018 * 64 * 128 * 16, rel=1e-12)
    assert parts["buffer.global"] == pytest.approx((1.0422 * 9216 + 1.12332 * 2048) * 1.1**4, rel=1e-12)
    assert parts["vector"] == parts["dram"] == parts["static"] == 0


def test_attention_is_spared_the_bandwidth_only_where_the_template_says_so() -> None:
    shape = columns_of([(1, 64, 128, 128, 4, 4, 1, 1, 1, 1, 1, 1)])
    assert load_accelerator("soma_edge").array_cost(shape).cycles.tolist() == [16]
    fair = load_accelerator("soma_edge", ["pe_array.soma_attention_bandwidth=false"])
    assert fair.array_cost(shape).cycles.tolist() == [36]


def test_a_kernel_window_must_fit_the_input_buffer(edge: Accelerator) -> None:
    # 16 KiB / 16 bytes = 1024 vectors; 2048 channels over 4 rows of PEs are 32 vectors a position, so 32 positions fit.
    fits, too_large = (1, 2048, 8, 8, 1, 1, 4, 8, 1, 1, 1, 0), (1, 2048, 8, 8, 1, 1, 3, 11, 1, 1, 1, 0)
    assert edge.array_cost(columns_of([fits])).cycles[0] > 0
    with pytest.raises(MappingError, match=r"tile 0 \(batch 1, channels 2048.*16896 bytes of buffers.input.*16384"):
        edge.array_cost(columns_of([too_large]))


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((0, 64, 8, 8, 1, 1, 1, 1, 1, 1, 1, 0), "batch must be at least 1"),
        ((1, 64, 8, 8, 1, 1, 1, 1, 0, 1, 1, 0), "stride_rows must be at least 1"),
        ((1, 64, 8, 8, 1, 1, 1, 1, 1, 1, 3, 0), "multiple of groups"),
        ((1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 1, 1, 1, 1, 1, 1, 0), "cut the operator"),
    ],
)
def test_senseless_tiles_are_refused(edge: Accelerator, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(UnsupportedOperator, match=words):
        edge.array_cost(columns_of([shape]))


def test_one_signature_is_compiled(edge: Accelerator) -> None:
    from accelsim.hardware.dataflow.spatial_mapper import map_tiles

    rows = [(1, 64, 128, 128, 4, 4, 1, 1, 1, 1, 1, 0)] * 3
    frozen = columns_of(rows)
    for column in frozen:
        column.flags.writeable = False
    edge.array_cost(frozen)
    edge.array_cost(TileColumns(*(column.astype(np.int32) for column in columns_of(rows))))
    assert len(getattr(map_tiles, "signatures", [0])) == 1
