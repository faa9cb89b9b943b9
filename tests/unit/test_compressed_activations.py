"""Activations that are stored without their zeros: bytes by hand, in fused groups too; what may not be packed."""

from __future__ import annotations

import pytest

import accelsim
from accelsim.errors import WorkloadError
from accelsim.program.tables import ActivityKind
from accelsim.schedule.notation import Schedule
from accelsim.search.bounds import least_latency_cycles
from accelsim.sparsity import Sparsity, Storage, parse_sparsity
from accelsim.workload.models.micro import matmul_chain
from accelsim.workload.sparse import with_sparsity
from accelsim.workload.tensor import Tensor

HALF = Sparsity(1, 2, storage=Storage.BITMAP)
"""Four bits of values and one of the bitmap for each element of eight."""
CHAIN = matmul_chain(rows=64, depth=96, columns=96, operators=3)
ELEMENTS = 64 * 96
EACH = Schedule("chain", ("matmul1", "matmul2", "matmul3"), (1, 2), (1, 2), (1, 1, 1))
FUSED = Schedule("chain", ("matmul1", "matmul2", "matmul3"), (), (), (4,))


def transfers(workload: accelsim.Workload, schedule: Schedule) -> list[tuple[str, int]]:
    machine = accelsim.load_accelerator("soma_edge")
    program = accelsim.lower(workload, machine, schedule)
    rows = program.activities
    return sorted(
        (program.tensor_names[tensor], size)
        for kind, tensor, tile, size in zip(rows.kind, rows.tensor, rows.tile, rows.bytes.tolist(), strict=True)
        if kind != ActivityKind.TILE and not (kind == ActivityKind.LOAD and tile < 0)
    )


def test_bytes_of_every_transfer() -> None:
    """The input and both results between are five eighths; the last result, which nobody multiplies, is whole."""
    dense, packed = (transfers(one, EACH) for one in (CHAIN, with_sparsity(CHAIN, inputs=HALF)))
    assert {size for _, size in dense} == {ELEMENTS}
    assert sorted(size for _, size in packed) == [ELEMENTS * 5 // 8] * 5 + [ELEMENTS]
    assert [name for name, _ in packed] == [name for name, _ in dense]


def test_a_fused_group_keeps_its_results_packed() -> None:
    """Of each, four tiles; the input and the two results that stay on chip take five eighths of a quarter each."""
    machine, quarter, weights = accelsim.load_accelerator("soma_edge"), ELEMENTS // 4, 96 * 96
    for workload, inner in ((CHAIN, quarter), (with_sparsity(CHAIN, inputs=HALF), quarter * 5 // 8)):
        claims = accelsim.lower(workload, machine, FUSED).claims.bytes.tolist()
        assert sorted(claims) == sorted([weights] * 3 + [inner] * 12 + [quarter] * 4)


@pytest.mark.parametrize("storage", ["bitmap", "run_length", "coordinate"])
def test_density_one_costs_its_metadata(storage: str) -> None:
    metadata = {"bitmap": 1, "run_length": 4, "coordinate": 8}[storage]
    whole = with_sparsity(CHAIN, inputs=Sparsity(1, 1, storage=Storage(storage)))
    assert max(size for _, size in transfers(whole, EACH)) == ELEMENTS * (8 + metadata) // 8


@pytest.mark.parametrize("text", ["0.5/bitmap", "0.03/run_length", "0.3/coordinate", "2:4/index", "1:7/bitmap"])
@pytest.mark.parametrize("elements", [1, 7, 100, 4097])
def test_no_block_takes_fewer_bits_than_the_bound_counts(text: str, elements: int) -> None:
    tensor = Tensor("x", (elements,), 8, parse_sparsity(text))
    assert 8 * tensor.sample_bytes >= tensor.least_bits * elements


def test_no_schedule_beats_the_bound() -> None:
    workload = with_sparsity(accelsim.load_workload("mobilenet_v2"), inputs=HALF)
    machine = accelsim.load_accelerator("soma_edge")
    result = accelsim.Interleave(runs=1, fusion_rounds=1.0).search(workload, machine)
    timeline = accelsim.simulate(accelsim.lower(workload, machine, result.schedule))
    assert timeline.latency_cycles == result.latency_cycles >= least_latency_cycles(workload, machine)


def test_networks_that_count_elements_are_refused() -> None:
    with pytest.raises(WorkloadError, match="counts bytes as SoMa does"):
        accelsim.load_workload("soma.resnet50", input_sparsity="0.5/bitmap")
    assert accelsim.load_workload("soma.resnet50", input_sparsity="0.5").macs
