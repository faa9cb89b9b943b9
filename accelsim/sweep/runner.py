"""Runs the points of a sweep in processes, and survives all of them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from accelsim.errors import AccelsimError
from accelsim.sweep.spec import Point
from accelsim.sweep.store import CRASHED, FAULT, OK, OPEN, REFUSED, ResultStore
from accelsim.timeline.provenance import MEASURED

MOST_IN_FLIGHT = 64
TRIES = 2
"""A run during which its process was killed is tried once more, alone."""


class Outcome(NamedTuple):
    """What a process returns of a run."""

    status: str
    summary: dict[str, Any]
    message: str
    seconds: float


@dataclass
class SweepCounts:
    """How far a sweep is."""

    total: int
    kept: int
    """Found in the results file, from an earlier start."""
    by_status: dict[str, int] = field(default_factory=dict)
    """Of the runs made now."""

    @property
    def done(self) -> int:
        """Runs with a result, kept ones among them."""
        return self.kept + sum(self.by_status.values())

    def count(self, status: str) -> None:
        """One more run of this outcome."""
        self.by_status[status] = self.by_status.get(status, 0) + 1


def run_point(point: Point) -> Outcome:
    """One run, in the process that calls it. A refusal, or a fault of accelsim, is an outcome like others."""
    from accelsim.analysis.report import summary

    began = time.perf_counter()
    try:
        found = summary(point.job().run())
    except AccelsimError as error:
        return Outcome(REFUSED, {}, f"{type(error).__name__}: {error}", time.perf_counter() - began)
    except Exception as error:
        return Outcome(FAULT, {}, f"{type(error).__name__}: {error}", time.perf_counter() - began)
    lasting = {name: value for name, value in found.items() if name not in MEASURED}
    return Outcome(OK, lasting, "", time.perf_counter() - began)


def run_sweep(
    points: Sequence[Point],
    store: ResultStore,
    processes: int | None = None,
    retry: bool = False,
    show: Callable[[SweepCounts], None] | None = None,
    executor: Executor | None = None,
) -> SweepCounts:
    """Runs the points that have no result in ``store`` yet, and keeps each result as it comes.

    The results do not depend on ``processes``, nor on how often the sweep was stopped and started again.

    Args:
        points: what to run; see :func:`accelsim.sweep.read_sweep`.
        store: where results are kept.
        processes: at once; by default as many as there are cores.
        retry: run those again too that ended badly: refused, fault, crashed.
        show: called after each result.
        executor: where runs are made instead, a cluster's ``Client.get_executor()`` for one; it is not shut down. Its
            own rules for lost workers hold.

    Raises:
        InputError: the results file cannot be written.
    """
    known = store.add(points)
    todo = deque(point for point in points if known[point.key] == OPEN or (retry and known[point.key] != OK))
    counts = SweepCounts(len(points), len(points) - len(todo))
    if show is not None:
        show(counts)

    def keep(key: str, outcome: Outcome) -> None:
        store.put(key, *outcome)
        counts.count(outcome.status)
        if show is not None:
            show(counts)

    if executor is not None:
        _through(executor, todo, keep, MOST_IN_FLIGHT)
        return counts
    processes = max(1, min(processes or os.cpu_count() or 1, len(todo)))
    while todo:
        with _Pool(processes) as pool:
            suspects = _through(pool.executor, todo, keep, min(processes, MOST_IN_FLIGHT))
        for point in suspects:  # one of them has killed its process; alone it cannot hurt the others
            keep(point.key, _alone(point))
    return counts


def _through(
    executor: Executor, todo: deque[Point], keep: Callable[[str, Outcome], None], in_flight: int
) -> list[Point]:
    """Runs points until none is left, or the pool is broken; returns those that were running then."""
    running: dict[Future[Outcome], Point] = {}
    lost: list[Point] = []
    while (todo and not lost) or running:
        while todo and not lost and len(running) < in_flight:
            point = todo.popleft()
            try:
                running[executor.submit(run_point, point)] = point
            except RuntimeError:  # broken between two submissions
                lost.append(point)
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for future in done:
            point = running.pop(future)
            if future.exception() is None:
                keep(point.key, future.result())
            else:
                lost.append(point)
    return lost


def _alone(point: Point) -> Outcome:
    """Runs one point in a process of its own, twice if it must be."""
    for _ in range(TRIES):
        with _Pool(1) as pool:
            future = pool.executor.submit(run_point, point)
            if future.exception() is None:
                return future.result()
    return Outcome(CRASHED, {}, f"its process ended {TRIES} times without an answer: {future.exception()}", 0.0)


class _Pool:
    """Processes that leave Ctrl-C to us, and are gone when we are."""

    def __init__(self, processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.executor = ProcessPoolExecutor(processes, context, signal.signal, (signal.SIGINT, signal.SIG_IGN))

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for process in multiprocessing.active_children():
                process.terminate()
        self.executor.shutdown(wait=kind is None, cancel_futures=True)
