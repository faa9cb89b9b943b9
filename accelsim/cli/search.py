"""How a search is watched and stopped from the command line."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from accelsim.cli import common

if TYPE_CHECKING:
    from accelsim.hardware.accelerator import Accelerator
    from accelsim.job import Job
    from accelsim.search.scheduler import SearchResult, Watch
    from accelsim.workload.graph import Workload


def search(job: Job, workload: Workload, accelerator: Accelerator, watch: Watch) -> SearchResult:
    """Runs the job's scheduler; shows the best so far, and takes Ctrl-C as a wish for it."""
    name = job.scheduler_name(accelerator)
    with common.progress(f"scheduling with {name} (the very first search compiles for half a minute)") as status:

        def show(stage: str, latency_cycles: int, energy_pj: float, gap_percent: float) -> None:
            status.update(
                f"scheduling with {name}: {stage}, best {latency_cycles:,} cycles, {energy_pj / 1e9:.3f} mJ, "
                f"{gap_percent:.1f} % over its bound (Ctrl-C takes it)"
            )

        watch.show = show
        with interruptible(watch):
            return job.search(workload, accelerator, watch)


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
