"""ResNet-50 with DRAM as a link, as a calibrated link and down to banks: what it costs, how far they are apart, and how
much the ranking of schedules changes.

Asserts that a whole network takes at most 5 s of CPU time down to banks, and that the calibrated link gives the same
latency within 3 % on the edge machine (4 % on others) for every schedule, also where the link's queues take turns.
"""

from __future__ import annotations

import sys
from itertools import combinations
from random import Random
from time import process_time

import accelsim

COUNT = 32
"""Schedules."""
FIDELITIES = ("link", "calibrated", "banks")
SETTINGS = {
    "in order": [],
    "in turns": ["dram.arbitration=round_robin", "dram.grant=4 KiB"],
}


def schedules(workload: accelsim.Workload, machine: accelsim.Accelerator) -> dict[str, accelsim.Schedule]:
    """What schedulers find, and schedules with cuts and tiling numbers drawn at random, as many as fit the buffer."""
    found = {
        "layerwise": accelsim.Layerwise().search(workload, machine).schedule,
        "cocco": accelsim.Cocco().search(workload, machine).schedule,
        "interleave": accelsim.Interleave(runs=1, fusion_rounds=3.0).search(workload, machine).schedule,
    }
    order, random = found["layerwise"].order, Random(0)
    while len(found) < COUNT:
        density = random.choice([0.15, 0.3, 0.5, 0.8])
        cuts = tuple(place for place in range(1, len(order)) if random.random() < density)
        dram_cuts = tuple(cut for cut in cuts if random.random() < 0.6)
        tiles = tuple(random.choice([1, 2, 4, 8, 16]) for _ in range(len(cuts) + 1))
        drawn = accelsim.Schedule(workload.name, order, cuts, dram_cuts, tiles)
        try:
            accelsim.lower(workload, machine, drawn)
        except accelsim.AccelsimError:
            continue
        found[f"random {len(found) - 2}, {len(tiles)} groups"] = drawn
    return found


def swapped(one: list[int], other: list[int]) -> float:
    """The share of pairs that the two lists order differently (Kendall's distance); ties are no difference."""
    pairs = list(combinations(range(len(one)), 2))
    return sum((one[i] - one[j]) * (other[i] - other[j]) < 0 for i, j in pairs) / len(pairs)


def main() -> None:
    for hardware in sys.argv[1:] or ("soma_edge", "soma_cloud"):
        workload = accelsim.load_workload("soma.resnet50")
        found = schedules(workload, accelsim.load_accelerator(hardware))
        for setting, fields in SETTINGS.items():
            print(f"\n{hardware}, {setting}: cycles with link, calibrated link and banks of {len(found)} schedules")
            cycles: dict[str, list[int]] = {}
            seconds: dict[str, float] = {}
            for fidelity in FIDELITIES:
                machine = accelsim.load_accelerator(hardware, [f"dram.fidelity={fidelity}", *fields])
                programs = [accelsim.lower(workload, machine, schedule) for schedule in found.values()]
                accelsim.simulate(programs[0])  # loads compiled code
                begin = process_time()
                cycles[fidelity] = [accelsim.simulate(program).latency_cycles for program in programs]
                seconds[fidelity] = (process_time() - begin) / len(programs)
            link, calibrated, banks = (cycles[fidelity] for fidelity in FIDELITIES)
            for row, name in sorted(enumerate(found), key=lambda pair: banks[pair[0]]):
                off = calibrated[row] / banks[row] - 1
                slower = banks[row] / link[row]
                print(f"  {name:34}{link[row]:>10,}{calibrated[row]:>10,}{banks[row]:>10,}{off:>+8.2%}{slower:>8.3f}")
            worst = max(abs(one / other - 1) for one, other in zip(calibrated, banks, strict=True))
            factors = [one / other for one, other in zip(banks, link, strict=True)]
            for fidelity, others in (("link", link), ("calibrated", calibrated)):
                regret = banks[others.index(min(others))] / min(banks) - 1
                print(
                    f"  ranking by {fidelity}: {swapped(others, banks):.1%} of pairs ordered otherwise than by banks, "
                    f"its first {regret:.2%} slower than the best by banks"
                )
            print(
                f"  banks / link {min(factors):.3f} to {max(factors):.3f}; calibrated off by at most {worst:.2%}; "
                + ", ".join(f"{fidelity} {seconds[fidelity]:.3f} s" for fidelity in FIDELITIES)
            )
            assert seconds["banks"] <= 5, seconds
            assert worst <= (0.03 if hardware == "soma_edge" else 0.04), worst


if __name__ == "__main__":
    main()
