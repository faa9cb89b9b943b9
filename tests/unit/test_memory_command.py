"""``accelsim memory`` from the outside: one JSON object, a report, and exit status 2 for a user's mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from accelsim.cli.memory import memory_command
from accelsim.errors import AccelsimError

KEYS = {
    "memory", "requests", "cycles", "bandwidth_gb_per_s", "peak_gb_per_s", "efficiency", "read_latency_cycles",
    "write_latency_cycles", "row_hits", "row_misses", "row_conflicts", "energy_pj", "energy_by_command_pj",
}  # fmt: skip


@pytest.mark.kernel
def test_json_and_report(tmp_path: Path) -> None:
    trace = tmp_path / "some.trace"
    trace.write_text("LD 0x0\nLD 0x40\nST 0x100000\n")
    arguments = [str(trace), "--memory", "ddr4_3200", "--set", "controller=ramulator"]
    found = json.loads(CliRunner().invoke(memory_command, [*arguments, "--json"]).stdout)
    assert set(found) >= KEYS
    assert found["requests"] == 3 and found["row_hits"] + found["row_misses"] + found["row_conflicts"] == 3
    assert found["bandwidth_gb_per_s"] == pytest.approx(3 * 64 / found["cycles"] * 1.6)
    assert found["read_latency_cycles"]["max"] >= 22 + 22 + 4
    text = CliRunner().invoke(memory_command, arguments).stdout
    assert "of 25.60 GB/s" in text and "engine 0 reads" in text


@pytest.mark.parametrize(
    ("text", "settings", "words"),
    [
        ("LD 0x40\nLOAD 7\n", [], ":2:"),
        ("", [], "no request"),
        ("LD 0x4000000000\n", [], "lie outside"),
        ("LD 0x40\n", ["channels=0"], "channels"),
        ("LD 0x40\n", ["timing.tRAS=99 cycles"], "tRAS"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, settings: list[str], words: str) -> None:
    trace = tmp_path / "some.trace"
    trace.write_text(text)
    options = [part for setting in settings for part in ("--set", setting)]
    result = CliRunner().invoke(memory_command, [str(trace), "--memory", "ddr4_3200", *options])
    assert isinstance(result.exception, AccelsimError)  # main() prints it and ends with status 2
    assert words in str(result.exception)
