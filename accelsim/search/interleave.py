"""Our own scheduler: fusion annealed under list-scheduled DRAM tensors, instead of under double buffering."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from accelsim.hardware.accelerator import Accelerator
from accelsim.schedule.notation import Schedule
from accelsim.search.anneal_fusion import FusionParameters
from accelsim.search.choice import Choice
from accelsim.search.dram_state import schedule_of
from accelsim.search.layerwise import Layerwise
from accelsim.search.objective import Objective
from accelsim.search.scheduler import Scheduler, SearchResult, Watch
from accelsim.search.session import Cost, Session
from accelsim.search.start import coarse_numbers, separate
from accelsim.workload.graph import Workload

MOST_DRAM_ROUNDS = 3_000_000

MANY_TILES = 1000

HORIZONS = (1, 1 << 40)
"""Loads come before stores if they are needed at the next position; or always. The better of both counts."""


@dataclass(frozen=True)
class Interleave(Scheduler):
    """Interleaves loads, stores and tiles from the first stage on.

    SoMa chooses order, cuts and tiling numbers by what they cost under double buffering, and repeats itself with less
    buffer so that its second stage has room to prefetch. Here every candidate of the first stage is priced with its
    DRAM tensors list scheduled by deadline within the buffer (:mod:`accelsim.search.list_schedule`), which is what it
    can really reach; one pass is enough. Several short runs from different starts are cheaper than one long one; the
    best of them are polished by annealing DRAM tensor order and living durations, until the bound of the schedule is
    reached."""

    objective: Objective = field(default_factory=Objective)
    seed: int = 0
    runs: int = 8
    """Annealing runs of the first stage."""
    fusion_rounds: float = 100.0
    """Rounds of a run: times operators."""
    dram_rounds: float = 1000.0
    """Rounds of a polish: times DRAM tensors."""
    patience: int = 4
    """Runs without gain after which no more are made."""
    polished: int = 3
    """How many of the best runs are polished."""

    name: ClassVar[str] = "interleave"
    text: ClassVar[str] = "fusion, tiling and list-scheduled DRAM tensors annealed together, then polished"

    @classmethod
    def from_options(cls, objective: Objective, seed: int) -> Interleave:
        """With our parameters."""
        return cls(objective, seed)

    def search(self, workload: Workload, accelerator: Accelerator, watch: Watch | None = None) -> SearchResult:
        """See :meth:`Scheduler.search`."""
        session = Session(workload, accelerator, self.objective, watch, repr(self))
        found = self._runs(session)
        if not found:  # nothing fits without the means of the layer-wise scheduler
            return Layerwise().search(workload, accelerator, watch)
        best: tuple[Schedule, Cost] | None = None
        for number, (_, choice) in enumerate(found[: self.polished]):
            if best is not None and session.watch.expired():
                break
            polished = self._polish(session, choice, number)
            if best is None or session.cost(polished[1]) < session.cost(best[1]):
                best = polished
                session.watch.best("polish", *best[1])
        assert best is not None
        return session.result(self.name, self.seed, *best)

    def _runs(self, session: Session) -> list[tuple[float, Choice]]:
        """The best choice of every run, the cheapest first, without repeats."""
        rounds = round(self.fusion_rounds * session.network.size)
        starts = [start for start in self._starts(session) if session.price(start, session.capacity_bytes, HORIZONS)]
        parameters = FusionParameters(
            rounds,
            session.capacity_bytes,
            self.objective.energy_exponent,
            self.objective.delay_exponent,
            fusion_split=0.3,
            fully_connected_alone=0,
            urgent_positions=HORIZONS,
        )
        found: dict[bytes, tuple[float, Choice]] = {}
        seeds = np.random.SeedSequence([self.seed, 1]).generate_state(self.runs, dtype=np.uint64)
        idle, cheapest = 0, math.inf
        for number, seed in enumerate(seeds.tolist() if starts else []):
            if number and (session.watch.expired(0.7) or idle == self.patience):
                break
            state = session.anneal_fusion(starts[number % len(starts)], parameters, seed, 0.7)
            cost = float(state.cost[1])
            key = b"".join(column.tobytes() for column in state.best)
            found[key] = (cost, state.best)
            idle = idle + 1 if cost >= cheapest * (1 - 1e-6) else 0
            if cost < cheapest:
                cheapest = cost
                result = session.price(state.best, session.capacity_bytes, HORIZONS)
                assert result is not None
                session.watch.best(f"run {number + 1}", *Cost.of(result))
        return sorted(found.values(), key=lambda pair: pair[0])

    def _starts(self, session: Session) -> list[Choice]:
        """Everything fused, everything apart (in so many tiles that it takes long to price, it is left out), and
        layer by layer."""
        size, batch = session.network.size, session.workload.batch
        fused = Choice(np.arange(size), np.zeros(size, dtype=np.int64), np.full(size, batch))
        fused.cut[0] = 2
        starts = [fused, session.choice(Layerwise().search(session.workload, session.accelerator).schedule)]
        apart = separate(session, coarse_numbers(session), session.capacity_bytes)
        if apart is not None and apart.tiles.sum() <= 4 * max(starts[1].tiles[starts[1].cut > 0].sum(), MANY_TILES):
            starts.insert(1, apart)
        return starts

    def _polish(self, session: Session, choice: Choice, number: int) -> tuple[Schedule, Cost]:
        """Anneals DRAM tensor order and living durations, from those of list scheduling; only these if time is over."""
        schedule = session.list_schedule(choice, HORIZONS)
        if session.watch.expired():
            found = session.price(choice, session.capacity_bytes, HORIZONS)
            assert found is not None
            return schedule, Cost.of(found)
        problem = session.dram_problem(schedule)
        rounds = min(round(self.dram_rounds * len(problem.rows)), MOST_DRAM_ROUNDS)
        seed = np.random.SeedSequence([self.seed, 2, number]).generate_state(1, dtype=np.uint64)
        state = session.anneal_dram(problem, rounds, int(seed[0]))
        latency = int(state.latency[1])
        energy = problem.energy_pj + session.machine.static_pj_per_cycle * latency
        return schedule_of(problem, state.best), Cost(latency, energy, problem.lower_bound_cycles)
