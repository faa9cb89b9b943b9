"""The roofline as a picture: performance on the left, energy on the right, over the operational intensity of DRAM."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from accelsim.analysis.roof_forms import energy_roof, performance_roof
from accelsim.analysis.roofline import Point
from accelsim.analysis.roofs import ARRAY, DRAM, VECTOR_UNIT, Roof
from accelsim.plot.roofline_extras import doubt, draw_ceilings, draw_ladder, ribbon
from accelsim.plot.style import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, SKY, VERMILION, matplotlib_style, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    from accelsim.plot.roofline import Roofline

RUN_MARKS = ((BLUE, "o"), (VERMILION, "s"), (GREEN, "^"), (PURPLE, "D"), (ORANGE, "v"), (SKY, "P"))
LABELLED = 3
"""Operators that are named, those with most cycles, where there is room; those at one place once."""
NEAR = 12
"""Points in one such part of a decade, on both axes, stand at one place."""
LINES: dict[str, Any] = {"datasheet": (0, (5, 3)), "measured": "solid"}


def roofline_figure(roofline: Roofline) -> Figure:
    """Draws a roofline: save it with :func:`accelsim.plot.style.save_figure`.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    with matplotlib_style():
        return _draw(roofline)


def _draw(roofline: Roofline) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(13.0, 6.2))
    axes = [figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)]
    figure.subplots_adjust(left=0.065, right=0.975, top=0.86, bottom=0.1, wspace=0.16)
    points = [point for run in roofline.runs for point in run.points if point.level == DRAM and point.operations]
    low, high = _span(roofline, points)
    ladders: dict[str, str] = {}
    for axis, energy in zip(axes, (False, True), strict=True):
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlim(low, high)
        axis.grid(which="major")
        axis.set_axisbelow(True)
        axis.set_xlabel("operational intensity (op per byte of DRAM)")
        axis.set_ylabel("energy efficiency (op/pJ = TOPS/W)" if energy else "performance (op/cycle)")
        axis.tick_params(which="both", labelsize=8, labelfontfamily="sans-serif")
        for each in (axis.xaxis, axis.yaxis):
            each.set_major_formatter(_number)
            each.set_minor_formatter("")
        texts = _draw_roofs(axis, roofline, energy)
        texts += [] if energy else draw_ceilings(axis, roofline)
        ladders |= draw_ladder(axis, roofline, energy)
        if not energy and roofline.measurement is not None:
            knee = roofline.measurement.knee
            axis.plot(
                [point.intensity for point in knee],
                [point.ops_per_cycle for point in knee],
                linestyle="none",
                marker="x",
                markersize=5,
                color=FAINT,
            )
        texts += _draw_points(axis, roofline, energy)
        bottom, top = axis.get_ylim()
        axis.set_ylim(bottom, top * 1.6)
        _place(figure, axis, texts)
    clock = roofline.accelerator.clock_hz
    figure.text(
        0.065, 0.965, shown(f"Roofline of {roofline.accelerator.name}", 80), size=12, weight="bold", va="center"
    )
    counted = [] if roofline.operations == "dense" else ["operations without known zeros"]
    notes = [*counted, "1 MAC = 2 op", f"1 cycle = {1e9 / clock:g} ns"]
    if hidden := sum(not point.bytes for point in points):
        notes.append(f"not drawn: {hidden} operators without bytes at DRAM")
    figure.text(0.975, 0.965, " · ".join(notes), size=8.5, ha="right", va="center")
    sources = dict.fromkeys(roof.source for roof in roofline.roofs)
    handles: list[Any] = [
        Line2D([], [], color=INK, linestyle=LINES[source], label=f"{source} roof") for source in sources
    ]
    if roofline.measurement is not None:
        handles.append(Line2D([], [], color=FAINT, marker="x", linestyle="none", label="micro-kernel K3"))
    for number, run in enumerate(roofline.runs):
        color, mark = RUN_MARKS[number % len(RUN_MARKS)]
        handles.append(
            Line2D([], [], color=color, marker=mark, linestyle="none", markeredgecolor=INK, label=shown(run.name, 40))
        )
    handles += [Line2D([], [], color=color, linewidth=3.4, label=name) for name, color in ladders.items()]
    figure.legend(
        handles=handles, loc="center left", bbox_to_anchor=(0.058, 0.915), ncols=7, frameon=False, fontsize=8.5
    )
    return figure


