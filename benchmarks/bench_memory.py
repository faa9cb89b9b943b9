"""Speed of the DRAM controllers: requests and cycles a CPU second, on the traces of the reference runs.

Each run's cycles must be those of the reference tool (Ramulator 2.1, 200,000 accesses; to the cycle).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import process_time

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import accelsim  # noqa: E402
from tests.memory_traces import requests_of  # noqa: E402

RAMULATOR = ["controller=ramulator", "address_map=mop4clxor"]
SEQUENTIAL = {"pattern": "seq", "wr": 0}
MIXED = {"pattern": "streams", "rw": "RW", "chunk": 16, "layout": "staggered"}
RANDOM = {"pattern": "random", "wfrac": 0.0, "seed": 11}
CASES = [  # memory, access bytes, pattern, cycles and thousand requests a CPU second of the tool
    ("ddr4_3200", 64, SEQUENTIAL, 852534, 355.4),
    ("ddr4_3200", 64, MIXED, 1057132, 283.6),
    ("ddr4_3200", 64, RANDOM, 1843633, 142.3),
    ("hbm2_2000", 32, SEQUENTIAL, 229618, 645.4),
    ("hbm2_2000", 32, MIXED, 355774, 421.7),
    ("hbm2_2000", 32, RANDOM, 664862, 178.9),
]
COUNT = 200_000


def main() -> None:
    for name, access_bytes, pattern, cycles, tool in CASES:
        memory = accelsim.load_memory(name, RAMULATOR)
        row = {"pattern_params": json.dumps(pattern), "access_bytes": str(access_bytes), "n_requests": str(COUNT)}
        requests = requests_of({**row, "rate_of_peak": "sat", "peak_bytes_per_cycle": "16"})
        memory.serve(requests)  # compiles
        best = float("inf")
        for _ in range(3):
            begin = process_time()
            run = memory.serve(requests)
            best = min(best, process_time() - begin)
        assert run.cycles == cycles, (name, pattern, run.cycles)
        rate = COUNT / best / 1e3
        print(
            f"{name:12} {pattern['pattern']:8} {best:6.3f} s  {rate:7.0f} thousand requests/s "
            f"({rate / tool:4.1f} x the tool)  {cycles / best / 1e6:5.1f} million cycles/s"
        )


if __name__ == "__main__":
    main()
