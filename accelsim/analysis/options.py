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
LOWER_VOLTAGE = Decimal("0.8")
"""Clock and voltage fall together; the energy of switching falls with the square of the voltage (C V^2)."""
ZEROS = {"weights": ("skip", "gate"), "inputs": ("skip", "gate")}
"""What may be done about zeros in either operand, where nothing or less is done: the first saves time and energy."""
LAYOUTS = {"inputs": ("terms", "positions"), "weights": ("filters", "terms"), "outputs": ("filters", "positions")}
"""What may lie side by side in a buffer whose ports are described."""


class Change(NamedTuple):
    """One change of a run."""

    text: str
    """As the command line takes it: ``dram.bandwidth=32 GB/s``, ``--batch 2``, ``--bits 4``, ``--scheduler best``."""
    kind: str
    """The field's last name, or ``array shape``, ``clock``, ``voltage``, ``layout``, ``sparsity``, ``batch``,
    ``precision``, ``scheduler``."""
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
    for path, value in _leaves(values):
        name = path.rpartition(".")[2]
        if name in FACTORS and (changed := scaled(value, FACTORS[name])) is not None:
            yield from _on(machine, name, f"{path}={changed}")
    for wider, narrower in (SHAPE, SHAPE[::-1]):
        wide, narrow = scaled(_at(values, wider), TWO), scaled(_at(values, narrower), HALF)
        if wide and narrow and narrow.isdecimal():
            yield from _on(machine, "array shape", f"{wider}={wide}", f"{narrower}={narrow}")
    yield from _other_clock(machine, values, "clock", TWO, risk="timing, at the same voltage")
    yield from _lower_voltage(machine, values)
    yield from _layouts(machine)
    if workload is None:
        return
    yield from _zeros(machine, workload)
    yield Change(f"--batch {2 * workload.batch}", "batch", machine, batch=2, risk="latency of a sample")
    bits = [tensor.bits for tensor in tensors(workload) if tensor.bits <= widest_bits(workload)]
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


def _other_clock(
    machine: Accelerator, values: dict[str, Any], kind: str, factor: Decimal, *more: str, risk: str
) -> Iterator[Change]:
    """Another clock, and a memory that stays as fast as it was in bytes a second."""
    clock = scaled(values.get("clock"), factor)
    if clock is None:
        return
    overrides = [f"clock={clock}"]
    for path, of_path, unit in (("dram.bandwidth", 1 / factor, "B/cycle"), ("dram.latency", factor, "cycle")):
        value = _at(values, path)
        if value is not None and unit in str(value) and (kept := scaled(value, of_path)) is not None:
            overrides.append(f"{path}={kept}")
    yield from _on(machine, kind, *overrides, *more, risk=risk)


def _lower_voltage(machine: Accelerator, values: dict[str, Any]) -> Iterator[Change]:
    """A lower clock and voltage; not where a table gives the energies, which is of one voltage."""
    if "energy" in values:
        return
    found = {path: value for path, value in _leaves(values) if path.endswith("_energy") or path == "vector_unit.energy"}
    on_chip = {
        path: value for path, value in found.items() if path.partition(".")[0] in ("pe_array", "vector_unit", "buffers")
    }
    lower = [(path, scaled(value, LOWER_VOLTAGE**2)) for path, value in on_chip.items() if "gated" not in path]
    energies = [f"{path}={value}" for path, value in lower if value is not None]
    for change in _other_clock(machine, values, "voltage", LOWER_VOLTAGE, *energies, risk="speed of the logic"):
        clock = change.text.partition(",")[0]
        yield change._replace(
            text=f"{clock} at {LOWER_VOLTAGE} of the voltage: energies on the chip x {LOWER_VOLTAGE**2}"
        )


def _layouts(machine: Accelerator) -> Iterator[Change]:
    ports = getattr(machine.dataflow, "buffer", machine.buffers["global"]).ports  # with a dataflow's own defaults
    if ports is None:
        return
    for tensor, layouts in LAYOUTS.items():
        for layout in layouts:
            if getattr(ports.layout, tensor) != layout:
                yield from _on(machine, "layout", f"buffers.global.ports.layout.{tensor}={layout}")


def _zeros(machine: Accelerator, workload: Workload) -> Iterator[Change]:
    """What may be done about zeros that are known of; skipping takes lanes that find the next pair."""
    known = {
        "weights": any(operator.weights[0].sparsity is not None for operator in workload.operators if operator.weights),
        "inputs": any(
            operator.operands[0].sparsity is not None for operator in workload.operators if operator.operands
        ),
    }
    for operand, modes in ZEROS.items():
        if not known[operand]:
            continue
        now = getattr(machine.arithmetic, operand)
        for mode in modes:
            if now == "none" or (now, mode) == ("gate", "skip"):
                risk = "area of the logic that finds nonzeros" if mode == "skip" else ""
                yield from _on(machine, "sparsity", f"pe_array.sparsity.{operand}={mode}", risk=risk)


def _leaves(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values of the fields of all sections that may be changed."""
    for name, value in values.items():
        if isinstance(value, dict):
            if prefix or name in SECTIONS:
                yield from _leaves(value, f"{prefix}{name}.")
        elif prefix:
            yield f"{prefix}{name}", value


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


def widest_bits(workload: Workload) -> int:
    """Of what is multiplied, or of all where nothing is; wider tensors hold sums or numbers of tokens."""
    return workload.product_bits or max((tensor.bits for tensor in tensors(workload)), default=0)


def with_fewer_bits(workload: Workload, share: float) -> Workload:
    """The same workload with elements of so many times their bits; sums and numbers of tokens stay as they are."""

    widest = widest_bits(workload)

    def narrow(tensor: Tensor) -> Tensor:
        if tensor.bits > widest:
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
