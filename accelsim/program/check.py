"""What makes a Program one that an engine can run, and the names that messages call its activities by."""

from __future__ import annotations

from fractions import Fraction
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from accelsim.errors import BufferOverflow, MalformedProgram
from accelsim.program.memory_plan import check_plan, same_plan
from accelsim.program.tables import (
    ACTIVITY_SIZES,
    MAXIMUM_TOTAL,
    ActivityKind,
    Arbitration,
    IntColumn,
    Program,
    ResourceKind,
    account_queues,
    byte_costs,
    port_shares,
)

MOST_REQUESTS = 1 << 16
"""The largest weight, and the most requests of one queue that may be on their way."""
TABLES = ("resources", "queues", "activities", "dependencies", "claims", "releases", "buffers")
NAMES = (
    "resource_names",
    "queue_names",
    "buffer_names",
    "operator_names",
    "tensor_names",
    "part_names",
    "tenant_names",
)
KIND_WORDS = {
    ActivityKind.TILE: "tile",
    ActivityKind.LOAD: "load",
    ActivityKind.STORE: "store",
    ActivityKind.SEND: "send",
}


def activity_name(program: Program, activity: int) -> str:
    """An activity in words: ``tile 3 of 'conv1'``, ``load of 'conv1.weight'``, ``store 12`` where nothing is named."""
    row = [int(column[activity]) for column in program.activities]
    columns = dict(zip(program.activities._fields, row, strict=True))
    word = KIND_WORDS[ActivityKind(columns["kind"])]
    operator, tile, tensor = columns["operator"], columns["tile"], columns["tensor"]
    place = f"tile {tile} of " if tile >= 0 else ""
    named = f"{place}{program.operator_names[operator]!r}" if operator >= 0 else ""
    if columns["kind"] == ActivityKind.TILE:
        return (named if tile >= 0 else f"tile of {named}") if named else f"{word} {activity}"
    if tensor >= 0:
        return f"{word} of {program.tensor_names[tensor]!r}" + (f" for {named}" if named and tile >= 0 else "")
    return f"{word} for {named}" if named else f"{word} {activity}"


def same_program(one: Program, other: Program) -> bool:
    """Whether two programs are equal in every row, name and number."""
    arrays = ((a, b) for table in TABLES for a, b in zip(getattr(one, table), getattr(other, table), strict=True))
    return (
        all(np.array_equal(a, b) for a, b in arrays)
        and np.array_equal(one.energy_pj, other.energy_pj)
        and np.array_equal(one.shapes, other.shapes)
        and np.array_equal(one.operator_macs, other.operator_macs)
        and np.array_equal(one.operator_vector_ops, other.operator_vector_ops)
        and all(getattr(one, name) == getattr(other, name) for name in NAMES)
        and one.static_pj_per_cycle == other.static_pj_per_cycle
        and one.facts == other.facts
        and same_plan(one.memory, other.memory)
    )


def check_program(program: Program) -> None:
    """Raise unless both engines can run the program; a deadlock is found only by running it.

    Raises:
        MalformedProgram: unequal columns, ids out of range, negative sizes, tiles on links, a total beyond the clock …
        BufferOverflow: claims that can never be taken, because the buffer is too small for them.
    """
    _check_lengths(program)
    _check_resources(program)
    _check_queues(program)
    _check_activities(program)
    _check_edges(program)
    _check_totals(program)
    _check_capacities(program)
    if program.memory is not None:
        check_plan(program, program.memory)


def _reject(table: str, column: str, row: int, value: object, rule: str) -> NoReturn:
    raise MalformedProgram(f"{table}.{column}[{row}] is {value}: {rule}")


def _within(program: Program, table: str, column: str, least: int, beyond: int, what: str) -> None:
    """All values of a column are in [least, beyond)."""
    values: IntColumn = getattr(getattr(program, table), column)
    if len(values) and (values.min() < least or values.max() >= beyond):
        row = int(np.flatnonzero((values < least) | (values >= beyond))[0])
        allowed = f"at least {least:,}" if values[row] < least else f"below {beyond:,}"
        _reject(table, column, row, f"{values[row]:,}", f"{what} must be {allowed}")


def _sizes(program: Program, table: str, *columns: str) -> None:
    for column in columns:
        _within(program, table, column, 0, MAXIMUM_TOTAL, "a size")


