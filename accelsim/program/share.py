"""Several programs as one, on a machine that has their parts side by side and some of their links in common.

Each program is a *tenant*: its cores, buffers and queues stay its own, called ``TENANT/NAME``. Of a shared link there
is one, with the queues of all; who is served next is the link's arbitration between tenants.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from accelsim.errors import InputError, UnknownName
from accelsim.program.links import joined_queues, joined_resources
from accelsim.program.memory_plan import PlacementTable, place
from accelsim.program.tables import (
    ActivityTable,
    Arbitration,
    BufferTable,
    ClaimTable,
    DependencyTable,
    IntColumn,
    Program,
    QueueTable,
    ReleaseTable,
    ResourceKind,
    ResourceTable,
)
from accelsim.units import did_you_mean

USUAL_GRANT_BYTES = 4096
RULES = tuple(rule.name.lower() for rule in Arbitration)


def share(
    programs: Sequence[Program],
    links: str | Sequence[str],
    *,
    arbitration: str = "fair",
    weights: Sequence[int] | None = None,
    grant_bytes: int = USUAL_GRANT_BYTES,
) -> Program:
    """The programs side by side, with links in common.

    Args:
        programs: at least two; the tenants, called as their workloads.
        links: names of links that all of them have, with the same bandwidth and latency. ``"dram"`` also stands for
            ``dram.read`` and ``dram.write``.
        arbitration: between the tenants: ``fair``, ``weighted``, ``round_robin``, ``in_order``, or ``priority``, which
            prefers the program that stands first in ``programs``.
        weights: with ``weighted``: one a program.
        grant_bytes: what a tenant is served before the link chooses again; 0 = the whole transfer.

    Raises:
        InputError: fewer than two programs, clocks or links that differ, weights that do not fit.
        UnknownName: a link or a rule that there is not.
    """
    _check(programs, arbitration, weights)
    names = _unique([str(program.facts.get("workload", f"program{row}")) for row, program in enumerate(programs)])
    common = _common_links(programs, names, [links] if isinstance(links, str) else list(links))
    own = [[name for name in program.resource_names if name not in common] for program in programs]
    resources = [
        ResourceTable(*(column[list(map(program.resource_names.index, of_one))] for column in program.resources))
        for program, of_one in zip([*programs, programs[0]], [*own, common], strict=True)
    ]
    count = np.ones(len(common), dtype=np.int64)
    resources[-1] = resources[-1]._replace(
        arbitration=Arbitration[arbitration.upper()] * count, grant_bytes=grant_bytes * count
    )
    joined = _Joined(programs)
    shared = Program(
        resources=joined_resources(*resources),
        queues=_queues(programs, own, common, arbitration, weights),
        activities=ActivityTable(**joined.activities()),
        dependencies=DependencyTable(joined.rows("dependencies", "before"), joined.rows("dependencies", "after")),
        claims=ClaimTable(**joined.claims()),
        releases=ReleaseTable(joined.rows("releases", "claim", "claims"), joined.rows("releases", "activity")),
        buffers=BufferTable(np.concatenate([program.buffers.capacity_bytes for program in programs])),
        energy_pj=joined.energy_pj,
        shapes=np.concatenate([program.shapes for program in programs]),
        resource_names=(
            *(f"{tenant}/{name}" for tenant, of_one in zip(names, own, strict=True) for name in of_one),
            *common,
        ),
        queue_names=joined.names("queue_names", names),
        buffer_names=joined.names("buffer_names", names),
        operator_names=joined.names("operator_names", names),
        tensor_names=joined.names("tensor_names", names),
        part_names=joined.part_names,
        tenant_names=names,
        operator_macs=_of_operators(programs, "operator_macs"),
        operator_vector_ops=_of_operators(programs, "operator_vector_ops"),
        static_pj_per_cycle=math.fsum(program.static_pj_per_cycle for program in programs),
        facts=_facts(programs, names),
    )
    return _with_memory(shared, programs, common)


def tenant_alone(program: Program, tenant: int) -> Program:
    """A shared machine with the activities of one tenant only; all else is there and stands still."""
    mine = program.queues.tenant[program.activities.queue] == tenant
    row_of = np.cumsum(mine) - 1
    edges = mine[program.dependencies.before] & mine[program.dependencies.after]
    releases = mine[program.releases.activity]
    claims = mine[program.claims.taken_by] & (program.claims.taken_by >= 0)
    claims[program.releases.claim[releases]] = True
    for_good = np.isin(np.arange(len(claims)), program.releases.claim, invert=True)
    claims |= (program.claims.taken_by < 0) & for_good
    row_of_claim = np.cumsum(claims) - 1
    taken_by = program.claims.taken_by[claims]
    plan = program.memory
    return Program(
        **{name: getattr(program, name) for name in ("resources", "queues", "buffers", "shapes")},
        activities=ActivityTable(*(column[mine] for column in program.activities)),
        dependencies=DependencyTable(*(row_of[column[edges]] for column in program.dependencies)),
        claims=ClaimTable(*(column[claims] for column in program.claims))._replace(
            taken_by=np.where(taken_by < 0, -1, row_of[taken_by])
        ),
        releases=ReleaseTable(
            row_of_claim[program.releases.claim[releases]], row_of[program.releases.activity[releases]]
        ),
        energy_pj=program.energy_pj[mine],
        memory=plan and replace(plan, placement=PlacementTable(*(column[mine] for column in plan.placement))),
        **{
            name: getattr(program, name)
            for name in (
                *("resource_names", "queue_names", "buffer_names", "operator_names", "tensor_names", "part_names"),
                *("tenant_names", "operator_macs", "operator_vector_ops", "static_pj_per_cycle", "facts"),
            )
        },
    )


def _check(programs: Sequence[Program], arbitration: str, weights: Sequence[int] | None) -> None:
    """Raises as :func:`share`."""
    if len(programs) < 2:
        raise InputError(f"{len(programs)} programs share nothing; give at least two")
    if arbitration not in RULES:
        near = did_you_mean(arbitration, RULES)
        raise UnknownName(f"no arbitration {arbitration!r}{near}; there are {', '.join(RULES)}")
    if (weights is not None) != (arbitration == "weighted"):
        wanted = "needs weights" if weights is None else "knows no weights; they are for weighted"
        raise InputError(f"arbitration {arbitration} {wanted}")
    if weights is not None and (len(weights) != len(programs) or min(weights) < 1):
        raise InputError(f"weights {list(weights)} for {len(programs)} programs; give one from 1 on for each")
    clocks = {program.facts.get("clock_hz") for program in programs}
    if len(clocks) > 1:
        listed = " and ".join(sorted(str(clock) for clock in clocks))
        raise InputError(f"the programs count cycles of different clocks, {listed} Hz; one machine has one")


def _queues(
    programs: Sequence[Program],
    own: Sequence[Sequence[str]],
    common: Sequence[str],
    arbitration: str,
    weights: Sequence[int] | None,
) -> QueueTable:
    """The queues of all, on their own resources, which stand in the order of tenants, and on the common ones."""
    tables = []
    first, beyond = 0, sum(map(len, own))
    for tenant, (program, of_one) in enumerate(zip(programs, own, strict=True)):
        rows = [
            beyond + common.index(name) if name in common else first + of_one.index(name)
            for name in program.resource_names
        ]
        count = np.ones(len(program.queues.resource), dtype=np.int64)
        table = program.queues._replace(
            resource=np.array(rows)[program.queues.resource],
            port=np.where(program.queues.port < 0, -1, np.array(rows)[program.queues.port]),
            tenant=tenant * count,
            weight=(1 if weights is None else weights[tenant]) * count,
        )
        tables.append(table._replace(rank=tenant * count) if arbitration == "priority" else table)
        first += len(of_one)
    return joined_queues(*tables)


def _with_memory(shared: Program, programs: Sequence[Program], common: Sequence[str]) -> Program:
    """The memory with banks that all have behind one link, with the tensors of all in it.

    Raises:
        InputError: not all have the same, or each has its own.
    """
    plan = programs[0].memory
    if not any(program.memory for program in programs):
        return shared
    names, alike = set(), []
    for program in programs:
        own = program.memory
        names.add(program.resource_names[own.link] if own else "")
        alike.append(own and plan and (own.fidelity, own.memory) == (plan.fidelity, plan.memory))
    if plan is None or not all(alike) or len(names) > 1 or not names <= set(common):
        raise InputError(
            "a memory with banks serves one link, which all must share, of machines alike: share it, or set "
            "dram.fidelity to link"
        )
    link = shared.resource_names.index(names.pop())
    return replace(shared, memory=replace(plan, link=link, placement=place(shared, link, plan.memory)))


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    """The names; of those that stand twice the second is ``NAME#2``, and so on."""
    return tuple(
        name if (before := names[:row].count(name)) == 0 else f"{name}#{before + 1}" for row, name in enumerate(names)
    )


