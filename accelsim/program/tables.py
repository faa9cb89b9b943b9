"""The Program: an activity network in plain tables, and nothing else.

A Program is what both engines run, what a trace is, and what every timeline carries with it. Its tables are
NamedTuples of one-dimensional ``int64`` columns, read by row number; names stand in tuples beside them. See
``docs/tables.md`` for a page on each column, and ``docs/model.md`` for what the engines do with them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import IntEnum
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from accelsim.errors import MalformedProgram

if TYPE_CHECKING:
    from accelsim.program.memory_plan import MemoryPlan

IntColumn = npt.NDArray[np.int64]
FloatTable = npt.NDArray[np.float64]

MAXIMUM_TOTAL = 1 << 62
"""Cycles (and bytes times the rate's denominator) of a program stay below this, so that ``int64`` cannot overflow."""


class ResourceKind(IntEnum):
    """What a resource serves: tiles on a core, or transfers on a link."""

    CORE = 0
    LINK = 1


class Arbitration(IntEnum):
    """How a link chooses among its queues, each time that it is free."""

    IN_ORDER = 0
    """The head that asked first."""
    ROUND_ROBIN = 1
    """In turn."""
    FAIR = 2
    """The tenant that has had the fewest bytes."""
    WEIGHTED = 3
    """The tenant that has had the fewest bytes for its weight."""
    PRIORITY = 4
    """The queue of the lowest rank; of equal ones the one served longest ago."""


class ActivityKind(IntEnum):
    """What an activity is: tiles run on cores, loads and stores on links to memory, sends on links to accelerators."""

    TILE = 0
    LOAD = 1
    STORE = 2
    SEND = 3


class ResourceTable(NamedTuple):
    """One row a resource."""

    kind: IntColumn
    """:class:`ResourceKind`."""
    bytes_numerator: IntColumn
    """Links: bandwidth in bytes per cycle is numerator / denominator, exactly. Cores: the same of the buffer port that
    transfers pass, too; 0 = none does."""
    bytes_denominator: IntColumn
    """See ``bytes_numerator``; 1 where that is 0."""
    latency_cycles: IntColumn
    """Links: cycles from a transfer's last byte to its finish. Cores: 0."""
    arbitration: IntColumn
    """Links: :class:`Arbitration`. Cores: ``ROUND_ROBIN`` over their queues."""
    grant_bytes: IntColumn
    """Links: bytes served in one grant; 0 = the whole transfer. Cores: 0."""


_DEFAULT = np.zeros(0, dtype=np.int64)
"""Stands for a column that its table's defaults fill."""


class QueueTable(NamedTuple):
    """One row a queue. All columns but the first may be left out: see :data:`QUEUE_DEFAULTS`."""

    resource: IntColumn
    tenant: IntColumn = _DEFAULT
    """Row in ``tenant_names``: its queues share what ``FAIR`` and ``WEIGHTED`` links give to one. -1: on its own."""
    weight: IntColumn = _DEFAULT
    """``WEIGHTED`` links: its share, or that of its tenant, is to the others' as their weights. From 1."""
    rank: IntColumn = _DEFAULT
    """``PRIORITY`` links, and among queues of one tenant on ``FAIR`` and ``WEIGHTED`` ones: lower goes first."""
    outstanding: IntColumn = _DEFAULT
    """Links: the most grants that may be on their way, from their start to a latency behind their end; 0 = any."""

    port: IntColumn = _DEFAULT
    """Links: the core whose buffer port the transfers pass, too, and make its tiles wait; -1: none."""

    def filled(self) -> QueueTable:
        """The table with the columns that were left out."""
        missing = {name: value for name, value in QUEUE_DEFAULTS.items() if getattr(self, name) is _DEFAULT}
        return self._replace(**{name: np.full(len(self.resource), value) for name, value in missing.items()})


QUEUE_DEFAULTS = {"tenant": -1, "weight": 1, "rank": 0, "outstanding": 0, "port": -1}


class ActivityTable(NamedTuple):
    """One row an activity. Rows of one queue are served in the order in which they stand here."""

    queue: IntColumn
    kind: IntColumn
    """:class:`ActivityKind`."""
    cycles: IntColumn
    """Tiles: duration. Transfers: 0 (their time follows from ``bytes`` and the link)."""
    bytes: IntColumn
    """Transfers: bytes moved. Tiles: 0."""
    operator: IntColumn
    """Row in ``operator_names``, or -1."""
    tile: IntColumn
    """Tile number within its operator, or -1 (a weight, which serves all tiles)."""
    tensor: IntColumn
    """Transfers: row in ``tensor_names``. Tiles: -1."""
    position: IntColumn
    """Tiles: position in the schedule's tile sequence. Transfers: -1."""
    macs: IntColumn
    """Tiles: multiply-accumulates executed, recomputed halo included."""
    vector_ops: IntColumn
    """Tiles: vector operations executed."""
    shape: IntColumn
    """Tiles on the array: row in ``shapes``. Else, and where the shape is not known: -1."""
    port_cycles: IntColumn = _DEFAULT
    """Tiles: how long they need a buffer port that transfers pass, too. Else, and where it is left out: 0."""


ACTIVITY_SIZES = ("cycles", "bytes", "macs", "vector_ops", "port_cycles")
"""The columns of :class:`ActivityTable` that count something; in the others -1 stands for none."""


class DependencyTable(NamedTuple):
    """One row an edge: ``after`` does not ask before ``before`` has finished."""

    before: IntColumn
    after: IntColumn


class ClaimTable(NamedTuple):
    """One row a claim on buffer space."""

    buffer: IntColumn
    bytes: IntColumn
    taken_by: IntColumn
    """The activity that takes the space when it starts; -1 = taken at cycle 0, before anything starts."""
    tensor: IntColumn
    """Row in ``tensor_names``, or -1."""


class ReleaseTable(NamedTuple):
    """One row a reason to keep a claim: it is given back when all its activities here have finished.

    A claim without a row is never given back.
    """

    claim: IntColumn
    activity: IntColumn


class BufferTable(NamedTuple):
    """One row a buffer."""

    capacity_bytes: IntColumn


SHAPE_COLUMNS = (
    "batch",
    "channels",
    "filters",
    "filters_per_group",
    "rows",
    "columns",
    "kernel_rows",
    "kernel_columns",
    "stride_rows",
    "stride_columns",
    "groups",
    "weights_from_operator",
    "dilation_rows",
    "dilation_columns",
)
"""Meaning of the columns of ``Program.shapes``; see :class:`accelsim.workload.operator.ArrayWork`."""

Table = TypeVar("Table", bound=tuple[IntColumn, ...])


def account_queues(queues: QueueTable) -> IntColumn:
    """For each queue, the first one of its tenant on its resource: what ``FAIR`` links give is counted there."""
    if not len(queues.tenant) or queues.tenant.max() < 0:
        return np.arange(len(queues.tenant))
    first: dict[tuple[int, int], int] = {}
    pairs = zip(queues.resource.tolist(), queues.tenant.tolist(), strict=True)
    return np.array(
        [row if pair[1] < 0 else first.setdefault(pair, row) for row, pair in enumerate(pairs)], dtype=np.int64
    )


def frozen_column(values: npt.ArrayLike) -> IntColumn:
    """``values`` as a contiguous, read-only ``int64`` column (a copy unless it is one already).

    Raises:
        MalformedProgram: the values are not whole numbers.
    """
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iub":
        raise MalformedProgram(f"a column of whole numbers holds {array.dtype} values; round them where they are made")
    if array.dtype == np.int64 and array.flags.c_contiguous and not array.flags.writeable:
        return array
    column: IntColumn = np.array(array, dtype=np.int64, order="C", copy=True)
    column.setflags(write=False)
    return column


def frozen(table: Table) -> Table:
    """A table whose columns are all :func:`frozen_column`."""
    return type(table)(*(frozen_column(column) for column in table))


_LONG_ROWS = 1 << 16


def _sharing(table: Table, constants: dict[tuple[int, int], IntColumn]) -> Table:
    """A long table in which columns that hold one number throughout, the same one, are one array; traces have many."""
    if len(table[0]) < _LONG_ROWS:
        return table
    return type(table)(
        *(
            constants.setdefault((len(column), int(column[0])), column)
            if len(column) and column[0] == column[-1] and (column == column[0]).all()
            else column
            for column in table
        )
    )


@dataclass(frozen=True, eq=False)
class Program:
    """A schedule lowered for one accelerator: activities, queues, dependencies and buffer claims.

    Both engines check it first; see :func:`accelsim.program.check.check_program`.
    """

    resources: ResourceTable
    queues: QueueTable
    activities: ActivityTable
    dependencies: DependencyTable
    claims: ClaimTable
    releases: ReleaseTable
    buffers: BufferTable
    energy_pj: FloatTable
    """Shape (activities, parts): picojoules of each activity by part of the machine."""
    shapes: npt.NDArray[np.int64]
    """Shape (distinct tile shapes, len(SHAPE_COLUMNS))."""
    resource_names: tuple[str, ...]
    queue_names: tuple[str, ...]
    buffer_names: tuple[str, ...]
    operator_names: tuple[str, ...]
    tensor_names: tuple[str, ...]
    part_names: tuple[str, ...]
    tenant_names: tuple[str, ...] = ()
    """The programs that share this machine; empty for one that has it alone."""
    operator_macs: IntColumn = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """For each operator, its own multiply-accumulates, without recomputation; empty when not known."""
    operator_vector_ops: IntColumn = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """For each operator, its own vector operations, without recomputation; empty when not known."""
    static_pj_per_cycle: float = 0.0
    """Energy that flows as long as the run lasts; accounted to the part ``static``."""
    facts: dict[str, int | float | str] = field(default_factory=dict)
    """Numbers about the workload and machine that reports need: ``macs``, ``vector_ops``, ``macs_per_cycle``,
    ``ideal_cycles``, ``clock_hz``, ``workload``, ``hardware``, ``batch``, ``effectual`` (shares, an operator each) …"""
    memory: MemoryPlan | None = None
    """The memory behind a link, down to banks; None where links are bandwidth and latency."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "queues", self.queues.filled())
        if self.activities.port_cycles is _DEFAULT:
            none = np.zeros(len(self.activities.queue), dtype=np.int64)
            object.__setattr__(self, "activities", self.activities._replace(port_cycles=none))
        constants: dict[tuple[int, int], IntColumn] = {}
        for name in ("resources", "queues", "activities", "dependencies", "claims", "releases", "buffers"):
            object.__setattr__(self, name, _sharing(frozen(getattr(self, name)), constants))
        object.__setattr__(self, "operator_macs", frozen_column(self.operator_macs))
        object.__setattr__(self, "operator_vector_ops", frozen_column(self.operator_vector_ops))
        energy = np.asarray(self.energy_pj, dtype=np.float64, order="C")
        if energy.flags.writeable:
            energy = energy.copy()
            energy.setflags(write=False)
        energy = energy.reshape(len(self.activities.queue), len(self.part_names))
        object.__setattr__(self, "energy_pj", energy)
        shapes = np.array(self.shapes, dtype=np.int64).reshape(-1, len(SHAPE_COLUMNS))
        shapes.setflags(write=False)
        object.__setattr__(self, "shapes", shapes)

    @property
    def size(self) -> int:
        """Number of activities."""
        return len(self.activities.queue)


def byte_costs(program: Program) -> list[int]:
    """For each queue, what a byte counts when its link compares what tenants have had.

    On a ``WEIGHTED`` link the least common multiple of the weights over the queue's weight, so that comparisons stay in
    whole numbers; 1 on a ``FAIR`` one; 0 elsewhere.
    """
    queues, arbitration = program.queues, program.resources.arbitration
    costs: list[int] = (arbitration[queues.resource] == Arbitration.FAIR).astype(np.int64).tolist()
    for link in np.flatnonzero(arbitration == Arbitration.WEIGHTED).tolist():
        rows = np.flatnonzero(queues.resource == link).tolist()
        whole = math.lcm(*(int(queues.weight[row]) for row in rows))
        for row in rows:
            costs[row] = whole // int(queues.weight[row])
    return costs


def port_shares(program: Program) -> dict[int, Fraction]:
    """For each core with a port that transfers pass: the cycles of the port that one cycle of a link takes.

    All links that pass one port have the same bandwidth.
    """
    resources, queues = program.resources, program.queues
    shares = {}
    for queue in np.flatnonzero(queues.port >= 0).tolist():
        core, link = int(queues.port[queue]), int(queues.resource[queue])
        rates = [Fraction(int(resources.bytes_numerator[r]), int(resources.bytes_denominator[r])) for r in (link, core)]
        shares[core] = rates[0] / rates[1]
    return shares


def port_cycles(program: Program) -> IntColumn:
    """For each activity, how long it needs a port that transfers pass, too."""
    passed = np.zeros(len(program.resources.kind), dtype=np.bool_)
    passed[program.queues.port[program.queues.port >= 0]] = True
    return np.where(passed[program.queues.resource[program.activities.queue]], program.activities.port_cycles, 0)
