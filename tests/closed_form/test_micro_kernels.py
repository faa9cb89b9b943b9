"""Kernels K4 to K11, closure of energy, and kept measurements, against what the templates say."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from accelsim.analysis import roofs_file
from accelsim.analysis.closure import closure
from accelsim.analysis.measure import KneePoint, causes, joint_fit, measure
from accelsim.analysis.micro_kernels import Finding, bubble_power, micro_findings, overlap
from accelsim.analysis.roofs import Roof
from accelsim.hardware.accelerator import Accelerator
from accelsim.library import load_accelerator
from accelsim.workload.models.micro import strided


def at(found: tuple[Finding, ...], kernel: str, name: str = "") -> dict[float, float]:
    return {one.at: one.value for one in found if one.kernel == kernel and name in one.name}


def test_findings_are_what_the_template_says() -> None:
    machine = load_accelerator("scalesim_32x32", ("dram.latency=40 cycles", "static_power=0.5 W", "clock=500 MHz"))
    found = micro_findings(machine)
    assert at(found, "K6") == {64: 40}
    assert at(found, "K10") == {0: pytest.approx(1000)}  # 0.5 W for 2 ns
    # 2 T T D operations on 2 T D + T T bytes, D = 4096.
    intensities = {side: 2 * side / (2 + side / 4096) for side in (16, 32, 64, 128, 256, 512, 1024)}
    assert at(found, "K7", "intensity") == pytest.approx(intensities, rel=1e-12)
    # M rows of a 32 x 32 array that holds its results: 32 column folds of ceil(M / 32) row folds, 2 R + C + K - 2 each.
    shares = {
        rows: rows * 1024 * 32 / (math.ceil(rows / 32) * 32 * (1024 + 94) * 1024) * 32 for rows in (1, 32, 64, 512)
    }
    k8 = at(found, "K8")
    assert {rows: k8[rows] for rows in shares} == pytest.approx(shares, rel=1e-12)
    # One column more than a fold takes a fold more.
    k11 = at(found, "K11")
    assert k11[65] / k11[64] == pytest.approx(65 / 64 * 2 / 3, rel=1e-12)


def test_strides_slow_nothing_down_where_there_are_no_banks() -> None:
    found = at(micro_findings(load_accelerator("soma_edge")), "K4")
    assert found == pytest.approx({1: 1.0, 2: 1.0, 4: 1.0, 8: 1.0}, rel=1e-3)
    assert strided(side=9, stride=4).operators[0].output.shape == (64, 3, 3)


@pytest.mark.parametrize("name", ["soma_edge", "gemmini_16x16"])
def test_single_buffering_adds_up_and_double_buffering_overlaps(name: str) -> None:
    """One buffer: a load waits for the tile before it, so times add up, p = 1. Two: only the slower one counts."""
    machine = load_accelerator(name)
    single, double, triple = (overlap(machine, buffers) for buffers in (1, 2, 3))
    assert single is not None
    assert double is not None
    assert triple is not None
    assert single.value == pytest.approx(1, abs=1e-6)
    assert double.value == triple.value == math.inf
    assert single.note.startswith("single buffering: 5")  # at the knee about half of the roof
    assert double.note == "double buffering: 100 % of the roof at the knee"


def test_the_joint_fit_finds_what_was_put_in() -> None:
    """P = 1024, B = 64 and p = 6: the fit returns all three from points without noise."""
    for exponent in (1.0, 2.0, 6.0, math.inf):
        knee = []
        for intensity in (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0):
            if exponent == math.inf:
                rate = min(1024.0, 64 * intensity)
            else:
                rate = (1024.0**-exponent + (64 * intensity) ** -exponent) ** (-1 / exponent)
            knee.append(KneePoint(intensity, rate, 0.0, 0.0))
        fit = joint_fit(tuple(knee))
        assert fit is not None
        assert fit == pytest.approx((1024, 64, exponent, 0), rel=1e-6, abs=1e-9)


BANKS = ("dram.fidelity=banks", "buffers.global.capacity=256 KiB")
MACHINES = [
    ("tpu_v1", ()),
    ("scalesim_32x32", ("static_power=0.25 W", "dram.write_energy=100 pJ/B")),
    ("eyeriss", ()),
    ("soma_edge", ()),
    ("soma_edge", BANKS),
]


@pytest.mark.parametrize(("name", "overrides"), MACHINES)
def test_energy_closes_or_is_refused(name: str, overrides: tuple[str, ...]) -> None:
    found = closure(load_accelerator(name, overrides))
    assert found.closes
    assert found.residual < 1e-9
    regressed = {constant.name for constant in found.constants}
    assert {"dram.read", "dram.write", "vector"} <= regressed
    for constant in found.constants:
        assert constant.regressed == pytest.approx(constant.stated, rel=0.01, abs=1e-6)
    for refusal in found.refusals:
        assert found.condition > 30
        assert "K" in refusal.reason
    assert bool(found.refusals) == (found.condition > 30)


def test_constants_of_a_plain_machine_are_all_told_apart() -> None:
    found = closure(load_accelerator("scalesim_32x32", ("static_power=0.25 W",)))
    stated = {"mac": 0.3, "vector": 0.1, "buffer.global.read": 5.7, "buffer.global.write": 5.7}
    stated |= {"dram.read": 162.5, "dram.write": 162.5, "static": 250.0}
    assert {one.name: one.regressed for one in found.constants} == pytest.approx(stated, rel=1e-6)


def test_a_missing_kernel_is_named() -> None:
    found = closure(load_accelerator("scalesim_32x32"), without=("K2",))
    refused = " ".join(refusal.reason for refusal in found.refusals)
    assert "K2" in refused
    assert found.closes


def test_a_dram_with_banks_lies_below_its_pins_because_of_refresh_and_banks() -> None:
    machine = load_accelerator("soma_edge", BANKS)
    (roof,) = causes(machine, (Roof("dram", "measured", "B/cycle", 14.0, "reads", "K2"),))
    assert "refresh (" in roof.cause
    assert "banks, rows and turnarounds (" in roof.cause
    (fine,) = causes(machine, (Roof("dram", "measured", "B/cycle", 15.9, "reads", "K2"),))
    assert fine.cause == ""


def test_banks_of_a_buffer_that_conflict_are_named() -> None:
    ports = ("buffers.global.ports.width=16 B", "buffers.global.ports.banks=4")
    found = measure(load_accelerator("scalesim_32x32", ports))
    (array,) = (roof for roof in found.roofs if (roof.level, roof.unit) == ("array", "op/cycle"))
    assert array.value < 0.5 * 2048
    assert array.cause.startswith("banks of the global buffer (2,048 without)")


def test_the_power_of_a_bubble_is_the_static_one() -> None:
    assert bubble_power(load_accelerator("tpu_v1"), cycles=100) == pytest.approx(40_000, rel=1e-9)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(roofs_file, "cache_folder", lambda: tmp_path)
    return tmp_path


def quick(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Measurements that take no time and are counted."""
    measured: list[str] = []

    def measure(machine: Accelerator) -> object:
        measured.append(machine.digest)
        from accelsim.analysis.measure import Fit, Measurement

        roof = Roof("dram", "measured", "B/cycle", float(machine.dram.bytes_per_cycle), "reads", "K2")
        return Measurement((roof,), (KneePoint(1.0, 2.0, 0.5, 0.5),), Fit(1.0, 2.0, math.inf, 0.0))

    monkeypatch.setattr(roofs_file, "measure", measure)
    monkeypatch.setattr(roofs_file, "micro_findings", lambda _: (Finding("K9", "overlap exponent", math.inf, "", 2),))
    return measured


