"""A compared figure, and what a set of them comes to."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import accelsim
from accelsim.errors import AccelsimError
from accelsim.hardware.accelerator import Accelerator
from accelsim.search import Layerwise
from accelsim.search.layerwise import largest_tile
from accelsim.workload.cut import cut_to_fit
from accelsim.workload.graph import Workload

LARGE_MISS = 0.25
"""Rows that are further off get a reason of their own."""


@dataclass(frozen=True)
class Row:
    """One figure: what was published, and what accelsim says."""

    group: str
    """Rows of one group are judged together."""
    name: str
    published: float
    simulated: float
    unit: str
    reason: str = ""
    """Why it is off, where it is by more than :data:`LARGE_MISS`."""
    difference: bool = False
    """The error is the difference, not its share of the published figure: percentage points."""

    @property
    def error(self) -> float:
        """Relative, or in points."""
        if self.difference:
            return self.simulated - self.published
        return self.simulated / self.published - 1


@dataclass(frozen=True)
class Aim:
    """What a group should reach: the median of the absolute errors (``mean``: their mean), and the rank correlation."""

    group: str
    error: float
    mean: bool = False
    rank: float | None = None


def read(folder: Path, name: str) -> list[dict[str, str]]:
    """The rows of a data file."""
    with (folder / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def run(workload: Workload, accelerator: Accelerator, *, bound: bool = False) -> dict[str, Any]:
    """The report of the workload, layer by layer, on the machine."""
    fitted = cut_to_fit(workload, accelerator.buffers["global"].capacity_bytes)
    schedule = Layerwise().search(fitted, accelerator).schedule
    return accelsim.report(accelsim.simulate(accelsim.lower(fitted, accelerator, schedule))).to_dict()


def run_overlapped(workload: Workload, accelerator: Accelerator) -> dict[str, Any]:
    """The same, with all operators cut 1, 2, 4, 8 or 16 times as finely, whichever is fastest: then transfers overlap
    with computing also where an operator fits into the buffer whole."""
    fitted = cut_to_fit(workload, accelerator.buffers["global"].capacity_bytes)
    first = Layerwise().search(fitted, accelerator).schedule
    best: dict[str, Any] = {}
    for finer in (1, 2, 4, 8, 16):
        numbers = []
        for operator, number in zip(fitted.operators, first.tiling_numbers, strict=True):
            numbers.append(next(n for n in _halves(number * finer) if n <= number or largest_tile(fitted, operator, n)))
        schedule = first if finer == 1 else replace(first, tiling_numbers=tuple(numbers), dram_tensors=None)
        try:
            figures = accelsim.report(accelsim.simulate(accelsim.lower(fitted, accelerator, schedule))).to_dict()
        except AccelsimError:
            continue
        if not best or figures["latency_cycles"] < best["latency_cycles"]:
            best = figures
    return best


def _halves(number: int) -> Iterator[int]:
    while number:
        yield number
        number //= 2


def rank_correlation(a: Iterable[float], b: Iterable[float]) -> float:
    """Spearman's, with equal values sharing their mean rank."""

    def ranks(values: Iterable[float]) -> np.ndarray[Any, Any]:
        array = np.array(list(values), dtype=float)
        return np.array([(array < value).sum() + ((array == value).sum() - 1) / 2 for value in array])

    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def summary(rows: list[Row], aim: Aim | None) -> str:
    """One line: number of rows, errors, rank correlation, and whether the aim is met."""
    errors = np.array([abs(row.error) for row in rows])
    points = rows[0].difference
    shown = (lambda value: f"{value:.1f} points") if points else (lambda value: f"{100 * value:.1f} %")
    worst = max(rows, key=lambda row: abs(row.error))
    text = (
        f"{len(rows)} figures: median error {shown(np.median(errors))}, mean {shown(errors.mean())}, 90th percentile "
        f"{shown(np.percentile(errors, 90))}, worst {shown(abs(worst.error))} ({worst.name})"
    )
    rank = None
    if len(rows) > 2 and len({row.published for row in rows}) > 2:
        rank = rank_correlation((row.published for row in rows), (row.simulated for row in rows))
        text += f", Spearman {rank:.3f}"
    if aim is not None:
        reached = errors.mean() if aim.mean else np.median(errors)
        met = reached <= aim.error and (aim.rank is None or (rank or 0) >= aim.rank)
        kind = "mean" if aim.mean else "median"
        wanted = f"{kind} {shown(aim.error)}" + (f", Spearman {aim.rank}" if aim.rank else "")
        text += f"; aim {wanted}: {'met' if met else 'MISSED'}"
    return text
