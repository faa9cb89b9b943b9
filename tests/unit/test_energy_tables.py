"""Energies by process node: the published figures, the laws between them, and mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelsim.analysis.measure import measure
from accelsim.analysis.roofs import Limits
from accelsim.errors import TemplateError
from accelsim.hardware.energy_table import energy_table
from accelsim.hardware.template import parse_template
from accelsim.library import list_energy_tables, load_accelerator

KIB, MIB = 1 << 10, 1 << 20


@pytest.mark.parametrize(
    ("table", "capacity_bytes", "word_bytes", "pj_per_byte"),
    [
        ("cmos_45nm", 8 * KIB, 8, 10 / 8),  # Horowitz, ISSCC 2014: 10 pJ for 64 bit
        ("cmos_45nm", 1 * MIB, 8, 100 / 8),
        ("cmos_45nm", 16 * KIB, 8, 10 / 8 * 2**0.5),  # half way from 10 to 20 pJ
        ("cmos_45nm", 2 * KIB, 8, 5 / 8),  # half for a quarter of the size, as from 32 to 8 KiB
        ("cmos_45nm", 1 * MIB, 64, 100 / 8),  # no wider words are known
        ("cmos_7nm", 32 * KIB, 8, 8.5 / 8),  # Jouppi et al., ISCA 2021
        ("cmos_28nm", 1 * MIB, 8, 33.3 / 8),
        ("cmos_28nm", 1 * MIB, 32, 91.1 / 32),
        ("cmos_28nm", 1 * MIB, 16, (33.3 / 8 * 91.1 / 32) ** 0.5),
    ],
)
def test_reads(table: str, capacity_bytes: int, word_bytes: int, pj_per_byte: float) -> None:
    found = energy_table(table).read_pj_per_byte(capacity_bytes, word_bytes)
    assert found.pj == pytest.approx(pj_per_byte, rel=1e-12)
    assert found.least_pj <= found.pj <= found.most_pj


@pytest.mark.parametrize("table", list(list_energy_tables()))
def test_a_table_prices_what_it_gives_and_nothing_else(table: str) -> None:
    plain = load_accelerator("soma_edge")
    priced = load_accelerator("soma_edge", [f"energy.table={table}"])
    found, number = energy_table(table), energy_table(table).numbers["int8"]
    assert Limits.of(priced).mac_pj == pytest.approx(float(number.mac.energy))
    assert priced.vector_unit.pj_per_operation == pytest.approx(float(number.vector.energy))
    for name, buffer in priced.buffers.items():
        expected = found.read_pj_per_byte(plain.buffers[name].capacity_bytes, 8).pj
        assert buffer.read_pj_per_byte == pytest.approx(expected, abs=1e-9)
        assert buffer.write_pj_per_byte == pytest.approx(expected * found.sram.write_factor, abs=1e-9)
    assert (priced.dram, priced.static_pj_per_cycle) == (plain.dram, plain.static_pj_per_cycle)
    assert set(priced.energy_bands) == {"mac", "vector", *(f"buffer.{name}" for name in plain.buffers)}
    assert not plain.energy_bands and plain.digest != priced.digest
    assert parse_template(priced.source).digest == priced.digest


def test_tpu_v3_was_written_from_horowitz() -> None:
    """Its template states by hand what the table of 45 nm says: 2 pJ a MAC, 45.3 pJ a byte of 16 MiB."""
    by_hand, by_table = (
        load_accelerator("tpu_v3", settings) for settings in ([], ["energy.table=cmos_45nm", "energy.number=fp16"])
    )
    assert by_table.buffers["global"].read_pj_per_byte == pytest.approx(
        by_hand.buffers["global"].read_pj_per_byte, rel=1e-3
    )
    assert Limits.of(by_table).mac_pj == Limits.of(by_hand).mac_pj == 2.0


def test_a_larger_buffer_costs_more_a_byte() -> None:
    small, large = (
        load_accelerator("soma_edge", ["energy.table=cmos_28nm", f"buffers.global.capacity={size}"])
        for size in ("1 MiB", "4 MiB")
    )
    ratio = large.buffers["global"].read_pj_per_byte / small.buffers["global"].read_pj_per_byte
    assert ratio == pytest.approx(71.7 / 33.3, rel=1e-6)


def test_banks_are_priced_one_by_one() -> None:
    ports = [f"buffers.global.ports.{text}" for text in ("width=32 B", "banks=16")]
    machine = load_accelerator("scalesim_32x32", ["energy.table=cmos_28nm", "buffers.global.capacity=16 MiB", *ports])
    assert machine.buffers["global"].read_pj_per_byte == pytest.approx(91.1 / 32, abs=1e-9)


def test_the_band_widens_the_roof_of_energy() -> None:
    machine = load_accelerator("soma_edge", ["energy.table=cmos_45nm"])  # int8 MAC: a quarter to one and a half
    doubts = {(roof.level, roof.unit): roof.uncertainty for roof in measure(machine).roofs if roof.uncertainty}
    assert doubts["array", "op/pJ"].constants == pytest.approx((1 / 1.5 - 1, 4 - 1))
    assert doubts["array", "op/pJ"].band[0] <= 1 / 1.5 - 1 and doubts["array", "op/pJ"].band[1] >= 3
    assert doubts["array", "op/cycle"].constants is None
    assert doubts["dram", "pJ/B"].constants is None


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["energy.table=cmos_29nm"], "did you mean 'cmos_28nm'"),
        (["energy.table=cmos_28nm", "energy.number=int7"], "has int8, fp16, fp32"),
        (["energy.table=cmos_28nm", "pe_array.mac_energy=1 pJ"], "gives it already"),
        (["energy.table=cmos_28nm", "buffers.global.capacity=much"], "buffers.global.capacity"),
        (["energy.number=int8"], "energy.table: missing"),
    ],
)
def test_mistakes(settings: list[str], told: str) -> None:
    with pytest.raises(TemplateError, match=told):
        load_accelerator("soma_edge", settings)


def test_in_memory_arrays_have_no_table() -> None:
    with pytest.raises(TemplateError, match="in_memory"):
        load_accelerator("imc_generic", ["energy.table=cmos_28nm"])


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("band: [0.25, 1.5]", "band: [1.25, 1.5]", "numbers.int8.mac.band"),
        ("band: [0.25, 1.5]", "band: [0.25]", "numbers.int8.mac.band"),
        ("energy: 0.3 pJ", "energy: 0.3 W", "numbers.int8.mac.energy"),
        ("write_factor: 1.0", "write_factor: -1", "sram.write_factor"),
        ("8 KiB: {energy: 10 pJ", "8 KiB: {energy: 0 pJ", "must be above 0"),
        ("node: 45 nm", "node: small", "node"),
    ],
)
def test_mistakes_of_a_table(old: str, new: str, told: str, tmp_path: Path) -> None:
    text = Path(__file__).parents[2].joinpath("hw_templates/energy/cmos_45nm.yaml").read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "own.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(TemplateError, match=told) as caught:
        load_accelerator("soma_edge", [f"energy.table={path}"])
    assert "own.yaml:" in str(caught.value)
    path.write_text(text, encoding="utf-8")
    assert load_accelerator("soma_edge", [f"energy.table={path}"]).energy_bands["mac"] == (0.25, 1.5)
