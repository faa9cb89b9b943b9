"""From a roof down to a point, loss by loss: what each label of the ledger takes off performance and efficiency.

A run of W operations that takes T cycles stands at W / T. Begin with the cycles that its work needs at the peak rate,
and add label after label: each rung is lower, and the last one is the point. On a logarithmic axis the rungs' heights
add up to the distance from the roof to the point. The same with picojoules, from the energy of the work alone to all
that was paid.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from accelsim.analysis.ledger import Ledger
from accelsim.analysis.ledger_tiles import USEFUL
from accelsim.analysis.roofline import Point

HIDDEN = "hidden_transfers"
"""Cycles of an operator's point that belong to other operators: its transfers took so long, behind them."""
WORK_ACCOUNTS = ("mac", "vector")


class Rung(NamedTuple):
    """One step of a ladder."""

    name: str
    """A label of the ledger, or an account."""
    amount: float
    """Cycles, or picojoules."""
    value: float
    """Operations a cycle, or a picojoule, with this and all before it."""
    share: float
    """Of the distance from roof to point, on a logarithmic axis."""


def performance_ladder(ledger: Ledger, point: Point) -> tuple[Rung, ...]:
    """From the peak rate of the point's work down to its operations a cycle; empty where it did no work.

    Args:
        ledger: of the run that the point is of.
        point: the run's, or an operator's.
    """
    core = ledger.core
    row = None if point.name == "run" else ledger.operator_names.index(point.name)
    labels = {} if core is None else core.by_label(row)
    amounts = {name: float(cycles) for name, cycles in labels.items()}
    if point.cycles > point.cycles_attributed:
        amounts[HIDDEN] = float(point.cycles - point.cycles_attributed)
    return _ladder(point.operations, amounts, USEFUL)


def energy_ladder(ledger: Ledger, point: Point) -> tuple[Rung, ...]:
    """From the efficiency of the array and the vector unit alone down to the point's; as the one above."""
    row = None if point.name == "run" else ledger.operator_names.index(point.name)
    return _ladder(point.operations, ledger.by_account(row), WORK_ACCOUNTS)


def _ladder(operations: int, amounts: dict[str, float], work: tuple[str, ...]) -> tuple[Rung, ...]:
    spent = sum(amount for name, amount in amounts.items() if name in work)
    total = sum(amounts.values())
    if not operations or not spent:
        return ()
    whole = math.log(total / spent)
    rungs = [Rung("roof", spent, operations / spent, 0.0)]
    for name, amount in amounts.items():
        if name not in work:
            share = math.log1p(amount / spent) / whole if whole else 0.0
            spent += amount
            rungs.append(Rung(name, amount, operations / spent, share))
    return tuple(rungs)


def to_dict(rungs: tuple[Rung, ...]) -> list[dict[str, Any]]:
    """A ladder as JSON."""
    return [rung._asdict() for rung in rungs]
