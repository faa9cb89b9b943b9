"""What a sweep found: a table of what was varied and what came of it, which runs are on the Pareto front, pictures."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from accelsim.errors import InputError, UnknownName
from accelsim.files import write_whole
from accelsim.plot.report_page import document
from accelsim.plot.study_figure import Curve, study_figure
from accelsim.plot.style import figure_bytes
from accelsim.sweep.spec import Value
from accelsim.sweep.store import OK, Result, ResultStore
from accelsim.units import did_you_mean

METRICS = ("latency_cycles", "energy_pj", "energy_delay_js", "utilization.mac", "gap_percent", "dram_bytes")
"""Columns of the table; any other figure of ``accelsim run --json`` can be asked for by its dotted name."""
LARGER_IS_BETTER = ("utilization.mac", "utilization.with_vector")
SAME_WORK = ("workload", "batch", "phase", "sequence_length", "context_length")
"""Runs that differ in one of these do other work: they are never on one Pareto front."""
PICTURES = (".png", ".svg", ".pdf")
SUFFIXES = (".html", ".csv", *PICTURES)


@dataclass(frozen=True)
class Study:
    """Results of a sweep, in the order of its description. Frozen: :meth:`where` and :meth:`sort` return a new one."""

    results: tuple[Result, ...]
    """Only those with an outcome."""
    open_runs: int = 0

    @property
    def varied(self) -> tuple[str, ...]:
        """The settings that are not the same in all runs."""
        names = dict.fromkeys(name for result in self.results for name in result.settings)
        return tuple(name for name in names if len({str(result.settings.get(name)) for result in self.results}) > 1)

    @property
    def good(self) -> tuple[Result, ...]:
        """The runs that came to their end."""
        return tuple(result for result in self.results if result.status == OK)

    def where(self, **settings: str) -> Study:
        """The runs with these settings, values compared as text.

        Raises:
            UnknownName: no run has such a setting.
        """
        kept = self.results
        for name, value in settings.items():
            self._check(name, {each for result in self.results for each in result.settings}, "setting")
            kept = tuple(result for result in kept if str(result.settings.get(name)) == value)
        return replace(self, results=kept)

    def sort(self, metric: str) -> Study:
        """Best first by a figure; runs without it last.

        Raises:
            UnknownName: no run has such a figure.
        """
        self._check_metric(metric)
        sign = -1 if metric in LARGER_IS_BETTER else 1

        def place(result: Result) -> tuple[bool, float]:
            value = figure(result, metric)
            return (value is None, 0.0 if value is None else sign * value)

        return replace(self, results=tuple(sorted(self.results, key=place)))

    def front(self) -> set[str]:
        """Keys of the runs on the Pareto front: no other with the same work is better in time or energy and as good in
        both."""
        keys: set[str] = set()
        alike: dict[tuple[object, ...], list[Result]] = {}
        for result in self.good:
            alike.setdefault(tuple(result.settings.get(name) for name in SAME_WORK), []).append(result)
        for results in alike.values():
            least = float("inf")
            costs = sorted(
                (
                    figure(r, "latency_seconds") or figure(r, "latency_cycles") or 0.0,
                    figure(r, "energy_pj") or 0.0,
                    r.key,
                )
                for r in results
            )
            last: tuple[float, float] | None = None
            for time, energy, key in costs:
                if energy < least or (time, energy) == last:
                    keys.add(key)
                    least, last = energy, (time, energy)
        return keys

    def rows(self, metrics: Sequence[str] = METRICS) -> Iterator[list[str]]:
        """The table as text: a line of names, then one line a run.

        Raises:
            UnknownName: no run has such a figure.
        """
        for metric in metrics:
            self._check_metric(metric)
        varied, front = self.varied, self.front()
        yield [*(name.removeprefix("set.") for name in varied), *metrics, "pareto", "status"]
        for result in self.results:
            settings = [_text(result.settings.get(name)) for name in varied]
            figures = [_number(figure(result, metric)) for metric in metrics]
            status = result.status if not result.message else f"{result.status}: {result.message.splitlines()[0]}"
            yield [*settings, *figures, "*" if result.key in front else "", status]

    def curves(self, x: str | None, y: str) -> tuple[str, list[Curve]]:
        """A figure over a setting, one curve for each combination of the other settings; with the setting's name.

        Args:
            x: the setting, with or without ``set.``; by default the first that varies and is a number or has a unit.
            y: the figure.

        Raises:
            UnknownName: no such setting, or no such figure.
            InputError: nothing varies that could be an axis.
        """
        varied = self.varied
        self._check_metric(y)
        if x is None:
            numeric = [
                name
                for name in varied
                if all(_leading(result.settings.get(name)) is not None for result in self.results)
            ]
            if not numeric:
                raise InputError("no setting of this study is a number: choose an axis from what varies with --x")
            x = numeric[0]
        elif x not in varied and f"set.{x}" in varied:
            x = f"set.{x}"
        self._check(x, set(varied), "varied setting")
        others = [name for name in varied if name != x]
        curves: dict[str, Curve] = {}
        for result in self.good:
            label = ", ".join(_text(result.settings.get(name)) for name in others)
            value, place = figure(result, y), result.settings.get(x)
            if value is not None and place is not None:
                curve = curves.setdefault(label, Curve(label, [], [], [], []))
                curve.places.append(_text(place))
                curve.values.append(value)
                curve.seconds.append(figure(result, "latency_seconds") or 0.0)
                curve.energy_pj.append(figure(result, "energy_pj") or 0.0)
        return x.removeprefix("set."), list(curves.values())

    def to_dict(self) -> dict[str, Any]:
        """As ``accelsim study show --json`` prints it; the same for the same results, however they were made."""
        front = self.front()
        runs = [
            {
                "settings": result.settings,
                "status": result.status,
                "message": result.message,
                "pareto": result.key in front,
                "summary": result.summary,
            }
            for result in self.results
        ]
        return {"varied": list(self.varied), "open": self.open_runs, "runs": runs}

    def save(
        self, path: str | Path, x: str | None = None, y: str = "latency_cycles", metrics: Sequence[str] = METRICS
    ) -> None:
        """Writes a page (``.html``), the table (``.csv``), or a picture (``.png``, ``.svg``, ``.pdf``).

        Raises:
            InputError: another suffix, nothing to draw, or the file cannot be written.
            MissingExtra: a picture, and matplotlib is not installed.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix == ".csv":
            text = io.StringIO(newline="")
            csv.writer(text, lineterminator="\n").writerows(self.rows(metrics))
            write_whole(path, text.getvalue().encode())
        elif suffix == ".html":
            write_whole(path, self._page(x, y, metrics).encode())
        elif suffix in PICTURES:
            write_whole(path, figure_bytes(study_figure(*self.curves(x, y), y), suffix))
        else:
            raise InputError(f"{path}: studies are written as {', '.join(SUFFIXES)}")

    def _page(self, x: str | None, y: str, metrics: Sequence[str]) -> str:
        body = ["<h1>A study</h1>", f"<p>{html.escape(self.sentence())}</p>"]
        try:
            picture = figure_bytes(study_figure(*self.curves(x, y), y), ".svg").decode()
            body.append(picture[picture.index("<svg") :])
        except InputError as error:
            if x is not None:
                raise
            body.append(f"<p>No picture: {html.escape(str(error))}.</p>")
        head, *rows = self.rows(metrics)
        cells = "".join(f"<th>{html.escape(name)}</th>" for name in head)
        lines = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        body.append(
            f'<div style="overflow-x: auto"><table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table></div>'
        )
        return document("A study", body)

    def sentence(self) -> str:
        """How many runs there are, how they ended, and what was varied."""
        counts: dict[str, int] = {}
        for result in self.results:
            counts[result.status] = counts.get(result.status, 0) + 1
        ended = ", ".join(f"{count} {status}" for status, count in counts.items()) or "none"
        waiting = f", {self.open_runs} not run yet" if self.open_runs else ""
        varied = ", ".join(name.removeprefix("set.") for name in self.varied) or "nothing"
        star = "A star marks the Pareto front of time and energy."
        return f"{len(self.results)} runs ({ended}{waiting}); varied: {varied}. {star}"

    def __str__(self) -> str:
        return self.text()

    def text(self, metrics: Sequence[str] = METRICS) -> str:
        """The table, aligned.

        Raises:
            UnknownName: no run has such a figure.
        """
        rows = list(self.rows(metrics))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
        lines = [
            "  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows
        ]
        return "\n".join([self.sentence(), "", *lines])

    def _check_metric(self, metric: str) -> None:
        self._check(metric, {*METRICS, *(name for result in self.good for name in _figures(result.summary))}, "figure")

    def _check(self, name: str, known: Iterable[str], kind: str) -> None:
        known = sorted(known)
        if name not in known:
            near = did_you_mean(name, known)
            raise UnknownName(f"no {kind} '{name}'{near}; there are {', '.join(known) or 'none'}")


