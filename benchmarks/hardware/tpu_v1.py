"""TPU v1: the six production applications of its paper (ISCA 2017, tables 1, 3 and section 7).

The paper gives each one's number of layers and weights, operations a byte of weights and batch, no shapes. They are
rebuilt as equal layers: square matrices, or 3 x 3 convolutions whose positions follow from operations a byte. Two
things more are used: LSTM0 has no unused MACs (table 3), so its widths are multiples of 256, here 1536; LSTM1 has
matrices of 600 x 600 (section 7). Weights come in whole tiles of 256 x 256 (section 2), so widths are filled up with
zeros. Activations stay in the 24 MiB of the Unified Buffer; weights come layer by layer from weight memory. No
operation outside the matrix unit is known, so none is simulated: the paper's *non-matrix* cycles (10 to 32 % of all)
are missing, and everything comes out too fast by about that. Nothing is fitted.
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt, sqrt
from pathlib import Path

import accelsim
from accelsim.schedule.notation import Schedule
from accelsim.workload.graph import Workload
from accelsim.workload.models.builder import Builder
from hardware.table import Aim, Row, read

AIMS = (
    Aim("TPU v1, share of cycles in which the array is active", 8.0),
    Aim("TPU v1, operations a second", 0.25, rank=0.999),
    Aim("TPU v1, what-ifs and tiles", 0.25),
)
WIDTHS = {"LSTM0": 1536, "LSTM1": 600}
"""Known; the others' follow from the number of layers."""
ARRAY = 256


def application(row: dict[str, str]) -> tuple[Workload, float]:
    """Equal layers with the application's weights and operations, filled up; and the share of it that is no filling."""
    layers, weights = int(row["layers"]), float(row["weights"].rstrip("M")) * 1e6
    positions = float(row["ops_per_weight_byte"]) / float(row["batch"])
    convolution = row["app"].startswith("CNN")
    side = max(round(sqrt(positions)), 1)
    kernel = 3 if convolution else 1
    width = WIDTHS.get(row["app"], isqrt(round(weights / layers / kernel**2)))
    layers = round(weights / (width * kernel) ** 2)
    filled = -(-width // ARRAY) * ARRAY
    net = Builder(plain=True)
    last = net.input("input", (filled, side, side))
    for number in range(layers):
        last = net.conv(f"layer{number}", last, filled, (kernel, kernel))
    return net.workload(row["app"]), (width / filled) ** 2


def simulate(row: dict[str, str], *overrides: str) -> tuple[dict[str, float], Workload, float]:
    """The report, with activations on the chip; the workload, and the share of its MACs that is useful."""
    accelerator = accelsim.load_accelerator("tpu_v1", list(overrides))
    filled, useful = application(row)
    workload = replace(filled, batch=int(row["batch"]))
    order = tuple(operator.name for operator in workload.operators)
    cuts = tuple(range(1, len(order)))
    schedule = Schedule(workload.name, order, cuts, (), (1,) * len(order))
    figures = accelsim.report(accelsim.simulate(accelsim.lower(workload, accelerator, schedule))).to_dict()
    return figures, workload, useful


def active_share(figures: dict[str, float], workload: Workload) -> float:
    """Rows that stream through the array, zeros that fill up its tiles included, in percent of all cycles."""
    cycles = 0
    for operator in workload.operators:
        work = operator.whole_work(workload.batch)
        terms = work.channels * work.kernel_rows * work.kernel_columns
        folds = -(-terms // ARRAY) * -(-work.filters // ARRAY)
        cycles += folds * work.batch * work.rows * work.columns
    return 100 * cycles / figures["latency_cycles"]


REASONS = {
    "CNN0": "22 % of the chip's cycles are not the matrix unit's: activation, pooling, hazards; not simulated",
    "CNN1": "its layers are unknown and not alike: shallow ones use half the array, four large ones wait for weights",
    "LSTM1": "cycles outside the matrix unit, and its matrices are not all 600 x 600",
}


def rows(folder: Path) -> list[Row]:
    """Shares, rates, and what the paper's section 7 changes."""
    shares: list[Row] = []
    rates: list[Row] = []
    base: dict[str, float] = {}
    applications = {row["app"]: row for row in read(folder, "tpuv1_isca2017.csv")}
    for name, row in applications.items():
        figures, workload, useful = simulate(row)
        base[name] = figures["latency_seconds"]
        share, published = active_share(figures, workload), float(row["array_active_pct"])
        why = REASONS.get(name, "") if abs(share - published) > 8 else ""
        shares.append(Row(AIMS[0].group, name, published, share, "%", why, difference=True))
        tops = 2 * useful * workload.macs / figures["latency_seconds"] / 1e12
        published = float(row["teraops_per_s"])
        why = REASONS.get(name, "cycles outside the matrix unit") if abs(tops / published - 1) > 0.25 else ""
        rates.append(Row(AIMS[1].group, name, published, tops, "TOPS", why))
    what_ifs: list[Row] = []
    for row in read(folder, "tpuv1_platform.csv"):
        quantity = row["quantity"]
        if "4x memory bandwidth" in quantity:
            for name in ("MLP0", "MLP1", "LSTM0", "LSTM1"):
                faster = base[name] / simulate(applications[name], "dram.bandwidth=136 GB/s")[0]["latency_seconds"]
                why = "no cycles outside the matrix unit, which do not get faster" if faster > 3.75 else ""
                what_ifs.append(Row(AIMS[2].group, f"{name}: 4x bandwidth", float(row["value"]), faster, "x", why))
        if "4x clock" in quantity:
            for name in ("CNN0", "CNN1"):
                faster = base[name] / simulate(applications[name], "clock=2.8 GHz")[0]["latency_seconds"]
                why = REASONS[name] if abs(faster / float(row["value"]) - 1) > 0.25 else ""
                what_ifs.append(Row(AIMS[2].group, f"{name}: 4x clock", float(row["value"]), faster, "x", why))
        if quantity.startswith("600x600"):
            side = 256 if "256x256" in quantity else 512
            published = float(row["value"].split("/")[1])
            seconds = _matrix_seconds(side)
            what_ifs.append(Row(AIMS[2].group, quantity, published, 1e6 * seconds, "us"))
    return [*shares, *rates, *what_ifs]


def _matrix_seconds(side: int) -> float:
    accelerator = accelsim.load_accelerator("tpu_v1", [f"pe_array.rows={side}", f"pe_array.columns={side}"])
    net = Builder(plain=True)
    filled = -(-600 // side) * side
    net.conv("matrix", net.input("input", (filled, 1, 1)), filled)
    schedule = Schedule("matrix", ("matrix",), (), (), (1,))
    program = accelsim.lower(net.workload("matrix"), accelerator, schedule)
    return accelsim.report(accelsim.simulate(program)).to_dict()["latency_seconds"]
