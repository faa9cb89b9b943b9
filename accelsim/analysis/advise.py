"""Advice: which single change pays most. Every option is predicted from the run's ledger, and the best are simulated.

An option changes one field of the template (twice the bandwidth, the buffer, the rows …), or the scheduler. The
prediction is a bottleneck model: it sees where the cycles of the run went, but runs nothing. The simulation runs the
recorded program on the changed machine, and, where the workload is at hand, a schedule searched anew for it; the faster
one counts. Both stand side by side, so that one sees what the predictions are worth.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from accelsim.analysis.energy import energy_pj
from accelsim.analysis.predict import Cost, Ledger, predict
from accelsim.engine import simulate
from accelsim.engine.replay import recorded_accelerator
from accelsim.errors import BufferOverflow, InputError, MappingError, ProgramError
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.template import parse_template
from accelsim.program.bounds import busy_cycles
from accelsim.program.lower import lower
from accelsim.program.rebind import rebind
from accelsim.program.tables import ResourceKind
from accelsim.search import BEST, SCHEDULERS, Watch
from accelsim.search.objective import parse_objective
from accelsim.timeline.stalls import cycles_by_cause
from accelsim.timeline.table import Timeline
from accelsim.units import format_energy
from accelsim.workload.cut import cut_to_fit
from accelsim.workload.graph import Workload
from accelsim.yaml_tree import read_tree

DOUBLED = (
    "dram.bandwidth",
    "buffers.global.capacity",
    "buffers.global.read_bandwidth",
    "pe_array.rows",
    "pe_array.columns",
    "vector_unit.throughput",
)
"""Fields of the template that are tried at twice their value."""
HALVED = ("dram.latency",)
"""Fields that are tried at half their value."""
WORTH_SAYING = 0.01


@dataclass(frozen=True)
class Option:
    """One change, and what it makes of the run."""

    change: str
    """As ``--set`` takes it, or ``scheduler=NAME``."""
    predicted: Cost
    simulated: Cost


@dataclass(frozen=True)
class Advice:
    """Options ranked by the time that they save."""

    title: str
    baseline: Cost
    bottleneck: str
    """A sentence about where the time goes."""
    options: tuple[Option, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """Bottleneck, what to do first and what it buys, what not to bother with, how good the predictions were."""
        useful = [option for option in self.options if self._gain(option.simulated) >= 1 + WORTH_SAYING]
        useless = [option.change for option in self.options if option not in useful]
        found = [self.bottleneck]
        for place, option in enumerate(useful):
            begin = "Do first" if place == 0 else "Then worth a look"
            found.append(
                f"{begin}: {option.change}. The run becomes {self._gain(option.simulated):.2f} times as fast "
                f"({self._gain(option.predicted):.2f} predicted), and {self._energy(option.simulated)}."
            )
        if useless:
            found.append(f"Not worth it for speed, less than {WORTH_SAYING:.0%} each: {', '.join(useless)}.")
        if self.options:
            worst = max(
                abs(option.predicted.latency_cycles / max(option.simulated.latency_cycles, 1) - 1)
                for option in self.options
            )
            found.append(f"The predicted times were off by at most {100 * worst:.1f} %.")
        return tuple(found)

    def _gain(self, cost: Cost) -> float:
        return self.baseline.latency_cycles / max(cost.latency_cycles, 1)

    def _energy(self, cost: Cost) -> str:
        change = cost.energy_pj / self.baseline.energy_pj - 1 if self.baseline.energy_pj else 0.0
        if abs(change) < WORTH_SAYING / 2:
            return "the energy stays the same"
        return f"the energy {'rises' if change > 0 else 'falls'} by {100 * abs(change):.0f} %"

    def to_dict(self) -> dict[str, Any]:
        """As ``accelsim advise --json`` prints it."""
        return {
            "baseline": self.baseline._asdict(),
            "options": [
                {
                    "change": option.change,
                    "predicted": option.predicted._asdict(),
                    "simulated": option.simulated._asdict(),
                }
                for option in self.options
            ],
            "sentences": list(self.sentences),
        }

    def _rows(self) -> Iterator[tuple[str, ...]]:
        yield "change", "cycles predicted", "simulated", "times as fast", "energy predicted", "simulated"
        for option in self.options:
            yield (
                option.change,
                f"{option.predicted.latency_cycles:,}",
                f"{option.simulated.latency_cycles:,}",
                f"{self._gain(option.simulated):.3f}",
                format_energy(option.predicted.energy_pj),
                format_energy(option.simulated.energy_pj),
            )

    def __str__(self) -> str:
        rows = list(self._rows())
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [
            "  ".join(
                [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
            )
            for row in rows
        ]
        return "\n".join([self.title, "", *(f"* {sentence}" for sentence in self.sentences), "", *lines])

    def _repr_html_(self) -> str:
        head, *rows = (
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows()
        )
        sentences = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in self.sentences)
        return f"<h3>{html.escape(self.title)}</h3><ul>{sentences}</ul><table>{head}{''.join(rows)}</table>"


def advise(
    timeline: Timeline,
    workload: Workload | None = None,
    accelerator: Accelerator | None = None,
    *,
    top: int = 5,
    time_limit_seconds: float | None = 10.0,
) -> Advice:
    """Ranks changes by the time that they save.

    Args:
        timeline: the run.
        workload: what ran, before any cutting of operators. Without it the recorded program is run on changed machines,
            but no schedule is searched anew.
        accelerator: the machine that it ran on; by default the one that its provenance holds (``accelsim run --out``).
        top: so many options, those with the best predictions, are simulated and returned.
        time_limit_seconds: for each search.

    Raises:
        InputError: the timeline does not say which machine it ran on, or names another one.
    """
    machine = recorded_accelerator(timeline) if accelerator is None else accelerator
    if timeline.program.facts.get("hardware_digest") not in (None, machine.digest):
        raise InputError(f"the timeline ran on another machine than '{machine.name}' as given; give that machine")
    ledger = Ledger.of(timeline)
    changes = _changes(timeline, machine, workload is not None)
    predictions = (
        (predict(ledger, machine, change.accelerator, change.scheduler is not None), change) for change in changes
    )
    predicted = sorted(predictions, key=lambda pair: pair[0])
    options = [
        Option(change.text, cost, simulated)
        for cost, change in predicted[:top]
        if (simulated := _simulate(timeline, change, machine, workload, time_limit_seconds)) is not None
    ]
    options.sort(key=lambda option: option.simulated)
    facts = timeline.program.facts
    return Advice(
        title=f"Advice for {facts.get('workload', 'a trace')} on {machine.name}",
        baseline=Cost(timeline.latency_cycles, energy_pj(timeline)),
        bottleneck=_bottleneck(timeline),
        options=tuple(options),
    )


@dataclass(frozen=True)
class _Change:
    text: str
    accelerator: Accelerator
    scheduler: str | None = None
    """Another scheduler; None for the run's own."""


