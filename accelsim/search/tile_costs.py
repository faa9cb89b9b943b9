"""What tiles cost on an accelerator: a hash table that kernels read, and the Python that prices what they miss."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.hardware.accelerator import Accelerator
from accelsim.jit import kernel
from accelsim.program.lower import work_costs
from accelsim.search.network import FloatColumn, IntColumn
from accelsim.search.random_state import mixed
from accelsim.workload.graph import Workload


class TileCostTable(NamedTuple):
    """A hash table from (operator, samples, channels, rows, columns) of a tile to its cost; open addressing."""

    key: IntColumn
    """Shape (slots, 5); operator -1 = free."""
    cycles: IntColumn
    energy_pj: FloatColumn
    counters: IntColumn
    """One entry: slots in use."""
    missing: IntColumn
    """Shape (room, 5): keys that were asked for and not there."""
    missing_count: IntColumn


@kernel
def cost_slot(table: TileCostTable, key: tuple[int, int, int, int, int]) -> int:
    """The slot of a key, or the free slot where it belongs."""
    slots = table.cycles.shape[0]
    code = np.uint64(0)
    for part in key:
        code = mixed(code ^ np.uint64(part))
    slot = int(np.int64(code % np.uint64(slots)))
    while table.key[slot, 0] >= 0:
        if (
            table.key[slot, 0] == key[0]
            and table.key[slot, 1] == key[1]
            and table.key[slot, 2] == key[2]
            and table.key[slot, 3] == key[3]
            and table.key[slot, 4] == key[4]
        ):
            return slot
        slot = slot + 1 if slot + 1 < slots else 0
    return slot


@kernel
def add_costs(table: TileCostTable, keys: IntColumn, cycles: IntColumn, energy_pj: FloatColumn) -> int:
    """Stores costs; keys that are there already keep theirs."""
    for i in range(keys.shape[0]):
        slot = cost_slot(table, (keys[i, 0], keys[i, 1], keys[i, 2], keys[i, 3], keys[i, 4]))
        if table.key[slot, 0] < 0:
            for part in range(5):
                table.key[slot, part] = keys[i, part]
            table.cycles[slot] = cycles[i]
            table.energy_pj[slot] = energy_pj[i]
            table.counters[0] += 1
    return 0


class TileCosts:
    """Prices tiles on an accelerator as kernels ask for them."""

    def __init__(self, workload: Workload, accelerator: Accelerator, slots: int = 1 << 14) -> None:
        self.workload = workload
        self.accelerator = accelerator
        self.table = self._empty(slots)

    @staticmethod
    def _empty(slots: int) -> TileCostTable:
        return TileCostTable(
            key=np.full((slots, 5), -1, dtype=np.int64),
            cycles=np.zeros(slots, dtype=np.int64),
            energy_pj=np.zeros(slots),
            counters=np.zeros(1, dtype=np.int64),
            missing=np.zeros((4096, 5), dtype=np.int64),
            missing_count=np.zeros(1, dtype=np.int64),
        )

    def fill(self) -> None:
        """Prices everything that is missing; grows the table when it is half full."""
        count = int(self.table.missing_count[0])
        asked = np.unique(self.table.missing[:count], axis=0)
        self.table.missing_count[0] = 0
        cycles, energy_pj = self.price(asked)
        while 2 * (int(self.table.counters[0]) + len(asked)) > len(self.table.cycles):
            old = self.table
            self.table = self._empty(2 * len(old.cycles))
            used = old.key[:, 0] >= 0
            add_costs(self.table, np.ascontiguousarray(old.key[used]), old.cycles[used], old.energy_pj[used])
        add_costs(self.table, asked, cycles, energy_pj)

    def price(self, keys: IntColumn) -> tuple[IntColumn, FloatColumn]:
        """Cycles and picojoules of tiles given as (operator, samples, channels, rows, columns)."""
        works = []
        for number, *sizes in keys.tolist():
            works.append(self.workload.operators[number].work(tuple((0, size) for size in sizes)))
        costs = work_costs(works, self.accelerator)
        return costs.cycles, costs.energy_pj.sum(axis=1)
