"""The headline in one table: SoMa and our scheduler over the Cocco baseline, on SoMa's workloads and machines.

    python benchmarks/headline.py                    batches 1, 4, 16 and 64 (hours)
    python benchmarks/headline.py --batches 1,4      shorter

Every schedule is lowered and simulated; the simulation has to give the latency and the energy that the search claimed.
"""

from __future__ import annotations

import argparse
import time

import accelsim
from accelsim.errors import BufferOverflow
from accelsim.program.bounds import lower_bound_cycles
from accelsim.search import SCHEDULERS
from accelsim.search.objective import Objective
from accelsim.search.scheduler import Watch

CASES = {
    "edge": (
        "resnet50",
        "resnet101",
        "inception_resnet_v1",
        "randwire_small",
        "gpt2_small_prefill",
        "gpt2_small_decode",
    ),
    "cloud": (
        "resnet50",
        "resnet101",
        "inception_resnet_v1",
        "randwire_small",
        "gpt2_xl_prefill",
        "gpt2_xl_decode",
    ),
}
"""HPCA 2025, section VI: the small GPT-2 on the edge machine, the XL one on the cloud machine."""

COLUMNS = ("cocco", "cocco_coarse", "soma", "interleave")


def run(name: str, network: str, machine: str, batch: int, seconds: float | None) -> dict[str, float] | None:
    """Searches and simulates; None where no schedule of this scheduler fits."""
    workload = accelsim.load_workload(f"soma.{network}", batch=batch)
    accelerator = accelsim.load_accelerator(f"soma_{machine}")
    try:
        result = SCHEDULERS[name].from_options(Objective(), 0).search(workload, accelerator, Watch(seconds))
    except BufferOverflow:
        return None
    program = accelsim.lower(workload, accelerator, result.schedule)
    latency, energy = accelsim.simulate(program).latency_cycles, float(program.energy_pj.sum())
    assert latency == result.latency_cycles, (name, network, machine, batch)
    assert abs(energy / float(result.energy_pj or 0) - 1) < 1e-9, (name, network, machine, batch)
    return {
        "latency": latency,
        "energy": energy,
        "utilization": 100 * float(program.facts["ideal_cycles"]) / latency,
        "gap": 100 * (latency / lower_bound_cycles(program) - 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", default="1,4,16,64")
    parser.add_argument("--seconds", type=float, default=None, help="time limit of a search")
    options = parser.parse_args()
    print(
        "speedup and energy saving over Cocco (KC tiling | coarse tiling); utilisation and gap to the schedule's bound"
    )
    print(f"{'network':<20} {'machine':<6} {'batch':>5}  {'SoMa':<42} ours")
    totals: dict[str, list[tuple[float, float, float, float]]] = {"soma": [], "interleave": []}
    began = time.perf_counter()
    for batch in map(int, options.batches.split(",")):
        for machine, networks in CASES.items():
            for network in networks:
                found = {name: run(name, network, machine, batch, options.seconds) for name in COLUMNS}
                texts = []
                for name in ("soma", "interleave"):
                    mine, fine, coarse = found[name], found["cocco"], found["cocco_coarse"]
                    if mine is None or fine is None or coarse is None:
                        texts.append("does not fit".ljust(42))
                        continue
                    row = (
                        fine["latency"] / mine["latency"],
                        coarse["latency"] / mine["latency"],
                        100 * (1 - mine["energy"] / fine["energy"]),
                        100 * (1 - mine["energy"] / coarse["energy"]),
                    )
                    totals[name].append(row)
                    texts.append(
                        f"{row[0]:5.2f}x |{row[1]:5.2f}x {row[2]:5.1f} |{row[3]:5.1f} % "
                        f"{mine['utilization']:6.2f} % {mine['gap']:5.1f} %"
                    )
                print(f"{network:<20} {machine:<6} {batch:>5}  {texts[0]:<42} {texts[1]}", flush=True)
    for name, rows in totals.items():
        mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        print(f"mean of {len(rows)}, {name}: {mean[0]:.2f}x | {mean[1]:.2f}x, {mean[2]:.1f} | {mean[3]:.1f} % energy")
    print(f"{time.perf_counter() - began:.0f} s, kernels' compilation included")


if __name__ == "__main__":
    main()
