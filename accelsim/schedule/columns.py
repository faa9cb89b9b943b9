"""The tensors of a tiled schedule as columns, for what is asked of hundreds of thousands of them at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accelsim.schedule.living import LiveTensor
from accelsim.schedule.notation import TensorKind
from accelsim.schedule.tiling import Tiling

IntColumn = npt.NDArray[np.int64]

ON_CHIP, LOAD_WEIGHT, LOAD_INPUT, STORE_OUTPUT = range(4)
_KINDS = {
    TensorKind.LOAD_WEIGHT: LOAD_WEIGHT,
    TensorKind.LOAD_INPUT: LOAD_INPUT,
    TensorKind.STORE_OUTPUT: STORE_OUTPUT,
}


class LiveColumns(NamedTuple):
    """One row a tensor, in the order given: those that DRAM moves first."""

    place: IntColumn
    tile: IntColumn
    """-1 for weights."""
    bytes: IntColumn
    start: IntColumn
    end: IntColumn
    moved_bytes: IntColumn
    kind: IntColumn
    """:data:`ON_CHIP`, :data:`LOAD_WEIGHT`, :data:`LOAD_INPUT` or :data:`STORE_OUTPUT`."""
    dram_end: IntColumn
    """End of the living duration as scheduled, which readers on chip may exceed; 0 on chip."""
    position: IntColumn
    """Of the tile that it belongs to; of an operator's first tile for weights."""
    last: IntColumn
    """Position of the last tile of its operator."""

    @property
    def moved(self) -> int:
        """How many of the tensors DRAM moves."""
        return int(np.count_nonzero(self.kind))


def columns_of(tiling: Tiling, tensors: Sequence[LiveTensor]) -> LiveColumns:
    """The columns of the tensors of a schedule."""
    rows = [
        (t.place, -1 if t.tile is None else t.tile, t.bytes, t.start, t.end, t.moved_bytes)
        + ((_KINDS[t.dram.kind], t.dram.end) if t.dram is not None else (ON_CHIP, 0))
        for t in tensors
    ]
    table = np.ascontiguousarray(np.array(rows, dtype=np.int64).reshape(-1, 8).T)
    place, tile, size_bytes, start, end, moved_bytes, kind, dram_end = table
    groups = [tiling.groups[number] for number in tiling.group_of]
    first = np.array([group.first_position + at - group.begin for at, group in enumerate(groups)], dtype=np.int64)
    size = np.array([group.size for group in groups], dtype=np.int64)
    tiles = np.array([group.tiles for group in groups], dtype=np.int64)
    position = first[place] + np.maximum(tile, 0) * size[place]
    last = first[place] + (tiles[place] - 1) * size[place]
    return LiveColumns(place, tile, size_bytes, start, end, moved_bytes, kind, dram_end, position, last)


@contextmanager
def without_collector() -> Iterator[None]:
    """Python's cyclic collector at rest: it would walk millions of tuples, which form no cycles, again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
