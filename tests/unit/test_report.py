"""The summary and the report, against figures counted by hand from the worked example."""

import dataclasses
import json

import pytest

from accelsim.analysis.energy import energy_by_operator_pj, energy_by_part_pj, energy_pj
from accelsim.analysis.report import layers, report, summary
from accelsim.analysis.traffic import traffic, traffic_by_tensor
from accelsim.engine import simulate
from accelsim.timeline.columns import event_columns
from accelsim.timeline.provenance import lasting, program_digest, with_provenance
from tests.strategies.programs import Draft
from tests.timelines import worked_example, worked_program


def test_summary_of_the_worked_example():
    timeline = worked_example(scheduler="pencil", seed=3, search_seconds=1.5, simulate_seconds=0.25)
    # Busy: tiles 140; 1760 bytes loaded and 320 stored at 16 per cycle take 130.
    found = summary(timeline, per_layer=True)
    assert found.pop("ledger")["cycles"] == {
        "core": {"useful_mac": 90, "recompute": 10, "useful_vector": 40, "wait_load_bandwidth": 70, "drain": 20},
        "dram": {"reads": 110, "writes": 20, "wait_tile": 100},
    }
    assert found == {
        "workload": "worked",
        "hardware": "example",
        "scheduler": "pencil",
        "seed": 3,
        "engine": "by hand",
        "latency_cycles": 230,
        "latency_seconds": 230 / 5e8,
        "lower_bound_cycles": 140,
        "gap_percent": 100 * 90 / 140,
        "energy_pj": 5.5 + 1040 + 115,
        "energy_by_part_pj": {"mac": 5.5, "dram": 0.5 * 2080, "static": 0.5 * 230},
        "dram_read_bytes": 1760,
        "dram_write_bytes": 320,
        "macs": 9000,
        "vector_ops": 140,
        "utilization": {"mac": 9000 / 23000, "with_vector": 92 / 230},
        "peak_buffer_bytes": {"global": 1600},
        "link_wait_cycles": {},
        "cycles_by_cause": {"compute": 140, "wait_load": 70, "wait_store": 0, "wait_buffer": 0, "drain": 20},
        "tiles": 5,
        "transfers": 6,
        "search_seconds": 1.5,
        "simulate_seconds": 0.25,
        "dram_model": {"fidelity": "link", "energy": "per byte"},
        "layers": [
            {"name": "A", "compute_cycles": 60, "macs": 5000, "utilization": 5000 / 6000},
            {"name": "B", "compute_cycles": 40, "macs": 0, "utilization": 0.0},
            {"name": "C", "compute_cycles": 40, "macs": 4000, "utilization": 1.0},
        ],
    }


def test_the_keys_stand_in_the_order_of_the_contract():
    keys = (
        "workload hardware scheduler seed engine latency_cycles latency_seconds lower_bound_cycles gap_percent "
        "energy_pj energy_by_part_pj dram_read_bytes dram_write_bytes macs vector_ops utilization peak_buffer_bytes "
        "cycles_by_cause tiles transfers search_seconds simulate_seconds link_wait_cycles dram_model"
    )
    assert list(summary(worked_example())) == keys.split()
    assert list(summary(worked_example())["cycles_by_cause"]) == [
        "compute",
        "wait_load",
        "wait_store",
        "wait_buffer",
        "drain",
    ]


def test_summary_survives_json_and_keeps_integers():
    found = summary(worked_example(), per_layer=True)
    again = json.loads(json.dumps(found, allow_nan=False))
    assert again == found
    assert isinstance(again["latency_cycles"], int) and isinstance(again["cycles_by_cause"]["compute"], int)


def test_a_program_without_facts_has_no_invented_figures():
    timeline = dataclasses.replace(worked_example(), program=dataclasses.replace(worked_program(), facts={}))
    found = summary(timeline, per_layer=True)
    for name in ("workload", "hardware", "scheduler", "seed", "latency_seconds"):
        assert found[name] is None
    assert found["utilization"] == {"mac": None, "with_vector": None}
    assert (found["macs"], found["vector_ops"]) == (10000, 140)  # the work executed
    assert "A trace on its machine" in str(report(timeline))


@pytest.mark.parametrize("value", ["soon", -1.0])
def test_senseless_facts_count_as_unknown(value):
    facts = {"clock_hz": value, "macs_per_cycle": value, "macs": value}
    timeline = dataclasses.replace(worked_example(), program=dataclasses.replace(worked_program(), facts=facts))
    found = summary(timeline)
    assert found["latency_seconds"] is None and found["macs"] == 10000
    assert str(report(timeline))


def test_summary_of_nothing():
    found = summary(simulate(Draft().program()), per_layer=True)
    assert found["latency_cycles"] == 0 and found["gap_percent"] is None and found["layers"] == []
    assert found["energy_by_part_pj"] == {"static": 0.0}
    assert str(report(simulate(Draft().program())))


