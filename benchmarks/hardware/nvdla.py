"""NVDLA: NVIDIA's performance sheet for version 1, per layer, and the primer's table of frames a second.

The sheet is an analytical model and no silicon: 2048 MACs, 512 KiB, 10 B/cycle of DRAM, Winograd for 3 x 3. It is
compared with template ``nvdla_large`` with ``pe_array.winograd=true`` and ``dram.bandwidth=10 B/cycle``, as the sheet
says. Its cycles of a layer are those of the busiest part, so accelsim's are the bound of its program (array or DRAM),
not the latency of a layer that runs alone. Its variant with a secondary SRAM has two memories, which accelsim has
not: left out.

The primer's designs are template ``nvdla_large`` with other sizes; how a number of MACs is split into atomic C and K,
and how many results leave in a cycle (half of atomic K), is assumed where no spec is published. Nothing is fitted.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

import accelsim
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.schedule.notation import Schedule
from accelsim.workload.graph import Workload
from accelsim.workload.models.builder import Builder
from hardware.table import Aim, Row, read, run

AIMS = (
    Aim("NVDLA sheet, MAC cycles a layer", 0.10),
    Aim("NVDLA sheet, cycles a layer with DRAM only", 0.10),
    Aim("NVDLA sheet, ResNet-50 with DRAM only", 0.10),
    Aim("NVDLA primer, ResNet-50", 1.0, rank=0.999),
)
PRIMER = {2048: (32, 64), 1024: (16, 64), 512: (16, 32), 256: (8, 32), 128: (8, 16), 64: (8, 8), 32: (4, 8)}
"""MACs -> atomic K and C: nv_large, nv_medium_1024, nv_medium_512, nv_small_256, assumed, nv_small, assumed."""


def numbers(row: dict[str, str]) -> dict[str, int]:
    return {name: int(float(row[name] or 1)) for name in ("C", "H", "W", "K", "R", "S", "P", "Q", "stride")}


def mac_cycles(row: dict[str, str], accelerator: Accelerator) -> int:
    """The array alone."""
    n = numbers(row)
    sizes = (1, n["C"], n["K"], n["K"], n["P"], n["Q"], n["R"], n["S"], n["stride"], n["stride"], 1, 0)
    return accelerator.array_cost(TileColumns(*(np.array([size]) for size in sizes))).cycles.item()


def fused(workload: Workload, accelerator: Accelerator) -> float:
    """The bound of all operators as one fused group, cut into as few tiles as fit; layer by layer if none fits."""
    order = tuple(operator.name for operator in workload.operators)
    for number in (1, 2, 4, 7, 14, 28, 56, 112, 224):
        try:
            program = accelsim.lower(workload, accelerator, Schedule(workload.name, order, (), (), (number,)))
        except accelsim.errors.AccelsimError:
            continue
        return accelsim.report(accelsim.simulate(program)).to_dict()["lower_bound_cycles"]
    return run(workload, accelerator)["lower_bound_cycles"]


def layer(row: dict[str, str]) -> Workload:
    """A layer of the sheet; with the addition that the engine's output stage makes, where there is one."""
    n = numbers(row)
    net = Builder(plain=True)
    same = row["pad"] == "True"
    image = net.input("image", (n["C"], n["H"], n["W"]))
    net.conv("conv", image, n["K"], (n["R"], n["S"]), n["stride"], same=same)
    if "elwise" in row["type"]:
        net.add("sum", "conv", net.input("shortcut", net.shape("conv")))
    return net.workload("layer")


def mac_reason(row: dict[str, str], error: float) -> str:
    n = numbers(row)
    if n["C"] <= 4:
        return "an image: the sheet packs several lines of it into the channels (post-extension); not modelled"
    if n["C"] == n["K"] // 4 == 64:
        return "results leave at 16 a cycle (SDP), more slowly than they are made; the sheet does not count that"
    return (
        "the sheet counts channels and kernels in sixteens, and squares, as fractions; the engine rounds all of them up"
    )


def layer_reason(row: dict[str, str], error: float) -> str:
    if error < 0 and row["winograd"] == "True":
        return "the sheet stores Winograd's weights transformed, 16 values for 9; accelsim loads nine"
    if error < 0 and row["stride"] == "2":
        return "the sheet's DRAM bytes are those of outputs before striding (or of four times the weights)"
    if row["b_bound"] == "MAC":
        return mac_reason(row, error)
    return "weights do not fit into 512 KiB with the inputs: cut, and inputs are loaded again; the sheet loads once"


def rows(folder: Path) -> list[Row]:
    """Layers, a network, and the primer's designs."""
    machine = accelsim.load_accelerator("nvdla_large", ["pe_array.winograd=true", "dram.bandwidth=10 B/cycle"])
    macs: list[Row] = []
    layers: list[Row] = []
    for row in read(folder, "nvdla_perfsheet_layers.csv"):
        if not row["type"].startswith("conv") or not row["b_mac_cyc"]:
            continue
        name = f"{row['network']} {row['row']} {row['layer'][:36]}"
        # Four layers have twice the cycles in the variant with DRAM only; the other one is the array's.
        published = min(float(row["b_mac_cyc"]), float(row["a_mac_cyc"] or row["b_mac_cyc"]))
        simulated = mac_cycles(row, machine)
        error = simulated / published - 1
        why = mac_reason(row, error) if abs(error) > 0.25 else ""
        macs.append(Row(AIMS[0].group, name, published, simulated, "cycles", why))
        published, bound = float(row["b_max_cyc"]), fused(layer(row), machine)
        error = bound / published - 1
        why = layer_reason(row, error) if abs(error) > 0.25 else ""
        layers.append(Row(AIMS[1].group, name, published, bound, "cycles", why))
    networks: list[Row] = []
    for row in read(folder, "nvdla_perfsheet_totals.csv"):
        if row["network"] == "ResNet50" and row["memory_variant"] == "DRAM only":
            cycles = run(convolutions(), machine)["latency_cycles"]
            networks.append(Row(AIMS[2].group, "ResNet-50", float(row["total_cycles"]), cycles, "cycles"))
    for row in read(folder, "nvdla_primer_resnet50.csv"):
        kernels, channels = PRIMER[int(row["macs"])]
        design = accelsim.load_accelerator(
            "nvdla_large",
            [
                f"pe_array.rows={kernels}",
                f"pe_array.columns={channels}",
                f"pe_array.stripe={2 * kernels}",
                f"pe_array.results_per_cycle={max(kernels // 2, 1)}",
                f"pe_array.winograd={'true' if channels >= 64 else 'false'}",
                f"buffers.global.capacity={row['cbuf_kib']} KiB",
                f"dram.bandwidth={row['sdram_gbps']} GB/s",
            ],
        )
        seconds = run(convolutions(), design)["latency_seconds"]
        published, fps = float(row["resnet50_int8_fps"]), 1 / seconds
        why = "layer by layer, with everything to DRAM and back" if abs(fps / published - 1) > 0.25 else ""
        networks.append(Row(AIMS[3].group, f"{row['macs']} MACs, {row['sdram_gbps']} GB/s", published, fps, "fps", why))
    return [*macs, *layers, *networks]


def convolutions() -> Workload:
    """ResNet-50 without its average pooling and classifier: the pooling needs more than the smallest buffers hold."""
    net = accelsim.load_workload("resnet50")
    names = [operator.name for operator in net.operators]
    return replace(net, operators=net.operators[: names.index("avgpool")], outputs=())
