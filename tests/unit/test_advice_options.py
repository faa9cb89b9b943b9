"""What advice may change: voltage, layout, the treatment of zeros, bits; and what it is ranked by."""

from __future__ import annotations

import numpy as np
import pytest

import accelsim
from accelsim.analysis.advise import advise
from accelsim.analysis.options import Change, changes, with_fewer_bits
from accelsim.analysis.predict import work_left
from accelsim.analysis.roofs import Limits
from accelsim.sparsity import Pattern, Sparsity
from accelsim.timeline.provenance import with_provenance
from accelsim.workload.models.micro import matmul_chain
from accelsim.workload.sparse import with_sparsity

SMALL = matmul_chain(rows=64, depth=512, columns=96)
HALF_ZERO = with_sparsity(SMALL, Sparsity(1, 2))


def run(workload: accelsim.Workload, machine: accelsim.Accelerator) -> accelsim.Timeline:
    schedule = accelsim.Layerwise().search(workload, machine).schedule
    timeline = accelsim.simulate(accelsim.lower(workload, machine, schedule))
    return with_provenance(timeline, scheduler="layerwise", hardware_template=machine.source)


def offered(workload: accelsim.Workload, machine: accelsim.Accelerator) -> dict[str, list[Change]]:
    found: dict[str, list[Change]] = {}
    for change in changes(run(workload, machine), machine, workload):
        found.setdefault(change.kind, []).append(change)
    return found


def test_a_lower_voltage_switches_for_less_and_leaves_dram_as_it_is() -> None:
    machine = accelsim.load_accelerator("soma_edge")
    (lower,) = offered(SMALL, machine)["voltage"]
    assert lower.accelerator.clock_hz == 0.8 * machine.clock_hz
    assert Limits.of(lower.accelerator).mac_pj == pytest.approx(0.64 * Limits.of(machine).mac_pj, rel=1e-12)
    for name, buffer in machine.buffers.items():
        assert lower.accelerator.buffers[name].write_pj_per_byte == pytest.approx(0.64 * buffer.write_pj_per_byte)
    assert lower.accelerator.dram.read_pj_per_byte == machine.dram.read_pj_per_byte
    seconds = [one.dram.bytes_per_cycle * one.clock_hz for one in (machine, lower.accelerator)]
    assert seconds[0] == seconds[1]  # 16 GB/s
    assert "voltage" not in offered(SMALL, accelsim.load_accelerator("soma_edge", ["energy.table=cmos_28nm"]))


def test_layouts_of_described_ports() -> None:
    assert "layout" not in offered(SMALL, accelsim.load_accelerator("scalesim_32x32"))
    machine = accelsim.load_accelerator("scalesim_32x32", ["buffers.global.ports.width=16 B"])
    assert [change.text for change in offered(SMALL, machine)["layout"]] == [
        "buffers.global.ports.layout.inputs=positions",
        "buffers.global.ports.layout.weights=terms",
        "buffers.global.ports.layout.outputs=positions",
    ]


def test_layouts_that_are_in_force_are_not_offered() -> None:
    """The direct convolution engine reads weights along their terms unless told otherwise."""
    machine = accelsim.load_accelerator("nvdla_small", ["buffers.global.ports.width=16 B"])
    found = [change.text for change in offered(SMALL, machine)["layout"]]
    assert "buffers.global.ports.layout.weights=filters" in found
    assert "buffers.global.ports.layout.weights=terms" not in found


@pytest.mark.parametrize(
    ("now", "more"),
    [("none", ["weights=skip", "weights=gate"]), ("gate", ["weights=skip"]), ("skip", [])],
)
def test_zeros_that_are_known_of(now: str, more: list[str]) -> None:
    machine = accelsim.load_accelerator("soma_edge", [f"pe_array.sparsity.weights={now}"])
    found = [change.text for change in offered(HALF_ZERO, machine).get("sparsity", [])]
    assert found == [f"pe_array.sparsity.{one}" for one in more]
    assert "sparsity" not in offered(SMALL, machine)


@pytest.mark.parametrize(("mode", "left"), [("skip", [0.5, 0.5]), ("gate", [1.0, 0.5])])
def test_what_is_left_where_half_is_zero(mode: str, left: list[float]) -> None:
    """Skipping halves the 512 terms of each sum, and the energy; gating keeps the terms, half of them for nothing."""
    machine = accelsim.load_accelerator("soma_edge")
    two_of_four = with_sparsity(SMALL, Sparsity(2, 4, Pattern.STRUCTURED))
    changed = accelsim.load_accelerator("soma_edge", [f"pe_array.sparsity.weights={mode}"])
    share = work_left(two_of_four, run(two_of_four, machine).program, machine, changed)
    np.testing.assert_allclose(share, [left, left], rtol=1e-12)


def test_bits_are_halved_where_products_are_and_sums_stay() -> None:
    floats = matmul_chain(rows=64, depth=512, columns=96, bits=32)
    assert [change.text for change in offered(floats, accelsim.load_accelerator("soma_edge"))["precision"]] == [
        "--bits 16"
    ]
    assert with_fewer_bits(floats, 0.5).product_bits == 16
    tokens = accelsim.load_workload("gpt2_small_decode")
    narrow = with_fewer_bits(tokens, 0.5)
    before, after = ({tensor.name: tensor.bits for tensor in one.inputs} for one in (tokens, narrow))
    assert {name: bits for name, bits in after.items() if before[name] > 8} == {
        name: bits for name, bits in before.items() if bits > 8
    }


def test_ranked_by_what_pays() -> None:
    machine = accelsim.load_accelerator("soma_edge")
    timeline = run(HALF_ZERO, machine)
    by_time, by_energy = (
        advise(timeline, HALF_ZERO, machine, top=100, time_limit_seconds=0.2, payoff=payoff)
        for payoff in ("time", "energy")
    )
    assert {option.change for option in by_time.options} == {option.change for option in by_energy.options}
    speed = [option.simulated.speedup for option in by_time.options]
    energy = [option.simulated.energy_ratio for option in by_energy.options]
    assert speed == sorted(speed, reverse=True) and energy == sorted(energy)
    assert "Not worth it for energy" in str(by_energy)
