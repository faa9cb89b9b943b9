"""Exports of timelines, read back with the formats' own parsers and counted."""

import csv
import dataclasses
import io
import json

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from accelsim.engine import simulate
from accelsim.errors import InputError, UnknownName
from accelsim.formats import FORMATS, export_timeline
from accelsim.formats.chrome_json import write_chrome_json
from accelsim.formats.events_csv import write_events_csv
from accelsim.formats.perfetto import write_perfetto
from tests.strategies.programs import Dice, legal_program
from tests.timelines import worked_example


def parsed(timeline, **options):
    trace = Trace()
    trace.ParseFromString(write_perfetto(timeline, **options))
    return trace.packet


def track_events(packets, kind):
    return [packet for packet in packets if packet.HasField("track_event") and packet.track_event.type == kind]


def slices(packets):
    """(track, start, end, begin event) of each slice, opened and closed as a viewer does it; they must nest."""
    found, open_on = [], {}
    for packet in packets:
        event = packet.track_event
        if packet.HasField("track_event") and event.type == TrackEvent.TYPE_SLICE_BEGIN:
            assert event.track_uuid not in open_on, "a lane must be free before its next slice"
            open_on[event.track_uuid] = packet
        elif packet.HasField("track_event") and event.type == TrackEvent.TYPE_SLICE_END:
            begin = open_on.pop(event.track_uuid)
            assert begin.timestamp <= packet.timestamp
            found.append((event.track_uuid, begin.timestamp, packet.timestamp, begin.track_event))
    assert not open_on
    return found


def test_slices_are_the_events():
    packets = parsed(worked_example())
    tracks = {packet.track_descriptor.uuid: packet.track_descriptor for packet in packets}
    found = [(tracks[track].thread.thread_name, start, end, event.name) for track, start, end, event in slices(packets)]
    assert found == [
        ("dram", 0, 20, "A.weights"),
        ("dram", 20, 30, "input 1"),
        ("core", 30, 60, "A"),
        ("dram", 30, 40, "B.weights"),
        ("core", 60, 80, "B"),
        ("dram", 60, 70, "input 2"),
        ("core", 80, 110, "A"),
        ("core", 110, 130, "B"),
        ("dram", 110, 170, "C.weights"),
        ("core", 170, 210, "C"),
        ("dram", 210, 230, "C"),
    ]


def test_arguments_of_a_slice():
    values = {}
    for annotation in slices(parsed(worked_example()))[2][3].debug_annotations:
        values[annotation.name] = getattr(annotation, annotation.WhichOneof("value"))
    assert values == {
        "kind": "tile",
        "cause": "load",
        "ready_cycles": 30,
        "finish_cycles": 60,
        "operator": "A",
        "macs": 3000,
        "energy_pj": 1.5,
        "tile": 0,
    }


def test_processes_are_resources_and_the_first_names_the_unit_of_time():
    descriptors = [packet.track_descriptor for packet in parsed(worked_example())]
    processes = [one for one in descriptors if one.HasField("process")]
    assert [one.process.process_name for one in processes] == [
        "worked on example (1 ns = 1 cycle)",
        "core",
        "dram",
    ]
    assert list(processes[0].process.process_labels) == ["accelsim timeline: 1 ns is 1 cycle"]
    assert all(one.process.pid > 0 for one in processes)
    threads = [one for one in descriptors if one.HasField("thread")]
    assert [(one.parent_uuid, one.thread.pid) for one in threads] == [
        (processes[1].uuid, processes[1].process.pid),
        (processes[2].uuid, processes[2].process.pid),
    ]
    uuids = [one.uuid for one in descriptors if one.uuid]
    assert len(set(uuids)) == len(uuids)


def arrows(packets):
    """(name of the source, name of the target) of each arrow; each must have one end of each kind."""
    sources, targets = {}, {}
    for _, start, _, event in slices(packets):
        for flow in event.flow_ids:
            assert flow not in sources
            sources[flow] = (start, event.name)
        for flow in event.terminating_flow_ids:
            assert flow not in targets
            targets[flow] = (start, event.name)
    assert sources.keys() == targets.keys()
    assert all(sources[flow][0] <= targets[flow][0] for flow in sources)
    return sorted((sources[flow][1], targets[flow][1]) for flow in sources)


