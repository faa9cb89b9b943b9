"""One run, from the names of a workload and a machine to its timeline: what ``accelsim run`` and sweeps do.

::

    timeline = accelsim.Job("soma.resnet50", "soma_edge", scheduler="best", time_limit=5).run()
    print(accelsim.report(timeline))
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from accelsim.engine import simulate
from accelsim.errors import InputError, UnknownName
from accelsim.formats.schedule_json import read_schedule
from accelsim.hardware.accelerator import Accelerator
from accelsim.library import load_accelerator, load_workload
from accelsim.program.lower import lower
from accelsim.program.tables import Program
from accelsim.schedule.notation import Schedule
from accelsim.search import BEST, SCHEDULERS
from accelsim.search.objective import parse_objective
from accelsim.search.scheduler import SearchResult, Watch
from accelsim.search.seeds import search_seeds
from accelsim.timeline.provenance import with_provenance
from accelsim.timeline.table import Timeline
from accelsim.units import did_you_mean
from accelsim.workload.cut import cut_to_fit
from accelsim.workload.graph import Workload

Tell = Callable[[str], AbstractContextManager[Any]]
"""Shows what is being done, for as long as it is being done."""
Search = Callable[["Job", Workload, Accelerator, Watch], SearchResult]
BYTE_BITS = 8


class Found(NamedTuple):
    """A schedule for a workload on a machine, and how it was found."""

    workload: Workload
    """As it was scheduled: operators whose weights do not fit are cut."""
    accelerator: Accelerator
    schedule: Schedule
    facts: dict[str, Any]
    """For the provenance: scheduler, seed, objective, seconds, where the workload came from."""
    notes: tuple[str, ...]
    """What a reader of the result should know of machine and workload."""

    def lower(self) -> Program:
        """The schedule's program."""
        return lower(self.workload, self.accelerator, self.schedule)

    def run(self, program: Program, engine: str = "compiled") -> Timeline:
        """Simulates this program; the timeline's provenance says where it came from, and how long each step took."""
        began = time.perf_counter()
        timeline = simulate(program, engine=engine)
        return with_provenance(timeline, **self.facts, simulate_seconds=time.perf_counter() - began)


