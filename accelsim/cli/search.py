"""Searches by name, for every command that needs a schedule."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.cli import common
from accelsim.errors import InputError, UnknownName

if TYPE_CHECKING:
    from accelsim.hardware.accelerator import Accelerator
    from accelsim.search.objective import Objective
    from accelsim.search.scheduler import SearchResult, Watch
    from accelsim.workload.graph import Workload


@dataclass(frozen=True)
class SearchOptions:
    """How to search, as the command line says it."""

    scheduler: str
    objective: Objective
    seed: int
    seeds: int
    """How many, from ``seed`` on."""
    time_limit: float | None
    checkpoint: Path | None


def search(workload: Workload, accelerator: Accelerator, options: SearchOptions) -> SearchResult:
    """Runs a scheduler by name; shows the best so far, and takes Ctrl-C as a wish for it."""
    from accelsim.search import BEST, SCHEDULERS
    from accelsim.search.scheduler import Watch
    from accelsim.search.seeds import search_seeds
    from accelsim.units import did_you_mean

    name = options.scheduler
    if name == "best":  # where no operator may be cut there is little to search
        name = "layerwise" if accelerator.dataflow.one_tile_per_operator else BEST
    if name not in SCHEDULERS:
        near = did_you_mean(name, SCHEDULERS)
        raise UnknownName(f"no scheduler '{name}'{near}; there are best, {', '.join(SCHEDULERS)}")
    if options.checkpoint is not None and options.checkpoint.is_dir():
        raise InputError(f"--checkpoint {options.checkpoint}: is a folder; give the name of a file")
    with common.progress(f"scheduling with {name}") as status:

        def show(stage: str, latency_cycles: int, energy_pj: float, gap_percent: float) -> None:
            status.update(
                f"scheduling with {name}: {stage}, best {latency_cycles:,} cycles, {energy_pj / 1e9:.3f} mJ, "
                f"{gap_percent:.1f} % over its bound (Ctrl-C takes it)"
            )

        watch = Watch(options.time_limit, show, options.checkpoint)
        seeds = range(options.seed, options.seed + options.seeds)
        schedulers = [SCHEDULERS[name].from_options(options.objective, seed) for seed in seeds]
        with interruptible(watch):
            if len(schedulers) == 1:
                return schedulers[0].search(workload, accelerator, watch)
            return search_seeds(schedulers, workload, accelerator, options.objective, watch)


@contextmanager
def interruptible(watch: Watch) -> Iterator[None]:
    """The first Ctrl-C asks the search to stop, the second one stops the program."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def first(number: int, frame: object) -> None:
        watch.stop()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