def test_layers_without_their_own_work_show_the_work_executed():
    program = dataclasses.replace(worked_program(), operator_macs=[])
    timeline = dataclasses.replace(worked_example(), program=program)
    assert [layer["macs"] for layer in layers(timeline)] == [6000, 0, 4000]


def test_both_energy_ledgers_close():
    timeline = worked_example()
    by_operator = energy_by_operator_pj(timeline)
    # A: tiles 3, WA 160, IA1 and IA2 80 each; B: tiles 0.5, WB 80; C: tile 2, WC 480, OC1 160.
    assert by_operator == {"A": 323.0, "B": 80.5, "C": 642.0}
    assert sum(by_operator.values()) + 115 == energy_pj(timeline) == sum(energy_by_part_pj(timeline).values())


def test_traffic_in_all_and_by_tensor():
    program = worked_program()
    assert traffic(program) == (1760, 320) and traffic(program).total_bytes == 2080
    assert traffic_by_tensor(program) == {
        "A.weights": (320, 0),
        "input 1": (160, 0),
        "B.weights": (160, 0),
        "input 2": (160, 0),
        "C.weights": (960, 0),
        "C": (0, 320),
    }


def test_event_columns_name_everything_and_add_up():
    columns = event_columns(worked_example())
    assert columns["kind"][:3] == ["load", "load", "tile"] and columns["cause"][:3] == ["none", "queue", "load"]
    assert columns["operator"][2] == "A" and columns["tensor"][:3] == ["A.weights", "input 1", ""]
    assert sum(columns["energy_pj"]) == 1045.5 and sum(columns["bytes"]) == 2080 and sum(columns["macs"]) == 10000


def test_a_transfer_served_in_parts_divides_its_energy_by_bytes():
    draft = Draft()
    link = draft.link(1, arbitration=1, grant=4)
    draft.load(draft.queue(link), 12)
    draft.load(draft.queue(link), 4)
    program = dataclasses.replace(draft.program(), part_names=("dram",), energy_pj=[[12.0], [8.0]])
    timeline = simulate(program)
    columns = event_columns(timeline)
    assert list(zip(columns["activity"].tolist(), columns["bytes"].tolist(), strict=True)) == [(0, 4), (1, 4), (0, 8)]
    assert columns["energy_pj"].tolist() == [4.0, 8.0, 8.0]


def test_the_report_says_what_one_looks_for():
    text = str(report(worked_example(scheduler="pencil")))
    for expected in (
        "worked on example, scheduled by pencil",
        "230 cycles",
        "460 ns at 0.5 GHz",
        "140 cycles",
        "64.29 %",
        "1.161 nJ",
        "1,760 bytes",
        "9,000 MACs",
        "39.13 %",
        "5 tiles",
        "1.56 KiB",
        "of 2 KiB",
    ):
        assert expected in text, expected
    lines = text.splitlines()
    assert next(line for line in lines if "wait_load" in line).split()[1:3] == ["70", "30.43"]
    assert [line.split()[:2] for line in lines[-3:]] == [["C", "100"], ["A", "90"], ["B", "40"]]
    assert max(map(len, lines)) <= 120


def test_the_bars_are_as_long_as_the_shares():
    line = next(line for line in str(report(worked_example())).splitlines() if line.startswith("  compute"))
    assert line.count("█") == 18  # 140 / 230 of 30 characters = 18.3
    assert "▎" in line


def test_notebooks_get_escaped_names():
    program = dataclasses.replace(worked_program(), operator_names=("<script>alert(1)</script>", "B&B", '"C"'))
    page = report(dataclasses.replace(worked_example(), program=program), per_layer=True)._repr_html_()
    assert "<script" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "B&amp;B" in page


def test_provenance_says_what_a_rerun_needs():
    timeline = with_provenance(worked_example(), scheduler="pencil", seed=1, search_seconds=2.0)
    assert timeline.provenance["scheduler"] == "pencil"
    assert {"accelsim", "python", "numpy", "program_digest", "seed"} <= timeline.provenance.keys()
    assert "search_seconds" not in lasting(timeline.provenance)
    assert lasting(timeline.provenance) == lasting(
        with_provenance(worked_example(), scheduler="pencil", seed=1, search_seconds=3.0).provenance
    )


def test_the_digest_of_a_program_sees_every_change():
    program = worked_program()
    changed = [
        dataclasses.replace(program, static_pj_per_cycle=0.25),
        dataclasses.replace(program, facts={}),
        dataclasses.replace(program, energy_pj=program.energy_pj * 2),
        dataclasses.replace(program, operator_names=("A", "B", "D")),
        dataclasses.replace(program, operator_macs=[5000, 0, 4001]),
        dataclasses.replace(program, claims=program.claims._replace(bytes=program.claims.bytes + 1)),
    ]
    assert len({program_digest(one) for one in [program, worked_program(), *changed]}) == 1 + len(changed)
