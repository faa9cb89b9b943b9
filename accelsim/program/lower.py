"""Lowering: the one place where workload, hardware and schedule meet. Out comes a Program with nothing left to
choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from accelsim.errors import TilingNumberError
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.program.links import dram_links, joined_queues, joined_resources
from accelsim.program.memory_plan import with_memory
from accelsim.program.tables import (
    SHAPE_COLUMNS,
    ActivityKind,
    ActivityTable,
    Arbitration,
    BufferTable,
    ClaimTable,
    DependencyTable,
    FloatTable,
    IntColumn,
    Program,
    QueueTable,
    ReleaseTable,
    ResourceKind,
    ResourceTable,
)
from accelsim.schedule.living import LiveTensor, live_tensors, usage_bytes
from accelsim.schedule.notation import Schedule, TensorKind
from accelsim.schedule.rules import check_buffer, check_dram, check_layer_fusion
from accelsim.schedule.tiling import Tiling, tile
from accelsim.workload.graph import Workload
from accelsim.workload.operator import ArrayWork, VectorWork, Work

BUFFER = "global"
"""The buffer that living durations speak of."""

_FIRST_LINK = 1  # behind the core
_CORE = ResourceTable(*(np.array([number]) for number in (ResourceKind.CORE, 0, 1, 0, Arbitration.ROUND_ROBIN, 0)))


def lower(workload: Workload, accelerator: Accelerator, schedule: Schedule) -> Program:
    """The Program that runs ``workload`` on ``accelerator`` as ``schedule`` says.

    A load whose living duration starts at position s depends on tile s-1; a tile depends on its loads; a store
    depends on its tile; a store whose duration ends at e is a dependency of tile e. A tensor's buffer claim is taken
    when tile ``start`` begins and given back when tile ``end`` - 1, and its own store, have finished.

    Raises:
        ScheduleError: the schedule breaks a rule of the notation.
        BufferOverflow: more is alive at some position than the buffer holds (but see :func:`_capacity`).
        InputError: the tensors need more than the DRAM behind the link holds.
    """
    check_layer_fusion(workload, schedule)
    tiling = tile(workload, schedule)
    tensors = live_tensors(tiling)
    check_dram(tiling, tensors)
    capacity, over = _capacity(tiling, tensors, accelerator)
    costs = work_costs([step.block.work for step in tiling.steps], accelerator)
    moved = [tensor for tensor in tensors if tensor.dram is not None]
    names = _Names.of(workload)
    links = dram_links(accelerator.dram)
    claims, releases = _claims(tiling, tensors, names)
    program = Program(
        resources=joined_resources(_CORE, links.resources),
        queues=joined_queues(
            QueueTable(resource=np.array([0])), links.queues._replace(resource=1 + links.queues.resource)
        ),
        activities=_activities(tiling, moved, costs, names, links.queue_of),
        dependencies=_dependencies(tiling, moved),
        claims=claims,
        releases=releases,
        buffers=BufferTable(capacity_bytes=np.array([capacity])),
        energy_pj=np.concatenate([costs.energy_pj, _transfer_energy(accelerator, moved)]),
        shapes=costs.shapes,
        resource_names=("core", *links.names),
        queue_names=("core", *links.queue_names),
        buffer_names=(BUFFER,),
        operator_names=names.operators,
        tensor_names=names.tensors,
        part_names=accelerator.part_names,
        static_pj_per_cycle=accelerator.static_pj_per_cycle,
        operator_macs=np.array([_own_macs(workload, number) for number in range(len(workload.operators))]),
        facts=_facts(workload, accelerator) | ({"over_capacity_bytes": over} if over else {}),
    )
    return with_memory(program, accelerator, _FIRST_LINK)


def _capacity(tiling: Tiling, tensors: Sequence[LiveTensor], accelerator: Accelerator) -> tuple[int, int]:
    """The buffer's bytes, and how many more the program is given.

    Two kinds of programs measure the array and not the buffer: that of a single tile, where nothing is left to
    schedule, and those of machines that count every operator as one tile. They run with the room that they need, and
    say so.

    Raises:
        TilingNumberError: the machine counts every operator as one tile, and the schedule cuts one.
        BufferOverflow: any other program needs more than the buffer holds.
    """
    capacity = accelerator.buffers[BUFFER].capacity_bytes
    whole = accelerator.dataflow.one_tile_per_operator
    for group in tiling.groups if whole else ():
        if group.tiles > 1:
            raise TilingNumberError(
                f"'{tiling.schedule.order[group.begin]}' is cut into {group.tiles} tiles, but pe_array.counting of "
                f"'{accelerator.name}' is scalesim, which counts every operator as one: use the scheduler layerwise, "
                "or causal counting"
            )
    if len(tiling.steps) > 1 and not whole:
        check_buffer(tiling, tensors, capacity, BUFFER)
        return capacity, 0
    needed = max(usage_bytes(tensors, len(tiling.steps)))
    return max(needed, capacity), max(needed - capacity, 0)


class WorkCosts(NamedTuple):
    """What tiles cost on an accelerator, one row each."""

    cycles: IntColumn
    energy_pj: FloatTable
    """Shape (tiles, parts)."""
    macs: IntColumn
    vector_ops: IntColumn
    shape: IntColumn
    """Row in ``shapes``; -1 for tiles of the vector unit."""
    shapes: IntColumn
    """Shape (distinct array tiles, len(SHAPE_COLUMNS))."""


def work_costs(tiles: Sequence[Work], accelerator: Accelerator) -> WorkCosts:
    """Prices the work of tiles; equal ones are priced once."""
    works: dict[Work, int] = dict.fromkeys(tiles, 0)
    array_works = [work for work in works if isinstance(work, ArrayWork)]
    vector_works = [work for work in works if isinstance(work, VectorWork)]
    ordered: list[Work] = [*array_works, *vector_works]
    works.update({work: row for row, work in enumerate(ordered)})
    rows = np.array([works[work] for work in tiles], dtype=np.int64)
    shapes = np.array(array_works, dtype=np.int64).reshape(-1, len(SHAPE_COLUMNS))
    on_array = accelerator.array_cost(TileColumns(*np.ascontiguousarray(shapes.T)))
    operations = np.array([work.operations for work in vector_works], dtype=np.int64)
    on_vector_unit = accelerator.vector_cost(operations)
    cycles = np.concatenate([on_array.cycles, on_vector_unit.cycles])
    energy_pj = np.concatenate([on_array.energy_pj, on_vector_unit.energy_pj])
    macs = np.array([work.macs for work in array_works] + [0] * len(vector_works), dtype=np.int64)
    vector_ops = np.concatenate([np.zeros(len(array_works), dtype=np.int64), operations])
    shape = np.where(rows < len(array_works), rows, -1)
    return WorkCosts(cycles[rows], energy_pj[rows], macs[rows], vector_ops[rows], shape, shapes)


class _Names(NamedTuple):
    """Row numbers of names: operators as in the workload; tensors: their results, the inputs, and all weights."""

    operators: tuple[str, ...]
    tensors: tuple[str, ...]
    operator: dict[str, int]
    tensor: dict[str, int]

    @staticmethod
    def of(workload: Workload) -> _Names:
        operators = tuple(operator.name for operator in workload.operators)
        inputs = tuple(tensor.name for tensor in workload.inputs)
        tensors = (*operators, *inputs, *(f"{name}.weights" for name in operators))
        return _Names(operators, tensors, dict(workload.index), {name: row for row, name in enumerate(tensors)})


def _activities(
    tiling: Tiling, moved: Sequence[LiveTensor], costs: WorkCosts, names: _Names, queue_of: Mapping[TensorKind, int]
) -> ActivityTable:
    """Tiles by position, then transfers in DRAM tensor order."""
    tiles, transfers = len(tiling.steps), len(moved)
    operator_of_place = [names.operator[name] for name in tiling.schedule.order]
    drams = [tensor.dram for tensor in moved if tensor.dram is not None]

    def column(of_tiles: Sequence[int] | IntColumn | int, of_transfers: Sequence[int] | int) -> IntColumn:
        parts = ((of_tiles, tiles), (of_transfers, transfers))
        return np.concatenate([np.broadcast_to(np.asarray(part, dtype=np.int64), size) for part, size in parts])

    return ActivityTable(
        queue=column(0, [1 + queue_of[dram.kind] for dram in drams]),
        kind=column(
            ActivityKind.TILE,
            [ActivityKind.STORE if dram.kind is TensorKind.STORE_OUTPUT else ActivityKind.LOAD for dram in drams],
        ),
        cycles=column(costs.cycles, 0),
        bytes=column(0, [tensor.moved_bytes for tensor in moved]),
        operator=column(
            [operator_of_place[step.place] for step in tiling.steps],
            [operator_of_place[tensor.place] for tensor in moved],
        ),
        tile=column(
            [step.tile for step in tiling.steps], [-1 if tensor.tile is None else tensor.tile for tensor in moved]
        ),
        tensor=column(-1, [_tensor_row(tiling, tensor, names) for tensor in moved]),
        position=column(np.arange(tiles), -1),
        macs=column(costs.macs, 0),
        vector_ops=column(costs.vector_ops, 0),
        shape=column(costs.shape, -1),
    )


def _tensor_row(tiling: Tiling, tensor: LiveTensor, names: _Names) -> int:
    name = tiling.schedule.order[tensor.place]
    if tensor.dram is not None:
        if tensor.dram.kind is TensorKind.LOAD_WEIGHT:
            return names.tensor[f"{name}.weights"]
        if tensor.dram.producer is not None:
            return names.tensor[tensor.dram.producer]
    return names.tensor[name]


def _dependencies(tiling: Tiling, moved: Sequence[LiveTensor]) -> DependencyTable:
    tiles = len(tiling.steps)
    edges: list[tuple[int, int]] = []
    last_store: dict[str, int] = {}
    for number, tensor in enumerate(moved):
        row, dram = tiles + number, tensor.dram
        assert dram is not None
        position = tiling.position(tensor.place, tensor.tile or 0)
        if dram.kind is TensorKind.STORE_OUTPUT:
            edges.append((position, row))
            if dram.end < tiles:
                edges.append((row, dram.end))
            last_store[dram.operator] = row
            continue
        edges.append((row, position))
        if dram.start >= 1:
            edges.append((dram.start - 1, row))
        if dram.producer in last_store:  # in DRAM tensor order all stores of a producer stand before its loads
            edges.append((last_store[dram.producer], row))
    table = np.array(edges, dtype=np.int64).reshape(-1, 2)
    return DependencyTable(before=table[:, 0], after=table[:, 1])


def _claims(tiling: Tiling, tensors: Sequence[LiveTensor], names: _Names) -> tuple[ClaimTable, ReleaseTable]:
    tiles = len(tiling.steps)
    releases: list[tuple[int, int]] = []
    moved = 0
    for claim, tensor in enumerate(tensors):
        releases.append((claim, tensor.end - 1))
        if tensor.dram is not None:
            if tensor.dram.kind is TensorKind.STORE_OUTPUT:
                releases.append((claim, tiles + moved))
            moved += 1
    table = np.array(releases, dtype=np.int64).reshape(-1, 2)
    claims = ClaimTable(
        buffer=np.zeros(len(tensors), dtype=np.int64),
        bytes=np.array([tensor.bytes for tensor in tensors], dtype=np.int64),
        taken_by=np.array([tensor.start for tensor in tensors], dtype=np.int64),
        tensor=np.array([_tensor_row(tiling, tensor, names) for tensor in tensors], dtype=np.int64),
    )
    return claims, ReleaseTable(claim=table[:, 0], activity=table[:, 1])


def _transfer_energy(accelerator: Accelerator, moved: Sequence[LiveTensor]) -> FloatTable:
    energy = np.zeros((len(moved), len(accelerator.part_names)))
    dram = accelerator.part_names.index("dram")
    for row, tensor in enumerate(moved):
        stored = tensor.dram is not None and tensor.dram.kind is TensorKind.STORE_OUTPUT
        per_byte = accelerator.dram.write_pj_per_byte if stored else accelerator.dram.read_pj_per_byte
        energy[row, dram] = tensor.moved_bytes * per_byte
    return energy


def _own_macs(workload: Workload, number: int) -> int:
    work = workload.operators[number].whole_work(workload.batch)
    return work.macs if isinstance(work, ArrayWork) else 0


def _facts(workload: Workload, accelerator: Accelerator) -> dict[str, int | float | str]:
    """``ideal_cycles``: each operator's own work at full rate, rounded down per operator (the SoMa artifact's
    utilisation)."""
    ideal = 0
    for operator in workload.operators:
        work = operator.whole_work(workload.batch)
        if isinstance(work, ArrayWork):
            ideal += work.macs // accelerator.macs_per_cycle
        else:
            ideal += int(work.operations // accelerator.vector_unit.operations_per_cycle)
    return {
        "workload": workload.name,
        "workload_digest": workload.digest,
        "hardware": accelerator.name,
        "hardware_digest": accelerator.digest,
        "batch": workload.batch,
        "macs": workload.macs,
        "vector_ops": workload.vector_ops,
        "macs_per_cycle": accelerator.macs_per_cycle,
        "ideal_cycles": ideal,
        "clock_hz": float(accelerator.clock_hz),
    }
