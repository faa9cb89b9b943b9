"""Links: the path to off-chip memory, and the one to other accelerators."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from accelsim.hardware.fields import Bytes, Count, Cycles, EnergyPerByte, Fields, Rate


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


class NetworkFields(Fields):
    """The links between accelerators as a template describes them."""

    devices: Count
    bandwidth: Rate
    latency: Cycles = 0
    topology: Literal["ring", "switch"] = "ring"
    energy: EnergyPerByte = Fraction(0)

    def network(self) -> Network:
        """The network that these fields describe."""
        return Network(self.devices, self.bandwidth, self.latency, self.topology, float(self.energy))


@dataclass(frozen=True)
class Network:
    """Accelerators like this one, and the links between them; each sends and receives at the same time."""

    devices: int
    bytes_per_cycle: Fraction
    """Of one device's outgoing link."""
    latency_cycles: int
    """Cycles from a message's last byte on the link to its arrival, for each hop."""
    topology: Literal["ring", "switch"]
    """``ring``: device i sends to i + 1 only, others pass messages on. ``switch``: everybody is one hop away."""
    pj_per_byte: float
    """Of each hop."""

    def hops(self, source: int, destination: int) -> int:
        """Links that a message crosses."""
        distance = (destination - source) % self.devices
        return min(distance, 1) if self.topology == "switch" else distance


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
