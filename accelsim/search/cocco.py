"""Cocco (ASPLOS 2024) in SoMa's notation: fusion alone is searched, every layer group is one fused group."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from accelsim.errors import InputError
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.dataflow.spatial_cores import SpatialCores
from accelsim.search.anneal_fusion import FusionParameters
from accelsim.search.choice import Choice
from accelsim.search.objective import Objective
from accelsim.search.scheduler import Scheduler, SearchResult, Watch
from accelsim.search.session import Cost, Session
from accelsim.search.start import coarse_numbers, fine_numbers, kernel_channel_numbers, no_start, separate
from accelsim.workload.graph import Workload

Tiling = Literal["kernel_channel", "fine", "coarse"]


@dataclass(frozen=True)
class Cocco(Scheduler):
    """Anneals order (0.4) and DRAM cuts (0.6) under double buffering; nothing else may be chosen.

    The published artifact of SoMa cannot run its baseline; this one is rebuilt from what the paper says of it (HPCA
    2025, section VI) on SoMa's annealing. Tiling numbers are no part of the search, but a rule:

    - ``kernel_channel`` (nearest to the paper): what the array's kernel-channel parallelism asks for, see
      :func:`accelsim.search.start.kernel_channel_numbers`; of two groups that merge, the larger number stays.
    - ``fine``: tiles of 4 x 4 outputs; of two groups that merge, either number, with odds by their operators.
    - ``coarse``: as ``fine``, but uncut where that gives more than 16 tiles a sample: SoMa's own start, and the
      stronger baseline.
    """

    objective: Objective = field(default_factory=Objective)
    seed: int = 0
    tiling: Tiling = "kernel_channel"
    rounds: float = 100.0
    """Rounds of a run: times operators, times the root of the batch."""
    runs: int = 3
    """Annealing runs, of which the best counts: a single one is sometimes caught in a poor choice."""

    name: ClassVar[str] = "cocco"
    text: ClassVar[str] = "the fusion-only baseline, tiled for kernel-channel parallelism (ASPLOS 2024)"

    @classmethod
    def from_options(cls, objective: Objective, seed: int) -> Cocco:
        """With the tiling rule nearest to the paper."""
        return cls(objective, seed)

    def search(self, workload: Workload, accelerator: Accelerator, watch: Watch | None = None) -> SearchResult:
        """See :meth:`Scheduler.search`."""
        session = Session(workload, accelerator, self.objective, watch, repr(self))
        start = separate(session, self._numbers(session), session.capacity_bytes)
        if start is None:
            raise no_start(session)
        parameters = FusionParameters(
            round(self.rounds * session.network.size * workload.batch**0.5),
            session.capacity_bytes,
            self.objective.energy_exponent,
            self.objective.delay_exponent,
            order=0.4,
            tiling=0.0,
            fusion_merge=0.0,
            keep_fusion_cut=0,
            tiling_rule=int(self.tiling == "kernel_channel"),
        )
        seeds = np.random.SeedSequence([self.seed, 0]).generate_state(self.runs, dtype=np.uint64)
        best: tuple[Choice, Cost] | None = None
        for number, seed in enumerate(seeds.tolist()):
            if best is not None and session.watch.expired():
                break
            choice = session.anneal_fusion(start, parameters, seed).best
            found = session.price(choice, session.capacity_bytes)
            assert found is not None
            cost = Cost.of(found)
            if best is None or session.cost(cost) < session.cost(best[1]):
                best = choice, cost
                session.watch.best(f"run {number + 1}", *cost)
        assert best is not None
        return session.result(self.name, self.seed, session.schedule(best[0]), best[1])

    def _numbers(self, session: Session) -> list[int]:
        if self.tiling == "kernel_channel":
            vector_length, lanes = array_extents(session.accelerator)
            return kernel_channel_numbers(session, vector_length, lanes)
        if self.tiling == "fine":
            return fine_numbers(session)
        if self.tiling == "coarse":
            return coarse_numbers(session)
        raise InputError(f"no tiling rule '{self.tiling}'; there are kernel_channel, fine and coarse")


class CoccoCoarse(Cocco):
    """Cocco with ``coarse`` tiling numbers, as a name for the command line."""

    name: ClassVar[str] = "cocco_coarse"
    text: ClassVar[str] = "the fusion-only baseline with SoMa's coarse start tiling: the stronger one"

    @classmethod
    def from_options(cls, objective: Objective, seed: int) -> CoccoCoarse:
        """With coarse tiling numbers."""
        return cls(objective, seed, "coarse")


class CoccoFine(Cocco):
    """Cocco with ``fine`` tiling numbers, as a name for the command line."""

    name: ClassVar[str] = "cocco_fine"
    text: ClassVar[str] = "the fusion-only baseline with tiles of 4 x 4 outputs"

    @classmethod
    def from_options(cls, objective: Objective, seed: int) -> CoccoFine:
        """With fine tiling numbers."""
        return cls(objective, seed, "fine")


def array_extents(accelerator: Accelerator) -> tuple[int, int]:
    """Input channels and output channels that a PE takes at once; of an array of scalar PEs its rows and columns."""
    dataflow = accelerator.dataflow
    if isinstance(dataflow, SpatialCores):
        return dataflow.grid.vector_length, dataflow.grid.lanes
    return getattr(dataflow, "rows", 1), getattr(dataflow, "columns", 1)
