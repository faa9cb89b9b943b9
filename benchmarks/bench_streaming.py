"""Replays a trace of 2 million events of our own format: time and memory of the whole process, answers asserted.

``python benchmarks/bench_streaming.py`` records the double-buffered loop of ``bench_engine.py`` and runs
``accelsim replay`` on it, on its own machine and on another one. Limits: 1 GB of memory, 20 s of CPU time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from bench_engine import LINK_BYTES_PER_CYCLE, busy_cycles, double_buffered

from accelsim.engine import simulate
from accelsim.formats import save_timeline

EVENTS = 2_000_000
CORES = 4
LIMIT_BYTES, LIMIT_SECONDS = 10**9, 20.0


def record(path: str) -> None:
    """Writes the trace, and prints what a replay must come to."""
    program = double_buffered(CORES, EVENTS)
    timeline = simulate(program)
    save_timeline(timeline, path)
    print(
        json.dumps(
            {
                "latency": timeline.latency_cycles,
                "activities": program.size,
                "bytes": int(program.activities.bytes.sum()),
                "bound": int(busy_cycles(program).max()),
            }
        )
    )


def measured(*command: str) -> tuple[dict[str, object], float, int]:
    """What a process printed, its CPU seconds, and the bytes that it held at most."""
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        text = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return json.loads(text), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "timeline.npz"
        wanted, _, _ = measured(__file__, "record", str(path))
        print(f"{wanted['activities']:,} events, a file of {path.stat().st_size / 1e6:,.0f} MB")
        failed = False
        for title, options in (("its own machine", []), ("soma_edge", ["--hardware", "soma_edge"])):
            found, seconds, size = measured("-m", "accelsim", "replay", str(path), "--json", *options)
            moved = int(found["dram_read_bytes"]) + int(found["dram_write_bytes"])
            assert found["tiles"] + found["transfers"] == wanted["activities"] and moved == wanted["bytes"]
            assert sum(found["cycles_by_cause"].values()) == found["latency_cycles"]
            if options:
                assert found["latency_cycles"] >= wanted["bytes"] // LINK_BYTES_PER_CYCLE
            else:
                assert found["latency_cycles"] == wanted["latency"] >= wanted["bound"]
            print(f"replay on {title:<16} {seconds:6.1f} s of CPU, {size / 1e6:6,.0f} MB at most")
            failed |= seconds > LIMIT_SECONDS or size > LIMIT_BYTES
    print(f"limits                     {LIMIT_SECONDS:6.1f} s       {LIMIT_BYTES / 1e6:6,.0f} MB")
    sys.exit(failed)


if __name__ == "__main__":
    record(sys.argv[2]) if sys.argv[1:2] == ["record"] else main()
