"""Tables of comparisons: a name and a figure in each column, made once, laid out for a terminal or as HTML."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import NamedTuple

ROWS = 12
"""Rows of a long table in text and on pages."""
WIDTH = 80
LEAST_NAME = 26
"""Characters that names get, however many columns there are."""


class Grid(NamedTuple):
    """A heading, the columns' heads, and rows with a name and a text for each column."""

    title: str
    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]


def most_different(columns: Sequence[Mapping[str, float]], rows: int | None) -> tuple[list[str], list[str]]:
    """The names of all columns; if there are more than ``rows``, those whose figures differ most, and the others."""
    names = list(dict.fromkeys(name for column in columns for name in column))
    if rows is None or len(names) <= rows:
        return names, []
    found = {name: [column.get(name, 0) for column in columns] for name in names}
    names.sort(key=lambda name: min(found[name]) - max(found[name]))
    return names[:rows], names[rows:]


def grid_lines(grid: Grid) -> list[str]:
    """A grid as text that fits :data:`WIDTH`: of long names the end, of many columns several blocks."""
    if not grid.rows:
        return []
    widths = [max(len(head), *(len(cells[column]) for _, cells in grid.rows)) for column, head in enumerate(grid.heads)]
    longest = max(LEAST_NAME, WIDTH - 2 - sum(2 + width for width in widths))
    names = [name if len(name) <= longest else f"…{name[1 - longest :]}" for name, _ in grid.rows]
    first = max(map(len, names))
    beside = len(grid.title) <= first + 2
    lines, column = [""] if beside else ["", grid.title], 0
    while column < len(widths):
        end, used = column, 2 + first
        while end < len(widths) and (end == column or used + 2 + widths[end] <= WIDTH):
            used += 2 + widths[end]
            end += 1
        block = range(column, end)
        lines += [] if column == 0 else [""]
        title = grid.title if beside and column == 0 else ""
        lines.append(f"{title:<{2 + first}}" + "".join(f"  {grid.heads[at]:>{widths[at]}}" for at in block))
        for name, (_, cells) in zip(names, grid.rows, strict=True):
            lines.append(f"  {name:<{first}}" + "".join(f"  {cells[at]:>{widths[at]}}" for at in block))
        column = end
    return lines


def grid_html(grid: Grid) -> str:
    """A grid as HTML; every text is escaped."""
    if not grid.rows:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th>{"".join(f"<td>{html.escape(cell)}</td>" for cell in cells)}</tr>'
        for name, cells in grid.rows
    )
    heads = "".join(f"<th>{html.escape(head)}</th>" for head in grid.heads)
    caption = f"<caption>{html.escape(grid.title)}</caption>"
    return f"<table>{caption}<thead><tr><th></th>{heads}</tr></thead><tbody>{rows}</tbody></table>"
