"""Links: the path to off-chip memory, and the one to other accelerators."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import Field

from accelsim.hardware.fields import Bytes, Count, Cycles, EnergyPerByte, FieldMistake, Fields, Rate
from accelsim.hardware.memory.attached import AttachedFields, AttachedMemory, Fidelity

ArbitrationName = Literal["in_order", "round_robin", "fair", "weighted", "priority"]


SHARING = ("fair", "weighted", "priority")
"""Rules that share a link grant by grant, even where no size of a grant is given."""
USUAL_GRANT_BYTES = 4096


class KindFields(Fields):
    """A whole number for each kind of tensor."""

    load_weight: Count = 1
    load_input: Count = 1
    store_output: Count = 1


class DramFields(Fields):
    """The off-chip memory as a template describes it."""

    bandwidth: Rate
    latency: Cycles = 0
    fidelity: Fidelity = "link"
    memory: AttachedFields | None = None
    arbitration: ArbitrationName = "in_order"
    grant: Bytes = Field(default=0)
    weights: KindFields | None = None
    ranks: KindFields | None = None
    directions: Literal["shared", "separate"] = "shared"
    outstanding: Annotated[int, Field(strict=True, ge=0, le=1 << 16, examples=[16])] = 0
    read_energy: EnergyPerByte
    write_energy: EnergyPerByte

    def link(self) -> Link:
        """The link that these fields describe.

        Raises :class:`FieldMistake` for weights or ranks that the arbitration does not look at, and for a fidelity that
        needs a memory that is not there, cannot be set up so, or does not go with the other fields.
        """
        if self.fidelity != "link":
            self._check_memory()
        for name, needed in (("weights", "weighted"), ("ranks", "priority")):
            if getattr(self, name) is not None and self.arbitration != needed:
                raise FieldMistake(
                    ("dram", name),
                    f"found values, but dram.arbitration is {self.arbitration}, which knows none: set it to {needed}",
                )
        shared = self.arbitration in SHARING
        return Link(
            bytes_per_cycle=self.bandwidth,
            latency_cycles=self.latency,
            arbitration=self.arbitration,
            grant_bytes=self.grant or (USUAL_GRANT_BYTES if shared else 0),
            weights=self.weights or KindFields(),
            ranks=self.ranks or KindFields(),
            separate_directions=self.directions == "separate",
            outstanding=self.outstanding,
            read_pj_per_byte=float(self.read_energy),
            write_pj_per_byte=float(self.write_energy),
            fidelity=self.fidelity,
            memory=self.memory.attach() if self.memory is not None and self.fidelity != "link" else None,
        )

    def _check_memory(self) -> None:
        if self.memory is None:
            raise FieldMistake(
                ("dram", "fidelity"),
                f"'{self.fidelity}' needs to know the memory: set dram.memory.technology (accelsim list memories), and "
                "dram.memory.channels for more than one",
            )
        if self.directions == "separate":
            message = (
                f"'separate' does not go with fidelity '{self.fidelity}': reads and writes share a DRAM's data pins"
            )
            raise FieldMistake(("dram", "directions"), message)
        if self.outstanding:
            message = (
                f"{self.outstanding} does not go with fidelity '{self.fidelity}': the controller's queues are the limit"
            )
            raise FieldMistake(("dram", "outstanding"), f"{message}; leave it out")


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
    arbitration: ArbitrationName
    grant_bytes: int
    """Bytes served in one grant; 0 = the whole transfer."""
    weights: KindFields
    """``weighted``: what the kinds of tensors get is as these."""
    ranks: KindFields
    """``priority``: lower goes first."""
    separate_directions: bool
    """Loads and stores have a link each, both of this bandwidth; else they share one."""
    outstanding: int
    """The most grants of one queue on their way; 0 = any number."""
    read_pj_per_byte: float
    write_pj_per_byte: float
    fidelity: Fidelity = "link"
    """How time on it is found: its bandwidth alone, that times a measured efficiency, or the memory's commands."""
    memory: AttachedMemory | None = None
    """What stands behind it; None with fidelity ``link``."""

    @property
    def peak_bytes_per_cycle(self) -> Fraction:
        """Of reads and writes together, at the same time where they have a link each."""
        return self.bytes_per_cycle * (2 if self.separate_directions else 1)

    @property
    def serves_one_order(self) -> bool:
        """All transfers go one after another, as DRAM tensor order says, without waiting for requests."""
        return self.arbitration == "in_order" and not self.separate_directions and not self.outstanding
