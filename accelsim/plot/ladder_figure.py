"""Both ladders of a run as a picture: what each loss takes, from the roof down to the point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accelsim.errors import InputError
from accelsim.plot.style import BLUE, FAINT, INK, ORANGE, SKY, VERMILION, matplotlib_style, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from accelsim.analysis.ladder import Rung
    from accelsim.analysis.ledger_report import LedgerReport

LEAST_SHARE = 1e-4


def ladder_figure(report: LedgerReport) -> Figure:
    """Draws both ladders, performance on the left, energy on the right.

    Raises:
        InputError: there is no machine, or no work, to draw a ladder of.
        MissingExtra: matplotlib is not installed.
    """
    ladders = report.ladders()
    if not all(ladders.values()) or not ladders:
        raise InputError(f"{report.title}: no work is done there, or its machine is not known; there is no ladder")
    with matplotlib_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(13.0, 5.2))
        figure.subplots_adjust(left=0.13, right=0.975, top=0.83, bottom=0.12, wspace=0.42)
        for place, (name, unit) in enumerate((("performance", "op/cycle"), ("energy", "op/pJ = TOPS/W"))):
            axis = figure.add_subplot(1, 2, place + 1)
            _draw(axis, ladders[name], name == "energy")
            axis.set_xlabel(f"{'energy efficiency' if name == 'energy' else name} ({unit}), logarithmic")
            axis.set_title(f"From the {name} roof to the point", loc="left", size=10)
        figure.text(0.02, 0.945, shown(f"Ladders of {report.title}", 100), size=12, weight="bold", va="center")
        return figure


def _draw(axis: Axes, rungs: tuple[Rung, ...], energy: bool) -> None:
    drawn = [rung for rung in rungs[1:] if rung.share >= LEAST_SHARE]
    axis.set_xscale("log")
    low, high = rungs[-1].value, rungs[0].value
    room = (high / low) ** 0.16 if high > low else 1.2
    axis.set_xlim(low / room / 1.02, high * 1.06)
    axis.grid(which="major", axis="x")
    axis.set_axisbelow(True)
    last = high
    for place, rung in enumerate(drawn):
        color = _color(rung.name, energy)
        axis.barh(place, last - rung.value, left=rung.value, height=0.62, color=color, edgecolor=INK, linewidth=0.5)
        axis.plot([rung.value] * 2, [place - 0.31, place + 1.31], color=FAINT, linewidth=0.8, linestyle=(0, (2, 2)))
        text = f"x {rung.value / last:.3f} "
        axis.text(rung.value, place, text, ha="right", va="center", size=8.5)
        last = rung.value
    axis.axvline(high, color=INK, linewidth=1.6)
    names = [rung.name for rung in drawn]
    axis.set_yticks(range(-1, len(drawn) + 1), [f"roof {high:,.5g}", *names, f"point {low:,.5g}"])
    axis.set_ylim(len(drawn) + 0.6, -1.6)
    axis.plot([low], [len(drawn)], marker="o", color=INK, markersize=7)
    axis.tick_params(axis="y", length=0)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    axis.xaxis.set_minor_formatter("")
    if high / low < 10:
        axis.xaxis.set_minor_formatter(lambda value, _: f"{value:,.6g}" if f"{value:.0e}"[0] in "125" else "")


def _color(name: str, energy: bool) -> str:
    """Waiting in orange, losses inside the array in blue; memory in orange, buffers in blue, static in red."""
    if energy:
        return ORANGE if name.startswith("dram") else VERMILION if name.startswith("static") else SKY
    return VERMILION if name.startswith("wait") else ORANGE if name in ("drain", "hidden_transfers") else BLUE
