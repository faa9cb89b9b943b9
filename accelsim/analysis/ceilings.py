"""Ceilings: lines below the peak that say what a machine, or a run on it, cannot get past as it is."""

from __future__ import annotations

from typing import NamedTuple

from accelsim.analysis.ledger import Ledger
from accelsim.analysis.roofline import Point
from accelsim.analysis.roofs import BUFFER, DRAM, OPERATIONS_PER_MAC, Limits
from accelsim.hardware.accelerator import Accelerator

LEAST_LOSS = 0.005


class Ceiling(NamedTuple):
    """One ceiling of the performance roof."""

    name: str
    ops_per_cycle: float | None
    """A lower peak; None for a slope."""
    bytes_per_cycle: float | None
    """A slope over the intensity of DRAM; None for a peak."""


def ceilings(accelerator: Accelerator, ledger: Ledger, points: tuple[Point, ...]) -> tuple[Ceiling, ...]:
    """What of the ledger's losses inside the array lowers the peak for a run, one after another.

    * ``spatial use``: the peak times the share of lanes that its tiles use while they stream;
    * ``fill and drain``, ``read port``: the same with the cycles that those take;
    * the read port of the global buffer, projected: B_port / r on the axis of DRAM, where r is how many bytes the run
      reads through the port for each byte of DRAM.

    Args:
        accelerator: the machine.
        ledger: of the run.
        points: of the run and its operators.
    """
    limits = Limits.of(accelerator)
    labels = {} if ledger.core is None else ledger.core.by_label()
    peak = float(OPERATIONS_PER_MAC * limits.macs_per_cycle)
    useful = labels.get("useful_mac", 0)
    found, spent = [], float(useful)
    for name, label in (("spatial use", "idle_lanes"), ("fill and drain", "fill_drain"), ("read port", "wait_port")):
        spent += labels.get(label, 0)
        if useful and labels.get(label, 0) > LEAST_LOSS * spent:
            found.append(Ceiling(name, peak * useful / spent, None))
    run = {point.level: point for point in points if point.name == "run"}
    if limits.port_bytes_per_cycle is not None and BUFFER in run and run[BUFFER].bytes and run[DRAM].bytes:
        ratio = run[BUFFER].bytes / run[DRAM].bytes
        found.append(Ceiling("read port, projected", None, float(limits.port_bytes_per_cycle) / ratio))
    return tuple(found)