def _number(value: float, _: object = None) -> str:
    return f"{value:,.6g}" if 1e-3 <= value < 1e6 else f"{value:.0e}"


def _span(roofline: Roofline, points: list[Point]) -> tuple[float, float]:
    """Whole decades around all intensities and the ridge."""
    seen = [point.intensity for point in points if point.intensity]
    array, dram = (_value(roofline.roofs, level, unit) for level, unit in ((ARRAY, "op/cycle"), (DRAM, "B/cycle")))
    seen += [array / dram * 2, 1.0]
    per_op, per_byte = (_value(roofline.roofs, level, unit) for level, unit in ((ARRAY, "op/pJ"), (DRAM, "pJ/B")))
    seen += [per_op * per_byte * 4] if 0 < per_op * per_byte < math.inf else []
    return 10.0 ** math.floor(math.log10(min(seen))), 10.0 ** math.ceil(math.log10(max(seen)))


def _value(roofs: tuple[Roof, ...], level: str, unit: str, source: str = "datasheet") -> float:
    """The best value of a roof; infinite, or 0 for energies, where there is none."""
    found = [roof.value for roof in roofs if (roof.level, roof.unit, roof.source) == (level, unit, source)]
    if unit == "pJ/B":
        return min(found, default=0.0)
    return max(found, default=math.inf)


def _draw_roofs(axis: Axes, roofline: Roofline, energy: bool) -> list[tuple[Text, float]]:
    """The roof of array work, thick, and that of vector work, thin; returns the labels, to be placed."""
    low, high = axis.get_xlim()
    x = np.geomspace(low, high, 400)
    texts, roofs, tops = [], roofline.roofs, [math.inf]

    def height(peak: float, slope: float) -> Any:
        if energy:
            return energy_roof(x, 1 / peak, slope)
        return performance_roof(x, peak, slope, roofline.exponent)

    for source in dict.fromkeys(roof.source for roof in roofs):
        slope = _value(roofs, DRAM, "pJ/B" if energy else "B/cycle", source)
        for level, name, width in ((ARRAY, "array", 1.8), (VECTOR_UNIT, "vector unit", 1.0)):
            peak = _value(roofs, level, "op/pJ" if energy else "op/cycle", source)
            if peak == math.inf:
                continue
            y = height(peak, slope)
            if source == "measured" and level == ARRAY:
                peaks = [peak * max(1 + one, 0.01) for one in doubt(roofs, level, "op/pJ" if energy else "op/cycle")]
                slopes = [slope * (1 + one) for one in doubt(roofs, DRAM, "pJ/B" if energy else "B/cycle")]
                ribbon(axis, x, *map(height, peaks, reversed(slopes) if energy else slopes))
            axis.plot(x, y, color=INK if level == ARRAY else FAINT, linewidth=width, linestyle=LINES[source])
            if source != "datasheet":
                continue
            unit = "op/pJ" if energy else "op/cycle"
            place = {"va": "top", "xytext": (-2, -4)} if level == VECTOR_UNIT and y[-1] > tops[-1] / 3 else {}
            tops.append(float(y[-1]))
            texts.append(_label(axis, f"{name} {peak:,.6g} {unit}", (high, tops[-1]), ha="right", **place))
            if level == ARRAY:
                at = low * (high / low) ** 0.3
                line = 1 / (1 / peak + slope / at) if energy else min(peak, slope * at)
                text = f"DRAM {slope:.6g} {'pJ/B' if energy else 'B/cycle'}"
                along = {"rotation": 45, "transform_rotates_text": True, "rotation_mode": "anchor"}
                texts.append(_label(axis, text, (at, line), ha="center", **along))
                ridge, name = (peak * slope, "energy balance") if energy else (peak / slope, "ridge")
                axis.axvline(ridge, color=FAINT, linewidth=0.9, linestyle=(0, (1, 3)))
                axis.text(
                    ridge,
                    0.015,
                    f" {name} {ridge:,.4g} op/B ",
                    ha="right",
                    size=8,
                    color=FAINT,
                    transform=axis.get_xaxis_transform(),
                )
    return texts


