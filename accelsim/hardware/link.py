"""Links: the path to off-chip memory, with bandwidth, latency and an arbitration rule."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from accelsim.hardware.fields import Bytes, Cycles, EnergyPerByte, Fields, Rate


def _known_fidelity(value: object) -> object:
    if value == "banks":
        raise ValueError("'banks' (bank-level DRAM timing) is not available in this version; expected 'link'")
    return value


class DramFields(Fields):
    """The off-chip memory as a template describes it."""

    bandwidth: Rate
    latency: Cycles = 0
    fidelity: Annotated[Literal["link"], BeforeValidator(_known_fidelity)] = "link"
    arbitration: Literal["in_order", "round_robin"] = "in_order"
    grant: Bytes = Field(default=0)
    read_energy: EnergyPerByte
    write_energy: EnergyPerByte

    def link(self) -> Link:
        """The link that these fields describe."""
        return Link(
            bytes_per_cycle=self.bandwidth,
            latency_cycles=self.latency,
            arbitration=self.arbitration,
            grant_bytes=self.grant,
            read_pj_per_byte=float(self.read_energy),
            write_pj_per_byte=float(self.write_energy),
        )


@dataclass(frozen=True)
class Link:
    """A link with its numbers in cycles, bytes and picojoules."""

    bytes_per_cycle: Fraction
    latency_cycles: int
    """Cycles from a transfer's last byte to its finish."""
    arbitration: Literal["in_order", "round_robin"]
    grant_bytes: int
    """Bytes served in one grant; 0 = the whole transfer."""
    read_pj_per_byte: float
    write_pj_per_byte: float
