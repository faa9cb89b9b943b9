"""What a run asked of a memory with banks, and what that cost."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class MemoryUse:
    """How a link's time was found, and, with fidelity ``banks``, what the memory did."""

    fidelity: str
    """``banks`` or ``calibrated``."""
    memory: str
    """Name of the technology."""
    channels: int
    peak_bytes_per_cycle: float
    """What the data pins can move, in a cycle of the machine."""
    bursts_read: int = 0
    """Sent to the chips; a read of what waits to be written is not."""
    bursts_written: int = 0
    burst_bytes: int = 0
    row_hits: int = 0
    row_misses: int = 0
    row_conflicts: int = 0
    energy_by_command_pj: dict[str, float] = field(default_factory=dict)
    """Activations with their precharges, reads, writes, refreshes, and what flows all the time."""

    @property
    def unshared_pj(self) -> float:
        """Refreshes and what flows all the time: energy that belongs to no transfer."""
        return self.energy_by_command_pj.get("ref", 0.0) + self.energy_by_command_pj.get("background", 0.0)
