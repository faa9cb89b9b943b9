"""Traces of PyTorch's profiler (Kineto; Chrome's trace event format, JSON): a Program that runs as it was recorded.

Each track (process and thread, or GPU stream) becomes a core with one queue, each recorded event a tile as long as it
took; an event within another one interrupts it. Flow arrows (a launch and its kernel) become dependencies. Time that a
track spends idle, and that neither its last event nor an arrow explains, becomes a tile :data:`UNRECORDED`, so that a
replay takes as long as the recording. One cycle is one nanosecond.

What the format does not say is not guessed: a wait for a GPU keeps its recorded length, and there are no bytes, shapes
or buffers. Annotations and Python frames, which surround the work and do none, are left out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from decimal import Decimal
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from accelsim.errors import FormatError
from accelsim.program.tables import ActivityKind, DependencyTable, Program
from accelsim.program.trace_program import TraceRows, trace_program
from accelsim.timeline.stalls import UNRECORDED

LEFT_OUT = frozenset({"user_annotation", "gpu_user_annotation", "python_function", "Trace", "overhead"})
ROUNDING_NS = 1000
"""By so much an event may outlast the one around it: recorders round."""

_LATEST_US = 4 * 10**15
"""No time of day before 2096 is later."""

_Track = tuple[str, str]


class Span(NamedTuple):
    """A recorded event, in nanoseconds, with the number that it has in the file."""

    start: int
    end: int
    name: str
    number: int


class Piece(NamedTuple):
    """A stretch in which a track does one thing."""

    start: int
    end: int
    name: str
    number: int
    """Of the event."""


class _Arrow(NamedTuple):
    """An end of a flow arrow."""

    track: _Track
    at: int


class _Trace(NamedTuple):
    """What stands in the file, by track."""

    spans: dict[_Track, list[Span]]
    labels: dict[tuple[str, ...], str]
    """Names of processes (one id) and of threads (two)."""
    tails: dict[tuple[str, str], _Arrow]
    heads: list[tuple[tuple[str, str], _Arrow]]


def kineto_program(content: Any, path: Path) -> Program:
    """The Program of a trace's JSON, ``content``; ``path`` is the file that it comes from.

    Arrows that begin where nothing runs, or that lead back in time (the clocks of CPU and GPU differ), are left out.

    Raises:
        FormatError: it contradicts itself; with the number of the event.
    """
    events = content.get("traceEvents") if isinstance(content, dict) else content
    try:
        if not isinstance(events, list):
            raise FormatError(f"traceEvents is {str(events)[:40]!r}, must be a list")
        trace = _sorted_out(events)
        pieces = {track: flat for track, found in trace.spans.items() if (flat := flattened(found))}
        if not pieces:
            raise FormatError("it has no whole events (ph 'X') of work that take time: nothing to replay")
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
    return _program(pieces, _waits(trace, pieces), trace.labels, path.name.split(".json")[0])


def _sorted_out(events: list[Any]) -> _Trace:
    trace = _Trace({}, {}, {}, [])
    for number, event in enumerate(events):
        if not isinstance(event, dict):
            raise FormatError(f"traceEvents[{number}] is {str(event)[:40]!r}, must be an object")
        phase, track = event.get("ph"), (str(event.get("pid")), str(event.get("tid")))
        if phase in ("B", "E"):
            raise FormatError(
                f"traceEvents[{number}] is half an event (ph {phase!r}); only whole ones (ph 'X') are read"
            )
        if phase == "X" and str(event.get("cat")) not in LEFT_OUT:
            start, length = _nanoseconds(event, "ts", number), _nanoseconds(event, "dur", number)
            span = Span(start, start + length, str(event.get("name", "(unnamed)")), number)
            trace.spans.setdefault(track, []).append(span)
        elif phase == "M" and event.get("name") in ("process_name", "thread_name"):
            arguments = event.get("args")
            name = arguments.get("name") if isinstance(arguments, dict) else None
            trace.labels[track if event["name"] == "thread_name" else track[:1]] = str(name)
        elif phase in ("s", "f"):
            key, arrow = (str(event.get("cat")), str(event.get("id"))), _Arrow(track, _nanoseconds(event, "ts", number))
            if phase == "s":
                trace.tails[key] = arrow
            else:
                trace.heads.append((key, arrow))
    return trace


def profiled_spans(content: Any, path: Path) -> list[tuple[str, int, Span, bool]]:
    """The events that carry a "Record function id": the thread, that id, when, and whether it is work (no annotation).

    Raises:
        FormatError: it is no trace of PyTorch's profiler, or an event is not what it should be.
    """
    events = content.get("traceEvents") if isinstance(content, dict) else None
    if not isinstance(events, list):
        raise FormatError(f"{path}: no trace of PyTorch's profiler: it has no list 'traceEvents'")
    found = []
    for number, event in enumerate(events):
        arguments = event.get("args") if isinstance(event, dict) and event.get("ph") == "X" else None
        record = arguments.get("Record function id") if isinstance(arguments, dict) else None
        if isinstance(record, int) and record > 0:
            try:
                start, length = _nanoseconds(event, "ts", number), _nanoseconds(event, "dur", number)
            except FormatError as error:
                raise FormatError(f"{path}: {error}") from None
            span = Span(start, start + length, str(event.get("name")), number)
            found.append((str(event.get("tid")), record, span, str(event.get("cat")) not in LEFT_OUT))
    return found


def _nanoseconds(event: dict[str, Any], field: str, number: int) -> int:
    """A field in microseconds, exactly: times of day have more digits than a float."""
    value = event.get(field)
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not 0 <= value < _LATEST_US:
        raise FormatError(
            f"traceEvents[{number}].{field} is {str(value)[:40]}: must be microseconds from 0 to below {_LATEST_US:.0e}"
        )
    return int(Decimal(value).scaleb(3).to_integral_value())


def flattened(spans: list[Span]) -> list[Piece]:
    """What the track does at each time: the innermost span. Spans without length vanish."""
    pieces: list[Piece] = []
    open_spans: list[Span] = []
    cursor = 0

    def go_on_to(cycle: int) -> None:
        nonlocal cursor
        if open_spans and cycle > cursor:
            pieces.append(Piece(cursor, cycle, open_spans[-1].name, open_spans[-1].number))
        cursor = max(cursor, cycle)

    for span in sorted(spans, key=lambda span: (span.start, -span.end, span.number)):
        while open_spans and span.end > (around := open_spans[-1]).end:
            if around.end - span.start > ROUNDING_NS:
                if span.end - around.end > ROUNDING_NS:
                    raise FormatError(
                        f"traceEvents[{span.number}] ({span.name[:60]!r}) begins {around.end - span.start:,} ns before "
                        f"the end of traceEvents[{around.number}] ({around.name[:60]!r}) on its track, and outlasts "
                        "it: events of one track must follow or enclose one another"
                    )
                span = span._replace(end=around.end)
                break
            go_on_to(min(around.end, span.start))
            open_spans.pop()
        go_on_to(span.start)
        open_spans.append(span)
    while open_spans:
        go_on_to(open_spans[-1].end)
        open_spans.pop()
    return pieces


def _waits(trace: _Trace, pieces: dict[_Track, list[Piece]]) -> dict[tuple[_Track, int], list[_Arrow]]:
    """For each track and start of a piece, which tracks it waits for to have come how far.

    A launch goes on while its kernel runs: then the kernel waits for the part of the launch before its own start.
    """
    found: dict[tuple[_Track, int], list[_Arrow]] = {}
    for key, head in trace.heads:
        tail = trace.tails.get(key)
        if tail is None or tail.track == head.track:
            continue
        source, target = _piece_at(pieces.get(tail.track, []), tail.at), _piece_at(pieces.get(head.track, []), head.at)
        if source is not None and target is not None and source.start < target.start:
            moment = _Arrow(tail.track, min(source.end, target.start))
            found.setdefault((head.track, target.start), []).append(moment)
    return found


def _piece_at(pieces: list[Piece], cycle: int) -> Piece | None:
    row = bisect_right(pieces, cycle, key=lambda piece: piece.start) - 1
    return pieces[row] if row >= 0 and cycle < pieces[row].end else None


class _Row(NamedTuple):
    start: int
    end: int
    name: str
    waits: list[_Arrow]


def _rows(pieces: dict[_Track, list[Piece]], waits: dict[tuple[_Track, int], list[_Arrow]]) -> dict[_Track, list[_Row]]:
    """The activities of each track: its pieces, cut where somebody waits for a part of one, and what fills the gaps."""
    cuts: dict[_Track, set[int]] = {}
    for arrows in waits.values():
        for arrow in arrows:
            cuts.setdefault(arrow.track, set()).add(arrow.at)
    origin = min(found[0].start for found in pieces.values())
    rows: dict[_Track, list[_Row]] = {}
    for track, found in pieces.items():
        mine = rows.setdefault(track, [])
        at, moments = origin, sorted(cuts.get(track, ()))
        for piece in found:
            needed = waits.get((track, piece.start), [])
            ready = max([at, *(arrow.at for arrow in needed)])
            if ready < piece.start:
                mine.append(_Row(ready, piece.start, UNRECORDED, needed))
                needed = []
            inside = moments[bisect_right(moments, piece.start) : bisect_left(moments, piece.end)]
            for start, end in pairwise([piece.start, *inside, piece.end]):
                mine.append(_Row(start, end, piece.name, needed))
                needed = []
            at = piece.end
    return rows


def _program(
    pieces: dict[_Track, list[Piece]],
    waits: dict[tuple[_Track, int], list[_Arrow]],
    labels: dict[tuple[str, ...], str],
    name: str,
) -> Program:
    """Tracks in the order in which they appear in the file; the rows of each one behind one another."""
    rows = _rows(pieces, waits)
    first = dict(zip(rows, accumulate((len(mine) for mine in rows.values()), initial=0), strict=False))
    ends = {track: [row.end for row in mine] for track, mine in rows.items()}
    operators: dict[str, int] = {}
    queue, cycles, operator, tile, edges = [], [], [], [], []
    count: dict[str, int] = {}
    for number, (track, mine) in enumerate(rows.items()):
        for place, row in enumerate(mine):
            queue.append(number)
            cycles.append(row.end - row.start)
            operator.append(operators.setdefault(row.name, len(operators)))
            tile.append(count.get(row.name, 0))
            count[row.name] = tile[-1] + 1
            for arrow in row.waits:
                before = bisect_right(ends[arrow.track], arrow.at) - 1
                if before >= 0:
                    edges.append((first[arrow.track] + before, first[track] + place))
    zeros, before_after = np.zeros(len(queue), dtype=np.int64), np.array(edges, dtype=np.int64).reshape(-1, 2)
    return trace_program(
        name,
        TraceRows(
            resource=np.array(queue),
            kind=zeros + ActivityKind.TILE,
            cycles=np.array(cycles),
            bytes=zeros,
            operator=np.array(operator),
            tile=np.array(tile),
            macs=zeros,
        ),
        DependencyTable(before_after[:, 0], before_after[:, 1]),
        tuple(operators),
        [(_label(track, labels), None) for track in rows],
    )


def _label(track: _Track, labels: dict[tuple[str, ...], str]) -> str:
    return f"{labels.get(track[:1], track[0])} {labels.get(track, track[1])}"
