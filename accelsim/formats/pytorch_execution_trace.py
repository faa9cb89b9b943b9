"""Execution traces of PyTorch (``ExecutionTraceObserver``; JSON): which operators ran, on which tensors.

The format tells no times. Either the profiler's trace of the same run does (``times``; its events name the nodes by
their "Record function id"): then each operator takes the time that it took itself, without those that it called, on a
core for each thread, in the order of the thread. Or a machine does: then operators that call no others, and products,
run on the accelerator, for the larger of operations / (2 * MACs in the arrays) and the bytes of their tensors / DRAM
bandwidth; operations are known of matrix products and convolutions. Views and allocations move nothing.

An operator waits for those that wrote what it reads or writes, and before it writes for those that read it; tensors are
told apart by their storage. An operator whose name ends in ``_`` writes its first argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from accelsim.errors import FormatError, InputError
from accelsim.formats.kineto import Span, flattened, profiled_spans
from accelsim.formats.trace_file import json_values, unpacked
from accelsim.hardware.accelerator import Accelerator
from accelsim.program.lower_recorded import lower_recorded
from accelsim.program.recorded import NodeKind, RecordedDevice, RecordedNode
from accelsim.program.tables import Program
from accelsim.units import counted

PRODUCTS = ("mm", "bmm", "_int_mm")
PRODUCTS_AND_SUMS = ("addmm", "baddbmm", "addbmm")
"""Their first argument is added."""
CONVOLUTIONS = ("convolution", "_convolution", "mkldnn_convolution", "cudnn_convolution", "miopen_convolution")
MOVES_NOTHING: tuple[str, ...] = (
    "empty",
    "empty_strided",
    "empty_like",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "set_",
)
MOVES_NOTHING += ("as_strided_", "squeeze_", "unsqueeze_", "transpose_", "t_", "detach_", "requires_grad_")
"""Allocations, and operators that change how their argument is looked at."""
LARGEST = 1 << 53


class _Tensor(NamedTuple):
    storage: int
    bytes: int


class _Operator(NamedTuple):
    """A node of the trace."""

    number: int
    name: str
    parent: int
    record: int
    """The profiler's "Record function id"; 0 for nodes that it does not see."""
    reads: tuple[_Tensor, ...]
    writes: tuple[_Tensor, ...]
    shapes: tuple[Any, ...]
    """Of the inputs."""
    output_shapes: tuple[Any, ...]

    @property
    def plain_name(self) -> str:
        """Without its library."""
        return self.name.rpartition("::")[2]


def execution_trace_program(
    content: dict[str, Any], path: Path, accelerator: Accelerator | None, times: str | Path | None = None
) -> Program:
    """The Program of a trace's JSON, ``content``, of the file ``path``.

    Raises:
        FormatError: it contradicts itself, or ``times`` is no trace of the same run; with file and node.
        InputError: there is neither a machine nor times.
    """
    entries = content["nodes"]
    if not isinstance(entries, list):
        raise FormatError(f"{path}: nodes is {str(entries)[:40]!r}, must be a list")
    operators = [_operator(entry, f"{path}: nodes[{number}]") for number, entry in enumerate(entries)]
    operators.sort(key=lambda operator: operator.number)  # they stand in the order in which they ended
    if times is not None:
        nodes, notes = _timed(operators, Path(times), path)
    elif accelerator is not None:
        nodes, notes = _priced(operators, path)
    else:
        raise InputError(
            f"{path}: an execution trace of PyTorch tells no times; give the profiler's trace of the same run with "
            "--times, or a machine to run on with --hardware"
        )
    return lower_recorded([RecordedDevice(0, str(path), nodes)], accelerator, path.name.split(".json")[0], notes)


