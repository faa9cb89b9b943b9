"""Cuts a schedule's fused groups into tiles: the tile sequence, and what each tile computes, reads and writes.

The tile shapes themselves come from the workload's tile rule: ``tiling_soma.py`` or ``tiling_exact.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, isqrt, sqrt
from typing import NamedTuple

from accelsim.errors import TilingNumberError
from accelsim.schedule.notation import Schedule
from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.operator import Operator, Work
from accelsim.workload.tensor import Box


@dataclass(frozen=True, slots=True)
class Block:
    """What one tile of one operator is."""

    box: Box
    """The block of the output that it computes, samples first. SoMa's rule gives the shape only, placed at the
    origin."""
    work: Work
    output_bytes: int
    """On-chip size of its result, halo and inflation included."""
    stored_bytes: int
    """Bytes that go to DRAM if the result is stored."""
    reads: tuple[tuple[str, int], ...]
    """For each producer that it reads: its name and the bytes."""


class FusedGroup(NamedTuple):
    """A run of the computing order whose operators are tiled together."""

    begin: int
    """First operator, as an index into the order."""
    end: int
    tiles: int
    """The tiling number."""
    first_position: int
    """Position of its first tile in the tile sequence."""

    @property
    def size(self) -> int:
        """Number of operators."""
        return self.end - self.begin


class Step(NamedTuple):
    """One position of the tile sequence."""

    place: int
    """The operator, as an index into the order."""
    tile: int
    block: Block


@dataclass(frozen=True, eq=False)
class Tiling:
    """The tile sequence of a schedule: tile by tile within a fused group, operator by operator within a tile index."""

    workload: Workload
    schedule: Schedule
    groups: tuple[FusedGroup, ...]
    steps: tuple[Step, ...]

    @cached_property
    def place(self) -> dict[str, int]:
        """Operator name to its index in the order."""
        return {name: number for number, name in enumerate(self.schedule.order)}

    @cached_property
    def group_of(self) -> tuple[int, ...]:
        """For each place in the order, its fused group."""
        return tuple(number for number, group in enumerate(self.groups) for _ in range(group.size))

    @cached_property
    def layer_group_of(self) -> tuple[int, ...]:
        """For each place in the order, its layer group."""
        return tuple(n for n, (begin, end) in enumerate(self.schedule.layer_groups) for _ in range(begin, end))

    def position(self, place: int, tile: int) -> int:
        """Position in the sequence of a tile of the operator at ``place`` of the order."""
        group = self.groups[self.group_of[place]]
        return group.first_position + tile * group.size + place - group.begin

    def first(self, place: int) -> int:
        """Position of the operator's first tile."""
        return self.position(place, 0)

    def last(self, place: int) -> int:
        """Position of the operator's last tile."""
        return self.position(place, self.groups[self.group_of[place]].tiles - 1)


GroupTiler = Callable[[Workload, Sequence[Operator], int], list[list[Block]]]
"""From a workload, the operators of a fused group in order and its tiling number: for each operator its blocks.

Raises TilingNumberError where the number cannot be realised.
"""


def tile(workload: Workload, schedule: Schedule, tiler: GroupTiler | None = None) -> Tiling:
    """Cuts the fused groups of ``schedule`` into tiles.

    Order and cuts must be legal (:mod:`accelsim.schedule.rules`). ``tiler`` stands in for that of the workload's tile
    rule, to keep what it has cut before.

    Raises:
        TilingNumberError: a tiling number is too large for the shapes that it cuts.
    """
    tiler = tiler or group_tiler(workload.tile_rule)
    groups: list[FusedGroup] = []
    steps: list[Step] = []
    for (begin, end), tiles in zip(schedule.groups, schedule.tiling_numbers, strict=True):
        groups.append(FusedGroup(begin, end, tiles, len(steps)))
        blocks = tiler(workload, [workload.operator(name) for name in schedule.order[begin:end]], tiles)
        steps.extend(
            Step(place, number, blocks[place - begin][number]) for number in range(tiles) for place in range(begin, end)
        )
    return Tiling(workload, schedule, tuple(groups), tuple(steps))


def group_tiler(rule: TileRule) -> GroupTiler:
    """The function that cuts a fused group under ``rule``."""
    from accelsim.schedule import tiling_exact, tiling_soma

    return tiling_soma.tile_group if rule is TileRule.SOMA else tiling_exact.tile_group


def inside_consumers(workload: Workload, group: Sequence[Operator]) -> dict[str, list[Operator]]:
    """For each operator of a fused group, those of the group that read it. Pure output operators have none."""
    names = {operator.name for operator in group}
    found: dict[str, list[Operator]] = {operator.name: [] for operator in group}
    for operator in group:
        for producer in operator.producers():
            if producer in names:
                found[producer].append(operator)
    return found


class Parts(NamedTuple):
    """Into how many parts each dimension of a pure output operator is cut."""

    batch: int
    rows: int
    columns: int


def split_tiling_number(operator: Operator, batch: int, tiles: int, rows: int, columns: int) -> Parts:
    """Splits a tiling number over batch, rows and columns (HPCA 2025, section IV-B; as the artifact does).

    The batch comes first, since it needs no halo. The rest r becomes rows * columns with a ratio as near to that of the
    output as its divisors allow: of the nearest divisors around x = sqrt(r * columns / rows), the one whose distance
    |r/d - (rows/columns) d| is smaller, the upper one on a tie.

    Raises:
        TilingNumberError: a dimension has fewer elements than parts.
    """
    batch_parts = gcd(batch, tiles)
    rest = tiles // batch_parts
    ideal = sqrt(rest * columns / rows)
    small = [d for d in range(1, isqrt(rest) + 1) if rest % d == 0]
    divisors = small + [rest // d for d in reversed(small) if d * d < rest]
    below = [d for d in divisors if d <= ideal]
    above = [d for d in divisors if d > ideal]
    candidates = ([above[0]] if above else []) + ([below[-1]] if below else [])
    column_parts = min(candidates, key=lambda d: abs(rest / d - rows / columns * d))
    row_parts = rest // column_parts
    if row_parts > rows or column_parts > columns:
        raise TilingNumberError(
            f"tiling number {tiles} cuts '{operator.name}' ({batch} samples of {rows} x {columns}) into "
            f"{batch_parts} x {row_parts} x {column_parts} parts, more than it has; use a smaller one"
        )
    return Parts(batch_parts, row_parts, column_parts)
