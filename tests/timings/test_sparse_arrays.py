"""Zeros and narrow numbers on arrays: SCALE-Sim's figures, closed forms, and laws that hold whatever the machine."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import accelsim
from accelsim.formats.scalesim_topology import parse_scalesim_topology
from accelsim.hardware.arithmetic import Forms
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.hardware.dataflow.in_memory import InMemory
from accelsim.hardware.dataflow.operand_stationary import OperandStationary
from accelsim.hardware.dataflow.products import Products
from accelsim.hardware.dataflow.systolic import SystolicArray
from accelsim.sparsity import Pattern, Sparsity, Storage
from accelsim.workload.operator import ArrayWork, Operand, Source
from accelsim.workload.operators import MatMul
from accelsim.workload.sparse import with_sparsity
from accelsim.workload.tensor import Tensor
from tests.reference_data import whole_table

FLOWS = {"os": "output_stationary", "ws": "weight_stationary", "is": "input_stationary"}
COPIED = """\
M,N,K,array_rows,array_cols,dataflow,ratio_N_of_M,total_cycles,mapping_eff_pct,sram_ifmap_reads,sram_filter_reads,sram_ofmap_writes
1,32,64,8,8,is,1:4,107,12.5,16,512,64
1,32,64,8,8,is,2:8,107,12.5,16,512,64
1,32,64,8,8,os,1:1,311,12.5,256,2048,96
1,32,64,8,8,os,2:8,119,12.5,64,512,96
1,32,64,8,8,os,3:4,247,12.5,192,1536,96
1,32,64,8,8,ws,1:2,367,100.0,256.0,1024,128
"""
"""SCALE-Sim v3.0.0 (commit 1d62b68a), layer-wise sparsity, ellpack_block, CALC; cycles are the last one's index."""
Row = dict[str, str]


def machine(*settings: str, name: str = "scalesim_32x32") -> accelsim.Accelerator:
    return accelsim.load_accelerator(name, list(settings))


@cache
def scale_sim(rows: str, columns: str, dataflow: str) -> accelsim.Accelerator:
    sizes = (f"pe_array.rows={rows}", f"pe_array.columns={columns}", f"pe_array.dataflow={dataflow}")
    return machine(*sizes, "pe_array.counting=scalesim", "pe_array.sparsity.weights=structured")


def check_rows(rows: list[Row]) -> None:
    for row in rows:
        flow, ratio = row["dataflow"], row["ratio_N_of_M"]
        accelerator = scale_sim(row["array_rows"], row["array_cols"], FLOWS[flow])
        workload = parse_scalesim_topology(f"h,M,N,K,\nL,{row['M']},{row['N']},{row['K']},{ratio},\n", "t.csv", "t")
        timeline = accelsim.simulate(
            accelsim.lower(workload, accelerator, accelsim.Layerwise().search(workload, accelerator).schedule)
        )
        program = timeline.program
        assert program.activities.cycles[0] == int(row["total_cycles"]) + 1, row
        tile = TileColumns(*np.ascontiguousarray(program.shapes[:1].T))
        array = accelerator.dataflow
        assert isinstance(array, SystolicArray)
        assert array.mapping_efficiency(tile)[0] == pytest.approx(float(row["mapping_eff_pct"]) / 100, rel=1e-12)
        counts = array.accesses(tile)
        kept, of = (int(number) for number in ratio.split(":"))
        inputs = counts.input_reads[0]
        if flow == "ws":  # there it counts the inputs that no weight meets as well
            inputs = inputs * of / kept
        assert inputs == pytest.approx(float(row["sram_ifmap_reads"]), rel=1e-12), row
        assert counts.weight_reads[0] == int(row["sram_filter_reads"]), row
        writes = int(row["sram_ofmap_writes"])
        if flow == "os":  # counted too often by rows + columns a fold
            folds = -(-int(row["M"]) // array.rows) * -(-int(row["N"]) // array.columns)
            writes -= folds * (array.rows + array.columns)
        assert counts.output_writes[0] == writes, row


def test_copied_rows_of_scale_sim() -> None:
    check_rows(list(csv.DictReader(COPIED.splitlines())))


def test_all_layer_wise_rows_of_scale_sim() -> None:
    text = whole_table("systolic/scalesim_sparsity_open.csv").read_text()
    rows = list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))
    layer_wise = [row for row in rows if row["sparsity_kind"] == "layer"]
    assert len(layer_wise) > 100
    check_rows(layer_wise)


