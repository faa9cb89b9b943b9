"""The ledger against an example worked out with pencil and paper; ladders, rounding, mistakes."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest

from accelsim.analysis.ledger import ledger
from accelsim.analysis.ledger_report import ledger_report
from accelsim.analysis.ledger_tiles import whole
from accelsim.engine import simulate
from accelsim.errors import InputError, UnknownName
from accelsim.library import load_accelerator
from accelsim.program.lower import lower
from accelsim.schedule.notation import Schedule
from accelsim.sparsity import Sparsity
from accelsim.timeline.table import Cause
from accelsim.workload.models.micro import matmul_chain
from accelsim.workload.sparse import with_sparsity
from tests.strategies.programs import Draft
from tests.timelines import hand_timeline, worked_example
from tests.unit.test_roofline import example_machine


def test_worked_example_cycle_by_cycle() -> None:
    """100 MACs and 7 vector operations a cycle: A executes 6000 MACs in 60 cycles and needs 5000 of them."""
    found = ledger(worked_example(), example_machine())
    core, link = found.resources
    assert core.by_label() == {
        "useful_mac": 50 + 40,
        "useful_vector": 20,  # B: 140 operations in 40 cycles
        "recompute": 10,
        "idle_lanes": 20,
        "wait_load_bandwidth": 30 + 40,  # before A1 and C1; the link moves bytes all the time
        "drain": 20,
    }
    assert core.by_label(1) == {"useful_vector": 20, "idle_lanes": 20}
    assert core.by_label(2) == {"useful_mac": 40, "wait_load_bandwidth": 40, "drain": 20}
    assert link.by_label() == {"reads": 110, "writes": 20, "wait_tile": 20 + 40 + 40}
    assert found.by_account() == pytest.approx(
        {
            "mac": 2.5 + 0.5 + 2.0,
            "mac.recomputed": 0.5,
            "dram.read": 0.5 * 1760,
            "dram.write": 0.5 * 320,
            "static.useful": 0.5 * 110,
            "static.lost": 0.5 * 120,
        },
        rel=1e-12,
    )


def test_ladders_lead_from_roof_to_point() -> None:
    report = ledger_report(worked_example(), example_machine())
    performance, energy = report.ladders()["performance"], report.ladders()["energy"]
    assert performance[0].value == 18140 / 110
    assert [rung.name for rung in performance] == ["roof", "recompute", "idle_lanes", "wait_load_bandwidth", "drain"]
    assert performance[-1].value == pytest.approx(18140 / 230, rel=1e-12)
    assert energy[0].value == pytest.approx(18140 / 5, rel=1e-12)
    assert energy[-1].value == pytest.approx(18140 / (5.5 + 1040 + 115), rel=1e-12)
    assert math.fsum(rung.share for rung in performance) == pytest.approx(1)
    assert "x 0.522" not in str(report)
    assert "wait_load_bandwidth" in str(report)


def latency_example() -> Draft:
    """A load of 160 bytes at 16 B/cycle and 7 cycles of latency, that must wait for a tile of 5 cycles; then a tile."""
    draft = Draft()
    core, link = draft.queue(draft.core()), draft.queue(draft.link(16, latency=7))
    draft.tile(core, 5)
    draft.load(link, 160, 0)
    draft.tile(core, 3, 1)
    return draft


def test_waiting_for_a_load_is_split_by_what_the_load_waited_for() -> None:
    core, link = ledger(simulate(latency_example().program())).resources
    assert core.by_label() == {"compute": 8, "wait_load_bandwidth": 10, "wait_load_latency": 7}
    assert link.by_label() == {"reads": 10, "wait_tile": 5, "no_work": 10}
    rows = [(0, 5, 0, 0, Cause.NONE, -1), (9, 19, 5, 1, Cause.TILE, 0), (26, 29, 26, 2, Cause.LOAD, 1)]
    late = ledger(hand_timeline(latency_example().program(), rows)).resources[0]
    assert late.by_label() == {
        "compute": 8,
        "wait_load_bandwidth": 10,
        "wait_load_latency": 7,
        "wait_load_schedule": 4,
    }


def test_array_losses_of_a_single_product() -> None:
    """8 x 4 by 4 x 8 on a weight-stationary 16 x 16 array: 2 R + C + M - 2 = 54 cycles, 8 of them streaming."""
    machine = load_accelerator("gemmini_16x16", ("buffers.global.read_bandwidth=1 B/cycle",))
    workload = matmul_chain(rows=8, depth=4, columns=8)
    timeline = simulate(lower(workload, machine, Schedule("x", ("matmul1",), (), (), (1,))))
    found = ledger(timeline, machine).resources[0].by_label()
    # 8 * 4 * 8 = 256 MACs: one cycle of 256 lanes; a port of 1 B/cycle takes 8*4 + 4*8 = 64 cycles.
    assert {name: found[name] for name in ("useful_mac", "idle_lanes", "fill_drain", "wait_port")} == {
        "useful_mac": 1,
        "idle_lanes": 7,
        "fill_drain": 46,
        "wait_port": 10,
    }


def test_zeros_that_are_skipped_are_no_work() -> None:
    """100 x 512 by 512 x 300, half of both zero and skipped: 15.36 M / 4 / 8192 = 468.75 cycles.

    The operations are counted dense: the ladder starts at four times the array's peak, on whole cycles.
    """
    skipping = [f"pe_array.sparsity.{side}=skip" for side in ("weights", "inputs")]
    machine = load_accelerator("soma_edge", ["dram.bandwidth=1 TB/s", *skipping])
    workload = with_sparsity(matmul_chain(rows=100, depth=512, columns=300), Sparsity(1, 2), Sparsity(1, 2))
    timeline = simulate(lower(workload, machine, Schedule("x", ("matmul1",), (), (), (1,))))
    found = ledger(timeline, machine).resources[0].by_label()
    assert found["useful_mac"] == 469
    assert found["useful_mac"] + found["idle_lanes"] == int(timeline.program.activities.cycles.sum())
    assert ledger_report(timeline, machine).ladders()["performance"][0].value == 2 * 100 * 512 * 300 / 469


@pytest.mark.parametrize(
    ("shares", "total", "found"),
    [
        ([0.5, 0.5], 1, [0, 1]),
        ([1 / 3, 1 / 3, 1 / 3], 1, [0, 1, 0]),
        ([2.0, 0.0, 3.0], 5, [2, 0, 3]),
        ([0.0, 0.0], 0, [0, 0]),
        ([0.4, 0.0], 7, [7, 0]),
    ],
)
def test_shares_become_whole_cycles(shares: list[float], total: int, found: list[int]) -> None:
    assert whole(shares, total) == found


def test_an_unknown_operator_is_named() -> None:
    with pytest.raises(UnknownName, match="no operator 'a' in this run"):
        ledger_report(worked_example(), example_machine(), operator="a")


def test_ladders_are_drawn_or_refused_with_the_reason(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="install the extra 'plots' to draw pictures")
    from accelsim.plot.ladder_figure import ladder_figure
    from accelsim.plot.style import save_figure

    for name in ("one.png", "two.png"):
        save_figure(ladder_figure(ledger_report(worked_example(), example_machine())), tmp_path / name)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    with pytest.raises(InputError, match="its machine is not known"):
        ladder_figure(ledger_report(dataclasses.replace(worked_example(), provenance={})))
