"""Runs of Ramulator 2.1 and DRAMsim3, reproduced: Ramulator's to the cycle where its rules are known to the last."""

from __future__ import annotations

import pytest

from accelsim.hardware.memory.dram import DramMemory
from accelsim.library import load_memory
from tests.memory_traces import requests_of, rows_of
from tests.reference_data import COPIED, whole_table

RAMULATOR = ("controller=ramulator", "address_map=mop4clxor")
ROWS = ("organization.rows=65536",)  # the traces of these two go beyond the addresses of one channel
DRAMSIM3 = ("controller=dramsim3", "timing.tRFC=560 cycles", "timing.tCS=1 cycles")
CONFIGURATIONS: dict[str, tuple[str, ...]] = {
    "r2_ddr4_ch1_mop4": ("ddr4_3200", *RAMULATOR),
    "r2_ddr4_ch1_co": ("ddr4_3200", "controller=ramulator", "address_map=column_low"),
    "r2_ddr4_ch1_mop4_rowhit": ("ddr4_3200", "controller=ramulator_row_hit", "address_map=mop4clxor"),
    "r2_ddr4_ch1_mop4_noref": ("ddr4_3200", *RAMULATOR, "refresh=off"),
    "r2_ddr4_ch1_mop4_rk2": ("ddr4_3200", *RAMULATOR, "ranks=2"),
    "r2_ddr4_ch2_mop4": ("ddr4_3200", *RAMULATOR, "channels=2"),
    "r2_ddr4_ch2_co": ("ddr4_3200", "controller=ramulator", "address_map=column_low", "channels=2"),
    "r2_hbm2_ch1_mop4": ("hbm2_2000", *RAMULATOR),
    "r2_hbm3_ch1_mop4": ("hbm3_6400", *RAMULATOR, *ROWS),
    "r2_gddr6_ch1_mop4": ("gddr6_14000", *RAMULATOR, *ROWS),
    "r2_lpddr5_ch1_mop4": ("lpddr5_6400", *RAMULATOR),
    "r2_lpddr5_ch1_mop4_refpb": ("lpddr5_6400", *RAMULATOR, "refresh=per_bank"),
    "d3_ddr4_ch1": ("ddr4_3200", *DRAMSIM3, "address_map=rochrababgco"),
    "d3_ddr4_ch1_bglow": ("ddr4_3200", *DRAMSIM3, "address_map=bank_group_low"),
    "d3_ddr4_ch1_bglow_rk2": ("ddr4_3200", *DRAMSIM3, "address_map=rorabachcobg", "ranks=2"),
    "d3_ddr4_ch2_bglow": ("ddr4_3200", *DRAMSIM3, "address_map=rorabacochbg", "channels=2"),
}
EXACT = ("r2_ddr4", "r2_hbm2", "r2_hbm3", "r2_lpddr5")
ROWS_COPIED = list(rows_of(COPIED / "dram_runs.csv"))


def compare(row: dict[str, str], memory: DramMemory) -> float:
    """The relative error of the bandwidth; for exact configurations all figures are compared here."""
    run = memory.serve(requests_of(row))
    error = int(row["total_cycles"]) / run.cycles - 1
    if row["config"].startswith(EXACT):
        found = (run.cycles, run.row_hits, run.row_misses, run.row_conflicts)
        expected = tuple(int(row[key]) for key in ("total_cycles", "row_hits", "row_misses", "row_conflicts"))
        assert found == expected, (row["row_id"], row["pattern"])
        if (latency := float(row["lat_avg_cyc"])) >= 0:
            assert run.summary()["read_latency_cycles"]["mean"] == pytest.approx(latency, abs=0.0011)  # 3 decimals
    return error


@pytest.mark.kernel
@pytest.mark.parametrize("row", ROWS_COPIED, ids=lambda row: f"{row['config']}-{row['pattern']}-{row['rate_of_peak']}")
def test_a_few_runs(row: dict[str, str]) -> None:
    name, *settings = CONFIGURATIONS[row["config"]]
    assert abs(compare(row, load_memory(name, settings))) <= 0.05


@pytest.mark.kernel
@pytest.mark.parametrize("standard", ["ddr4", "hbm", "gddr6", "lpddr"])
def test_whole_tables(standard: str) -> None:
    """Every third row of the whole tables; the bandwidth of every one within 5 %, the mean error within 0.5 %."""
    errors = []
    rows = [row for row in rows_of(whole_table(f"dram/dram_{standard}_open.csv")) if row["config"] in CONFIGURATIONS]
    for row in rows[::3]:
        name, *settings = CONFIGURATIONS[row["config"]]
        if row["injection"] == "per_stream_rr":
            if row["config"].startswith("d3"):
                continue
            settings.append("injection=queue_per_engine")
        errors.append(abs(compare(row, load_memory(name, settings))))
    assert len(errors) > 15 and max(errors) <= 0.05
    assert sum(errors) / len(errors) <= 0.005
