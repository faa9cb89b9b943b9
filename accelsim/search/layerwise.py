"""Layer by layer: every operator a group of its own, cut until it fits, double-buffered."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from accelsim.errors import BufferOverflow, TilingNumberError
from accelsim.hardware.accelerator import Accelerator
from accelsim.schedule.columns import IntColumn, without_collector
from accelsim.schedule.living import LiveTensor, default_tensors, service_key
from accelsim.schedule.notation import DramTensor, Schedule, TensorKind
from accelsim.schedule.rules import check_buffer
from accelsim.schedule.tiling import Tiling, group_tiler, tile
from accelsim.schedule.tiling_exact import alike
from accelsim.search.objective import Objective
from accelsim.search.scheduler import Scheduler, SearchResult, Watch
from accelsim.workload.graph import Workload
from accelsim.workload.operator import Operator

MAXIMUM_TILES = 1 << 19
"""More tiles than this do not fit into the memory of a usual computer as a program."""


@dataclass(frozen=True)
class Layerwise(Scheduler):
    """One operator after another, each stored to DRAM before the next loads it; the baseline that everybody knows.

    Each operator gets the smallest power of two as tiling number under which its weights and two tiles of its inputs
    and of its output fit into the buffer. Where neighbours still overflow it together, the operator with the largest
    tiles there is cut once more, or, if that cannot be enough, the next operator's weights, and at last the inputs of
    its first tile, are no longer loaded ahead.
    Machines that count every operator as one tile get just that.
    """

    name: ClassVar[str] = "layerwise"
    text: ClassVar[str] = "every operator its own group, cut to fit, double-buffered; no search"

    @classmethod
    def from_options(cls, objective: Objective, seed: int) -> Layerwise:
        """Neither objective nor seed plays a part."""
        return cls()

    def search(self, workload: Workload, accelerator: Accelerator, watch: Watch | None = None) -> SearchResult:
        """See :meth:`Scheduler.search`."""
        if accelerator.dataflow.one_tile_per_operator:
            return SearchResult(_schedule(workload, [1] * len(workload.operators)), self.name, None)
        capacity = accelerator.buffers["global"].capacity_bytes
        with without_collector():
            return self._search(workload, capacity)

    def _search(self, workload: Workload, capacity: int) -> SearchResult:
        numbers = _smallest_numbers(workload, capacity)
        late = _Late(set(), set())
        tiler = cache(lambda name, number: group_tiler(workload.tile_rule)(workload, [workload.operator(name)], number))
        while True:
            schedule = _schedule(workload, numbers)
            tiling = tile(workload, schedule, lambda _, group, number: tiler(group[0].name, number))
            usage = _Usage(tiling, late)
            over = usage.bytes - capacity
            if over.max() <= 0:
                if late.weights or late.inputs:
                    tensors = [_delayed(tensor, late) for tensor in default_tensors(tiling)]
                    schedule = replace(schedule, dram_tensors=_service_order(tensors))
                return SearchResult(schedule, self.name, None)
            if not _relieve(tiling, usage, over, numbers, late):
                check_buffer(tiling, [_delayed(tensor, late) for tensor in default_tensors(tiling)], capacity)


def _schedule(workload: Workload, numbers: list[int]) -> Schedule:
    order = tuple(operator.name for operator in workload.operators)
    cuts = tuple(range(1, len(order)))
    return Schedule(workload.name, order, cuts, cuts, tuple(numbers))


def _smallest_numbers(workload: Workload, capacity_bytes: int) -> list[int]:
    """For each operator, the tiling number under which it fits alone.

    Raises:
        BufferOverflow: one of them does not fit.
        TilingNumberError: they are more than :data:`MAXIMUM_TILES` together.
    """
    numbers: list[int] = []
    tiles = 0
    for operator in workload.operators:
        numbers.append(_smallest_fitting(workload, operator, capacity_bytes))
        tiles += numbers[-1]
        if tiles > MAXIMUM_TILES:
            raise TilingNumberError(
                f"layer by layer, the first {len(numbers)} of {len(workload.operators)} operators of '{workload.name}' "
                f"take {tiles} tiles in a buffer of {capacity_bytes} bytes; the most that is accepted for all is "
                f"{MAXIMUM_TILES}. Enlarge buffers.global.capacity, shorten the sequence or take fewer samples"
            )
    return numbers


def _smallest_fitting(workload: Workload, operator: Operator, capacity_bytes: int) -> int:
    """The smallest tiling number of :func:`_next_number` under which the operator, double-buffered, fits alone.

    Raises:
        BufferOverflow: there is none.
    """
    number: int | None = 1
    least = None
    while number is not None:
        largest = largest_tile(workload, operator, number)
        assert largest is not None
        needed = operator.weight_bytes + min(2, number) * (largest.input_bytes + largest.output_bytes)
        if needed <= capacity_bytes:
            return number
        least = needed if least is None else min(least, needed)
        number = _next_number(workload, operator, number)
    raise BufferOverflow(
        f"operator '{operator.name}' needs at least {least} bytes of the global buffer, which holds {capacity_bytes}: "
        f"its weights take {operator.weight_bytes}, the rest are two tiles of its inputs and its output, cut as finely "
        "as they can be; enlarge buffers.global.capacity, or use another machine"
    )


class LargestTile(NamedTuple):
    """The most that a tile of an operator alone in its fused group reads and writes."""

    input_bytes: int
    output_bytes: int
    bytes: int
    """Of both in one tile."""


_LARGEST: WeakKeyDictionary[Workload, dict[tuple[int, int], LargestTile | None]] = WeakKeyDictionary()


def largest_tile(workload: Workload, operator: Operator, number: int) -> LargestTile | None:
    """Under a tiling number; None where the operator cannot be cut into so many."""
    kept = _LARGEST.setdefault(workload, {})
    key = (alike(workload, operator), number)
    if key not in kept:
        try:
            blocks = group_tiler(workload.tile_rule)(workload, [operator], number)[0]
            read = [sum(size for _, size in block.reads) for block in blocks]
            written = [block.output_bytes for block in blocks]
            kept[key] = LargestTile(max(read), max(written), max(map(sum, zip(read, written, strict=True))))
        except TilingNumberError:
            kept[key] = None
    return kept[key]


def _next_number(workload: Workload, operator: Operator, number: int) -> int | None:
    """The next larger power of two that the operator can be cut into, behind the last one the finest cut, or None."""
    finest = workload.batch * prod(operator.output.shape[axis] for axis in operator.tile_axes() if axis is not None)
    limit = workload.batch * operator.output.elements
    last = number
    while (number := 2 * number) <= limit:
        if largest_tile(workload, operator, number) is not None:
            return number
    return finest if finest > last and largest_tile(workload, operator, finest) is not None else None


class _Late(NamedTuple):
    """Operators, by place, of which nothing is loaded before their first tile's turn has come."""

    weights: set[int]
    inputs: set[int]
    """Those of the first tile."""


