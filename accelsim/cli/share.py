"""``accelsim run A B --share dram``: several workloads on one machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from accelsim.errors import InputError, UnitError

if TYPE_CHECKING:
    from accelsim.analysis.sharing import Sharing
    from accelsim.timeline.table import Timeline


@dataclass(frozen=True)
class Shared:
    """What the options say of sharing."""

    share: str | None
    arbitration: str
    weights: str | None
    grant: str

    def check(self, others: int, schedule_file: str | None) -> None:
        """Raise unless the options go with so many more workloads.

        Raises:
            InputError: they do not.
        """
        if others and self.share is None:
            raise InputError("several workloads run on one machine where they share a link: add --share dram")
        if others and schedule_file is not None:
            raise InputError("--schedule is the schedule of one workload; give a --scheduler for several")
        if not others and (self.share is not None or self.weights is not None):
            raise InputError("--share and --weights are for several workloads; give at least two")

    def arguments(self) -> dict[str, Any]:
        """Of :func:`accelsim.simulate`.

        Raises:
            InputError: weights or grant cannot be read.
        """
        from accelsim.units import parse_bytes

        try:
            grant_bytes = parse_bytes(self.grant)
        except UnitError as error:
            raise InputError(f"--grant: {error}") from None
        weights = None
        if self.weights is not None:
            texts = [text.strip() for text in self.weights.split(",")]
            if not all(text.isdecimal() for text in texts):
                raise InputError(f"--weights {self.weights}: expected whole numbers, one a workload, for example 3,1")
            weights = [int(text) for text in texts]
        return {
            "share": [name.strip() for name in (self.share or "").split(",")],
            "arbitration": self.arbitration,
            "weights": weights,
            "grant_bytes": grant_bytes,
        }


def sharing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options, handed to the command as ``shared``."""

    @wraps(command)
    def run(share: str | None, arbitration: str, weights: str | None, grant: str, **rest: Any) -> Any:
        return command(shared=Shared(share, arbitration, weights, grant), **rest)

    for decorator in (
        click.option("--grant", default="4 KiB", show_default=True, help="--share: bytes before the next choice."),
        click.option("--weights", metavar="N,N,…", help="--share: of each workload, for weighted arbitration."),
        click.option(
            "--arbitration",
            default="fair",
            show_default=True,
            help="--share: fair, weighted, priority (the first WORKLOAD goes first), round_robin or in_order.",
        ),
        click.option("--share", metavar="LINK", help="Run several WORKLOADs at once, with this link in common: dram."),
    ):
        run = decorator(run)
    return run


def sharing(timeline: Timeline) -> Sharing:
    """What it has cost each."""
    from accelsim.analysis.sharing import sharing as sharing_of

    return sharing_of(timeline)
