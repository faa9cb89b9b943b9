"""What stands behind a program's link, and where in it each transfer's bytes lie."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from accelsim.errors import InputError, MalformedProgram
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.memory.attached import AttachedMemory, Fidelity
from accelsim.program.tables import ActivityKind, IntColumn, Program, ResourceKind, frozen
from accelsim.units import format_bytes

LARGEST_CLOCK = 1 << 20
LARGEST_TIME = 1 << 40
"""Cycles, times LARGEST_CLOCK still a number of 64 bits."""


class PlacementTable(NamedTuple):
    """One row an activity. Byte k of its transfer lies at address + k // run_bytes * pitch_bytes + k % run_bytes."""

    address: IntColumn
    """Of the first byte; -1 for tiles."""
    run_bytes: IntColumn
    """So many bytes lie side by side; at least 1."""
    pitch_bytes: IntColumn
    """From the begin of a run to that of the next."""


@dataclass(frozen=True, eq=False)
class MemoryPlan:
    """The memory behind one link of a program."""

    fidelity: Fidelity
    """``banks`` or ``calibrated``."""
    link: int
    """Row in the resources."""
    memory: AttachedMemory
    clock_ratio: Fraction
    """Cycles of the memory in one of the machine."""
    placement: PlacementTable

    def __post_init__(self) -> None:
        object.__setattr__(self, "placement", frozen(self.placement))

    def facts(self) -> dict[str, object]:
        """All of it but the places, as plain data."""
        return {
            "fidelity": self.fidelity,
            "link": self.link,
            "template": self.memory.template,
            "alignment_bytes": self.memory.alignment_bytes,
            "clock_ratio": [self.clock_ratio.numerator, self.clock_ratio.denominator],
        }


def same_plan(one: MemoryPlan | None, other: MemoryPlan | None) -> bool:
    """Whether two plans, or their absence, are equal."""
    if one is None or other is None:
        return one is other
    pairs = zip(one.placement, other.placement, strict=True)
    return one.facts() == other.facts() and all(np.array_equal(a, b) for a, b in pairs)


def check_plan(program: Program, plan: MemoryPlan) -> None:
    """Raise unless both engines can run the program with this memory.

    Raises:
        MalformedProgram: no such link, columns too short, transfers outside the memory, a clock that is too fast, a
            limit of requests on the memory's link (its queues are their limit).
    """
    if not 0 <= plan.link < len(program.resources.kind) or program.resources.kind[plan.link] != ResourceKind.LINK:
        raise MalformedProgram(f"memory.link is {plan.link}, which is no link of the program")
    for name, column in plan.placement._asdict().items():
        if len(column) != program.size:
            raise MalformedProgram(f"memory.{name} has {len(column)} rows, activities have {program.size}")
    queues = program.queues
    limited = np.flatnonzero((queues.resource == plan.link) & (queues.outstanding > 0))
    if len(limited):
        raise MalformedProgram(
            f"queue {program.queue_names[int(limited[0])]!r} limits its requests on their way, but a memory with banks "
            "behind its link has queues of its own that do: set outstanding to 0, or fidelity to link"
        )
    address, run, pitch = plan.placement
    mine = (queues.resource[program.activities.queue] == plan.link) & (program.activities.bytes > 0)
    size = program.activities.bytes
    capacity = plan.memory.dram.capacity_bytes
    runs = np.maximum(run, 1)
    last = (size - 1) // runs
    end = address + last.astype(np.float64) * pitch + runs
    wrong = mine & ((address < 0) | (run < 1) | (pitch < 0) | (end > capacity))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise MalformedProgram(
            f"memory.address[{row}] is {address[row]:#x}, with runs of {run[row]} bytes every {pitch[row]}: its "
            f"{size[row]:,} bytes must lie below {capacity:#x}, the end of memory '{plan.memory.dram.name}'"
        )
    if max(plan.clock_ratio.numerator, plan.clock_ratio.denominator) > LARGEST_CLOCK or plan.clock_ratio <= 0:
        raise MalformedProgram(f"memory.clock_ratio is {plan.clock_ratio}: whole numbers up to {LARGEST_CLOCK}")
    if float(program.activities.cycles.sum(dtype=np.float64)) > LARGEST_TIME:
        raise MalformedProgram(f"tiles take more than {LARGEST_TIME} cycles, beyond the clock of a memory with banks")


def place(program: Program, link: int, memory: AttachedMemory) -> PlacementTable:
    """Tensors one behind the other, in the order of their rows, each at a multiple of the alignment.

    Inside a tensor, tiles lie one behind the other in the order in which they are stored. The loads of one reader are
    spread evenly from the tensor's first byte to its last, so that tiles with a halo overlap as they do in an array
    that is cut along its outermost dimension. A transfer is contiguous. Transfers without a tensor have a place each.

    Raises:
        InputError: the tensors need more than the memory holds.
    """
    activities = program.activities
    mine = program.queues.resource[activities.queue] == link
    rows = np.flatnonzero(mine & (activities.kind != ActivityKind.TILE))
    address = np.full(program.size, -1, dtype=np.int64)
    size, store = activities.bytes, activities.kind == ActivityKind.STORE
    of_tensor: dict[tuple[int, int], list[int]] = {}
    for row in rows.tolist():
        tensor = int(activities.tensor[row])
        of_tensor.setdefault((tensor, row if tensor < 0 else -1), []).append(row)
    base, step = 0, memory.alignment_bytes
    for key in sorted(of_tensor):
        stores = [row for row in of_tensor[key] if store[row]]
        readers: dict[int, list[int]] = {}
        for row in of_tensor[key]:
            if not store[row]:
                readers.setdefault(int(activities.operator[row]), []).append(row)
        whole = sum(int(size[row]) for row in stores)
        if not stores:
            whole = max(sum(int(size[row]) for row in loads) for loads in readers.values())
        offset = base
        for row in stores:
            address[row] = offset
            offset += int(size[row])
        for loads in readers.values():
            loads = sorted(loads, key=lambda row: (int(activities.tile[row]), row))
            for number, row in enumerate(loads):
                room = max(whole - int(size[row]), 0)
                address[row] = base + room * number // max(len(loads) - 1, 1)
        longest = max([whole, *(int(size[row]) for row in of_tensor[key])])
        base += -(-longest // step) * step
    capacity = memory.dram.capacity_bytes
    if base > capacity:
        raise InputError(
            f"the tensors take {format_bytes(base)} of DRAM, but memory '{memory.dram.name}' holds "
            f"{format_bytes(capacity)}: set dram.memory.channels or dram.memory.ranks"
        )
    contiguous = np.maximum(size, 1)
    return PlacementTable(address, contiguous, contiguous)


def with_memory(program: Program, accelerator: Accelerator, link: int) -> Program:
    """The program with the memory that the accelerator has behind this link; transfers keep the places that they have.

    The ratio of the clocks is exact where it is one of whole numbers below 2^20, and the nearest such one otherwise.

    Raises:
        InputError: the tensors need more than the memory holds.
    """
    attached = accelerator.dram.memory
    if attached is None:
        return program if program.memory is None else replace(program, memory=None)
    ratio = Fraction(attached.dram.clock_hz, accelerator.clock_hz).limit_denominator(LARGEST_CLOCK)
    known = program.memory
    if known is not None and known.link == link and known.memory == attached:
        placement = known.placement
    else:
        placement = place(program, link, attached)
    return replace(program, memory=MemoryPlan(accelerator.dram.fidelity, link, attached, ratio, placement))