def test_an_arrow_from_each_cause():
    assert len(arrows(parsed(worked_example()))) == 10  # all events but the first have waited for something
    assert ("C.weights", "C") in arrows(parsed(worked_example()))


def test_an_arrow_along_each_dependency():
    assert arrows(parsed(worked_example(), dependencies=True)) == sorted(
        [
            ("A.weights", "A"),
            ("input 1", "A"),
            ("B.weights", "B"),
            ("input 2", "A"),
            ("C.weights", "C"),
            ("A", "input 2"),
            ("A", "C.weights"),
            ("C", "C"),
        ]
    )


def test_counters_show_buffers_and_links():
    packets = parsed(worked_example())
    names = {
        packet.track_descriptor.uuid: packet.track_descriptor.name
        for packet in packets
        if packet.track_descriptor.HasField("counter")
    }
    assert list(names.values()) == ["bytes in global", "bytes per cycle over dram"]
    held, moved = [], []
    for packet in track_events(packets, TrackEvent.TYPE_COUNTER):
        event = packet.track_event
        if names[event.track_uuid] == "bytes in global":
            held.append((packet.timestamp, event.counter_value))
        else:
            moved.append((packet.timestamp, event.double_counter_value))
    # Equal neighbours (80: one tensor for another of its size) are written once.
    assert held == [(0, 480), (30, 800), (60, 960), (110, 1600), (130, 1280), (170, 1600), (210, 320), (230, 0)]
    assert moved == [(0, 16), (40, 0), (60, 16), (70, 0), (110, 16), (170, 0), (210, 16), (230, 0)]


@pytest.mark.parametrize("seed", range(10))
def test_slices_nest_and_arrows_pair_in_any_run(seed):
    timeline = simulate(legal_program(Dice(seed), 200))
    for dependencies in (False, True):
        packets = parsed(timeline, dependencies=dependencies)
        assert len(slices(packets)) == len(timeline.events.activity)
        found = len(arrows(packets))
        edges = timeline.program.dependencies
        assert found == (len(edges.before) if dependencies else int((timeline.events.cause_activity >= 0).sum()))


@pytest.mark.parametrize("write", [write_perfetto, write_chrome_json, write_events_csv])
def test_equal_timelines_are_equal_bytes_and_odd_names_do_no_harm(write):
    timeline = worked_example()
    assert write(timeline) == write(worked_example())
    odd = dataclasses.replace(timeline.program, operator_names=("\ud800", 'a,"b"', "c\nd"))
    assert write(dataclasses.replace(timeline, program=odd))


def test_chrome_json():
    content = json.loads(write_chrome_json(worked_example()))
    assert content["otherData"]["clock"] == "1 ns is 1 cycle"
    names = {event["args"]["name"] for event in content["traceEvents"] if event["ph"] == "M"}
    assert names == {"core", "dram"}
    complete = [event for event in content["traceEvents"] if event["ph"] == "X"]
    assert [(event["ts"], event["dur"], event["name"]) for event in complete[:3]] == [
        (0, 0.02, "A.weights"),
        (0.02, 0.01, "input 1"),
        (0.03, 0.03, "A"),
    ]
    assert sum(event["args"]["bytes"] for event in complete) == 2080


def test_csv_has_a_line_for_each_event():
    rows = list(csv.DictReader(io.StringIO(write_events_csv(worked_example()).decode())))
    assert len(rows) == 11
    assert (rows[2]["start_cycles"], rows[2]["operator"], rows[2]["cause"], rows[2]["tensor"]) == (
        "30",
        "A",
        "load",
        "",
    )
    assert sum(int(row["bytes"]) for row in rows) == 2080


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_written_whole(name, tmp_path):
    export_timeline(worked_example(), tmp_path / "out", name)
    assert (tmp_path / "out").stat().st_size > 500
    with pytest.raises(InputError):
        export_timeline(worked_example(), tmp_path / "missing" / "out", name)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_unknown_format_is_answered_with_the_nearest(tmp_path):
    with pytest.raises(UnknownName, match=r"no format 'perfeto' \(did you mean 'perfetto'\?\)"):
        export_timeline(worked_example(), tmp_path / "out", "perfeto")
