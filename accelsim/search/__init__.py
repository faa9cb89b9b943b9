"""Schedulers: from a workload and an accelerator to a schedule. A new one is a file and a line here."""

from accelsim.search.layerwise import Layerwise
from accelsim.search.scheduler import Scheduler, SearchResult

SCHEDULERS: dict[str, type[Scheduler]] = {
    "layerwise": Layerwise,
}

BEST = "layerwise"
"""The scheduler that ``--scheduler best`` stands for."""

__all__ = ["BEST", "SCHEDULERS", "Layerwise", "Scheduler", "SearchResult"]