def _operator(entry: Any, here: str) -> _Operator:
    if not isinstance(entry, dict):
        raise FormatError(f"{here} is {str(entry)[:40]!r}, must be an object")
    if "parent" in entry and "ctrl_deps" not in entry:
        entry = _of_today(entry)
    number, parent = _whole(entry.get("id"), f"{here}.id"), _whole(entry.get("ctrl_deps"), f"{here}.ctrl_deps")
    name = str(entry.get("name", "(unnamed)"))
    inputs, outputs = (_part(entry.get(part), f"{here}.{part}") for part in ("inputs", "outputs"))
    arguments = inputs["values"]
    reads = tuple(_tensors(arguments, here))
    made = tuple(_tensors(outputs["values"], here))
    written = tuple(_tensors(arguments[:1], here)) if name.endswith("_") else ()
    is_view = name.rpartition("::")[2] in MOVES_NOTHING or (
        not written and {one.storage for one in made} <= {one.storage for one in reads}
    )
    attributes = entry.get("attrs")
    record = 0
    for attribute in attributes if isinstance(attributes, list) else ():
        if isinstance(attribute, dict) and attribute.get("name") == "rf_id":
            record = _whole(attribute.get("value"), f"{here}: rf_id")
    written = () if is_view else made + written
    shapes = tuple(inputs["shapes"]), tuple(outputs["shapes"])
    return _Operator(number, name, parent, record, reads, written, *shapes)


def _of_today(entry: dict[str, Any]) -> dict[str, Any]:
    """A node of schema 1.0.1 and before (2023), whose fields stand beside one another, as one of today."""
    parts = {
        f"{part}s": {"values": entry.get(f"{part}s", []), "shapes": entry.get(f"{part}_shapes", [])}
        for part in ("input", "output")
    }
    record = {"name": "rf_id", "value": entry.get("rf_id", 0)}
    return {**entry, **parts, "ctrl_deps": entry["parent"], "attrs": [record]}


def _part(part: Any, here: str) -> dict[str, list[Any]]:
    """The inputs or outputs of a node: values, and as many shapes."""
    found = part if isinstance(part, dict) else {}
    values, shapes = found.get("values", []), found.get("shapes", [])
    if not isinstance(values, list) or not isinstance(shapes, list):
        raise FormatError(f"{here}: values and shapes must be lists")
    return {"values": values, "shapes": shapes}


