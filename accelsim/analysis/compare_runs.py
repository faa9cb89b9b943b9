"""More than two runs side by side: the first is the baseline, and a ladder leads from each one to the next.

Every column of cycles adds up to its run's latency, and every step of the ladder to the difference of two latencies,
exactly.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module

from accelsim.analysis.compare_report import Comparison, bullets
from accelsim.analysis.compare_sentences import CAUSES, machine_changes
from accelsim.analysis.energy import energy_by_part_pj, energy_pj
from accelsim.analysis.grids import ROWS, Grid, grid_html, grid_lines, most_different
from accelsim.analysis.report import known, report, summary
from accelsim.analysis.traffic import traffic
from accelsim.errors import InputError
from accelsim.timeline.stalls import cycles_by_cause, cycles_by_operator
from accelsim.timeline.table import Timeline
from accelsim.units import counted, format_bytes, format_energy, format_seconds, printable

LABELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MOST_CHANGES = 3
"""Fields of a machine that are listed; two quite different ones are not."""


def compare_runs(timelines: Sequence[Timeline]) -> Runs:
    """Compares all runs with the first one: print the result, show it in a notebook, or take its ``to_dict()``.

    Raises:
        InputError: fewer than two runs, or more than 26.
    """
    if not 2 <= len(timelines) <= len(LABELS):
        raise InputError(f"{len(timelines)} runs cannot be compared: give 2 to {len(LABELS)}")
    return Runs(tuple(timelines))


@dataclass(frozen=True, eq=False)
class Runs:
    """Several runs, the first of which is the baseline."""

    timelines: tuple[Timeline, ...]

    @property
    def labels(self) -> str:
        """A letter for each run."""
        return LABELS[: len(self.timelines)]

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Each run but the first, compared with the first."""
        return tuple(Comparison(self.timelines[0], other) for other in self.timelines[1:])

    @cached_property
    def ladder(self) -> tuple[Comparison, ...]:
        """Each run compared with the one before it."""
        return tuple(Comparison(one, other) for one, other in zip(self.timelines, self.timelines[1:], strict=False))

    @property
    def identical(self) -> bool:
        """All the same program, and every event the same."""
        return all(one.identical for one in self.comparisons)

    @cached_property
    def sentences(self) -> list[str]:
        """Who is fastest, and of each run what makes it faster or slower than the baseline."""
        if self.identical:
            return [f"All {len(self.timelines)} runs are identical: one program, and every event is the same."]
        times = [1.0, *(one.times_as_long for one in self.comparisons)]
        best = min(range(len(times)), key=times.__getitem__)
        said = [f"{self.labels[best]} is the fastest: {_time(self.timelines[best])}."]
        for label, one in zip(self.labels[1:], self.comparisons, strict=True):
            said.append(f"{label} against A: {_against(one)}.")
        return said

    def to_dict(self) -> dict[str, object]:
        """All figures, as ``accelsim compare --json`` prints them."""
        return {
            "identical": self.identical,
            "baseline": "A",
            "runs": [
                {
                    "label": label,
                    **Comparison.side(timeline),
                    "times_as_long": one.times_as_long if math.isfinite(one.times_as_long) else None,
                    "cycles_by_cause": cycles_by_cause(timeline),
                    "cycles_by_operator": cycles_by_operator(timeline),
                    "energy_by_part_pj": energy_by_part_pj(timeline),
                }
                for label, timeline, one in zip(
                    self.labels,
                    self.timelines,
                    (Comparison(self.timelines[0], self.timelines[0]), *self.comparisons),
                    strict=True,
                )
            ],
            "comparisons": [
                {"a": "A", "b": label, **{name: value for name, value in one.to_dict().items() if name not in "ab"}}
                for label, one in zip(self.labels[1:], self.comparisons, strict=True)
            ],
            "ladder": [
                {
                    "from": start,
                    "to": end,
                    "latency_cycles": one.latency_cycles,
                    "cycles_by_cause": one.cycles_by_cause,
                    "energy_pj": one.energy_pj,
                    "energy_by_part_pj": one.energy_by_part_pj,
                }
                for start, end, one in zip(self.labels, self.labels[1:], self.ladder, strict=False)
            ],
            "sentences": self.sentences,
        }

    def grids(self, rows: int | None = ROWS) -> list[Grid]:
        """The tables; of operators the ``rows`` that differ most between the runs."""
        runs = list(self.labels)
        steps = [f"{one} to {other}" for one, other in zip(self.labels, self.labels[1:], strict=False)]
        step_causes = [one.cycles_by_cause for one in self.ladder]
        return [
            self._key_figures(),
            _grid("Cycles by cause", runs, [cycles_by_cause(one) for one in self.timelines], "{:,.0f}".format),
            _grid("Ladder: cycles by cause, from each run to the next", steps, step_causes, "{:+,.0f}".format),
            _grid(
                "Cycles by operator, waiting included",
                runs,
                [cycles_by_operator(one) for one in self.timelines],
                "{:,.0f}".format,
                rows,
            ),
            _grid("Energy by part", runs, [energy_by_part_pj(one) for one in self.timelines], format_energy),
        ]

    def _key_figures(self) -> Grid:
        """Figures below one another, so that many runs fit side by side."""
        times = [1.0, *(one.times_as_long for one in self.comparisons)]
        rows = [("latency, cycles", [f"{one.latency_cycles:,}" for one in self.timelines])]
        clocks = [known(one.program, "clock_hz") for one in self.timelines]
        if all(clocks):
            rows.append(("latency", [_time(one) for one in self.timelines]))
        rows.append(("times as long as A", [f"{time:.3f}" for time in times]))
        rows.append(("energy", [format_energy(energy_pj(one)) for one in self.timelines]))
        rows.append(("to and from memory", [format_bytes(traffic(one.program).total_bytes) for one in self.timelines]))
        shares = [summary(one)["utilization"] for one in self.timelines]
        found = [share["mac"] if isinstance(share, dict) else None for share in shares]
        if any(share is not None for share in found):
            rows.append(("MAC utilisation", ["" if share is None else f"{100 * share:.2f} %" for share in found]))
        return Grid("Key figures", list(self.labels), rows)

    def __str__(self) -> str:
        heads = [f"{label}: {report(one).title}" for label, one in zip(self.labels, self.timelines, strict=True)]
        text = "\n".join([*heads, "", *bullets(self.sentences)])
        lines = [] if self.identical else [line for grid in self.grids() for line in grid_lines(grid)]
        return printable("\n".join([text, *lines]))

    def _repr_html_(self) -> str:
        titles = "".join(
            f"<li><b>{label}</b> {html.escape(report(one).title)}</li>"
            for label, one in zip(self.labels, self.timelines, strict=True)
        )
        tables = "" if self.identical else "".join(map(grid_html, self.grids()))
        sides = list(zip(self.labels, self.timelines, strict=True))
        viewer = import_module("accelsim.plot.notebook").viewer_frame(sides)
        return f"<ul>{titles}</ul>{self.sentences_html()}{viewer}{tables}"

    def sentences_html(self) -> str:
        """The sentences as a list; every text is escaped."""
        return f"<ul>{''.join(f'<li>{html.escape(sentence)}</li>' for sentence in self.sentences)}</ul>"


