"""Times arrays of 32 x 32: closed forms over all tiles of ResNet-50; systolic ones also clocked, and whole runs.

``python benchmarks/bench_systolic.py`` prints the figures beside their limits; the answers are asserted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from accelsim.engine import simulate
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.hardware.dataflow.systolic import SystolicArray
from accelsim.hardware.dataflow.systolic_activity import active_elements
from accelsim.hardware.dataflow.systolic_cycles import clocked_product
from accelsim.library import load_accelerator, load_workload
from accelsim.program.lower import lower
from accelsim.search import Layerwise
from accelsim.timeline.cycles import cycle_activity
from accelsim.workload.cut import cut_to_fit

FLOWS = ("output_stationary", "weight_stationary", "input_stationary")
OTHERS = {
    "row_stationary": "eyeriss",
    "direct_convolution": "nvdla_large",
    "in_memory": "imc_generic",
    "spatial_cores": "soma_edge",
}
"""Dataflows that have no clock of their own here, and their templates."""
SIDE = 32
Answer = TypeVar("Answer")


def timed(call: Callable[[], Answer]) -> tuple[float, Answer]:
    """The best of three, after one call to warm up; seconds of CPU and answer."""
    answer = call()
    seconds = []
    for _ in range(3):
        began = time.process_time()
        answer = call()
        seconds.append(time.process_time() - began)
    return min(seconds), answer


def show(what: str, figure: float, unit: str, limit: float, *, at_least: bool) -> bool:
    holds = figure >= limit if at_least else figure <= limit
    print(f"{what:55} {figure:10.2f} {unit:16} {'at least' if at_least else 'at most'} {limit:g}: {holds}")
    return holds


def tiles_of_resnet50() -> TileColumns:
    """Every tile that the array runs, layer by layer, on the template ``scalesim_32x32``."""
    accelerator = load_accelerator("scalesim_32x32")
    workload = cut_to_fit(load_workload("resnet50"), accelerator.buffers["global"].capacity_bytes)
    program = lower(workload, accelerator, Layerwise().search(workload, accelerator).schedule)
    shapes = program.activities.shape
    return TileColumns(*np.ascontiguousarray(program.shapes[shapes[shapes >= 0]].T))


def serial_folds(flow: str, tiles: TileColumns) -> np.ndarray:
    """Cycles of full folds one after another, 2 R + C + T - 2 each: the table of the systolic arrays' page."""
    M, N = tiles.batch * tiles.rows * tiles.columns, tiles.filters
    K = tiles.channels * tiles.kernel_rows * tiles.kernel_columns
    assert (tiles.groups == 1).all()
    on_rows, on_columns, stream = {"o": (M, N, K), "w": (K, N, M), "i": (K, M, N)}[flow[0]]
    return -(-on_rows // SIDE) * -(-on_columns // SIDE) * (3 * SIDE + stream - 2)


def main() -> int:
    tiles = tiles_of_resnet50()
    macs = tiles.batch * tiles.rows * tiles.columns * tiles.filters * tiles.channels
    macs = macs * tiles.kernel_rows * tiles.kernel_columns
    random = np.random.default_rng(0)
    M, N, K = 1024, 512, 1024
    a, b = random.integers(-128, 128, (M, K)), random.integers(-128, 128, (K, N))
    holds = []
    for flow in FLOWS:
        array = load_accelerator("scalesim_32x32", [f"pe_array.dataflow={flow}"]).dataflow
        assert isinstance(array, SystolicArray)
        seconds, cost = timed(lambda array=array: array.cost(tiles))
        assert (cost.cycles == serial_folds(flow, tiles)).all()
        holds.append(show(f"{flow}: {len(macs)} tiles of ResNet-50", seconds * 1e3, "ms", 50, at_least=False))
        seconds, active = timed(lambda array=array: active_elements(array, M, N, K))
        assert active.sum() == M * N * K
        holds.append(show(f"{flow}: counting", len(active) / seconds / 1e6, "M cycles/s", 5, at_least=True))
        seconds, clocked = timed(lambda array=array: clocked_product(array, a, b))
        assert (clocked.product == a @ b).all()
        holds.append(show(f"{flow}: real operands", M * N * K / seconds / 1e6, "M MACs/s", 50, at_least=True))
    for flow, template in OTHERS.items():
        dataflow = load_accelerator(template, [f"pe_array.rows={SIDE}", f"pe_array.columns={SIDE}"]).dataflow
        seconds, cost = timed(lambda dataflow=dataflow: dataflow.cost(tiles))
        assert (cost.cycles * dataflow.macs_per_cycle >= macs).all()
        np.testing.assert_allclose(cost.energy_pj[:, 0] / macs, cost.energy_pj[0, 0] / macs[0], rtol=1e-12)
        holds.append(show(f"{flow}: {len(macs)} tiles of ResNet-50", seconds * 1e3, "ms", 50, at_least=False))
    for flow in FLOWS:
        fields = [f"pe_array.dataflow={flow}", "pe_array.counting=causal", "buffers.global.capacity=1 MiB"]
        machine = load_accelerator("scalesim_32x32", fields)
        network = cut_to_fit(load_workload("resnet50"), machine.buffers["global"].capacity_bytes)
        program = lower(network, machine, Layerwise().search(network, machine).schedule)
        timeline = simulate(program)
        seconds, cycles = timed(lambda timeline=timeline, machine=machine: cycle_activity(timeline, machine))
        on_array = program.activities.shape >= 0
        assert cycles.active_elements.sum(dtype=np.int64) == program.activities.macs[on_array].sum()
        clocked = int(program.activities.cycles[on_array].sum())
        holds.append(
            show(f"{flow}: ResNet-50, --detail cycle", clocked / seconds / 1e6, "M cycles/s", 5, at_least=True)
        )
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
