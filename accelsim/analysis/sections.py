"""Sections of rows of text: made once, laid out for a terminal or as an HTML table."""

from __future__ import annotations

import html
from typing import NamedTuple

BAR_CHARACTERS = 30


class Row(NamedTuple):
    """One line of a section."""

    name: str
    value: str
    note: str = ""
    share: float | None = None
    """Of the section's whole, for a bar."""


class Section(NamedTuple):
    """A heading and its lines."""

    title: str
    rows: list[Row]


def section_lines(section: Section) -> list[str]:
    """A section as text, its columns aligned."""
    if not section.rows:
        return []
    name = max(len(row.name) for row in section.rows)
    value = max(len(row.value) for row in section.rows)
    lines = ["", section.title]
    for row in section.rows:
        share = "" if row.share is None else f"{100 * row.share:6.2f} %  {_bar(row.share)}"
        bar = f"{share:<{BAR_CHARACTERS + 12}}" if share and row.note else share
        lines.append(f"  {row.name:<{name}}  {row.value:>{value}}  {bar}{row.note}".rstrip())
    return lines


def _bar(share: float) -> str:
    """A bar of eighths of a character, so that small shares show."""
    eighths = round(share * BAR_CHARACTERS * 8)
    eighths = max(eighths, 1) if share > 0 else 0
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def section_table(section: Section) -> str:
    """A section as an HTML table; every text is escaped."""
    rows = []
    notes = any(row.note for row in section.rows)
    shares = any(row.share is not None for row in section.rows)
    for row in section.rows:
        cells = [f'<th scope="row">{html.escape(row.name)}</th>', f"<td>{html.escape(row.value)}</td>"]
        if row.share is not None:
            bar = f'<span class="bar"><span style="width:{100 * min(row.share, 1):.3f}%"></span></span>'
            cells.append(f"<td>{100 * row.share:.2f} %</td><td>{bar}</td>")
        if notes:
            span = ' colspan="3"' if shares and row.share is None else ""
            cells.append(f'<td class="note"{span}>{html.escape(row.note)}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><caption>{html.escape(section.title)}</caption>{''.join(rows)}</table>"
