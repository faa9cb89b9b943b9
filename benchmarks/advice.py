"""Advice on 20 pairs of workload and machine: every option simulated, and what the predictions were worth.

    python benchmarks/advice.py                 # all pairs, layer by layer
    python benchmarks/advice.py resnet50 tpu_v1 # one pair

For each pair: the option that `accelsim advise` ranks first (it simulates the five with the best predictions), the one
that pays most when all are simulated, and the one with the best prediction; payoff is the time that a sample saves. At
the end how often they agree, and the median error of the predicted times. Asserts both targets when all pairs run.
"""

from __future__ import annotations

import statistics
import sys
import time

import accelsim
from accelsim.analysis.advice import Advice, Option
from accelsim.analysis.advise import advise
from accelsim.errors import BufferOverflow, TilingNumberError
from accelsim.hardware.accelerator import Accelerator
from accelsim.schedule.notation import Schedule
from accelsim.timeline.provenance import with_provenance
from accelsim.workload.cut import cut_to_fit
from accelsim.workload.graph import Workload
from accelsim.workload.models.micro import matmul_chain

WORKLOADS = ("resnet50", "randwire_small", "gpt2_small_prefill", "gpt2_small_decode", "gemm_4096")
MACHINES = ("soma_edge", "soma_cloud", "tpu_v1", "eyeriss")
TOP = 5
SAME = 1.005
"""Options within half a percent of each other pay alike."""
SECONDS = 10.0


def load(name: str) -> Workload:
    """A workload of the list."""
    return matmul_chain(rows=4096, depth=4096, columns=4096) if name == "gemm_4096" else accelsim.load_workload(name)


def scheduled(workload: Workload, accelerator: Accelerator) -> tuple[Workload, Schedule]:
    """The workload, its operators cut until every one of them finds room with its neighbours, layer by layer."""
    capacity = accelerator.buffers["global"].capacity_bytes
    for share in (1, 2, 4):
        fitted = cut_to_fit(workload, capacity // share)
        try:
            return fitted, accelsim.Layerwise().search(fitted, accelerator).schedule
        except (BufferOverflow, TilingNumberError) as error:
            refused: Exception = error
    raise refused


def advice(name: str, machine: str) -> Advice:
    """The advice on a layer-by-layer run, all options simulated."""
    accelerator = accelsim.load_accelerator(machine)
    fitted, schedule = scheduled(load(name), accelerator)
    timeline = accelsim.simulate(accelsim.lower(fitted, accelerator, schedule))
    known = {"scheduler": "layerwise", "hardware_template": accelerator.source}
    return advise(with_provenance(timeline, **known), fitted, accelerator, top=1000, time_limit_seconds=SECONDS)


def judged(found: Advice) -> tuple[Option, Option, Option]:
    """What the command ranks first, what pays most, what the prediction ranks first."""
    by_prediction = sorted(found.options, key=lambda option: (-option.predicted.speedup, option.predicted.energy_ratio))
    return max(by_prediction[:TOP], key=lambda option: option.simulated.speedup), found.options[0], by_prediction[0]


def main() -> None:
    """Prints a line for each pair, then the totals."""
    chosen = [(w, m) for w in WORKLOADS for m in MACHINES if set(sys.argv[1:]) <= {w, m} or not sys.argv[1:]]
    right = by_prediction = judged_pairs = 0
    errors: list[float] = []
    paying: list[float] = []
    for name, machine in chosen:
        began = time.perf_counter()
        try:
            found = advice(name, machine)
        except (BufferOverflow, TilingNumberError) as error:
            print(f"{name:<20} {machine:<11} refused: {error}")
            continue
        judged_pairs += 1
        ranked, best, predicted = judged(found)
        mine = [abs(option.error) for option in found.options]
        errors += mine
        paying += [abs(option.error) for option in found.options if abs(option.simulated.speedup - 1) >= 0.01]
        good = ranked.simulated.speedup * SAME >= best.simulated.speedup
        right += good
        by_prediction += predicted.simulated.speedup * SAME >= best.simulated.speedup
        print(
            f"{name:<20} {machine:<11} {'right' if good else 'wrong'}  ranked first: {ranked.change} "
            f"x {ranked.simulated.speedup:.3f}; pays most: {best.change} x {best.simulated.speedup:.3f}; predicted "
            f"best: {predicted.change} x {predicted.predicted.speedup:.3f}; error median "
            f"{100 * statistics.median(mine):.1f} % max {100 * max(mine):.1f} % of {len(mine)}; "
            f"{time.perf_counter() - began:.0f} s",
            flush=True,
        )
        if len(chosen) == 1:
            print(found)
    median = statistics.median(errors)
    print(
        f"{right} of {judged_pairs} ranked first pay most ({by_prediction} by prediction alone); "
        f"median error of {len(errors)} predicted times {100 * median:.2f} %, of the {len(paying)} that change "
        f"the time by a percent or more {100 * statistics.median(paying):.2f} %"
    )
    if len(chosen) == len(WORKLOADS) * len(MACHINES):
        assert right >= 0.8 * judged_pairs
        assert median <= 0.10


if __name__ == "__main__":
    main()
