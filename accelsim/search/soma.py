"""SoMa (HPCA 2025, section V): two stages of annealing and a buffer allocator between them, faithful to the paper."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from accelsim.errors import InputError
from accelsim.hardware.accelerator import Accelerator
from accelsim.schedule.notation import Schedule
from accelsim.search.anneal_fusion import FusionParameters
from accelsim.search.dram_state import schedule_of
from accelsim.search.objective import Objective
from accelsim.search.scheduler import Scheduler, SearchResult, Watch
from accelsim.search.session import Cost, Session
from accelsim.search.start import coarse_numbers, no_start, separate
from accelsim.workload.graph import Workload

MOST_DRAM_ROUNDS = 3_000_000
MOST_DRAM_ROUNDS_LATER = 5_000_000


@dataclass(frozen=True)
class Found:
    """What a pass of the allocator found."""

    schedule: Schedule
    cost: Cost
    peak_bytes: int
    """Of its first stage, under double buffering."""


@dataclass(frozen=True)
class SoMa(Scheduler):
    """Stage 1 anneals order, cuts and tiling numbers under double buffering; stage 2 DRAM tensor order and living
    durations.

    The buffer allocator then repeats both with less buffer for stage 1, so that stage 2 has room to load ahead. By
    the paper's rule the budget falls by a tenth of the first pass's peak each time, until two passes in a row bring
    nothing; by the artifact's there are five more passes, with budgets peak * 0.9^k, k = 0..4, and the winner is
    chosen by latency alone."""

    objective: Objective = field(default_factory=Objective)
    seed: int = 0
    allocator: Literal["paper", "artifact"] = "artifact"
    fusion_rounds: float = 100.0
    """Times operators, times the root of the batch."""
    dram_rounds: float = 1000.0
    """Times DRAM tensors."""

    name: ClassVar[str] = "soma"
    text: ClassVar[str] = "SoMa's two-stage annealing with its buffer allocator (HPCA 2025)"

    @classmethod
    def from_options(cls, objective: Objective, seed: int) -> SoMa:
        """With the paper's parameters."""
        return cls(objective, seed)

    def search(self, workload: Workload, accelerator: Accelerator, watch: Watch | None = None) -> SearchResult:
        """See :meth:`Scheduler.search`."""
        session = Session(workload, accelerator, self.objective, watch, repr(self))
        best = self._pass(session, session.capacity_bytes, 0)
        if best is None:
            raise no_start(session)
        if self.allocator == "paper":
            best = self._paper(session, best)
        elif self.allocator == "artifact":
            best = self._artifact(session, best)
        else:
            raise InputError(f"no buffer allocator '{self.allocator}'; there are paper and artifact")
        return session.result(self.name, self.seed, best.schedule, best.cost)

    def _paper(self, session: Session, best: Found) -> Found:
        peak, failures, number = best.peak_bytes, 0, 1
        while failures < 2 and number < 10 and not session.watch.expired():
            found = self._pass(session, peak - peak * number // 10, number)
            better = found is not None and session.cost(found.cost) < session.cost(best.cost)
            failures = 0 if better else failures + 1
            best = found if found is not None and better else best
            number += 1
        return best

    def _artifact(self, session: Session, best: Found) -> Found:
        peak = best.peak_bytes
        for number in range(5):
            if session.watch.expired():
                break
            found = self._pass(session, int(peak * 0.9**number), number + 1)
            if found is not None and found.cost.latency_cycles < best.cost.latency_cycles:
                best = found
        return best

    def _pass(self, session: Session, budget_bytes: int, number: int) -> Found | None:
        """Both stages, the first one within a budget; None if the start does not fit into it."""
        size, batch = session.network.size, session.workload.batch
        parameters = FusionParameters(
            round(self.fusion_rounds * size * batch**0.5),
            budget_bytes,
            self.objective.energy_exponent,
            self.objective.delay_exponent,
        )
        start = separate(session, coarse_numbers(session), budget_bytes)
        if start is None:
            return None
        seeds = np.random.SeedSequence([self.seed, number]).generate_state(2, dtype=np.uint64)
        state = session.anneal_fusion(start, parameters, int(seeds[0]))
        found = session.price(state.best, session.capacity_bytes)
        assert found is not None
        schedule = session.schedule(state.best)
        if session.watch.expired():  # the double-buffered order is legal as it stands
            return Found(schedule, Cost.of(found), found.peak_bytes)
        problem = session.dram_problem(schedule)
        most = MOST_DRAM_ROUNDS_LATER if number else MOST_DRAM_ROUNDS
        rounds = min(round(self.dram_rounds * len(problem.rows)), most)
        second = session.anneal_dram(problem, rounds, int(seeds[1]))
        latency = int(second.latency[1])
        energy = problem.energy_pj + session.machine.static_pj_per_cycle * latency
        cost = Cost(latency, energy, problem.lower_bound_cycles)
        session.watch.best(f"pass {number + 1}", *cost)
        return Found(schedule_of(problem, second.best), cost, found.peak_bytes)