def product(weights: Sparsity | None = None, inputs: Sparsity | None = None, bits: int = 8) -> accelsim.Workload:
    """A product of 64 x 512 by 512 x 96."""
    given = Tensor("x", (64, 512), bits)
    operand = Operand((Source("x"),), given.shape)
    weight = Tensor("p.weight", (512, 96), bits)
    operator = MatMul("p", (operand,), Tensor("p", (64, 96), bits), (weight,))
    return with_sparsity(accelsim.Workload("one", (operator,), (given,)), weights, inputs)


def run(workload: accelsim.Workload, accelerator: accelsim.Accelerator) -> accelsim.Timeline:
    schedule = accelsim.Layerwise().search(workload, accelerator).schedule
    return accelsim.simulate(accelsim.lower(workload, accelerator, schedule))


def tile_of(timeline: accelsim.Timeline) -> tuple[int, float]:
    """Cycles and MAC energy of all tiles."""
    program = timeline.program
    mac = program.part_names.index("mac")
    return int(program.activities.cycles.sum()), float(program.energy_pj[:, mac].sum())


HALF = Sparsity(1, 2)
ROOM = "buffers.global.capacity=1 MiB"


def test_gating_saves_energy_and_no_time_skipping_saves_both() -> None:
    dense = tile_of(run(product(), machine()))
    gated = tile_of(
        run(product(HALF, HALF), machine("pe_array.sparsity.weights=gate", "pe_array.sparsity.inputs=gate"))
    )
    assert gated[0] == dense[0]
    assert gated[1] == pytest.approx(dense[1] / 4, rel=1e-12)
    partly = machine("pe_array.sparsity.weights=gate", "pe_array.sparsity.gated_energy=0.2")
    assert tile_of(run(product(HALF), partly))[1] == pytest.approx(dense[1] * (0.5 + 0.2 * 0.5), rel=1e-12)
    one_sided = tile_of(run(product(HALF), machine("pe_array.sparsity.weights=skip")))
    two_sided = tile_of(
        run(product(HALF, HALF), machine("pe_array.sparsity.weights=skip", "pe_array.sparsity.inputs=skip"))
    )
    assert two_sided[0] < one_sided[0] < dense[0]
    assert one_sided[1] == pytest.approx(dense[1] / 2, rel=1e-12)
    assert two_sided[1] == pytest.approx(dense[1] / 4, rel=1e-12)


