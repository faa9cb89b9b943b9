"""The viewer: what the page carries is the timeline, names stay text, and the script is sound."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from accelsim.analysis.roofs import ARRAY, DRAM, Roof
from accelsim.engine import simulate
from accelsim.library import load_accelerator
from accelsim.plot import viewer as viewer_module
from accelsim.plot.report_page import page
from accelsim.plot.viewer import PARTS, script, viewer
from accelsim.timeline.table import Timeline
from tests.strategies.programs import Dice, Draft, legal_program
from tests.timelines import worked_example

TRAP = "</script><script>alert(1)</script>"
ELEMENT = re.compile(r"<script([^>]*)>(.*?)</script>", re.DOTALL)


def carried(text: str) -> tuple[dict, list[dict[str, np.ndarray]]]:
    """The description in a viewer, and the columns of each of its timelines, unpacked as the script does it."""
    (_, description), (_, packed), (_, found) = ELEMENT.findall(text)
    assert found == script()
    content = json.loads(description)
    payload = gzip.decompress(base64.b64decode(packed, validate=True))
    return content, [
        {name: unpacked(payload, *column) for name, column in timeline["columns"].items()}
        for timeline in content["runs"]
    ]


def unpacked(payload: bytes, kind: str, offset: int, length: int, differences: int) -> np.ndarray:
    """First bytes of all values, then the second ones …; some are differences to the row before."""
    width = int(kind[1])
    planes = np.frombuffer(payload, np.uint8, length * width, offset).reshape(width, length)
    values = np.ascontiguousarray(planes.T).reshape(-1).view(f"<{kind}")
    return np.cumsum(values, dtype=np.float64) if differences else values.astype(np.float64)


def test_the_page_carries_all_events() -> None:
    runs = [worked_example(), simulate(legal_program(Dice(4), 60))]
    content, columns = carried(viewer([("A", runs[0]), ("B", runs[1])]))
    for run, found, described in zip(runs, columns, content["runs"], strict=True):
        events, activities = run.events, run.program.activities
        assert np.array_equal(found["start"], events.start_cycles)
        assert np.array_equal(found["start"] + found["cycles"], events.end_cycles)
        assert np.array_equal(found["start"] - found["wait"], events.ready_cycles)
        for name in ("resource", "activity", "cause", "bytes"):
            assert np.array_equal(found[name], getattr(events, name))
        waited = found["back"] != 0
        assert np.array_equal(waited, events.cause_activity >= 0)
        because = (np.arange(len(waited)) - found["back"])[waited].astype(int)
        assert np.array_equal(events.activity[because], events.cause_activity[waited])
        for name in ("queue", "operator", "tile", "tensor", "macs"):
            assert np.array_equal(found[f"a_{name}"], getattr(activities, name))
        assert found["o_cycles"].sum() == described["latency"] == run.latency_cycles
        assert [resource["name"] for resource in described["resources"]] == list(run.program.resource_names)
    assert content["runs"][0]["title"].startswith("A: ")


def test_kinds_path_and_occupancy_of_the_worked_example() -> None:
    content, (columns,) = carried(viewer([("", worked_example())]))
    (run,) = content["runs"]
    kinds = [run["kinds"][int(kind)] for kind in columns["a_kind"]]
    assert kinds[:5] == ["array tile", "vector tile", "array tile", "vector tile", "array tile"]
    weights, inputs = "load of weights", "load of inputs"
    assert kinds[5:] == [weights, inputs, weights, inputs, weights, "store"]
    # all but the loads of B's weights and of the second input, and B's last tile
    assert columns["path"].tolist() == [1, 1, 1, 0, 1, 0, 1, 0, 1, 1, 1]
    # at cycle 0: A's weights and the first input
    assert (columns["h0_cycles"][0], columns["h0_bytes"][0]) == (0, 480)
    # A's weights are held from cycle 0 until A2 finishes, the result of C from its tile until it is stored
    claims = list(zip(*(columns[f"c_{name}"].tolist() for name in ("bytes", "taken", "back")), strict=True))
    assert claims[0] == (320, 0, 110)
    assert claims[-1] == (320, 170, 230)
    assert run["resources"][1] == {"name": "dram", "core": False, "rate": 16.0, "queues": 1}
    # 100 MACs a cycle, and the link; the machine "example" is no template
    assert run["roofs"] == {"array": 200, "vector": 0, "bandwidth": 16.0, "links": [1], "source": "program"}
    assert run["staticEnergy"] == 0.5 and columns["energy"].sum() == 5.5 + 2080 * 0.5


def test_roofs_are_those_of_the_recorded_machine() -> None:
    accelerator = load_accelerator("soma_edge", ["dram.bandwidth=32 GB/s"])
    run = worked_example(hardware_template=accelerator.source)
    (found,) = carried(viewer([("", run)]))[0]["runs"]
    assert found["roofs"]["source"] == "datasheet"
    assert found["roofs"]["array"] == 2 * accelerator.macs_per_cycle == 16384
    assert found["roofs"]["vector"] == float(accelerator.vector_ops_per_cycle)


def test_roofs_that_were_measured_stand_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = ((ARRAY, "op/cycle", 8000.0), (DRAM, "B/cycle", 15.5), (DRAM, "B/cycle", 14.0), (DRAM, "pJ/B", 84.0))
    found = tuple(Roof(level, "measured", unit, value, "") for level, unit, value in rates)
    measured = SimpleNamespace(measurement=SimpleNamespace(roofs=found))
    monkeypatch.setattr(viewer_module, "kept_roofs", lambda accelerator: measured)
    run = worked_example(hardware_template=load_accelerator("soma_edge").source)
    (described,) = carried(viewer([("", run)]))[0]["runs"]
    assert described["roofs"]["measured"] == {"array": 8000.0, "vector": 0, "bandwidth": 15.5}
    assert described["roofs"]["bandwidth"] == 16.0


def test_every_cause_has_words_and_a_colour() -> None:
    content, _ = carried(viewer([("", worked_example())]))
    words = (Path(viewer_module.__file__).parent / "scripts" / "panels.js").read_text(encoding="utf-8")
    tables = [re.search(rf"const {name} = {{(.*?)}};", words, re.DOTALL)[1] for name in ("BECAUSE", "WAITS")]
    for cause in content["runs"][0]["causes"]:
        assert cause in content["causeColors"]
        assert all(re.search(rf"\b{cause}: '", table) for table in tables), cause


def test_clocks_that_differ_share_one_axis() -> None:
    def at(clock_hz: float) -> Timeline:
        run = worked_example()
        return dataclasses.replace(run, program=dataclasses.replace(run.program, facts={"clock_hz": clock_hz}))

    content, _ = carried(viewer([("A", at(1e9)), ("B", at(5e8))]))
    assert [timeline["scale"] for timeline in content["runs"]] == [1, 2]


def test_names_cannot_leave_the_script() -> None:
    run = worked_example()
    program = dataclasses.replace(run.program, operator_names=(TRAP, "\u2028", "C"), facts={"workload": TRAP})
    text = viewer([(TRAP, dataclasses.replace(run, program=program))])
    assert TRAP not in text
    content, _ = carried(text)
    assert content["runs"][0]["operators"] == [TRAP, "\u2028", "C"]


def test_equal_runs_are_equal_bytes_and_need_no_network() -> None:
    text = viewer([("", worked_example())])
    assert text == viewer([("", worked_example(search_seconds=3.0))])
    assert text in page([worked_example()])
    assert not re.search(r"https?:|@import|url\(|<link|\bsrc=", text)


def test_a_run_without_events() -> None:
    _, (columns,) = carried(viewer([("", simulate(Draft().program()))]))
    assert len(columns["start"]) == 0


def test_the_page_of_many_events_stays_small() -> None:
    draft = Draft()
    link, core = draft.queue(draft.link(16)), draft.queue(draft.core())
    for number in range(10_000):
        draft.tile(core, 100 + number % 37, draft.load(link, 1000 + number % 91))
    text = viewer([("", simulate(draft.program()))])
    assert len(text) * 10 <= 25_000_000  # 20,000 events here, 25 MB are allowed for 200,000


def test_the_script_is_sound() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node to check the script with")
    run = subprocess.run([node, "--check", "-"], input=script(), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    # what comes from files is never made markup
    assert "innerHTML" not in script() and len(PARTS) == len(set(PARTS))


def test_what_the_script_reads_from_columns(tmp_path) -> None:
    """The parts that know no page, run by node over the worked example: sums over any range are those of the events."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node to run the script with")
    folder = Path(viewer_module.__file__).parent / "scripts"
    (_, description), (_, packed), _ = ELEMENT.findall(viewer([("", worked_example())]))
    asks = """
    inflate(packed).then((payload) => {
      const run = loadRun(content.runs[0], payload), [core, dram] = run.series;
      const bytes = dram.sum('bytes', (event) => run.bytes[event]), bins = new Float64Array(23);
      dram.spread(bytes, 0, 230, bins);
      const most = new Float64Array(4);
      run.held[0].most(0, 230, 230, most);
      console.log(JSON.stringify({ busy: core.between(core.busy(), 35, 115), bytes: dram.between(bytes, 15, 65),
        bins: [...bins], most: [...most],
        idle: [...run.idle[0].start].map((start, row) => [start, run.idle[0].end[row]]),
        strip: [...run.strip.event], because: [...run.because] }));
    });"""
    source = (folder / "series.js").read_text(encoding="utf-8")
    (tmp_path / "ask.js").write_text(
        f"{source}\nconst content = {description}, packed = {json.dumps(packed)};\n{asks}", encoding="utf-8"
    )
    out = subprocess.run([node, str(tmp_path / "ask.js")], capture_output=True, text=True, check=True).stdout
    found = json.loads(out)
    # tiles 30-60, 60-80, 80-110, 110-130: from 35 to 115 all but nothing; transfers 0-40 and 60-70 at 16 bytes a cycle
    assert found["busy"] == 80
    assert found["bytes"] == 16 * (25 + 5)
    moving = [range(4), range(6, 7), range(11, 17), range(21, 23)]
    assert found["bins"] == [160 if any(bin in one for one in moving) else 0 for bin in range(23)]
    assert found["most"] == [800, 1600, 1600, 1600]
    assert found["idle"] == [[0, 30], [130, 170], [210, 230]]
    assert len(found["because"]) == 11 and found["because"][0] == -1
