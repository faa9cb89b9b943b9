"""Timelines for the Perfetto viewer (https://ui.perfetto.dev), as protobuf.

Perfetto counts in nanoseconds; one cycle is written as one nanosecond, as the first process says. Each resource is a
process and each of its queues a thread, because the viewer shows those opened. A slice is an event, with all that is
known about it as arguments. An arrow leads from the cause of each event to the event, or along every dependency.
Counters show what each buffer holds and what each link moves. Names stand in the file once, and packets refer to them;
packets are written by columns (:mod:`accelsim.formats.protobuf`), descriptors with the format's own package.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    CounterDescriptor,
    DebugAnnotation,
    Trace,
    TracePacket,
    TrackEvent,
)

from accelsim.formats.protobuf import Messages, field_number
from accelsim.program.check import KIND_WORDS
from accelsim.program.tables import ActivityKind, IntColumn, ResourceKind
from accelsim.timeline.columns import event_energy_pj
from accelsim.timeline.occupancy import bin_edges, buffer_occupancy, bytes_in_bins
from accelsim.timeline.stalls import cause_events
from accelsim.timeline.table import Cause, Timeline

BANDWIDTH_SAMPLES = 1000
"""Bins in which the bandwidth of a link is averaged."""
_SEQUENCE = 1
_PACKET = {
    name: field_number(TracePacket, name)
    for name in ("timestamp", "trusted_packet_sequence_id", "sequence_flags", "track_event")
}
_EVENT = {
    name: field_number(TrackEvent, name)
    for name in (
        "type",
        "track_uuid",
        "name_iid",
        "category_iids",
        "flow_ids",
        "terminating_flow_ids",
        "debug_annotations",
        "counter_value",
        "double_counter_value",
    )
}
_ANNOTATION = {
    name: field_number(DebugAnnotation, name) for name in ("name_iid", "string_value_iid", "int_value", "double_value")
}
_ARGUMENTS = (
    "kind",
    "cause",
    "ready_cycles",
    "finish_cycles",
    "operator",
    "tensor",
    "bytes",
    "macs",
    "vector_ops",
    "energy_pj",
    "tile",
)
"""What a slice tells, in this order; where it is not known, or not positive, it is left out."""


def write_perfetto(timeline: Timeline, dependencies: bool = False) -> bytes:
    """The trace as bytes. With ``dependencies`` the arrows are all edges of the program, else the causes."""
    arrows = _arrows_of_dependencies(timeline) if dependencies else _arrows_of_causes(timeline)
    return b"".join(
        [
            bytes(_Tracks(timeline).trace.SerializeToString(deterministic=True)),
            _slices(timeline, *arrows).to_bytes(),
            *_counters(timeline),
        ]
    )


class _Tracks:
    """A trace with its processes and threads declared."""

    def __init__(self, timeline: Timeline) -> None:
        program = timeline.program
        self.trace = Trace()
        title = " on ".join(str(program.facts[name]) for name in ("workload", "hardware") if name in program.facts)
        first = self._process(0, f"{title or 'accelsim'} (1 ns = 1 cycle)")
        first.process.process_labels.append("accelsim timeline: 1 ns is 1 cycle")
        for resource, name in enumerate(program.resource_names):
            self._process(resource + 1, _text(name))
        for queue, name in enumerate(program.queue_names):
            process = int(program.queues.resource[queue]) + 1
            track = self.trace.packet.add(trusted_packet_sequence_id=_SEQUENCE).track_descriptor
            track.uuid, track.parent_uuid = queue_track(queue), process_track(process)
            track.thread.pid, track.thread.tid, track.thread.thread_name = process + 1, queue + 1, _text(name)
        names = self.trace.packet.add(trusted_packet_sequence_id=_SEQUENCE)
        names.sequence_flags = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        for of, texts in (
            (names.interned_data.event_names, _strings(timeline)),
            (names.interned_data.event_categories, _kinds()),
            (names.interned_data.debug_annotation_names, _ARGUMENTS),
        ):
            for number, text in enumerate(texts, start=1):
                of.add(iid=number, name=text)
        for number, text in enumerate(_strings(timeline), start=1):
            names.interned_data.debug_annotation_string_values.add(iid=number, str=text.encode())

    def _process(self, number: int, name: str) -> Any:
        packet = self.trace.packet.add(trusted_packet_sequence_id=_SEQUENCE)
        packet.track_descriptor.uuid = process_track(number)
        packet.track_descriptor.process.pid = number + 1  # 0 is taken for the idle process
        packet.track_descriptor.process.process_name = _text(name)
        return packet.track_descriptor


def process_track(number: int) -> int:
    """Identity of the track of a process: 0 is the run with its counters, 1 the first resource …"""
    return (1 << 32) + number


def queue_track(queue: int) -> int:
    """Identity of the track of a queue."""
    return (2 << 32) + queue


def counter_track(number: int) -> int:
    """Identity of the track of a counter: buffers first, then links."""
    return (3 << 32) + number


def _kinds() -> list[str]:
    return [KIND_WORDS[kind] for kind in ActivityKind]


def _causes() -> list[str]:
    return [cause.name.lower() for cause in Cause]


def _strings(timeline: Timeline) -> list[str]:
    """All texts of slices: a text's identity is its place here, from 1. Kinds, causes, operators, tensors."""
    program = timeline.program
    return [*_kinds(), *_causes(), *map(_text, program.operator_names), *map(_text, program.tensor_names)]


