"""Forms of roofs, ceilings and trajectories against arithmetic; the pictures of them."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.analysis.ceilings import ceilings
from accelsim.analysis.energy import energy_pj
from accelsim.analysis.ledger import ledger
from accelsim.analysis.roof_forms import (
    efficiency_at_ridge,
    energy_balance,
    energy_roof,
    performance_roof,
    power_cap_roof,
    ridge,
)
from accelsim.analysis.roofline import roofline_points
from accelsim.analysis.roofline_detail import fused_groups, tile_points
from accelsim.analysis.trajectory import trajectory
from accelsim.engine import simulate
from accelsim.errors import InputError
from accelsim.library import load_accelerator
from accelsim.plot.roofline import roofline
from accelsim.program.lower import lower
from accelsim.schedule.notation import Schedule
from accelsim.sparsity import Pattern, Sparsity
from accelsim.workload.models.micro import matmul_chain
from accelsim.workload.sparse import with_sparsity
from tests.smoke.command import in_this_process
from tests.strategies.programs import legal_programs
from tests.timelines import worked_example
from tests.unit.test_roofline import example_machine

AT = np.array([1.0, 16.0, 256.0])


def test_a_hard_corner_and_rounded_ones() -> None:
    """P = 1024, B = 64, ridge 16: at equal limits 2^(-1/p) of the roof is left."""
    assert performance_roof(AT, 1024, 64).tolist() == [64, 1024, 1024]
    for exponent, left in ((1.0, 0.5), (2.0, 2**-0.5), (6.0, 2 ** (-1 / 6))):
        rounded = performance_roof(AT, 1024, 64, exponent)
        assert rounded[1] == pytest.approx(1024 * left, rel=1e-12)
        assert rounded[0] == pytest.approx(64 / (1 + 16**-exponent) ** (1 / exponent), rel=1e-12)
    assert performance_roof(AT, 1024, 64, 300.0) == pytest.approx([64, 1024 * 2 ** (-1 / 300), 1024], rel=1e-9)


def test_energy_has_no_corner_and_balances() -> None:
    """e_op = 2, e_byte = 60: half of the best efficiency at 30 op/B; at a ridge of 16 16 / 46 of it."""
    assert energy_roof(np.array([30.0]), 2, 60)[0] == pytest.approx(0.25, rel=1e-12)
    assert energy_balance(2, 60) == 30
    assert ridge(1024, 64) == 16
    assert efficiency_at_ridge(16, 30) == pytest.approx(16 / 46, rel=1e-12)
    # 128 pJ a cycle: at the ridge a cycle does 1024 operations, left of it fewer.
    with_static = energy_roof(AT, 2, 60, 128, 1024, 64)
    assert with_static == pytest.approx(
        [1 / (2 + 60 + 2), 1 / (2 + 60 / 16 + 0.125), 1 / (2 + 60 / 256 + 0.125)], rel=1e-12
    )


def test_a_power_cap_is_a_third_limb() -> None:
    """1,000 pJ a cycle, 100 of them static: 900 / (2 + 60 / I) operations a cycle."""
    assert power_cap_roof(AT, 2, 60, 1000, 100) == pytest.approx(
        [900 / 62, 900 / 5.75, 900 / (2 + 60 / 256)], rel=1e-12
    )
    assert power_cap_roof(AT, 2, 60, 50, 100).tolist() == [0, 0, 0]


def test_balance_of_the_example_machine() -> None:
    """200 op/cycle over 16 B/cycle; 0.5 pJ/B over 1/4096 pJ an operation; watts at 1 GHz."""
    balance = roofline(example_machine()).balance
    assert balance["ridge"] == 12.5
    assert balance["energy_balance"] == 2048
    assert balance["balance_gap"] == pytest.approx(2048 / 12.5)
    assert balance["watts_at_ridge"] == pytest.approx((100 / 2048 + 8) * 1e-3, rel=1e-9)


def test_ceilings_come_from_the_ledger() -> None:
    machine, timeline = example_machine(), worked_example()
    found = ceilings(machine, ledger(timeline, machine), roofline_points(machine, timeline))
    # 90 useful cycles and 20 of idle lanes: 90 / 110 of 200 operations a cycle.
    assert [(one.name, one.ops_per_cycle) for one in found] == [("spatial use", pytest.approx(200 * 90 / 110))]


def test_groups_and_tiles_of_the_worked_example() -> None:
    """A and B alternate (A1, B1, A2, B2): a group; C is alone. A1 has one transfer of its own, of 160 bytes."""
    timeline = worked_example()
    position = np.array([0, 1, 2, 3, 4, -1, -1, -1, -1, -1, -1])
    program = dataclasses.replace(timeline.program, activities=timeline.program.activities._replace(position=position))
    timeline = dataclasses.replace(timeline, program=program)
    found = roofline(example_machine()).add(timeline, detail="tiles").runs[0].points
    points = {point.name: point for point in found if point.level == "dram"}
    assert list(points)[4:] == ["A … B (2 operators)", "A[0]", "B[0]", "A[1]", "B[1]", "C[0]"]
    group, a, b = points["A … B (2 operators)"], points["A"], points["B"]
    assert (group.operations, group.bytes, group.cycles) == (10000 + 140, 640 + 160, 130)
    assert group.energy_pj == a.energy_pj + b.energy_pj
    first = points["A[0]"]
    assert (first.macs, first.bytes, first.cycles, first.cycles_attributed) == (3000, 160, 30, 30)
    assert first.energy_pj == pytest.approx(1.5 + 80 + 15)
    assert points["C[0]"].bytes == 320  # its store; the weights serve all tiles
    assert fused_groups(timeline.program) == [["A", "B"]]


def test_trajectory_of_the_worked_example() -> None:
    """Two halves of 115 cycles: the link moves 20 + 10 + 10 + 10 + 5 cycles of 16 bytes in the first one."""
    machine, timeline = example_machine(), worked_example()
    path = trajectory(machine, timeline, 2)
    assert path.bytes == pytest.approx([16 * 55, 2080 - 16 * 55], rel=1e-9)
    # A1, B1, A2 are done, and a sixth of B2 (110 to 130).
    first = 2 * 3000 + 70 + 2 * 3000 + 70 / 4
    assert path.operations == pytest.approx([first, 2 * 10000 + 140 - first], rel=1e-9)
    assert float(path.energy_pj.sum()) == pytest.approx(5.5 + 1040 + 115, rel=1e-9)
    assert path.memory_utilization == pytest.approx([55 / 115, 75 / 115], rel=1e-9)


@settings(max_examples=40)
@given(program=legal_programs(), windows=st.integers(1, 30))
def test_windows_together_are_the_run(program: object, windows: int) -> None:
    timeline = simulate(program)
    path = trajectory(example_machine(), timeline, windows)
    assert math.isclose(float(path.bytes.sum()), int(timeline.events.bytes.sum()), rel_tol=1e-9, abs_tol=1e-6)
    assert math.isclose(float(path.energy_pj.sum()), energy_pj(timeline), rel_tol=1e-9, abs_tol=1e-6)
    assert path.operations.shape == (windows,)


def test_pictures_of_forms_and_paths(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="install the extra 'plots' to draw pictures")
    found = roofline(example_machine(), form="smooth", power_cap_watts=0.01).add(worked_example(), windows=7)
    for name, over_time in (("map.png", False), ("path.png", True), ("again.png", True)):
        found.save(tmp_path / name, over_time=over_time)
    assert (tmp_path / "path.png").read_bytes() == (tmp_path / "again.png").read_bytes()
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="needs a timeline"):
        roofline(example_machine()).save(tmp_path / "none.png", over_time=True)
    with pytest.raises(InputError, match="add --measured"):
        roofline(example_machine(), form="p-norm")


def test_the_command_refuses_what_makes_no_sense_and_prints_balance(tmp_path: Path) -> None:
    refused = in_this_process("roofline", "soma_edge", "--over-time", "9", folder=tmp_path, status=2)
    assert "--over-time needs a timeline" in refused.stderr
    assert (
        "add --measured"
        in in_this_process("roofline", "soma_edge", "--form", "p-norm", folder=tmp_path, status=2).stderr
    )
    assert "power" in in_this_process("roofline", "soma_edge", "--power-cap", "2 GB", folder=tmp_path, status=2).stderr
    found = json.loads(in_this_process("roofline", "soma_edge", "--json", folder=tmp_path).stdout)
    assert found["balance"]["ridge"] == 1024
    assert found["balance"]["efficiency_at_ridge"] == pytest.approx(1 / (1 + 84 / 0.009 / 1024), rel=1e-9)
    text = in_this_process("roofline", "soma_edge", folder=tmp_path).stdout
    assert "ridge 1,024 op/B, energy balance 9,333 op/B" in text


@pytest.mark.parametrize(("mode", "of_peak"), [("none", 1 / 4), ("gate", 1 / 4), ("skip", 1.0)])
def test_effectual_operations_leave_zeros_out(mode: str, of_peak: float) -> None:
    """Half of both operands zero: a quarter of the products counts; without skipping the array does all of them."""
    settings = [f"pe_array.sparsity.{side}={mode}" for side in ("weights", "inputs")]
    machine = load_accelerator("soma_edge", ["dram.bandwidth=1 TB/s", *settings])
    half = Sparsity(2, 4, Pattern.STRUCTURED)
    workload = with_sparsity(matmul_chain(rows=100, depth=512, columns=300), half, half)
    timeline = simulate(lower(workload, machine, Schedule("x", ("matmul1",), (), (), (1,))))
    assert timeline.program.facts["effectual"] == "1/4"
    dense, effectual = (roofline_points(machine, timeline, effectual=one) for one in (False, True))
    for whole, part in zip(dense, effectual, strict=True):
        assert (whole.macs, part.macs) == (100 * 512 * 300, 100 * 512 * 300 // 4)
        assert (part.bytes, part.cycles, part.energy_pj) == (whole.bytes, whole.cycles, whole.energy_pj)
        assert part.ops_per_cycle == whole.ops_per_cycle / 4
    run = next(point for point in effectual if (point.name, point.level) == ("run", "dram"))
    peak = 2 * machine.macs_per_cycle
    assert run.operations / run.peak_cycles == pytest.approx(of_peak * peak, rel=1e-12)
    tiles = [point for point in tile_points(machine, timeline, effectual=True) if point.level == "dram"]
    assert sum(point.macs for point in tiles) == run.macs
