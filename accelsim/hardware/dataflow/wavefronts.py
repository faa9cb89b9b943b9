"""How a tile's matrices lie in the words of a buffer: the wavefronts of each, in words.

A dataflow says which wavefronts it takes, and how often; everything has one byte but sums to which others still add.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.hardware.dataflow.dataflow import IntColumn, TileColumns
from accelsim.hardware.ports import Ports, Run, Words, words_across, words_along


class Matrices(NamedTuple):
    """Tiles as products, and how they lie in the buffer."""

    M: IntColumn
    N: IntColumn
    K: IntColumn
    tiles: TileColumns
    ports: Ports

    def inputs(self, along: str, fold: int) -> Words:
        """Wavefronts of the M x K inputs along their positions or terms, one for each fold of that dimension."""
        tiles = self.tiles
        channels = tiles.channels // tiles.groups
        if along == "terms":
            if self.ports.layout.inputs == along:  # the channels of a pixel lie side by side
                return words_along(Run(self.K, channels, np.ones_like(self.K)), fold, 1, self.ports)
            return words_across(self.K, self.M, fold, 1, self.ports)
        if self.ports.layout.inputs == along:
            whole = (tiles.kernel_rows * tiles.kernel_columns * tiles.stride_rows * tiles.stride_columns) == 1
            return words_along(
                Run(self.M, np.where(whole, self.M, tiles.columns), tiles.stride_columns), fold, 1, self.ports
            )
        return words_across(self.M, channels * tiles.stride_columns, fold, 1, self.ports)

    def weights(self, along: str, fold: int) -> Words:
        """The same of the K x N weights, along their terms or filters."""
        size, other = (self.K, self.N) if along == "terms" else (self.N, self.K)
        return self._matrix(size, other, self.ports.layout.weights == along, fold, 1)

    def outputs(self, along: str, fold: int, element_bytes: int) -> Words:
        """The same of the M x N outputs, or of sums, along their positions or filters."""
        size, other = (self.M, self.N) if along == "positions" else (self.N, self.M)
        return self._matrix(size, other, self.ports.layout.outputs == along, fold, element_bytes)

    def _matrix(self, size: IntColumn, other: IntColumn, side_by_side: bool, fold: int, element_bytes: int) -> Words:
        if side_by_side:
            return words_along(Run(size, size, np.ones_like(size)), fold, element_bytes, self.ports)
        return words_across(size, other, fold, element_bytes, self.ports)
