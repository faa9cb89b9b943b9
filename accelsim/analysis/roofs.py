"""Roofs: what a machine attains at most, as its template states it or as micro-kernels measured it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.program.tables import SHAPE_COLUMNS

ARRAY, VECTOR_UNIT, BUFFER, DRAM = "array", "vector_unit", "buffer.global", "dram"
OPERATIONS_PER_MAC = 2


class Uncertainty(NamedTuple):
    """How far a measured roof may be off: five terms, each relative to its value."""

    repeatability: float
    """Spread over repeated runs; 0, for a simulator repeats itself to the cycle."""
    finite_size: float
    """What size over time would be low by, at the largest size that was run; the slope leaves it out."""
    kernel_below: float
    """The slowest other kernel for the same roof, less this one: 0 or negative."""
    kernel_above: float
    """The fastest one, less this one."""
    fit: float
    """How much the rate changed when the size was doubled for the last time."""
    constants: tuple[float, float] | None = None
    """Energies: the band of the machine's energy table, below and above; None where there is no table."""

    @property
    def band(self) -> tuple[float, float]:
        """How far the roof may lie below and above its value, all terms together, relative to it."""
        below, above = self.constants or (0.0, 0.0)
        return (
            (1 + below) * (1 + self.kernel_below - self.finite_size - self.fit) - 1,
            (1 + above) * (1 + self.kernel_above + self.fit) - 1,
        )


@dataclass(frozen=True)
class Roof:
    """One limit of a machine."""

    level: str
    """``array``, ``vector_unit``, ``buffer.global`` (its read port) or ``dram``."""
    source: str
    """``datasheet`` or ``measured``."""
    unit: str
    """``op/cycle``, ``B/cycle``, ``op/pJ`` or ``pJ/B``."""
    value: float
    of: str
    """What it is the limit of: ``MACs``, ``vector operations``, ``reads``, ``writes``, ``reads and writes``."""
    kernel: str = ""
    """Measured roofs: the micro-kernel."""
    uncertainty: Uncertainty | None = None
    """Measured roofs."""
    cause: str = ""
    """Of a measured roof below the datasheet's: what keeps it there."""

    def because(self, cause: str) -> Roof:
        """The same roof with a cause."""
        return replace(self, cause=cause)

    def to_dict(self) -> dict[str, Any]:
        """As ``accelsim roofline --json`` prints it."""
        found: dict[str, Any] = {name: getattr(self, name) for name in ("level", "source", "unit", "value", "of")}
        found["kernel"] = self.kernel
        if self.uncertainty is not None:
            found |= {"uncertainty": self.uncertainty._asdict(), "cause": self.cause}
        return found


class Limits(NamedTuple):
    """A machine's peak rates, and what an operation or a byte costs at least."""

    macs_per_cycle: int
    vector_ops_per_cycle: Fraction
    mac_pj: float
    vector_pj: float
    dram_bytes_per_cycle: Fraction
    port_bytes_per_cycle: Fraction | None
    """Of the global buffer's read port; None where it never limits."""
    port_pj_per_byte: float

    @staticmethod
    def of(accelerator: Accelerator) -> Limits:
        """Those of a machine."""
        one_mac = TileColumns(**{name: np.full(1, name != "weights_from_operator") for name in SHAPE_COLUMNS})
        mac = accelerator.part_names.index("mac")
        buffer = accelerator.buffers["global"]
        return Limits(
            macs_per_cycle=accelerator.macs_per_cycle,
            vector_ops_per_cycle=accelerator.vector_ops_per_cycle,
            mac_pj=float(accelerator.array_cost(one_mac).energy_pj[0, mac]),
            vector_pj=accelerator.vector_unit.pj_per_operation,
            dram_bytes_per_cycle=accelerator.dram.peak_bytes_per_cycle,
            port_bytes_per_cycle=buffer.read_bytes_per_cycle,
            port_pj_per_byte=buffer.read_pj_per_byte,
        )


def datasheet_roofs(accelerator: Accelerator) -> tuple[Roof, ...]:
    """The roofs that a machine's template states."""
    limits, dram = Limits.of(accelerator), accelerator.dram

    def roof(level: str, unit: str, value: float | Fraction, of: str) -> Roof:
        return Roof(level, "datasheet", unit, float(value), of)

    roofs = [
        roof(ARRAY, "op/cycle", OPERATIONS_PER_MAC * limits.macs_per_cycle, "MACs"),
        roof(VECTOR_UNIT, "op/cycle", limits.vector_ops_per_cycle, "vector operations"),
    ]
    if limits.port_bytes_per_cycle is not None:
        roofs.append(roof(BUFFER, "B/cycle", limits.port_bytes_per_cycle, "reads"))
    roofs.append(roof(DRAM, "B/cycle", dram.peak_bytes_per_cycle, "reads and writes"))
    for level, energy, of in ((ARRAY, limits.mac_pj, "MACs"), (VECTOR_UNIT, limits.vector_pj, "vector operations")):
        if energy:
            operations = OPERATIONS_PER_MAC if level == ARRAY else 1
            roofs.append(roof(level, "op/pJ", operations / energy, of))
    roofs.append(roof(BUFFER, "pJ/B", limits.port_pj_per_byte, "reads"))
    roofs.append(roof(DRAM, "pJ/B", dram.read_pj_per_byte, "reads"))
    roofs.append(roof(DRAM, "pJ/B", dram.write_pj_per_byte, "writes"))
    return tuple(roofs)
