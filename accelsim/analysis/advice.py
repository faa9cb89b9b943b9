"""The advice for a run, to read: sentences for whoever decides, and a table of the options behind them."""

from __future__ import annotations

import html
import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from accelsim.analysis.predict import Cost
from accelsim.units import format_energy

WORTH_SAYING = 0.01
Payoff = Literal["time", "energy"]
BEYOND = 100.0
"""From so many times as fast on, a limit says no more than that there is none."""


class Gain(NamedTuple):
    """What a change makes of a run."""

    latency_cycles: int
    """Of the changed run: of all its batch, at its clock."""
    energy_pj: float
    speedup: float
    """How many times as fast a sample is done, in seconds."""
    energy_ratio: float
    """Energy of a sample, over what it was."""


@dataclass(frozen=True)
class Option:
    """One change, and what it makes of the run."""

    change: str
    """As ``--set`` takes it, or another option of ``accelsim run``."""
    kind: str
    predicted: Gain
    simulated: Gain
    risk: str = ""
    """What else it costs."""
    peak_watts: float = 0.0
    """Of the changed machine, array and link both busy."""

    @property
    def error(self) -> float:
        """How far the predicted time is off, relatively."""
        return self.simulated.speedup / self.predicted.speedup - 1 if self.predicted.speedup else 0.0


@dataclass(frozen=True)
class Advice:
    """Options ranked by the time, or the energy, that they save."""

    title: str
    baseline: Cost
    bottleneck: str
    """A sentence about where the time goes."""
    elasticity: dict[str, float]
    """By resource, the share of the run in which it is critical."""
    limits: dict[str, float]
    """How many times as fast with infinitely fast ``computing`` and ``memory``."""
    options: tuple[Option, ...]
    peak_watts: float = 0.0
    tried: int = 0
    """Options that were predicted."""
    payoff: Payoff = "time"
    """What they are ranked by."""

    @property
    def pareto(self) -> tuple[Option, ...]:
        """The options that no other one beats in time, energy and peak power at once."""

        def figures(option: Option) -> tuple[float, float, float]:
            return (1 / option.simulated.speedup, option.simulated.energy_ratio, option.peak_watts)

        return tuple(
            one
            for one in self.options
            if not any(
                all(a <= b for a, b in zip(figures(other), figures(one), strict=True))
                and figures(other) != figures(one)
                for other in self.options
            )
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """Bottleneck, what to do first and what it buys, what not to bother with, how good the predictions were."""
        useful = [option for option in self.options if self._pays(option.simulated)]
        useless = [option.change for option in self.options if option not in useful]
        found = [self.bottleneck]
        if self.limits:
            limits = " and ".join(
                f"infinitely fast {name} {'without end' if speedup >= BEYOND else f'{speedup:.2f} times'}"
                for name, speedup in self.limits.items()
            )
            found.append(f"The most that could be won with this schedule: {limits}.")
        for place, option in enumerate(useful):
            begin = "Do first" if place == 0 else "Then worth a look"
            risk = f"; mind the {option.risk}" if option.risk else ""
            speed = f"{option.simulated.speedup:.2f} times as fast ({option.predicted.speedup:.2f} predicted)"
            found.append(f"{begin}: {option.change}. The run becomes {speed}, and {_energy(option.simulated)}{risk}.")
        if useless:
            what = "speed" if self.payoff == "time" else "energy"
            found.append(f"Not worth it for {what}, less than {WORTH_SAYING:.0%} each: {'; '.join(useless)}.")
        if self.options:
            errors = [abs(option.error) for option in self.options]
            found.append(
                f"The predicted times were off by {100 * statistics.median(errors):.1f} % in the median, by at most "
                f"{100 * max(errors):.1f} %."
            )
        return tuple(found)

    def _pays(self, gain: Gain) -> bool:
        return gain.speedup >= 1 + WORTH_SAYING if self.payoff == "time" else gain.energy_ratio <= 1 - WORTH_SAYING

    def to_dict(self) -> dict[str, Any]:
        """As ``accelsim advise --json`` prints it; an infinite limit is None."""
        best = self.pareto
        return {
            "baseline": {**self.baseline._asdict(), "peak_watts": self.peak_watts},
            "elasticity": self.elasticity,
            "limits": {name: value if value < math.inf else None for name, value in self.limits.items()},
            "options": [
                {
                    "change": option.change,
                    "kind": option.kind,
                    "predicted": option.predicted._asdict(),
                    "simulated": option.simulated._asdict(),
                    "error": option.error,
                    "peak_watts": option.peak_watts,
                    "risk": option.risk,
                    "pareto": option in best,
                }
                for option in self.options
            ],
            "sentences": list(self.sentences),
        }

    def _rows(self) -> Iterator[tuple[str, ...]]:
        yield "change", "times as fast", "predicted", "error", "energy", "times", "peak power", "Pareto"
        best = self.pareto
        for option in self.options:
            yield (
                option.change,
                f"{option.simulated.speedup:.3f}",
                f"{option.predicted.speedup:.3f}",
                f"{100 * option.error:+.1f} %",
                format_energy(option.simulated.energy_pj),
                f"{option.simulated.energy_ratio:.3f}",
                f"{option.peak_watts:.3g} W",
                "yes" if option in best else "",
            )

    def __str__(self) -> str:
        rows = list(self._rows())
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = [
            "  ".join(
                [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
            ).rstrip()
            for row in rows
        ]
        head = f"{self.title}: {len(self.options)} of {self.tried} options simulated"
        return "\n".join([head, "", *(f"* {sentence}" for sentence in self.sentences), "", *lines])

    def _repr_html_(self) -> str:
        first, *rows = (
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows()
        )
        sentences = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in self.sentences)
        return f"<h3>{html.escape(self.title)}</h3><ul>{sentences}</ul><table>{first}{''.join(rows)}</table>"


def _energy(gain: Gain) -> str:
    change = gain.energy_ratio - 1
    if abs(change) < WORTH_SAYING / 2:
        return "the energy stays the same"
    return f"the energy {'rises' if change > 0 else 'falls'} by {100 * abs(change):.0f} %"
