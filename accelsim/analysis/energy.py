"""Picojoules of a run, by part of the machine and by operator. Both ledgers close: they add up to the same energy."""

from __future__ import annotations

import math

from accelsim.timeline.stalls import NO_OPERATOR
from accelsim.timeline.table import Timeline

STATIC = "static"
"""The part that takes what flows as long as the run lasts."""
DRAM = "dram"


def energy_by_part_pj(timeline: Timeline) -> dict[str, float]:
    """Energy of each part of the machine, in the order of the program's parts; ``static`` is always among them.

    Dynamic energy is that of all activities, recomputed work included; static energy is the power per cycle times the
    latency. A memory that counts its commands adds to ``dram`` what refreshes and standby took.
    """
    program = timeline.program
    by_part = {name: math.fsum(program.energy_pj[:, part].tolist()) for part, name in enumerate(program.part_names)}
    if timeline.memory is not None and timeline.memory.unshared_pj:
        by_part[DRAM] = by_part.get(DRAM, 0.0) + timeline.memory.unshared_pj
    by_part[STATIC] = by_part.get(STATIC, 0.0) + program.static_pj_per_cycle * timeline.latency_cycles
    return by_part


def energy_pj(timeline: Timeline) -> float:
    """Energy of the whole run: the sum of its parts."""
    return math.fsum(energy_by_part_pj(timeline).values())


def flowing_pj_per_cycle(timeline: Timeline) -> float:
    """What belongs to no activity, spread over the run: static power, and a memory's refreshes and standby."""
    unshared_pj = 0.0 if timeline.memory is None else timeline.memory.unshared_pj
    return timeline.program.static_pj_per_cycle + unshared_pj / max(timeline.latency_cycles, 1)


def energy_by_operator_pj(timeline: Timeline) -> dict[str, float]:
    """Dynamic energy of each operator that has any activity: its tiles, and the transfers of its tensors."""
    program = timeline.program
    of_activity = program.energy_pj.sum(axis=1).tolist()
    shares: dict[int, list[float]] = {}
    for operator, energy in zip(program.activities.operator.tolist(), of_activity, strict=True):
        shares.setdefault(operator, []).append(energy)
    names = (*program.operator_names, NO_OPERATOR)
    return {names[operator]: math.fsum(shares[operator]) for operator in sorted(shares)}
