"""Living durations: every tensor that a tiled schedule keeps in the buffer, how large it is, and from when to when.

Follows HPCA 2025, sections IV and V. Positions count the tiles of the whole network; -1 stands for "before anything".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from accelsim.errors import DramTensorError
from accelsim.schedule.notation import DramTensor, TensorKind
from accelsim.schedule.tiling import Step, Tiling

_Key = tuple[TensorKind, str, int | None, str | None]


class LiveTensor(NamedTuple):
    """A tensor in the buffer during the tile positions [start, end)."""

    place: int
    """The operator that it belongs to, as an index into the order: that it feeds, or that writes it."""
    tile: int | None
    bytes: int
    """Size on chip."""
    start: int
    end: int
    dram: DramTensor | None
    """The DRAM tensor that moves it, with the gate positions as scheduled; None if it never leaves the chip."""
    moved_bytes: int
    """Bytes of the transfer; 0 without one."""
    least_end: int
    """Stores: the end that its readers on chip need. Else: ``end``."""


def default_tensors(tiling: Tiling) -> list[LiveTensor]:
    """All tensors of the schedule with the living durations of double buffering, DRAM tensors in their default order.

    A load may begin one position before its first use; a store must be done two positions after its tile, or one if
    that was the last of its layer group. The order is by start, weights first, then end, loads of inputs before stores.
    """
    tensors: list[LiveTensor] = []
    for place in range(len(tiling.schedule.order)):
        tensors.extend(_weights(tiling, place))
    results = [_result(tiling, place) for place in range(len(tiling.schedule.order))]
    loaded = [_loaded(tiling, place) for place in range(len(tiling.schedule.order))]
    for position, step in enumerate(tiling.steps):
        tensors.extend(_inputs(tiling, position, step, loaded[step.place]))
        tensors.append(_output(tiling, position, step, results[step.place]))
    keyed = [(service_key(tensor.dram), tensor) for tensor in tensors if tensor.dram]
    moved = [tensor for _, tensor in sorted(keyed, key=lambda pair: pair[0])]
    return moved + [tensor for tensor in tensors if not tensor.dram]


def default_order(tiling: Tiling) -> tuple[DramTensor, ...]:
    """The DRAM tensors of default double buffering, in service order."""
    return tuple(tensor.dram for tensor in default_tensors(tiling) if tensor.dram)


def live_tensors(tiling: Tiling) -> list[LiveTensor]:
    """All tensors of the schedule as it stands: DRAM tensors first, in DRAM tensor order, then those that stay on chip.

    Raises:
        DramTensorError: the listed DRAM tensors are not exactly those that order, cuts and tiling numbers imply.
    """
    defaults = default_tensors(tiling)
    listed = tiling.schedule.dram_tensors
    if listed is None:
        return defaults
    implied = {tensor.dram.key: tensor for tensor in defaults if tensor.dram}
    producers: dict[tuple[TensorKind, str, int | None], list[str | None]] = {}
    moved = []
    seen = set()
    for dram in listed:
        key = dram.key
        if key not in implied:
            if not producers:
                for kind, name, number, producer in implied:
                    producers.setdefault((kind, name, number), []).append(producer)
            dram = _with_producer(dram, producers.get(key[:3], []))
            key = dram.key
        seen.add(key)
        tensor = implied[key]
        end = max(dram.end, tensor.least_end) if dram.kind is TensorKind.STORE_OUTPUT else dram.end
        place, tile, size, _, _, _, moved_bytes, least_end = tensor
        moved.append(LiveTensor(place, tile, size, dram.start, end, dram, moved_bytes, least_end))
    if len(seen) < len(implied):
        missing = set(implied) - seen
        raise DramTensorError(
            f"the schedule leaves out {len(missing)} of its {len(implied)} DRAM tensors: {_some(missing)}"
        )
    if len(moved) != len(implied):
        raise DramTensorError(f"the schedule lists {len(moved)} DRAM tensors, some of {len(implied)} of them twice")
    return moved + [tensor for tensor in defaults if not tensor.dram]


def usage_bytes(tensors: Iterable[LiveTensor], positions: int) -> list[int]:
    """Bytes alive at each position, -1 first: the sum of all tensors with start <= position < end."""
    change = [0] * (positions + 2)
    for tensor in tensors:
        change[tensor.start + 1] += tensor.bytes
        change[min(tensor.end, positions) + 1] -= tensor.bytes
    usage, alive = [], 0
    for step in change[:-1]:
        alive += step
        usage.append(alive)
    return usage


def service_key(dram: DramTensor) -> tuple[int, bool, int, bool]:
    """Sorts DRAM tensors into their default order: by start, weights first, then end, inputs before outputs."""
    kind = dram.kind
    return (dram.start, kind is not TensorKind.LOAD_WEIGHT, dram.end, kind is TensorKind.STORE_OUTPUT)


def _weights(tiling: Tiling, place: int) -> list[LiveTensor]:
    name = tiling.schedule.order[place]
    size = tiling.workload.operator(name).weight_bytes
    if not size:
        return []
    start, end = tiling.first(place) - 1, tiling.last(place) + 1
    dram = DramTensor(TensorKind.LOAD_WEIGHT, name, None, None, start, end)
    return [LiveTensor(place, None, size, start, end, dram, size, end)]


def _loaded(tiling: Tiling, place: int) -> frozenset[str]:
    """What the operator at ``place`` loads from DRAM: all that is not made in its own layer group."""
    group = tiling.layer_group_of[place]
    names = tiling.workload.operator(tiling.schedule.order[place]).producers()
    makers = {name: tiling.place.get(name) for name in names}
    return frozenset(name for name, maker in makers.items() if maker is None or tiling.layer_group_of[maker] != group)


def _inputs(tiling: Tiling, position: int, step: Step, loaded: frozenset[str]) -> list[LiveTensor]:
    place, tile, block = step
    name, start, end = tiling.schedule.order[place], position - 1, position + 1
    kind = TensorKind.LOAD_INPUT
    return [
        LiveTensor(place, tile, size, start, end, DramTensor(kind, name, tile, producer, start, end), size, end)
        for producer, size in block.reads
        if producer in loaded
    ]


class _Result(NamedTuple):
    """Who reads an operator's result."""

    is_stored: bool
    same_group: tuple[int, ...]
    """Places of readers in its fused group, which read it tile by tile."""
    least_end: int
    """The position behind the last tile of its readers elsewhere in its layer group; 0 without any."""
    layer_group: int