def test_a_machine_is_measured_once_and_each_change_anew(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = quick(monkeypatch)
    machine, faster = (
        load_accelerator("scalesim_32x32"),
        load_accelerator("scalesim_32x32", ("dram.bandwidth=99 B/cycle",)),
    )
    first, second = roofs_file.measured_roofs(machine), roofs_file.measured_roofs(machine)
    assert measured == [machine.digest]
    assert first.to_dict() == second.to_dict()
    assert first.measurement == second.measurement
    assert first.findings == second.findings
    assert roofs_file.measured_roofs(faster).measurement.roofs[0].value == 99
    assert measured == [machine.digest, faster.digest]
    roofs_file.measured_roofs(machine, keep=False)
    assert len(measured) == 3
    assert len(list(kept.iterdir())) == 2


def test_kept_measurements_of_other_sources_or_broken_files_are_not_used(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = quick(monkeypatch)
    machine = load_accelerator("scalesim_32x32")
    roofs_file.measured_roofs(machine)
    (path,) = kept.iterdir()
    for broken in (
        "",
        "{",
        json.dumps({**json.loads(path.read_text()), "hardware_digest": "0"}),
        "[]",
        '{"schema": 1}',
    ):
        path.write_text(broken)
        roofs_file.measured_roofs(machine)
    assert len(measured) == 6
    monkeypatch.setattr(roofs_file, "sources_digest", lambda: "other sources")
    roofs_file.measured_roofs(machine)
    assert len(measured) == 7


def test_roofs_json_says_where_it_comes_from(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    machine = load_accelerator("scalesim_32x32")
    found = roofs_file.measured_roofs(machine)
    found.save(tmp_path / "one.json")
    found.save(tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    content = json.loads((tmp_path / "one.json").read_text())
    assert content["hardware_digest"] == machine.digest
    assert content["conventions"]["sparsity"] == "dense"
    assert set(content["versions"]) == {"accelsim", "sources", "python", "numpy"}
    assert content["template"] == machine.source
    assert content["findings"][0]["value"] is None  # infinite
