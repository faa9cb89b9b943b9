"""What a run can end with, and the sentences for the end that is an error: a deadlock."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accelsim.errors import Deadlock
from accelsim.program.check import activity_name
from accelsim.program.tables import IntColumn, Program

# Result codes of the compiled loop.
DONE = 0
MORE_EVENTS = 1
"""The event columns are full; go on with longer ones."""
STUCK = 2
ASK_MEMORY = 3

LINES = 4
"""Queues, and buffers, that a message describes; the rest are counted."""


class Stuck(NamedTuple):
    """A machine in which nothing runs and nothing can start, though activities are left."""

    cycle: int
    ask_cycles: IntColumn
    """By activity; -1 where it never asked."""
    finished: npt.NDArray[np.bool_]
    """By activity. What is not finished has not started, for what has started always ends."""
    held: npt.NDArray[np.bool_]
    """By claim: it was taken and not given back."""


class Wait(NamedTuple):
    """What the head of a queue waits for."""

    sentence: str
    on: int
    """An activity that must finish, or start, first; -1 = nothing can help."""
    buffer: int
    """The buffer without room, or -1."""


class Standstill:
    """Reads from a stuck machine who holds what and who waits for whom."""

    def __init__(self, program: Program, stuck: Stuck) -> None:
        self.program = program
        self.stuck = stuck
        left = np.flatnonzero(~stuck.finished)
        queues, first = np.unique(program.activities.queue[left], return_index=True)
        self.heads = dict(zip(queues.tolist(), left[first].tolist(), strict=True))
        resource = program.queues.resource
        self.askers = sorted(
            (activity for activity in self.heads.values() if stuck.ask_cycles[activity] >= 0),
            key=lambda a: (stuck.ask_cycles[a], resource[program.activities.queue[a]], program.activities.queue[a]),
        )
        self.in_use = np.zeros(len(program.buffers.capacity_bytes), dtype=np.int64)
        np.add.at(self.in_use, program.claims.buffer[stuck.held], program.claims.bytes[stuck.held])
        self.needs = {activity: self.needs_of(activity) for activity in self.askers}
        self.lacking = {activity: self.lacking_of(activity) for activity in self.askers}
        self.waits = {activity: self.wait(activity) for activity in self.heads.values()}

    def name(self, activity: int) -> str:
        """An activity in words."""
        return activity_name(self.program, activity)

    def needs_of(self, activity: int) -> dict[int, int]:
        """Bytes that the activity claims, by buffer."""
        claims = self.program.claims
        needs: dict[int, int] = {}
        for claim in np.flatnonzero(claims.taken_by == activity).tolist():
            buffer = int(claims.buffer[claim])
            needs[buffer] = needs.get(buffer, 0) + int(claims.bytes[claim])
        return needs

    def lacking_of(self, activity: int) -> int:
        """The lowest buffer without room for the activity, or -1."""
        capacity = self.program.buffers.capacity_bytes
        return min((b for b, size in self.needs[activity].items() if self.in_use[b] + size > capacity[b]), default=-1)

    def keepers(self, claim: int) -> list[int]:
        """The activities that must still finish before the claim is given back."""
        releases = self.program.releases
        activities = releases.activity[releases.claim == claim]
        return sorted(activities[~self.stuck.finished[activities]].tolist())

    def wait(self, activity: int) -> Wait:
        """Why the head of a queue does not start."""
        if self.stuck.ask_cycles[activity] < 0:
            dependencies = self.program.dependencies
            before = dependencies.before[dependencies.after == activity]
            first = int(before[~self.stuck.finished[before]].min())
            return Wait(f"waits for {self.name(first)} to finish", first, -1)
        buffer = self.lacking[activity]
        if buffer >= 0:
            need, free = (
                self.needs[activity][buffer],
                int(self.program.buffers.capacity_bytes[buffer] - self.in_use[buffer]),
            )
            held = np.flatnonzero(self.stuck.held & (self.program.claims.buffer == buffer)).tolist()
            keeper = min((keeper for claim in held for keeper in self.keepers(claim)), default=-1)
            name = self.program.buffer_names[buffer]
            return Wait(f"asks for {need:,} bytes of buffer {name!r}, where {free:,} are free", keeper, buffer)
        mine = self.needs[activity].keys()
        ahead = self.askers[: self.askers.index(activity)]
        holder = next(a for a in ahead if self.lacking[a] >= 0 and mine & self.needs[a].keys())
        return Wait(f"is held back by {self.name(holder)}, which asked before it", holder, -1)

    def queue_lines(self) -> list[str]:
        """For each queue what its head waits for."""
        lines = []
        for queue, head in list(self.heads.items())[:LINES]:
            lines.append(f"  queue {self.program.queue_names[queue]!r}: {self.name(head)} {self.waits[head].sentence}")
        if len(self.heads) > LINES:
            lines.append(f"  and {len(self.heads) - LINES} more queues that wait")
        return lines

    def buffer_lines(self) -> list[str]:
        """For each buffer without room who holds it."""
        short = sorted({wait.buffer for wait in self.waits.values()} - {-1})
        lines = []
        for buffer in short[:LINES]:
            held = np.flatnonzero(self.stuck.held & (self.program.claims.buffer == buffer))
            largest = held[np.argsort(-self.program.claims.bytes[held], kind="stable")].tolist()
            holders = [self.holder(claim) for claim in largest[:3]] + ["…"] * (len(largest) > 3)
            capacity = int(self.program.buffers.capacity_bytes[buffer])
            name = self.program.buffer_names[buffer]
            lines.append(
                f"  buffer {name!r}: {self.in_use[buffer]:,} of {capacity:,} bytes held by {', '.join(holders)}"
            )
        return lines

    def holder(self, claim: int) -> str:
        """A claim in words: whose it is, how large, and for whom it is kept."""
        claims = self.program.claims
        tensor, taken_by = int(claims.tensor[claim]), int(claims.taken_by[claim])
        owner = repr(self.program.tensor_names[tensor]) if tensor >= 0 else f"claim {claim}"
        if tensor < 0 and taken_by >= 0:
            owner += f" of {self.name(taken_by)}"
        keepers = self.keepers(claim)
        until = f"until {self.name(keepers[0])} has finished" if keepers else "for good"
        return f"{owner} ({int(claims.bytes[claim]):,} bytes, {until})"

    def circle(self) -> list[int]:
        """Heads that wait for each other in a ring, or nothing when one waits for what can never come."""
        for start in self.heads.values():
            path: list[int] = []
            head = start
            while head >= 0 and head not in path:
                path.append(head)
                on = self.waits[head].on
                head = -1 if on < 0 else self.heads[int(self.program.activities.queue[on])]
            if head >= 0:
                return path[path.index(head) :]
        return []

    def circle_line(self) -> str:
        """The ring of waiting, if there is one."""
        steps = []
        circle = self.circle()
        for head in circle:
            on = self.waits[head].on
            queue = int(self.program.activities.queue[on])
            behind = f" (behind {self.name(self.heads[queue])} on queue {self.program.queue_names[queue]!r})"
            steps.append(f"{self.name(head)} waits for {self.name(on)}{behind if self.heads[queue] != on else ''}")
        more = f"; and so on, {len(circle)} in all" if len(circle) > LINES else ""
        return f"In a circle: {'; '.join(steps[:LINES])}{more}." if circle else ""


def deadlock(program: Program, stuck: Stuck) -> Deadlock:
    """The error that says who holds what, who waits for whom, and what to do."""
    still = Standstill(program, stuck)
    left = int((~stuck.finished).sum())
    lines = [
        f"cycle {stuck.cycle:,}: {left:,} of {program.size:,} activities are left and none of them can ever start",
        *still.queue_lines(),
        *still.buffer_lines(),
        still.circle_line(),
        "Reorder the queues, let go of buffer space earlier, or give the buffer more room."
        if still.buffer_lines()
        else "Reorder the queues, or break the circle of dependencies.",
    ]
    return Deadlock("\n".join(line for line in lines if line))
