"""The headline in one table: SoMa and our scheduler over the Cocco baseline, on SoMa's workloads and machines.

    python benchmarks/headline.py                                  batches 1, 4, 16 and 64
    python benchmarks/headline.py --batches 1,4 --seconds 60       shorter
    python benchmarks/headline.py --results headline.jsonl         keeps each search; goes on from there when repeated

Every schedule is lowered and simulated; the simulation has to give the latency and the energy that the search claimed.
A search that its time limit (seconds of this process alone) ended is marked with a star, a row whose baselines it ended
with a second one: their results depend on the machine's speed.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import accelsim
from accelsim.errors import BufferOverflow
from accelsim.program.bounds import lower_bound_cycles
from accelsim.search import SCHEDULERS
from accelsim.search.objective import Objective
from accelsim.search.scheduler import Watch

CNNS = ("resnet50", "resnet101", "inception_resnet_v1", "randwire_small")
CASES = {
    "edge": (*CNNS, "gpt2_small_prefill", "gpt2_small_decode"),
    "cloud": (*CNNS, "gpt2_xl_prefill", "gpt2_xl_decode"),
}
"""HPCA 2025, section VI: the small GPT-2 on the edge machine, the XL one on the cloud machine."""

BASELINES = ("cocco", "cocco_coarse")
COMPARED = ("soma", "interleave")

Found = dict[str, Any]


def run(name: str, network: str, machine: str, batch: int, seconds: float | None) -> Found:
    """Searches and simulates; the key ``error`` says that no schedule of this scheduler fits."""
    workload = accelsim.load_workload(f"soma.{network}", batch=batch)
    accelerator = accelsim.load_accelerator(f"soma_{machine}")
    watch = Watch(seconds, clock=time.process_time)
    try:
        result = SCHEDULERS[name].from_options(Objective(), 0).search(workload, accelerator, watch)
    except BufferOverflow as error:
        return {"error": str(error)}
    taken = watch.taken_seconds
    program = accelsim.lower(workload, accelerator, result.schedule)
    latency, energy = accelsim.simulate(program).latency_cycles, float(program.energy_pj.sum())
    assert latency == result.latency_cycles, (name, network, machine, batch)
    assert abs(energy / float(result.energy_pj or 0) - 1) < 1e-9, (name, network, machine, batch)
    return {
        "latency": latency,
        "energy": energy,
        "utilization": 100 * float(program.facts["ideal_cycles"]) / latency,
        "gap": 100 * (latency / lower_bound_cycles(program) - 1),
        "any_gap": 100 * (latency / (result.any_schedule_bound_cycles or latency) - 1),
        "seconds": round(taken, 1),
        "limited": watch.was_expired,
    }


class Results:
    """What was found, kept in a file of JSON lines if there is one."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.found: dict[str, Found] = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                self.found.update(json.loads(line))

    def get(self, name: str, network: str, machine: str, batch: int, seconds: float | None) -> Found:
        """From the file, or searched now."""
        key = f"{name} {network} {machine} {batch}"
        if key not in self.found:
            self.found[key] = run(name, network, machine, batch, seconds)
            if self.path is not None:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({key: self.found[key]}) + "\n")
        return self.found[key]


def ratios(mine: Found, baselines: list[Found]) -> list[float]:
    """Speedup over each baseline, then percent of energy saved over each."""
    speedups = [other["latency"] / mine["latency"] for other in baselines]
    return speedups + [100 * (1 - mine["energy"] / other["energy"]) for other in baselines]


def text(mine: Found, row: list[float], baselines: list[Found]) -> str:
    """A row's entry for one scheduler."""
    star = "*" * (mine["limited"] + any(one["limited"] for one in baselines))
    return (
        f"{row[0]:5.2f}x |{row[1]:5.2f}x {row[2]:5.1f} |{row[3]:5.1f} % "
        f"{mine['utilization']:6.2f} % {mine['gap']:5.1f} %{star}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", default="1,4,16,64")
    parser.add_argument("--seconds", type=float, default=None, help="limit of a search")
    parser.add_argument("--results", type=Path, default=None, help="file that keeps every search")
    options = parser.parse_args()
    results = Results(options.results)
    print("speedup and energy saving over Cocco (KC tiling | coarse tiling); utilisation, gap to the schedule's bound")
    print(f"{'network':<20} {'machine':<6} {'batch':>5}  {'SoMa':<44} ours")
    totals: dict[str, list[list[float]]] = {name: [] for name in COMPARED}
    began = time.perf_counter()
    for batch in map(int, options.batches.split(",")):
        for machine, networks in CASES.items():
            for network in networks:
                case = (network, machine, batch, options.seconds)
                baselines = [results.get(name, *case) for name in BASELINES]
                texts = []
                for name in COMPARED:
                    mine = results.get(name, *case)
                    if any("error" in one for one in (mine, *baselines)):
                        texts.append("does not fit")
                        continue
                    row = ratios(mine, baselines)
                    totals[name].append(row)
                    texts.append(text(mine, row, baselines))
                print(f"{network:<20} {machine:<6} {batch:>5}  {texts[0]:<44} {texts[1]}".rstrip(), flush=True)
    for name, rows in totals.items():
        mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        print(f"mean of {len(rows)}, {name}: {mean[0]:.2f}x | {mean[1]:.2f}x, {mean[2]:.1f} | {mean[3]:.1f} % energy")
    print(f"{time.perf_counter() - began:.0f} s, kernels' compilation included")


if __name__ == "__main__":
    main()