def _rows(program: Program, table: str, column: str, of: str, count: int, least: int = 0) -> None:
    _within(program, table, column, least, count, f"a row of {of} (it has {count:,} rows)")


def _check_lengths(program: Program) -> None:
    for name in TABLES:
        table = getattr(program, name)
        for column, values in zip(table._fields, table, strict=True):
            if values.ndim != 1 or len(values) != len(table[0]):
                raise MalformedProgram(
                    f"{name}.{column} has shape {values.shape}, {name}.{table._fields[0]} has {table[0].shape}"
                )
    for name, table, count in (
        ("resource_names", "resources", len(program.resources.kind)),
        ("queue_names", "queues", len(program.queues.resource)),
        ("buffer_names", "buffers", len(program.buffers.capacity_bytes)),
    ):
        if len(getattr(program, name)) != count:
            raise MalformedProgram(f"{name} has {len(getattr(program, name))} names, {table} has {count} rows")
    energy = program.energy_pj
    if energy.size and not (energy.min() >= 0 and energy.max() < np.inf):  # a NaN fails both
        row, part = (int(index) for index in np.argwhere(~((energy >= 0) & (energy < np.inf)))[0])
        raise MalformedProgram(
            f"energy_pj[{row}, {program.part_names[part]!r}] is {energy[row, part]}: must be finite and not negative"
        )


def _check_resources(program: Program) -> None:
    resources = program.resources
    _within(program, "resources", "kind", 0, len(ResourceKind), "a ResourceKind")
    _within(program, "resources", "arbitration", 0, len(Arbitration), "an Arbitration")
    _sizes(program, "resources", "bytes_numerator", "bytes_denominator", "latency_cycles", "grant_bytes")
    _sizes(program, "buffers", "capacity_bytes")
    for row in np.flatnonzero(resources.kind == ResourceKind.LINK).tolist():
        for column in ("bytes_numerator", "bytes_denominator"):
            if getattr(resources, column)[row] == 0:
                _reject("resources", column, row, 0, "the bandwidth of a link must be more than 0")
    for column in ("latency_cycles", "grant_bytes"):
        wrong = np.flatnonzero((resources.kind == ResourceKind.CORE) & (getattr(resources, column) != 0))
        if len(wrong):
            _reject(
                "resources", column, int(wrong[0]), getattr(resources, column)[wrong[0]], "a core has none, must be 0"
            )


def _check_queues(program: Program) -> None:
    queues = program.queues
    _rows(program, "queues", "resource", "resources", len(program.resources.kind))
    _rows(program, "queues", "tenant", "tenant_names", len(program.tenant_names), -1)
    _within(program, "queues", "weight", 1, MOST_REQUESTS + 1, "a weight")
    _within(program, "queues", "rank", 0, MAXIMUM_TOTAL, "a rank")
    _within(program, "queues", "outstanding", 0, MOST_REQUESTS + 1, "a limit of requests")
    cores = program.resources.kind == ResourceKind.CORE
    core = cores[queues.resource]
    _rows(program, "queues", "port", "resources", len(cores), -1)
    _check_ports(program, cores)
    limited = np.flatnonzero(core & (queues.outstanding > 0))
    if len(limited):
        row = int(limited[0])
        _reject("queues", "outstanding", row, queues.outstanding[row], "a core has no requests on their way, must be 0")
    accounts = account_queues(queues)
    unequal = np.flatnonzero(queues.weight != queues.weight[accounts])
    if len(unequal):
        row = int(unequal[0])
        other = f"queue {accounts[row]} of the same tenant and link has {queues.weight[accounts[row]]}"
        _reject("queues", "weight", row, queues.weight[row], f"{other}; a tenant has one weight on a link")


