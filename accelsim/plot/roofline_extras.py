"""What lies between roof and points in the picture: ribbons, ceilings, power cap, and the ladder of a run's losses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from accelsim.analysis.ceilings import ceilings
from accelsim.analysis.ladder import energy_ladder, performance_ladder
from accelsim.analysis.roof_forms import performance_roof, power_cap_roof
from accelsim.analysis.roofs import DRAM, OPERATIONS_PER_MAC, Limits, Roof
from accelsim.plot.style import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, SKY, VERMILION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

    from accelsim.plot.roofline import Roofline

LEAST_SHARE = 0.02
"""Of a ladder's height; smaller rungs are drawn without a colour of their own."""


def doubt(roofs: tuple[Roof, ...], level: str, unit: str) -> tuple[float, float]:
    """How far a measured roof may lie below and above its value, relative to it."""
    doubts = [roof.uncertainty for roof in roofs if (roof.level, roof.unit, roof.source) == (level, unit, "measured")]
    bands = [one.band for one in doubts if one]
    return min((band[0] for band in bands), default=0.0), max((band[1] for band in bands), default=0.0)


def ribbon(axis: Axes, x: Any, lowest: Any, highest: Any) -> None:
    """The band in which a measured roof may lie."""
    if np.max(highest / lowest) - 1 > 1e-4:
        axis.fill_between(x, lowest, highest, color=FAINT, alpha=0.35, linewidth=0, zorder=0.5)


def draw_ceilings(axis: Axes, roofline: Roofline) -> list[tuple[Text, float]]:
    """Those of the first run, dotted, on the map of performance; and the power cap."""
    low, high = axis.get_xlim()
    x = np.geomspace(low, high, 200)
    limits = Limits.of(roofline.accelerator)
    peak, texts = float(OPERATIONS_PER_MAC * limits.macs_per_cycle), []
    if roofline.runs:
        run = roofline.runs[0]
        for ceiling in ceilings(roofline.accelerator, run.ledger, run.points):
            if ceiling.ops_per_cycle is not None:
                y = np.minimum(ceiling.ops_per_cycle, float(limits.dram_bytes_per_cycle) * x)
                at = (high, float(y[-1]))
                texts.append(_label(axis, f"{ceiling.name} {ceiling.ops_per_cycle:,.5g}", at, "top", "right"))
            else:
                slope = ceiling.bytes_per_cycle or 0.0
                y = np.where(slope * x <= peak, slope * x, np.nan)
                at = (min(peak / slope, high), min(peak, slope * high))
                texts.append(_label(axis, ceiling.name, at, "top", "right"))
            axis.plot(x, y, color=GREEN, linewidth=1.0, linestyle=(0, (1, 2)))
    if roofline.power_cap_watts is not None and limits.mac_pj:
        machine = roofline.accelerator
        cap = roofline.power_cap_watts / machine.clock_hz * 1e12
        e_op, static = limits.mac_pj / OPERATIONS_PER_MAC, machine.static_pj_per_cycle
        y = power_cap_roof(x, e_op, machine.dram.read_pj_per_byte, cap, static)
        y = np.minimum(np.maximum(y, 1e-9), performance_roof(x, peak, float(limits.dram_bytes_per_cycle)))
        axis.plot(x, y, color=PURPLE, linewidth=1.3, linestyle=(0, (6, 2, 1, 2)))
        place = len(x) // 8
        text = f"power cap {roofline.power_cap_watts:g} W"
        texts.append(_label(axis, text, (float(x[place]), float(y[place])), "top", "left", PURPLE))
    return texts


def _label(
    axis: Axes, text: str, at: tuple[float, float], vertical: str, side: str, color: str = GREEN
) -> tuple[Text, float]:
    from matplotlib.patheffects import withStroke

    how: dict[str, Any] = {"va": vertical, "ha": side, "color": color}
    made = axis.annotate(text, at, xytext=(-2, -3), textcoords="offset points", size=7.5, **how)
    made.set_path_effects([withStroke(linewidth=2.5, foreground="white")])  # a roof may pass behind it
    return made, 0.0


def draw_ladder(axis: Axes, roofline: Roofline, energy: bool) -> dict[str, str]:
    """The losses of each run as a coloured line from the roof down to its point; returns the colours by name."""
    used: dict[str, str] = {}
    for run in roofline.runs:
        point = next(one for one in run.points if (one.name, one.level) == ("run", DRAM))
        if not point.bytes or not point.operations:
            continue
        rungs = (energy_ladder if energy else performance_ladder)(run.ledger, point)
        x = point.operations / point.bytes
        last = rungs[0].value if rungs else 0.0
        for rung in rungs[1:]:
            if rung.share >= LEAST_SHARE:
                name, color = _family(rung.name)
                used[name] = color
                axis.plot([x, x], [last, rung.value], color=color, linewidth=3.4, solid_capstyle="butt", zorder=2)
                axis.plot([x], [rung.value], marker="_", color=INK, markersize=8, zorder=2.1)
                last = rung.value
    return used


FAMILIES = (
    ("idle_lanes", "lost in the array", BLUE),
    ("fill_drain", "lost in the array", BLUE),
    ("recompute", "done again", SKY),
    ("mac.recomputed", "done again", SKY),
    ("wait_port", "buffers", GREEN),
    ("buffer", "buffers", GREEN),
    ("wait_load", "DRAM: waiting, energy", ORANGE),
    ("dram", "DRAM: waiting, energy", ORANGE),
    ("static", "static power", VERMILION),
)


def _family(name: str) -> tuple[str, str]:
    for begin, family, color in FAMILIES:
        if name.startswith(begin):
            return family, color
    return "other waiting", FAINT
