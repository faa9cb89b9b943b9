"""Two timelines, aligned: what they have in common by name, and what of it moved. Everywhere B is seen from A.

Rows of two programs have nothing to do with one another, so alignment goes by names: operators and tensors by theirs,
transfers by kind, tensor, operator and tile. Tiles of an operator are the same ones only where both runs cut it into as
many.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.program.check import activity_name, same_program
from accelsim.program.tables import ActivityKind, IntColumn, Program
from accelsim.timeline.kinds import KINDS, SELDOM, activity_kinds
from accelsim.timeline.occupancy import activity_spans
from accelsim.timeline.stalls import NO_OPERATOR, critical_path
from accelsim.timeline.table import Timeline

OFF_PATH = "(before the path)"
"""Takes the cycles that the path of a foreign trace does not reach back over; runs of our engines have none."""


def identical(a: Timeline, b: Timeline) -> bool:
    """Whether both ran the same program, and every event is the same. The engine may differ."""
    events = zip(a.events, b.events, strict=True)
    return all(np.array_equal(one, other) for one, other in events) and same_program(a.program, b.program)


def same_schedule(a: Program, b: Program) -> bool:
    """Whether two programs differ in nothing but the machine: cycles, energies, rates, capacities and queues."""
    for table in ("dependencies", "claims", "releases"):
        if not all(map(np.array_equal, getattr(a, table), getattr(b, table))):
            return False
    schedule = [name for name in a.activities._fields if name not in ("cycles", "queue")]
    return (
        a.operator_names == b.operator_names
        and a.tensor_names == b.tensor_names
        and np.array_equal(a.shapes, b.shapes)
        and all(np.array_equal(getattr(a.activities, name), getattr(b.activities, name)) for name in schedule)
    )


class Moved(NamedTuple):
    """A transfer that both runs have."""

    name: str
    start_a_cycles: int
    start_b_cycles: int
    ahead_a_cycles: int
    """In A, cycles from its start to the first start of what depends on it: how far ahead of its use it begins."""
    ahead_b_cycles: int
    of_weights: bool

    @property
    def shift_cycles(self) -> int:
        """How much later it starts in B; negative: earlier."""
        return self.start_b_cycles - self.start_a_cycles


class TransferAlignment(NamedTuple):
    """The transfers of two runs."""

    both: list[Moved]
    """In the order in which they stand in A."""
    only_a: int
    only_b: int


def align_transfers(a: Timeline, b: Timeline) -> TransferAlignment:
    """Finds each transfer of A in B."""
    keys_a, keys_b = _transfer_keys(a.program), _transfer_keys(b.program)
    starts_a, ahead_a = _starts_and_leads(a)
    starts_b, ahead_b = _starts_and_leads(b)
    both = [
        Moved(
            activity_name(a.program, row),
            int(starts_a[row]),
            int(starts_b[other]),
            int(ahead_a[row]),
            int(ahead_b[other]),
            key[0] == ActivityKind.LOAD and key[3] < 0,
        )
        for key, row in keys_a.items()
        if (other := keys_b.get(key)) is not None
    ]
    return TransferAlignment(both, len(keys_a) - len(both), len(keys_b) - len(both))


_Key = tuple[int, str, str, int, int, int]


def _transfer_keys(program: Program) -> dict[_Key, int]:
    """Kind, tensor, operator, tile, tiles of the operator, and a count of those alike; to the row."""
    activities = program.activities
    tiles = np.bincount(
        activities.operator[activities.kind == ActivityKind.TILE] + 1, minlength=len(program.operator_names) + 1
    ).tolist()
    operators, tensors = (*program.operator_names, ""), (*program.tensor_names, "")
    rows = np.flatnonzero(activities.kind != ActivityKind.TILE).tolist()
    alike: dict[tuple[int, str, str, int, int], int] = {}
    keys: dict[_Key, int] = {}
    columns = (activities.kind, activities.tensor, activities.operator, activities.tile)
    for row, kind, tensor, operator, tile in zip(rows, *(column[rows].tolist() for column in columns), strict=True):
        key = (kind, tensors[tensor], operators[operator], tile, tiles[operator + 1] if tile >= 0 else 0)
        alike[key] = alike.get(key, 0) + 1
        keys[(*key, alike[key])] = row
    return keys


def _starts_and_leads(timeline: Timeline) -> tuple[IntColumn, IntColumn]:
    """For each activity its start, and the cycles from there to the first start of what depends on it (else 0)."""
    start, _ = activity_spans(timeline)
    dependencies = timeline.program.dependencies
    first_use = np.full(timeline.program.size, np.iinfo(np.int64).max)
    np.minimum.at(first_use, dependencies.before, start[dependencies.after])
    used = first_use < np.iinfo(np.int64).max
    return start, np.where(used, first_use - start, 0)


def path_cycles(timeline: Timeline) -> tuple[dict[str, int], dict[str, int]]:
    """The run's cycles divided among the events of its critical path: by kind (:data:`KINDS`), and by operator.

    An event of the path lasts until the next one starts, the last one until it finishes, so that both add up to the
    latency.
    """
    path, events, program = critical_path(timeline), timeline.events, timeline.program
    activity = events.activity[path]
    starts = events.start_cycles[path]
    lasts = np.diff(starts, append=events.finish_cycles[path[-1:]]) if len(path) else starts
    kinds = np.zeros(len(KINDS), dtype=np.int64)
    np.add.at(kinds, activity_kinds(program)[activity], lasts)
    by_kind = {name: cycles for name, cycles in zip(KINDS, kinds.tolist(), strict=True) if cycles or name not in SELDOM}
    by_operator: dict[str, int] = {}
    names = (*program.operator_names, NO_OPERATOR)
    for operator, cycles in zip(program.activities.operator[activity].tolist(), lasts.tolist(), strict=True):
        by_operator[names[operator]] = by_operator.get(names[operator], 0) + cycles
    if before := timeline.latency_cycles - sum(by_kind.values()):
        by_kind[OFF_PATH] = by_operator[OFF_PATH] = before
    return by_kind, by_operator
