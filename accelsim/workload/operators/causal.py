"""Causal masks: which positions the rows of an attention matrix need, and how many pairs that makes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from accelsim.errors import WorkloadError
from accelsim.workload.tensor import Range


@dataclass(frozen=True, slots=True)
class CausalMask:
    """Row i needs the positions up to ``i + offset``, itself the last; with a ``window`` only the last so many of them.

    ``offset`` is the number of cached positions that stand before the first row. It may be negative where the positions
    begin behind the first row, as in a part of a matrix.
    """

    offset: int = 0
    window: int | None = None
    """Sliding-window attention (Jiang et al., "Mistral 7B", 2023, section 2): positions a row needs at the most."""

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise WorkloadError(f"a sliding window of {self.window} positions; expected at least 1")

    def span(self, rows: Range, positions: Range) -> Range:
        """The smallest block of ``positions`` that ``rows`` need; one position where they need none."""
        low, high = positions
        if self.window is not None:
            low = min(max(low, rows[0] + self.offset + 1 - self.window), high - 1)
        return low, min(max(rows[1] + self.offset, low + 1), high)

    def pairs(self, rows: Range, positions: Range) -> int:
        """Pairs of a row of ``rows`` and a position of ``positions`` that it needs."""
        first = self.offset + 1 - positions[0]
        size = positions[1] - positions[0]
        pairs = _clipped_sum(rows[0] + first, rows[1] + first, size)
        if self.window is not None:
            first -= self.window
            pairs -= _clipped_sum(rows[0] + first, rows[1] + first, size)
        return pairs

    def behind(self, begin: int) -> CausalMask:
        """The mask of the positions from ``begin`` on."""
        return replace(self, offset=self.offset - begin)


def _clipped_sum(begin: int, end: int, size: int) -> int:
    """Sum of min(max(t, 0), size) for t from ``begin`` up to, not including, ``end``."""

    def up_to(last: int) -> int:
        ramp = min(max(last, 0), size)
        return ramp * (ramp + 1) // 2 + max(last - size, 0) * size

    return up_to(end - 1) - up_to(begin - 1)


def rectangle(rows: int, pairs: int) -> tuple[int, int]:
    """Rows and width of a rectangle of ``pairs`` points: all rows at their mean width.

    Where the mean is a half, two rows are laid end to end. So a triangle or trapezoid is exact: its mean width is
    (first + last) / 2. Any other shape is rounded up by less than a point a row.
    """
    if 2 * pairs % rows == 0 and pairs % rows and rows % 2 == 0:
        return rows // 2, 2 * pairs // rows
    return rows, -(-pairs // rows)
