"""What every scheduler is, and what it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from accelsim.hardware.accelerator import Accelerator
from accelsim.schedule.notation import Schedule
from accelsim.workload.graph import Workload


@dataclass(frozen=True)
class SearchResult:
    """A schedule and how it was found."""

    schedule: Schedule
    scheduler: str
    seed: int | None
    """None where chance plays no part."""


class Scheduler(ABC):
    """From a workload and an accelerator to a legal schedule.

    Subclasses are final; their parameters are those of their constructor, with documented defaults.
    """

    name: ClassVar[str]
    text: ClassVar[str]
    """One line for ``accelsim list schedulers``."""

    @abstractmethod
    def search(self, workload: Workload, accelerator: Accelerator) -> SearchResult:
        """Finds a schedule.

        Raises:
            BufferOverflow: no schedule of this scheduler fits into the buffer.
        """
