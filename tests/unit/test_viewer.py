"""The viewer: what the page carries is the timeline, names stay text, and the script is sound."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from accelsim.engine import simulate
from accelsim.plot.report_page import page
from accelsim.plot.viewer import SCRIPT, viewer
from accelsim.timeline.table import Timeline
from tests.strategies.programs import Dice, Draft, legal_program
from tests.timelines import worked_example

TRAP = "</script><script>alert(1)</script>"
ELEMENT = re.compile(r"<script([^>]*)>(.*?)</script>", re.DOTALL)


def carried(text: str) -> tuple[dict, list[dict[str, np.ndarray]]]:
    """The description in a viewer, and the columns of each of its timelines."""
    (_, description), (_, packed), (_, script) = ELEMENT.findall(text)
    assert script == SCRIPT.read_text(encoding="utf-8")
    content = json.loads(description)
    payload = gzip.decompress(base64.b64decode(packed, validate=True))
    columns = [
        {
            name: np.frombuffer(payload, dtype, length, offset)
            for name, (dtype, offset, length) in timeline["columns"].items()
        }
        for timeline in content["timelines"]
    ]
    return content, columns


def test_the_page_carries_all_events() -> None:
    runs = [worked_example(), simulate(legal_program(Dice(4), 60))]
    content, columns = carried(viewer([("A", runs[0]), ("B", runs[1])]))
    for run, found, described in zip(runs, columns, content["timelines"], strict=True):
        for name in ("start", "end", "finish", "ready"):
            assert np.array_equal(found[name], getattr(run.events, f"{name}_cycles"))
        for name in ("resource", "activity", "cause", "bytes"):
            assert np.array_equal(found[name], getattr(run.events, name))
        for name in ("operator", "tile", "tensor"):
            assert np.array_equal(found[f"a_{name}"], getattr(run.program.activities, name))
        assert described["latency"] == run.latency_cycles
        assert [resource["name"] for resource in described["resources"]] == list(run.program.resource_names)
    assert content["timelines"][0]["title"].startswith("A: ")


def test_kinds_path_and_occupancy_of_the_worked_example() -> None:
    content, (columns,) = carried(viewer([("", worked_example())]))
    kinds = [content["timelines"][0]["kinds"][kind] for kind in columns["a_kind"]]
    assert kinds[:5] == ["array tile", "vector tile", "array tile", "vector tile", "array tile"]
    weights, inputs = "load of weights", "load of inputs"
    assert kinds[5:] == [weights, inputs, weights, inputs, weights, "store"]
    # all but the loads of B's weights and of the second input, and B's last tile
    assert columns["path"].tolist() == [1, 1, 1, 0, 1, 0, 1, 0, 1, 1, 1]
    # at cycle 0: A's weights and the first input
    assert (columns["held0_cycles"][0], columns["held0_bytes"][0]) == (0, 480)
    assert content["timelines"][0]["resources"][1] == {"name": "dram", "rate": 16.0}


def test_clocks_that_differ_share_one_axis() -> None:
    def at(clock_hz: float) -> Timeline:
        run = worked_example()
        return dataclasses.replace(run, program=dataclasses.replace(run.program, facts={"clock_hz": clock_hz}))

    content, _ = carried(viewer([("A", at(1e9)), ("B", at(5e8))]))
    assert [timeline["scale"] for timeline in content["timelines"]] == [1, 2]


def test_names_cannot_leave_the_script() -> None:
    run = worked_example()
    program = dataclasses.replace(run.program, operator_names=(TRAP, "\u2028", "C"), facts={"workload": TRAP})
    text = viewer([(TRAP, dataclasses.replace(run, program=program))])
    assert TRAP not in text
    content, _ = carried(text)
    assert content["timelines"][0]["operators"] == [TRAP, "\u2028", "C"]


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
    run = subprocess.run([node, "--check", str(SCRIPT)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    # what comes from files is never made markup
    assert "innerHTML" not in SCRIPT.read_text(encoding="utf-8")
