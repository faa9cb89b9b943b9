"""Eyeriss: AlexNet with batch 4 and VGG-16 with batch 3, per layer, on the chip (JSSC 2017).

Processing latency: the row-stationary array of template ``eyeriss`` under the chip's own mapping, one strip of ``e``
rows and ``n`` images a tile. For AlexNet the mappings are those of the paper's table III as its active elements
confirm them (the table itself from memory). For VGG-16 there is no table; the mappings are those that the columns of
active elements and buffer traffic imply, so these rows show consistency, not prediction. The data file says that
VGG's figures, and AlexNet's buffer and DRAM traffic, are from memory: not verified. Nothing is fitted.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import accelsim
from accelsim.hardware.dataflow.row_passes import ConvolutionShape, RowMapping, WordCounts, run_passes
from accelsim.hardware.dataflow.row_stationary import RowStationary, best_mapping
from hardware.table import Aim, Row, read

AIMS = (
    Aim("Eyeriss, AlexNet, processing latency", 0.10, rank=0.98),
    Aim("Eyeriss, VGG-16, processing latency (not verified)", 0.10, rank=0.98),
    Aim("Eyeriss, AlexNet, buffer traffic (not verified)", 0.10, rank=0.98),
    Aim("Eyeriss, VGG-16, buffer traffic (not verified)", 0.10, rank=0.98),
)
CYCLES_PER_MS = 200_000
MIB = 1 << 20


class Layer(NamedTuple):
    """A layer, its mapping on the chip, and the images that use the same filters."""

    groups: int
    channels: int
    filters: int
    size: int
    kernel: int
    stride: int
    mapping: RowMapping
    images: int


ALEXNET = {
    "CONV1": Layer(1, 3, 96, 55, 11, 4, RowMapping(7, 16, 1, 1, 2, 1), 1),
    "CONV2": Layer(2, 48, 128, 27, 5, 1, RowMapping(27, 16, 2, 1, 1, 1), 1),
    "CONV3": Layer(1, 256, 384, 13, 3, 1, RowMapping(13, 16, 4, 1, 4, 1), 4),
    "CONV4": Layer(2, 192, 192, 13, 3, 1, RowMapping(13, 16, 3, 2, 2, 1), 4),
    "CONV5": Layer(2, 192, 128, 13, 3, 1, RowMapping(13, 16, 3, 2, 2, 1), 4),
}
_WIDE, _56 = RowMapping(13, 16, 1, 1, 4, 1), RowMapping(13, 16, 2, 1, 4, 1)
_28, _14 = RowMapping(14, 16, 4, 1, 4, 1), RowMapping(14, 16, 4, 2, 2, 1)
VGG = {
    "CONV1-1": Layer(1, 3, 64, 224, 3, 1, _WIDE, 1),
    "CONV1-2": Layer(1, 64, 64, 224, 3, 1, _WIDE, 1),
    "CONV2-1": Layer(1, 64, 128, 112, 3, 1, _WIDE, 1),
    "CONV2-2": Layer(1, 128, 128, 112, 3, 1, _WIDE, 1),
    "CONV3-1": Layer(1, 128, 256, 56, 3, 1, _56, 1),
    "CONV3-2": Layer(1, 256, 256, 56, 3, 1, _56, 1),
    "CONV3-3": Layer(1, 256, 256, 56, 3, 1, _56, 1),
    "CONV4-1": Layer(1, 256, 512, 28, 3, 1, _28, 1),
    "CONV4-2": Layer(1, 512, 512, 28, 3, 1, _28, 1),
    "CONV4-3": Layer(1, 512, 512, 28, 3, 1, _28, 1),
    "CONV5-1": Layer(1, 512, 512, 14, 3, 1, _14, 3),
    "CONV5-2": Layer(1, 512, 512, 14, 3, 1, _14, 3),
    "CONV5-3": Layer(1, 512, 512, 14, 3, 1, _14, 3),
}


def on_chip(layer: Layer, batch: int, dataflow: RowStationary) -> tuple[int, int, int]:
    """Cycles and words from and to the buffer, strip by strip; and the cycles under accelsim's own mapping."""
    cycles = words = own = 0
    for start in range(0, layer.size, layer.mapping.e):
        rows = min(layer.mapping.e, layer.size - start)
        kernel, stride = layer.kernel, layer.stride
        shape = ConvolutionShape(
            layer.groups, layer.images, layer.channels, layer.filters, rows, layer.size, kernel, kernel, stride, stride
        )
        of_strip, counts = run_passes(shape, layer.mapping, dataflow.array)
        moved = WordCounts(*counts)
        cycles += of_strip * batch // layer.images
        words += (moved.inputs + moved.sums_in + moved.sums_out) * batch // layer.images
    whole = ConvolutionShape(
        layer.groups,
        batch,
        layer.channels,
        layer.filters,
        layer.size,
        layer.size,
        layer.kernel,
        layer.kernel,
        layer.stride,
        layer.stride,
    )
    own = run_passes(whole, best_mapping(dataflow, whole), dataflow.array)[0]
    return cycles, words, own


def reason(network: str, quantity: str, error: float) -> str:
    if abs(error) <= 0.25:
        return ""
    if quantity == "traffic":
        return "the published figure is from memory; sums leave the array once a pass here, as the mapping says"
    return "the mapping is inferred; the controller's own overheads are not modelled"


def rows(folder: Path) -> list[Row]:
    """Processing latency and buffer traffic of all layers."""
    dataflow = accelsim.load_accelerator("eyeriss").dataflow
    assert isinstance(dataflow, RowStationary)
    table: list[Row] = []
    for row in read(folder, "eyeriss_v1.csv"):
        network = row["network"]
        layers, aims = (ALEXNET, (0, 2)) if network == "AlexNet" else (VGG, (1, 3))
        if row["layer"] not in layers:
            continue
        layer = layers[row["layer"]]
        active = layer.mapping.e * layer.kernel * layer.mapping.r * layer.mapping.t
        assert active == int(row["active_pes"]), f"{network} {row['layer']}: the mapping has {active} active elements"
        cycles, words, own = on_chip(layer, int(row["batch"]), dataflow)
        published = float(row["processing_latency_ms"])
        name = f"{network} {row['layer']} (own mapping {own / CYCLES_PER_MS:.1f} ms)"
        simulated = cycles / CYCLES_PER_MS
        why = reason(network, "latency", simulated / published - 1)
        table.append(Row(AIMS[aims[0]].group, name, published, simulated, "ms", why))
        traffic, glb = 2 * words / MIB, float(row["glb_access_mb"])
        why = reason(network, "traffic", traffic / glb - 1)
        table.append(Row(AIMS[aims[1]].group, f"{network} {row['layer']}", glb, traffic, "MiB", why))
    return table
