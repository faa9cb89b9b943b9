"""Communication between accelerators: how long it lasts, and how much of that computing hides."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.analysis.sections import Row
from accelsim.program.tables import ActivityKind, IntColumn, ResourceKind
from accelsim.timeline.table import Timeline


class Communication(NamedTuple):
    """Cycles in which messages of a device are on their way, by what else it does; of several devices the sum."""

    bytes: int
    """Sent over links, each hop counted."""
    cycles: int
    """With a message on a link, or in its latency."""
    overlapped_cycles: int
    """Of these, with a core of the same device running a tile."""
    devices: int

    @property
    def exposed_cycles(self) -> int:
        """Of these, without."""
        return self.cycles - self.overlapped_cycles

    @property
    def overlapped_percent(self) -> float:
        """Share of communication that computing hides."""
        return 100 * self.overlapped_cycles / self.cycles if self.cycles else 0.0

    def to_dict(self) -> dict[str, int | float]:
        """For reports in JSON."""
        return {
            "bytes": self.bytes,
            "cycles": self.cycles,
            "overlapped_cycles": self.overlapped_cycles,
            "exposed_cycles": self.exposed_cycles,
            "overlapped_percent": self.overlapped_percent,
            "devices": self.devices,
        }


def communication(timeline: Timeline) -> Communication | None:
    """What a run communicated; None if it sends nothing."""
    program, events = timeline.program, timeline.events
    sends = program.activities.kind[events.activity] == ActivityKind.SEND
    if not sends.any():
        return None
    cores = (program.resources.kind == ResourceKind.CORE)[events.resource]
    device = np.array([_device(name) for name in program.resource_names], dtype=np.int64)[events.resource]
    cycles = overlapped = 0
    ranks = np.unique(device[sends]).tolist()
    for rank in ranks:
        sent, ran = np.flatnonzero(sends & (device == rank)), np.flatnonzero(cores & (device == rank))
        moving = _union(events.start_cycles[sent], events.finish_cycles[sent])
        running = _union(events.start_cycles[ran], events.end_cycles[ran])
        both = _union(*(np.concatenate(pair) for pair in zip(moving, running, strict=True)))
        lengths = [int((end - start).sum()) for start, end in (moving, running, both)]
        cycles += lengths[0]
        overlapped += lengths[0] + lengths[1] - lengths[2]
    return Communication(int(events.bytes[sends].sum()), cycles, overlapped, len(ranks))


def communication_rows(timeline: Timeline) -> list[Row]:
    """The same as lines of a report; none if nothing is sent."""
    sent = communication(timeline)
    if sent is None:
        return []
    whole, of = sent.cycles or 1, f", sum of {sent.devices} devices" if sent.devices > 1 else ""
    return [
        Row("sent", f"{sent.bytes:,}", f"bytes over links{of}"),
        Row("communicating", f"{sent.cycles:,}", f"cycles with a message on its way{of}", sent.cycles / whole),
        Row("overlapped", f"{sent.overlapped_cycles:,}", "while a core runs a tile", sent.overlapped_cycles / whole),
        Row("exposed", f"{sent.exposed_cycles:,}", "while none does", sent.exposed_cycles / whole),
    ]


def _device(resource_name: str) -> int:
    """The rank at the end of a resource's name, where there are several devices."""
    last = resource_name.rpartition(" ")[2]
    return int(last) if last.isdecimal() else 0


def _union(starts: IntColumn, ends: IntColumn) -> tuple[IntColumn, IntColumn]:
    """Intervals without overlap that cover the same cycles."""
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    first = np.ones(len(starts), dtype=np.bool_)
    first[1:] = starts[1:] > reach[:-1]
    last = np.append(np.flatnonzero(first)[1:] - 1, len(starts) - 1)[: int(first.sum())]
    return starts[first], reach[last]
