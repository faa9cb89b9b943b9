"""What may be changed about a run: the numbers of its template, its batch, its bits, its schedule.

Fields are found by their names wherever they stand in a template, so a new part of a machine is an option by itself.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

from accelsim.errors import InputError
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.template import parse_template
from accelsim.search import BEST
from accelsim.timeline.table import Timeline
from accelsim.workload.graph import Workload
from accelsim.workload.tensor import Tensor
from accelsim.yaml_tree import read_tree

TWO, HALF = Decimal(2), Decimal("0.5")
FACTORS = {
    "bandwidth": TWO,
    "read_bandwidth": TWO,
    "write_bandwidth": TWO,
    "capacity": TWO,
    "rows": TWO,
    "columns": TWO,
    "lanes": TWO,
    "vector_length": TWO,
    "throughput": TWO,
    "banks": TWO,
    "ports": TWO,
    "channels": TWO,
    "latency": HALF,
}
"""Names of fields, and by what they are multiplied."""
SECTIONS = ("pe_array", "vector_unit", "buffers", "dram", "memory")
SHAPE = ("pe_array.rows", "pe_array.columns")
SMALLEST_BITS = 4
WIDE_BITS = 16
"""Tensors of more bits than this hold sums or numbers of tokens, and stay as they are."""


class Change(NamedTuple):
    """One change of a run."""

    text: str
    """As the command line takes it: ``dram.bandwidth=32 GB/s``, ``--batch 2``, ``--bits 4``, ``--scheduler best``."""
    kind: str
    """The field's last name, or ``array shape``, ``clock``, ``batch``, ``precision``, ``scheduler``."""
    accelerator: Accelerator
    scheduler: str | None = None
    """Another scheduler; None for the run's own."""
    batch: int = 1
    """So many times the batch; time and energy are then those of the old batch's share."""
    bits: float = 1.0
    """Share of each element's bits that is left."""
    risk: str = ""
    """What else it costs, in a few words."""


def changes(timeline: Timeline, machine: Accelerator, workload: Workload | None) -> Iterator[Change]:
    """All changes that are possible, one after another.

    Args:
        timeline: the run.
        machine: that it ran on.
        workload: what ran; without it neither batch, nor bits, nor the schedule can be changed.
    """
    values = read_tree(machine.source, "the recorded template", InputError).values
    for path, value in _numbers(values):
        name = path.rpartition(".")[2]
        if (changed := scaled(value, FACTORS[name])) is not None:
            yield from _on(machine, name, f"{path}={changed}")
    for wider, narrower in (SHAPE, SHAPE[::-1]):
        wide, narrow = scaled(_at(values, wider), TWO), scaled(_at(values, narrower), HALF)
        if wide and narrow and narrow.isdecimal():
            yield from _on(machine, "array shape", f"{wider}={wide}", f"{narrower}={narrow}")
    yield from _faster_clock(machine, values)
    if workload is None:
        return
    yield Change(f"--batch {2 * workload.batch}", "batch", machine, batch=2, risk="latency of a sample")
    bits = [tensor.bits for tensor in tensors(workload) if tensor.bits <= WIDE_BITS]
    if bits and min(bits) >= 2 * SMALLEST_BITS:
        yield Change(f"--bits {max(bits) // 2}", "precision", machine, bits=0.5, risk="accuracy")
    if timeline.provenance.get("scheduler") != BEST:
        yield Change(f"--scheduler {BEST}", "scheduler", machine, BEST)


def _on(machine: Accelerator, kind: str, *overrides: str, risk: str = "") -> Iterator[Change]:
    try:
        changed = parse_template(machine.source, "the recorded template", overrides)
    except InputError:  # more than a template may say
        return
    yield Change(", ".join(overrides), kind, changed, risk=risk)


def _faster_clock(machine: Accelerator, values: dict[str, Any]) -> Iterator[Change]:
    """Twice the clock at the same voltage, and a memory that stays as fast as it was in bytes a second."""
    clock = scaled(values.get("clock"), TWO)
    if clock is None:
        return
    overrides = [f"clock={clock}"]
    for path, factor, unit in (("dram.bandwidth", HALF, "B/cycle"), ("dram.latency", TWO, "cycle")):
        value = _at(values, path)
        if value is not None and unit in str(value) and (kept := scaled(value, factor)) is not None:
            overrides.append(f"{path}={kept}")
    yield from _on(machine, "clock", *overrides, risk="timing, at the same voltage")


def _numbers(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values of the fields that have a factor."""
    for name, value in values.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict):
            if prefix or name in SECTIONS:
                yield from _numbers(value, f"{path}.")
        elif prefix and name in FACTORS:
            yield path, value


def _at(values: Any, path: str) -> Any:
    for key in path.split("."):
        values = values.get(key) if isinstance(values, dict) else None
    return values


def scaled(value: object, factor: Decimal) -> str | None:
    """A quantity times a factor, in its own unit: ``16 GB/s`` -> ``32 GB/s``; None for 0, or what is no quantity."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(.*?)\s*", str(value))
    if match is None or isinstance(value, bool) or not Decimal(match[1]):
        return None
    number = format((Decimal(match[1]) * factor).normalize(), "f")
    return f"{number} {match[2]}".strip()


def tensors(workload: Workload) -> Iterator[Tensor]:
    """Inputs, results and parameters."""
    yield from workload.inputs
    for operator in workload.operators:
        yield operator.output
        yield from operator.weights


def with_fewer_bits(workload: Workload, share: float) -> Workload:
    """The same workload with elements of so many times their bits; sums and numbers of tokens stay as they are."""

    def narrow(tensor: Tensor) -> Tensor:
        if tensor.bits > WIDE_BITS:
            return tensor
        return dataclasses.replace(tensor, bits=max(int(tensor.bits * share), 1))

    operators = tuple(
        dataclasses.replace(
            operator,
            output=narrow(operator.output),
            weights=tuple(narrow(tensor) for tensor in operator.weights),
        )
        for operator in workload.operators
    )
    return dataclasses.replace(
        workload, operators=operators, inputs=tuple(narrow(tensor) for tensor in workload.inputs)
    )
