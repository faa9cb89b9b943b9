"""Comparisons: figures worked out by hand, what is said about them, and what the command leaves."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from accelsim.analysis.compare_report import Comparison, compare, on_one_grid
from accelsim.analysis.compare_runs import compare_runs
from accelsim.engine import simulate
from accelsim.errors import InputError, MissingExtra
from accelsim.formats import save_timeline
from accelsim.hardware.template import parse_template
from accelsim.library import data_folder, load_accelerator
from accelsim.plot.compare_page import compare_page
from accelsim.program.lower import lower
from accelsim.schedule.notation import Schedule
from accelsim.timeline.compare import path_cycles
from accelsim.timeline.table import Cause, Timeline
from tests.smoke.command import in_this_process
from tests.strategies.networks import three_layers
from tests.strategies.programs import Draft
from tests.timelines import (
    A1,
    A2,
    B1,
    B2,
    C1,
    IA1,
    IA2,
    OC1,
    WA,
    WB,
    WC,
    hand_timeline,
    worked_example,
    worked_program,
)

# The worked example with 32 bytes per cycle instead of 16, with pencil and paper: 175 cycles instead of 230.
FAST_EVENTS = [
    (0, 10, 0, WA, Cause.NONE, -1),
    (10, 15, 10, IA1, Cause.QUEUE, WA),
    (15, 45, 15, A1, Cause.LOAD, IA1),
    (15, 20, 15, WB, Cause.QUEUE, IA1),
    (45, 65, 45, B1, Cause.QUEUE, A1),
    (45, 50, 45, IA2, Cause.TILE, A1),
    (65, 95, 65, A2, Cause.QUEUE, B1),
    (95, 115, 95, B2, Cause.QUEUE, A2),
    (95, 125, 95, WC, Cause.TILE, A2),
    (125, 165, 125, C1, Cause.LOAD, WC),
    (165, 175, 165, OC1, Cause.TILE, C1),
]
TRAP = "<script>alert(1)</script>"


def fast_example(**provenance: object) -> Timeline:
    program = worked_program()
    numerator = program.resources.bytes_numerator.copy()
    numerator[1] = 32
    resources = program.resources._replace(bytes_numerator=numerator)
    return hand_timeline(dataclasses.replace(program, resources=resources), FAST_EVENTS, **provenance)


@pytest.fixture(scope="module")
def hand() -> Comparison:
    return compare(worked_example(), fast_example())


def test_the_hand_written_timelines_are_what_the_engine_makes() -> None:
    for timeline in (worked_example(), fast_example()):
        again = simulate(timeline.program)
        assert all(map(np.array_equal, again.events, timeline.events))


def test_cycles_by_cause_and_by_operator(hand: Comparison) -> None:
    assert hand.latency_cycles == 175 - 230
    # A waits 30 cycles for its first inputs and 40 for C's weights, B 15 and 10; the store drains in 20, or 10
    expected = {"compute": 0, "wait_load": 25 - 70, "wait_store": 0, "wait_buffer": 0, "drain": 10 - 20}
    assert hand.cycles_by_cause == expected
    assert hand.cycles_by_operator == {"A": 75 - 90, "B": 0, "C": 60 - 100}


def test_energy_by_part(hand: Comparison) -> None:
    assert hand.energy_by_part_pj == {"mac": 0.0, "dram": 0.0, "static": 0.5 * (175 - 230)}
    assert hand.energy_pj == -27.5
    assert hand.dram_bytes == 0


def test_transfers_are_found_again_and_know_how_far_they_moved(hand: Comparison) -> None:
    found = {one.name: one for one in hand.transfers.both}
    assert (hand.transfers.only_a, hand.transfers.only_b) == (0, 0)
    shifts = {name: one.shift_cycles for name, one in found.items()}
    assert shifts == {
        "load of 'A.weights'": 0,
        "load of 'input 1' for tile 0 of 'A'": -10,
        "load of 'B.weights'": -15,
        "load of 'input 2' for tile 1 of 'A'": -15,
        "load of 'C.weights'": -15,
        "store of 'C' for tile 0 of 'C'": 165 - 210,
    }
    weights = found["load of 'C.weights'"]
    assert (weights.ahead_a_cycles, weights.ahead_b_cycles, weights.of_weights) == (60, 30, True)


def test_critical_paths(hand: Comparison) -> None:
    # WA, IA1, A1, B1, A2, WC, C1, OC1 in both
    assert path_cycles(hand.a) == (
        {"array tile": 100, "vector tile": 20, "load of weights": 80, "load of inputs": 10, "store": 20},
        {"A": 20 + 10 + 30 + 30, "B": 20, "C": 60 + 40 + 20},
    )
    kinds, operators = path_cycles(hand.b)
    assert kinds == {"array tile": 100, "vector tile": 20, "load of weights": 40, "load of inputs": 5, "store": 10}
    assert operators == {"A": 75, "B": 20, "C": 80}


def test_what_is_said(hand: Comparison) -> None:
    said = "\n".join(hand.sentences)
    # 5e8 cycles a second, so that a cycle takes 2 ns
    assert "B takes 350 ns (175 cycles), A 460 ns (230): 1.31 times as fast (-23.9 %)." in said
    assert "What made B faster: 45 cycles less waiting for loads, 10 cycles less draining after the last tile." in said
    assert "2 operators take fewer cycles: C (-40), A (-15)." in said
    assert "transfers that both runs have" not in said  # the schedule is the same
    turned = "\n".join(compare(hand.b, hand.a).sentences)
    assert "1.31 times as long (+31.4 %)" in turned
    assert "What made B slower: 45 cycles more waiting for loads" in turned


def test_a_run_and_itself() -> None:
    same = compare(worked_example(), worked_example(scheduler="another way to the same"))
    assert same.identical
    assert same.sentences == ["The runs are identical: one program, and all 11 events are the same, cycle for cycle."]
    found = same.to_dict()
    assert found["identical"] is True
    assert found["difference"] == {"latency_cycles": 0, "energy_pj": 0.0, "dram_bytes": 0}
    assert not any(same.cycles_by_cause.values()) and not any(same.cycles_by_operator.values())


def test_one_fact_makes_runs_different() -> None:
    a = worked_example()
    for other in (
        dataclasses.replace(a, program=dataclasses.replace(a.program, static_pj_per_cycle=0.25)),
        dataclasses.replace(a, events=a.events._replace(cause=a.events.cause * 0)),
    ):
        assert not compare(a, other).identical


def test_an_operator_of_one_run_only() -> None:
    a, b = worked_example(), fast_example()
    b = dataclasses.replace(b, program=dataclasses.replace(b.program, operator_names=("A", "B", "D")))
    comparison = compare(a, b)
    assert comparison.operators_only_in == (["C"], ["D"])
    assert comparison.cycles_by_operator == {"A": -15, "B": 0, "C": -100, "D": 60}
    said = "\n".join(comparison.sentences)
    assert "Only in A is C, with 100 cycles.\nOnly in B is D, with 60 cycles." in said
    assert "One operator takes fewer cycles: A (-15)." in said
    # Begins: 0 and 0, 20 and 10, 30 and 15, 60 and 45; B's weights are used 60 and 45 cycles in, A's 30 and 15.
    assert (
        "Of 4 transfers that both runs have, 3 begin earlier in B than in A; the load of 'B.weights' moves most, by 15 "
        "cycles.\nB begins to load weights 22 cycles ahead of their first tile on average, A 30 (2 loads that both"
    ) in said
    # C's weights and result have other owners now
    assert (comparison.transfers.only_a, comparison.transfers.only_b) == (2, 2)


def test_tensors_that_stay_on_chip() -> None:
    workload, machine = three_layers(), load_accelerator("soma_edge")
    runs = []
    for dram_cuts in ((1, 2), ()):
        schedule = Schedule("three", ("A", "B", "C"), (1, 2), dram_cuts, (1, 1, 1))
        runs.append(simulate(lower(workload, machine, schedule)))
    comparison = compare(*runs)
    # both results, of 16 x 20 bytes, are stored once and loaded once
    assert comparison.stays_on_chip_in == ({}, {"A": 640, "B": 640})
    assert comparison.dram_bytes == -1280
    assert comparison.dram_bytes_by_tensor["A"] == -640
    assert any("2 tensors stay on chip in B for which A moves 1.25 KiB: A, B." in one for one in comparison.sentences)


def test_machines_that_differ_are_named_field_by_field() -> None:
    text = (data_folder("hw_templates") / "accelerators" / "soma_edge.yaml").read_text(encoding="utf-8")
    other = parse_template(text, overrides=["dram.bandwidth=32 GB/s"]).source
    comparison = compare(worked_example(hardware_template=text), fast_example(hardware_template=other))
    expected = "The schedule is the same; the machines differ in dram.bandwidth (16 GB/s in A, 32 GB/s in B)."
    assert expected in comparison.sentences


def test_different_clocks_are_compared_in_seconds(hand: Comparison) -> None:
    slow = dataclasses.replace(hand.b.program, facts={**hand.b.program.facts, "clock_hz": 2.5e8})
    comparison = compare(hand.a, dataclasses.replace(hand.b, program=slow))
    assert comparison.times_as_long == pytest.approx(175 * 2 / 230)
    assert comparison.latency_cycles == -55


def test_a_trace_without_facts_or_events_can_be_compared(hand: Comparison) -> None:
    nothing = simulate(Draft().program())
    for a, b in ((nothing, hand.a), (hand.a, nothing), (nothing, nothing)):
        comparison = compare(a, b)
        assert sum(comparison.cycles_by_cause.values()) == b.latency_cycles - a.latency_cycles
        json.dumps(comparison.to_dict(), allow_nan=False)
        assert str(comparison) and comparison.sentences


def test_numbers_on_one_grid_add_up_in_any_order() -> None:
    values = {"a": 0.1, "b": 1e9 / 3, "c": -0.7, "d": 1e-7, "e": 5e8 / 7}
    found = on_one_grid(values)
    total = math.fsum(found.values())
    assert sum(found.values()) == sum(reversed(found.values())) == total
    assert all(abs(found[name] - values[name]) <= 2**-52 * 5e8 for name in values)
    assert on_one_grid({"a": 0.0}) == {"a": 0.0}
    assert on_one_grid({"a": 5e-324, "b": -1e-320}) == {"a": 5e-324, "b": -1e-320}


def test_names_are_text_on_pages(hand: Comparison) -> None:
    program = dataclasses.replace(hand.b.program, operator_names=(TRAP, "B", "C"), tensor_names=(TRAP,) * 6)
    comparison = compare(hand.a, dataclasses.replace(hand.b, program=program))
    for text in (comparison._repr_html_(), compare_page(comparison)):
        assert TRAP not in text
        assert "&lt;script&gt;" in text


def test_the_page_shows_both_runs_on_one_axis(hand: Comparison) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra 'plots'")
    from accelsim.plot.timeline import timeline_figure

    page = compare_page(hand)
    assert page.count('<div class="picture">') == 2
    assert page == compare_page(compare(worked_example(), fast_example()))
    assert timeline_figure(hand.b, 230).axes[0].get_xlim() == (0, 230)
    assert timeline_figure(hand.a).axes[0].get_xlim() == (0, 230)


def test_the_page_without_pictures_says_so(hand: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise MissingExtra("pictures need matplotlib")

    monkeypatch.setattr("accelsim.plot.report_page.timeline_figure", refuse)
    page = compare_page(hand)
    assert page.count("No picture") == 2 and "What made B faster" in page


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("compare")
    save_timeline(worked_example(), folder / "a.npz")
    save_timeline(fast_example(), folder / "b.npz")
    return folder


def test_the_command_prints_one_object(files, hand: Comparison) -> None:
    found = json.loads(in_this_process("compare", "a.npz", "b.npz", "--json", folder=files).stdout)
    keys = ["identical", "difference", "cycles_by_cause", "cycles_by_operator", "energy_by_part_pj", "sentences"]
    assert list(found)[:6] == keys
    assert found == json.loads(json.dumps(hand.to_dict()))


def test_the_command_writes_files(files, hand: Comparison) -> None:
    for name in ("c.json", "c.txt", "c.html"):
        out = in_this_process("compare", "a.npz", "b.npz", "--out", name, folder=files).stdout
        assert "What made B faster" in out
    assert json.loads((files / "c.json").read_text()) == json.loads(json.dumps(hand.to_dict()))
    assert (files / "c.txt").read_text(encoding="utf-8") == f"{hand}\n"
    assert (files / "c.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "c.pdf" in in_this_process("compare", "a.npz", "b.npz", "--out", "c.pdf", folder=files, status=2).stderr


@pytest.mark.parametrize(
    ("order", "limit", "status"),
    [
        # 230 / 175 = 1.3142857...
        (("b.npz", "a.npz"), "31.4%", 1),
        (("b.npz", "a.npz"), "31.43 %", 0),
        (("a.npz", "b.npz"), "0%", 0),
        (("a.npz", "a.npz"), "0%", 0),
        (("a.npz", "b.npz"), "2", 2),
        (("a.npz", "b.npz"), "-2%", 2),
    ],
)
def test_the_exit_status_for_scripts(files, order: tuple[str, str], limit: str, status: int) -> None:
    finished = in_this_process("compare", *order, f"--fail-if-slower={limit}", "--json", folder=files, status=status)
    if status == 1:
        assert "31.4 % longer" in finished.stderr
        assert json.loads(finished.stdout)["difference"]["latency_cycles"] == 55


def test_a_file_that_is_no_timeline(files) -> None:
    (files / "not.npz").write_text("not a timeline")
    assert "not.npz" in in_this_process("compare", "a.npz", "not.npz", folder=files, status=2).stderr
    assert "missing.npz" in in_this_process("compare", "missing.npz", "a.npz", folder=files, status=2).stderr


def test_several_runs_by_hand(files) -> None:
    runs = compare_runs([worked_example(), fast_example(), worked_example()])
    found = runs.to_dict()
    assert [run["latency_cycles"] for run in found["runs"]] == [230, 175, 230]
    assert [step["latency_cycles"] for step in found["ladder"]] == [-55, 55]
    assert [one["identical"] for one in found["comparisons"]] == [False, True]
    assert runs.sentences[0] == "B is the fastest: 350 ns."  # 175 cycles at 500 MHz
    assert runs.sentences[1].startswith("B against A: 1.31 times as fast; mostly by ")
    assert runs.sentences[2] == "C against A: the same, event for event."
    text = str(runs)
    assert "Ladder" in text and max(map(len, text.splitlines())) <= 80
    assert str(compare_runs([worked_example()] * 3)).endswith("one program, and every event is the same.")
    page = compare_page(runs)
    assert page.count('<div class="viewer">') == 1 and "3 runs compared" in page
    with pytest.raises(InputError, match="give 2 to 26"):
        compare_runs([worked_example()])


def test_many_runs_stand_in_blocks_that_fit_a_terminal() -> None:
    text = str(compare_runs([worked_example(), *[fast_example()] * 11]))
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("latency, cycles") == 2


def test_the_command_compares_several_runs(files) -> None:
    found = json.loads(in_this_process("compare", "b.npz", "a.npz", "b.npz", "--json", folder=files).stdout)
    assert [run["label"] for run in found["runs"]] == ["A", "B", "C"]
    finished = in_this_process("compare", "b.npz", "b.npz", "a.npz", "--fail-if-slower=2%", folder=files, status=1)
    assert "C takes 31.4 % longer than A" in finished.stderr
    in_this_process("compare", "a.npz", "b.npz", "b.npz", "--fail-if-slower=2%", "--out", "m.html", folder=files)
    assert "1 timeline given" in in_this_process("compare", "a.npz", folder=files, status=2).stderr


def test_a_folder_stands_for_its_timeline(files) -> None:
    (files / "run").mkdir(exist_ok=True)
    save_timeline(worked_example(), files / "run" / "timeline.npz")
    assert "identical" in in_this_process("compare", "run", "a.npz", folder=files).stdout
    in_this_process("export", "run", "--format=csv", "--out=r.csv", folder=files)
    assert (files / "r.csv").read_text().count("\n") == 12
    (files / "empty").mkdir(exist_ok=True)
    assert "empty" in in_this_process("compare", "empty", "a.npz", folder=files, status=2).stderr
