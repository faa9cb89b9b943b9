"""The lessons of the roofline hold, and their figures are those of pencil and paper."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from accelsim.analysis import lessons
from accelsim.errors import UnknownName, WorkloadError
from accelsim.library import load_accelerator
from accelsim.workload.models.micro import blocked
from tests.smoke.command import in_this_process


def test_int8_at_the_ridge_reaches_a_tenth_of_the_best_efficiency() -> None:
    """soma_edge: P / B = 16384 / 16; e_byte / e_op = 84 / 0.009; 1 / (1 + 9333.3 / 1024)."""
    lesson = lessons.ridge(load_accelerator("soma_edge"))
    assert lesson.holds
    assert lesson.rows[0][1:] == pytest.approx((1024, 1, 1 / (1 + 84 / 0.009 / 1024)), rel=1e-12)
    # With DRAM at a hundredth of the energy the balance lies left of the ridge, and the lesson does not hold.
    cheap = load_accelerator("soma_edge", ("dram.read_energy=0.1 pJ/bit", "dram.write_energy=0.1 pJ/bit"))
    assert not lessons.ridge(cheap).holds


def test_doubling_a_buffer_buys_the_root_of_two_until_all_fits() -> None:
    """Blocks of T: 2 n^3 / T bytes of factors and n^2 of results for 2 n^3 operations, and the additions of sums."""
    lesson = lessons.buffer(load_accelerator("soma_edge"))
    assert lesson.holds
    for block, _, intensity in lesson.rows:
        additions = 768**2 * (768 // block - 1)
        law = (2 * 768**3 + additions) / (2 * 768**3 / block + 768**2)
        assert intensity == pytest.approx(law, rel=1e-12)


def test_blocks_do_the_same_work_whatever_their_size() -> None:
    assert {blocked(side=96, block=block).macs for block in (24, 48, 96)} == {96**3}
    with pytest.raises(WorkloadError, match="blocks that divide the side"):
        blocked(side=100, block=30)


def test_decode_stays_bound_by_bandwidth_under_every_scheduler() -> None:
    """Weights are used once: at most 2 operations a byte and some vector work; the ridge is at 1,024."""
    lesson = lessons.decode(load_accelerator("soma_edge"))
    assert lesson.holds
    assert [row[0] for row in lesson.rows] == ["layerwise", "cocco", "soma", "interleave"]
    for _, _, intensity, of_bandwidth, of_peak in lesson.rows:
        assert intensity < 2.5
        assert of_bandwidth > 0.9
        assert of_peak < 0.01


def test_a_larger_peak_does_not_help_a_run_bound_by_memory() -> None:
    lesson = lessons.peak(load_accelerator("soma_edge"))
    assert lesson.holds
    cycles = [float(row[1]) for row in lesson.rows]
    assert cycles[2] >= 0.99 * cycles[0]
    assert cycles[3] < 0.6 * cycles[0]


@pytest.mark.parametrize("name", ["soma_edge", "tpu_v1"])
def test_fewer_bits_move_right_and_sub_words_lift_the_roof(name: str) -> None:
    lesson = lessons.bits(load_accelerator(name))
    assert lesson.holds
    eight, four, sub_word = lesson.rows
    assert float(four[1]) == pytest.approx(2 * float(eight[1]), rel=0.01)
    assert float(sub_word[3]) == 2 * float(four[3])


@pytest.mark.parametrize("name", ["soma_edge", "soma_cloud"])
def test_gating_lifts_efficiency_skipping_lifts_performance_too(name: str) -> None:
    """Half of the terms are left: twice the dense-equivalent roof; gated, half the energy of the products."""
    lesson = lessons.LESSONS["zeros"](load_accelerator(name))
    assert lesson.holds
    none, gate, skip = ([float(one) for one in row[1:]] for row in lesson.rows)
    assert gate[:2] == none[:2]
    assert skip[1] == pytest.approx(2 * none[1], rel=1e-3)  # vector work has a small part in all of them
    assert none[2] < gate[2] < skip[2]
    assert gate[3] == pytest.approx(skip[3], rel=1e-9)


def test_sparsity_can_cost_accesses() -> None:
    """Of 8 x 1024 x 1024 weights a byte each: (8 d + 1) / 8 bytes as bitmap; 16 x 1024 bytes in, and as many out."""
    lesson = lessons.LESSONS["accesses"](load_accelerator("soma_edge"))
    assert lesson.holds
    weights, rest = 8 * 1024 * 1024, 2 * 16 * 1024
    expected = [weights + rest] + [weights * (8 * tenths / 10 + 1) / 8 + rest for tenths in (10, 9, 5, 2)]
    assert [row[1] for row in lesson.rows] == pytest.approx(expected, rel=1e-5)  # nonzeros are whole
    assert [row[3] for row in lesson.rows] == pytest.approx(
        [2 * 16 * weights * share / size for share, size in zip((1, 1, 0.9, 0.5, 0.2), expected, strict=True)], rel=1e-5
    )


def test_the_command_shows_one_lesson_or_names_them(tmp_path: Path) -> None:
    found = json.loads(in_this_process("lessons", "bits", "--json", folder=tmp_path).stdout)
    assert [lesson["name"] for lesson in found["lessons"]] == ["bits"]
    assert found["lessons"][0]["rows"][0]["elements"] == "8 bits"
    assert "So it holds." in in_this_process("lessons", "ridge", folder=tmp_path).stdout
    refused = in_this_process("lessons", "bit", folder=tmp_path, status=2)
    assert "no lesson 'bit'" in refused.stderr
    with pytest.raises(UnknownName):
        list(lessons.lessons(load_accelerator("soma_edge"), "nothing"))