Arrows = tuple[IntColumn, IntColumn]
"""Rows of the events where arrows begin, and where they end."""


def _arrows_of_causes(timeline: Timeline) -> Arrows:
    """To each event from the one that let it start."""
    sources = cause_events(timeline)
    targets = np.flatnonzero(sources >= 0)
    return sources[targets], targets


def _arrows_of_dependencies(timeline: Timeline) -> Arrows:
    """From the last event of what must have finished, to the first event of what depends on it."""
    activity, size = timeline.events.activity, timeline.program.size
    first, last = np.zeros((2, size), dtype=np.int64)
    first[activity[::-1]] = np.arange(len(activity))[::-1]
    last[activity] = np.arange(len(activity))
    edges = timeline.program.dependencies
    return last[edges.before], first[edges.after]


def _packets(cycles: IntColumn, events: Messages) -> Messages:
    """A packet at each cycle with an event in it."""
    packets = Messages(len(cycles)).varint(_PACKET["timestamp"], cycles)
    packets.varint(_PACKET["trusted_packet_sequence_id"], _SEQUENCE)
    packets.varint(_PACKET["sequence_flags"], TracePacket.SEQ_NEEDS_INCREMENTAL_STATE)
    return packets.message(_PACKET["track_event"], events)


def _slices(timeline: Timeline, sources: IntColumn, targets: IntColumn) -> Messages:
    """For each event two packets, its begin and its end."""
    events, count = timeline.events, len(timeline.events.activity)
    track, kind = queue_track(0) + events.queue, timeline.program.activities.kind[events.activity]
    strings = _string_columns(timeline)
    name = np.where(strings["tensor"] > 0, strings["tensor"], strings["operator"])
    begin = Messages(count).varint(_EVENT["type"], TrackEvent.TYPE_SLICE_BEGIN).varint(_EVENT["track_uuid"], track)
    begin.varint(_EVENT["name_iid"], np.where(name > 0, name, strings["kind"]))
    begin.varint(_EVENT["category_iids"], kind + 1)
    number = np.arange(1, len(sources) + 1)
    for field, ends in (("flow_ids", sources), ("terminating_flow_ids", targets)):
        order = np.argsort(ends, kind="stable")
        begin.repeated_fixed64(_EVENT[field], ends[order], number[order].astype(np.uint64))
    _annotate(begin, timeline, strings)
    end = Messages(count).varint(_EVENT["type"], TrackEvent.TYPE_SLICE_END).varint(_EVENT["track_uuid"], track)
    packet = field_number(Trace, "packet")
    pairs = Messages(count).message(packet, _packets(events.start_cycles, begin))
    return pairs.message(packet, _packets(events.end_cycles, end))


