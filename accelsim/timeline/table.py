"""The Timeline: one row an event, with the Program it came from.

An event is what one resource did from its start cycle up to its end cycle: a tile, or a run of consecutive grants of
one transfer. See ``docs/tables.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from accelsim.errors import MissingExtra
from accelsim.program.tables import IntColumn, Program, frozen
from accelsim.timeline.memory_use import MemoryUse

if TYPE_CHECKING:
    from accelsim.timeline.cycles import CycleActivity


class Cause(IntEnum):
    """What the last release was that an event had waited for (ties: the lower code)."""

    NONE = 0
    """Nothing: it could start at cycle 0."""
    LOAD = 1
    """A load that it depends on finished."""
    STORE = 2
    """A store that it depends on finished."""
    BUFFER = 3
    """Space in a buffer was given back, or an earlier asker for it stepped out of the way."""
    TILE = 4
    """A tile that it depends on finished (on its own queue: the predecessor is QUEUE instead)."""
    QUEUE = 5
    """Its predecessor on the same queue handed on."""
    RESOURCE = 6
    """Its resource served another queue until then."""
    SEND = 7
    """A message between accelerators that it depends on arrived."""
    LIMIT = 8
    """Its queue had as many requests on their way as it may, until one came back."""


class EventTable(NamedTuple):
    """One row an event, ordered by (start, resource, end, activity)."""

    start_cycles: IntColumn
    end_cycles: IntColumn
    """The resource is busy in [start, end)."""
    finish_cycles: IntColumn
    """When dependents may go on: ``end`` plus the link's latency for a transfer's last event, else ``end``."""
    ready_cycles: IntColumn
    """When it asked: its predecessor had handed on and all it depends on had finished."""
    resource: IntColumn
    queue: IntColumn
    activity: IntColumn
    """Row in the program's activities."""
    bytes: IntColumn
    """Transfers: bytes moved in this event. Tiles: 0."""
    cause: IntColumn
    """:class:`Cause`."""
    cause_activity: IntColumn
    """The activity whose finish, hand-on or release it was; -1 with ``NONE``."""


def no_events() -> EventTable:
    """A table without rows."""
    return EventTable(*(np.zeros(0, dtype=np.int64) for _ in EventTable._fields))


@dataclass(frozen=True, eq=False)
class Timeline:
    """All events of one run, the program that ran, and where it came from."""

    events: EventTable
    program: Program
    engine: str
    provenance: dict[str, object] = field(default_factory=dict)
    memory: MemoryUse | None = None
    """What a memory behind a link did; None where the link was bandwidth and latency."""
    cycles: CycleActivity | None = None
    """The run cycle by cycle, where :func:`accelsim.simulate` was asked for it; a file does not hold it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", frozen(self.events))

    @property
    def latency_cycles(self) -> int:
        """Cycles until the last activity has finished."""
        finish = self.events.finish_cycles
        return int(finish.max()) if len(finish) else 0

    def to_dataframe(self) -> Any:
        """The events as a pandas DataFrame, names instead of row numbers: see :func:`.columns.event_columns`.

        Raises:
            MissingExtra: pandas is not installed.
        """
        from accelsim.timeline.columns import event_columns

        try:
            import pandas
        except ImportError:
            raise MissingExtra("a data frame needs pandas: pip install 'accelsim[dataframe]'") from None
        return pandas.DataFrame(event_columns(self))

    def _repr_html_(self) -> str:
        facts = self.program.facts
        rows = {
            "workload": facts.get("workload", ""),
            "hardware": facts.get("hardware", ""),
            "latency": f"{self.latency_cycles:,} cycles",
            "events": f"{len(self.events.activity):,}",
            "engine": self.engine,
        }
        cells = "".join(f"<tr><th>{name}</th><td>{escape(str(value))}</td></tr>" for name, value in rows.items())
        # What draws stands layers above; a static import would draw all of it into this one.
        viewer = import_module("accelsim.plot.notebook").viewer_frame([("", self)])
        return f"<table>{cells}</table>{viewer}"
