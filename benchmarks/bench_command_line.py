"""Wall time of the command line: importing, the first call ever, and the calls after it.

The latency that the timed command prints must equal that of an independent calculation: the plain-Python mapper and the
two-clock recurrence of ``tests/naive``, over the double-buffered layer-by-layer schedule written down below.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import accelsim  # noqa: E402
from accelsim.workload.operators import Conv2d  # noqa: E402
from tests.naive.spatial_cores import EDGE, best_mapping  # noqa: E402
from tests.naive.two_clocks import Tensor, two_clocks  # noqa: E402

COMMAND = ["-m", "accelsim", "run", "soma.resnet50", "--hardware", "soma_edge", "--json"]
DRAM_BYTES_PER_CYCLE = 16
VECTOR_OPERATIONS_PER_CYCLE = 512
REPEATS = 5


def independent_latency_cycles() -> int:
    """ResNet-50 on the edge machine, each operator one tile, everything through DRAM, double-buffered."""
    tile_cycles, tensors = [], []
    for position, operator in enumerate(accelsim.load_workload("soma.resnet50").operators):
        filters, rows, columns = operator.output.shape
        if isinstance(operator, Conv2d):
            shape = (operator.operands[0].shape[0], filters, filters, rows, columns, *operator.kernel, *operator.stride)
            best = best_mapping(EDGE, 1, *shape, 1, 0)
            assert best is not None
            tile_cycles.append(best.cycles)
        else:
            window = getattr(operator, "kernel", (len(operator.operands), 1))
            operations = filters * rows * columns * window[0] * window[1]
            tile_cycles.append(-(-operations // VECTOR_OPERATIONS_PER_CYCLE))
        moved = [(False, operand.shape) for operand in operator.operands]
        moved += [(False, tensor.shape) for tensor in operator.weights]
        moved.append((True, operator.output.shape))
        for is_store, sizes in moved:
            elements = 1
            for size in sizes:
                elements *= size
            start = position if is_store else position - 1
            cycles = -(-elements // DRAM_BYTES_PER_CYCLE)
            is_weight = len(sizes) == 4
            order = (start, not is_weight, position + 1, is_store)
            tensors.append((order, Tensor(is_store, position, start, position + 1, cycles)))
    tensors.sort(key=lambda pair: pair[0])
    latency, _ = two_clocks(tile_cycles, [tensor for _, tensor in tensors])
    return latency


def seconds(arguments: list[str], cache: Path) -> tuple[float, str]:
    """Wall time of a fresh Python process, and what it printed."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    environment.pop("NUMBA_CACHE_DIR", None)
    began = perf_counter()
    run = subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=cache, capture_output=True, text=True, check=True
    )
    return perf_counter() - began, run.stdout


def main() -> int:
    """Prints each figure with its limit; 1 if one is exceeded."""
    expected = independent_latency_cycles()
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        bare = median(seconds(["-c", "pass"], cache)[0] for _ in range(REPEATS))
        imported = median(seconds(["-c", "import accelsim"], cache)[0] for _ in range(REPEATS))
        first, output = seconds(COMMAND, cache)
        runs = [seconds(COMMAND, cache) for _ in range(REPEATS)]
    for text in (output, *(text for _, text in runs)):
        found = json.loads(text)["latency_cycles"]
        assert found == expected, f"the command says {found} cycles, the independent calculation {expected}"
    later = median(taken for taken, _ in runs)
    print(f"soma.resnet50 on soma_edge, layerwise: {expected:,} cycles, as calculated independently")
    figures = [
        ("import accelsim, beyond Python itself", imported - bare, 0.5),
        ("accelsim run, first call (compiles)", first, 30.0),
        (f"accelsim run, later calls (median of {REPEATS})", later, 3.0),
    ]
    for name, taken, limit in figures:
        print(f"  {name:<45} {taken:7.2f} s   limit {limit:4.1f} s   {taken / limit:6.1%} of it")
    print(f"  the first call takes {first / later:.1f} times as long as later ones")
    return int(any(taken > limit for _, taken, limit in figures))


if __name__ == "__main__":
    sys.exit(main())
