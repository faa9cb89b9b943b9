"""The comparison of two runs: where the cycles, the energy and the bytes went, as data, text and tables.

Every difference is B less A, and each table adds up to its difference exactly.
"""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module

from accelsim.analysis.compare_sentences import sentences
from accelsim.analysis.energy import energy_by_part_pj, energy_pj
from accelsim.analysis.grids import ROWS, Grid, grid_html, grid_lines, most_different
from accelsim.analysis.report import known, report
from accelsim.analysis.traffic import traffic_by_tensor
from accelsim.timeline.compare import TransferAlignment, align_transfers, identical, path_cycles
from accelsim.timeline.stalls import cycles_by_cause, cycles_by_operator
from accelsim.timeline.table import Timeline
from accelsim.units import format_bytes, format_energy, format_seconds, printable

HEADS = ("A", "B", "B less A")


def compare(a: Timeline, b: Timeline) -> Comparison:
    """Compares run B with run A: print it, show it in a notebook, or take its ``to_dict()``.

    Machines, schedules and versions of the workload may differ; operators and tensors are matched by name.
    """
    return Comparison(a, b)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Run B seen from run A."""

    a: Timeline
    b: Timeline

    @cached_property
    def identical(self) -> bool:
        """The same program, and every event the same."""
        return identical(self.a, self.b)

    @property
    def latency_cycles(self) -> int:
        """Latency of B less that of A."""
        return self.b.latency_cycles - self.a.latency_cycles

    @property
    def seconds(self) -> tuple[float, float] | None:
        """The latencies of A and B, if both clocks are known."""
        clocks = [known(timeline.program, "clock_hz") for timeline in (self.a, self.b)]
        a, b = (clock if clock and math.isfinite(clock) else None for clock in clocks)
        return None if a is None or b is None else (self.a.latency_cycles / a, self.b.latency_cycles / b)

    @property
    def times_as_long(self) -> float:
        """Latency of B over that of A: in seconds if both clocks are known, else in cycles."""
        a, b = self.seconds or (self.a.latency_cycles, self.b.latency_cycles)
        return b / a if a else (math.inf if b else 1.0)

    @cached_property
    def cycles_by_cause(self) -> dict[str, int]:
        """Adds up to :attr:`latency_cycles`."""
        return _differences(cycles_by_cause(self.a), cycles_by_cause(self.b))

    @cached_property
    def cycles_by_operator(self) -> dict[str, int]:
        """Waiting included; adds up to :attr:`latency_cycles`. An operator of only one run counts 0 in the other."""
        return _differences(cycles_by_operator(self.a), cycles_by_operator(self.b))

    @cached_property
    def energy_by_part_pj(self) -> dict[str, float]:
        """Adds up to :attr:`energy_pj` in whatever order one adds: all are multiples of one power of two."""
        a, b = energy_by_part_pj(self.a), energy_by_part_pj(self.b)
        return on_one_grid({part: b.get(part, 0.0) - a.get(part, 0.0) for part in {**a, **b}})

    @property
    def energy_pj(self) -> float:
        """Energy of B less that of A, to the last bit but a few."""
        return sum(self.energy_by_part_pj.values())

    @cached_property
    def dram_bytes_by_tensor(self) -> dict[str, int]:
        """Bytes to and from memory; adds up to :attr:`dram_bytes`."""
        return _differences(_bytes(self.a), _bytes(self.b))

    @property
    def dram_bytes(self) -> int:
        """Bytes to and from memory in B less those in A."""
        return sum(self.dram_bytes_by_tensor.values())

    @cached_property
    def operators_only_in(self) -> tuple[list[str], list[str]]:
        """Names of the operators that only A has, and that only B has."""
        a, b = self.a.program.operator_names, self.b.program.operator_names
        return [name for name in a if name not in set(b)], [name for name in b if name not in set(a)]

    @cached_property
    def stays_on_chip_in(self) -> tuple[dict[str, int], dict[str, int]]:
        """Tensors that both programs have and that move over a link in one run only: those that stay on chip in A, with
        the bytes that B moves, and those that stay on chip in B, with the bytes that A moves."""
        a, b = _bytes(self.a), _bytes(self.b)
        common = set(self.a.program.tensor_names) & set(self.b.program.tensor_names)
        return (
            {name: size for name, size in b.items() if name in common and name not in a},
            {name: size for name, size in a.items() if name in common and name not in b},
        )

    @cached_property
    def transfers(self) -> TransferAlignment:
        """The transfers of both runs, matched by name."""
        return align_transfers(self.a, self.b)

    @cached_property
    def critical_paths(self) -> tuple[tuple[dict[str, int], dict[str, int]], tuple[dict[str, int], dict[str, int]]]:
        """Of A and of B: cycles of the critical path by kind and by operator; each adds up to the latency."""
        return path_cycles(self.a), path_cycles(self.b)

    @cached_property
    def sentences(self) -> list[str]:
        """What one would say about the two runs, most important first."""
        return sentences(self)

    @property
    def title(self) -> str:
        """What is compared, in a line."""
        return f"A: {report(self.a).title}; B: {report(self.b).title}"

    def to_dict(self) -> dict[str, object]:
        """All figures, as ``accelsim compare --json`` prints them."""
        moved = self.transfers.both
        (kind_a, operator_a), (kind_b, operator_b) = self.critical_paths
        return {
            "identical": self.identical,
            "difference": {
                "latency_cycles": self.latency_cycles,
                "energy_pj": self.energy_pj,
                "dram_bytes": self.dram_bytes,
            },
            "cycles_by_cause": self.cycles_by_cause,
            "cycles_by_operator": self.cycles_by_operator,
            "energy_by_part_pj": self.energy_by_part_pj,
            "sentences": self.sentences,
            "a": self.side(self.a),
            "b": self.side(self.b),
            "dram_bytes_by_tensor": self.dram_bytes_by_tensor,
            "operators_only_in": dict(zip("ab", self.operators_only_in, strict=True)),
            "stays_on_chip_in": dict(zip("ab", self.stays_on_chip_in, strict=True)),
            "transfers": {
                "in_both": len(moved),
                "only_in_a": self.transfers.only_a,
                "only_in_b": self.transfers.only_b,
                "earlier": sum(one.shift_cycles < 0 for one in moved),
                "later": sum(one.shift_cycles > 0 for one in moved),
                "moved": [{"name": one.name, "shift_cycles": one.shift_cycles} for one in moved if one.shift_cycles],
            },
            "critical_path": {
                "by_kind": {"a": kind_a, "b": kind_b},
                "by_operator": {"a": operator_a, "b": operator_b},
            },
        }

    @staticmethod
    def side(timeline: Timeline) -> dict[str, object]:
        """The figures of one run that comparisons quote."""
        facts, provenance = timeline.program.facts, timeline.provenance
        return {
            "workload": facts.get("workload"),
            "hardware": facts.get("hardware"),
            "scheduler": provenance.get("scheduler"),
            "latency_cycles": timeline.latency_cycles,
            "energy_pj": energy_pj(timeline),
            "dram_bytes": sum(_bytes(timeline).values()),
        }

    def grids(self, rows: int | None = ROWS) -> list[Grid]:
        """All that differs, line by line; of the long tables the ``rows`` lines that differ most."""
        (kind_a, operator_a), (kind_b, operator_b) = self.critical_paths
        causes = cycles_by_cause(self.a), cycles_by_cause(self.b)
        operators = cycles_by_operator(self.a), cycles_by_operator(self.b)
        parts = energy_by_part_pj(self.a), energy_by_part_pj(self.b)
        return [
            self._key_figures(),
            _grid("Cycles by cause", *causes, _cycles),
            _grid("Cycles by operator, waiting included", *operators, _cycles, rows),
            _grid("Energy by part", *parts, format_energy),
            _grid("Bytes to and from memory, by tensor", _bytes(self.a), _bytes(self.b), _whole_bytes, rows),
            _grid("Critical path, by kind", kind_a, kind_b, _cycles),
            _grid("Critical path, by operator", operator_a, operator_b, _cycles, rows),
            self._moved(rows),
        ]

    def _key_figures(self) -> Grid:
        rows = [_row("Latency, cycles", self.a.latency_cycles, self.b.latency_cycles, _cycles)]
        if self.seconds is not None:
            rows.append(_row("Latency", *self.seconds, format_seconds))
        rows.append(_row("Energy", energy_pj(self.a), energy_pj(self.b), format_energy))
        bytes_a, bytes_b = (sum(_bytes(timeline).values()) for timeline in (self.a, self.b))
        rows.append(_row("Bytes to and from memory", bytes_a, bytes_b, _whole_bytes))
        return Grid("Key figures", HEADS, rows)

    def _moved(self, rows: int | None) -> Grid:
        moved = sorted((one for one in self.transfers.both if one.shift_cycles), key=lambda one: -abs(one.shift_cycles))
        lines = [
            (one.name, (_cycles(one.start_a_cycles), _cycles(one.start_b_cycles), f"{one.shift_cycles:+,}"))
            for one in moved[:rows]
        ]
        return Grid("Transfers that moved, by the cycle at which they start", HEADS, lines)

    def __str__(self) -> str:
        said = "\n".join(bullets(self.sentences))
        head = f"A: {report(self.a).title}\nB: {report(self.b).title}\n\n{said}"
        lines = [] if self.identical else [line for grid in self.grids() for line in grid_lines(grid)]
        return printable("\n".join([head, *lines]))

    def _repr_html_(self) -> str:
        tables = "" if self.identical else "".join(map(grid_html, self.grids()))
        viewer = import_module("accelsim.plot.notebook").viewer_frame([("A", self.a), ("B", self.b)])
        return f"<h3>{html.escape(self.title)}</h3>{self.sentences_html()}{viewer}{tables}"

    def sentences_html(self) -> str:
        """The sentences as a list; every text is escaped."""
        return f"<ul>{''.join(f'<li>{html.escape(sentence)}</li>' for sentence in self.sentences)}</ul>"


def bullets(sentences: Sequence[str], width: int = 80) -> list[str]:
    """The lines of a list of sentences."""
    lines = []
    for sentence in sentences:
        lines += textwrap.wrap(
            sentence, width, initial_indent="* ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
    return lines


def on_one_grid(values: Mapping[str, float]) -> dict[str, float]:
    """The values rounded to multiples of one power of two, so that they add up without rounding in any order.

    The power is 2^-52 of their sum of magnitudes or less, which is about the error that each of them has already.
    """
    whole = math.fsum(abs(value) for value in values.values())
    if not whole or not math.isfinite(whole):
        return dict(values)
    step = math.ldexp(1.0, max(math.frexp(whole)[1] - 52, -1074))
    return {name: round(value / step) * step for name, value in values.items()}


def _differences(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    return {name: b.get(name, 0) - a.get(name, 0) for name in {**a, **b}}


def _bytes(timeline: Timeline) -> dict[str, int]:
    return {name: moved.total_bytes for name, moved in traffic_by_tensor(timeline.program).items()}


def _cycles(value: float) -> str:
    return f"{value:,.0f}"


def _whole_bytes(value: float) -> str:
    return format_bytes(int(value))


def _row(name: str, a: float, b: float, shown: Callable[[float], str]) -> tuple[str, Sequence[str]]:
    change = f" ({100 * (b - a) / a:+.1f} %)" if a and b != a else ""
    sign = "+" if b > a else "-" if b < a else ""
    return name, (shown(a), shown(b), f"{sign}{shown(abs(b - a))}{change}")


def _grid(
    title: str,
    a: Mapping[str, float],
    b: Mapping[str, float],
    shown: Callable[[float], str],
    rows: int | None = None,
) -> Grid:
    """A row for each name; if there are more than ``rows``, those that differ most, and all others in one."""
    names, rest = most_different((a, b), rows)
    lines = [_row(name or "(unnamed)", a.get(name, 0), b.get(name, 0), shown) for name in names]
    if rest:
        rest_a, rest_b = (math.fsum(side.get(name, 0) for name in rest) for side in (a, b))
        lines.append(_row(f"{len(rest):,} others", rest_a, rest_b, shown))
    return Grid(title, HEADS, [*lines, _row("together", math.fsum(a.values()), math.fsum(b.values()), shown)])
