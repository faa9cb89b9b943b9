"""The order in which the nodes of a recorded graph are issued, where the recording leaves it open.

First come, first served: a node asks for its resources when all that it depends on has finished; each resource serves
those that ask in the order of asking, then in that of the file. A node that needs several resources (a collective: the
links of all its members) waits until it is first at each of them, and all are free.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple


class Job(NamedTuple):
    """What is issued as one: its resources (none for a mere marker), how long it takes, and whom it waits for."""

    resources: tuple[int, ...]
    cycles: int
    parents: tuple[int, ...]


def issue_order(jobs: list[Job]) -> list[int]:
    """The jobs in the order in which they start; those that wait for each other in a circle are missing."""
    pending = [len(job.parents) for job in jobs]
    children: list[list[int]] = [[] for _ in jobs]
    for row, job in enumerate(jobs):
        for parent in job.parents:
            children[parent].append(row)
    asking: dict[int, list[tuple[int, int]]] = {resource: [] for job in jobs for resource in job.resources}
    busy: set[int] = set()
    ends: list[tuple[int, int]] = []
    order: list[int] = []
    touched: list[int] = []

    def ask(row: int, cycle: int) -> None:
        if not jobs[row].resources:
            order.append(row)
            heappush(ends, (cycle + jobs[row].cycles, row))
        for resource in jobs[row].resources:
            heappush(asking[resource], (cycle, row))
            touched.append(resource)

    def serve(cycle: int) -> None:
        while touched:
            resource = touched.pop()
            if resource in busy or not asking[resource]:
                continue
            entry = asking[resource][0]
            needed = jobs[entry[1]].resources
            if all(other not in busy and asking[other][0] == entry for other in needed):
                for other in needed:
                    heappop(asking[other])
                    busy.add(other)
                order.append(entry[1])
                heappush(ends, (cycle + jobs[entry[1]].cycles, entry[1]))

    for row, count in enumerate(pending):
        if not count:
            ask(row, 0)
    serve(0)
    while ends:
        cycle = ends[0][0]
        while ends and ends[0][0] == cycle:
            _, row = heappop(ends)
            busy.difference_update(jobs[row].resources)
            touched.extend(jobs[row].resources)
            for child in children[row]:
                pending[child] -= 1
                if not pending[child]:
                    ask(child, cycle)
        serve(cycle)
    return order


def circle(jobs: list[Job], left: set[int]) -> list[int]:
    """Jobs of ``left`` each of which waits for the next one, the last one for the first. Each waits for one of them."""
    row = min(left)
    seen: dict[int, int] = {}
    path: list[int] = []
    while row not in seen:
        seen[row] = len(path)
        path.append(row)
        row = next(parent for parent in jobs[row].parents if parent in left)
    return path[seen[row] :]
