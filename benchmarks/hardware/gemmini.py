"""Gemmini: layers on its RTL under FireSim, with a given mapping and with its default tiling (DOSA, MICRO 2023).

The given mapping names loop factors a level: L3 around DRAM, L2 and L1 what the scratchpad and the accumulator hold,
L0 what passes with one set of weights; X marks what is spatial. It becomes a Program: each iteration of the L3 loops
loads its weights and inputs whole, runs, and stores its outputs when its sums are complete. The array's time is the
closed form of template ``gemmini_16x16``, the DMA carries the template's 16 bytes a cycle, nothing is fitted but one
choice: **whether loads overlap with computing**. Mappings fill the scratchpad, so that there is no room to load
ahead, and the choice is that they do not. It was made on the even rows (the odd ones are reported apart).
"""

from __future__ import annotations

import re
from math import prod
from pathlib import Path

import numpy as np

import accelsim
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.program.tables import (
    SHAPE_COLUMNS,
    ActivityKind,
    ActivityTable,
    Arbitration,
    BufferTable,
    ClaimTable,
    DependencyTable,
    Program,
    QueueTable,
    ReleaseTable,
    ResourceKind,
    ResourceTable,
)
from accelsim.workload.models.builder import Builder
from hardware.table import Aim, Row, read, run

AIMS = (
    Aim("Gemmini, given mapping", 0.15, rank=0.95),
    Aim("Gemmini, given mapping, odd rows", 0.15, rank=0.95),
    Aim("Gemmini, default tiling", 0.15, rank=0.95),
)
Levels = dict[str, list[tuple[str, int, bool]]]


def parse(mapping: str) -> Levels:
    """Level -> loops as (dimension, factor, spatial)."""
    levels: Levels = {}
    for part in mapping.split(" - "):
        match = re.fullmatch(r"(L\d)\[\w+\] (.*)", part)
        assert match, part
        loops = [re.fullmatch(r"([A-Z])(\d+)(X?)", loop) for loop in match[2].split()]
        levels[match[1]] = [(loop[1], int(loop[2]), loop[3] == "X") for loop in loops if loop]
    return levels


def factor(loops: list[tuple[str, int, bool]], dimension: str, *, spatial: bool | None = None) -> int:
    return prod(count for name, count, is_spatial in loops if name == dimension and spatial in (None, is_spatial))


def mapped(row: dict[str, str], accelerator: Accelerator, *, overlap: bool) -> Program:
    """The Program of a layer under its given mapping."""
    levels, stride = parse(row["mapping"]), int(row["stride"])
    inner = levels["L2"] + levels["L1"] + levels["L0"]
    tile = {name: factor(inner, name) for name in "NCKPQRS"}
    outer = {name: factor(levels["L3"], name) for name in "NCKPQRS"}
    iterations = prod(outer.values())
    complete = outer["C"] * outer["R"] * outer["S"]  # iterations that add to the same outputs
    weights = tile["C"] * tile["K"] * tile["R"] * tile["S"]
    inputs = tile["C"] * prod((tile[p] - 1) * stride + tile[r] for p, r in (("P", "R"), ("Q", "S")))
    outputs = tile["N"] * tile["K"] * tile["P"] * tile["Q"]
    # Folds of 16 x 16 weights, however few of their rows and columns the mapping uses.
    row_folds = tile["C"] // factor(inner, "C", spatial=True) * tile["R"] * tile["S"]
    column_folds = tile["K"] // factor(inner, "K", spatial=True)
    sizes = (
        1,
        16 * row_folds,
        16 * column_folds,
        16 * column_folds,
        tile["N"] * tile["P"],
        tile["Q"],
        1,
        1,
        1,
        1,
        1,
        0,
    )
    cycles = accelerator.array_cost(TileColumns(*(np.array([size]) for size in sizes))).cycles.item()

    # Rows: load, tile and, where sums are complete, store, of one iteration after another.
    stores = (np.arange(iterations) + 1) % complete == 0
    kinds = [[ActivityKind.LOAD, ActivityKind.TILE] + [ActivityKind.STORE] * int(store) for store in stores]
    kind = np.array([one for group in kinds for one in group])
    load, tiles, store = (
        np.flatnonzero(kind == one) for one in (ActivityKind.LOAD, ActivityKind.TILE, ActivityKind.STORE)
    )
    size = np.select([kind == ActivityKind.LOAD, kind == ActivityKind.STORE], [weights + inputs, outputs], 0)
    before, after = [load, tiles[stores]], [tiles, store]
    if not overlap:
        before.append(tiles[:-1])
        after.append(load[1:])
    none = np.full(len(kind), -1)
    bandwidth = accelerator.dram.bytes_per_cycle
    empty = np.zeros(0, dtype=np.int64)
    return Program(
        resources=ResourceTable(
            kind=np.array([ResourceKind.CORE, ResourceKind.LINK]),
            bytes_numerator=np.array([0, bandwidth.numerator]),
            bytes_denominator=np.array([1, bandwidth.denominator]),
            latency_cycles=np.array([0, accelerator.dram.latency_cycles]),
            arbitration=np.array([Arbitration.ROUND_ROBIN, Arbitration.IN_ORDER]),
            grant_bytes=np.array([0, 0]),
        ),
        queues=QueueTable(resource=np.array([0, 1])),
        activities=ActivityTable(
            queue=np.where(kind == ActivityKind.TILE, 0, 1),
            kind=kind,
            cycles=np.where(kind == ActivityKind.TILE, cycles, 0),
            bytes=size,
            operator=np.zeros_like(kind),
            tile=np.zeros_like(kind),
            tensor=np.where(kind == ActivityKind.TILE, -1, 0),
            position=np.where(kind == ActivityKind.TILE, np.cumsum(kind == ActivityKind.TILE) - 1, -1),
            macs=np.zeros_like(kind),
            vector_ops=np.zeros_like(kind),
            shape=none,
        ),
        dependencies=DependencyTable(np.concatenate(before), np.concatenate(after)),
        claims=ClaimTable(empty, empty, empty, empty),
        releases=ReleaseTable(empty, empty),
        buffers=BufferTable(empty),
        energy_pj=np.zeros((len(kind), 1)),
        shapes=np.zeros((0, len(SHAPE_COLUMNS)), dtype=np.int64),
        resource_names=("core", "dram"),
        queue_names=("core", "dram"),
        buffer_names=(),
        operator_names=("layer",),
        tensor_names=("data",),
        part_names=("mac",),
    )


