"""The best DRAM tensor order and living durations of one choice of order, cuts and tiling numbers, exactly.

Without loss, loads start and stores end in the order in which they are served: a load behind another one begins no
earlier than that may, so to start later costs it no time and frees buffer; a store before another tensor has finished
when that has. So a schedule is one sequence: tile by tile, what is served before it and which stores it waits for. The
search goes through these sequences best first. Of two that served the same tensors before the same tile, one whose
clocks are all no earlier is dropped.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from accelsim.schedule.notation import Schedule
from accelsim.schedule.tiling import tile
from accelsim.search.dram_state import DramProblem, Gates, copy_gates, schedule_of
from accelsim.workload.graph import Workload

SERVE, END = range(2)


class Step(NamedTuple):
    """One thing that happens before the tile at ``position``: a tensor is served, or a store ends."""

    kind: int
    tensor: int
    position: int
    before: Step | None


@dataclass(frozen=True, slots=True)
class Node:
    """Everything up to some point of the sequence."""

    position: int
    """The tile that runs next."""
    served: int
    """Bit set of tensors; likewise ``ended``, of stores."""
    ended: int
    loading: bool
    """A load started at this position, so that no store may end at it any more (RV1)."""
    link: int
    """When the link is free."""
    tile_end: int
    """End of the tile before."""
    ready: int
    """When the last store that the next tile waits for has finished."""
    finish: tuple[int, ...]
    """By tensor: when it has finished; 0 where nobody will ask again."""
    last: Step | None

    @property
    def key(self) -> tuple[int, int, int, bool]:
        """What must agree for two nodes to be compared."""
        return self.position, self.served, self.ended, self.loading

    @property
    def clocks(self) -> tuple[int, ...]:
        """The earlier, the better, each of them."""
        return self.link, self.tile_end, self.ready, *self.finish


class ExactDram:
    """The search for one choice."""

    def __init__(self, problem: DramProblem, workload: Workload) -> None:
        tensors = problem.tensors
        self.problem = problem
        self.stores_before = stores_before(problem, workload)
        self.tried = 0
        """Sequences looked at."""
        self.positions: int = tensors.positions
        self.capacity = tensors.capacity_bytes
        self.latency = tensors.latency_cycles
        self.count = len(problem.rows)
        self.is_store = [bool(one) for one in tensors.is_store.tolist()]
        self.tile: list[int] = tensors.tile.tolist()
        self.cycles: list[int] = tensors.cycles.tolist()
        self.size: list[int] = tensors.bytes.tolist()
        self.least_start: list[int] = tensors.least_start.tolist()
        self.last_use: list[int] = [
            least if store else row.end
            for least, store, row in zip(tensors.least_end.tolist(), self.is_store, problem.rows, strict=True)
        ]
        self.written_by: list[int] = tensors.written_by.tolist()
        self.tile_cycles: list[int] = tensors.tile_cycles.tolist()
        self.tiles_left: list[int] = [sum(self.tile_cycles[position:]) for position in range(self.positions + 1)]
        self.needs = [
            sum(1 << x for x in range(self.count) if not self.is_store[x] and self.tile[x] == position)
            for position in range(self.positions)
        ]
        self.stores = sum(1 << x for x in range(self.count) if self.is_store[x])
        self.last_stores = sum(1 << x for x in range(self.count) if self.tile[x] == self.positions - 1) & self.stores
        self.chip_bytes = self._chip_bytes()

    def _chip_bytes(self) -> list[int]:
        """Bytes at each position of what never moves."""
        usage: list[int] = self.problem.gates.usage.tolist()[1 : self.positions + 1]
        for row in self.problem.rows:
            for position in range(max(row.start, 0), min(row.end, self.positions)):
                usage[position] -= row.bytes
        return usage

    def best(self, excluded: Callable[[int], bool]) -> tuple[int, Schedule] | None:
        """The least latency and a schedule that has it; None if every one is ``excluded`` (as all longer ones are)."""
        first = Node(0, 0, 0, False, 0, 0, 0, (0,) * self.count, None)
        heap = [(self.bound(first), 0, first)]
        seen: dict[tuple[int, int, int, bool], list[tuple[int, ...]]] = {}
        number = 0
        while heap:
            bound, _, node = heapq.heappop(heap)
            self.tried += 1
            if excluded(bound):
                return None
            if node.position == self.positions and node.served == (1 << self.count) - 1:
                return bound, self._schedule(node)
            for following in self.following(node):
                rivals = seen.setdefault(following.key, [])
                clocks = following.clocks
                if any(all(a <= b for a, b in zip(rival, clocks, strict=True)) for rival in rivals):
                    continue
                rivals[:] = [rival for rival in rivals if not all(a <= b for a, b in zip(clocks, rival, strict=True))]
                rivals.append(clocks)
                number -= 1
                heapq.heappush(heap, (self.bound(following), number, following))
        return None

    def bound(self, node: Node) -> int:
        """No completion is faster: tiles wait for what they need of the link, the last stores for the last tile."""
        tiles = node.tile_end + self.tiles_left[node.position]
        link, last = node.link, 0
        for position in range(node.position, self.positions):
            link += self._cycles(self.needs[position] & ~node.served)
            if self.needs[position] & ~node.served:
                tiles = max(tiles, link + self.latency + self.tiles_left[position])
        stores = self.stores & ~node.served
        link += self._cycles(stores)
        last = self._cycles(stores & self.last_stores)
        if last:
            link = max(link, tiles + last)
        return max(tiles, link + self.latency if self.count else 0)

    def _cycles(self, tensors: int) -> int:
        return sum(self.cycles[x] for x in range(self.count) if tensors >> x & 1)

    def following(self, node: Node) -> list[Node]:
        """What may happen next."""
        found = [
            self._serve(node, x)
            for x in range(self.count)
            if not node.served >> x & 1 and not self.stores_before[x] & ~node.served and self._may_start(node, x)
        ]
        if node.position < self.positions:
            waiting = [x for x in range(self.count) if self.stores & node.served & ~node.ended & 1 << x]
            if waiting and not node.loading:
                found.append(self._end(node, min(waiting, key=lambda x: node.finish[x])))
            if not self.needs[node.position] & ~node.served and self.usage(node) <= self.capacity:
                found.append(self._run(node))
        return found

    def _may_start(self, node: Node, x: int) -> bool:
        if self.is_store[x]:
            return self.tile[x] < node.position
        return self.least_start[x] <= node.position <= self.tile[x]

    def usage(self, node: Node) -> int:
        """Bytes alive while the next tile runs."""
        position = node.position
        total = self.chip_bytes[position]
        for x in range(self.count):
            if self.is_store[x]:
                alive = self.tile[x] <= position and (not node.ended >> x & 1 or position < self.last_use[x])
            else:
                alive = bool(node.served >> x & 1) and position < self.last_use[x]
            total += self.size[x] if alive else 0
        return total

    def _serve(self, node: Node, x: int) -> Node:
        writer = self.written_by[x]
        begin = max(node.link, node.tile_end, node.finish[writer] if writer >= 0 else 0)
        link = begin + self.cycles[x]
        times = list(node.finish)
        times[x] = link + self.latency
        if not self.is_store[x]:  # of the loads of one tile only the last one counts
            for y in range(self.count):
                if y != x and self.needs[self.tile[x]] >> y & 1:
                    times[y] = 0
        finish = tuple(times)
        loading = node.loading or not self.is_store[x]
        served, last = node.served | 1 << x, Step(SERVE, x, node.position, node.last)
        return Node(node.position, served, node.ended, loading, link, node.tile_end, node.ready, finish, last)

    def _end(self, node: Node, x: int) -> Node:
        ready = max(node.ready, node.finish[x])
        last = Step(END, x, node.position, node.last)
        return Node(
            node.position, node.served, node.ended | 1 << x, False, node.link, node.tile_end, ready, node.finish, last
        )

    def _run(self, node: Node) -> Node:
        """Runs the next tile. What has finished when it ends holds up nobody, so that stores among it end for free."""
        position = node.position
        loads = (node.finish[x] for x in range(self.count) if self.needs[position] >> x & 1)
        end = max([node.tile_end, node.ready, *loads]) + self.tile_cycles[position]
        ended, last = node.ended, node.last
        for x in range(self.count):
            if self.stores & node.served & ~ended & 1 << x and node.finish[x] <= end:
                ended, last = ended | 1 << x, Step(END, x, position + 1, last)
        finish = tuple(time if time > end else 0 for time in node.finish)
        return Node(position + 1, node.served, ended, False, node.link, end, 0, finish, last)

    def _schedule(self, node: Node) -> Schedule:
        gates: Gates = copy_gates(self.problem.gates)
        for x in range(self.count):
            if self.is_store[x]:
                gates.end[x] = self.positions
        order, step = [], node.last
        while step is not None:
            if step.kind == SERVE:
                order.append(step.tensor)
                if not self.is_store[step.tensor]:
                    gates.start[step.tensor] = step.position
            else:
                gates.end[step.tensor] = step.position
            step = step.before
        gates.order[:] = order[::-1]
        return schedule_of(self.problem, gates)


def stores_before(problem: DramProblem, workload: Workload) -> list[int]:
    """For each DRAM tensor the bit set of the stores that must stand before it (RV2).

    A load stands behind all stores of what it reads; a store behind those of the tiles that its own tile depends on
    within the layer group.
    """
    tiling = tile(workload, problem.schedule)
    tensors = problem.tensors
    number_of = {position: x for x, position in enumerate(tensors.tile.tolist()) if tensors.is_store[x]}
    behind: list[int] = []
    for step in tiling.steps:
        found = 0
        for producer, _ in step.block.reads:
            maker = tiling.place.get(producer)
            if maker is None or tiling.layer_group_of[maker] != tiling.layer_group_of[step.place]:
                continue
            same = tiling.group_of[maker] == tiling.group_of[step.place]
            position = tiling.position(maker, step.tile) if same else tiling.last(maker)
            found |= behind[position]
            if position in number_of:
                found |= 1 << number_of[position]
        behind.append(found)
    sets = []
    for x, position in enumerate(tensors.tile.tolist()):
        maker = tensors.maker[x]
        stores = (y for y in number_of.values() if tensors.operator[y] == maker)
        sets.append(behind[position] if tensors.is_store[x] else sum(1 << y for y in stores))
    return sets
