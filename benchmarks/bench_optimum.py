"""How often our scheduler finds the optimum, and that it is never below it: tiny cases against the exhaustive search.

python benchmarks/bench_optimum.py [--cases 200]
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from accelsim.errors import BufferOverflow, InputError
from accelsim.search import Exhaustive, Interleave, Objective, SearchResult
from tests.strategies.tiny import tiny_case


def cost(result: SearchResult) -> float:
    """Energy times delay."""
    return Objective().cost(result.energy_pj or 0.0, result.latency_cycles or 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    wanted = parser.parse_args().cases
    ratios: list[float] = []
    refused = too_small = seed = sequences = 0
    seconds = [0.0, 0.0]
    while len(ratios) < wanted:
        workload, accelerator = tiny_case(seed)
        seed += 1
        began = time.process_time()
        try:
            best = Exhaustive().search(workload, accelerator)
        except BufferOverflow:
            too_small += 1
            continue
        except InputError:
            refused += 1
            continue
        seconds[0] += time.process_time() - began
        sequences += best.counts["dram"]
        began = time.process_time()
        ours = Interleave().search(workload, accelerator)
        seconds[1] += time.process_time() - began
        if ours.energy_pj is None:  # fell back on the layer-wise schedule
            ratios.append(float("inf"))
            continue
        ratios.append(cost(ours) / cost(best))
        assert ratios[-1] >= 1 - 1e-12, f"case {seed - 1}: below the optimum"
    found = sum(ratio <= 1 + 1e-12 for ratio in ratios)
    print(
        f"optimum found in {found} of {wanted} cases ({100 * found / wanted:.1f} %), worst {max(ratios):.4f} times it, "
        f"never below; {refused} refused as too large, {too_small} fit into no buffer"
    )
    print(
        f"exhaustive {seconds[0] / wanted:.3f} s a case ({sequences / wanted:,.0f} sequences of transfers looked at), "
        f"ours {seconds[1] / wanted:.3f} s"
    )
    assert np.mean(np.array(ratios) <= 1 + 1e-12) >= 0.95


if __name__ == "__main__":
    main()
