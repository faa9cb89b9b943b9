"""The best of several seeds, each searched in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.synchronize import Event
from pathlib import Path

from accelsim.errors import InputError
from accelsim.hardware.accelerator import Accelerator
from accelsim.search.objective import Objective
from accelsim.search.scheduler import Scheduler, SearchResult, Watch
from accelsim.workload.graph import Workload

_stop: Event


def search_seeds(
    schedulers: Sequence[Scheduler],
    workload: Workload,
    accelerator: Accelerator,
    objective: Objective,
    watch: Watch | None = None,
    processes: int | None = None,
) -> SearchResult:
    """Runs all ``schedulers`` (one for each seed) and returns the result that costs least; of equal ones the first.

    The answer does not depend on ``processes`` (as many as there are cores), unless time runs out. A time limit is
    that of all of them together: with more seeds than processes, each gets its share. ``watch.stop()`` stops them all.
    A checkpoint is a file for each, ``FILE.0``, ``FILE.1``, …

    Raises:
        InputError: a process was killed, or ran out of memory.
    """
    watch = watch or Watch()
    processes = min(processes or os.cpu_count() or 1, len(schedulers))
    limit = watch.time_limit_seconds
    if limit is not None:
        limit /= -(-len(schedulers) // processes)
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    results: list[SearchResult | None] = [None] * len(schedulers)
    best: SearchResult | None = None
    try:
        with ProcessPoolExecutor(processes, context, _begin, (stop,)) as pool:
            waiting: dict[Future[SearchResult], int] = {}
            for number, scheduler in enumerate(schedulers):
                file = watch.checkpoint
                beside = None if file is None else file.with_name(f"{file.name}.{number}")
                waiting[pool.submit(_search, scheduler, workload, accelerator, limit, beside)] = number
            while waiting:
                done, _ = wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED)
                if watch.stopped:
                    stop.set()
                for future in done:
                    results[waiting.pop(future)] = future.result()
                    best = min((r for r in results if r is not None), key=lambda result: _cost(result, objective))
                    if best.latency_cycles is not None and best.energy_pj is not None:
                        stage = f"{len(schedulers) - len(waiting)} of {len(schedulers)} seeds"
                        watch.best(stage, best.latency_cycles, best.energy_pj, best.lower_bound_cycles or 0)
    except BrokenProcessPool:
        raise InputError(
            f"a process of the search was killed, perhaps for want of memory; take fewer than {processes} at once"
        ) from None
    assert best is not None
    return best


def _cost(result: SearchResult, objective: Objective) -> float:
    if result.latency_cycles is None or result.energy_pj is None:
        return 0.0  # nothing was searched, so all are alike
    return objective.cost(result.energy_pj, result.latency_cycles)


def _begin(stop: Event) -> None:
    """A process is stopped by the event alone: Ctrl-C reaches the whole group, and the first process handles it."""
    global _stop
    _stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _search(
    scheduler: Scheduler, workload: Workload, accelerator: Accelerator, limit: float | None, checkpoint: Path | None
) -> SearchResult:
    return scheduler.search(workload, accelerator, Watch(limit, checkpoint=checkpoint, asked=_stop.is_set))
