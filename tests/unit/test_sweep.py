"""Sweeps: what a description asks for, results that outlive the process, crashes, and what the study says of them."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from click.testing import Result as CommandResult

from accelsim.cli import cli
from accelsim.errors import FormatError, InputError, UnknownName
from accelsim.sweep import Point, ResultStore, load_study, read_sweep, run_sweep, runner
from accelsim.sweep.store import CRASHED, FAULT, OK, REFUSED, Result
from accelsim.sweep.study import Study

SPEC = """schema: 1
workload: soma.gpt2_small_decode
hardware: soma_edge
set:
  dram.bandwidth: [8 GB/s, 16 GB/s]
  buffers.global.capacity: [4 MiB, 8 MiB]
"""


def spec(folder: Path, text: str = SPEC) -> Path:
    path = folder / "sweep.yaml"
    path.write_text(text)
    return path


def study_of(points: list[Point], path: Path, **how: object) -> Study:
    with ResultStore(path) as store:
        run_sweep(points, store, **how)  # type: ignore[arg-type]
    return load_study(path)


def crash_at_four_mebibytes(point: Point) -> runner.Outcome:
    """In place of a run: kills its process, or answers."""
    if point.settings["set.buffers.global.capacity"] == "4 MiB":
        os.kill(os.getpid(), signal.SIGKILL)
    return runner.Outcome(OK, {"latency_cycles": 1}, "", 0.0)


def test_all_combinations_in_order(tmp_path: Path) -> None:
    points = read_sweep(spec(tmp_path))
    rates_and_sizes = [(p.settings["set.dram.bandwidth"], p.settings["set.buffers.global.capacity"]) for p in points]
    assert rates_and_sizes == [
        ("8 GB/s", "4 MiB"),
        ("8 GB/s", "8 MiB"),
        ("16 GB/s", "4 MiB"),
        ("16 GB/s", "8 MiB"),
    ]
    assert len({point.key for point in points}) == 4
    assert points[0].job().overrides == ("dram.bandwidth=8 GB/s", "buffers.global.capacity=4 MiB")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schema: 1\nworkload: a\nhardware: b\nbatches: 4\n", r"sweep.yaml:4:1: batches: unknown key.*batch"),
        ("schema: 1\nworkload: []\nhardware: b\n", r"sweep.yaml:2:11: workload"),
        ("schema: 1\nworkload: a\nhardware: b\nbatch: [1, 0]\n", r"sweep.yaml:4:12: batch"),
        ("schema: 1\nhardware: b\n", r"workload: missing"),
        ("schema: 1\nworkload: [a, a]\nhardware: b\n", r"workload: a value stands twice"),
        ("schema: 1\nworkload: a\nhardware: b\nobjective: speed\n", r"objective"),
        ("schema: 2\nworkload: a\nhardware: b\n", r"schema: found 2"),
        ("[1, 2]", "found a list"),
        (
            f"schema: 1\nworkload: a\nhardware: b\nbatch: {list(range(1, 1101))}\nseed: {list(range(1000))}\n",
            "1,100,000 runs",
        ),
    ],
)
def test_mistakes_are_told_with_their_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_sweep(spec(tmp_path, text))


def test_a_changed_file_is_another_run(tmp_path: Path) -> None:
    (tmp_path / "net.yaml").write_text("one")
    (point,) = read_sweep(spec(tmp_path, "schema: 1\nworkload: net.yaml\nhardware: soma_edge\n"))
    before = point.key
    assert point.job().workload == str(tmp_path / "net.yaml")
    (tmp_path / "net.yaml").write_text("two")
    assert point.key != before


def test_results_are_those_of_single_runs_and_do_not_depend_on_the_processes(tmp_path: Path) -> None:
    points = read_sweep(spec(tmp_path))
    by_two = study_of(points, tmp_path / "two.db", processes=2)
    with ThreadPoolExecutor(1) as here:
        by_one = study_of(points, tmp_path / "one.db", executor=here)
    assert by_two.to_dict() == by_one.to_dict()
    for point, result in zip(points, by_two.results, strict=True):
        assert result.summary["latency_cycles"] == point.job().run().latency_cycles
    slow, fast = (by_two.where(**{"set.dram.bandwidth": rate}).results[0] for rate in ("8 GB/s", "16 GB/s"))
    assert slow.summary["latency_cycles"] > fast.summary["latency_cycles"]


def test_nothing_is_run_twice_and_refusals_only_on_demand(tmp_path: Path) -> None:
    text = SPEC.replace("[4 MiB, 8 MiB]", "[1 KiB, 8 MiB]")
    points = read_sweep(spec(tmp_path, text))
    with ResultStore(tmp_path / "r.db") as store, ThreadPoolExecutor(1) as here:
        first = run_sweep(points, store, executor=here)
        assert (first.kept, first.by_status) == (0, {REFUSED: 2, OK: 2})
        assert run_sweep(points, store, executor=here).by_status == {}
        assert run_sweep(points, store, retry=True, executor=here).by_status == {REFUSED: 2}
    refused = [result for result in load_study(tmp_path / "r.db").results if result.status == REFUSED]
    assert len(refused) == 2
    assert all("1024" in result.message for result in refused)  # it says how much there is


def test_a_killed_process_costs_its_own_run_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "run_point", crash_at_four_mebibytes)
    points = read_sweep(spec(tmp_path, SPEC.replace("[8 GB/s, 16 GB/s]", "8 GB/s")))
    study = study_of(points, tmp_path / "r.db", processes=2)
    assert [result.status for result in study.results] == [CRASHED, OK]


def test_a_fault_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    point = Point({"workload": "soma.resnet50", "hardware": "soma_edge"}, Path())
    monkeypatch.setattr(Point, "job", lambda self: 1 / 0)
    outcome = runner.run_point(point)
    assert (outcome.status, outcome.message) == (FAULT, "ZeroDivisionError: division by zero")


def test_a_stopped_sweep_goes_on(tmp_path: Path) -> None:
    many = SPEC.replace("[8 GB/s, 16 GB/s]", str([f"{rate} GB/s" for rate in range(1, 2001)]))
    command = [sys.executable, "-m", "accelsim", "sweep", str(spec(tmp_path, many)), "--results", "r.db"]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # which a shell's background jobs do not do
    started = subprocess.Popen(
        [*command, "--processes", "1"], cwd=tmp_path, stderr=subprocess.PIPE, text=True, preexec_fn=heard
    )
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        time.sleep(0.05)
        if (tmp_path / "r.db").exists() and _done(tmp_path / "r.db") >= 2:
            break
    started.send_signal(signal.SIGINT)
    _, words = started.communicate(timeout=240)
    assert started.returncode == 130
    assert "the same command goes on" in words
    kept = _done(tmp_path / "r.db")
    assert 2 <= kept < 4000
    with ResultStore(tmp_path / "r.db") as store:
        points = read_sweep(tmp_path / "sweep.yaml")
        states = store.add(points)
    assert sum(status == OK for status in states.values()) == kept


def _done(path: Path) -> int:
    try:
        with closing(sqlite3.connect(path)) as base:
            return int(base.execute("SELECT count(*) FROM runs WHERE status = 'ok'").fetchone()[0])
    except sqlite3.OperationalError:  # being made
        return 0


def result(number: int, seconds: float, energy_pj: float, **settings: str | int) -> Result:
    summary = {"latency_cycles": int(1e9 * seconds), "latency_seconds": seconds, "energy_pj": energy_pj}
    summary |= {"dram_read_bytes": 3, "dram_write_bytes": 4, "gap_percent": 0.0, "utilization": {"mac": 0.5}}  # type: ignore[dict-item]
    return Result(str(number), {"number": number, "workload": "a", **settings}, OK, summary, "", 0.0)


def test_the_front_is_what_nothing_dominates() -> None:
    runs = (
        result(0, 1.0, 9.0),
        result(1, 2.0, 5.0),
        result(2, 2.0, 6.0),  # as fast as 1, more energy
        result(3, 3.0, 5.0),  # as thrifty as 1, slower
        result(4, 4.0, 1.0),
        result(5, 2.0, 5.0),  # equal to 1
        result(6, 9.0, 9.0, workload="b"),  # other work
    )
    assert Study(runs).front() == {"0", "1", "4", "5", "6"}


def test_tables_and_pictures(tmp_path: Path) -> None:
    study = Study((result(1, 2.0, 5.0), result(2, 1.0, 6.0, workload="<b>&")), open_runs=3)
    assert study.varied == ("number", "workload")
    head, first, _ = study.rows(["energy_delay_js", "utilization.mac", "dram_bytes"])
    assert head == ["number", "workload", "energy_delay_js", "utilization.mac", "dram_bytes", "pareto", "status"]
    assert first == ["1", "a", "1e-11", "0.5", "7", "*", "ok"]
    assert [r.key for r in study.sort("latency_cycles").results] == ["2", "1"]
    assert "3 not run yet" in str(study)
    study.save(tmp_path / "s.csv")
    assert (tmp_path / "s.csv").read_text().splitlines()[0].startswith("number,workload,latency_cycles")
    study.save(tmp_path / "s.html")
    page = (tmp_path / "s.html").read_text()
    assert "<b>&" not in page
    assert "&lt;b&gt;&amp;" in page
    x, curves = study.curves(None, "energy_pj")
    assert x == "number"
    assert {curve.label: curve.values for curve in curves} == {"a": [5.0], "<b>&": [6.0]}
    with pytest.raises(InputError, match=r"\.html, \.csv"):
        study.save(tmp_path / "s.txt")
    with pytest.raises(UnknownName, match=r"no figure 'energy' \(did you mean 'energy_pj'\?\)"):
        study.sort("energy")
    with pytest.raises(UnknownName, match=r"no setting 'nmber' \(did you mean 'number'\?\)"):
        study.where(nmber="1")


def test_other_files_are_no_results(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("hello, this is no database, and long enough to be looked at" * 20)
    with pytest.raises(FormatError, match="not a results file"):
        load_study(tmp_path / "text.db")
    with closing(sqlite3.connect(tmp_path / "other.db")) as base:
        base.execute("CREATE TABLE mine (x)")
    with pytest.raises(FormatError, match="none that accelsim sweep"):
        load_study(tmp_path / "other.db")
    with pytest.raises(InputError, match="no such results file"):
        load_study(tmp_path / "missing.db")
    with pytest.raises(InputError):
        ResultStore(tmp_path / "no" / "folder.db")


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    path = spec(tmp_path, SPEC.replace("  buffers.global.capacity: [4 MiB, 8 MiB]\n", ""))

    def run(*arguments: str) -> CommandResult:
        return CliRunner().invoke(cli, arguments)

    results, picture = str(tmp_path / "r.db"), tmp_path / "s.png"
    first = run("sweep", str(path), "--results", results, "--processes", "1", "--json")
    assert json.loads(first.stdout) == {"results": results, "runs": {"total": 2, "kept": 0, "ok": 2}}
    shown = run("study", "show", results, "--out", str(picture), "--json")
    assert [each["status"] for each in json.loads(shown.stdout)["runs"]] == ["ok", "ok"]
    assert picture.read_bytes()[:4] == b"\x89PNG"
    path.write_text(path.read_text().replace("soma_edge", "soma_egde"))
    refused = run("sweep", str(path), "--results", str(tmp_path / "other.db"), "--processes", "1")
    assert isinstance(refused.exception, InputError)
    assert "every run was refused" in str(refused.exception)
    assert isinstance(run("study", "show", results, "--where", "batch").exception, InputError)
