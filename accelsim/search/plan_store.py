"""Plans of fused groups by key, in columns that kernels can read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accelsim.jit import kernel
from accelsim.search.network import FloatColumn, IntColumn
from accelsim.search.random_state import mixed


class PlanStore(NamedTuple):
    """Plans by (operators, tiling number). ``counters`` holds plans, members and reads in use, then size
    and tiling number of the group that is wanted.

    Member m of plan p, tile i: row ``member_begin[p] + i * step[p] * members[p] + m``, where ``step`` is 0 when all
    tiles are alike. Its reads stand in the order of its operator's sources.
    """

    key: npt.NDArray[np.uint64]
    """Shape (slots, 2); plan -1 = free."""
    plan: IntColumn
    counters: IntColumn
    legal: IntColumn
    members: IntColumn
    member_begin: IntColumn
    read_begin: IntColumn
    reads: IntColumn
    """Reads of one tile of the whole plan."""
    step: IntColumn
    energy_pj: FloatColumn
    """Of all tiles of the plan."""
    operator: IntColumn
    """By member; ascending within a plan."""
    member_read: IntColumn
    """By member: its first read within a tile's reads."""
    cycles: IntColumn
    output_bytes: IntColumn
    stored_bytes: IntColumn
    read_bytes: IntColumn
    wanted: IntColumn
    """Operators of a group whose plan is missing."""


def empty_store(operators: int, slots: int = 1 << 13, rows: int = 1 << 18) -> PlanStore:
    """Room for ``slots`` / 2 plans with ``rows`` members and reads in all."""

    def column(size: int) -> IntColumn:
        return np.zeros(size, dtype=np.int64)

    return PlanStore(
        key=np.zeros((slots, 2), dtype=np.uint64),
        plan=np.full(slots, -1, dtype=np.int64),
        counters=column(5),
        legal=column(slots),
        members=column(slots),
        member_begin=column(slots),
        read_begin=column(slots),
        reads=column(slots),
        step=column(slots),
        energy_pj=np.zeros(slots),
        operator=column(rows),
        member_read=column(rows),
        cycles=column(rows),
        output_bytes=column(rows),
        stored_bytes=column(rows),
        read_bytes=column(2 * rows),
        wanted=column(operators),
    )


@kernel
def plan_slot(store: PlanStore, first: np.uint64, second: np.uint64) -> int:
    """The slot of a group's key, or the free slot where it belongs."""
    slots = store.plan.shape[0]
    slot = int(np.int64(first % np.uint64(slots)))
    while store.plan[slot] >= 0:
        if store.key[slot, 0] == first and store.key[slot, 1] == second:
            return slot
        slot = slot + 1 if slot + 1 < slots else 0
    return slot


@kernel
def group_key(group: IntColumn, size: int, tiles: int) -> tuple[np.uint64, np.uint64]:
    """128 bits that name the set of the first ``size`` operators of ``group``, in some order, and a tiling number."""
    number = np.uint64(tiles) << np.uint64(32)  # no operator has such a number
    first, second = mixed(number), mixed(~number)
    for row in range(size):
        number = np.uint64(group[row])
        first += mixed(number)
        second += mixed(~number)
    return first, second


@kernel
def wanted_slot(store: PlanStore) -> int:
    """Takes the slot of the group that is wanted, and writes its key there."""
    first, second = group_key(store.wanted, store.counters[3], store.counters[4])
    slot = plan_slot(store, first, second)
    store.key[slot, 0], store.key[slot, 1] = first, second
    return slot


@kernel
def has_room(store: PlanStore, size: int) -> bool:
    """Whether one more plan of ``size`` operators may fit."""
    plans, rows = 2 * (store.counters[0] + 1), store.counters[1] + size
    return bool(plans <= store.plan.shape[0] and rows <= store.operator.shape[0])


class Plan(NamedTuple):
    """The tiles of a fused group, made in Python; without rows the group is illegal."""

    rows: npt.NDArray[np.int64]
    """(operator, cycles, output bytes, stored bytes) for every tile and, within a tile, every operator as wanted."""
    reads: IntColumn
    """Bytes read of each source, in the same order; -1: this tile reads nothing of it."""
    read_counts: IntColumn
    """Sources of each operator."""
    energy_pj: float


def add_plan(store: PlanStore, made: Plan) -> None:
    """Stores the plan that ``store.wanted`` asks for. One that finds no room is left out, and will be asked for again
    after the store has grown."""
    rows, reads, read_counts, energy_pj = made
    plan, member, read, count, tiles = (int(number) for number in store.counters)
    wanted = store.wanted[:count]
    if member + len(rows) > len(store.operator) or read + len(reads) > len(store.read_bytes):
        store.counters[1] = len(store.operator)  # the next plan reports FULL
        return
    slot = wanted_slot(store)
    store.plan[slot] = plan
    store.legal[plan] = int(len(rows) > 0)
    store.counters[0] += 1
    if not len(rows):
        return
    ascending = np.argsort(wanted, kind="stable")
    table = rows.reshape(tiles, count, 4)[:, ascending]
    first_read = np.concatenate([[0], np.cumsum(read_counts)[:-1]])
    store.members[plan], store.member_begin[plan], store.step[plan] = count, member, 1
    store.read_begin[plan], store.reads[plan] = read, len(reads) // tiles
    store.energy_pj[plan] = energy_pj
    span = slice(member, member + len(rows))
    for column, values in enumerate((store.operator, store.cycles, store.output_bytes, store.stored_bytes)):
        values[span] = table[:, :, column].ravel()
    store.member_read[span] = np.tile(first_read[ascending], tiles)
    store.read_bytes[read : read + len(reads)] = reads
    store.counters[1], store.counters[2] = member + len(rows), read + len(reads)
