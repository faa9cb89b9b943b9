"""A memory without banks: its pins are busy whenever something waits. What a controller can be held against."""

from __future__ import annotations

import numpy as np

from accelsim.hardware.memory.memory import ALWAYS, ONE_BURST, Memory, MemoryRequests, MemoryRun


class IdealMemory(Memory):
    """Serves requests in order at the bandwidth of the pins; data follow one latency later.

    Args:
        name: what reports call it.
        description: one line.
        clock_hz: cycles a second.
        channels: sets of pins that work side by side.
        burst_cycles: for which one access holds the pins of one channel.
        access_bytes: bytes of one access.
        latency_cycles: from the turn of an access to the begin of its data.
        capacity_bytes: addresses lie below it.
    """

    def __init__(
        self,
        *,
        name: str,
        description: str,
        clock_hz: int,
        channels: int,
        burst_cycles: int,
        access_bytes: int,
        latency_cycles: int,
        capacity_bytes: int,
    ) -> None:
        self.name, self.description, self.clock_hz = name, description, clock_hz
        self.channels, self.burst_cycles, self.access_bytes = channels, burst_cycles, access_bytes
        self.latency_cycles, self.capacity_bytes = latency_cycles, capacity_bytes
        self.peak_bytes_per_cycle = channels * access_bytes / burst_cycles

    def serve(self, requests: MemoryRequests, *, record_commands: bool = False) -> MemoryRun:
        """As :meth:`Memory.serve`; there are no commands to record, no rows and no energy."""
        self.check(requests)
        size = np.where(requests.bytes == ONE_BURST, self.access_bytes, requests.bytes)
        busy = -(-size // self.access_bytes) * self.burst_cycles  # in cycles of one channel
        before = np.cumsum(busy) - busy
        offered = np.where(requests.arrival_cycles == ALWAYS, 0, requests.arrival_cycles) * self.channels
        start = np.maximum.accumulate(offered - before) + before  # max over those in front: its time, then all since
        finished = -(-(start + busy) // self.channels) + self.latency_cycles
        return MemoryRun(
            memory=self.name,
            clock_hz=self.clock_hz,
            peak_bytes_per_cycle=self.peak_bytes_per_cycle,
            requests=requests,
            accepted_cycles=start // self.channels,
            finished_cycles=finished,
            cycles=int(finished.max()),
            bytes_moved=int(busy.sum()) // self.burst_cycles * self.access_bytes,
            row_hits=0,
            row_misses=0,
            row_conflicts=0,
            energy_by_command_pj={},
        )
