"""Timelines in NumPy's ``.npz``: one uncompressed array a column, and a JSON header. The whole Program is inside.

``np.load`` opens the file too. The header (an array of bytes, ``header.json``) holds the schema's number, names, facts
and provenance; columns are named ``events.start_cycles``, ``activities.queue`` … as in ``docs/tables.md``. Equal
timelines are equal bytes. Reading runs nothing from the file, allocates no more than the file is long, and believes
nothing: what comes out has passed the checks of the engines and those of :func:`check_events`.
"""

from __future__ import annotations

import io
import json
import math
import tokenize
import zipfile
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from accelsim.errors import FormatError, ProgramError
from accelsim.files import write_whole
from accelsim.formats.timeline_memory import MemoryFields, memory_header, memory_plan, memory_use
from accelsim.program.check import NAMES, check_program
from accelsim.program.memory_plan import PlacementTable
from accelsim.program.tables import (
    MAXIMUM_TOTAL,
    SHAPE_COLUMNS,
    ActivityTable,
    BufferTable,
    ClaimTable,
    DependencyTable,
    Program,
    QueueTable,
    ReleaseTable,
    ResourceTable,
)
from accelsim.timeline.provenance import lasting
from accelsim.timeline.table import Cause, EventTable, Timeline, no_events

SCHEMA = 1
HEADER = "header.json"
TABLES: dict[str, type[Any]] = {
    "resources": ResourceTable,
    "queues": QueueTable,
    "activities": ActivityTable,
    "dependencies": DependencyTable,
    "claims": ClaimTable,
    "releases": ReleaseTable,
    "buffers": BufferTable,
    "events": EventTable,
}
_DATE = (1980, 1, 1, 0, 0, 0)
_LARGEST_HEADER_BYTES = 1 << 28
_CHUNK_BYTES = 1 << 20

Table = TypeVar("Table")
Array = npt.NDArray[Any]