def _check_ports(program: Program, cores: npt.NDArray[np.bool_]) -> None:
    """Transfers of links of one rate pass the port of a core that has one."""
    queues, resources = program.queues, program.resources
    rate_of: dict[int, Fraction] = {}
    for row in np.flatnonzero(queues.port >= 0).tolist():
        core, link = int(queues.port[row]), int(queues.resource[row])
        if cores[link] or not cores[core]:
            _reject("queues", "port", row, core, "transfers on a link pass the port of a core")
        if min(resources.bytes_numerator[core], resources.bytes_denominator[core]) < 1:
            rule = f"core {program.resource_names[core]!r} has no port with a bandwidth"
            _reject("queues", "port", row, core, rule)
        rate = Fraction(int(resources.bytes_numerator[link]), int(resources.bytes_denominator[link]))
        if rate_of.setdefault(core, rate) != rate:
            rule = f"links of {rate_of[core]} and {rate} bytes per cycle pass it; they must have one bandwidth"
            _reject("queues", "port", row, core, rule)
    for core, share in port_shares(program).items():
        if max(share.numerator, share.denominator) >= 1 << 31:
            raise MalformedProgram(
                f"a cycle of a link is {share} cycles of the port of {program.resource_names[core]!r}; give bandwidths "
                "as simpler fractions"
            )
    if (queues.port >= 0).any() and program.memory is not None and program.memory.fidelity == "banks":
        raise MalformedProgram(
            "transfers that pass a port go at the link's bandwidth, which a memory with banks does not have: set dma "
            "to own, or fidelity to link"
        )


def _check_activities(program: Program) -> None:
    activities = program.activities
    _within(program, "activities", "kind", 0, len(ActivityKind), "an ActivityKind")
    _rows(program, "activities", "queue", "queues", len(program.queues.resource))
    _rows(program, "activities", "operator", "operator_names", len(program.operator_names), -1)
    _rows(program, "activities", "tensor", "tensor_names", len(program.tensor_names), -1)
    _rows(program, "activities", "shape", "shapes", len(program.shapes), -1)
    _sizes(program, "activities", *ACTIVITY_SIZES)
    tile = activities.kind == ActivityKind.TILE
    core = (program.resources.kind == ResourceKind.CORE)[program.queues.resource][activities.queue]
    _none(program, "queue", tile != core, "tiles run on cores, loads, stores and sends on links")
    _none(program, "bytes", tile & (activities.bytes != 0), "a tile moves no bytes, must be 0")
    _none(program, "port_cycles", ~tile & (activities.port_cycles != 0), "only tiles wait for ports, must be 0")
    _none(program, "cycles", ~tile & (activities.cycles != 0), "a transfer's time follows from its bytes, must be 0")


def _none(program: Program, column: str, wrong: npt.NDArray[np.bool_], rule: str) -> None:
    """No activity is wrong."""
    if wrong.any():
        row = int(np.argmax(wrong))
        _reject(
            "activities",
            column,
            row,
            getattr(program.activities, column)[row],
            f"{activity_name(program, row)}: {rule}",
        )


def _check_edges(program: Program) -> None:
    dependencies = program.dependencies
    for column in ("before", "after"):
        _rows(program, "dependencies", column, "activities", program.size)
    itself = dependencies.before == dependencies.after
    if itself.any():
        row = int(np.argmax(itself))
        name = activity_name(program, int(dependencies.after[row]))
        _reject("dependencies", "before", row, dependencies.before[row], f"{name} cannot depend on itself")
    _sizes(program, "claims", "bytes")
    _rows(program, "claims", "buffer", "buffers", len(program.buffers.capacity_bytes))
    _rows(program, "claims", "taken_by", "activities", program.size, -1)
    _rows(program, "claims", "tensor", "tensor_names", len(program.tensor_names), -1)
    _rows(program, "releases", "claim", "claims", len(program.claims.bytes))
    _rows(program, "releases", "activity", "activities", program.size)


