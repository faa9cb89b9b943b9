"""What makes a schedule legal: one function and one error a rule (HPCA 2025, section IV; soma artifact where it says
so).

``check_layer_fusion`` looks at order, cuts and tiling numbers, ``check_dram`` at DRAM tensors and living durations. The
two search rules at the end are not needed for legality.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import pairwise

import numpy as np

from accelsim.errors import (
    BufferOverflow,
    CutError,
    DependencyOrderError,
    DramOrderError,
    LivingDurationError,
    OrderError,
    TilingNumberError,
    TransposeTilingError,
)
from accelsim.schedule.columns import (
    LOAD_INPUT,
    LOAD_WEIGHT,
    ON_CHIP,
    STORE_OUTPUT,
    IntColumn,
    LiveColumns,
    columns_of,
)
from accelsim.schedule.living import LiveTensor, usage_bytes
from accelsim.schedule.notation import DramTensor, Schedule, TensorKind
from accelsim.schedule.tiling import Tiling, inside_consumers, split_tiling_number
from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.operator import Operator
from accelsim.workload.operators import Conv2d, Pool, Transpose


def check_layer_fusion(workload: Workload, schedule: Schedule) -> None:
    """Order, cuts and tiling numbers, before anything is tiled.

    Raises:
        OrderError, CutError, TilingNumberError, TransposeTilingError: see each rule.
    """
    check_order(workload, schedule)
    check_cuts(schedule)
    check_tiling_numbers(schedule)
    if workload.tile_rule is TileRule.SOMA:
        check_transposes(workload, schedule)


def check_dram(tiling: Tiling, tensors: Sequence[LiveTensor], columns: LiveColumns | None = None) -> None:
    """Living durations and DRAM tensor order of a tiled schedule. ``columns`` are those of the tensors, if at hand.

    Raises:
        LivingDurationError, DramOrderError, DependencyOrderError: see each rule.
    """
    columns = columns_of(tiling, tensors) if columns is None else columns
    check_living_durations(tiling, tensors, columns)
    check_dram_order(tensors, columns)
    check_dependency_order(tiling, tensors, columns)


def check_order(workload: Workload, schedule: Schedule) -> None:
    """The computing order is a topological permutation of the operators.

    Raises:
        OrderError: an operator is unknown, missing, named twice, or stands before one that it reads.
    """
    counts = Counter(schedule.order)
    for name, count in counts.items():
        if name not in workload.index:
            near = get_close_matches(name, workload.index, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise OrderError(f"the order names '{name}', which is no operator of '{workload.name}'{hint}")
        if count > 1:
            raise OrderError(f"the order names '{name}' {count} times; each operator runs once")
    if missing := [name for name in workload.index if name not in counts]:
        raise OrderError(f"the order leaves out {len(missing)} operators: {', '.join(missing[:4])}")
    place = {name: number for number, name in enumerate(schedule.order)}
    for name, number in place.items():
        for producer in workload.operator(name).producers():
            if place.get(producer, -1) > number:
                raise OrderError(
                    f"'{name}' is computed at place {number}, before '{producer}' at place {place[producer]}, "
                    "which it reads (the order has a cycle or stands the wrong way round)"
                )


def check_cuts(schedule: Schedule) -> None:
    """Cuts lie inside the order, ascend, and every DRAM cut is a fusion cut.

    Raises:
        CutError: otherwise.
    """
    for kind, cuts in (("fusion", schedule.fusion_cuts), ("DRAM", schedule.dram_cuts)):
        for cut in cuts:
            if not 1 <= cut < len(schedule.order):
                raise CutError(f"{kind} cut {cut} lies outside the order: expected 1 to {len(schedule.order) - 1}")
        for first, second in pairwise(cuts):
            if second <= first:
                raise CutError(f"{kind} cuts must ascend: {second} follows {first}")
    if extra := sorted(set(schedule.dram_cuts) - set(schedule.fusion_cuts)):
        raise CutError(f"DRAM cuts {extra} are not among the fusion cuts; list them in both")


def check_tiling_numbers(schedule: Schedule) -> None:
    """One tiling number >= 1 for each fused group. (That it can be realised is seen when the group is tiled.)

    Raises:
        TilingNumberError: otherwise.
    """
    if len(schedule.tiling_numbers) != len(schedule.groups):
        raise TilingNumberError(
            f"{len(schedule.tiling_numbers)} tiling numbers for {len(schedule.groups)} fused groups; give one for each"
        )
    for number, tiles in enumerate(schedule.tiling_numbers):
        if tiles < 1:
            begin, end = schedule.groups[number]
            raise TilingNumberError(
                f"fused group {number} ('{schedule.order[begin]}' to '{schedule.order[end - 1]}') has tiling number "
                f"{tiles}; the least is 1 (not cut)"
            )


def check_transposes(workload: Workload, schedule: Schedule) -> None:
    """A fused group with a transpose behind its producer is not cut along what the transpose exchanges with the
    channels.

    Raises:
        TransposeTilingError: otherwise.
    """
    for (begin, end), tiles in zip(schedule.groups, schedule.tiling_numbers, strict=True):
        group = [workload.operator(name) for name in schedule.order[begin:end]]
        names = {operator.name for operator in group}
        for operator in group:
            if isinstance(operator, Transpose) and names.intersection(operator.producers()):
                _check_transpose(workload, group, operator, tiles)


def _check_transpose(workload: Workload, group: list[Operator], transpose: Transpose, tiles: int) -> None:
    permutation = transpose.permutation
    locked = {axis for axis in (1, 2) if permutation[0] == axis or permutation[axis] == 0}
    consumers = inside_consumers(workload, group)
    for operator in group:
        if consumers[operator.name]:
            continue
        _, rows, columns = operator.output.shape
        parts = split_tiling_number(operator, workload.batch, tiles, rows, columns)
        cut = {axis for axis, count in ((1, parts.rows), (2, parts.columns)) if count > 1}
        if cut & locked:
            what = " and ".join({1: "rows", 2: "columns"}[axis] for axis in sorted(cut & locked))
            raise TransposeTilingError(
                f"tiling number {tiles} cuts the {what} of '{operator.name}', which '{transpose.name}' in the same "
                "fused group exchanges with the channels; lower it, or put a fusion cut before the transpose"
            )


def check_living_durations(tiling: Tiling, tensors: Sequence[LiveTensor], columns: LiveColumns) -> None:
    """RV3: loads start no later than their tile, stores end no earlier than the position after it; all within the run.

    Raises:
        LivingDurationError: otherwise.
    """
    final = len(tiling.steps)
    first, end, start = columns.position, columns.dram_end, columns.start
    store_is_legal = (start == first) & (first + 1 <= end) & (end <= final)
    wanted = np.where(columns.kind == LOAD_WEIGHT, columns.last, first) + 1
    load_is_legal = (end == wanted) & (start >= -1) & (start <= first)
    legal = np.where(columns.kind == STORE_OUTPUT, store_is_legal, load_is_legal) | (columns.kind == ON_CHIP)
    for row in np.flatnonzero(~legal)[:1]:
        dram, at = tensors[row].dram, first[row]
        assert dram is not None
        if dram.kind is TensorKind.STORE_OUTPUT:
            expected = f"start {at}, end from {at + 1} to {final}"
        else:
            expected = f"start from -1 to {at}, end {wanted[row]}"
        raise LivingDurationError(f"{dram} lives from {dram.start} to {dram.end}; expected {expected}")


def check_dram_order(tensors: Sequence[LiveTensor], columns: LiveColumns) -> None:
    """RV1: of two DRAM tensors, the earlier one starts before the later one ends. Else the in-order channel blocks
    itself.

    Raises:
        DramOrderError: otherwise.
    """
    moved = np.flatnonzero(columns.kind)
    start, end = columns.start[moved], columns.dram_end[moved]
    latest = np.maximum.accumulate(start)[:-1]
    for row in np.flatnonzero(latest >= end[1:])[:1]:
        before = tensors[moved[np.argmax(start[: row + 1])]].dram
        late = tensors[moved[row + 1]].dram
        assert before is not None
        assert late is not None
        raise DramOrderError(
            f"{before} waits for position {before.start}, but {late}, later in the DRAM tensor "
            f"order, must be done by position {late.end}; swap them or start the first one earlier"
        )


def check_dependency_order(tiling: Tiling, tensors: Sequence[LiveTensor], columns: LiveColumns) -> None:
    """RV2: whatever a store needs stands before it in the DRAM tensor order; a load stands behind the store it reads.

    Raises:
        DependencyOrderError: otherwise.
    """
    moved = [(tensor, tensor.dram) for tensor in tensors if tensor.dram is not None]
    rows = np.flatnonzero(columns.kind)
    kind, place, position = columns.kind[rows], columns.place[rows], columns.position[rows]
    _check_loads_after_stores(tiling, moved, kind, place)
    rank = np.arange(len(rows))
    places = np.array([step.place for step in tiling.steps], dtype=np.int64)
    weights = np.full(len(tiling.schedule.order), -1)
    weights[place[kind == LOAD_WEIGHT]] = rank[kind == LOAD_WEIGHT]
    own = np.full(len(places), -1)
    own[position[kind == STORE_OUTPUT]] = rank[kind == STORE_OUTPUT]
    # For each position: the last rank among everything that its tile needs.
    latest = weights[places]
    np.maximum.at(latest, position[kind == LOAD_INPUT], rank[kind == LOAD_INPUT])
    size_of = [end - begin for begin, end in tiling.schedule.layer_groups]
    shared = [size_of[group] > 1 for group in tiling.layer_group_of]
    for at, step in enumerate(tiling.steps):
        if not shared[step.place]:
            continue
        for producer, _ in step.block.reads:
            maker = tiling.place.get(producer)
            if maker is None or tiling.layer_group_of[maker] != tiling.layer_group_of[step.place]:
                continue
            same = tiling.group_of[maker] == tiling.group_of[step.place]
            behind = tiling.position(maker, step.tile) if same else tiling.last(maker)
            latest[at] = max(latest[at], latest[behind] if own[behind] < 0 else own[behind])
    for at in np.flatnonzero((own >= 0) & (own < latest))[:1]:
        raise DependencyOrderError(
            f"{moved[own[at]][1]} stands before {moved[latest[at]][1]} in the DRAM tensor order, but tile "
            f"{at} that it stores needs that first"
        )


def _check_loads_after_stores(
    tiling: Tiling, moved: Sequence[tuple[LiveTensor, DramTensor]], kind: IntColumn, place: IntColumn
) -> None:
    """Each load of an operator's result stands behind all its stores, and starts no earlier than any of them."""
    count = len(tiling.schedule.order)
    last_store, last_start = np.full(count, -1), np.full(count, -(1 << 62))
    stores = np.flatnonzero(kind == STORE_OUTPUT)
    start = np.array([dram.start for _, dram in moved], dtype=np.int64)
    np.maximum.at(last_store, place[stores], stores)
    np.maximum.at(last_start, place[stores], start[stores])
    found = (-1 if dram.producer is None else tiling.place.get(dram.producer, -1) for _, dram in moved)
    makers = np.fromiter(found, np.int64, len(moved))
    loads = np.flatnonzero(makers >= 0)
    wrong = (last_store[makers[loads]] > loads) | (last_start[makers[loads]] > start[loads])
    for number in loads[wrong][:1]:
        dram = moved[number][1]
        for at in stores[place[stores] == makers[number]]:
            store = moved[at][1]
            if at > number or dram.start < store.start:
                raise DependencyOrderError(
                    f"{dram} (start {dram.start}) stands before {store} (start {store.start}), which writes what it "
                    "loads; a load comes later in the DRAM tensor order and starts no earlier"
                )