class _Header(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    schema_: Annotated[Literal[1], Field(alias="schema")]
    engine: str
    resource_names: list[str]
    queue_names: list[str]
    buffer_names: list[str]
    operator_names: list[str]
    tensor_names: list[str]
    part_names: list[str]
    tenant_names: list[str] = []
    static_pj_per_cycle: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    memory: MemoryFields | None = None
    facts: dict[str, Annotated[int, Field(ge=-MAXIMUM_TOTAL, le=MAXIMUM_TOTAL)] | float | str]
    provenance: dict[str, object]


def save_timeline(timeline: Timeline, path: str | Path) -> None:
    """Writes a timeline and its program; the file appears whole or not at all.

    Raises:
        InputError: the file cannot be written.
    """
    write_whole(Path(path), write_timeline(timeline))


def write_timeline(timeline: Timeline) -> bytes:
    """The bytes of the file."""
    program = timeline.program
    header = {
        "schema": SCHEMA,
        "engine": timeline.engine,
        **{name: getattr(program, name) for name in NAMES},
        "static_pj_per_cycle": float(program.static_pj_per_cycle),
        "facts": program.facts,
        "provenance": lasting(timeline.provenance),
        **memory_header(timeline),
    }
    text = json.dumps(header, allow_nan=False, sort_keys=True)
    arrays: dict[str, Array] = {HEADER: np.frombuffer(text.encode(), dtype=np.uint8)}
    for name in TABLES:
        table = timeline.events if name == "events" else getattr(program, name)
        arrays.update((f"{name}.{column}", values) for column, values in table._asdict().items())
    if program.memory is not None:
        arrays.update((f"memory.{column}", values) for column, values in program.memory.placement._asdict().items())
    for name in ("operator_macs", "operator_vector_ops", "energy_pj", "shapes"):
        arrays[name] = getattr(program, name)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, values in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy", _DATE), "w") as member:
                np.lib.format.write_array(member, values, version=(1, 0), allow_pickle=False)
    return file.getvalue()


def load_timeline(path: str | Path, events: bool = True) -> Timeline:
    """Reads a timeline file.

    Args:
        path: the file, or the folder that ``accelsim run --out`` has put it into.
        events: False leaves the events out, which are a third of a file; what is needed to run it again is then there.

    Raises:
        FormatError: it cannot be read, is no timeline, is damaged, of a newer schema, or contradicts itself.
    """
    path = Path(path)
    if (path / "timeline.npz").is_file():
        path /= "timeline.npz"
    try:
        timeline = _read(path, events)
        check_program(timeline.program)
        if events:
            check_events(timeline)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
    except ProgramError as error:
        raise FormatError(f"{path}: the program inside cannot run: {error}") from None
    except OSError as error:
        raise FormatError(f"{path}: cannot be read as a timeline: {error.strerror or error}") from None
    return timeline


def _read(path: Path, with_events: bool) -> Timeline:
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(archive, path.stat().st_size)
            header = _header(_array(archive, members, HEADER, np.dtype(np.uint8), 1))
            columns: dict[str, Any] = {
                name: table(
                    **{
                        column: _array(archive, members, f"{name}.{column}")
                        for column in table._fields
                        if f"{name}.{column}.npy" in members or column not in table._field_defaults
                    }
                )
                for name, table in TABLES.items()
                if with_events or table is not EventTable
            }
            energy_pj = _array(archive, members, "energy_pj", np.dtype(np.float64), 2)
            shapes = _array(archive, members, "shapes", dimensions=2)
            if shapes.shape[1:] == (12,):  # older files know no dilation
                shapes = np.pad(shapes, ((0, 0), (0, len(SHAPE_COLUMNS) - 12)), constant_values=1)
            own: dict[str, Any] = {"operator_macs": _array(archive, members, "operator_macs")}
            if "operator_vector_ops.npy" in members:  # older files lack it
                own["operator_vector_ops"] = _array(archive, members, "operator_vector_ops")
            plan, use = None, None
            if header.memory is not None:
                places = (_array(archive, members, f"memory.{column}") for column in PlacementTable._fields)
                plan, use = memory_plan(header.memory, PlacementTable(*places)), memory_use(header.memory)
    except (zipfile.BadZipFile, EOFError, RuntimeError, NotImplementedError) as error:
        raise FormatError(f"no .npz file, cut short or damaged: {error}") from None
    for name, shape, wanted in (
        ("energy_pj", energy_pj.shape, (len(columns["activities"].queue), len(header.part_names))),
        ("shapes", shapes.shape[1:], (len(SHAPE_COLUMNS),)),
        *((name, column.shape, (len(header.operator_names) if len(column) else 0,)) for name, column in own.items()),
    ):
        if shape != wanted:
            raise FormatError(f"{name} has shape {shape}, must be {wanted}")
    events = columns.pop("events") if with_events else no_events()
    names: dict[str, Any] = {name: tuple(getattr(header, name)) for name in NAMES}
    program = Program(
        **columns,
        energy_pj=energy_pj,
        shapes=shapes,
        **own,
        **names,
        static_pj_per_cycle=header.static_pj_per_cycle,
        facts=header.facts,
        memory=plan,
    )
    return Timeline(events, program, header.engine, header.provenance, use)


def _members(archive: zipfile.ZipFile, file_bytes: int) -> dict[str, zipfile.ZipInfo]:
    """What the archive holds: plain, each once, and together no larger than the file."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        if member.filename in members:
            raise FormatError(f"{member.filename!r} stands in it twice")
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
            raise FormatError(f"{member.filename!r} is compressed or encrypted; timelines are stored as they are")
        members[member.filename] = member
    if sum(member.file_size for member in members.values()) > file_bytes:
        raise FormatError("its parts claim more bytes than the file has")
    return members


def _array(
    archive: zipfile.ZipFile,
    members: dict[str, zipfile.ZipInfo],
    name: str,
    dtype: np.dtype[Any] = np.dtype(np.int64),  # noqa: B008 (immutable)
    dimensions: int = 1,
) -> Array:
    """One array, if it is there and is what it should be."""
    if f"{name}.npy" not in members:
        raise FormatError(f"no timeline, or an incomplete one: column '{name}' is missing")
    member = members[f"{name}.npy"]
    with archive.open(member) as file:
        try:
            version = np.lib.format.read_magic(file)
            if version != (1, 0):
                raise ValueError(f"version {version} of NumPy's format is not read")
            shape, fortran_order, found = np.lib.format.read_array_header_1_0(file)
        except (ValueError, SyntaxError, tokenize.TokenError, RecursionError, MemoryError) as error:
            raise FormatError(f"column '{name}' is no NumPy array: {str(error)[:200]}") from None
        if found.hasobject:
            raise FormatError(f"column '{name}' holds pickled objects, which are never loaded")
        if found != dtype or len(shape) != dimensions or fortran_order:
            raise FormatError(f"column '{name}' is {found} of shape {shape}; must be {dtype}, {dimensions}-dimensional")
        length = member.file_size - file.tell()
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != length:
            raise FormatError(f"column '{name}' has {length:,} bytes, which do not fill the shape {shape}")
        values = np.empty(shape, dtype=dtype)
        into = values.reshape(-1).view(np.uint8)
        for start in range(0, length, _CHUNK_BYTES):  # a long column is never there twice
            part = np.frombuffer(file.read(_CHUNK_BYTES), dtype=np.uint8)
            if len(part) < min(_CHUNK_BYTES, length - start):
                raise EOFError(f"column '{name}' ends early")
            into[start : start + len(part)] = part
    values.setflags(write=False)
    return values


def _header(content: Array) -> _Header:
    if len(content) > _LARGEST_HEADER_BYTES:
        raise FormatError(f"its header is {len(content):,} bytes long, at most {_LARGEST_HEADER_BYTES:,} are read")
    try:
        fields = json.loads(content.tobytes().decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"its header is not JSON: {error}") from None
    schema = fields.get("schema") if isinstance(fields, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise FormatError(f"it has schema {schema}, this version reads {SCHEMA}; it was written by a newer accelsim")
    try:
        return _Header.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise FormatError(f"its header: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no number")


def check_events(timeline: Timeline) -> None:
    """Raise unless the events could be those of the program: each activity served, whole, on its own queue, in order.

    Raises:
        FormatError: they could not.
    """
    events, program = timeline.events, timeline.program
    activities, count = program.activities, len(timeline.events.activity)
    for name, column in events._asdict().items():
        if len(column) != count:
            raise FormatError(f"events.{name} has {len(column):,} rows, must have {count:,} as events.activity")
    for name, least, beyond in (
        ("activity", 0, program.size),
        ("cause", 0, len(Cause)),
        ("cause_activity", -1, program.size),
        ("ready_cycles", 0, MAXIMUM_TOTAL),
        ("bytes", 0, MAXIMUM_TOTAL),
        ("finish_cycles", 0, MAXIMUM_TOTAL),
    ):
        column = getattr(events, name)
        if count and not least <= int(column.min()) <= int(column.max()) < beyond:
            row = int(np.flatnonzero((column < least) | (column >= beyond))[0])
            raise FormatError(f"events.{name}[{row}] is {column[row]:,}, must be from {least} to below {beyond:,}")
    queue = activities.queue[events.activity]
    for wrong, what in (
        (events.ready_cycles > events.start_cycles, "starts before it asked"),
        (events.start_cycles > events.end_cycles, "ends before it starts"),
        (events.end_cycles > events.finish_cycles, "finishes before it ends"),
        (events.queue != queue, "is not on the queue of its activity"),
        (events.resource != program.queues.resource[queue], "is not on the resource of its queue"),
        (np.diff(events.start_cycles, prepend=0) < 0, "starts before the one that stands before it"),
    ):
        if wrong.any():
            raise FormatError(f"event {int(np.argmax(wrong))} {what}")
    order = np.lexsort((np.arange(count), events.resource))
    resource, start, end = events.resource[order], events.start_cycles[order], events.end_cycles[order]
    overlap = (resource[1:] == resource[:-1]) & (start[1:] < end[:-1])
    if overlap.any():
        raise FormatError(f"event {int(order[1:][overlap][0])} starts while its resource is still busy")
    moved = np.zeros(program.size, dtype=np.int64)
    np.add.at(moved, events.activity, events.bytes)
    unserved = np.bincount(events.activity, minlength=program.size) == 0
    for wrong, what in ((unserved, "has no event"), (moved != activities.bytes, "does not move its bytes")):
        if wrong.any():
            raise FormatError(f"activity {int(np.argmax(wrong))} {what}")
