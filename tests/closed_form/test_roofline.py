"""Measured roofs against the numbers that the machine was given, and against causes switched on one at a time."""

from __future__ import annotations

import math

import pytest

from accelsim.analysis.measure import Measurement, measure
from accelsim.hardware.accelerator import Accelerator
from accelsim.library import list_accelerators, load_accelerator

SMALL = ("buffers.global.capacity=64 KiB",)


def measured(found: Measurement, level: str, unit: str) -> dict[str, float]:
    return {roof.of: roof.value for roof in found.roofs if (roof.level, roof.unit) == (level, unit)}


def check(accelerator: Accelerator, found: Measurement) -> None:
    """All roofs within 1 %; the energies exactly, for each access is counted."""
    dram, buffer = accelerator.dram, accelerator.buffers["global"]
    within = {"rel": 0.01}
    assert measured(found, "array", "op/cycle") == pytest.approx({"MACs": 2 * accelerator.macs_per_cycle}, **within)
    vector = float(accelerator.vector_ops_per_cycle)
    assert measured(found, "vector_unit", "op/cycle") == pytest.approx({"vector operations": vector}, **within)
    rate = float(dram.bytes_per_cycle)
    rates = dict.fromkeys(("reads", "writes", "reads and writes"), rate)
    assert measured(found, "dram", "B/cycle") == pytest.approx(rates, **within)
    energies = {"reads": dram.read_pj_per_byte, "writes": dram.write_pj_per_byte}
    assert measured(found, "dram", "pJ/B") == pytest.approx(energies, **within)  # a byte a chunk goes the other way
    assert measured(found, "vector_unit", "op/pJ") == pytest.approx(
        {"vector operations": 1 / accelerator.vector_unit.pj_per_operation}, rel=1e-12
    )
    if buffer.read_bytes_per_cycle is not None:
        port = {"reads": float(buffer.read_bytes_per_cycle)}
        assert measured(found, "buffer.global", "B/cycle") == pytest.approx(port, **within)
        assert measured(found, "buffer.global", "pJ/B") == pytest.approx({"reads": buffer.read_pj_per_byte}, rel=1e-9)
    for point in found.knee:
        assert point.ops_per_cycle <= min(2 * accelerator.macs_per_cycle, rate * point.intensity) * (1 + 1e-3)


# a100 has 432 arrays, which no product of K1 is long enough to fill: its roofs are those of its datasheet.
@pytest.mark.parametrize("name", [name for name in list_accelerators() if name != "a100"])
def test_measured_roofs_are_the_configured_ones(name: str) -> None:
    accelerator = load_accelerator(name)
    check(accelerator, measure(accelerator))


@pytest.mark.parametrize(
    "overrides",
    [
        ("dram.bandwidth=3.7 B/cycle", "vector_unit.throughput=13 op/cycle", "dram.write_energy=1 pJ/B"),
        ("pe_array.rows=12", "pe_array.columns=14"),
        ("dram.latency=100 cycles", "dram.arbitration=round_robin", "dram.grant=256 B"),
        ("buffers.global.read_bandwidth=64 B/cycle",),  # as much as the array can take
    ],
)
def test_measured_roofs_follow_the_template(overrides: tuple[str, ...]) -> None:
    accelerator = load_accelerator("scalesim_32x32", overrides)
    check(accelerator, measure(accelerator))


def test_a_port_that_cannot_feed_the_array_lowers_its_roof() -> None:
    """Each step of a fold reads 32 inputs and 32 weights for 1024 MACs: at 20 B/cycle 320 MACs a cycle."""
    found = measure(load_accelerator("scalesim_32x32", ("buffers.global.read_bandwidth=20 B/cycle",)))
    assert measured(found, "array", "op/cycle") == pytest.approx({"MACs": 640.0}, rel=1e-4)
    assert measured(found, "buffer.global", "B/cycle") == pytest.approx({"reads": 20.0}, rel=1e-3)


def test_mac_energy_is_measured_exactly() -> None:
    found = measure(load_accelerator("soma_edge", ("pe_array.mac_energy=0.25 pJ",)))
    assert measured(found, "array", "op/pJ") == pytest.approx({"MACs": 8.0}, rel=1e-12)


def test_latency_that_double_buffering_does_not_cover_lowers_the_roof() -> None:
    """Reads: chunk t + 1 may start once chunk t - 1 has arrived. So two chunks take as long as one and the latency.

    With 8 KiB chunks at 16 B/cycle (512 cycles) and 4096 cycles of latency: 16384 bytes in 512 + 4096 + 1 cycles, the
    one for the tile between them.
    """
    accelerator = load_accelerator("scalesim_32x32", (*SMALL, "dram.bandwidth=16 B/cycle", "dram.latency=4096 cycles"))
    found = measured(measure(accelerator), "dram", "B/cycle")["reads"]
    assert found == pytest.approx(16384 / (512 + 4096 + 1), rel=1e-3)


def test_without_latency_the_knee_is_hard_and_with_a_long_one_it_is_not() -> None:
    quick = measure(load_accelerator("gemmini_16x16"))
    slow = measure(load_accelerator("gemmini_16x16", ("dram.latency=20000 cycles",)))
    assert quick.overlap_exponent > slow.overlap_exponent
    assert 1.0 <= slow.overlap_exponent < math.inf


@pytest.mark.parametrize("overrides", [("buffers.global.capacity=1 B",), ("dram.bandwidth=1000000 B/cycle",)])
def test_kernels_that_do_not_fit_or_take_no_time_are_left_out(overrides: tuple[str, ...]) -> None:
    found = measure(load_accelerator("scalesim_32x32", overrides))
    assert measured(found, "array", "op/cycle") == pytest.approx({"MACs": 2048.0}, rel=0.01)
    assert all(math.isfinite(roof.value) and roof.value > 0 for roof in found.roofs)