def _label(axis: Axes, text: str, at: tuple[float, float], **how: Any) -> tuple[Text, float]:
    """A label of a roof, a little above it unless said otherwise."""
    where = {"xytext": (-2, 4), "va": "bottom", **how}
    made = axis.annotate(text, at, textcoords="offset points", size=8.5, **where)
    return made, 0.0


def _draw_points(axis: Axes, roofline: Roofline, energy: bool) -> list[tuple[Text, float]]:
    """All points, the largest first; returns the labels, to be placed where there is room."""
    from matplotlib.patheffects import withStroke

    halo = withStroke(linewidth=2.5, foreground="white", alpha=0.8)
    texts = []
    for number, run in enumerate(roofline.runs):
        color, mark = RUN_MARKS[number % len(RUN_MARKS)]
        points = [point for point in run.points if point.level == DRAM and point.operations and point.bytes]
        whole = run.points[0].cycles or 1
        points.sort(key=lambda point: -point.cycles_attributed)
        at = [(point.operations / point.bytes, point.ops_per_pj if energy else point.ops_per_cycle) for point in points]
        near = [tuple(round(NEAR * math.log10(max(value, 1e-300))) for value in pair) for pair in at]
        together = Counter(cell for cell, point in zip(near, points, strict=True) if point.name != "run")
        labelled: set[tuple[int, ...]] = set()
        for point, (x, y), cell in zip(points, at, near, strict=True):
            is_run = point.name == "run"
            area = 90.0 if is_run else 18 + 900 * point.cycles_attributed / whole
            axis.scatter(
                [x],
                [y],
                s=area,
                marker=mark,
                facecolor=color,
                alpha=1 if is_run else 0.5,
                edgecolor=INK if is_run else "none",
                linewidth=1.2 if is_run else 0,
                zorder=4 if is_run else 3,
            )
            if is_run or (cell not in labelled and len(labelled) < LABELLED):
                name = shown(run.name if is_run and len(roofline.runs) > 1 else point.name, 28)
                if not is_run:
                    labelled.add(cell)
                    name += f" and {together[cell] - 1} more" if together[cell] > 1 else ""
                text = axis.text(x, y, name, size=8, weight="bold" if is_run else "normal", va="center", zorder=5)
                text.set_path_effects([halo])
                texts.append((text, math.sqrt(area) / 2 + 3))
    return texts


def _place(figure: Figure, axis: Axes, texts: list[tuple[Text, float]]) -> None:
    """Moves labels apart: beside their point, else above or below, else away with them.

    Each comes with its distance from its point, in points; labels of roofs, with distance 0, stay where they are.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.transforms import Bbox, ScaledTranslation

    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    frame = axis.get_window_extent(renderer)
    taken: list[Any] = []
    shift = figure.dpi / 72
    for text, distance in sorted(texts, key=lambda item: (item[1] > 0, item[0].get_fontweight() != "bold")):
        width = text.get_window_extent(renderer).width / shift
        tries = [(0.0, 0.0)]
        if distance:
            tries = [
                (x, y) for y in (0.0, 11.0, -11.0, 22.0, -22.0, 33.0, -33.0) for x in (distance, -distance - width)
            ]
        for x, y in tries:
            box = text.get_window_extent(renderer).translated(x * shift, y * shift)
            grown = Bbox.from_extents(box.x0 - 2, box.y0 - 1, box.x1 + 2, box.y1 + 1)
            inside = not distance or (
                frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 <= box.y1 <= frame.y1
            )
            if inside and not any(grown.overlaps(other) for other in taken):
                taken.append(grown)
                text.set_transform(text.get_transform() + ScaledTranslation(x / 72, y / 72, figure.dpi_scale_trans))
                break
        else:
            text.remove()
