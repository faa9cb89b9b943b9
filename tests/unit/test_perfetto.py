"""Exports of timelines, read back with the formats' own parsers and counted."""

import csv
import dataclasses
import io
import json
import sys

import numpy as np
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from accelsim.engine import simulate
from accelsim.errors import InputError, MissingExtra, UnknownName
from accelsim.formats import FORMATS, export_timeline
from accelsim.formats.chrome_json import write_chrome_json
from accelsim.formats.events_csv import write_events_csv
from accelsim.formats.perfetto import write_perfetto
from accelsim.formats.protobuf import Messages
from accelsim.program.tables import Arbitration
from accelsim.timeline.columns import event_columns
from tests.strategies.programs import Dice, Draft, legal_program
from tests.timelines import worked_example


def parsed(timeline, **options):
    """The packets, with the names put in that they refer to."""
    trace = Trace()
    trace.ParseFromString(write_perfetto(timeline, **options))
    (names,) = [packet for packet in trace.packet if packet.HasField("interned_data")]
    assert names.sequence_flags == names.SEQ_INCREMENTAL_STATE_CLEARED
    interned = {
        field.name: {
            entry.iid: entry.str.decode() if field.name.endswith("values") else entry.name for entry in entries
        }
        for field, entries in names.interned_data.ListFields()
    }
    behind = False
    for packet in trace.packet:
        behind |= packet is names
        if not packet.HasField("track_event"):
            continue
        assert behind and packet.sequence_flags == packet.SEQ_NEEDS_INCREMENTAL_STATE
        assert packet.trusted_packet_sequence_id == names.trusted_packet_sequence_id
        event = packet.track_event
        if event.name_iid:
            event.name = interned["event_names"][event.name_iid]
            event.categories.extend(interned["event_categories"][iid] for iid in event.category_iids)
        for one in event.debug_annotations:
            one.name = interned["debug_annotation_names"][one.name_iid]
            if one.HasField("string_value_iid"):
                one.string_value = interned["debug_annotation_string_values"][one.string_value_iid]
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
    assert [list(event.categories) for _, _, _, event in slices(parsed(worked_example()))[:3]] == [
        ["load"],
        ["load"],
        ["tile"],
    ]


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


def test_a_link_with_several_queues_shows_each_of_them():
    """Their values are the bytes of the queue over the bins; the link's are their sum."""
    draft = Draft()
    core, link = draft.queue(draft.core()), draft.link(16, arbitration=Arbitration.ROUND_ROBIN)
    first, second = draft.queue(link), draft.queue(link)
    draft.tile(core, 40, draft.load(first, 320), draft.store(second, 160))
    packets = parsed(simulate(draft.program()))
    names = {
        p.track_descriptor.uuid: p.track_descriptor.name for p in packets if p.track_descriptor.HasField("counter")
    }
    begin: dict[str, float] = {}
    for packet in track_events(packets, TrackEvent.TYPE_COUNTER):
        begin.setdefault(names[packet.track_event.track_uuid], packet.track_event.double_counter_value)
    over, *of = (name for name in begin if name.startswith("bytes per cycle"))
    assert over.startswith("bytes per cycle over") and len(of) == 2
    assert begin[over] == 16 and sum(begin[name] for name in of) == 16


@pytest.mark.parametrize("seed", range(10))
def test_slices_nest_and_arrows_pair_in_any_run(seed):
    timeline = simulate(legal_program(Dice(seed), 200))
    for dependencies in (False, True):
        packets = parsed(timeline, dependencies=dependencies)
        assert len(slices(packets)) == len(timeline.events.activity)
        found = len(arrows(packets))
        edges = timeline.program.dependencies
        assert found == (len(edges.before) if dependencies else int((timeline.events.cause_activity >= 0).sum()))


def test_messages_by_columns_are_those_of_the_formats_own_encoder():
    random = np.random.default_rng(0)
    count = 200
    numbers = random.integers(0, 1 << 62, count) >> random.integers(0, 62, count)
    energies = random.normal(size=count)
    known = random.random(count) < 0.5
    owners = np.sort(random.integers(0, count, 150))
    flows = random.integers(1, 1 << 60, 150).astype(np.uint64)
    annotation = Messages(count).varint(1, 7).double(5, energies, known)
    events = Messages(count).varint(11, numbers).message(4, annotation, known).repeated_fixed64(47, owners, flows)
    wanted = Trace()
    for row in range(count):
        event = wanted.packet.add().track_event
        event.track_uuid = numbers[row]
        if known[row]:
            event.debug_annotations.add(name_iid=7, double_value=energies[row])
        event.flow_ids.extend(flows[owners == row].tolist())
    found = Trace()
    found.ParseFromString(Messages(count).message(1, Messages(count).message(11, events)).to_bytes())
    assert found == wanted
    assert Messages(0).varint(1, 5).to_bytes() == b""


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
    # Flows: one from the event that let another one start, by the columns of both.
    rows = [event["args"] for event in complete]
    place = {
        row["activity"]: (event["pid"], event["tid"], event["ts"]) for event, row in zip(complete, rows, strict=True)
    }
    flows = {ph: [event for event in content["traceEvents"] if event["ph"] == ph] for ph in "sf"}
    caused = [row for row in rows if row["cause_activity"] >= 0]
    assert len(place) == len(rows) == 11
    for begin, end, row in zip(flows["s"], flows["f"], caused, strict=True):
        assert begin["id"] == end["id"]
        assert (begin["name"], end["bp"]) == (row["cause"], "e")
        assert (begin["pid"], begin["tid"], begin["ts"]) == place[row["cause_activity"]]
        assert (end["pid"], end["tid"], end["ts"]) == place[row["activity"]]


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
    if name == "parquet":
        pytest.importorskip("pyarrow", reason="Parquet needs the extra 'dataframe'")
    export_timeline(worked_example(), tmp_path / "out", name)
    assert (tmp_path / "out").stat().st_size > 500
    with pytest.raises(InputError):
        export_timeline(worked_example(), tmp_path / "missing" / "out", name)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_parquet_holds_the_columns_of_the_data_frame(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs the extra 'dataframe'")
    for timeline in (worked_example(), simulate(legal_program(Dice(3), 80)), simulate(Draft().program())):
        export_timeline(timeline, tmp_path / "out.parquet", "parquet")
        found = parquet.read_table(tmp_path / "out.parquet")
        for name, values in event_columns(timeline).items():
            wanted = values if isinstance(values, list) else values.tolist()
            assert found.column(name).to_pylist() == wanted
        metadata = {key.decode(): value.decode() for key, value in found.schema.metadata.items()}
        assert json.loads(metadata["facts"]) == timeline.program.facts
        assert metadata["latency_cycles"] == str(timeline.latency_cycles)
        first = (tmp_path / "out.parquet").read_bytes()
        export_timeline(timeline, tmp_path / "out.parquet", "parquet")
        assert (tmp_path / "out.parquet").read_bytes() == first


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"accelsim\[dataframe\]"):
        export_timeline(worked_example(), tmp_path / "out.parquet", "parquet")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_format_is_answered_with_the_nearest(tmp_path):
    with pytest.raises(UnknownName, match=r"no format 'perfeto' \(did you mean 'perfetto'\?\)"):
        export_timeline(worked_example(), tmp_path / "out", "perfeto")
