"""``accelsim roofline`` and ``advise`` as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.smoke.command import in_this_process

NETWORK = """\
kind: operators
name: small
inputs: {image: {shape: [16, 32, 32]}}
operators:
  - {name: first, type: conv2d, inputs: [image], filters: 64, kernel: 3, padding: same}
  - {name: second, type: conv2d, inputs: [first], filters: 64, kernel: 3, padding: same}
  - {name: sum, type: elementwise, inputs: [first, second]}
"""

SLOW_MEMORY = ("--set", "dram.bandwidth=2 B/cycle")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.yaml").write_text(NETWORK, encoding="utf-8")
    return tmp_path


def run(folder: Path, out: str = "run", *options: str) -> dict[str, Any]:
    given = ("run", "net.yaml", "--hardware", "scalesim_32x32", "--out", out, "--json", *options)
    return json.loads(in_this_process(*given, folder=folder).stdout)


def test_roofline_agrees_with_the_run(folder: Path) -> None:
    summary = run(folder)
    arguments = ("roofline", "scalesim_32x32", "run/timeline.npz", "--measured", "--out", "page.html", "--json")
    found = json.loads(in_this_process(*arguments, folder=folder).stdout)
    assert 0 < (folder / "page.html").stat().st_size < 5e6
    assert found["hardware"] == "scalesim_32x32"
    whole = next(point for point in found["points"] if point["name"] == "run" and point["level"] == "dram")
    moved = summary["dram_read_bytes"] + summary["dram_write_bytes"]
    work = 2 * summary["macs"] + summary["vector_ops"]
    assert (whole["operations"], whole["bytes"], whole["cycles"]) == (work, moved, summary["latency_cycles"])
    assert whole["intensity"] == pytest.approx(work / moved, rel=1e-12)
    assert whole["ops_per_cycle"] == pytest.approx(work / summary["latency_cycles"], rel=1e-12)
    assert whole["ops_per_pj"] == pytest.approx(work / summary["energy_pj"], rel=1e-9)
    assert {(point["name"], point["level"]) for point in found["points"]} == {
        (name, level) for name in ("run", "first", "second", "sum") for level in ("dram", "buffer.global")
    }
    assert {roof["source"] for roof in found["roofs"]} == {"datasheet", "measured"}
    assert {roof["unit"] for roof in found["roofs"]} == {"op/cycle", "B/cycle", "op/pJ", "pJ/B"}
    assert found["knee"]["kernel"] == "K3"


def test_points_of_several_runs_say_which(folder: Path) -> None:
    run(folder)
    run(folder, "other", "--batch", "2")
    arguments = ("roofline", "scalesim_32x32", "run/timeline.npz", "other/timeline.npz", "--json")
    found = json.loads(in_this_process(*arguments, folder=folder).stdout)
    assert {point["timeline"] for point in found["points"]} == {"small, layerwise", "small, layerwise (2)"}


def test_a_run_with_overrides_wants_the_same_overrides(folder: Path) -> None:
    run(folder, "run", "--set", "dram.bandwidth=20 B/cycle")
    refused = in_this_process("roofline", "scalesim_32x32", "run/timeline.npz", folder=folder, status=2)
    assert "and the same --set" in refused.stderr
    arguments = ("roofline", "scalesim_32x32", "run/timeline.npz", "--set", "dram.bandwidth=20 B/cycle")
    assert "small, layerwise" in in_this_process(*arguments, folder=folder).stdout


def test_unknown_suffix_is_refused_before_any_work(folder: Path) -> None:
    refused = in_this_process("roofline", "scalesim_32x32", "--out", "roof.gif", folder=folder, status=2)
    assert "roof.gif: rooflines are written as .html" in refused.stderr


def test_missing_timeline_is_refused(folder: Path) -> None:
    assert "nowhere.npz" in in_this_process("roofline", "soma_edge", "nowhere.npz", folder=folder, status=2).stderr
    assert "nowhere.npz" in in_this_process("advise", "nowhere.npz", folder=folder, status=2).stderr


def test_advice_is_what_a_run_on_the_changed_machine_gives(folder: Path) -> None:
    """The machine waits for DRAM, so bandwidth pays and rows do not; each figure is that of a run with that --set."""
    before = run(folder, "run", *SLOW_MEMORY)
    found = json.loads(in_this_process("advise", "run/timeline.npz", "--top", "20", "--json", folder=folder).stdout)
    gains = [option["simulated"]["speedup"] for option in found["options"]]
    assert gains == sorted(gains, reverse=True)
    assert found["baseline"]["latency_cycles"] == before["latency_cycles"]
    options = {option["change"]: option for option in found["options"]}
    assert set(options) == {
        "dram.bandwidth=4 B/cycle",
        "buffers.global.capacity=384 KiB",
        "pe_array.rows=64",
        "pe_array.columns=64",
        "pe_array.rows=64, pe_array.columns=16",
        "pe_array.columns=64, pe_array.rows=16",
        "vector_unit.throughput=64 op/cycle",
        "clock=2 GHz, dram.bandwidth=1 B/cycle",
        "clock=0.8 GHz at 0.8 of the voltage: energies on the chip x 0.64",
        "--batch 2",
        "--bits 4",
        "--scheduler interleave",
    }
    for change in ("dram.bandwidth=4 B/cycle", "pe_array.rows=64", "vector_unit.throughput=64 op/cycle"):
        again = run(folder, "again", *SLOW_MEMORY, "--set", change)
        simulated = options[change]["simulated"]
        assert (simulated["latency_cycles"], simulated["energy_pj"]) == (again["latency_cycles"], again["energy_pj"])
        assert simulated["speedup"] == pytest.approx(before["latency_cycles"] / again["latency_cycles"], rel=1e-12)
    # A clock twice as fast halves seconds, a batch of two has two samples to share the time.
    for change, given, share in (
        ("clock=2 GHz, dram.bandwidth=1 B/cycle", ("--set", "clock=2 GHz", "--set", "dram.bandwidth=1 B/cycle"), 2),
        ("--batch 2", (*SLOW_MEMORY, "--batch", "2"), 2),
    ):
        again = run(folder, "again", *given)
        simulated = options[change]["simulated"]
        assert (simulated["latency_cycles"], simulated["energy_pj"]) == (again["latency_cycles"], again["energy_pj"])
        speedup = share * before["latency_cycles"] / again["latency_cycles"]
        assert simulated["speedup"] == pytest.approx(speedup, rel=1e-12)
    # Half the bits are half the bytes: at least as good as twice the bandwidth, and half the energy of DRAM.
    halved, doubled = options["--bits 4"]["simulated"], options["dram.bandwidth=4 B/cycle"]["simulated"]
    assert halved["latency_cycles"] <= doubled["latency_cycles"]
    assert doubled["energy_pj"] - halved["energy_pj"] >= before["energy_by_part_pj"]["dram"] / 2 * (1 - 1e-9)
    # With few tiles an operator's first load and last store overlap less than the model of the bottleneck has it.
    assert all(abs(option["error"]) < 0.15 for option in found["options"] if option["kind"] != "scheduler")
    # The critical path is whole: each cycle of the run belongs to one resource, or to latency.
    assert sum(found["elasticity"].values()) == pytest.approx(1, rel=1e-12)
    assert found["elasticity"]["dram"] > 0.5
    assert found["limits"]["memory"] > found["limits"]["computing"] >= 1
    assert "limited by memory bandwidth" in found["sentences"][0]
    assert found["sentences"][2].startswith(f"Do first: {found['options'][0]['change']}")


def test_advice_without_the_workload_runs_the_recorded_schedule(folder: Path) -> None:
    run(folder)
    (folder / "net.yaml").unlink()
    finished = in_this_process("advise", "run/timeline.npz", "--top", "20", "--json", folder=folder)
    assert "note: the workload of the run cannot be read again" in finished.stderr
    changes = [option["change"] for option in json.loads(finished.stdout)["options"]]
    assert "dram.bandwidth=20 B/cycle" in changes
    assert not any(change.startswith("--") for change in changes)


def test_advice_for_a_timeline_without_its_machine(folder: Path) -> None:
    from accelsim.formats import save_timeline
    from tests.timelines import worked_example

    save_timeline(worked_example(), folder / "trace.npz")
    assert "give the machine with --hardware" in in_this_process("advise", "trace.npz", folder=folder, status=2).stderr
    refused = in_this_process("advise", "trace.npz", "--set", "clock=1 GHz", folder=folder, status=2)
    assert "--set changes the machine that --hardware names" in refused.stderr
    arguments = ("advise", "trace.npz", "--hardware", "scalesim_32x32", "--set", "dram.bandwidth=16 B/cycle", "--json")
    found = json.loads(in_this_process(*arguments, folder=folder).stdout)
    assert found["options"][0]["change"] in {option["change"] for option in found["options"]}
    assert found["options"][0]["simulated"]["speedup"] >= 1


def test_advice_notices_a_workload_that_has_changed(folder: Path) -> None:
    run(folder)
    (folder / "net.yaml").write_text(NETWORK.replace("filters: 64", "filters: 32"), encoding="utf-8")
    finished = in_this_process("advise", "run/timeline.npz", "--top", "1", folder=folder)
    assert "note: the workload net.yaml has changed since the run" in finished.stderr
    assert finished.stdout.startswith("Advice for small on scalesim_32x32")
