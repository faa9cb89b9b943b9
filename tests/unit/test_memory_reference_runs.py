"""Runs of Ramulator 2.1 and DRAMsim3, reproduced: Ramulator's to the cycle where its rules are known to the last."""

from __future__ import annotations

import pytest

from accelsim.hardware.memory.dram import DramMemory
from accelsim.hardware.memory.memory import MemoryRun
from tests.memory_configurations import memory_of
from tests.memory_traces import requests_of, rows_of
from tests.reference_data import COPIED, whole_table

EXACT = ("r2_ddr4", "r2_hbm2", "r2_hbm3", "r2_lpddr5")
ROWS_COPIED = list(rows_of(COPIED / "dram_runs.csv"))


def compare(row: dict[str, str], memory: DramMemory) -> tuple[MemoryRun, float]:
    """The run, and the relative error of its bandwidth; for exact configurations all figures are compared here."""
    run = memory.serve(requests_of(row))
    error = int(row["total_cycles"]) / run.cycles - 1
    if row["config"].startswith(EXACT):
        found = (run.cycles, run.row_hits, run.row_misses, run.row_conflicts)
        expected = tuple(int(row[key]) for key in ("total_cycles", "row_hits", "row_misses", "row_conflicts"))
        assert found == expected, (row["row_id"], row["pattern"])
        if (latency := float(row["lat_avg_cyc"])) >= 0:
            assert run.summary()["read_latency_cycles"]["mean"] == pytest.approx(latency, abs=0.0011)  # 3 decimals
    return run, error


@pytest.mark.kernel
@pytest.mark.parametrize("row", ROWS_COPIED, ids=lambda row: f"{row['config']}-{row['pattern']}-{row['rate_of_peak']}")
def test_a_few_runs(row: dict[str, str]) -> None:
    assert abs(compare(row, memory_of(row["config"]))[1]) <= 0.05


@pytest.mark.parametrize("standard", ["ddr4", "hbm", "gddr6", "lpddr"])
def test_whole_tables(standard: str) -> None:
    """Every third row of the whole tables: the bandwidth of every one within 5 %, or 10 % with several channels; the
    mean error of the cycle-accurate configurations within 0.5 %, median latency of all within 5 %."""
    errors, latencies = [], []
    for row in list(rows_of(whole_table(f"dram/dram_{standard}_open.csv")))[::3]:
        settings = ["injection=queue_per_engine"] if row["injection"] == "per_stream_rr" else []
        memory = memory_of(row["config"], *settings)
        run, error = compare(row, memory)
        errors.append(abs(error))
        assert abs(error) <= (0.05 if memory.template.channels == 1 else 0.10), (row["row_id"], row["pattern"])
        if (latency := float(row["lat_avg_cyc"])) > 0:
            latencies.append(abs(run.summary()["read_latency_cycles"]["mean"] / latency - 1))
    assert len(errors) > 15 and sum(errors) / len(errors) <= 0.005
    assert sorted(latencies)[len(latencies) // 2] <= 0.05