def check_buffer(tiling: Tiling, tensors: Sequence[LiveTensor], capacity_bytes: int, buffer: str = "global") -> int:
    """At every position the tensors alive fit into the buffer. Returns the largest sum.

    Raises:
        BufferOverflow: otherwise, with the largest tensors of the fullest position.
    """
    usage = usage_bytes(tensors, len(tiling.steps))
    peak = max(usage)
    if peak <= capacity_bytes:
        return peak
    position = usage.index(peak) - 1
    alive = sorted((t for t in tensors if t.start <= position < t.end), key=lambda t: -t.bytes)
    where = "before the first tile"
    if position >= 0:
        step = tiling.steps[position]
        where = f"at position {position} (tile {step.tile} of '{tiling.schedule.order[step.place]}')"
    lines = [f"    {_live_name(tiling, t)} {_mebibytes(t.bytes)} (positions {t.start} to {t.end})" for t in alive[:6]]
    if len(alive) > 6:
        lines.append(f"    and {len(alive) - 6} more, {_mebibytes(sum(t.bytes for t in alive[6:]))}")
    raise BufferOverflow(
        f"buffer '{buffer}' holds {_mebibytes(peak)} {where}, {_mebibytes(peak - capacity_bytes)} over its "
        f"{_mebibytes(capacity_bytes)}:\n" + "\n".join(lines) + "\n"
        "Raise the tiling number of this group, shorten a living duration, or put a DRAM cut between operators."
    )


