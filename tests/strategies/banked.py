"""Programs with a memory with banks behind their link, drawn from a seed."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from accelsim.hardware.memory.attached import AttachedFields
from accelsim.program.memory_plan import MemoryPlan, PlacementTable, place
from accelsim.program.tables import Arbitration, Program
from tests.strategies.programs import Draft

MEMORIES = ("ddr4_3200", "ddr5_4800", "gddr6_14000", "hbm2_2000", "hbm3_6400", "lpddr4_4000", "lpddr5_6400")
SIZES = (0, 1, 31, 64, 1000, 5000)


def banked_program(seed: int) -> Program:
    """A core and a link with one to three queues; any technology, map, ratio of clocks, runs and pitches."""
    random = np.random.default_rng(seed)
    draft = Draft()
    core = draft.queue(draft.core())
    count = int(random.integers(1, 4))
    link = draft.link(
        16,
        latency=int(random.integers(0, 30)),
        arbitration=Arbitration.IN_ORDER if count == 1 else Arbitration.ROUND_ROBIN,
        grant=int(random.choice([0, 100, 256, 4096])),
    )
    queues = [draft.queue(link) for _ in range(count)]
    rows: list[int] = []
    for _ in range(int(random.integers(1, 15))):
        after = [row for row in rows if random.random() < 0.15]
        kind, queue, size = int(random.integers(0, 3)), int(random.choice(queues)), int(random.choice(SIZES))
        if kind == 0:
            rows.append(draft.tile(core, int(random.integers(0, 400)), *after))
        else:
            rows.append((draft.load if kind == 1 else draft.store)(queue, size, *after))
    memory = AttachedFields(
        technology=str(random.choice(MEMORIES)),
        channels=int(random.choice([1, 2, 4])),
        controller=str(random.choice(["bounded", "ramulator"])),  # type: ignore[arg-type]
        address_map=str(random.choice(["mop4clxor", "column_low", "bank_group_low_hash"])),
    ).attach()
    program = draft.program()
    placement = place(program, link, memory)
    if random.random() < 0.5:
        moves = placement.address >= 0
        run = np.where(moves, np.minimum(placement.run_bytes, int(random.choice([7, 64, 300]))), 1)
        shift = int(random.integers(0, 50))
        placement = PlacementTable(placement.address + moves * shift, run, run * int(random.integers(1, 6)))
    ratio = Fraction(int(random.choice([1, 2, 3, 7])), int(random.choice([1, 2, 3, 5])))
    return replace(program, memory=MemoryPlan("banks", link, memory, ratio, placement))
