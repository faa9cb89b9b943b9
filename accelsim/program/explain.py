"""A Program in words and tables, before it runs."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from accelsim.program.bounds import activity_cycles, busy_cycles, lower_bound_cycles
from accelsim.program.tables import ActivityKind, Program
from accelsim.units import printable

LEAST_TEXT = 24
"""Characters that the texts of a table get, however narrow the line."""


@dataclass(frozen=True)
class Explanation:
    """What a Program will do: :meth:`to_dict` as data, ``str()`` as text with at most ``rows`` rows a table."""

    program: Program
    rows: int = 40
    width: int | None = None
    """Characters of a line, beyond which texts go on in the next one; None: no limit, so one line a row."""

    def to_dict(self) -> dict[str, object]:
        """Resources, tiles by position, and transfers in service order, all rows."""
        program = self.program
        busy = busy_cycles(program)
        return {
            "facts": dict(program.facts),
            "lower_bound_cycles": lower_bound_cycles(program),
            "resources": [{"name": name, "busy_cycles": busy[name]} for name in program.resource_names],
            "buffers": [
                {"name": name, "capacity_bytes": int(capacity)}
                for name, capacity in zip(program.buffer_names, program.buffers.capacity_bytes, strict=True)
            ],
            "tiles": self._activities(ActivityKind.TILE),
            "transfers": self._activities(ActivityKind.LOAD, ActivityKind.STORE),
        }

    def _activities(self, *kinds: ActivityKind) -> list[dict[str, object]]:
        program = self.program
        activities, cycles = program.activities, activity_cycles(program)
        waits: dict[int, list[str]] = {}
        for before, after in zip(*program.dependencies, strict=True):
            waits.setdefault(int(after), []).append(activity_name(program, int(before)))
        claims: dict[int, int] = {}
        for taker, size in zip(program.claims.taken_by, program.claims.bytes, strict=True):
            claims[int(taker)] = claims.get(int(taker), 0) + int(size)
        rows = []
        for row in range(program.size):
            if activities.kind[row] not in kinds:
                continue
            found: dict[str, object] = {
                "activity": row,
                "name": activity_name(program, row),
                "queue": program.queue_names[activities.queue[row]],
                "cycles": int(cycles[row]),
            }
            if activities.kind[row] == ActivityKind.TILE:
                found |= {"position": int(activities.position[row]), "takes_bytes": claims.get(row, 0)}
            else:
                found["bytes"] = int(activities.bytes[row])
            rows.append({**found, "waits_for": waits.get(row, [])})
        return rows

    def __str__(self) -> str:
        content = self.to_dict()
        facts = self.program.facts
        lines = [
            *self._wrapped(
                "",
                f"{facts.get('workload', 'a program')} on {facts.get('hardware', 'a machine')}, "
                f"batch {facts.get('batch', 1)}: {self.program.size} activities",
            ),
            f"  at least {content['lower_bound_cycles']:,} cycles, the busy time of its busiest resource:",
        ]
        busy = busy_cycles(self.program)
        lines += [f"    {name:<12} {cycles:>14,} cycles busy" for name, cycles in busy.items()]
        for name, capacity in zip(self.program.buffer_names, self.program.buffers.capacity_bytes, strict=True):
            lines.append(f"    {name:<12} {int(capacity):>14,} bytes of buffer")
        lines += ["", "Tiles, in computing order", *self._table(self._activities(ActivityKind.TILE))]
        transfers = self._activities(ActivityKind.LOAD, ActivityKind.STORE)
        lines += ["", "Transfers, in service order", *self._table(transfers)]
        return "\n".join(map(printable, lines))

    def _table(self, rows: list[dict[str, object]]) -> list[str]:
        table = [("#", "cycles", "bytes", "what and what it waits for")]
        for row in rows[: self.rows]:
            waits = row["waits_for"]
            assert isinstance(waits, list)
            shown = ", ".join(waits[:3]) + (f" and {len(waits) - 3} more" if len(waits) > 3 else "")
            size = row.get("bytes", row.get("takes_bytes"))
            what = f"{row['name']}  after {shown}" if waits else str(row["name"])
            table.append((f"{row['activity']}", f"{row['cycles']:,}", f"{size:,}", what))
        widths = [max(len(line[column]) for line in table) for column in range(3)]
        lines = []
        for *figures, what in table:
            begin = "".join(f"  {figure:>{width}}" for figure, width in zip(figures, widths, strict=True)) + "  "
            lines += self._wrapped(begin, what)
        if len(rows) > self.rows:
            lines.append(f"  … {len(rows) - self.rows} more rows")
        return lines

    def _wrapped(self, begin: str, text: str) -> list[str]:
        """The text behind ``begin``; what has no room in the line goes on below its beginning."""
        if self.width is None:
            return [begin + text]
        room = max(self.width - len(begin), LEAST_TEXT)
        first, *rest = textwrap.wrap(text, room, subsequent_indent="  ") or [""]
        return [begin + first, *(" " * len(begin) + line for line in rest)]


def explain(program: Program, rows: int = 40, width: int | None = None) -> Explanation:
    """What ``program`` will do, in words and tables of at most ``rows`` rows and ``width`` characters."""
    return Explanation(program, rows, width)


def activity_name(program: Program, row: int) -> str:
    """An activity as people call it: ``conv1[3]``, ``load conv1.weights``, ``store conv1[3]``."""
    activities = program.activities
    tile = f"[{activities.tile[row]}]" if activities.tile[row] >= 0 else ""
    operator = program.operator_names[activities.operator[row]] if activities.operator[row] >= 0 else f"activity {row}"
    kind = ActivityKind(activities.kind[row])
    if kind is ActivityKind.TILE:
        return f"{operator}{tile}"
    tensor = program.tensor_names[activities.tensor[row]] if activities.tensor[row] >= 0 else operator
    if kind is ActivityKind.STORE or tensor.startswith(f"{operator}."):
        return f"{kind.name.lower()} {tensor}{tile}"
    return f"load {tensor} for {operator}{tile}"