def _time(timeline: Timeline) -> str:
    clock = known(timeline.program, "clock_hz")
    return format_seconds(timeline.latency_cycles / clock) if clock else counted(timeline.latency_cycles, "cycle")


def _against(one: Comparison) -> str:
    """A run in a few words, seen from the baseline."""
    ratio = one.times_as_long
    if one.identical:
        return "the same, event for event"
    if ratio == 1:
        said = ["equally fast"]
    elif 0 < ratio < math.inf:
        said = [f"{1 / ratio:.3g} times as fast" if ratio < 1 else f"{ratio:.3g} times as long"]
    else:
        said = [f"{counted(one.b.latency_cycles, 'cycle')} for {one.a.latency_cycles:,}"]
    sign = 1 if one.latency_cycles > 0 else -1
    causes = {cause: cycles for cause, cycles in one.cycles_by_cause.items() if cycles * sign > 0}
    if causes:
        cause = max(causes, key=lambda name: abs(causes[name]))
        said.append(
            f"mostly by {counted(abs(causes[cause]), 'cycle')} {'more' if sign > 0 else 'less'} {CAUSES[cause]}"
        )
    before = energy_pj(one.a)
    said += [f"{100 * one.energy_pj / before:+.1f} % energy"] if before and one.energy_pj else []
    if one.dram_bytes:
        said.append(f"{format_bytes(abs(one.dram_bytes))} {'more' if one.dram_bytes > 0 else 'less'} memory traffic")
    schedulers = [timeline.provenance.get("scheduler") for timeline in (one.a, one.b)]
    if schedulers[0] != schedulers[1]:
        said.append(f"scheduled by {schedulers[1] or 'hand'} instead of {schedulers[0] or 'hand'}")
    changed = machine_changes(one.a.provenance.get("hardware_template"), one.b.provenance.get("hardware_template"))
    if 0 < len(changed) <= MOST_CHANGES:
        fields = ", ".join(f"{key} {new} instead of {old}" for key, (old, new) in changed.items())
        said.append(f"its machine has {fields}")
    return "; ".join(said)


def _grid(
    title: str,
    heads: list[str],
    columns: Sequence[Mapping[str, float]],
    shown: Callable[[float], str],
    rows: int | None = None,
) -> Grid:
    """A row for each name; if there are more than ``rows``, those that differ most, and all others in one."""
    names, rest = most_different(columns, rows)
    lines = [
        (name or "(unnamed)", [shown(column.get(name, 0)) for column in columns])
        for name in names
        if any(column.get(name, 0) for column in columns)
    ]
    if rest:
        others = [shown(math.fsum(column.get(name, 0) for name in rest)) for column in columns]
        lines.append((f"{len(rest):,} others", others))
    lines.append(("together", [shown(math.fsum(column.values())) for column in columns]))
    return Grid(title, heads, lines)
