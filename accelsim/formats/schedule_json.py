"""Schedules as files: JSON (schema 1), or the notation as text; told apart by their first character."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from accelsim.errors import FormatError
from accelsim.schedule.notation import DramTensor, Schedule, TensorKind
from accelsim.schedule.text import parse_schedule

Whole = Annotated[int, Field(strict=True, ge=-(1 << 40), le=1 << 40)]


class _DramTensorFields(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: TensorKind
    operator: str
    tile: Whole | None = None
    producer: str | None = None
    start: Whole
    end: Whole


class _ScheduleFields(BaseModel):
    model_config = ConfigDict(extra="forbid")
    schema_: Annotated[Literal[1], Field(alias="schema")]
    workload: str
    order: tuple[str, ...]
    fusion_cuts: tuple[Whole, ...]
    dram_cuts: tuple[Whole, ...]
    tiling_numbers: tuple[Whole, ...]
    dram_tensors: tuple[_DramTensorFields, ...] | None = None


def write_schedule(schedule: Schedule) -> str:
    """The schedule as JSON text; :func:`read_schedule` gives it back."""
    content: dict[str, object] = {
        "schema": 1,
        "workload": schedule.workload,
        "order": schedule.order,
        "fusion_cuts": schedule.fusion_cuts,
        "dram_cuts": schedule.dram_cuts,
        "tiling_numbers": schedule.tiling_numbers,
    }
    as_json = json.JSONEncoder(ensure_ascii=False).encode
    lines = [f"  {as_json(key)}: {as_json(value)}" for key, value in content.items()]
    if schedule.dram_tensors is not None:
        rows = ",\n    ".join(as_json(_row(tensor)) for tensor in schedule.dram_tensors)
        lines.append(f'  "dram_tensors": [\n    {rows}\n  ]')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read_schedule(path: str | Path) -> Schedule:
    """Reads a schedule file.

    Raises:
        FormatError: it cannot be read, is neither JSON nor the notation, or lacks fields; all mistakes at once.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path}: cannot be read as a schedule: {error}") from None
    if not text.lstrip().startswith("{"):
        return parse_schedule(text, str(path))
    try:
        fields = _ScheduleFields.model_validate(json.loads(text, parse_constant=_refuse_constant))
    except (json.JSONDecodeError, RecursionError) as error:
        raise FormatError(f"{path}: not JSON, or cut short: {error}") from None
    except ValidationError as error:
        mistakes = "\n".join(
            f"  {'.'.join(map(str, mistake['loc'])) or 'file'}: {mistake['msg']}, found {str(mistake['input'])[:60]!r}"
            for mistake in error.errors()[:20]
        )
        raise FormatError(f"{path}: {error.error_count()} mistakes in the schedule:\n{mistakes}") from None
    dram_tensors = None
    if fields.dram_tensors is not None:
        dram_tensors = tuple(
            DramTensor(row.kind, row.operator, row.tile, row.producer, row.start, row.end)
            for row in fields.dram_tensors
        )
    return Schedule(
        fields.workload, fields.order, fields.fusion_cuts, fields.dram_cuts, fields.tiling_numbers, dram_tensors
    )


def _row(tensor: DramTensor) -> dict[str, object]:
    row: dict[str, object] = {"kind": tensor.kind.value, "operator": tensor.operator}
    if tensor.tile is not None:
        row["tile"] = tensor.tile
    if tensor.producer is not None:
        row["producer"] = tensor.producer
    return {**row, "start": tensor.start, "end": tensor.end}


def _refuse_constant(text: str) -> None:
    raise json.JSONDecodeError(f"{text} is no number", text, 0)
