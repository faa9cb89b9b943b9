"""The command line: what each command prints, its exit status, and what it leaves behind."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

import accelsim
from tests.smoke.command import in_own_process, in_this_process

RUN_KEYS = [
    "workload",
    "hardware",
    "scheduler",
    "seed",
    "engine",
    "latency_cycles",
    "latency_seconds",
    "lower_bound_cycles",
    "gap_percent",
    "energy_pj",
    "energy_by_part_pj",
    "dram_read_bytes",
    "dram_write_bytes",
    "macs",
    "vector_ops",
    "utilization",
    "peak_buffer_bytes",
    "cycles_by_cause",
    "tiles",
    "transfers",
    "search_seconds",
    "simulate_seconds",
    "link_wait_cycles",
    "dram_model",
]
"""What ``run --json`` prints, in this order."""
CAUSES = ["compute", "wait_load", "wait_store", "wait_buffer", "drain"]
WORKLOAD, MACHINE = "soma.gpt2_small_decode", "soma_edge"
SOMA_NAMES = {
    "soma.resnet50",
    "soma.resnet101",
    "soma.inception_resnet_v1",
    "soma.randwire_small",
    "soma.randwire_large",
    "soma.gpt2_small_prefill",
    "soma.gpt2_small_decode",
    "soma.gpt2_xl_prefill",
    "soma.gpt2_xl_decode",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("commands")


@pytest.fixture(scope="module")
def first(folder: Path) -> dict[str, Any]:
    """A run that writes everything, and what it printed."""
    run = in_own_process(
        "run", WORKLOAD, "--hardware", MACHINE, "--batch", 2, "--per-layer", "--out", "run", "--json", folder=folder
    )
    result = json.loads(run.stdout)
    assert isinstance(result, dict)
    return result


def test_json_of_run_has_exactly_the_promised_keys(first: dict[str, Any]) -> None:
    assert list(first) == [*RUN_KEYS, "layers", "ledger"]
    assert list(first["utilization"]) == ["mac", "with_vector"]
    assert list(first["cycles_by_cause"]) == CAUSES
    assert list(first["peak_buffer_bytes"]) == ["global"]
    assert {"mac", "vector", "buffer.global", "dram", "static"} <= set(first["energy_by_part_pj"])
    assert all(list(row) == ["name", "compute_cycles", "macs", "utilization"] for row in first["layers"])
    whole = {key for key in first if key.endswith(("_cycles", "_bytes"))} - {"peak_buffer_bytes", "link_wait_cycles"}
    assert all(type(first[key]) is int for key in whole | {"macs", "vector_ops", "tiles", "transfers", "seed"})


def test_figures_of_run_agree_with_each_other(first: dict[str, Any]) -> None:
    assert (first["workload"], first["hardware"], first["scheduler"]) == (WORKLOAD, MACHINE, "layerwise")
    assert sum(first["cycles_by_cause"].values()) == first["latency_cycles"]
    assert sum(first["energy_by_part_pj"].values()) == pytest.approx(first["energy_pj"])
    assert first["latency_seconds"] == first["latency_cycles"] / 1e9  # 1 GHz
    assert first["gap_percent"] == pytest.approx(100 * (first["latency_cycles"] / first["lower_bound_cycles"] - 1))
    assert first["lower_bound_cycles"] >= -(-(first["dram_read_bytes"] + first["dram_write_bytes"]) // 16)
    assert sum(row["macs"] for row in first["layers"]) == first["macs"]
    assert sum(row["compute_cycles"] for row in first["layers"]) == first["cycles_by_cause"]["compute"]
    assert first["utilization"]["mac"] == pytest.approx(first["macs"] / (8192 * first["latency_cycles"]))
    # One block, two samples: Q, K, V, O and the two feed-forward products of 768 to 3072, then scores and values over
    # 513 positions.
    assert first["macs"] == 2 * (4 * 768 * 768 + 2 * 768 * 3072 + 2 * 768 * 513)


def test_run_leaves_four_files(first: dict[str, Any], folder: Path) -> None:
    names = {"timeline.npz", "schedule.json", "summary.json", "report.html"}
    assert {path.name for path in (folder / "run").iterdir()} == names
    summary = json.loads((folder / "run" / "summary.json").read_text())
    timed = {"search_seconds", "simulate_seconds"}
    assert {key: value for key, value in summary.items() if key not in timed} == {
        key: value for key, value in first.items() if key not in timed
    }
    timeline = accelsim.load_timeline(folder / "run" / "timeline.npz")
    assert timeline.latency_cycles == first["latency_cycles"]
    page = (folder / "run" / "report.html").read_text(encoding="utf-8")
    assert "<svg" in page and f"{first['latency_cycles']:,}" in page
    assert re.findall(r"""(?:src|href)=["'](?!#|data:)[^"']*""", page) == []  # nothing is loaded from anywhere


def test_a_saved_schedule_runs_again_on_the_other_engine(first: dict[str, Any], folder: Path) -> None:
    run = in_this_process(
        *("run", WORKLOAD, "--hardware", MACHINE, "--batch", 2, "--schedule", "run/schedule.json"),
        *("--engine", "reference", "--json"),
        folder=folder,
    )
    again = json.loads(run.stdout)
    assert (again["scheduler"], again["engine"]) == (None, "reference")
    assert list(again) == RUN_KEYS
    different = {"scheduler", "engine", "search_seconds", "simulate_seconds", "layers"}
    assert all(again[key] == first[key] for key in RUN_KEYS if key not in different)


def test_one_number_of_the_machine_changes_the_result(first: dict[str, Any], folder: Path) -> None:
    run = in_this_process(
        *("run", WORKLOAD, "--hardware", MACHINE, "--batch", 2, "--set", "dram.bandwidth=32 GB/s", "--json"),
        folder=folder,
    )
    faster = json.loads(run.stdout)
    assert faster["latency_cycles"] < first["latency_cycles"]
    assert faster["energy_pj"] == first["energy_pj"]


def test_text_of_run_names_latency_and_clock(first: dict[str, Any], folder: Path) -> None:
    run = in_own_process("run", WORKLOAD, "--hardware", MACHINE, "--batch", 2, folder=folder)
    assert f"{first['latency_cycles']:,} cycles" in run.stdout
    assert "1 GHz" in run.stdout and "wait_load" in run.stdout


def test_schedule_saves_what_run_would_use(first: dict[str, Any], folder: Path) -> None:
    run = in_this_process(
        *("schedule", WORKLOAD, "--hardware", MACHINE, "--batch", 2, "--scheduler", "layerwise", "--out", "s.json"),
        folder=folder,
    )
    assert "s.json" in run.stdout
    assert (folder / "s.json").read_bytes() == (folder / "run" / "schedule.json").read_bytes()
    content = json.loads((folder / "s.json").read_text())
    assert content["schema"] == 1 and content["workload"] == WORKLOAD
    assert {"order", "fusion_cuts", "dram_cuts", "tiling_numbers"} <= set(content)


def test_explain_tells_the_program_before_it_runs(first: dict[str, Any], folder: Path) -> None:
    explained = json.loads(
        in_this_process("explain", WORKLOAD, "--hardware", MACHINE, "--batch", 2, "--json", folder=folder).stdout
    )
    assert len(explained["tiles"]) == first["tiles"]
    assert len(explained["transfers"]) == first["transfers"]
    assert explained["lower_bound_cycles"] == first["lower_bound_cycles"]
    moved = sum(row["bytes"] for row in explained["transfers"])
    assert moved == first["dram_read_bytes"] + first["dram_write_bytes"]


@pytest.mark.parametrize("name", ["perfetto", "chrome", "csv"])
def test_export(first: dict[str, Any], folder: Path, name: str) -> None:
    out = folder / f"timeline.{name}"
    in_this_process("export", "run/timeline.npz", "--format", name, "--out", out, folder=folder)
    events = first["tiles"] + first["transfers"]  # one event an activity: one core, one link, whole transfers
    if name == "csv":
        rows = list(csv.DictReader(out.read_text().splitlines()))
        assert len(rows) == events
        assert max(int(row["finish_cycles"]) for row in rows) == first["latency_cycles"]
    elif name == "chrome":
        slices = [event for event in json.loads(out.read_text())["traceEvents"] if event["ph"] == "X"]
        assert len(slices) >= events
    else:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

        packets = Trace.FromString(out.read_bytes()).packet
        begun = sum(packet.track_event.type == TrackEvent.TYPE_SLICE_BEGIN for packet in packets)
        assert begun >= events


LISTINGS = {
    "workloads": SOMA_NAMES,
    "hardware": {"soma_edge", "soma_cloud", "scalesim_32x32"},
    "schedulers": {"layerwise", "best"},
    "dataflows": {"output_stationary", "spatial_cores"},
    "memories": set(),
    "formats": {"perfetto", "csv"},
}
"""What must be in each list; more may be."""


@pytest.mark.parametrize(("kind", "expected"), LISTINGS.items())
def test_list(kind: str, expected: set[str], folder: Path) -> None:
    result = json.loads(in_this_process("list", kind, "--json", folder=folder).stdout)
    assert list(result) == [kind]
    assert expected <= {row["name"] for row in result[kind]}
    assert all(list(row) == ["name", "text"] and row["text"] for row in result[kind])


def test_each_line_of_a_list_begins_with_the_bare_name(folder: Path) -> None:
    lines = in_this_process("list", "schedulers", folder=folder).stdout.splitlines()
    assert {"layerwise", "best"} <= {line.split()[0] for line in lines}


def test_demo_prints_what_the_readme_shows(folder: Path) -> None:
    run = in_own_process("demo", folder=folder)
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    shown = readme.split("```text\n")[1].split("```")[0]
    assert [line for line in shown.splitlines() if line not in run.stdout.splitlines()] == []
    assert "soma_edge" in run.stdout and "cycles" in run.stdout
    # The onnx package's ResNet-50 with its stride in the 3x3: 4.089 G MACs
    assert "4,089,184,256 MACs" in run.stdout
    assert "<svg" in (folder / "report.html").read_text(encoding="utf-8")


def test_help_lists_the_commands(folder: Path) -> None:
    text = in_own_process("--help", folder=folder).stdout
    assert all(command in text for command in ("list", "run", "schedule", "explain", "export", "demo"))
    assert in_own_process("--version", folder=folder).stdout.strip().endswith(accelsim.__version__)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "soma.resnet5", "--hardware", MACHINE], "did you mean 'soma.resnet50'"),
        (["run", WORKLOAD, "--hardware", "soma_egde"], "soma_edge"),
        (["run", WORKLOAD, "--hardware", MACHINE, "--scheduler", "layerwize"], "layerwise"),
        (["run", WORKLOAD, "--hardware", MACHINE, "--engine", "compield"], "compiled"),
        (["run", WORKLOAD, "--hardware", MACHINE, "--set", "dram.bandwith=1 GB/s"], "dram.bandwidth"),
        (["run", WORKLOAD, "--hardware", MACHINE, "--objective", "energy^0"], "objective"),
        (["run", WORKLOAD, "--hardware", MACHINE, "--batch", "0"], "--batch"),
        (["run", WORKLOAD], "--hardware"),
        (["runn"], "run"),
        (["list", "nothing"], "workloads"),
    ],
    ids=lambda value: value if isinstance(value, str) else "_".join(value)[-40:],
)
def test_a_mistake_is_told_with_what_was_meant(arguments: list[str], message: str, folder: Path) -> None:
    run = in_this_process(*arguments, folder=folder, status=2)
    assert message in run.stderr
    assert run.stdout == ""


def test_a_mistake_in_a_process_of_its_own(folder: Path) -> None:
    run = in_own_process("run", "nothing.yaml", "--hardware", MACHINE, folder=folder, status=2)
    assert "nothing.yaml" in run.stderr and "no such file" in run.stderr
    assert run.stdout == ""
