"""The picture of a timeline: resources over time, and below on the same axis bandwidth and buffer occupancy.

Nothing is left out and nothing exaggerated, however many events there are: time is cut into narrow bins, and in each
bin a lane is filled as high as the share of it that the resource was busy.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from accelsim.analysis.report import CAUSE_WORDS, known, report
from accelsim.plot.style import CAUSE_COLORS, FAINT, INK, KIND_COLORS, matplotlib_style, shown
from accelsim.program.tables import IntColumn, ResourceKind
from accelsim.timeline.kinds import KINDS, activity_kinds
from accelsim.timeline.occupancy import bin_edges, buffer_occupancy, bytes_in_bins, cycles_in_bins
from accelsim.timeline.stalls import CAUSE_NAMES, DRAIN, idle_intervals, operator_intervals
from accelsim.timeline.table import Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 1600
BINS_OF_ALL_LANES = 6400
BANDWIDTH_BINS = 300
MOST_LANES = 12
"""Lanes drawn; the rest are counted."""
MOST_CURVES = 3
"""Links, and buffers, that get a curve."""
WIDTH_INCHES = 13.0
LEFT, RIGHT = 0.085, 0.985
LEGEND_COLUMNS = 7
STALL_HEIGHT = 0.4
CAUSES: dict[int, str] = {**{int(cause): name for cause, name in CAUSE_NAMES.items()}, DRAIN: "drain"}
CHARACTER_POINTS = 4.6
"""Width of a character of 7.5 points, on the safe side."""


def timeline_figure(timeline: Timeline, until_cycles: int | None = None) -> Figure:
    """Draws a timeline: save it with :func:`accelsim.plot.style.save_figure`.

    Cores show their tiles at full height and, lower, what they wait for; links show what they move. The axis ends at
    ``until_cycles``, by default at the latency.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    with matplotlib_style():
        return _draw(timeline, max(until_cycles or timeline.latency_cycles, 1))


