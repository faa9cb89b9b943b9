"""``dram.fidelity`` and ``dram.memory`` of hardware templates, and runs with banks from names to files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from accelsim.analysis.energy import energy_by_part_pj, energy_pj
from accelsim.analysis.ladder import energy_ladder
from accelsim.analysis.ledger import ledger
from accelsim.analysis.options import Change
from accelsim.analysis.predict import Bottlenecks, predict
from accelsim.analysis.report import report
from accelsim.analysis.roofline import roofline_points
from accelsim.engine import simulate
from accelsim.errors import FormatError, TemplateError, UnknownName
from accelsim.formats import load_timeline, save_timeline
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.template import parse_template
from accelsim.library import load_accelerator, load_workload
from accelsim.plot.viewer import viewer
from accelsim.program.check import same_program
from accelsim.program.lower import lower
from accelsim.program.rebind import rebind
from accelsim.program.tables import Program
from accelsim.search.layerwise import Layerwise
from tests.unit.test_viewer import ELEMENT

BANKS = ["dram.fidelity=banks"]


def program_on(accelerator: Accelerator) -> Program:
    workload = load_workload("soma.gpt2_small_decode")
    return lower(workload, accelerator, Layerwise().search(workload, accelerator).schedule)


def test_without_the_field_nothing_is_different() -> None:
    plain = load_accelerator("soma_edge")
    assert plain.dram.memory is None
    section = plain.source.index("  memory:")
    without = plain.source[:section] + plain.source[plain.source.index("static_power", section) :]
    assert parse_template(without).digest == plain.digest  # what runs have recorded stays valid
    assert program_on(plain).memory is None
    timeline = simulate(program_on(plain))
    assert timeline.memory is None
    assert report(timeline).to_dict()["dram_model"] == {"fidelity": "link", "energy": "per byte"}


@pytest.mark.parametrize(("name", "bandwidth"), [("soma_edge", 16), ("soma_cloud", 128)])
def test_the_memories_of_the_shipped_machines_have_their_bandwidth(name: str, bandwidth: int) -> None:
    accelerator = load_accelerator(name, BANKS)
    memory = accelerator.dram.memory
    assert memory is not None
    assert memory.dram.peak_bytes_per_cycle * memory.dram.clock_hz == bandwidth * 10**9
    assert accelerator.dram.bytes_per_cycle * accelerator.clock_hz == bandwidth * 10**9
    assert accelerator.digest != load_accelerator(name).digest
    wider = load_accelerator(name, [*BANKS, f"dram.bandwidth={2 * bandwidth} GB/s"])
    assert wider.link_bytes_per_cycle * wider.clock_hz == bandwidth * 10**9  # the pins
    narrower = load_accelerator(name, [*BANKS, f"dram.bandwidth={bandwidth // 2} GB/s"])
    assert narrower.link_bytes_per_cycle == narrower.dram.bytes_per_cycle


def test_mistakes_say_where_and_what_to_do() -> None:
    for overrides, words in (
        (["dram.fidelity=bank"], "did you mean 'banks'"),
        (["dram.fidelity=banks", "dram.memory.channels=3"], "channels is 3; address maps need a power of two"),
        (["dram.fidelity=banks", "dram.memory.technology=ddr5"], "no memory 'ddr5'"),
        (["dram.fidelity=banks", "dram.memory.alignment=3 KiB"], "expected a power of two"),
        (["dram.fidelity=banks", "dram.memory.controller=dramsim3"], "expected 'bounded'"),
        (["dram.fidelity=banks", "dram.memory.address_map=best"], "no address map 'best'"),
        (["dram.fidelity=banks", "dram.memory.refresh=per_row"], "expected 'all_bank'"),
    ):
        with pytest.raises(TemplateError, match=words):
            load_accelerator("soma_edge", overrides)
    with pytest.raises(TemplateError, match=r"set dram\.memory\.technology"):
        load_accelerator("tpu_v1", BANKS)
    with pytest.raises(UnknownName, match=r"dram\.memory\.channels"):
        load_accelerator("soma_edge", ["dram.memory.chanels=2"])


def test_a_run_with_banks_survives_its_file_and_a_replay(tmp_path: Path) -> None:
    timeline = simulate(program_on(load_accelerator("soma_edge", BANKS)))
    save_timeline(timeline, tmp_path / "a.npz")
    again = load_timeline(tmp_path / "a.npz")
    assert same_program(again.program, timeline.program)
    assert again.memory == timeline.memory
    assert simulate(again.program).latency_cycles == timeline.latency_cycles
    save_timeline(again, tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    plan = timeline.program.memory
    assert plan is not None
    broken = replace(plan, memory=replace(plan.memory, template=plan.memory.template.replace("tRC: 122", "tRC: 12")))
    save_timeline(replace(timeline, program=replace(timeline.program, memory=broken)), tmp_path / "c.npz")
    with pytest.raises(FormatError, match=r"tRAS of 85 cycles is longer than tRC of 12"):
        load_timeline(tmp_path / "c.npz")


def test_points_ladders_and_the_page_hold_all_energy_of_a_counted_memory() -> None:
    """Refreshes and standby belong to no transfer: they flow all the time, and to whom the cycles belong."""
    machine = load_accelerator("soma_edge", BANKS)
    timeline = simulate(program_on(machine))
    whole = sum(energy_by_part_pj(timeline).values())
    assert timeline.memory is not None and timeline.memory.unshared_pj > 0.01 * whole
    found = ledger(timeline, machine)
    run, *operators = [point for point in roofline_points(machine, timeline) if point.level == "dram"]
    assert run.energy_pj == pytest.approx(whole, rel=1e-12)
    assert sum(point.energy_pj for point in operators) == pytest.approx(whole, rel=1e-9)
    for point in (run, *operators):
        if ladder := energy_ladder(found, point):
            assert ladder[-1].value == pytest.approx(point.ops_per_pj, rel=1e-9)
    (_, description), _, _ = ELEMENT.findall(viewer([("", timeline)]))
    flowing = json.loads(description)["runs"][0]["staticEnergy"] * timeline.latency_cycles
    assert flowing + float(timeline.program.energy_pj.sum()) == pytest.approx(whole, rel=1e-9)


def test_predictions_hold_all_energy_of_a_counted_memory() -> None:
    """As simulated on the changed machine; with the link's energies a byte they would be a fifth off."""
    machine = load_accelerator("soma_edge", BANKS)
    timeline = simulate(program_on(machine))
    found = Bottlenecks.of(timeline)
    for field in ("clock=1 GHz", "clock=500 MHz", "pe_array.mac_energy=1 pJ"):
        changed = load_accelerator("soma_edge", [*BANKS, field])
        predicted = predict(found, machine, Change(field, "", changed)).energy_pj
        assert predicted == pytest.approx(energy_pj(simulate(program_on(changed))), rel=0.01)


