"""Schedulers: from a workload and an accelerator to a schedule. A new one is a file and a line here."""

from accelsim.search.cocco import Cocco, CoccoCoarse, CoccoFine
from accelsim.search.exhaustive import Exhaustive
from accelsim.search.interleave import Interleave
from accelsim.search.layerwise import Layerwise
from accelsim.search.objective import Objective
from accelsim.search.scheduler import Scheduler, SearchResult, Watch
from accelsim.search.soma import SoMa

SCHEDULERS: dict[str, type[Scheduler]] = {
    "layerwise": Layerwise,
    "interleave": Interleave,
    "soma": SoMa,
    "cocco": Cocco,
    "cocco_coarse": CoccoCoarse,
    "cocco_fine": CoccoFine,
    "exhaustive": Exhaustive,
}

BEST = "interleave"
"""The scheduler that ``--scheduler best`` stands for."""

__all__ = [
    "BEST",
    "SCHEDULERS",
    "Cocco",
    "CoccoCoarse",
    "CoccoFine",
    "Exhaustive",
    "Interleave",
    "Layerwise",
    "Objective",
    "Scheduler",
    "SearchResult",
    "SoMa",
    "Watch",
]
