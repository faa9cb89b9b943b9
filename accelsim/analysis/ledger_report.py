"""The ledger as text and tables, with the ladders of the run where its machine is known."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

from accelsim.analysis.ladder import Rung, energy_ladder, performance_ladder, to_dict
from accelsim.analysis.ledger import ACCOUNTS, LABELS, Ledger, ledger
from accelsim.analysis.roofline import Point, roofline_points
from accelsim.analysis.sections import Row, Section, section_lines, section_table
from accelsim.engine.replay import TEMPLATE, recorded_accelerator
from accelsim.hardware.accelerator import Accelerator
from accelsim.timeline.table import Timeline
from accelsim.units import format_energy

MORE_WORDS = {"hidden_transfers": "its transfers took longer, behind other operators"}


@dataclass(frozen=True)
class LedgerReport:
    """A ledger to read: ``print`` it, show it in a notebook, or take :meth:`to_dict`."""

    title: str
    ledger: Ledger
    points: tuple[Point, ...]
    """Of the run and its operators, at DRAM; empty where the machine is not known."""
    operator: str | None = None
    """The only operator to be shown; None for the whole run."""

    @property
    def _row(self) -> int | None:
        return None if self.operator is None else self.ledger.operator_names.index(self.operator)

    @property
    def _point(self) -> Point | None:
        return next((point for point in self.points if point.name == (self.operator or "run")), None)

    def ladders(self) -> dict[str, tuple[Rung, ...]]:
        """``performance`` and ``energy``, from the roof to the point; empty where the machine is not known."""
        if (point := self._point) is None:
            return {}
        return {
            "performance": performance_ladder(self.ledger, point),
            "energy": energy_ladder(self.ledger, point),
        }

    def to_dict(self, per_layer: bool = False) -> dict[str, Any]:
        """As ``accelsim ledger --json`` prints it."""
        if self._row is not None:
            found = {
                "operator": self.operator,
                "cycles": {one.resource: one.by_label(self._row) for one in self.ledger.resources},
                "energy_pj": self.ledger.by_account(self._row),
            }
        else:
            found = self.ledger.to_dict(per_layer)
        return {**found, "ladders": {name: to_dict(rungs) for name, rungs in self.ladders().items()}}

    def sections(self) -> list[Section]:
        """Cycles of each resource, the energy, and the ladders."""
        found = []
        for one in self.ledger.resources:
            labels = one.by_label(self._row)
            total = max(sum(labels.values()), 1)
            rows = [Row(name, f"{cycles:,}", LABELS.get(name, ""), cycles / total) for name, cycles in labels.items()]
            found.append(Section(f"Cycles of {one.resource}, {sum(labels.values()):,}", rows))
        accounts = self.ledger.by_account(self._row)
        whole = sum(accounts.values())
        rows = [Row(name, format_energy(pj), _account_words(name), pj / whole) for name, pj in accounts.items()]
        found.append(Section(f"Energy, {format_energy(whole)}", rows))
        for name, unit in (("performance", "op/cycle"), ("energy", "op/pJ")):
            if rungs := self.ladders().get(name):
                found.append(Section(f"From the {name} roof to the point, {unit}", ladder_rows(rungs, unit)))
        return found

    def __str__(self) -> str:
        return "\n".join([self.title, *(line for section in self.sections() for line in section_lines(section))])

    def _repr_html_(self) -> str:
        return f"<h3>{html.escape(self.title)}</h3>" + "".join(section_table(section) for section in self.sections())


def ladder_rows(rungs: tuple[Rung, ...], unit: str) -> list[Row]:
    """A ladder as rows of a section: what is left after each loss, its factor, and its share of the distance."""
    last = rungs[0].value
    rows = [Row(rungs[0].name, f"{last:,.5g}", "the work at its peak rate" if unit == "op/cycle" else "the work alone")]
    for rung in rungs[1:]:
        words = LABELS.get(rung.name) or MORE_WORDS.get(rung.name) or _account_words(rung.name)
        rows.append(Row(rung.name, f"{rung.value:,.5g}", f"x {rung.value / last:.3f}  {words}", rung.share))
        last = rung.value
    return rows


def _account_words(name: str) -> str:
    return ACCOUNTS.get(name) or (ACCOUNTS["buffer.*"] if name.startswith("buffer.") else "")


def ledger_report(
    timeline: Timeline, accelerator: Accelerator | None = None, operator: str | None = None
) -> LedgerReport:
    """The ledger of a run, to read.

    Args:
        timeline: the run.
        accelerator: the machine that it ran on; by default the one that its provenance holds.
        operator: the only operator to show.

    Raises:
        InputError: the machine of the provenance cannot be read, or the run is another machine's.
        UnknownName: no such operator.
    """
    from accelsim.errors import UnknownName
    from accelsim.units import did_you_mean

    if accelerator is None and TEMPLATE in timeline.provenance:
        accelerator = recorded_accelerator(timeline)
    names = timeline.program.operator_names
    if operator is not None and operator not in names:
        raise UnknownName(f"no operator '{operator}' in this run{did_you_mean(operator, names)}")
    points = () if accelerator is None else roofline_points(accelerator, timeline)
    facts = timeline.program.facts
    title = f"{facts.get('workload', 'A trace')} on {facts.get('hardware', 'its machine')}"
    return LedgerReport(
        f"{operator} of {title}" if operator else title,
        ledger(timeline, accelerator),
        tuple(point for point in points if point.level == "dram"),
        operator,
    )