def test_a_program_moves_between_a_link_and_banks() -> None:
    link, banks = load_accelerator("soma_edge"), load_accelerator("soma_edge", BANKS)
    recorded, lowered = program_on(link), program_on(banks)
    assert same_program(rebind(recorded, banks), lowered)
    assert same_program(rebind(lowered, link), recorded)
    other = load_accelerator("soma_edge", [*BANKS, "dram.memory.technology=ddr4_3200", "dram.memory.channels=1"])
    moved = rebind(lowered, other)
    assert moved.memory is not None
    assert moved.memory.memory.dram.name == "ddr4_3200"


def test_the_ledgers_close_with_counted_energy() -> None:
    timeline = simulate(program_on(load_accelerator("soma_edge", BANKS)))
    use, by_part = timeline.memory, energy_by_part_pj(timeline)
    assert use is not None
    assert by_part["dram"] == pytest.approx(sum(use.energy_by_command_pj.values()), rel=1e-12)
    accounts = ledger(timeline).by_account()
    assert sum(accounts.values()) == pytest.approx(sum(by_part.values()), rel=1e-9)
    assert accounts["dram.refresh"] == pytest.approx(use.energy_by_command_pj["ref"], rel=1e-12)
    text = str(report(timeline))
    assert "2 x lpddr4_4000, 16 B/cycle at the pins; energy from command counters" in text
