"""Traces of PyTorch's profiler: a small one written by hand in its form, and everything that can be wrong with one."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import accelsim
from accelsim.analysis.ledger import ledger
from accelsim.errors import FormatError
from accelsim.formats import load_trace
from accelsim.timeline.stalls import UNRECORDED, critical_path, cycles_by_cause, cycles_by_operator
from tests.smoke.command import in_this_process

DAY = 1_700_000_000_000_000
"""Microseconds since 1970, as the profiler writes them: with nanoseconds they have more digits than a float."""


def whole(name: str, track: tuple[int, int], start: float, length: float, category: str = "cpu_op") -> dict:
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": track[0],
        "tid": track[1],
        "ts": DAY + start,
        "dur": length,
        "args": {},
    }


def arrow(phase: str, number: int, track: tuple[int, int], at: float) -> dict:
    return {"ph": phase, "id": number, "cat": "ac2g", "name": "ac2g", "pid": track[0], "tid": track[1], "ts": DAY + at}


CPU, STREAM = (4242, 4242), (0, 7)
# CPU:    aten::mm 0-30 us, in it the launch 10-20; idle; aten::relu 50-70, in it the launch 55-60; then 90-100
# stream: mm_kernel 16-56 (begins while its launch goes on), relu_kernel 62-72 (2 us after its launch has ended)
EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 4242, "tid": 0, "ts": 0, "args": {"name": "python"}},
    {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "ts": 0, "args": {"name": "stream 7"}},
    whole("ProfilerStep#1", CPU, 0, 100, "user_annotation"),
    whole("aten::mm", CPU, 0, 30),
    whole("cudaLaunchKernel", CPU, 10, 10, "cuda_runtime"),
    whole("aten::relu", CPU, 50, 20),
    whole("cudaLaunchKernel", CPU, 55, 5, "cuda_runtime"),
    whole("aten::sum", CPU, 90, 10),
    whole("mm_kernel", STREAM, 16, 40, "kernel"),
    whole("relu_kernel", STREAM, 62, 10, "kernel"),
    arrow("s", 1, CPU, 10),
    {**arrow("f", 1, STREAM, 16), "bp": "e"},
    arrow("s", 2, CPU, 55),
    {**arrow("f", 2, STREAM, 62), "bp": "e"},
]


def saved(folder: Path, events: object, name: str = "step.pt.trace.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(events))
    return path


def test_a_recorded_step_takes_as_long_as_it_took(tmp_path: Path) -> None:
    run = load_trace(saved(tmp_path, {"schemaVersion": 1, "traceEvents": EVENTS}))
    assert run.latency_cycles == 100_000  # nanoseconds
    program, events = run.program, run.events
    names = [program.operator_names[operator] for operator in program.activities.operator[events.activity]]
    rows = zip(events.resource.tolist(), events.start_cycles.tolist(), events.end_cycles.tolist(), names, strict=True)
    tracks: dict[int, list[tuple[int, int, str]]] = {0: [], 1: []}
    for track, start, end, name in rows:
        tracks[track].append((start // 1000, end // 1000, name))
    assert tracks[0] == [
        (0, 10, "aten::mm"),
        (10, 16, "cudaLaunchKernel"),  # up to here its kernel needs it
        (16, 20, "cudaLaunchKernel"),
        (20, 30, "aten::mm"),
        (30, 50, UNRECORDED),
        (50, 55, "aten::relu"),
        (55, 60, "cudaLaunchKernel"),
        (60, 70, "aten::relu"),
        (70, 90, UNRECORDED),
        (90, 100, "aten::sum"),
    ]
    assert tracks[1] == [(16, 56, "mm_kernel"), (60, 62, UNRECORDED), (62, 72, "relu_kernel")]
    assert program.resource_names == ("python 4242", "0 stream 7")
    # From 72 to 90 us nothing runs, and nothing says why; before, something always does.
    causes = cycles_by_cause(run)
    assert (causes["compute"], causes["wait_other"], sum(causes.values())) == (82_000, 18_000, 100_000)
    assert sum(cycles_by_operator(run).values()) == 100_000
    cpu, stream = (resource.by_label() for resource in ledger(run).resources)
    assert cpu == {"compute": 60_000, "wait_other": 40_000}
    assert stream == {"compute": 50_000, "wait_tile": 20_000, "wait_other": 2_000, "drain": 28_000}
    assert [names[row] for row in critical_path(run)][-1] == "aten::sum"


def test_a_published_trace_of_a_gpu(tmp_path: Path) -> None:
    """One step of ``aten::item`` on a TITAN RTX: times of astra-sim's ace_review_2024/example3 kineto_trace.json.

    Without the day, the whole is 4534.133 to 5168.509 us: 634,376 ns.
    """
    host, stream = (1948108, 1948108), (1, 7)
    times = [
        ("aten::item", host, 4534.133, 499.388, "cpu_op"),
        ("aten::_local_scalar_dense", host, 4538.635, 486.820, "cpu_op"),
        ("Memcpy DtoH (Device -> Pinned)", stream, 4995.630, 1.344, "gpu_memcpy"),
        ("cudaMemcpyAsync", host, 4745.951, 249.130, "cuda_runtime"),
        ("cudaStreamSynchronize", host, 4995.932, 4.528, "cuda_runtime"),
        ("cudaDeviceSynchronize", host, 5157.895, 10.614, "cuda_runtime"),
        ("ProfilerStep#100", stream, 4994.630, 2.844, "gpu_user_annotation"),
    ]
    events = [{**whole(*event), "ts": event[2]} for event in times]
    for phase, number, track, at in (("f", 1, stream, 4995.630), ("s", 1, host, 4745.951), ("s", 2, host, 5157.895)):
        events.append({**arrow(phase, number, track, 0), "ts": at})
    found = load_trace(saved(tmp_path, {"schemaVersion": 1, "traceEvents": events}))
    assert found.latency_cycles == 634_376
    copies = found.events.resource == 1
    assert found.events.start_cycles[copies][-1] == 461_497  # 4995.630 - 4534.133 us
    assert found.events.end_cycles[copies][-1] == 461_497 + 1344


def test_a_longer_launch_delays_its_kernel(tmp_path: Path) -> None:
    """The arrow is a dependency: with its source 8 us longer, the kernel begins 8 us later, and what follows too."""
    run = load_trace(saved(tmp_path, EVENTS))
    activities = run.program.activities
    row = int(run.events.activity[run.events.start_cycles == 10_000][0])
    cycles = activities.cycles.copy()
    cycles[row] += 8_000
    again = accelsim.simulate(dataclasses.replace(run.program, activities=activities._replace(cycles=cycles)))
    kernels = again.events.resource == 1
    assert again.events.start_cycles[kernels].tolist() == [24_000, 68_000, 70_000]
    assert again.latency_cycles == 108_000


def test_nanoseconds_of_a_day_are_exact(tmp_path: Path) -> None:
    text = json.dumps([{**whole("a", CPU, 0, 1), "ts": 0}, {**whole("b", CPU, 0, 1), "ts": 1}])
    text = text.replace('"ts": 0', '"ts": 1700000000000000.001').replace('"ts": 1,', '"ts": 1700000000000002.004,')
    path = tmp_path / "t.json"
    path.write_text(text)
    assert load_trace(path).latency_cycles == 3_003


@pytest.mark.parametrize(
    ("second", "spans"),
    [
        ((10, 5), [("a", 0, 10), ("b", 10, 15)]),
        ((9.5, 5), [("a", 0, 9.5), ("b", 9.5, 14.5)]),  # rounded: overlaps by half a microsecond
        ((4, 6.5), [("a", 0, 4), ("b", 4, 10)]),  # rounded: outlasts what encloses it
        ((4, 2), [("a", 0, 4), ("b", 4, 6), ("a", 6, 10)]),
        ((0, 10), [("b", 0, 10)]),
        ((3, 0), [("a", 0, 10)]),
    ],
)
def test_events_of_a_track_follow_or_enclose_one_another(tmp_path: Path, second, spans) -> None:
    run = load_trace(saved(tmp_path, [whole("a", CPU, 0, 10), whole("b", CPU, *second)]))
    names = run.program.operator_names
    found: list[tuple[str, float, float]] = []
    for row, start, end in zip(run.events.activity, run.events.start_cycles, run.events.end_cycles, strict=True):
        name = names[run.program.activities.operator[row]]
        joins = found and found[-1][0] == name
        if joins:
            found[-1] = (name, found[-1][1], end / 1000)
        else:
            found.append((name, start / 1000, end / 1000))
    assert found == spans


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50), st.integers(1, 20), st.integers(0, 5)), max_size=12))
def test_any_trace_is_reproduced(tmp_path_factory: pytest.TempPathFactory, drawn) -> None:
    """Events one behind another on three tracks, arrows among them: every start comes out as recorded."""
    events, ends, starts = [], [0, 0, 0], []
    for track, gap, length, source in drawn:
        start = ends[track] + gap
        ends[track] = start + length
        events.append(whole(f"event {len(starts)}", (1, track), start, length))
        if source < len(starts) and starts[source][0] != track and starts[source][1] < start:
            events.append(arrow("s", len(events), (1, starts[source][0]), starts[source][1]))
            events.append(arrow("f", len(events) - 1, (1, track), start))
        starts.append((track, start))
    path = saved(tmp_path_factory.mktemp("kineto"), events)
    if not starts:
        with pytest.raises(FormatError, match="nothing to replay"):
            load_trace(path)
        return
    run = load_trace(path)
    origin = min(start for _, start in starts)
    assert run.latency_cycles == 1000 * (max(ends) - origin)
    names = run.program.operator_names
    for number, (_, start) in enumerate(starts):
        rows = run.program.activities.operator[run.events.activity] == names.index(f"event {number}")
        assert run.events.start_cycles[rows].min() == 1000 * (start - origin)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ({"traces": []}, "no trace that can be replayed"),
        ("a text", "no trace that can be replayed"),
        ([], "nothing to replay"),
        ([whole("a", CPU, 0, 0)], "nothing to replay"),
        ([whole("a", CPU, 0, 1), 7], r"traceEvents\[1\] is '7', must be an object"),
        ([whole("a", CPU, 0, -1)], r"traceEvents\[0\]\.dur is -1: must be microseconds from 0"),
        ([{**whole("a", CPU, 0, 1), "ts": "x"}], r"traceEvents\[0\]\.ts is x"),
        ([{**whole("a", CPU, 0, 1), "ts": float("nan")}], r"traceEvents\[0\]\.ts is nan"),
        ([{**whole("a", CPU, 0, 1), "dur": 10**300}], r"traceEvents\[0\]\.dur is 1000"),
        ([{**whole("a", CPU, 0, 1), "dur": True}], r"traceEvents\[0\]\.dur is True"),
        ([{**whole("a", CPU, 0, 1), "ph": "B"}], r"traceEvents\[0\] is half an event"),
        ([whole("a", CPU, 0, 10), whole("b", CPU, 5, 10)], r"traceEvents\[1\] \('b'\) begins 5,000 ns before the end"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, events: object, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        load_trace(saved(tmp_path, events))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    packed = gzip.compress(json.dumps(EVENTS).encode())
    (tmp_path / "good.json.gz").write_bytes(packed)
    assert load_trace(tmp_path / "good.json.gz").latency_cycles == 100_000
    for name, content in (
        ("short.json.gz", packed[:-20]),
        ("noise.json.gz", b"\x1f\x8bnoise"),
        ("no.json", b"{"),
        ("bytes.json", b"\xff\xfe\x00"),
        ("deep.json", b"[" * 100_000),
        ("huge.json", b'[{"ts": 1e%d}]' % 10**18),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(FormatError, match=name):
            load_trace(tmp_path / name)
    with pytest.raises(FormatError, match=r"missing\.json"):
        load_trace(tmp_path / "missing.json")


def test_the_commands_take_it(tmp_path: Path) -> None:
    saved(tmp_path, EVENTS, "a.json")
    saved(tmp_path, [event for event in EVENTS if event["name"] != "aten::sum"], "b.json")
    found = json.loads(in_this_process("replay", "a.json", "--out", "run", "--json", folder=tmp_path).stdout)
    assert found["latency_cycles"] == 100_000 and found["latency_seconds"] == pytest.approx(100e-6)
    assert (tmp_path / "run" / "report.html").exists()
    compared = json.loads(in_this_process("compare", "run/timeline.npz", "b.json", "--json", folder=tmp_path).stdout)
    # without the sum, the kernel of the relu ends last
    assert compared["difference"]["latency_cycles"] == 72_000 - 100_000
    assert compared["operators_only_in"] == {"a": ["aten::sum"], "b": []}
    assert in_this_process("replay", "a.json", "--set", "clock=2 GHz", folder=tmp_path, status=2).stderr


def test_a_category_may_be_anything(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(json.dumps([{**whole("mm", CPU, 0, 30), "cat": ["kernel"]}]))
    assert load_trace(path).latency_cycles == 30_000