def _draw(timeline: Timeline, until_cycles: int) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    program = timeline.program
    links = np.flatnonzero(program.resources.kind == ResourceKind.LINK).tolist()[:MOST_CURVES]
    buffers = list(range(len(program.buffer_names)))[:MOST_CURVES]
    lanes = list(range(len(program.resource_names)))[:MOST_LANES]
    heights = [0.3, 0.3 * len(lanes) + 0.15, *[1.0] * (len(links) + len(buffers))]
    figure = Figure(figsize=(WIDTH_INCHES, sum(heights) + 0.16 * len(heights) + 1.66))
    inches = figure.get_size_inches()[1]
    grid = figure.add_gridspec(
        len(heights), 1, height_ratios=heights, left=LEFT, right=RIGHT, top=1 - 1.06 / inches, bottom=0.5 / inches
    )
    grid.update(hspace=0.16 * len(heights) / sum(heights))
    axes = [figure.add_subplot(grid[0])]
    axes += [figure.add_subplot(grid[row], sharex=axes[0]) for row in range(1, len(heights))]
    axes[0].set_xlim(0, until_cycles)
    edges = bin_edges(timeline, min(BINS, BINS_OF_ALL_LANES // max(len(lanes), 1)))
    _draw_operators(axes[0], timeline, until_cycles)
    drawn = _draw_lanes(axes[1], timeline, lanes, edges)
    for axis, link in zip(axes[2:], links, strict=False):
        drawn |= _draw_bandwidth(axis, timeline, link)
    for axis, buffer in zip(axes[2 + len(links) :], buffers, strict=True):
        _draw_occupancy(axis, timeline, buffer, edges)
    for axis in axes[:-1]:
        axis.tick_params(axis="x", labelbottom=False, bottom=False)
    axes[-1].xaxis.set_major_formatter(FuncFormatter(lambda cycles, _: f"{cycles:,.0f}"))
    axes[-1].set_xlabel("cycles")
    _draw_seconds(axes[0], timeline, until_cycles)
    _draw_heading(figure, timeline, inches, drawn, len(program.resource_names) - len(lanes))
    return figure


def _draw_seconds(axis: Axes, timeline: Timeline, until_cycles: int) -> None:
    """A second scale on top, in the unit that suits, when the clock is known."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    clock_hz = known(timeline.program, "clock_hz")
    if not clock_hz:
        return
    seconds = until_cycles / clock_hz
    units = (("s", 1.0), ("ms", 1e3), ("µs", 1e6))
    unit, factor = next(((unit, factor) for unit, factor in units if seconds * factor >= 1), ("ns", 1e9))
    per_cycle = factor / clock_hz

    def time_of(cycles: Any) -> Any:
        return cycles * per_cycle

    def cycles_of(time: Any) -> Any:
        return time / per_cycle

    scale = axis.secondary_xaxis("top", functions=(time_of, cycles_of))
    scale.xaxis.set_major_locator(MaxNLocator(10))
    scale.xaxis.set_major_formatter(FuncFormatter(lambda time, _: f"{time:.6g} {unit}"))
    scale.tick_params(labelsize=8, length=3)
    scale.spines["top"].set_color(FAINT)


def _draw_heading(figure: Figure, timeline: Timeline, inches: float, drawn: set[str], hidden: int) -> None:
    """Title and legend above everything."""
    from matplotlib.patches import Patch

    clock_hz = known(timeline.program, "clock_hz")
    facts = [f"{timeline.latency_cycles:,} cycles"]
    facts += [f"1 cycle = {1e9 / clock_hz:g} ns"] if clock_hz else []
    facts += [f"{hidden} more resources not drawn"] if hidden else []
    figure.text(LEFT, 1 - 0.14 / inches, shown(report(timeline).title, 110), size=12, weight="bold", va="top")
    figure.text(RIGHT, 1 - 0.16 / inches, " · ".join(facts), size=9, va="top", ha="right")
    handles = [Patch(color=color, label=name) for name, color in KIND_COLORS.items() if name in drawn]
    handles += [Patch(color=color, label=CAUSE_WORDS[name]) for name, color in CAUSE_COLORS.items() if name in drawn]
    if handles:
        figure.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(LEFT, 1 - 0.42 / inches),
            borderaxespad=0,
            borderpad=0,
            ncols=LEGEND_COLUMNS,
            labelspacing=0.3,
            frameon=False,
            fontsize=8.5,
            handlelength=1.1,
            handleheight=0.9,
            columnspacing=1.4,
            handletextpad=0.5,
        )


def _draw_operators(axis: Axes, timeline: Timeline, until_cycles: int) -> None:
    """A strip that says which operator each cycle belongs to; names stand where there is room for them."""
    starts, ends, operators = operator_intervals(timeline)
    new = np.flatnonzero(np.concatenate([[True], operators[1:] != operators[:-1]])[: len(operators)])
    starts, ends = starts[new], np.append(starts[new][1:], ends[-1:])
    points = WIDTH_INCHES * 72 * (RIGHT - LEFT)
    for place, (start, end, operator) in enumerate(
        zip(starts.tolist(), ends.tolist(), operators[new].tolist(), strict=True)
    ):
        if (end - start) * BINS < until_cycles:
            continue
        axis.broken_barh([(start, end - start)], (0, 1), facecolor=FAINT, alpha=(0.22, 0.42)[place % 2], linewidth=0)
        name = shown(timeline.program.operator_names[operator]) if operator >= 0 else ""
        if len(name) * CHARACTER_POINTS + 4 < (end - start) / until_cycles * points:
            axis.text((start + end) / 2, 0.48, name, size=7.5, ha="center", va="center", clip_on=True)
    axis.set_ylim(0, 1)
    axis.set_yticks([0.5], ["operator"])
    axis.tick_params(axis="y", length=0)
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)


def _kinds(timeline: Timeline) -> dict[str, npt.NDArray[np.bool_]]:
    """Which events are of which kind."""
    found = activity_kinds(timeline.program)[timeline.events.activity]
    return {name: found == kind for kind, name in enumerate(KINDS)}


def _draw_lanes(axis: Axes, timeline: Timeline, lanes: list[int], edges: IntColumn) -> set[str]:
    """A lane for each resource, from the top; returns what was drawn, for the legend."""
    program, events = timeline.program, timeline.events
    width = np.maximum(np.diff(edges), 1)
    drawn = set()
    for place, resource in enumerate(lanes):
        bottom = np.full(len(width), len(lanes) - 1 - place + 0.08)
        layers = []
        for name, of_kind in _kinds(timeline).items():
            mine = of_kind & (events.resource == resource)
            layers.append((name, KIND_COLORS[name], 1.0, events.start_cycles[mine], events.end_cycles[mine]))
        if program.resources.kind[resource] == ResourceKind.CORE:
            idle = idle_intervals(timeline, resource)
            for name, color in CAUSE_COLORS.items():
                mine = np.isin(idle.cause, [code for code, cause in CAUSES.items() if cause == name])
                layers.append((name, color, STALL_HEIGHT, idle.start_cycles[mine], idle.end_cycles[mine]))
        for name, color, height, start, end in layers:
            if not (end > start).any():
                continue
            drawn.add(name)
            top = bottom + 0.84 * height * cycles_in_bins(start, end, edges) / width
            _fill(axis, edges, bottom, top, color)
            bottom = top
    axis.set_ylim(0, max(len(lanes), 1))
    names = [shown(program.resource_names[resource], 14) for resource in lanes]
    axis.set_yticks([len(lanes) - 0.5 - place for place in range(len(lanes))], names)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x")
    axis.set_axisbelow(True)
    return drawn


def _fill(axis: Axes, edges: IntColumn, bottom: npt.NDArray[Any], top: npt.NDArray[Any], color: str) -> None:
    """Fills between two step functions, of which only the steps are drawn."""
    step = np.concatenate([[True], (np.diff(bottom) != 0) | (np.diff(top) != 0), [True]])
    low, high = np.append(bottom, bottom[-1]), np.append(top, top[-1])
    axis.fill_between(edges[step], low[step], high[step], step="post", facecolor=color, linewidth=0)


def _draw_bandwidth(axis: Axes, timeline: Timeline, link: int) -> set[str]:
    """Bytes per cycle over a link, averaged over bins, by what is moved; its full rate as a line."""
    resources, edges = timeline.program.resources, bin_edges(timeline, BANDWIDTH_BINS)
    width = np.maximum(np.diff(edges), 1)
    bottom = np.zeros(len(width))
    drawn = set()
    for name, of_kind in _kinds(timeline).items():
        moved = bytes_in_bins(timeline, of_kind & (timeline.events.resource == link), edges)
        if moved.any():
            drawn.add(name)
            _fill(axis, edges, bottom, bottom + moved / width, KIND_COLORS[name])
            bottom = bottom + moved / width
    full = Fraction(int(resources.bytes_numerator[link]), int(resources.bytes_denominator[link]))
    name = shown(timeline.program.resource_names[link], 14)
    _finish_curve(axis, f"{name}\nB/cycle", float(full), f"full rate {float(full):.6g} B/cycle", bottom.max())
    return drawn


def _draw_occupancy(axis: Axes, timeline: Timeline, buffer: int, edges: IntColumn) -> None:
    """Bytes held by a buffer, in each bin the most; its capacity as a line."""
    held = buffer_occupancy(timeline, buffer)
    # The value at the start of each bin, and those that begin inside it.
    before = np.searchsorted(held.cycles, edges[:-1], side="right") - 1
    cycles = np.concatenate([edges[:-1], held.cycles])
    values = np.concatenate([held.values[before], held.values])
    bin_of = np.clip(np.searchsorted(edges, cycles, side="right") - 1, 0, len(edges) - 2)
    most = np.zeros(len(edges) - 1, dtype=np.int64)
    inside = cycles < max(timeline.latency_cycles, 1)
    np.maximum.at(most, bin_of[inside], values[inside])
    capacity = int(timeline.program.buffers.capacity_bytes[buffer])
    unit, size = next(((u, s) for u, s in (("MiB", 1 << 20), ("KiB", 1 << 10)) if capacity >= s), ("B", 1))
    _fill(axis, edges, np.zeros(len(most)), most / size, FAINT)
    name = shown(timeline.program.buffer_names[buffer], 14)
    _finish_curve(axis, f"{name}\n{unit}", capacity / size, f"capacity {capacity / size:.6g} {unit}", held.peak / size)


def _finish_curve(axis: Axes, label: str, limit: float, limit_text: str, peak: float) -> None:
    """Scale, label, and the line of what is possible."""
    from matplotlib.ticker import MaxNLocator

    top = max(limit, peak) or 1.0
    axis.set_ylim(0, 1.3 * top)
    axis.axhline(limit, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    axis.text(0.004, (limit + 0.04 * top) / (1.3 * top), limit_text, size=7.5, transform=axis.transAxes, va="bottom")
    axis.set_ylabel(label, rotation=0, ha="right", va="center", labelpad=8)
    axis.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 4, 5, 10]))
    axis.tick_params(axis="y", labelsize=7.5)
    axis.grid()
    axis.set_axisbelow(True)