@dataclass(frozen=True)
class Job:
    """Everything that says what to run.

    Raises:
        InputError: ``scheduler`` and ``schedule_file`` are both given, or the objective is not understood.
    """

    workload: str
    """A name of the library, or the path of a file that :func:`accelsim.load_workload` reads."""
    hardware: str
    scheduler: str | None = None
    """A name of ``accelsim list schedulers``; None stands for ``layerwise``."""
    schedule_file: str | None = None
    """A schedule to be read, instead of a search."""
    batch: int = 1
    phase: str | None = None
    sequence_length: int | None = None
    context_length: int | None = None
    bits: int | None = None
    weight_sparsity: str | None = None
    """Zeros in the weights, as :func:`accelsim.sparsity.parse_sparsity` reads it: ``"2:4/index"``."""
    input_sparsity: str | None = None
    """Zeros in the inputs of convolutions and matrix products: ``"0.5"``."""
    bind: Mapping[str, int] | None = None
    """Sizes of an ONNX file's free dimensions, by name."""
    overrides: tuple[str, ...] = ()
    """Fields of the machine's template, as ``"dram.bandwidth=32 GB/s"``."""
    objective: str = "energy^1*delay^1"
    seed: int = 0
    seeds: int = 1
    """How many searches, with the seeds from ``seed`` on; the best counts."""
    time_limit: float | None = None
    """Seconds that the search may take."""
    checkpoint: str | None = None
    """A file that keeps the search; if it is there, the search goes on from it."""
    allow_unsupported: bool = False
    engine: str = "compiled"
    parameters: dict[str, Any] = field(init=False, compare=False, repr=False)
    """Of the workload: those of the fields above that are given."""

    def __post_init__(self) -> None:
        if self.scheduler is not None and self.schedule_file is not None:
            raise InputError("--scheduler and --schedule exclude each other: search for a schedule, or give one")
        parse_objective(self.objective)
        names = ("phase", "sequence_length", "context_length", "bits", "bind", "weight_sparsity", "input_sparsity")
        given = {name: getattr(self, name) for name in names}
        object.__setattr__(self, "parameters", {name: value for name, value in given.items() if value is not None})

    def find_schedule(self, search: Search | None = None, tell: Tell = nullcontext) -> Found:
        """Loads workload and machine, and the schedule, or searches for one.

        Raises:
            InputError: workload, machine, or schedule cannot be read, or the scheduler refuses them.
        """
        accelerator = load_accelerator(self.hardware, self.overrides)
        with tell(f"reading {self.workload}"):
            loaded = load_workload(
                self.workload, batch=self.batch, allow_unsupported=self.allow_unsupported, **self.parameters
            )
        given = read_schedule(self.schedule_file) if self.schedule_file is not None else None
        of_whole = given is not None and set(given.order) == {operator.name for operator in loaded.operators}
        whole = accelerator.dataflow.one_tile_per_operator or of_whole
        workload = loaded if whole else cut_to_fit(loaded, accelerator.buffers["global"].capacity_bytes)
        facts: dict[str, Any] = {
            "scheduler": None,
            "seed": self.seed,
            "objective": str(parse_objective(self.objective)),
            "search_seconds": 0.0,
            "hardware_template": accelerator.source,  # from which `replay` makes the machine again
            "workload_source": self.workload,  # with the two below, from which `advise` makes the workload again
        }
        facts |= {"workload_parameters": self.parameters} if self.parameters else {}
        facts |= {"allow_unsupported": True} if self.allow_unsupported else {}
        notes = (*accelerator.notes, *_of_precision(workload, accelerator), *workload.notes)
        if given is not None:
            return Found(workload, accelerator, given, facts, notes)
        watch = self.watch()
        result = (search or Job.search)(self, workload, accelerator, watch)
        facts["seed"] = self.seed if result.seed is None else result.seed
        facts |= {"scheduler": result.scheduler, "search_seconds": watch.taken_seconds}
        return Found(workload, accelerator, result.schedule, facts, notes)

    def scheduler_name(self, accelerator: Accelerator) -> str:
        """The scheduler that runs: what ``best`` stands for on this machine.

        Raises:
            UnknownName: there is no such scheduler.
        """
        name = self.scheduler or "layerwise"
        if name == "best":  # where no operator may be cut there is little to search
            name = "layerwise" if accelerator.dataflow.one_tile_per_operator else BEST
        if name not in SCHEDULERS:
            near = did_you_mean(name, SCHEDULERS)
            raise UnknownName(f"no scheduler '{name}'{near}; there are best, {', '.join(SCHEDULERS)}")
        return name

    def search(self, workload: Workload, accelerator: Accelerator, watch: Watch | None = None) -> SearchResult:
        """Runs the scheduler, with all its seeds. ``watch`` brings the time limit and the checkpoint if it is given."""
        if self.checkpoint is not None and Path(self.checkpoint).is_dir():
            raise InputError(f"--checkpoint {self.checkpoint}: is a folder; give the name of a file")
        watch = watch or self.watch()
        objective = parse_objective(self.objective)
        scheduler = SCHEDULERS[self.scheduler_name(accelerator)]
        schedulers = [scheduler.from_options(objective, seed) for seed in range(self.seed, self.seed + self.seeds)]
        if len(schedulers) == 1:
            return schedulers[0].search(workload, accelerator, watch)
        return search_seeds(schedulers, workload, accelerator, objective, watch)

    def watch(self) -> Watch:
        """The search's time limit and checkpoint."""
        return Watch(self.time_limit, checkpoint=None if self.checkpoint is None else Path(self.checkpoint))

    def run(self) -> Timeline:
        """Searches, lowers, and simulates; the timeline's provenance says how."""
        found = self.find_schedule()
        return found.run(found.lower(), self.engine)


def _of_precision(workload: Workload, accelerator: Accelerator) -> tuple[str, ...]:
    """What is to be known where numbers wider than a byte are multiplied by an array of no stated width."""
    bits = workload.product_bits
    if bits <= BYTE_BITS or accelerator.arithmetic.bits is not None:
        return ()
    return (
        f"products of {bits}-bit numbers take the time and energy of any other, only their bytes count: "
        f"'{accelerator.name}' does not say what its array multiplies. --set pe_array.precision.bits={BYTE_BITS} "
        f"makes each several products of {BYTE_BITS} bits, --bits {BYTE_BITS} counts a quantized model",
    )
