"""The memory behind a link, in a timeline's file: what stands in its header, and the columns beside it."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from accelsim.errors import FormatError, InputError
from accelsim.hardware.memory.attached import AttachedMemory
from accelsim.program.memory_plan import LARGEST_CLOCK, MemoryPlan, PlacementTable
from accelsim.program.tables import MAXIMUM_TOTAL
from accelsim.timeline.memory_use import MemoryUse
from accelsim.timeline.table import Timeline

_Count = Annotated[int, Field(ge=0, le=MAXIMUM_TOTAL)]
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Clock = Annotated[int, Field(ge=1, le=LARGEST_CLOCK)]


class UseFields(BaseModel):
    """:class:`MemoryUse` as the header has it."""

    model_config = ConfigDict(extra="forbid", strict=True)
    fidelity: Literal["banks", "calibrated"]
    memory: str
    channels: _Count
    peak_bytes_per_cycle: _Amount
    bursts_read: _Count
    bursts_written: _Count
    burst_bytes: _Count
    row_hits: _Count
    row_misses: _Count
    row_conflicts: _Count
    energy_by_command_pj: dict[str, _Amount]


class MemoryFields(BaseModel):
    """The plan as the header has it, and the use."""

    model_config = ConfigDict(extra="forbid", strict=True)
    fidelity: Literal["banks", "calibrated"]
    link: _Count
    template: str
    alignment_bytes: _Count
    clock_ratio: Annotated[list[_Clock], Field(min_length=2, max_length=2)]
    use: UseFields | None


def memory_header(timeline: Timeline) -> dict[str, Any]:
    """What the header says: nothing, for a program without a memory."""
    plan = timeline.program.memory
    if plan is None:
        return {}
    return {"memory": {**plan.facts(), "use": None if timeline.memory is None else asdict(timeline.memory)}}


def memory_plan(fields: MemoryFields, placement: PlacementTable) -> MemoryPlan:
    """The plan again.

    Raises:
        FormatError: the memory's template has mistakes.
    """
    memory = AttachedMemory(fields.template, fields.alignment_bytes)
    try:
        memory.dram  # noqa: B018 (reads the template)
    except InputError as error:
        raise FormatError(f"its memory: {error}") from None
    return MemoryPlan(fields.fidelity, fields.link, memory, Fraction(*fields.clock_ratio), placement)


def memory_use(fields: MemoryFields) -> MemoryUse | None:
    """The use again."""
    return None if fields.use is None else MemoryUse(**fields.use.model_dump())