def reason(row: dict[str, str], error: float) -> str:
    """What the rows beyond 25 % have in common, found by sorting them."""
    levels = parse(row["mapping"])
    inner = levels["L2"] + levels["L1"] + levels["L0"]
    pixels = factor(inner, "P") * factor(inner, "Q")
    weights_again = factor(levels["L3"], "P") * factor(levels["L3"], "Q")
    if int(row["C"]) == 1 or factor(inner, "K") < 16:
        return "one channel or two filters: rows of one or two bytes, which the DMA moves in a request each"
    if int(row["macs"]) < 2_000_000:
        return "a layer of microseconds: instruction issue and DMA latency, which are not modelled"
    if error < 0 and int(row["stride"]) == 2:
        return "stride 2: the DMA gathers every second pixel, a request each"
    if error < 0 and weights_again > 1 and pixels < 256:
        return (
            f"weights are loaded {weights_again} times, in rows of {factor(inner, 'K')} bytes: short DMA requests and "
            "TLB misses, which are not modelled"
        )
    if error < 0:
        return f"tiles of {pixels} pixels and {factor(inner, 'K')} filters: short DMA requests, which are not modelled"
    if len([loop for loop in levels["L3"] if loop[1] > 1]) > 1:
        return "what an iteration shares with the one before is loaded again here, or loads overlap after all"
    return "loads overlap with computing after all: the tile leaves room in the scratchpad"


def rows(folder: Path) -> list[Row]:
    """Given mappings; then the default tiling against accelsim's own layer-wise schedule."""
    accelerator = accelsim.load_accelerator("gemmini_16x16")
    table: list[Row] = []
    for number, row in enumerate(read(folder, "gemmini_firesim_layers.csv")):
        name = "{N}x{C}x{P}x{Q} K{K} {R}x{S}/{stride}, {scratchpad_kib} + {accumulator_kib} KiB".format(**row)
        published = float(row["rtl_cycles_given_mapping"])
        cycles = accelsim.simulate(mapped(row, accelerator, overlap=False)).latency_cycles
        error = cycles / published - 1
        why = reason(row, error) if abs(error) > 0.25 else ""
        table.append(Row(AIMS[0].group, name, published, cycles, "cycles", why))
        if number % 2:
            table.append(Row(AIMS[1].group, name, published, cycles, "cycles", why))
    for row in read(folder, "gemmini_firesim_layers.csv"):
        name = "{N}x{C}x{P}x{Q} K{K} {R}x{S}/{stride}, {scratchpad_kib} KiB".format(**row)
        machine = accelsim.load_accelerator("gemmini_16x16", [f"buffers.global.capacity={row['scratchpad_kib']} KiB"])
        stride, kernel = int(row["stride"]), (int(row["R"]), int(row["S"]))
        net = Builder(plain=True)
        size = [(int(row[axis]) - 1) * stride + window for axis, window in zip("PQ", kernel, strict=True)]
        net.conv("layer", net.input("image", (int(row["C"]), *size)), int(row["K"]), kernel, stride, same=False)
        cycles = run(net.workload("layer"), machine)["latency_cycles"]
        published = float(row["rtl_cycles_default_tiling"])
        error = cycles / published - 1
        why = (
            "the library's own tiling and instruction issue; accelsim's schedule, double-buffered, is the better one"
            if error < 0
            else "accelsim double-buffers, so tiles have half the room, and weights or inputs are loaded more often"
        )
        table.append(Row(AIMS[2].group, name, published, cycles, "cycles", why if abs(error) > 0.25 else ""))
    return table
