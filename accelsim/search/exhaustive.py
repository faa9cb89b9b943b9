"""Every schedule there is, for tiny workloads: the oracle that searches are measured against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise, permutations, product
from typing import ClassVar, NamedTuple

import numpy as np

from accelsim.errors import BufferOverflow, InputError
from accelsim.hardware.accelerator import Accelerator
from accelsim.schedule.notation import Schedule
from accelsim.search.choice import Choice, two_clocks_tell
from accelsim.search.exact_dram import ExactDram
from accelsim.search.objective import Objective
from accelsim.search.scheduler import Scheduler, SearchResult, Watch
from accelsim.search.session import Cost, Session
from accelsim.search.start import image_sizes
from accelsim.workload.graph import Workload

ANY_BYTES = 1 << 60


class Candidate(NamedTuple):
    """Order, cuts and tiling numbers, and what all schedules that have them cost."""

    least_cost: float
    choice: Choice
    energy_pj: float
    """Of everything but static power."""
    bound_cycles: int


@dataclass(frozen=True)
class Exhaustive(Scheduler):
    """The optimum over all six attributes.

    Every computing order, all fusion and DRAM cuts and all tiling numbers are enumerated, the least bound first (from
    their energy, and the larger of the sums of tile and of transfer cycles). For each, the best DRAM tensor order and
    living durations are found (:mod:`accelsim.search.exact_dram`), until no bound is below the best cost.
    """

    objective: Objective = field(default_factory=Objective)
    most_operators: int = 4
    most_tiles: int = 8
    """With every operator cut as finely as it can be."""
    most_dram_tensors: int = 16
    """Of a candidate that its bound does not exclude."""

    name: ClassVar[str] = "exhaustive"
    text: ClassVar[str] = "all schedules of tiny workloads (4 operators, 8 tiles, 16 DRAM tensors): the oracle"

    @classmethod
    def from_options(cls, objective: Objective, seed: int) -> Exhaustive:
        """Chance plays no part."""
        return cls(objective)

    def search(self, workload: Workload, accelerator: Accelerator, watch: Watch | None = None) -> SearchResult:
        """See :meth:`Scheduler.search`.

        Raises:
            InputError: the workload is larger than the limits, or the link does not serve in DRAM tensor order.
        """
        self._check(workload, accelerator)
        session = Session(workload, accelerator, self.objective, watch, repr(self))
        best: tuple[Schedule, Cost] | None = None
        limit = float("inf")
        for candidate in sorted(self._candidates(session), key=lambda one: one.least_cost):
            if candidate.least_cost >= limit or (best is not None and session.watch.expired()):
                break
            session.counts["fusion"] += 1
            found = self._best_of(session, candidate, limit)
            if found is not None:
                best, limit = found, session.cost(found[1])
                session.watch.best("all schedules", *found[1])
        if best is None:
            raise BufferOverflow(
                f"no schedule of '{workload.name}' fits into the {session.capacity_bytes} bytes of the buffer: all of "
                "them were tried; enlarge buffers.global.capacity"
            )
        return session.result(self.name, None, *best)

    def _check(self, workload: Workload, accelerator: Accelerator) -> None:
        if not two_clocks_tell(accelerator):
            raise InputError(
                "the exhaustive search knows links that serve one transfer after another in DRAM tensor order, without "
                f"shared ports or banks; '{accelerator.name}' has another: use another scheduler"
            )
        operators = len(workload.operators)
        if operators > self.most_operators:
            raise InputError(
                f"'{workload.name}' has {operators} operators; the exhaustive search takes at most "
                f"{self.most_operators}: use another scheduler"
            )
        tiles = sum(most_tiles(workload))
        if tiles > self.most_tiles:
            raise InputError(
                f"'{workload.name}' can be cut into {tiles} tiles; the exhaustive search takes workloads of at most "
                f"{self.most_tiles}: use another scheduler"
            )

    def _candidates(self, session: Session) -> Iterator[Candidate]:
        """Every legal choice of order, cuts and tiling numbers."""
        size, static = session.network.size, session.machine.static_pj_per_cycle
        most = most_tiles(session.workload)
        for order in orders(session.workload):
            for cuts in product(range(3), repeat=size - 1):
                begins = [0, *(place for place, cut in enumerate(cuts, 1) if cut)]
                groups = [order[begin:end] for begin, end in pairwise((*begins, size))]
                for numbers in product(*(range(1, max(most[number] for number in group) + 1) for group in groups)):
                    choice = Choice(np.array(order), np.array([2, *cuts]), np.ones(size, dtype=np.int64))
                    choice.tiles[begins] = numbers
                    found = session.price(choice, ANY_BYTES)
                    if found is not None:
                        bound = Cost.of(found).bound_cycles
                        energy = found.energy_pj - static * found.latency_cycles
                        least = self.objective.cost(energy + static * bound, bound)
                        yield Candidate(least, choice, energy, bound)

    def _best_of(self, session: Session, candidate: Candidate, limit: float) -> tuple[Schedule, Cost] | None:
        """The best schedule of a candidate; None if it has none, or none that costs less than ``limit``."""

        def cost(latency_cycles: int) -> Cost:
            energy = candidate.energy_pj + session.machine.static_pj_per_cycle * latency_cycles
            return Cost(latency_cycles, energy, candidate.bound_cycles)

        exact = ExactDram(session.dram_problem(session.schedule(candidate.choice)), session.workload)
        if exact.count > self.most_dram_tensors:
            raise InputError(
                f"'{session.workload.name}' has a schedule of {exact.count} DRAM tensors whose bound does not exclude "
                f"it; the exhaustive search takes at most {self.most_dram_tensors}: use another scheduler"
            )
        found = exact.best(lambda latency_cycles: session.cost(cost(latency_cycles)) >= limit)
        session.counts["dram"] += exact.tried
        return None if found is None else (found[1], cost(found[0]))


def orders(workload: Workload) -> Iterator[tuple[int, ...]]:
    """All topological orders of the operators, as numbers."""
    needs = [
        {workload.index[name] for name in operator.producers() if name in workload.index}
        for operator in workload.operators
    ]
    for order in permutations(range(len(needs))):
        if all(needs[number] <= set(order[:place]) for place, number in enumerate(order)):
            yield order


def most_tiles(workload: Workload) -> list[int]:
    """For each operator, how many tiles of at least one element there are: samples times rows times columns."""
    found = []
    for operator in workload.operators:
        rows, columns = image_sizes(operator)
        found.append(workload.batch * rows * columns)
    return found