def check_fully_connected(workload: Workload, schedule: Schedule) -> None:
    """Search rule of the artifact: a fully connected layer, with the poolings right before it, is a layer group by
    itself.

    Raises:
        CutError: otherwise.
    """
    for place, name in enumerate(schedule.order):
        operator = workload.operator(name)
        if not (isinstance(operator, Conv2d) and operator.fully_connected):
            continue
        begin = place
        while begin and isinstance(workload.operator(schedule.order[begin - 1]), Pool):
            begin -= 1
        for cut in (begin, place + 1):
            if 0 < cut < len(schedule.order) and cut not in schedule.dram_cuts:
                raise CutError(f"the fully connected '{name}' needs a DRAM cut at {cut} to be a layer group by itself")


def check_tile_order(tensors: Sequence[LiveTensor]) -> None:
    """RP1, a pruning of the search: inputs of one operator keep the order of its tiles, with starts that never fall;
    outputs likewise, with ends that never fall.

    Raises:
        DramOrderError: otherwise.
    """
    seen: dict[tuple[TensorKind, int, str | None], LiveTensor] = {}
    for tensor in tensors:
        if tensor.dram is None or tensor.tile is None:
            continue
        key = (tensor.dram.kind, tensor.place, tensor.dram.producer)
        before = seen.get(key)
        if before is not None and before.dram is not None and before.tile is not None:
            falls = before.dram.start > tensor.dram.start or before.dram.end > tensor.dram.end
            if before.tile > tensor.tile or falls:
                raise DramOrderError(f"{before.dram} and {tensor.dram} stand against the order of their tiles")
        seen[key] = tensor


def _live_name(tiling: Tiling, tensor: LiveTensor) -> str:
    if tensor.dram is not None:
        return str(tensor.dram)
    return f"{tiling.schedule.order[tensor.place]}[{tensor.tile}] on chip"


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.2f} MiB"