def _whole(value: Any, here: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
        raise FormatError(f"{here} is {str(value)[:40]!r}; must be a whole number from 0 to {LARGEST:,}")
    return value


def _tensors(values: Iterable[Any], here: str) -> Iterator[_Tensor]:
    """The tensors among values, also in lists: six fields (id, storage, offset, elements, bytes of each, device)."""
    waiting = list(values)[::-1]
    while waiting:
        value = waiting.pop()
        if not isinstance(value, list):
            continue
        if len(value) == 6 and isinstance(value[5], str) and all(isinstance(field, int) for field in value[:5]):
            storage, elements, each = (_whole(value[place], f"{here}: a tensor's field {place}") for place in (1, 3, 4))
            if elements * each > LARGEST:
                raise FormatError(f"{here}: a tensor of {elements:,} elements of {each:,} bytes")
            yield _Tensor(storage, elements * each)
        else:
            waiting += value[::-1]


class _Storages:
    """Who wrote and who read each storage last."""

    def __init__(self) -> None:
        self.writer: dict[int, int] = {}
        self.readers: dict[int, list[int]] = {}

    def waits(self, operator: _Operator, node: int) -> list[int]:
        """The nodes that an operator, which becomes ``node``, waits for."""
        read, written = ({one.storage for one in part} for part in (operator.reads, operator.writes))
        found = {self.writer[storage] for storage in read | written if storage in self.writer}
        for storage in written:
            found.update(self.readers.pop(storage, ()))
            self.writer[storage] = node
        for storage in read - written:
            self.readers.setdefault(storage, []).append(node)
        return sorted(found - {node})


def _priced(operators: list[_Operator], path: Path) -> tuple[list[RecordedNode], list[str]]:
    """Operators that call none, and products whole, with what is known of their work."""
    called = {operator.parent for operator in operators}
    whole: set[int] = set()
    """Products, and all that they call."""
    storages, nodes, unknown = _Storages(), [], []
    for operator in operators:
        macs = _macs(operator)
        if operator.parent in whole or (macs is None and operator.number in called):
            if operator.parent in whole:
                whole.add(operator.number)
            continue
        if macs is not None:
            whole.add(operator.number)
        elif operator.writes:
            unknown.append(operator.name)
        moved = {one.storage: one.bytes for one in (*operator.reads, *operator.writes)} if operator.writes else {}
        nodes.append(
            RecordedNode(
                operator.number, operator.name,
                NodeKind.COMPUTE if operator.writes else NodeKind.MARK,
                tuple(storages.waits(operator, operator.number)),
                bytes=sum(moved.values()), operations=2 * (macs or 0),
            )
        )  # fmt: skip
    if not any(node.bytes for node in nodes):
        raise FormatError(f"{path}: none of its {len(operators)} nodes writes a tensor: nothing to run")
    names = ", ".join(dict.fromkeys(unknown))
    listed = f"{names[:160]}{' …' if len(names) > 160 else ''}"
    note = f"the operations of {counted(len(unknown), 'node')} are not known ({listed})"
    return nodes, [f"{note}; they take the time of their bytes"] if unknown else []


def _macs(operator: _Operator) -> int | None:
    """Multiply-accumulates of a matrix product or a convolution; None for other operators, or without shapes."""
    name, none = operator.plain_name, (None, None, None)
    shapes, results = (*operator.shapes, *none), (*operator.output_shapes, *none)
    if name in PRODUCTS or name in PRODUCTS_AND_SUMS:
        left, right = shapes[1:3] if name in PRODUCTS_AND_SUMS else shapes[:2]
        return int(prod(left)) * int(right[-1]) if _is_shape(left) and _is_shape(right) else None
    if name == "convolution_backward":  # for each gradient asked for, of the input and of the weights, as many
        image, weight = shapes[0], shapes[2]
        asked = sum(1 for shape in results[:2] if _is_shape(shape))
    elif name in CONVOLUTIONS:
        image, weight, asked = results[0], shapes[1], 1
    else:
        return None
    if not (_is_shape(image) and _is_shape(weight)):
        return None
    return asked * int(prod(image)) * int(prod(weight[1:]))


def _is_shape(shape: Any) -> bool:
    return (
        isinstance(shape, list)
        and len(shape) > 1
        and all(isinstance(size, int) and not isinstance(size, bool) and 0 <= size < 1 << 31 for size in shape)
    )


def _timed(operators: list[_Operator], times: Path, path: Path) -> tuple[list[RecordedNode], list[str]]:
    """Every stretch of a thread in which an operator runs itself, as a node."""
    values = json_values(unpacked(times), str(times))
    row_of = {operator.record: row for row, operator in enumerate(operators) if operator.record}
    found = profiled_spans(values[0] if len(values) == 1 else None, times)
    spans: dict[str, list[Span]] = {}
    linked = {record for _, record, _, _ in found if record in row_of}
    for track, record, span, works in found:
        if works and record in linked:
            spans.setdefault(track, []).append(span._replace(number=row_of[record]))
    if not spans:
        raise FormatError(
            f"{times}: none of its {len(found):,} events has the 'Record function id' of a node of {path}; it is of "
            "another run, or was recorded without the execution trace's observer"
        )
    pieces = sorted(
        (piece.start, number, track, piece)
        for number, (track, mine) in enumerate(spans.items())
        for piece in flattened(mine)
    )
    storages, nodes = _Storages(), []
    last_on: dict[str, int] = {}
    begun: set[int] = set()
    for place, (_, _, track, piece) in enumerate(pieces):
        waits = [last_on[track]] if track in last_on else []
        if piece.number not in begun:
            begun.add(piece.number)
            waits += storages.waits(operators[piece.number], place)
        name = operators[piece.number].name
        nodes.append(
            RecordedNode(
                place,
                name,
                NodeKind.COMPUTE,
                tuple(waits),
                duration_ns=piece.end - piece.start,
                track=f"thread {track}",
            )
        )
        last_on[track] = place
    notes = [
        "the time that threads spend outside of operators is not in an execution trace: the replay is shorter than the "
        "recording, which the profiler's trace itself replays"
    ]
    if lacking := len(row_of) - len(linked):
        notes.append(f"{lacking:,} of {len(row_of):,} operators have no event in {times.name}; they take no time")
    return nodes, notes