class _Usage:
    """What is alive at each position of a layer-by-layer schedule under double buffering.

    The inputs of a tile live from the position before it to its own, its output from its own to the next one of its
    operator, weights from the position before the first tile to the last tile; what is late, one position less.
    """

    def __init__(self, tiling: Tiling, late: _Late) -> None:
        steps = tiling.steps
        self.late = late
        self.place = [step.place for step in steps]
        self.inputs = [sum(size for _, size in step.block.reads) for step in steps]
        self.reads = [bool(step.block.reads) for step in steps]
        self.outputs = [step.block.output_bytes for step in steps]
        self.first = [tiling.first(place) for place in range(len(tiling.schedule.order))]
        workload = tiling.workload
        self.stored = [workload.is_output(name) or bool(workload.consumers[name]) for name in tiling.schedule.order]
        self.weights = [tiling.workload.operator(name).weight_bytes for name in tiling.schedule.order]
        self.bytes = np.zeros(len(steps) + 1, dtype=np.int64)
        """Bytes alive at each position, -1 first."""
        inputs, outputs = np.array(self.inputs, dtype=np.int64), np.array(self.outputs, dtype=np.int64)
        place = np.array(self.place)
        self.bytes[:-1] += inputs
        self.bytes[1:] += inputs + outputs
        stays = np.flatnonzero((place[1:] == place[:-1]) & np.array(self.stored)[place[1:]])
        self.bytes[stays + 2] += outputs[stays]
        for number, size in enumerate(self.weights):
            begin = self.first[number] + (number in late.weights)
            self.bytes[begin : tiling.last(number) + 2] += size
        for number in late.inputs:
            self.bytes[self.first[number]] -= inputs[self.first[number]]

    def tiles(self, position: int) -> dict[int, int]:
        """Bytes of the tiles alive at a position by the place of their operator, in the order of their service."""
        found: dict[int, int] = {}
        if position >= 0:
            found[self.place[position]] = self.inputs[position] + self.outputs[position]
            if position > 0 and self.place[position - 1] == self.place[position] and self.stored[self.place[position]]:
                found[self.place[position]] += self.outputs[position - 1]
        if position + 1 < len(self.place) and self.reads[position + 1]:
            place = self.place[position + 1]
            if place in self.late.inputs and self.first[place] == position + 1:
                return found
            found[place] = found.get(place, 0) + self.inputs[position + 1]
        return found

    def ahead(self, position: int) -> set[int]:
        """The operator of which something is alive at a position that may come later: weights, or its first inputs."""
        if position + 1 == len(self.place):
            return set()
        place = self.place[position + 1]
        if self.first[place] != position + 1:
            return set()
        weights_ahead = self.weights[place] and place not in self.late.weights
        inputs_ahead = self.reads[position + 1] and place not in self.late.inputs
        return {place} if weights_ahead or inputs_ahead else set()


