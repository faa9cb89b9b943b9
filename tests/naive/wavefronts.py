"""Words of a buffer that wavefronts touch, address by address. Knows no closed form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


class Counted:
    """Words of wavefronts, counted address by address."""

    def __init__(self, width: int, banks: int) -> None:
        self.width, self.banks = width, banks
        self.touched = self.served = 0

    def side_by_side(self, lanes: Iterable[int], piece: int, step: int = 1, size: int = 1) -> None:
        words = set()
        for lane in lanes:
            first = lane % piece * step * size
            words |= {(lane // piece, byte // self.width) for byte in range(first, first + size)}
        self.touched += len(words)
        self.served += len(words)

    def across(self, lanes: Iterable[int], length: int, size: int = 1) -> None:
        pitch = -(-length * size // self.width) | 1
        lanes = list(lanes)
        each = -(-size // self.width)
        in_bank = Counter(lane * pitch % self.banks for lane in lanes)
        fullest, even = max(in_bank.values()), -(-len(lanes) // self.banks)
        self.touched += len(lanes) * each
        self.served += -(-len(lanes) * fullest // even) * each


def folds(size: int, by: int) -> list[range]:
    return [range(first, min(first + by, size)) for first in range(0, size, by)]
