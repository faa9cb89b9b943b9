"""What every scheduler is, what it returns, and how one watches it."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from accelsim.hardware.accelerator import Accelerator
from accelsim.schedule.notation import Schedule
from accelsim.search.objective import Objective
from accelsim.workload.graph import Workload


@dataclass(frozen=True)
class SearchResult:
    """A schedule, how it was found, and what the search claims of it."""

    schedule: Schedule
    scheduler: str
    seed: int | None
    """None where chance plays no part."""
    latency_cycles: int | None = None
    """As the search has it; None where it did not ask. A simulation gives the same."""
    energy_pj: float | None = None
    lower_bound_cycles: int | None = None
    """For this order, these cuts and tiling numbers: the sum of tile cycles, or of transfers."""
    any_schedule_bound_cycles: int | None = None
    """For every schedule of these operators: see :func:`accelsim.search.bounds.least_latency_cycles`."""
    counts: dict[str, int] = field(default_factory=dict)
    """Candidates tried, by stage."""


@dataclass
class Watch:
    """Tells a search when to stop, and hears of its progress.

    After ``time_limit_seconds``, or when :meth:`stop` was called (from a signal handler, say), a search returns the
    best that it has found so far; the result then depends on the machine's speed.
    """

    time_limit_seconds: float | None = None
    show: Callable[[str, int, float, float], None] | None = None
    """Called with the stage, the best latency and energy so far, and the gap to the schedule's bound in percent."""
    checkpoint: Path | None = None
    """A file that says where the search stands. If it is there, the search goes on from it."""
    asked: Callable[[], bool] | None = None
    """Called often: whether somebody else, another process say, wants the search to stop."""
    clock: Callable[[], float] = time.monotonic
    """What the time limit counts, in seconds; ``time.process_time`` counts this process alone."""
    began: float = field(init=False)
    stopped: bool = False
    was_expired: bool = False
    """Whether the search was ever told that its time, or a share of it, is over."""

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Lets the time begin now: kernels are compiled, which is no part of a search."""
        self.began = self.clock()

    @property
    def taken_seconds(self) -> float:
        """Since the search began: without compiling, but with the start of processes where there are several seeds."""
        return self.clock() - self.began

    def stop(self) -> None:
        """Asks the search to return as soon as it can."""
        self.stopped = True

    def expired(self, share: float = 1.0) -> bool:
        """Whether the search is to stop, or ``share`` of its time is over."""
        if self.asked is not None and self.asked():
            self.stopped = True
        over = self.stopped
        if self.time_limit_seconds is not None and not over:
            over = self.taken_seconds >= share * self.time_limit_seconds
        self.was_expired = self.was_expired or over
        return over

    def best(self, stage: str, latency_cycles: int, energy_pj: float, bound_cycles: int) -> None:
        """Reports the best so far."""
        if self.show is not None:
            self.show(stage, latency_cycles, energy_pj, 100 * (latency_cycles / max(bound_cycles, 1) - 1))


class Scheduler(ABC):
    """From a workload and an accelerator to a legal schedule.

    Subclasses are final; their parameters are those of their constructor, with documented defaults.
    """

    name: ClassVar[str]
    text: ClassVar[str]
    """One line for ``accelsim list schedulers``."""

    @classmethod
    @abstractmethod
    def from_options(cls, objective: Objective, seed: int) -> Scheduler:
        """The scheduler as the command line asks for it."""

    @abstractmethod
    def search(self, workload: Workload, accelerator: Accelerator, watch: Watch | None = None) -> SearchResult:
        """Finds a schedule.

        Raises:
            BufferOverflow: no schedule of this scheduler fits into the buffer.
        """
