"""From what a memory with banks has counted to the energy of each transfer, and of the whole."""

from __future__ import annotations

import dataclasses

import numpy as np

from accelsim.hardware.memory.controller import Controller
from accelsim.program.memory_plan import MemoryPlan
from accelsim.program.tables import ActivityKind, IntColumn, Program
from accelsim.timeline.memory_use import MemoryUse

PART = "dram"


@dataclasses.dataclass(frozen=True)
class Served:
    """What was sent to the chips, one entry an activity, and the state of the memory at the end."""

    controller: Controller
    cycles: int
    """Of the memory, until the end of the run."""
    bursts: IntColumn
    activations: IntColumn
    hits: IntColumn
    misses: IntColumn
    conflicts: IntColumn


def memory_use(program: Program, plan: MemoryPlan, served: Served) -> MemoryUse:
    """The figures of the whole run."""
    dram = plan.memory.dram
    stores = program.activities.kind == ActivityKind.STORE
    return MemoryUse(
        fidelity=plan.fidelity,
        memory=dram.name,
        channels=dram.template.channels,
        peak_bytes_per_cycle=float(dram.peak_bytes_per_cycle * plan.clock_ratio),
        bursts_read=int(served.bursts[~stores].sum()),
        bursts_written=int(served.bursts[stores].sum()),
        burst_bytes=dram.access_bytes,
        row_hits=int(served.hits.sum()),
        row_misses=int(served.misses.sum()),
        row_conflicts=int(served.conflicts.sum()),
        energy_by_command_pj=dram.energy_by_command_pj(served.controller.device, served.cycles),
    )


def with_memory_energy(program: Program, plan: MemoryPlan, served: Served) -> Program:
    """The program with the energy of each transfer as counted: its bursts, and the rows opened for them."""
    if PART not in program.part_names:
        return program
    energy, access_bytes = plan.memory.dram.template.energy, plan.memory.dram.access_bytes
    stores = program.activities.kind == ActivityKind.STORE
    per_burst = np.where(stores, float(energy.write), float(energy.read)) * access_bytes
    moves = plan.placement.address >= 0
    energy_pj = program.energy_pj.copy()
    counted = served.bursts * per_burst + served.activations * float(energy.activate)
    energy_pj[moves, program.part_names.index(PART)] = counted[moves]
    return dataclasses.replace(program, energy_pj=energy_pj)
