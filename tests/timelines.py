"""A timeline written down by hand, for tests of what is read from timelines.

Three layers A -> B -> C on one core and one in-order link of 16 bytes per cycle, A and B fused and cut in two. Cycles
and sizes are those of a worked example whose times were found with pencil and paper:

    core   ... A1 30-60, B1 60-80, A2 80-110, B2 110-130 ... C1 170-210
    link   WA 0-20, IA1 20-30, WB 30-40 ... IA2 60-70 ... WC 110-170 ... OC1 210-230
"""

from __future__ import annotations

import dataclasses

import numpy as np

from accelsim.program.tables import Program
from accelsim.timeline.table import Cause, EventTable, Timeline
from tests.strategies.programs import Draft

A1, B1, A2, B2, C1, WA, IA1, WB, IA2, WC, OC1 = range(11)
CORE, LINK = 0, 1


def worked_program() -> Program:
    """The program: tiles 0-4, then transfers in the order of the link."""
    draft = Draft()
    core, link = draft.queue(draft.core()), draft.queue(draft.link(16))
    for cycles in (30, 20, 30, 20, 40):
        draft.tile(core, cycles)
    for size in (320, 160, 160, 160, 960):
        draft.load(link, size)
    draft.store(link, 320)
    # Loads before the tiles that read them, B2 before C's weights may come, tiles before loads and stores.
    draft.dependencies = [(WA, A1), (IA1, A1), (WB, B1), (IA2, A2), (WC, C1), (A1, IA2), (A2, WC), (C1, OC1)]
    buffer = draft.buffer(2048)
    # Size, first position (-1 = cycle 0), last position: taken when the first starts, kept until the last finishes.
    spans = {"WA": (320, -1, 2), "IA1": (160, -1, 0), "IA2": (160, 1, 2), "WB": (160, 0, 3), "WC": (960, 3, 4)}
    spans |= {"OA1": (160, 0, 1), "OA2": (160, 2, 3), "OB1": (160, 1, 4), "OB2": (160, 3, 4)}
    for size, first, last in spans.values():
        draft.claim(buffer, size, first, last)
    draft.claim(buffer, 320, C1, C1, OC1)
    program = draft.program()
    tile = np.array([0, 0, 1, 1, 0, -1, 0, -1, 1, -1, 0])
    operator = np.array([0, 1, 0, 1, 2, 0, 0, 1, 0, 2, 2])
    macs = np.array([3000, 0, 3000, 0, 4000, 0, 0, 0, 0, 0, 0])
    vector_ops = np.array([0, 70, 0, 70, 0, 0, 0, 0, 0, 0, 0])
    tensor = np.array([-1] * 5 + list(range(6)))
    energy = np.zeros((11, 3))
    energy[:5, 0] = (1.5, 0.25, 1.5, 0.25, 2.0)  # "mac"; powers of two, so that sums are exact
    energy[5:, 1] = program.activities.bytes[5:] * 0.5  # "dram"
    return dataclasses.replace(
        program,
        activities=program.activities._replace(
            tile=tile, operator=operator, macs=macs, vector_ops=vector_ops, tensor=tensor
        ),
        resource_names=("core", "dram"),
        queue_names=("core", "dram"),
        buffer_names=("global",),
        operator_names=("A", "B", "C"),
        operator_macs=np.array([5000, 0, 4000]),  # A computes 1000 twice
        tensor_names=("A.weights", "input 1", "B.weights", "input 2", "C.weights", "C"),
        part_names=("mac", "dram", "static"),
        energy_pj=energy,
        static_pj_per_cycle=0.5,
        facts={
            "workload": "worked",
            "hardware": "example",
            "macs": 9000,
            "vector_ops": 140,
            "macs_per_cycle": 100,
            "ideal_cycles": 92,
            "clock_hz": 5e8,
            "batch": 1,
        },
    )


# start, end, ready, activity, cause, its activity
WORKED_EVENTS = [
    (0, 20, 0, WA, Cause.NONE, -1),
    (20, 30, 20, IA1, Cause.QUEUE, WA),
    (30, 60, 30, A1, Cause.LOAD, IA1),
    (30, 40, 30, WB, Cause.QUEUE, IA1),
    (60, 80, 60, B1, Cause.QUEUE, A1),
    (60, 70, 60, IA2, Cause.TILE, A1),
    (80, 110, 80, A2, Cause.QUEUE, B1),
    (110, 130, 110, B2, Cause.QUEUE, A2),
    (110, 170, 110, WC, Cause.TILE, A2),
    (170, 210, 170, C1, Cause.LOAD, WC),
    (210, 230, 210, OC1, Cause.TILE, C1),
]


def hand_timeline(program: Program, rows: list[tuple[int, ...]], latency: int = 0, **provenance: object) -> Timeline:
    """The timeline of events given as (start, end, ready, activity, cause, cause activity), each of a whole activity.

    ``latency`` is that of the links.
    """
    start, end, ready, activity, cause, cause_activity = (np.array(rows, dtype=np.int64).reshape(-1, 6)).T
    queue = program.activities.queue[activity]
    resource = program.queues.resource[queue]
    events = EventTable(
        start_cycles=start,
        end_cycles=end,
        finish_cycles=end + latency * (program.resources.kind[resource] == LINK),
        ready_cycles=ready,
        resource=resource,
        queue=queue,
        activity=activity,
        bytes=program.activities.bytes[activity],
        cause=cause,
        cause_activity=cause_activity,
    )
    return Timeline(events, program, "by hand", provenance)


def worked_example(**provenance: object) -> Timeline:
    """The timeline of the worked example."""
    return hand_timeline(worked_program(), WORKED_EVENTS, **provenance)