def test_zeros_that_a_machine_knows_nothing_of_change_nothing_but_bytes() -> None:
    dense, zeros = run(product(), machine()), run(product(HALF, HALF), machine())
    assert tile_of(dense) == tile_of(zeros)
    assert dense.program.activities.bytes.tolist() == zeros.program.activities.bytes.tolist()
    stored = run(product(Sparsity(1, 2, storage=Storage.BITMAP)), machine())
    saved = int(dense.program.activities.bytes.sum() - stored.program.activities.bytes.sum())
    assert saved == 512 * 96 - (512 * 96 // 2 + 512 * 96 // 8)


@pytest.mark.parametrize("mode", ["gate", "skip", "structured"])
@pytest.mark.parametrize("pattern", [Pattern.RANDOM, Pattern.STRUCTURED, Pattern.BLOCK])
def test_a_density_of_one_is_dense(mode: str, pattern: Pattern) -> None:
    accelerator = machine(f"pe_array.sparsity.weights={mode}", "pe_array.sparsity.lanes=16")
    assert tile_of(run(product(Sparsity(4, 4, pattern)), accelerator)) == tile_of(run(product(), accelerator))


def test_a_machine_of_structured_weights_makes_nothing_of_others() -> None:
    accelerator = machine("pe_array.sparsity.weights=structured")
    assert tile_of(run(product(HALF), accelerator)) == tile_of(run(product(), accelerator))
    shorter = tile_of(run(product(Sparsity(2, 4, Pattern.STRUCTURED)), accelerator))
    half_the_terms = tile_of(run(_of_depth(256), machine()))
    assert shorter == pytest.approx(half_the_terms, rel=1e-12)


def _of_depth(depth: int) -> accelsim.Workload:
    given = Tensor("x", (64, depth))
    operator = MatMul(
        "p", (Operand((Source("x"),), given.shape),), Tensor("p", (64, 96)), (Tensor("p.weight", (depth, 96)),)
    )
    return accelsim.Workload("one", (operator,), (given,))


def test_lanes_wait_for_the_fullest_row_of_a_mask(tmp_path: Path) -> None:
    mask = np.zeros((4, 8), dtype=bool)
    mask[0, :6] = mask[1, :1] = mask[2, :3] = mask[3, :2] = True
    np.save(tmp_path / "mask.npy", mask)
    from accelsim.sparsity import parse_sparsity

    found = parse_sparsity(str(tmp_path / "mask.npy"))
    assert (found.density, found.row_nonzeros) == (12 / 32, (6, 1, 3, 2))
    assert found.slowest_lane(8, lanes=1) == 3  # 12 in 4 rows
    assert found.slowest_lane(8, lanes=2) == 5  # (6 + 3) / 2, rounded up
    assert found.slowest_lane(8, lanes=4) == 6
    drawn = Sparsity(1, 4)
    lanes = [drawn.slowest_lane(1024, count) for count in (1, 4, 16, 64)]
    assert lanes == sorted(lanes)
    assert 256 <= lanes[0] <= 260
    # The largest of n normal deviates is below sqrt(2 ln n) in the mean (Gumbel); deviation sqrt(K d (1 - d)).
    assert lanes[-1] <= 256 + (2 * np.log(64)) ** 0.5 * (1024 * 0.25 * 0.75) ** 0.5
    assert lanes == [Sparsity(1, 4).slowest_lane(1024, count) for count in (1, 4, 16, 64)]


@pytest.mark.parametrize(
    ("sparsity", "bits", "bytes_of_4096"),
    [
        (Sparsity(1, 4, storage=Storage.BITMAP), 8, 1024 + 512),
        (Sparsity(1, 1, storage=Storage.BITMAP), 8, 4096 + 512),
        (Sparsity(2, 4, Pattern.STRUCTURED, Storage.INDEX), 4, 4096 * 0.75 / 2),
        (Sparsity(2, 4, Pattern.STRUCTURED, Storage.INDEX), 8, 4096 * 0.625),
        (Sparsity(2, 4, Pattern.STRUCTURED, Storage.INDEX), 16, 4096 * 2 * 0.5625),
        (Sparsity(1, 4, storage=Storage.COORDINATE), 8, 1024 * 2),
        (Sparsity(1, 2, storage=Storage.RUN_LENGTH), 8, 2048 * 1.5),
        (Sparsity(1, 64, storage=Storage.RUN_LENGTH), 8, 256 * 1.5),
        (Sparsity(1, 4), 8, 4096),
    ],
)
def test_bytes_of_compressed_forms(sparsity: Sparsity, bits: int, bytes_of_4096: float) -> None:
    """Of a dense byte: bitmap d + 1/b; 2:4 with an index 0.75, 0.625, 0.5625 for 4, 8, 16 bits."""
    assert Tensor("w", (64, 64), bits, sparsity).sample_bytes == bytes_of_4096


@pytest.mark.parametrize(
    ("form", "bits", "density"), [("bitmap", 4, 0.75), ("bitmap", 8, 0.875), ("run_length", 8, 2 / 3)]
)
def test_where_compression_breaks_even(form: str, bits: int, density: float) -> None:
    def ratio(share: float) -> float:
        sparsity = Sparsity(round(share * 10**6), 10**6, storage=Storage(form))
        return sparsity.stored_bits(10**6, bits) / (10**6 * bits)

    assert ratio(density - 0.001) < 1 < ratio(density + 0.001)


def test_fewer_bits_never_cost_more() -> None:
    accelerator = machine("pe_array.precision.bits=8", "pe_array.precision.subword=true", ROOM)
    found = {bits: tile_of(run(product(bits=bits), accelerator)) for bits in (2, 4, 8, 16)}
    cycles, energies = zip(*(found[bits] for bits in (2, 4, 8, 16)), strict=True)
    assert list(cycles) == sorted(cycles)
    assert list(energies) == sorted(energies)
    assert found[8] == tile_of(run(product(), machine(ROOM)))
    assert energies == pytest.approx([found[8][1] * (bits / 8) ** 2 for bits in (2, 4, 8, 16)])
    without = machine("pe_array.precision.bits=8", ROOM)
    assert tile_of(run(product(bits=4), without))[0] == found[8][0]
    # Two 8-bit parts on either side: four products each, 2048 terms.
    assert found[16][0] == tile_of(run(_of_depth(2048), machine(ROOM)))[0]


def test_other_dataflows_have_it_too() -> None:
    for name in ("soma_edge", "nvdla_small", "tpu_v1"):
        accelerator = machine("pe_array.sparsity.weights=skip", name=name)
        dense, sparse = tile_of(run(product(), accelerator)), tile_of(run(product(Sparsity(1, 8)), accelerator))
        assert sparse[0] < dense[0]
        assert sparse[1] == pytest.approx(dense[1] / 8, rel=1e-12)


def test_terms_that_are_left_are_no_fewer_than_one() -> None:
    accelerator = machine("pe_array.sparsity.weights=skip")
    tile = TileColumns(*(np.array([n]) for n in (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0)))
    left, _ = accelerator.effectual(tile, Forms(Sparsity(1, 1000)))
    assert left.channels.tolist() == [1]
    work = product(HALF).operators[0].whole_work(1)
    assert isinstance(work, ArrayWork)
    assert work.macs == 64 * 96 * 512  # the workload's own work counts zeros


def test_operators_alike_but_for_their_zeros_are_told_apart() -> None:
    first, second = product().operators[0], product(Sparsity(1, 8)).operators[0]
    from dataclasses import replace

    second = replace(second, name="q", output=replace(second.output, name="q"))
    both = accelsim.Workload("two", (first, second), product().inputs)
    program = run(both, machine("pe_array.sparsity.weights=skip")).program
    cycles = [int(program.activities.cycles[program.activities.operator == number].sum()) for number in (0, 1)]
    assert cycles[1] < cycles[0]


def test_on_the_roofline_gating_lifts_energy_alone_and_skipping_both() -> None:
    """Roofs of dense-equivalent work, in operations a cycle and a picojoule, at a machine whose memory is no limit."""

    def roofs(mode: str) -> tuple[float, float]:
        accelerator = machine(f"pe_array.sparsity.weights={mode}", "dram.bandwidth=1 TB/s", "dram.read_energy=0 pJ/B")
        timeline = run(product(Sparsity(1, 4, Pattern.BLOCK)), accelerator)
        point = next(p for p in accelsim.roofline(accelerator).add(timeline).to_dict()["points"] if p["name"] == "run")
        assert point["ops_per_cycle"] <= point["roof_ops_per_cycle"]
        return point["roof_ops_per_cycle"], point["roof_ops_per_pj"]

    dense, gated, skipped = roofs("none"), roofs("gate"), roofs("skip")
    assert gated[0] == dense[0]
    saved = 1 / dense[1] - 1 / gated[1]  # three quarters of a MAC, which is two operations
    assert saved == pytest.approx(0.75 * machine().dataflow.mac_pj / 2)
    assert skipped == pytest.approx((4 * dense[0], gated[1]))


def test_int8_at_the_ridge_is_far_from_its_best_energy() -> None:
    """Verhelst et al.: where time is balanced, energy is not. Edge constants: ridge 1024 op/B, 84 pJ a byte of DRAM."""
    points = accelsim.roofline(machine(name="soma_edge")).to_dict()["roofs"]
    value = {(roof["level"], roof["unit"]): roof["value"] for roof in points}
    ridge = value["array", "op/cycle"] / value["dram", "B/cycle"]
    per_op, per_byte = 1 / value["array", "op/pJ"], value["dram", "pJ/B"]
    assert (ridge, per_op, per_byte) == pytest.approx((2 * 8192 / 16, 0.009, 84))
    share = per_op / (per_op + per_byte / ridge)
    assert share == pytest.approx(1 / (1 + 84 / 0.009 / 1024))
    assert share < 0.12


@pytest.mark.parametrize("bits", [16, 24, 32, 64])
@pytest.mark.parametrize("name", ["gemmini_16x16", "imc_generic"])
def test_bits_of_sums_that_leave_the_array(name: str, bits: int) -> None:
    """64 x 512 by 512 x 96: in each of the row folds but the last, 64 x 96 sums are written, and read in the next."""
    plain, wide = (
        machine(ROOM, "pe_array.precision.bits=8", f"pe_array.precision.accumulator_bits={one}", name=name)
        for one in (8, bits)
    )
    rows = plain.dataflow.macros.rows if isinstance(plain.dataflow, InMemory) else 16
    sums = 64 * 96 * (-(-512 // rows) - 1)
    tile = TileColumns(*np.ascontiguousarray(run(product(), plain).program.shapes[:1].T))
    (before, after) = (one.dataflow.accessed_bytes(tile) for one in (plain, wide))
    assert before is not None and after is not None
    for read_or_written in (0, 1):
        grown = int(after["global"][read_or_written][0] - before["global"][read_or_written][0])
        assert grown == sums * (bits - 8) // 8


def test_narrower_sums_are_more_that_an_accumulator_holds() -> None:
    fields = [
        f"buffers.accumulator.{text}" for text in ("capacity=64 KiB", "read_energy=1 pJ/B", "write_energy=1 pJ/B")
    ]
    works = []
    for bits in (32, 16):
        precision = ("pe_array.precision.bits=8", f"pe_array.precision.accumulator_bits={bits}")
        array = machine(*fields, *precision, name="gemmini_16x16").dataflow
        assert isinstance(array, OperandStationary)
        works.append(array.spilled_items(Products(*(np.array([size]) for size in (1, 4096, 16, 64)))))
    # 64 KiB hold 1,024 rows of 16 sums of 4 bytes, and twice as many of 2.
    assert [int(spilled[0]) for spilled in works] == [4096 - 1024, 4096 - 2048]
