"""A run over time as a picture: its path over both maps, and over the plane of utilisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from accelsim.analysis.roof_forms import energy_roof, performance_roof
from accelsim.analysis.roofs import OPERATIONS_PER_MAC, Limits
from accelsim.errors import InputError
from accelsim.plot.style import FAINT, INK, matplotlib_style, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from accelsim.plot.roofline import Roofline, Run


def trajectory_figure(roofline: Roofline) -> Figure:
    """Draws the path of the first run: performance, energy, and the utilisation plane, coloured by time.

    Raises:
        InputError: no run was added.
        MissingExtra: matplotlib is not installed.
    """
    if not roofline.runs:
        raise InputError("a run over time needs a timeline")
    with matplotlib_style():
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize
        from matplotlib.figure import Figure

        run, limits = roofline.runs[0], Limits.of(roofline.accelerator)
        path = run.trajectory
        figure = Figure(figsize=(16.0, 5.4))
        axes = [figure.add_subplot(1, 3, place) for place in (1, 2, 3)]
        figure.subplots_adjust(left=0.055, right=0.905, top=0.86, bottom=0.12, wspace=0.24)
        seen = path.intensity[np.isfinite(path.intensity) & (path.operations > 0)]
        bandwidth, peak = float(limits.dram_bytes_per_cycle), float(OPERATIONS_PER_MAC * limits.macs_per_cycle)
        low = min(float(seen.min(initial=1.0)), 1.0)
        high = max(float(seen.max(initial=1.0)), 4 * peak / bandwidth)
        span = (10 ** np.floor(np.log10(low)), 10 ** np.ceil(np.log10(high)))
        x = np.geomspace(*span, 300)
        machine = roofline.accelerator
        roofs = [performance_roof(x, peak, bandwidth)]
        if limits.mac_pj:
            roofs.append(energy_roof(x, limits.mac_pj / OPERATIONS_PER_MAC, machine.dram.read_pj_per_byte))
        for axis, values, roof in zip(axes, (path.ops_per_cycle, path.ops_per_pj), roofs, strict=False):
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_xlim(*span)
            axis.plot(x, roof, color=INK, linewidth=1.6, linestyle=(0, (5, 3)))
            _path(axis, np.where(np.isfinite(path.intensity), path.intensity, span[1]), values)
            axis.set_xlabel("operational intensity (op per byte of DRAM)")
            axis.grid(which="major")
            for each in (axis.xaxis, axis.yaxis):
                each.set_major_formatter(lambda value, _: f"{value:,.6g}" if 1e-3 <= value < 1e6 else f"{value:.0e}")
        axes[0].set_ylabel("performance (op/cycle)")
        axes[1].set_ylabel("energy efficiency (op/pJ = TOPS/W)")
        _plane(axes[2], run)
        title = f"{run.name} on {roofline.accelerator.name} over time, in {len(path.operations)} windows"
        figure.text(0.055, 0.945, shown(title, 120), size=12, weight="bold", va="center")
        colors = ScalarMappable(norm=Normalize(0, path.cycles * len(path.operations)), cmap="cividis")
        bar = figure.colorbar(colors, cax=figure.add_axes((0.92, 0.12, 0.011, 0.74)))
        bar.ax.set_title("cycle", size=9)
        bar.ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        return figure


def _plane(axis: Axes, run: Run) -> None:
    """Share of the peak rate over share of the bandwidth: the roofline as the unit square."""
    path = run.trajectory
    axis.set_xlim(-0.03, 1.05)
    axis.set_ylim(-0.03, 1.05)
    axis.plot([0, 1, 1], [1, 1, 0], color=INK, linewidth=1.6, linestyle=(0, (5, 3)))
    axis.plot([0, 1], [0, 1], color=FAINT, linewidth=0.9, linestyle=(0, (1, 3)))
    axis.annotate("ridge", (0.97, 0.97), ha="right", va="top", size=8, color=FAINT, rotation=45)
    _path(axis, path.utilization, path.memory_utilization)
    axis.set_xlabel("share of the peak rate")
    axis.set_ylabel("share of the bandwidth of DRAM")
    axis.grid(which="major")


def _path(axis: Axes, x: Any, y: Any) -> None:
    """Points in order of time, joined; windows that do nothing have no place on logarithmic axes."""
    shown_ones = np.flatnonzero((y > 0) | (axis.get_yscale() == "linear"))
    axis.plot(x[shown_ones], y[shown_ones], color=FAINT, linewidth=0.8, zorder=2)
    axis.scatter(
        x[shown_ones],
        y[shown_ones],
        c=shown_ones / max(len(x) - 1, 1),
        cmap="cividis",
        vmin=0,
        vmax=1,
        s=26,
        edgecolor=INK,
        linewidth=0.4,
        zorder=3,
        clip_on=False,
    )
