"""Times systolic arrays: closed forms over all tiles of ResNet-50, the counting clock, and real operands clocked.

``python benchmarks/bench_systolic.py`` prints the figures beside their limits; the answers are asserted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.hardware.dataflow.systolic import SystolicArray
from accelsim.hardware.dataflow.systolic_cycles import active_elements, clocked_product
from accelsim.library import load_accelerator, load_workload
from accelsim.workload.operator import ArrayWork

FLOWS = ("output_stationary", "weight_stationary", "input_stationary")
Answer = TypeVar("Answer")


def timed(call: Callable[[], Answer]) -> tuple[float, Answer]:
    """The best of three, after one call to warm up; seconds and answer."""
    answer = call()
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        answer = call()
        seconds.append(time.perf_counter() - began)
    return min(seconds), answer


def show(what: str, figure: float, unit: str, limit: float, *, at_least: bool) -> bool:
    holds = figure >= limit if at_least else figure <= limit
    print(f"{what:55} {figure:10.2f} {unit:16} {'at least' if at_least else 'at most'} {limit:g}: {holds}")
    return holds


def main() -> int:
    works = [operator.whole_work(1) for operator in load_workload("soma.resnet50").operators]
    nests = np.array([work[:12] for work in works if isinstance(work, ArrayWork)], dtype=np.int64)
    macs = [work.macs for work in works if isinstance(work, ArrayWork)]
    tiles = TileColumns(*np.ascontiguousarray(nests.T))
    random = np.random.default_rng(0)
    M, N, K = 1024, 512, 1024
    a, b = random.integers(-128, 128, (M, K)), random.integers(-128, 128, (K, N))
    holds = []
    for flow in FLOWS:
        array = load_accelerator("scalesim_32x32", [f"pe_array.dataflow={flow}"]).dataflow
        assert isinstance(array, SystolicArray)
        seconds, cost = timed(lambda array=array: array.cost(tiles))
        assert (cost.cycles * array.macs_per_cycle >= macs).all()
        holds.append(show(f"{flow}: {len(nests)} layers of ResNet-50", seconds * 1e3, "ms", 50, at_least=False))
        seconds, active = timed(lambda array=array: active_elements(array, M, N, K))
        assert active.sum() == M * N * K
        holds.append(show(f"{flow}: counting", len(active) / seconds / 1e6, "M cycles/s", 5, at_least=True))
        seconds, clocked = timed(lambda array=array: clocked_product(array, a, b))
        assert (clocked.product == a @ b).all()
        holds.append(show(f"{flow}: real operands", M * N * K / seconds / 1e6, "M MACs/s", 50, at_least=True))
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
