"""Timelines for the Perfetto viewer (https://ui.perfetto.dev), as protobuf.

Perfetto counts in nanoseconds; one cycle is written as one nanosecond, as the first process says. Each resource is a
process and each of its queues a thread, because the viewer shows those opened. A slice is an event, with all that is
known about it as arguments. An arrow leads from the cause of each event to the event, or along every dependency.
Counters show what each buffer holds and what each link moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import CounterDescriptor, Trace, TrackEvent

from accelsim.program.tables import IntColumn, ResourceKind
from accelsim.timeline.columns import event_columns
from accelsim.timeline.contention import bandwidth_by_queue
from accelsim.timeline.occupancy import bin_edges, buffer_occupancy, bytes_in_bins
from accelsim.timeline.stalls import cause_events
from accelsim.timeline.table import Timeline

BANDWIDTH_SAMPLES = 1000
"""Bins in which the bandwidth of a link is averaged."""
_SEQUENCE = 1
_SHOWN_ALWAYS = ("kind", "cause", "ready_cycles", "finish_cycles")
_SHOWN_IF_KNOWN = ("operator", "tensor")
_SHOWN_IF_POSITIVE = ("bytes", "macs", "vector_ops", "energy_pj")


def write_perfetto(timeline: Timeline, dependencies: bool = False) -> bytes:
    """The trace as bytes. With ``dependencies`` the arrows are all edges of the program, else the causes."""
    trace = _Tracks(timeline).trace
    _add_slices(trace, timeline, _arrows_of_dependencies(timeline) if dependencies else _arrows_of_causes(timeline))
    _add_counters(trace, timeline)
    return bytes(trace.SerializeToString(deterministic=True))


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

    def _process(self, number: int, name: str) -> Any:
        packet = self.trace.packet.add(trusted_packet_sequence_id=_SEQUENCE)
        if not number:
            packet.sequence_flags = packet.SEQ_INCREMENTAL_STATE_CLEARED
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


def _arrows_of_causes(timeline: Timeline) -> Iterator[tuple[int, int]]:
    """To each event from the one that let it start."""
    return ((source, target) for target, source in enumerate(cause_events(timeline).tolist()) if source >= 0)


def _arrows_of_dependencies(timeline: Timeline) -> Iterator[tuple[int, int]]:
    """From the last event of what must have finished, to the first event of what depends on it."""
    activity, size = timeline.events.activity, timeline.program.size
    first, last = np.zeros((2, size), dtype=np.int64)
    first[activity[::-1]] = np.arange(len(activity))[::-1]
    last[activity] = np.arange(len(activity))
    edges = timeline.program.dependencies
    return zip(last[edges.before].tolist(), first[edges.after].tolist(), strict=True)


def _add_slices(trace: Any, timeline: Timeline, arrows: Iterator[tuple[int, int]]) -> None:
    leaving: dict[int, list[int]] = {}
    arriving: dict[int, list[int]] = {}
    for number, (source, target) in enumerate(arrows, start=1):
        leaving.setdefault(source, []).append(number)
        arriving.setdefault(target, []).append(number)
    columns = event_columns(timeline)
    plain = [values if isinstance(values, list) else values.tolist() for values in columns.values()]
    for row, (queue, *values) in enumerate(zip(timeline.events.queue.tolist(), *plain, strict=True)):
        shown = dict(zip(columns, values, strict=True))
        begin = trace.packet.add(timestamp=shown["start_cycles"], trusted_packet_sequence_id=_SEQUENCE).track_event
        begin.type, begin.track_uuid = TrackEvent.TYPE_SLICE_BEGIN, queue_track(queue)
        begin.name = _text(shown["tensor"] or shown["operator"] or shown["kind"])
        begin.categories.append(shown["kind"])
        begin.flow_ids.extend(leaving.get(row, ()))
        begin.terminating_flow_ids.extend(arriving.get(row, ()))
        _annotate(begin, shown)
        end = trace.packet.add(timestamp=shown["end_cycles"], trusted_packet_sequence_id=_SEQUENCE).track_event
        end.type, end.track_uuid = TrackEvent.TYPE_SLICE_END, queue_track(queue)


def _annotate(event: Any, shown: dict[str, Any]) -> None:
    names = list(_SHOWN_ALWAYS)
    names += [name for name in _SHOWN_IF_KNOWN if shown[name]]
    names += [name for name in _SHOWN_IF_POSITIVE if shown[name] > 0]
    names += ["tile"] if shown["tile"] >= 0 else []
    for name in names:
        value = shown[name]
        annotation = event.debug_annotations.add(name=name)
        if isinstance(value, str):
            annotation.string_value = _text(value)
        elif isinstance(value, float):
            annotation.double_value = value
        else:
            annotation.int_value = value


def _add_counters(trace: Any, timeline: Timeline) -> None:
    program, events = timeline.program, timeline.events
    number = 0
    for buffer, name in enumerate(program.buffer_names):
        held = buffer_occupancy(timeline, buffer)
        _add_counter(trace, number, f"bytes in {name}", CounterDescriptor.UNIT_SIZE_BYTES, held.cycles, held.values)
        number += 1
    edges = bin_edges(timeline, BANDWIDTH_SAMPLES)
    for resource in np.flatnonzero(program.resources.kind == ResourceKind.LINK).tolist():
        moved = bytes_in_bins(timeline, events.resource == resource, edges)
        rate = np.append(moved / np.maximum(np.diff(edges), 1), 0.0)
        name = f"bytes per cycle over {program.resource_names[resource]}"
        _add_counter(trace, number, name, CounterDescriptor.UNIT_UNSPECIFIED, edges, rate)
        number += 1
    shared = np.bincount(program.queues.resource, minlength=len(program.resource_names)) > 1
    moved_by = bandwidth_by_queue(timeline, BANDWIDTH_SAMPLES)
    for queue, moved in zip(moved_by.queues, moved_by.bytes, strict=True):
        resource = program.queues.resource[queue]
        if shared[resource]:
            name = f"bytes per cycle over {program.resource_names[resource]} by {program.queue_names[queue]}"
            rate = np.append(moved / np.maximum(np.diff(edges), 1), 0.0)
            _add_counter(trace, number, name, CounterDescriptor.UNIT_UNSPECIFIED, edges, rate)
            number += 1


def _add_counter(
    trace: Any, number: int, name: str, unit: int, cycles: IntColumn, values: np.typing.NDArray[Any]
) -> None:
    track = trace.packet.add(trusted_packet_sequence_id=_SEQUENCE).track_descriptor
    track.uuid, track.parent_uuid, track.name = counter_track(number), process_track(0), _text(name)
    track.counter.unit = unit
    changed = np.concatenate([[True], values[1:] != values[:-1]])
    for cycle, value in zip(cycles[changed].tolist(), values[changed].tolist(), strict=True):
        event = trace.packet.add(timestamp=cycle, trusted_packet_sequence_id=_SEQUENCE).track_event
        event.type, event.track_uuid = TrackEvent.TYPE_COUNTER, counter_track(number)
        if isinstance(value, float):
            event.double_counter_value = value
        else:
            event.counter_value = value


def _text(text: str) -> str:
    """Names as protobuf can hold them: without lone surrogates."""
    return text.encode(errors="replace").decode()