def _relieve(tiling: Tiling, usage: _Usage, over_bytes: IntColumn, numbers: list[int], late: _Late) -> bool:
    """Relieves positions that overflow by ``over_bytes`` (position -1 first), once for each place; False if it
    cannot."""
    changed: set[int] = set()
    for row in np.flatnonzero(over_bytes > 0).tolist():
        position = row - 1
        tiles, ahead = usage.tiles(position), usage.ahead(position)
        here = {usage.place[position]} if position >= 0 and usage.weights[usage.place[position]] else set()
        if changed.isdisjoint(tiles) and changed.isdisjoint(ahead | here):
            weights_ahead = any(usage.weights[place] for place in ahead - late.weights)
            cuts_help = not weights_ahead or sum(tiles.values()) >= 2 * over_bytes[row]
            relieved = _relieve_position(tiling, tiles if cuts_help else {}, numbers)
            if not relieved:  # what comes ahead is delayed: weights first
                relieved = ahead
                (late.weights if weights_ahead else late.inputs).update(ahead)
            if not relieved:
                return False
            changed |= relieved
    return True


def _relieve_position(tiling: Tiling, tiles: dict[int, int], numbers: list[int]) -> set[int]:
    """Cuts the largest operator of ``tiles`` that can be cut finer; its place."""
    for place, _ in Counter(tiles).most_common():
        finer = _next_number(tiling.workload, tiling.workload.operators[place], numbers[place])
        if finer is not None:
            numbers[place] = finer
            return {place}
    return set()


def _delayed(tensor: LiveTensor, late: _Late) -> LiveTensor:
    """What is late is loaded when its operator's turn has come, not a tile ahead."""
    dram = tensor.dram
    of_weights = dram is not None and dram.kind is TensorKind.LOAD_WEIGHT and tensor.place in late.weights
    of_inputs = dram is not None and dram.kind is TensorKind.LOAD_INPUT and tensor.place in late.inputs
    if dram is None or not (of_weights or (of_inputs and tensor.tile == 0)):
        return tensor
    start = tensor.start + 1
    return tensor._replace(start=start, dram=replace(dram, start=start))


def _service_order(tensors: list[LiveTensor]) -> tuple[DramTensor, ...]:
    return tuple(sorted((tensor.dram for tensor in tensors if tensor.dram), key=service_key))
