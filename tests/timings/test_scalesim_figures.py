"""SCALE-Sim v3.0.0's own figures, layer by layer, from its topology lines: cycles, mapping efficiency, accesses."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from accelsim.formats.scalesim_topology import parse_scalesim_topology
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.hardware.dataflow.systolic import SystolicArray
from accelsim.library import load_accelerator
from accelsim.workload.operator import ArrayWork
from tests.reference_data import COPIED, whole_table
from tests.smoke.command import in_this_process

FLOWS = {"os": "output_stationary", "ws": "weight_stationary", "is": "input_stationary"}
GEMM = ["M", "N", "K"]
CONVOLUTION = ["ifmap_h", "ifmap_w", "filter_h", "filter_w", "channels", "num_filters", "stride"]
Row = dict[str, str]


def rows_of(path: Path) -> list[Row]:
    return list(csv.DictReader(line for line in path.read_text().splitlines() if not line.startswith("#")))


def check(shapes: list[list[str]], rows: list[Row]) -> None:
    lines = "".join(f"L{number},{','.join(shape)},\n" for number, shape in enumerate(shapes))
    workload = parse_scalesim_topology(f"Layer,\n{lines}", "t.csv", "t")
    assert [operator.name for operator in workload.operators] == [f"L{number}" for number in range(len(rows))]
    works = [operator.whole_work(1) for operator in workload.operators]
    machines: dict[tuple[str, ...], SystolicArray] = {}
    for row, work in zip(rows, works, strict=True):
        key = (row["array_rows"], row["array_cols"], row["dataflow"])
        if key not in machines:
            settings = [f"pe_array.rows={key[0]}", f"pe_array.columns={key[1]}", f"pe_array.dataflow={FLOWS[key[2]]}"]
            dataflow = load_accelerator("scalesim_32x32", [*settings, "pe_array.counting=scalesim"]).dataflow
            assert isinstance(dataflow, SystolicArray)
            machines[key] = dataflow
        machine = machines[key]
        assert isinstance(work, ArrayWork)
        tile = TileColumns(*(np.array([number]) for number in work[: len(TileColumns._fields)]))
        # It reports the index of the last cycle.
        assert machine.cost(tile).cycles.tolist() == [int(row["compute_cycles"]) + 1], row
        assert machine.mapping_efficiency(tile)[0] == pytest.approx(float(row["mapping_eff_pct"]) / 100, rel=1e-12)
        counts = machine.accesses(tile)
        assert counts.input_reads.tolist() == [int(row["sram_ifmap_reads"])], row
        assert counts.weight_reads.tolist() == [int(row["sram_filter_reads"])], row
        writes = int(row["sram_ofmap_writes"])
        if row["dataflow"] == "os":  # counted too often by rows + columns a fold
            M, N = work.rows * work.columns, work.filters
            writes -= -(-M // machine.rows) * -(-N // machine.columns) * (machine.rows + machine.columns)
        assert counts.output_writes.tolist() == [writes], row
        assert counts.partial_sum_reads.tolist() == [0]


def test_copied_rows() -> None:
    rows = rows_of(COPIED / "scalesim_layers.csv")
    assert {(row["dataflow"], len(row["shape"].split())) for row in rows} == {(f, n) for f in FLOWS for n in (3, 7)}
    check([row["shape"].split() for row in rows], rows)


@pytest.mark.parametrize(("name", "columns"), [("gemm", GEMM), ("conv", CONVOLUTION)])
def test_the_whole_tables(name: str, columns: list[str]) -> None:
    rows = rows_of(whole_table(f"systolic/scalesim_{name}_open.csv"))
    assert len(rows) > 500
    check([[row[column] for column in columns] for row in rows], rows)


def test_networks() -> None:
    """Layers of its example networks, under CALC, where nothing stalls."""
    found = rows_of(whole_table("systolic/scalesim_networks_open.csv"))
    rows = [row for row in found if row["mode"] == "CALC" and row["stall_cycles"] == "0"]
    assert len(rows) > 50
    for row in rows:
        workload = parse_scalesim_topology(f"Layer,\nL,{','.join(row['shape'].split())},\n", "t.csv", "t")
        settings = [f"pe_array.{name}={row['array']}" for name in ("rows", "columns")]
        settings += [f"pe_array.dataflow={FLOWS[row['dataflow']]}", "pe_array.counting=scalesim"]
        work = workload.operators[0].whole_work(1)
        tile = TileColumns(*(np.array([number]) for number in work[: len(TileColumns._fields)]))
        cycles = load_accelerator("scalesim_32x32", settings).array_cost(tile).cycles
        assert cycles.tolist() == [int(row["total_cycles"]) + 1], row


def test_the_command_line_counts_as_it_does(tmp_path: Path) -> None:
    """A layer that no buffer holds is one tile all the same, and the run says so."""
    topology, config = tmp_path / "net.csv", tmp_path / "array.cfg"
    topology.write_text("Layer, M, N, K,\nsmall, 64, 40, 100,\nlarge, 3000, 700, 900,\n")
    config.write_text(
        "[architecture_presets]\nArrayHeight: 16\nArrayWidth: 8\nIfmapSramSzkB: 4\nFilterSramSzkB: 4\n"
        "OfmapSramSzkB: 4\nDataflow: ws\nBandwidth: 10\n"
    )
    options = ("--set", "pe_array.counting=scalesim", "--per-layer", "--json")
    result = in_this_process("run", topology, "--hardware", config, *options, folder=tmp_path)
    layers = json.loads(result.stdout)["layers"]
    assert [layer["name"] for layer in layers] == ["small", "large"]
    # ceil(K / 16) x ceil(N / 8) folds of 2 x 16 + 8 + M - 2 cycles.
    assert [layer["compute_cycles"] for layer in layers] == [7 * 5 * (38 + 64), 57 * 88 * (38 + 3000)]
    assert layers[0]["utilization"] == pytest.approx(64 * 40 * 100 / (128 * 7 * 5 * 102))
    assert "more than the global buffer holds" in result.stderr


def test_no_other_scheduler_cuts_a_layer(tmp_path: Path) -> None:
    topology = tmp_path / "net.csv"
    topology.write_text("Layer, M, N, K,\nonly, 300, 500, 200,\n")
    schedule = {"schema": 1, "workload": "net", "order": ["only"], "fusion_cuts": [], "dram_cuts": []}
    (tmp_path / "two.json").write_text(json.dumps(schedule | {"tiling_numbers": [2]}))
    command = ("run", topology, "--hardware", "scalesim_32x32", "--set", "pe_array.counting=scalesim")
    result = in_this_process(*command, "--schedule", tmp_path / "two.json", folder=tmp_path, status=2)
    assert "'only' is cut into 2 tiles" in result.stderr
    result = in_this_process(*command, "--scheduler", "best", "--json", folder=tmp_path)
    assert json.loads(result.stdout)["scheduler"] == "layerwise"