def _result(tiling: Tiling, place: int) -> _Result:
    workload, name = tiling.workload, tiling.schedule.order[place]
    group, layer_group = tiling.group_of[place], tiling.layer_group_of[place]
    is_stored, same_group, least_end = workload.is_output(name), [], 0
    for reader in workload.consumers[name]:
        other = tiling.place[reader]
        if tiling.layer_group_of[other] != layer_group:
            is_stored = True
        elif tiling.group_of[other] == group:
            same_group.append(other)
        else:
            least_end = max(least_end, tiling.last(other) + 1)
    return _Result(is_stored, tuple(same_group), least_end, layer_group)


def _output(tiling: Tiling, position: int, step: Step, result: _Result) -> LiveTensor:
    place, tile, block = step
    least_end = max(position + 1, result.least_end)
    for other in result.same_group:
        least_end = max(least_end, tiling.position(other, tile) + 1)
    size = block.output_bytes
    if not result.is_stored:
        return LiveTensor(place, tile, size, position, least_end, None, 0, least_end)
    following = position + 1
    is_last = (
        following == len(tiling.steps) or tiling.layer_group_of[tiling.steps[following].place] != result.layer_group
    )
    end = max(position + (1 if is_last else 2), least_end)
    dram = DramTensor(TensorKind.STORE_OUTPUT, tiling.schedule.order[place], tile, None, position, end)
    return LiveTensor(place, tile, size, position, end, dram, block.stored_bytes, least_end)


def _with_producer(dram: DramTensor, choice: list[str | None]) -> DramTensor:
    """``dram`` with its producer filled in where its tile loads from one only.

    Raises:
        DramTensorError: it is not one that the schedule implies, or its producer is left out and ambiguous.
    """
    if dram.kind is TensorKind.LOAD_INPUT and dram.producer is None:
        if len(choice) > 1:
            raise DramTensorError(f"{dram} loads from one of {choice}: say which, as its 'producer'")
        if choice:
            return replace(dram, producer=choice[0])
    raise DramTensorError(
        f"{dram} is no DRAM tensor of this schedule: order, cuts and tiling numbers imply none such. Weights "
        "have no tile; inputs and outputs move only across DRAM cuts and the workload's edge"
    )


def _some(keys: Iterable[_Key]) -> str:
    shown = sorted(str(DramTensor(*key, 0, 0)) for key in keys)
    return ", ".join(shown[:4]) + (", …" if len(shown) > 4 else "")
