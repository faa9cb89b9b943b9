"""What a search minimises: energy^n * delay^m."""

from __future__ import annotations

import re
from dataclasses import dataclass

from accelsim.errors import InputError

_FACTOR = re.compile(r"(energy|delay)(?:\^(\d+(?:\.\d+)?))?")


@dataclass(frozen=True, slots=True)
class Objective:
    """Cost = energy^n * delay^m (HPCA 2025, section V: n = m = 1 in all its experiments)."""

    energy_exponent: float = 1.0
    delay_exponent: float = 1.0

    def cost(self, energy_pj: float, latency_cycles: float) -> float:
        """The cost of a run, in picojoules and cycles to their powers."""
        return float(energy_pj**self.energy_exponent * latency_cycles**self.delay_exponent)

    def __str__(self) -> str:
        return f"energy^{self.energy_exponent:g}*delay^{self.delay_exponent:g}"


def parse_objective(text: str) -> Objective:
    """``energy``, ``delay`` or ``energy^N*delay^M`` with numbers N, M >= 0, not both 0.

    Raises:
        InputError: the text is none of these.
    """
    exponents = {"energy": 0.0, "delay": 0.0}
    for factor in text.replace(" ", "").split("*"):
        match = _FACTOR.fullmatch(factor)
        if match is None or exponents[match[1]]:
            raise InputError(f"objective '{text}' is not understood; expected energy, delay or energy^N*delay^M")
        exponents[match[1]] = float(match[2] or 1)
    if not any(exponents.values()):
        raise InputError(f"objective '{text}' is constant; at least one exponent must be above 0")
    return Objective(exponents["energy"], exponents["delay"])
