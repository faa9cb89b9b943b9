"""The DRAM tensors of one choice of order, cuts and tiling numbers, as columns that the second stage anneals."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from accelsim.hardware.accelerator import Accelerator
from accelsim.program.lower import work_costs
from accelsim.schedule.living import LiveTensor, live_tensors
from accelsim.schedule.notation import Schedule, TensorKind
from accelsim.schedule.tiling import tile
from accelsim.search.network import FloatColumn, IntColumn
from accelsim.workload.graph import Workload


class Tensors(NamedTuple):
    """What does not change while order and gates move: one row a DRAM tensor; some columns by tile position."""

    positions: int
    capacity_bytes: int
    latency_cycles: int
    """Of the link."""
    is_store: IntColumn
    tile: IntColumn
    """Loads: the first position that needs it. Stores: the position that makes it."""
    cycles: IntColumn
    bytes: IntColumn
    """On chip."""
    least_start: IntColumn
    """Loads: no start before this; the last tile of the producer, or -1."""
    least_end: IntColumn
    """Stores: how long readers on chip hold the result."""
    operator: IntColumn
    maker: IntColumn
    """Loads: the operator that stores what it loads, or -1. Stores: -1."""
    written_by: IntColumn
    """Loads: the last store of that operator, or -1."""
    before: IntColumn
    """The same operator's tensor of the tile before (same kind, same producer), or -1."""
    after: IntColumn
    weight: FloatColumn
    """Cumulated sizes, for drawing a tensor in proportion to them."""
    tile_cycles: IntColumn
    """By position."""
    load_begin: IntColumn
    """By position: its loads are the rows load_begin[p] to load_begin[p + 1] of ``load``."""
    load: IntColumn


class Gates(NamedTuple):
    """What moves: DRAM tensor order and living durations."""

    order: IntColumn
    """Tensor by rank."""
    rank: IntColumn
    start: IntColumn
    """Loads: the gate. Stores: the tile that makes it."""
    end: IntColumn
    """Stores: the gate. Loads: fixed."""
    usage: IntColumn
    """Bytes alive by position; row 0 is position -1."""
    first_store: IntColumn
    """By position, 0 to positions: a store that ends there, or -1; the others follow in ``next_store``."""
    next_store: IntColumn
    previous_store: IntColumn


class Clocks(NamedTuple):
    """A run of the two clocks, kept so that the next run can start where it begins to differ."""

    finish: IntColumn
    """By tensor."""
    tile_end: IntColumn
    """By position; row 0 is 0, row p + 1 the end of tile p."""
    position_at: IntColumn
    """By rank: the next tile to run when the link took up that tensor."""
    link_at: IntColumn
    latency: IntColumn
    """One row."""


class DramProblem(NamedTuple):
    """The second stage's problem, with its start."""

    schedule: Schedule
    tensors: Tensors
    gates: Gates
    energy_pj: float
    """Of tiles and transfers: no move changes it."""
    lower_bound_cycles: int
    rows: tuple[LiveTensor, ...]