def load_study(path: str | Path) -> Study:
    """The results in a file of ``accelsim sweep``. Of runs made again with other code, the last ones.

    Raises:
        InputError: no such file.
        FormatError: it is something else, or damaged.
    """
    with ResultStore(path, must_exist=True) as store:
        newest = {str(sorted(result.settings.items())): result for result in store.results()}
    done = tuple(result for result in newest.values() if result.status != "open")
    return Study(done, len(newest) - len(done))


def figure(result: Result, name: str) -> float | None:
    """A figure of a run by its dotted name, None if it has none; ``energy_delay_js`` and ``dram_bytes`` are made of
    others."""
    summary = result.summary
    if not summary:
        return None
    if name == "dram_bytes":
        return float(summary["dram_read_bytes"] + summary["dram_write_bytes"])
    if name == "energy_delay_js":
        seconds = summary.get("latency_seconds")
        return None if seconds is None else summary["energy_pj"] * 1e-12 * seconds
    return _figures(summary).get(name)


def _figures(summary: dict[str, Any], before: str = "") -> dict[str, float]:
    """All numbers of a nested summary, by dotted name."""
    found: dict[str, float] = {}
    for name, value in summary.items():
        if isinstance(value, dict):
            found |= _figures(value, f"{before}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found[before + name] = value
    return found


def _leading(value: Value | None) -> float | None:
    """The number with which a setting begins."""
    try:
        return float(str(value).split()[0])
    except (ValueError, IndexError):
        return None


def _text(value: Value | None) -> str:
    return "" if value is None else str(value)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.4g}"