def _common_links(programs: Sequence[Program], tenants: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The names of the links to share, all of which every program has, with the same numbers."""
    common: list[str] = []
    for name in wanted:
        found = []
        for program, tenant in zip(programs, tenants, strict=True):
            links = [
                link
                for link, kind in zip(program.resource_names, program.resources.kind.tolist(), strict=True)
                if kind == ResourceKind.LINK
            ]
            found.append([link for link in links if link == name or link.startswith(f"{name}.")])
            if not found[-1]:
                near = did_you_mean(name, links)
                raise UnknownName(f"'{tenant}' has no link {name!r}{near}; it has {', '.join(links) or 'none'}")
        if any(other != found[0] for other in found):
            listed = "; ".join(f"'{t}' {', '.join(links)}" for t, links in zip(tenants, found, strict=True))
            raise InputError(f"the programs' links called {name!r} differ: {listed}")
        common += [link for link in found[0] if link not in common]
    for name in common:
        for column in ("bytes_numerator", "bytes_denominator", "latency_cycles"):
            numbers = [int(getattr(p.resources, column)[p.resource_names.index(name)]) for p in programs]
            if len(set(numbers)) > 1:
                listed = ", ".join(f"{number} of '{tenant}'" for number, tenant in zip(numbers, tenants, strict=True))
                raise InputError(f"{name!r} cannot be one link for all: its {column} would be {listed}")
    return common


class _Joined:
    """The tables of programs one below the other, their row numbers moved on."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self.programs = programs
        self.part_names = tuple(dict.fromkeys(name for program in programs for name in program.part_names))

    def first(self, of: str) -> list[int]:
        """The row at which each program's rows of a table begin."""
        sizes = {
            "activities": [program.size for program in self.programs],
            "queues": [len(program.queues.resource) for program in self.programs],
            "claims": [len(program.claims.bytes) for program in self.programs],
            "buffers": [len(program.buffers.capacity_bytes) for program in self.programs],
            "operators": [len(program.operator_names) for program in self.programs],
            "tensors": [len(program.tensor_names) for program in self.programs],
            "shapes": [len(program.shapes) for program in self.programs],
        }[of]
        return [sum(sizes[:row]) for row in range(len(sizes))]

    def rows(self, table: str, column: str, of: str = "activities") -> IntColumn:
        """A column of row numbers; -1 stays."""
        values = [getattr(getattr(program, table), column) for program in self.programs]
        moved = [np.where(column < 0, -1, column + first) for column, first in zip(values, self.first(of), strict=True)]
        return np.concatenate(moved)

    def activities(self) -> dict[str, IntColumn]:
        """The columns of the activities."""
        references = {"queue": "queues", "operator": "operators", "tensor": "tensors", "shape": "shapes"}
        return self._columns("activities", ActivityTable._fields, references)

    def claims(self) -> dict[str, IntColumn]:
        """The columns of the claims."""
        return self._columns(
            "claims", ClaimTable._fields, {"buffer": "buffers", "taken_by": "activities", "tensor": "tensors"}
        )

    def _columns(self, table: str, names: Sequence[str], references: dict[str, str]) -> dict[str, IntColumn]:
        return {
            name: self.rows(table, name, references[name])
            if name in references
            else np.concatenate([getattr(getattr(program, table), name) for program in self.programs])
            for name in names
        }

    def names(self, of: str, tenants: Sequence[str]) -> tuple[str, ...]:
        """Names with their tenant's in front."""
        pairs = zip(self.programs, tenants, strict=True)
        return tuple(f"{tenant}/{name}" for program, tenant in pairs for name in getattr(program, of))

    @property
    def energy_pj(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        """By all parts that any of the programs has."""
        energy = np.zeros((sum(program.size for program in self.programs), len(self.part_names)))
        for program, first in zip(self.programs, self.first("activities"), strict=True):
            columns = [self.part_names.index(name) for name in program.part_names]
            energy[first : first + program.size, columns] = program.energy_pj
        return energy


def _of_operators(programs: Sequence[Program], column: str) -> IntColumn:
    """A column of one entry an operator, of all programs; empty if one of them does not know it."""
    known = all(len(getattr(program, column)) == len(program.operator_names) for program in programs)
    return np.concatenate([getattr(program, column) for program in programs]) if known else np.zeros(0, dtype=np.int64)


def _facts(programs: Sequence[Program], names: Sequence[str]) -> dict[str, int | float | str]:
    """Sums of what can be added, and what all agree on."""
    facts: dict[str, int | float | str] = {"workload": " + ".join(names)}
    hardware = dict.fromkeys(str(program.facts["hardware"]) for program in programs if "hardware" in program.facts)
    if hardware:
        facts["hardware"] = f"{len(programs)} x {next(iter(hardware))}" if len(hardware) == 1 else " + ".join(hardware)
    for name in ("macs", "vector_ops", "macs_per_cycle"):
        values = [program.facts.get(name) for program in programs]
        numbers = [value for value in values if isinstance(value, int | float)]
        if len(numbers) == len(values):
            facts[name] = sum(numbers)
    if any("effectual" in program.facts for program in programs):
        shares = (program.facts.get("effectual", ",".join("1" * len(program.operator_names))) for program in programs)
        facts["effectual"] = ",".join(map(str, shares))
    for name in ("clock_hz", "hardware_digest", "batch"):
        agreed = {program.facts.get(name) for program in programs}
        value = agreed.pop()
        if not agreed and value is not None:
            facts[name] = value
    return facts