def _string_columns(timeline: Timeline) -> dict[str, IntColumn]:
    """For each event the identities of its texts in :func:`_strings`; 0 for none."""
    program, activity = timeline.program, timeline.events.activity
    activities, at = program.activities, 1
    found = {}
    for name, rows, count in (
        ("kind", activities.kind[activity], len(ActivityKind)),
        ("cause", timeline.events.cause, len(Cause)),
        ("operator", activities.operator[activity], len(program.operator_names)),
        ("tensor", activities.tensor[activity], len(program.tensor_names)),
    ):
        found[name] = np.where(rows >= 0, rows + at, 0)
        at += count
    return found


def _annotate(begin: Messages, timeline: Timeline, strings: dict[str, IntColumn]) -> None:
    """The arguments of the slices."""
    events, activities = timeline.events, timeline.program.activities
    activity, count = events.activity, len(events.activity)
    numbers = {
        "ready_cycles": (events.ready_cycles, None),
        "finish_cycles": (events.finish_cycles, None),
        "tile": (activities.tile[activity], activities.tile[activity] >= 0),
    }
    positive = {"bytes": events.bytes, "macs": activities.macs[activity], "vector_ops": activities.vector_ops[activity]}
    numbers |= {name: (values, values > 0) for name, values in positive.items()}
    for number, name in enumerate(_ARGUMENTS, start=1):
        annotation = Messages(count).varint(_ANNOTATION["name_iid"], number)
        where: npt.NDArray[np.bool_] | None
        if name in strings:
            where = strings[name] > 0
            annotation.varint(_ANNOTATION["string_value_iid"], strings[name])
        elif name in numbers:
            values, where = numbers[name]
            annotation.varint(_ANNOTATION["int_value"], np.maximum(values, 0))
        else:
            energy = event_energy_pj(timeline)
            where = energy > 0
            annotation.double(_ANNOTATION["double_value"], energy)
        begin.message(_EVENT["debug_annotations"], annotation, where)


def _counters(timeline: Timeline) -> list[bytes]:
    """What each buffer holds and what each link moves, and each queue of a link that has several."""
    program, events = timeline.program, timeline.events
    found: list[bytes] = []
    for buffer, name in enumerate(program.buffer_names):
        held = buffer_occupancy(timeline, buffer)
        unit = CounterDescriptor.UNIT_SIZE_BYTES
        found += _counter(len(found) // 2, f"bytes in {name}", unit, held.cycles, held.values)
    edges = bin_edges(timeline, BANDWIDTH_SAMPLES)
    for resource in np.flatnonzero(program.resources.kind == ResourceKind.LINK).tolist():
        queues = np.flatnonzero(program.queues.resource == resource).tolist()
        tracks = {f"over {program.resource_names[resource]}": events.resource == resource}
        if len(queues) > 1:
            tracks |= {f"of {program.queue_names[queue]}": events.queue == queue for queue in queues}
        for name, chosen in tracks.items():
            rate = np.append(bytes_in_bins(timeline, chosen, edges) / np.maximum(np.diff(edges), 1), 0.0)
            unit = CounterDescriptor.UNIT_UNSPECIFIED
            found += _counter(len(found) // 2, f"bytes per cycle {name}", unit, edges, rate)
    return found


def _counter(number: int, name: str, unit: int, cycles: IntColumn, values: npt.NDArray[Any]) -> Sequence[bytes]:
    """The track, and its values where they change."""
    trace = Trace()
    track = trace.packet.add(trusted_packet_sequence_id=_SEQUENCE).track_descriptor
    track.uuid, track.parent_uuid, track.name = counter_track(number), process_track(0), _text(name)
    track.counter.unit = unit
    changed = np.concatenate([[True], values[1:] != values[:-1]])
    cycles, values = cycles[changed], values[changed]
    events = Messages(len(cycles)).varint(_EVENT["type"], TrackEvent.TYPE_COUNTER)
    events.varint(_EVENT["track_uuid"], counter_track(number))
    if values.dtype.kind == "f":
        events.double(_EVENT["double_counter_value"], values)
    else:
        events.varint(_EVENT["counter_value"], values)
    packets = Messages(len(cycles)).message(field_number(Trace, "packet"), _packets(cycles, events))
    return [bytes(trace.SerializeToString(deterministic=True)), packets.to_bytes()]


def _text(text: str) -> str:
    """Names as protobuf can hold them: without lone surrogates."""
    return text.encode(errors="replace").decode()