def _changes(timeline: Timeline, machine: Accelerator, has_workload: bool) -> Iterator[_Change]:
    """All changes that the template has a field for and that give a machine."""
    values = read_tree(machine.source, "the recorded template", InputError).values
    for field in (*DOUBLED, *HALVED):
        value: Any = values
        for key in field.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        changed = scaled(value, Decimal(2) if field in DOUBLED else Decimal("0.5"))
        if changed is None:
            continue
        try:
            yield _Change(
                f"{field}={changed}", parse_template(machine.source, "the recorded template", [f"{field}={changed}"])
            )
        except InputError:  # twice as much is more than a template may say
            continue
    if has_workload and timeline.provenance.get("scheduler") != BEST:
        yield _Change(f"scheduler={BEST}", machine, BEST)


def scaled(value: object, factor: Decimal) -> str | None:
    """A quantity times a factor, in its own unit: ``16 GB/s`` -> ``32 GB/s``; None for 0, or what is no quantity."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(.*?)\s*", str(value))
    if match is None or isinstance(value, bool) or not Decimal(match[1]):
        return None
    number = format((Decimal(match[1]) * factor).normalize(), "f")
    return f"{number} {match[2]}".strip()


def _simulate(
    timeline: Timeline,
    change: _Change,
    machine: Accelerator,
    workload: Workload | None,
    time_limit_seconds: float | None,
) -> Cost | None:
    """The faster of the recorded program on the changed machine and a schedule searched for it; None without either."""
    found = []
    if change.scheduler is None:
        with suppress(ProgramError):  # its order of transfers comes to a standstill there, or a tile does not fit
            found.append(_cost(simulate(rebind(timeline.program, change.accelerator, machine))))
    name = change.scheduler or timeline.provenance.get("scheduler")
    if workload is not None and isinstance(name, str) and name in SCHEDULERS:
        with suppress(BufferOverflow, MappingError):
            found.append(_searched(timeline, name, workload, change.accelerator, time_limit_seconds))
    return min(found, default=None)


def _searched(
    timeline: Timeline, name: str, workload: Workload, accelerator: Accelerator, time_limit_seconds: float | None
) -> Cost:
    provenance = timeline.provenance
    objective = parse_objective(str(provenance.get("objective", "energy^1*delay^1")))
    seed = provenance.get("seed")
    scheduler = SCHEDULERS[name].from_options(objective, seed if isinstance(seed, int) else 0)
    fitted = cut_to_fit(workload, accelerator.buffers["global"].capacity_bytes)
    result = scheduler.search(fitted, accelerator, Watch(time_limit_seconds))
    return _cost(simulate(lower(fitted, accelerator, result.schedule)))


def _cost(timeline: Timeline) -> Cost:
    return Cost(timeline.latency_cycles, energy_pj(timeline))


_WAITS = {
    "wait_load": "waiting for loads",
    "wait_store": "waiting for stores",
    "wait_buffer": "waiting for buffer space",
    "drain": "storing the last results",
}
_PARTS = {ResourceKind.CORE: "the array and the vector unit", ResourceKind.LINK: "the link to DRAM"}
_ADVICE = {ResourceKind.CORE: "it is limited by computing", ResourceKind.LINK: "it is limited by memory bandwidth"}


def _bottleneck(timeline: Timeline) -> str:
    """The busiest resource with its share, and the largest cause of waiting."""
    program, latency = timeline.program, max(timeline.latency_cycles, 1)
    busy = sorted(busy_cycles(program).items(), key=lambda item: -item[1])
    if not busy:
        return "Nothing runs."
    kinds = [ResourceKind(int(program.resources.kind[program.resource_names.index(name)])) for name, _ in busy]
    shares = [cycles / latency for _, cycles in busy]
    said = (
        f"{_PARTS[kinds[0]]} {'are' if kinds[0] == ResourceKind.CORE else 'is'} busy in {shares[0]:.0%} of its cycles"
    )
    if len(shares) > 1 and shares[1] > 0.9 * shares[0]:
        verdict = "computing and memory bandwidth limit it alike"
    elif shares[0] >= 0.8:
        verdict = _ADVICE[kinds[0]]
    else:
        verdict = "neither limits it alone: they wait for one another"
    causes = {_WAITS[cause]: cycles for cause, cycles in cycles_by_cause(timeline).items() if cause in _WAITS}
    cause, cycles = max(causes.items(), key=lambda item: item[1])
    waits = f"; {cycles / latency:.0%} of the cycles pass {cause}" if cycles else ""
    return f"The run takes {latency:,} cycles: {said}{waits}. So {verdict}."
