"""The comparison with hardware: its statistics and one Program of Gemmini by hand, and that Eyeriss' aim is met."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import accelsim

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from hardware import eyeriss, gemmini  # noqa: E402
from hardware.table import Aim, Row, rank_correlation, read, summary  # noqa: E402

DATA = BENCHMARKS / "hardware" / "data"


def test_statistics_by_hand() -> None:
    assert rank_correlation([1, 2, 3, 4], [10, 20, 30, 40]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]) == pytest.approx(-1)
    # Ranks 0 1 2 3 and 0 1 3 2: 1 - 6 x 2 / (4 x 15).
    assert rank_correlation([1, 2, 3, 4], [1, 2, 4, 3]) == pytest.approx(0.8)
    rows = [Row("g", name, 100, value, "ms") for name, value in (("a", 90), ("b", 120), ("c", 101))]
    text = summary(rows, Aim("g", 0.1))
    assert text.startswith("3 figures: median error 10.0 %, mean 10.3 %")
    assert "worst 20.0 % (b)" in text
    assert text.endswith("aim median 10.0 %: met")
    assert summary(rows, Aim("g", 0.09)).endswith("MISSED")
    assert summary([Row("g", "a", 10, 13, "%", difference=True)], None).startswith("1 figures: median error 3.0 points")


def test_a_mapping_of_gemmini_by_hand() -> None:
    # 2048 channels, 1000 filters of one position. L3 runs C16: 16 iterations of 128 channels x 1000 filters. Spatial
    # are 16 channels and 10 filters: 8 x 100 folds of 16 x 16 weights, 16 cycles each, with 16 to load the first and 15
    # more until the last sum has left. Weights and inputs of an iteration take (128,000 + 128) / 16 = 8,008 cycles;
    # the 1000 results leave once, in 63.
    row = next(row for row in read(DATA, "gemmini_firesim_layers.csv") if row["mapping"].startswith("L3[WIO] C16 -"))
    assert (row["C"], row["K"], row["P"], row["Q"]) == ("2048", "1000", "1", "1")
    machine = accelsim.load_accelerator("gemmini_16x16")
    cycles = accelsim.simulate(gemmini.mapped(row, machine, overlap=False)).latency_cycles
    assert cycles == 16 * (8008 + 16 * 800 + 31) + 63
    assert accelsim.simulate(gemmini.mapped(row, machine, overlap=True)).latency_cycles < cycles


def test_eyeriss_latencies_are_within_the_aim() -> None:
    rows = [row for row in eyeriss.rows(DATA) if row.group == eyeriss.AIMS[0].group]
    errors = sorted(abs(row.error) for row in rows)
    assert len(errors) == 5
    assert errors[2] <= eyeriss.AIMS[0].error
