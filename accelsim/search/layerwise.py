"""Layer by layer: every operator a group of its own, cut until it fits, double-buffered."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import ClassVar

from accelsim.errors import BufferOverflow, TilingNumberError
from accelsim.hardware.accelerator import Accelerator
from accelsim.schedule.living import LiveTensor, default_tensors, service_key, usage_bytes
from accelsim.schedule.notation import DramTensor, Schedule, TensorKind
from accelsim.schedule.rules import check_buffer
from accelsim.schedule.tiling import Block, Tiling, group_tiler, tile
from accelsim.search.objective import Objective
from accelsim.search.scheduler import Scheduler, SearchResult, Watch
from accelsim.workload.graph import Workload
from accelsim.workload.operator import Operator

MAXIMUM_TILES = 1 << 18
"""More tiles than this do not fit into the memory of a usual computer as a program."""


@dataclass(frozen=True)
class Layerwise(Scheduler):
    """One operator after another, each stored to DRAM before the next loads it; the baseline that everybody knows.

    Each operator gets the smallest power of two as tiling number under which its weights and two tiles of its inputs
    and of its output fit into the buffer. Where neighbours still overflow it together, the operator with the largest
    tiles there is cut once more, or, if that cannot be enough, the next operator's weights are no longer loaded ahead.
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
        numbers = _smallest_numbers(workload, capacity)
        late: set[int] = set()
        tiler = cache(lambda name, number: group_tiler(workload.tile_rule)(workload, [workload.operator(name)], number))
        while True:
            schedule = _schedule(workload, numbers)
            tiling = tile(workload, schedule, lambda _, group, number: tiler(group[0].name, number))
            tensors = [_delayed(tensor, late) for tensor in default_tensors(tiling)]
            usage = usage_bytes(tensors, len(tiling.steps))
            peak = max(usage)
            if peak <= capacity:
                if late:
                    schedule = replace(schedule, dram_tensors=_service_order(tensors))
                return SearchResult(schedule, self.name, None)
            if not _relieve(tiling, tensors, [size - capacity for size in usage], numbers, late):
                check_buffer(tiling, tensors, capacity)


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
    """The smallest realisable power of two under which the operator, double-buffered, fits alone; else the finest cut.

    Raises:
        BufferOverflow: there is none.
    """
    number: int | None = 1
    least = None
    while number is not None:
        blocks = blocks_of(workload, operator, number)
        assert blocks is not None
        needed = _double_buffered_bytes(operator, blocks)
        if needed <= capacity_bytes:
            return number
        least = needed if least is None else min(least, needed)
        number = _next_number(workload, operator, number)
    finest = workload.batch * prod(operator.output.shape[axis] for axis in operator.tile_axes() if axis is not None)
    blocks = blocks_of(workload, operator, finest)
    if blocks is not None:
        needed = _double_buffered_bytes(operator, blocks)
        if needed <= capacity_bytes:
            return finest
        least = needed if least is None else min(least, needed)
    raise BufferOverflow(
        f"operator '{operator.name}' needs at least {least} bytes of the global buffer, which holds {capacity_bytes}: "
        f"its weights take {operator.weight_bytes}, the rest are two tiles of its inputs and its output, cut as finely "
        "as they can be; enlarge buffers.global.capacity, or use another machine"
    )


def _double_buffered_bytes(operator: Operator, blocks: list[Block]) -> int:
    inputs = max(sum(size for _, size in block.reads) for block in blocks)
    outputs = max(block.output_bytes for block in blocks)
    return operator.weight_bytes + min(2, len(blocks)) * (inputs + outputs)


def blocks_of(workload: Workload, operator: Operator, number: int) -> list[Block] | None:
    """The tiles of an operator alone in its fused group; None where it cannot be cut into so many."""
    try:
        return group_tiler(workload.tile_rule)(workload, [operator], number)[0]
    except TilingNumberError:
        return None


def _next_number(workload: Workload, operator: Operator, number: int) -> int | None:
    """The next larger power of two that the operator can be cut into, or None."""
    limit = workload.batch * operator.output.elements
    while (number := 2 * number) <= limit:
        if blocks_of(workload, operator, number) is not None:
            return number
    return None


def _relieve(
    tiling: Tiling, tensors: list[LiveTensor], over_bytes: list[int], numbers: list[int], late: set[int]
) -> bool:
    """Relieves positions that overflow by ``over_bytes`` (position -1 first), once for each place; False if it
    cannot."""
    full = [row - 1 for row, over in enumerate(over_bytes) if over > 0]
    alive: dict[int, list[LiveTensor]] = {position: [] for position in full}
    for tensor in tensors:
        for position in full[bisect_left(full, tensor.start) : bisect_left(full, tensor.end)]:
            alive[position].append(tensor)
    changed: set[int] = set()
    for position in full:
        if changed.isdisjoint(tensor.place for tensor in alive[position]):
            relieved = _relieve_position(tiling, alive[position], position, over_bytes[position + 1], numbers, late)
            if not relieved:
                return False
            changed |= relieved
    return True


def _relieve_position(
    tiling: Tiling, alive: list[LiveTensor], position: int, over_bytes: int, numbers: list[int], late: set[int]
) -> set[int]:
    """Cuts an operator finer, or delays weights; the places that it changed."""
    tiles: Counter[int] = Counter()
    for tensor in alive:
        if tensor.tile is not None:
            tiles[tensor.place] += tensor.bytes
    ahead = {tensor.place for tensor in alive if tensor.tile is None and tiling.first(tensor.place) > position}
    if not ahead or sum(tiles.values()) >= 2 * over_bytes:
        for place, _ in tiles.most_common():
            finer = _next_number(tiling.workload, tiling.workload.operators[place], numbers[place])
            if finer is not None:
                numbers[place] = finer
                return {place}
    late |= ahead
    return ahead


def _delayed(tensor: LiveTensor, late: set[int]) -> LiveTensor:
    """Weights of an operator in ``late`` are loaded when its first tile's turn has come, not a tile ahead."""
    dram = tensor.dram
    if dram is None or dram.kind is not TensorKind.LOAD_WEIGHT or tensor.place not in late:
        return tensor
    start = tensor.start + 1
    return tensor._replace(start=start, dram=replace(dram, start=start))


def _service_order(tensors: list[LiveTensor]) -> tuple[DramTensor, ...]:
    return tuple(sorted((tensor.dram for tensor in tensors if tensor.dram), key=service_key))
