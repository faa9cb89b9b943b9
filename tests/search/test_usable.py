"""What somebody who waits for a search can do: limit it, stop it, keep it, repeat it, run it with several seeds."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from accelsim.errors import FormatError, InputError
from accelsim.library import load_accelerator, load_workload
from accelsim.program.lower import lower
from accelsim.search import Cocco, Interleave, Objective, Scheduler, SoMa, Watch
from accelsim.search.seeds import search_seeds

pytestmark = pytest.mark.kernel

ROOT = Path(__file__).parents[2]
EDGE = load_accelerator("soma_edge")
DECODE = load_workload("soma.gpt2_small_decode", sequence_length=9)

QUICK: tuple[Scheduler, ...] = (
    SoMa(seed=1, fusion_rounds=2, dram_rounds=5),
    Interleave(seed=1, runs=2, fusion_rounds=2, dram_rounds=5),
    Cocco(seed=1, rounds=2, runs=2),
)
by_name = pytest.mark.parametrize("scheduler", QUICK, ids=lambda scheduler: scheduler.name)


class AfterCalls:
    """Asks a search to stop when it has asked so many times."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


@by_name
def test_a_seed_decides_everything(scheduler: Scheduler) -> None:
    """Whatever ran before, and however often the kernels came back in between."""
    first = scheduler.search(DECODE, EDGE)
    Interleave(Objective(0.0, 1.0), 5, runs=1, fusion_rounds=1, dram_rounds=1).search(DECODE, EDGE)
    assert scheduler.search(DECODE, EDGE, Watch(asked=lambda: False)) == first
    assert dataclasses.replace(scheduler, seed=2).search(DECODE, EDGE).counts != first.counts


@by_name
def test_the_pace_changes_nothing(scheduler: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    first = scheduler.search(DECODE, EDGE)
    from accelsim.search import session

    def one_by_one(self: session.Pace) -> bool:
        self.counters[3] = min(self.rounds, int(self.counters[0]) + 1)
        return int(self.counters[0]) < self.rounds

    monkeypatch.setattr(session.Pace, "next", one_by_one)
    assert scheduler.search(DECODE, EDGE) == first


@by_name
@pytest.mark.parametrize("calls", [3, 17])
def test_a_stopped_search_goes_on_from_its_checkpoint(scheduler: Scheduler, calls: int, tmp_path: Path) -> None:
    whole = scheduler.search(DECODE, EDGE)
    file = tmp_path / "search.checkpoint"
    stopped = scheduler.search(DECODE, EDGE, Watch(checkpoint=file, asked=AfterCalls(calls)))
    lower(DECODE, EDGE, stopped.schedule)
    assert sum(stopped.counts.values()) < sum(whole.counts.values())
    assert scheduler.search(DECODE, EDGE, Watch(checkpoint=file)) == whole
    assert scheduler.search(DECODE, EDGE, Watch(checkpoint=file)) == whole  # now all of it is there


def test_a_checkpoint_of_another_search_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "search.checkpoint"
    QUICK[1].search(DECODE, EDGE, Watch(checkpoint=file))
    with pytest.raises(InputError, match="of another search"):
        dataclasses.replace(QUICK[1], seed=2).search(DECODE, EDGE, Watch(checkpoint=file))
    content = file.read_bytes()
    for damaged in (b"", b"not a checkpoint", content[: len(content) // 2]):
        file.write_bytes(damaged)
        with pytest.raises(FormatError, match="no checkpoint"):
            QUICK[1].search(DECODE, EDGE, Watch(checkpoint=file))
        assert file.read_bytes() == damaged


def test_the_best_seed_wins_however_many_processes() -> None:
    schedulers = [Interleave(seed=seed, runs=1, fusion_rounds=1, dram_rounds=1) for seed in range(4)]
    alone = [scheduler.search(DECODE, EDGE) for scheduler in schedulers]
    costs = [Objective().cost(one.energy_pj or 0, one.latency_cycles or 0) for one in alone]
    expected = alone[costs.index(min(costs))]
    assert search_seeds(schedulers, DECODE, EDGE, Objective(), processes=2) == expected


def command(*arguments: str) -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    return subprocess.Popen(
        [sys.executable, "-m", "accelsim", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**clean, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal to a process group")
@pytest.mark.parametrize("seeds", ["1", "2"])
def test_interrupted_from_the_keyboard_it_gives_the_best_so_far(seeds: str, tmp_path: Path) -> None:
    """A search that would take minutes; Ctrl-C reaches the whole process group."""
    out, checkpoint = tmp_path / "schedule.json", tmp_path / "checkpoint"
    words = ["schedule", "soma.resnet101", "--hardware", "soma_edge", "--scheduler", "soma", "--batch", "64", "--json"]
    process = command(*words, "--out", str(out), "--seeds", seeds, "--checkpoint", str(checkpoint))
    began = time.monotonic()
    while not list(tmp_path.glob("checkpoint*")):  # the first stage is under way
        assert process.poll() is None, process.communicate()
        assert time.monotonic() - began < 240
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert "Traceback" not in stderr
    assert json.loads(stdout)["scheduler"] == "soma"
    assert json.loads(out.read_text())["tiling_numbers"]
