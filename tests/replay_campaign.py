"""Record and replay: every network on every template with every scheduler that ships; by hand, since it takes hours.

    python -m tests.replay_campaign --results replays.jsonl

goes through all combinations and writes a line for each; one that has its line is not run again,
so the campaign can be stopped and taken up. Of each run the file is saved, read and replayed: the same events, the same
bytes of the file. With twice the bandwidth of DRAM, the replay must be what lowering the same schedule for that machine
gives. Which schedule is replayed does not matter, so searches make few moves. What the scheduler or the machine refuses
is counted by reason, what ``--cell-seconds`` did not suffice for as unfinished.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from types import FrameType
from typing import Any

from accelsim.engine import simulate
from accelsim.errors import AccelsimError
from accelsim.hardware.accelerator import Accelerator
from accelsim.library import list_accelerators, list_workloads, load_accelerator, load_workload
from accelsim.program.check import same_program
from accelsim.program.lower import lower
from accelsim.program.rebind import rebind
from accelsim.search import SCHEDULERS
from accelsim.search.objective import Objective
from accelsim.search.scheduler import Watch
from accelsim.timeline.provenance import with_provenance
from accelsim.workload.cut import cut_to_fit
from accelsim.workload.graph import Workload
from tests.unit.test_replay import check_replay

FEW_MOVES: dict[str, dict[str, Any]] = {
    "interleave": {"runs": 1, "fusion_rounds": 2, "dram_rounds": 5, "polished": 1},
    "soma": {"fusion_rounds": 2, "dram_rounds": 5},
    "cocco": {"runs": 1, "rounds": 2},
    "cocco_coarse": {"runs": 1, "rounds": 2},
    "cocco_fine": {"runs": 1, "rounds": 2},
}

LARGE = ("bert", "gpt2", "llama2", "mixtral")


class OutOfTime(Exception):  # noqa: N818 (no OSError, which readers of files catch, as TimeoutError is)
    """A combination has had its time."""


@dataclass(frozen=True)
class Cell:
    """One combination, and its name in the results."""

    network: str
    hardware: str
    scheduler: str


@lru_cache(maxsize=1)
def machine_and_workload(network: str, hardware: str) -> tuple[Accelerator, Workload]:
    machine = load_accelerator(hardware)
    return machine, cut_to_fit(load_workload(network), machine.buffers["global"].capacity_bytes)


def check(cell: Cell, seconds: float, folder: Path) -> int:
    """The activities of the run. Raises AssertionError where a replay differs, AccelsimError where it cannot run."""
    machine, workload = machine_and_workload(cell.network, cell.hardware)
    scheduler = SCHEDULERS[cell.scheduler].from_options(Objective(1, 1), 0)
    scheduler = replace(scheduler, **FEW_MOVES.get(cell.scheduler, {}))  # type: ignore[type-var]
    found = scheduler.search(workload, machine, Watch(seconds, clock=time.process_time))
    program = lower(workload, machine, found.schedule)
    run = with_provenance(simulate(program), scheduler=found.scheduler, hardware_template=machine.source)
    check_replay(run, folder)
    rate = round(2 * machine.dram.bytes_per_cycle * machine.clock_hz)
    faster = load_accelerator(cell.hardware, [f"dram.bandwidth={rate} B/s"])
    assert same_program(rebind(program, faster, machine), lower(workload, faster, found.schedule))
    return program.size


def outcome(cell: Cell, seconds: float, search_seconds: float) -> dict[str, Any]:
    """The line of the results."""

    def too_long(_: int, frame: FrameType | None) -> None:
        while frame is not None:
            if str(frame.f_globals.get("__name__")).startswith(("numba", "llvmlite")):  # it cannot be interrupted
                signal.setitimer(signal.ITIMER_PROF, 0.2)
                return
            frame = frame.f_back
        raise OutOfTime

    signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    began = time.process_time()
    found: dict[str, Any] = dict(vars(cell))
    try:
        with tempfile.TemporaryDirectory() as folder:
            found |= {"result": "identical", "activities": check(cell, search_seconds, Path(folder))}
    except AccelsimError as error:
        found |= {"result": "refused", "error": type(error).__name__, "why": str(error)}
    except AssertionError:
        found["result"] = "different"
    except (OutOfTime, MemoryError) as error:
        found |= {"result": "unfinished", "error": type(error).__name__}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return found | {"cpu_seconds": round(time.process_time() - began, 2)}


def cells(schedulers: list[str]) -> Iterator[Cell]:
    """All combinations; large networks last, and of them those on small machines, which cut them into most tiles."""

    def size(pair: tuple[str, str]) -> tuple[bool, int]:
        network, hardware = pair
        large = network.startswith(LARGE)
        return large, -load_accelerator(hardware).buffers["global"].capacity_bytes if large else 0

    for network, hardware in sorted(product(list_workloads(), list_accelerators()), key=size):
        yield from (Cell(network, hardware, scheduler) for scheduler in schedulers)


def reason(line: dict[str, Any]) -> str:
    """The class of a refusal: its error and its message without names and numbers."""
    text = re.sub(r"'[^']*'", "…", line["why"].splitlines()[0])
    return f"{line['error']}: {re.sub(r'[0-9][0-9.,]*', 'N', text)[:110]}"


def report(lines: list[dict[str, Any]]) -> None:
    """By scheduler, then every class of refusal, then every combination that differs or is not finished."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        counts[line["scheduler"]][line["result"]] += 1
    for name, found in counts.items():
        print(f"{name:<14}", *(f"{count:5} {what}" for what, count in sorted(found.items())))
    for why, count in Counter(reason(line) for line in lines if line["result"] == "refused").most_common():
        print(f"{count:5} refused, {why}")
    for line in lines:
        if line["result"] in ("different", "unfinished"):
            print(line["result"], line["network"], line["hardware"], line["scheduler"])


def main() -> None:
    """Until all is done or the time is over; ends with status 1 if any replay differed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True, help="JSON lines; appended to")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for all")
    parser.add_argument("--cell-seconds", type=float, default=60, help="of CPU time, for each combination")
    parser.add_argument("--search-seconds", type=float, default=3.0, help="of CPU time, for each search")
    parser.add_argument("--again", action="store_true", help="once more what was unfinished")
    parser.add_argument("--scheduler", action="append", choices=list(SCHEDULERS), help="only these")
    options = parser.parse_args()
    done: dict[Cell, dict[str, Any]] = {}
    if options.results.exists():
        for line in map(json.loads, options.results.read_text(encoding="utf-8").splitlines()):
            if not (options.again and line["result"] == "unfinished"):
                done[Cell(line["network"], line["hardware"], line["scheduler"])] = line
    began = time.monotonic()
    for scheduler in SCHEDULERS:  # so that no kernel has to be compiled while the time of a combination runs
        outcome(Cell("soma.gpt2_small_decode", "soma_edge", scheduler), 1000, options.search_seconds)
    with options.results.open("a", encoding="utf-8") as results:
        for cell in cells(options.scheduler or list(SCHEDULERS)):
            if cell in done:
                continue
            if time.monotonic() - began > options.seconds:
                print("time is over")
                break
            done[cell] = outcome(cell, options.cell_seconds, options.search_seconds)
            results.write(json.dumps(done[cell]) + "\n")
            results.flush()
    report(list(done.values()))
    raise SystemExit(any(line["result"] == "different" for line in done.values()))


if __name__ == "__main__":
    main()
