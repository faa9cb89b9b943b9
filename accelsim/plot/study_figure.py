"""A study as a picture: a figure over a setting on the left, the plane of energy and time on the right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accelsim.errors import InputError
from accelsim.plot.style import BLUE, FAINT, GREEN, ORANGE, PURPLE, SKY, VERMILION, matplotlib_style, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKS = ((BLUE, "o"), (VERMILION, "s"), (GREEN, "^"), (PURPLE, "D"), (ORANGE, "v"), (SKY, "P"))
MOST_NAMED = 12
"""More curves than these are drawn without a legend entry."""


@dataclass(frozen=True)
class Curve:
    """Runs that differ in one setting only; the lists belong together, entry by entry."""

    label: str
    places: list[str]
    """The setting's values."""
    values: list[float]
    """The figure drawn."""
    seconds: list[float]
    energy_pj: list[float]


def study_figure(x: str, curves: list[Curve], y: str) -> Figure:
    """Draws curves of ``y`` over ``x``, and the runs by time and energy with lines of equal energy-delay product.

    Raises:
        InputError: there is no run to draw.
        MissingExtra: matplotlib is not installed.
    """
    if not curves:
        raise InputError("no run of this study has ended well: there is nothing to draw")
    with matplotlib_style():
        return _draw(x, curves, y)


def _draw(x: str, curves: list[Curve], y: str) -> Figure:
    from matplotlib.figure import Figure

    named = min(len(curves), MOST_NAMED)
    below = 0.2 * -(-named // 3) + 0.3  # inches for the legend
    figure = Figure(figsize=(12.0, 5.0 + below))
    left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    height = figure.get_size_inches()[1]
    figure.subplots_adjust(left=0.085, right=0.98, top=0.94, bottom=(0.4 + below) / height, wspace=0.2)
    order = list(dict.fromkeys(place for curve in curves for place in curve.places))
    for number, curve in enumerate(curves):
        color, mark = MARKS[number % len(MARKS)]
        label = shown(curve.label or "all runs", 50) if number < MOST_NAMED else "_"
        style = ("solid", (0, (5, 2)), (0, (1, 1.5)))[number // len(MARKS) % 3]
        left.plot(
            [order.index(place) for place in curve.places],
            curve.values,
            color=color,
            marker=mark,
            markersize=5,
            linestyle=style,
            label=label,
        )
        milliseconds = [1e3 * seconds for seconds in curve.seconds]
        right.plot(
            milliseconds,
            [energy / 1e9 for energy in curve.energy_pj],
            color=color,
            marker=mark,
            markersize=5,
            linestyle="none",
        )
    left.set_xticks(range(len(order)), [shown(place, 20) for place in order], rotation=30 if len(order) > 6 else 0)
    left.set_xlabel(x)
    left.set_ylabel(y.replace("_", " "))
    values = [value for curve in curves for value in curve.values]
    if min(values) > 0 and max(values) > 20 * min(values):
        left.set_yscale("log")
    else:
        left.set_ylim(0, max(values) * 1.08 or 1)
    left.yaxis.set_major_formatter(lambda value, _: _number(value))
    left.yaxis.set_minor_formatter(lambda value, _: _number(value) if f"{value:.0e}"[0] in "25" else "")
    right.set_xlabel("time (ms)")
    right.set_ylabel("energy (mJ)")
    for axis in (left, right):
        axis.grid(which="major")
        axis.set_axisbelow(True)
    _equal_products(right)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def _number(value: float) -> str:
    return f"{value:,.0f}" if 1 <= abs(value) < 1e9 and float(value).is_integer() else f"{value:.4g}"


def _equal_products(axis: Axes) -> None:
    """Lines of equal energy-delay product, each twice the one before, within what the runs span."""
    low_x, high_x = axis.get_xlim()
    low_y, high_y = axis.get_ylim()
    low_x, low_y = max(low_x, high_x / 1e3), max(low_y, high_y / 1e3)
    axis.set_xlim(low_x, high_x)
    axis.set_ylim(low_y, high_y)
    least, most = low_x * low_y, high_x * high_y
    product = least
    steps = [low_x * (high_x / low_x) ** (step / 60) for step in range(61)]
    while 0 < product < most:
        axis.plot(steps, [product / step for step in steps], color=FAINT, linewidth=0.6, alpha=0.7, zorder=0)
        product *= 2
    axis.text(
        0.98,
        0.98,
        "lines: equal energy × delay",
        transform=axis.transAxes,
        size=7.5,
        color=FAINT,
        ha="right",
        va="bottom",
    )
