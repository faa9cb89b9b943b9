"""Living durations: every tensor that a tiled schedule keeps in the buffer, how large it is, and from when to when.

Follows HPCA 2025, sections IV and V. Positions count the tiles of the whole network; -1 stands for "before anything".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from accelsim.errors import DramTensorError
from accelsim.schedule.notation import DramTensor, TensorKind
from accelsim.schedule.tiling import Tiling


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
    for position, step in enumerate(tiling.steps):
        tensors.extend(_inputs(tiling, position, step.place))
        tensors.append(_output(tiling, position, step.place))
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
    named = _with_producers(listed, [tensor.dram for tensor in defaults if tensor.dram])
    if missing := set(implied) - {tensor.key for tensor in named}:
        raise DramTensorError(
            f"the schedule leaves out {len(missing)} of its {len(implied)} DRAM tensors: {_some(missing)}"
        )
    if len(named) != len(implied):
        raise DramTensorError(f"the schedule lists {len(named)} DRAM tensors, some of {len(implied)} of them twice")
    moved = []
    for dram in named:
        tensor = implied[dram.key]
        end = max(dram.end, tensor.least_end) if dram.kind is TensorKind.STORE_OUTPUT else dram.end
        moved.append(tensor._replace(start=dram.start, end=end, dram=dram))
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


def _inputs(tiling: Tiling, position: int, place: int) -> list[LiveTensor]:
    step = tiling.steps[position]
    name = tiling.schedule.order[place]
    own_group = tiling.layer_group_of[place]
    found = []
    for producer, size in step.block.reads:
        maker = tiling.place.get(producer)
        if maker is not None and tiling.layer_group_of[maker] == own_group:
            continue
        dram = DramTensor(TensorKind.LOAD_INPUT, name, step.tile, producer, position - 1, position + 1)
        found.append(LiveTensor(place, step.tile, size, position - 1, position + 1, dram, size, position + 1))
    return found


def _output(tiling: Tiling, position: int, place: int) -> LiveTensor:
    workload, step = tiling.workload, tiling.steps[position]
    name = tiling.schedule.order[place]
    group, layer_group = tiling.group_of[place], tiling.layer_group_of[place]
    least_end = position + 1
    stored = name in workload.outputs
    for reader in workload.consumers[name]:
        other = tiling.place[reader]
        if tiling.layer_group_of[other] != layer_group:
            stored = True
        elif tiling.group_of[other] == group:
            least_end = max(least_end, tiling.position(other, step.tile) + 1)
        else:
            least_end = max(least_end, tiling.last(other) + 1)
    size = step.block.output_bytes
    if not stored:
        return LiveTensor(place, step.tile, size, position, least_end, None, 0, least_end)
    is_last = (
        position + 1 == len(tiling.steps) or tiling.layer_group_of[tiling.steps[position + 1].place] != layer_group
    )
    end = max(position + (1 if is_last else 2), least_end)
    dram = DramTensor(TensorKind.STORE_OUTPUT, name, step.tile, None, position, end)
    return LiveTensor(place, step.tile, size, position, end, dram, step.block.stored_bytes, least_end)


def _with_producers(listed: Iterable[DramTensor], implied: list[DramTensor]) -> list[DramTensor]:
    """``listed`` with the producers filled in where a tile loads from one only.

    Raises:
        DramTensorError: a tensor is not one that the schedule implies, or its producer is left out and ambiguous.
    """
    producers: dict[tuple[str, int | None], list[str]] = {}
    for dram in implied:
        if dram.producer is not None:
            producers.setdefault((dram.operator, dram.tile), []).append(dram.producer)
    keys = {dram.key for dram in implied}
    named = []
    for dram in listed:
        if dram.kind is TensorKind.LOAD_INPUT and dram.producer is None:
            choice = producers.get((dram.operator, dram.tile), [])
            if len(choice) > 1:
                raise DramTensorError(f"{dram} loads from one of {choice}: say which, as its 'producer'")
            if choice:
                dram = DramTensor(dram.kind, dram.operator, dram.tile, choice[0], dram.start, dram.end)
        if dram.key not in keys:
            raise DramTensorError(
                f"{dram} is no DRAM tensor of this schedule: order, cuts and tiling numbers imply none such. Weights "
                "have no tile; inputs and outputs move only across DRAM cuts and the workload's edge"
            )
        named.append(dram)
    return named


def _some(keys: Iterable[tuple[TensorKind, str, int | None, str | None]]) -> str:
    shown = sorted(str(DramTensor(*key, 0, 0)) for key in keys)
    return ", ".join(shown[:4]) + (", …" if len(shown) > 4 else "")