def dram_problem(workload: Workload, accelerator: Accelerator, schedule: Schedule) -> DramProblem:
    """The columns of ``schedule``'s DRAM tensors, in their order and with their living durations."""
    tiling = tile(workload, schedule)
    tensors = live_tensors(tiling)
    costs = work_costs([step.block.work for step in tiling.steps], accelerator)
    rows = tuple(tensor for tensor in tensors if tensor.dram is not None)
    positions = len(tiling.steps)
    dram = accelerator.dram
    columns: dict[str, list[int]] = {name: [] for name in ("store", "tile", "least_start", "operator", "maker")}
    chains: dict[tuple[TensorKind, int, str | None], list[tuple[int, int]]] = {}
    for number, tensor in enumerate(rows):
        assert tensor.dram is not None
        kind, producer = tensor.dram.kind, tensor.dram.producer
        maker = tiling.place.get(producer, -1) if producer is not None else -1
        columns["store"].append(int(kind is TensorKind.STORE_OUTPUT))
        columns["tile"].append(tiling.position(tensor.place, tensor.tile or 0))
        columns["least_start"].append(tiling.last(maker) if maker >= 0 else -1)
        columns["operator"].append(tensor.place)
        columns["maker"].append(maker)
        if tensor.tile is not None:
            chains.setdefault((kind, tensor.place, producer), []).append((tensor.tile, number))
    before, after = np.full(len(rows), -1), np.full(len(rows), -1)
    for chain in chains.values():
        numbers = [number for _, number in sorted(chain)]
        before[numbers[1:]], after[numbers[:-1]] = numbers[:-1], numbers[1:]
    moved = np.array([tensor.moved_bytes for tensor in rows], dtype=np.int64)
    cycles = -(-moved * dram.bytes_per_cycle.denominator // dram.bytes_per_cycle.numerator)
    is_store, tiles = _column(columns["store"]), _column(columns["tile"])
    loads = [number for number in np.argsort(tiles, kind="stable").tolist() if not is_store[number]]
    per_tile = np.bincount(tiles[loads], minlength=positions) if loads else np.zeros(positions, dtype=np.int64)
    sizes = np.maximum(moved, max(1, int(moved[moved > 0].min(initial=1))))
    table = Tensors(
        positions,
        accelerator.buffers["global"].capacity_bytes,
        dram.latency_cycles,
        is_store,
        tiles,
        cycles,
        _column([tensor.bytes for tensor in rows]),
        _column(columns["least_start"]),
        _column([tensor.least_end for tensor in rows]),
        _column(columns["operator"]),
        _column(columns["maker"]),
        _written_by(columns),
        _column(before),
        _column(after),
        np.cumsum(sizes) / sizes.sum(),
        np.ascontiguousarray(costs.cycles),
        np.concatenate([[0], np.cumsum(per_tile)]).astype(np.int64),
        _column(loads),
    )
    read, written = int(moved[is_store == 0].sum()), int(moved[is_store == 1].sum())
    energy = costs.energy_pj.sum() + dram.read_pj_per_byte * read + dram.write_pj_per_byte * written
    bound = max(int(costs.cycles.sum()), int(cycles.sum()))
    return DramProblem(schedule, table, _gates(table, tensors, rows), float(energy), bound, rows)


def _gates(table: Tensors, tensors: list[LiveTensor], rows: tuple[LiveTensor, ...]) -> Gates:
    change = np.zeros(table.positions + 2, dtype=np.int64)
    for tensor in tensors:
        change[tensor.start + 1] += tensor.bytes
        change[min(tensor.end, table.positions) + 1] -= tensor.bytes
    start = _column([tensor.dram.start for tensor in rows if tensor.dram])
    end = _column([tensor.dram.end for tensor in rows if tensor.dram])
    first, following, previous = np.full(table.positions + 1, -1), np.full(len(rows), -1), np.full(len(rows), -1)
    for number in np.flatnonzero(table.is_store):
        head = first[end[number]]
        following[number] = head
        if head >= 0:
            previous[head] = number
        first[end[number]] = number
    numbers = np.arange(len(rows))
    lists = (_column(first), _column(following), _column(previous))
    return Gates(numbers, numbers.copy(), start, end, np.cumsum(change)[:-1], *lists)


def empty_clocks(tensors: Tensors) -> Clocks:
    """Room for a run."""
    size = len(tensors.tile)
    columns = [np.zeros(rows, dtype=np.int64) for rows in (size, tensors.positions + 1, size, size, 1)]
    return Clocks(*columns)


def copy_gates(gates: Gates) -> Gates:
    """A copy that shares nothing."""
    return Gates(*(column.copy() for column in gates))


def schedule_of(problem: DramProblem, gates: Gates) -> Schedule:
    """The schedule with these gates, in this order."""
    tensors = []
    for number in gates.order.tolist():
        dram = problem.rows[number].dram
        assert dram is not None
        tensors.append(replace(dram, start=int(gates.start[number]), end=int(gates.end[number])))
    return replace(problem.schedule, dram_tensors=tuple(tensors))


def _written_by(columns: dict[str, list[int]]) -> IntColumn:
    last: dict[int, int] = {}
    for number, (is_store, operator) in enumerate(zip(columns["store"], columns["operator"], strict=True)):
        if is_store and (operator not in last or columns["tile"][number] > columns["tile"][last[operator]]):
            last[operator] = number
    return _column([last.get(maker, -1) for maker in columns["maker"]])


def _column(values: object) -> IntColumn:
    return np.ascontiguousarray(values, dtype=np.int64)
