"""Off-chip memories: what they are asked, and what they answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from accelsim.errors import InputError

IntColumn = npt.NDArray[np.int64]

ALWAYS = -1
"""Arrival of a request that is offered from the beginning."""
ONE_BURST = 0
"""Size of a request that says none."""


class MemoryRequests(NamedTuple):
    """What a memory is asked for, in order; each column one entry a request."""

    arrival_cycles: IntColumn
    """The memory's cycle from which on the request is offered, or :data:`ALWAYS`."""
    address: IntColumn
    bytes: IntColumn
    """Or :data:`ONE_BURST`."""
    is_write: npt.NDArray[np.bool_]
    engine: IntColumn
    """Who asks."""

    @property
    def size(self) -> int:
        """How many requests."""
        return len(self.address)


@dataclass(frozen=True)
class MemoryRun:
    """How a memory served requests. Cycles are the memory's own.

    A request is accepted when it enters the controller's queue. A read is finished when its last data has returned, a
    write when its last write command has been sent. Latency counts from the arrival, or, for requests that are always
    offered, from the acceptance.
    """

    memory: str
    clock_hz: int
    peak_bytes_per_cycle: float
    requests: MemoryRequests
    accepted_cycles: IntColumn
    finished_cycles: IntColumn
    cycles: int
    """Until the last read has returned and the last write was sent."""
    bytes_moved: int
    row_hits: int
    row_misses: int
    row_conflicts: int
    energy_by_command_pj: dict[str, float]
    commands: npt.NDArray[np.int64] | None = None
    """If recorded: cycle, command, rank, bank, row."""

    @property
    def latency_cycles(self) -> IntColumn:
        """Of each request."""
        offered = self.requests.arrival_cycles
        return self.finished_cycles - np.where(offered == ALWAYS, self.accepted_cycles, offered)

    @property
    def bandwidth_gb_per_s(self) -> float:
        """Bytes moved over the time of the run, in 10^9 bytes a second."""
        return self.bytes_moved / self.cycles * self.clock_hz / 1e9

    @property
    def peak_gb_per_s(self) -> float:
        """What the data pins can move."""
        return self.peak_bytes_per_cycle * self.clock_hz / 1e9

    @property
    def energy_pj(self) -> float:
        """Of the whole run."""
        return sum(self.energy_by_command_pj.values())

    def summary(self) -> dict[str, Any]:
        """The figures of ``accelsim memory --json``; ``engines`` has those of each engine."""
        latency, is_write = self.latency_cycles, self.requests.is_write
        return {
            "memory": self.memory,
            "requests": self.requests.size,
            "cycles": self.cycles,
            "seconds": self.cycles / self.clock_hz,
            "bytes": self.bytes_moved,
            "bandwidth_gb_per_s": self.bandwidth_gb_per_s,
            "peak_gb_per_s": self.peak_gb_per_s,
            "efficiency": self.bytes_moved / self.cycles / self.peak_bytes_per_cycle,
            "read_latency_cycles": latency_figures(latency[~is_write]),
            "write_latency_cycles": latency_figures(latency[is_write]),
            "row_hits": self.row_hits,
            "row_misses": self.row_misses,
            "row_conflicts": self.row_conflicts,
            "energy_pj": self.energy_pj,
            "energy_by_command_pj": self.energy_by_command_pj,
            "engines": self._engines(),
        }

    def _engines(self) -> list[dict[str, Any]]:
        latency, requests = self.latency_cycles, self.requests
        found = []
        for engine in np.unique(requests.engine):
            mine = requests.engine == engine
            reads, writes = mine & ~requests.is_write, mine & requests.is_write
            found.append(
                {
                    "engine": int(engine),
                    "requests": int(mine.sum()),
                    "reads": int(reads.sum()),
                    "writes": int(writes.sum()),
                    "finished_cycle": int(self.finished_cycles[mine].max()) + 1,
                    "read_latency_cycles": latency_figures(latency[reads]),
                    "write_latency_cycles": latency_figures(latency[writes]),
                }
            )
        return found


def latency_figures(latency: IntColumn) -> dict[str, float]:
    """Mean, median, 99th percentile (each the smallest latency that enough requests do not exceed) and maximum."""
    if not len(latency):
        return {"mean": 0, "p50": 0, "p99": 0, "max": 0}
    p50, p99 = np.percentile(latency, (50, 99), method="inverted_cdf")
    return {"mean": float(latency.mean()), "p50": int(p50), "p99": int(p99), "max": int(latency.max())}


class Memory(ABC):
    """An off-chip memory that serves requests."""

    name: str
    description: str
    clock_hz: int
    peak_bytes_per_cycle: float
    capacity_bytes: int
    access_bytes: int

    @abstractmethod
    def serve(self, requests: MemoryRequests, *, record_commands: bool = False) -> MemoryRun:
        """Serve all requests.

        Raises:
            InputError: no request, an address at or beyond the capacity, or an arrival before that of the line above.
        """

    def check(self, requests: MemoryRequests) -> None:
        """Refuse what :meth:`serve` cannot serve."""
        if not requests.size:
            raise InputError("the trace has no requests; expected at least one")
        end = requests.address + np.maximum(requests.bytes, 1)
        outside = np.flatnonzero((requests.address < 0) | (end > self.capacity_bytes))
        if len(outside):
            first = int(outside[0])
            raise InputError(
                f"request {first + 1} goes up to address {int(end[first]) - 1:#x}, but '{self.name}' holds "
                f"{self.capacity_bytes:#x} bytes ({self.capacity_bytes / 2**30:g} GiB); "
                f"{len(outside)} of {requests.size} requests lie outside. Set more channels or ranks, or move the trace"
            )
        late = np.flatnonzero(np.diff(requests.arrival_cycles) < 0)
        if len(late):
            at = int(late[0]) + 1
            raise InputError(
                f"request {at + 1} arrives at cycle {int(requests.arrival_cycles[at])}, before the one above it at "
                f"{int(requests.arrival_cycles[at - 1])}; sort the trace by arrival"
            )
