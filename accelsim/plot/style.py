"""What all pictures share: colours, fonts, and files that are the same bytes for the same picture."""

from __future__ import annotations

import io
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelsim.errors import InputError, MissingExtra
from accelsim.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#1b1f24"
"""Text and axes. A page replaces it by the colour of its own text, so that pictures can be read on dark ground too."""
FAINT = "#8b929c"
"""Grids, bounds, and grounds (with some transparency); good on light and dark."""

# Okabe and Ito's palette, which people with any colour vision can tell apart (https://jfly.uni-koeln.de/color/).
BLUE, SKY, GREEN, ORANGE = "#0072B2", "#56B4E9", "#009E73", "#E69F00"
VERMILION, PURPLE, YELLOW = "#D55E00", "#CC79A7", "#F0E442"

KIND_COLORS = {
    "array tile": BLUE,
    "vector tile": GREEN,
    "load of weights": ORANGE,
    "load of inputs": SKY,
    "store": PURPLE,
    "send": "#5522AA",
    "other tile": "#776644",
}
# Colours that are not of that palette lie as far from all others, for any colour vision, as so many can: a test
# measures it.
CAUSE_COLORS = {
    "compute": "#1166EE",
    "wait_load": VERMILION,
    "wait_store": "#AA0022",
    "wait_buffer": YELLOW,
    "wait_tile": "#4499FF",
    "wait_communication": "#880077",
    "wait_resource": "#AACC77",
    "wait_other": "#66666F",
    "drain": "#C4C4C4",
}
FINER_CAUSE_COLORS = {"queue": "#773344", "limit": "#BB7744"}
"""Of causes of single events that reports count among others: a predecessor on the queue, a request under way."""


def matplotlib_style() -> AbstractContextManager[Any]:
    """The settings in which all pictures are drawn and saved.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("pictures need matplotlib; install it with: pip install 'accelsim[plots]'") from None
    return matplotlib.rc_context(
        {
            **matplotlib.rcParamsDefault,
            "font.family": ["DejaVu Sans"],
            "font.size": 9,
            "axes.titlesize": 9,
            "axes.edgecolor": FAINT,
            "axes.labelcolor": INK,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "text.color": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "grid.color": FAINT,
            "grid.alpha": 0.3,
            "grid.linewidth": 0.6,
            "svg.fonttype": "none",
            "svg.hashsalt": "accelsim",
            "text.parse_math": False,
        }
    )


def figure_bytes(figure: Figure, suffix: str) -> bytes:
    """The picture as a ``.svg``, ``.png`` or ``.pdf`` file; equal pictures are equal bytes.

    Raises:
        InputError: another suffix.
    """
    metadata = {
        ".svg": {"Date": None, "Creator": None},
        ".png": {"Software": None},
        ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
    if suffix not in metadata:
        raise InputError(f"pictures are not written as '{suffix}'; there are {', '.join(metadata)}")
    file = io.BytesIO()
    with matplotlib_style():
        ground = {"transparent": True} if suffix == ".svg" else {"facecolor": "white"}
        figure.savefig(file, format=suffix[1:], metadata=metadata[suffix], dpi=150, **ground)
    return file.getvalue()


def save_figure(figure: Figure, path: str | Path) -> None:
    """Writes a picture, in the format that the suffix of ``path`` names; it appears whole or not at all.

    Raises:
        InputError: the suffix is not known, or the file cannot be written.
    """
    write_whole(Path(path), figure_bytes(figure, Path(path).suffix.lower()))


def shown(text: str, longest: int = 60) -> str:
    """A name as a picture can hold it: of printable characters, and not too long."""
    printable = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return printable if len(printable) <= longest else f"{printable[: longest - 1]}…"