def _check_totals(program: Program) -> None:
    """Sums are estimated in floating point, where they cannot overflow, and refused well before an ``int64`` would."""
    resources, activities = program.resources, program.activities
    resource = program.queues.resource[activities.queue]
    moved = np.bincount(resource, weights=activities.bytes, minlength=len(resources.kind)) * resources.bytes_denominator
    cycles = float(activities.cycles.sum(dtype=np.float64)) + float(activities.port_cycles.sum(dtype=np.float64))
    shares = list(port_shares(program).values())
    on_links = float((moved / np.maximum(resources.bytes_numerator, 1)).sum())
    cycles += on_links * (1.0 + sum(map(float, shares)))  # a port serves what passes it, and then the tiles
    cycles += float((np.bincount(resource, minlength=len(resources.kind)) * (resources.latency_cycles + 1.0)).sum())
    limit = MAXIMUM_TOTAL * (1 - 2**-20)
    counted = on_links * max((share.numerator for share in shares), default=0)
    if counted >= limit:
        raise MalformedProgram(
            f"links are busy for {on_links:.3e} cycles, each of which takes a share of a port with a numerator of up "
            f"to {counted / on_links:.3e}; give bandwidths as simpler fractions"
        )
    if cycles >= limit:
        raise MalformedProgram(
            f"the activities take {cycles:.3e} cycles in all, the clock counts to {MAXIMUM_TOTAL:.3e}"
        )
    if len(moved) and moved.max() >= limit:
        name = program.resource_names[int(moved.argmax())]
        raise MalformedProgram(
            f"link {name!r}: bytes moved times the bandwidth's denominator are {moved.max():.3e}, must stay below "
            f"{MAXIMUM_TOTAL:.3e}; give the bandwidth as a simpler fraction"
        )
    _check_weights(program, limit)
    claimed = float(program.claims.bytes.sum(dtype=np.float64))
    if claimed >= limit:
        raise MalformedProgram(f"claims.bytes sum to {claimed:.3e} bytes, must stay below {MAXIMUM_TOTAL:.3e}")


def _check_weights(program: Program, limit: float) -> None:
    """What links count as served must stay below the limit."""
    costs = np.array([float(cost) for cost in byte_costs(program)])
    counted = np.zeros(len(program.resources.kind))
    np.add.at(counted, program.queues.resource, costs)
    queue = program.activities.queue
    np.add.at(counted, program.queues.resource[queue], program.activities.bytes * costs[queue])
    if len(counted) and counted.max() >= limit:
        raise MalformedProgram(
            f"link {program.resource_names[int(counted.argmax())]!r}: bytes times the least common multiple of the "
            f"weights over a weight are {counted.max():.3e} in all, must stay below {MAXIMUM_TOTAL:.3e}; give weights "
            "with a smaller common multiple"
        )


def _check_capacities(program: Program) -> None:
    """What one activity claims from a buffer, and what is taken at cycle 0, must fit the empty buffer."""
    claims, capacity = program.claims, program.buffers.capacity_bytes
    if not len(claims.bytes):
        return
    # Few activities claim, from all buffers together, more than a buffer that they claim from; only these are summed.
    total = np.bincount(claims.taken_by + 1, weights=claims.bytes, minlength=program.size + 1)
    doubtful = np.zeros(program.size + 1, dtype=np.bool_)
    doubtful[claims.taken_by[total[claims.taken_by + 1] > capacity[claims.buffer]] + 1] = True
    rows = np.flatnonzero(doubtful[claims.taken_by + 1])
    rows = rows[np.lexsort((claims.buffer[rows], claims.taken_by[rows]))]
    taken_by, buffer = claims.taken_by[rows], claims.buffer[rows]
    first = np.flatnonzero(np.diff(taken_by, prepend=-2) | np.diff(buffer, prepend=-1))
    over = first[np.add.reduceat(claims.bytes[rows], first) > capacity[buffer[first]]] if len(rows) else first
    if len(over):
        _overflow(program, int(taken_by[over[0]]), int(buffer[over[0]]))


def _overflow(program: Program, taken_by: int, buffer: int) -> NoReturn:
    claims, capacity = program.claims, int(program.buffers.capacity_bytes[buffer])
    rows = np.flatnonzero((claims.taken_by == taken_by) & (claims.buffer == buffer))
    need = sum(claims.bytes[rows].tolist())
    who = f"{activity_name(program, taken_by)} claims" if taken_by >= 0 else "claims taken at cycle 0 need"
    tensors = [
        f"{program.tensor_names[claims.tensor[row]]!r} {claims.bytes[row]:,}" for row in rows if claims.tensor[row] >= 0
    ]
    listed = f" ({', '.join(tensors[:6])}{', …' if len(tensors) > 6 else ''})" if tensors else ""
    raise BufferOverflow(
        f"{who} {need:,} bytes of buffer {program.buffer_names[buffer]!r}{listed}, "
        f"{need - capacity:,} over its {capacity:,}; make the tiles smaller or the buffer larger"
    )
