"""Buffers: on-chip scratchpads of fixed capacity, and the energy of their accesses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field, PlainValidator

from accelsim.hardware.fields import Bytes, EnergyPerByte, FieldMistake, Fields, Rate
from accelsim.hardware.ports import PortFields, Ports, PortUse
from accelsim.units import did_you_mean, format_bytes


def _growth_factor(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= 2:
        raise ValueError(f"{value!r} is no growth factor; expected a number from 1 to 2, for example 1.1")
    return float(value)


class EnergyGrowthFields(Fields):
    """Access energy x ``factor`` for every whole ``step`` of the capacity of ``buffer``."""

    factor: Annotated[float, PlainValidator(_growth_factor), Field(examples=[1.1])]
    step: Bytes
    buffer: Annotated[str, Field(strict=True, examples=["global"])]


class BufferFields(Fields):
    """A buffer as a template describes it."""

    capacity: Bytes
    read_energy: EnergyPerByte
    write_energy: EnergyPerByte
    energy_growth: EnergyGrowthFields | None = None


class PortedBufferFields(BufferFields):
    """A buffer whose read port must have a bandwidth."""

    read_bandwidth: Rate


class BankedBufferFields(BufferFields):
    """A buffer whose read port may have a bandwidth, or whose ports and banks may be described; else none limits."""

    read_bandwidth: Rate = Field(default=None)  # type: ignore[assignment]
    ports: PortFields | None = None


@dataclass(frozen=True)
class Buffer:
    """A buffer with its energies worked out."""

    name: str
    capacity_bytes: int
    read_bytes_per_cycle: Fraction | None
    """None where the read port never limits."""
    read_pj_per_byte: float
    write_pj_per_byte: float
    ports: Ports | None = None
    """None where they are not described."""

    @property
    def most_bytes_an_access(self) -> int:
        """A bound, for sums that must not overflow: a word for each access, which may wait for one in every bank."""
        return 16 * self.ports.banks * self.ports.width_bytes if self.ports else 1

    def read_cycles(self, read_bytes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Cycles that the read port takes for so many bytes each; 0 where it never limits."""
        if not (rate := self.read_bytes_per_cycle):
            return np.zeros_like(read_bytes)
        return -(-read_bytes * rate.denominator // rate.numerator)

    def bounded(
        self,
        cycles: npt.NDArray[np.int64],
        read_bytes: npt.NDArray[np.int64],
        written_bytes: npt.NDArray[np.int64],
        use: PortUse | None,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Cycles of tiles that an array would do in ``cycles``, and the energy of their accesses.

        Where ports are described, whole words are read and written.
        """
        cycles = np.maximum(cycles, self.read_cycles(read_bytes))
        if use is None or self.ports is None:
            return cycles, self.access_pj(read_bytes, written_bytes)
        width = self.ports.width_bytes
        return np.maximum(cycles, use.cycles), self.access_pj(use.read_words * width, use.write_words * width)

    def access_pj(
        self, read_bytes: npt.NDArray[np.int64], written_bytes: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        """Energy of so many bytes read and written."""
        return self.read_pj_per_byte * read_bytes + self.write_pj_per_byte * written_bytes


def make_buffers(fields: Mapping[str, BufferFields]) -> dict[str, Buffer]:
    """All buffers of a template, each energy grown by the capacity of the buffer that it follows.

    Raises :class:`FieldMistake`.
    """
    return {name: _make_buffer(name, fields) for name in fields}


def _make_buffer(name: str, all_fields: Mapping[str, BufferFields]) -> Buffer:
    fields = all_fields[name]
    growth = 1.0
    if (rule := fields.energy_growth) is not None:
        if rule.buffer not in all_fields:
            raise FieldMistake(
                ("buffers", name, "energy_growth", "buffer"),
                f"no buffer {rule.buffer!r}{did_you_mean(rule.buffer, all_fields)}; there are {', '.join(all_fields)}",
            )
        capacity = all_fields[rule.buffer].capacity
        exponent = capacity // rule.step
        if exponent > 500:
            raise FieldMistake(
                ("buffers", rule.buffer, "capacity"),
                f"{format_bytes(capacity)} would let the access energy of buffer '{name}' grow {rule.factor:g}-fold "
                f"{exponent} times; lower it, or raise buffers.{name}.energy_growth.step ({format_bytes(rule.step)})",
            )
        growth = rule.factor**exponent
    described: PortFields | None = getattr(fields, "ports", None)
    ports = described.ports(name) if described is not None else None
    rate = getattr(fields, "read_bandwidth", None)
    if ports is not None and rate is not None:
        raise FieldMistake(
            ("buffers", name, "read_bandwidth"),
            "stands beside ports, which have a bandwidth of their own: width x banks x read; leave one of them out",
        )
    return Buffer(
        name=name,
        capacity_bytes=fields.capacity,
        read_bytes_per_cycle=rate if ports is None else ports.read_bytes_per_cycle,
        read_pj_per_byte=float(fields.read_energy) * growth,
        write_pj_per_byte=float(fields.write_energy) * growth,
        ports=ports,
    )
