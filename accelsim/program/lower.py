"""Lowering: the one place where workload, hardware and schedule meet. Out comes a Program with nothing left to
choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import NamedTuple

import numpy as np

from accelsim.errors import TilingNumberError
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.arithmetic import Forms
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.program.links import dram_links, joined_queues, joined_resources
from accelsim.program.memory_plan import with_memory
from accelsim.program.shared_ports import with_shared_ports
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
from accelsim.schedule.columns import (
    LOAD_INPUT,
    LOAD_WEIGHT,
    STORE_OUTPUT,
    LiveColumns,
    columns_of,
    without_collector,
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
    with without_collector():
        return _lower(workload, accelerator, schedule)


def _lower(workload: Workload, accelerator: Accelerator, schedule: Schedule) -> Program:
    check_layer_fusion(workload, schedule)
    tiling = tile(workload, schedule)
    tensors = live_tensors(tiling)
    columns = columns_of(tiling, tensors)
    check_dram(tiling, tensors, columns)
    capacity, over = _capacity(tiling, tensors, accelerator)
    costs = work_costs([step.block.work for step in tiling.steps], accelerator)
    names = _Names.of(workload)
    own = [operator.whole_work(workload.batch) for operator in workload.operators]
    rows = _tensor_rows(tiling, tensors, columns, names)
    links = dram_links(accelerator.dram)
    claims, releases = _claims(tiling, columns, rows)
    program = Program(
        resources=joined_resources(_CORE, links.resources),
        queues=joined_queues(
            QueueTable(resource=np.array([0])), links.queues._replace(resource=1 + links.queues.resource)
        ),
        activities=_activities(tiling, columns, rows, costs, names, links.queue_of),
        dependencies=_dependencies(tiling, tensors, columns),
        claims=claims,
        releases=releases,
        buffers=BufferTable(capacity_bytes=np.array([capacity])),
        energy_pj=np.concatenate([costs.energy_pj, _transfer_energy(accelerator, columns)]),
        shapes=costs.shapes,
        resource_names=("core", *links.names),
        queue_names=("core", *links.queue_names),
        buffer_names=(BUFFER,),
        operator_names=names.operators,
        tensor_names=names.tensors,
        part_names=accelerator.part_names,
        static_pj_per_cycle=accelerator.static_pj_per_cycle,
        operator_macs=np.array([work.macs if isinstance(work, ArrayWork) else 0 for work in own]),
        operator_vector_ops=np.array([work.operations if isinstance(work, VectorWork) else 0 for work in own]),
        facts=_facts(workload, accelerator) | ({"over_capacity_bytes": over} if over else {}),
    )
    return with_memory(with_shared_ports(program, accelerator), accelerator, _FIRST_LINK)


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
    """Shape (distinct array tiles, len(SHAPE_COLUMNS)): what is left of them where zeros are skipped."""


def work_costs(tiles: Sequence[Work], accelerator: Accelerator) -> WorkCosts:
    """Prices the work of tiles; equal ones are priced once."""
    works: dict[Work, int] = dict.fromkeys(tiles, 0)
    array_works = [work for work in works if isinstance(work, ArrayWork)]
    vector_works = [work for work in works if isinstance(work, VectorWork)]
    ordered: list[Work] = [*array_works, *vector_works]
    works.update({work: row for row, work in enumerate(ordered)})
    rows = np.array([works[work] for work in tiles], dtype=np.int64)
    shapes, per_mac = effectual_shapes(array_works, accelerator)
    on_array = accelerator.array_cost(TileColumns(*np.ascontiguousarray(shapes.T)))
    on_array.energy_pj[:, accelerator.part_names.index("mac")] *= per_mac
    operations = np.array([work.operations for work in vector_works], dtype=np.int64)
    on_vector_unit = accelerator.vector_cost(operations, [work.function for work in vector_works])
    cycles = np.concatenate([on_array.cycles, on_vector_unit.cycles])
    energy_pj = np.concatenate([on_array.energy_pj, on_vector_unit.energy_pj])
    macs = np.array([work.macs for work in array_works] + [0] * len(vector_works), dtype=np.int64)
    vector_ops = np.concatenate([np.zeros(len(array_works), dtype=np.int64), operations])
    shape = np.where(rows < len(array_works), rows, -1)
    return WorkCosts(cycles[rows], energy_pj[rows], macs[rows], vector_ops[rows], shape, shapes)


def effectual_shapes(works: Sequence[ArrayWork], accelerator: Accelerator) -> tuple[IntColumn, FloatTable]:
    """What the machine really does of tiles, shape (tiles, len(SHAPE_COLUMNS)), and the energy of each of its products,
    in MACs."""
    columns = len(SHAPE_COLUMNS)
    shapes = np.array([work[:columns] for work in works], dtype=np.int64).reshape(-1, columns)
    per_mac = np.ones(len(works))
    by_forms: dict[Forms, list[int]] = {}
    for row, work in enumerate(works):
        forms = Forms(work.weight_sparsity, work.input_sparsity, work.weight_bits, work.input_bits)
        by_forms.setdefault(forms, []).append(row)
    for forms, rows in by_forms.items():
        tiles, energy = accelerator.effectual(TileColumns(*np.ascontiguousarray(shapes[rows].T)), forms)
        shapes[rows], per_mac[rows] = np.stack(tiles, axis=1), energy
    return shapes, per_mac


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


def _tensor_rows(tiling: Tiling, tensors: Sequence[LiveTensor], columns: LiveColumns, names: _Names) -> IntColumn:
    """Row number of the tensor that each one is a part of: weights, what a tile loads, or its own result."""
    order = tiling.schedule.order
    rows = np.array([names.tensor[name] for name in order], dtype=np.int64)[columns.place]
    weights = np.array([names.tensor[f"{name}.weights"] for name in order], dtype=np.int64)
    is_weight = columns.kind == LOAD_WEIGHT
    rows[is_weight] = weights[columns.place[is_weight]]
    loads = np.flatnonzero(columns.kind == LOAD_INPUT)
    drams = (tensors[row].dram for row in loads.tolist())
    rows[loads] = [names.tensor[dram.producer] for dram in drams if dram is not None and dram.producer is not None]
    return rows


def _activities(
    tiling: Tiling,
    columns: LiveColumns,
    rows: IntColumn,
    costs: WorkCosts,
    names: _Names,
    queue_of: Mapping[TensorKind, int],
) -> ActivityTable:
    """Tiles by position, then transfers in DRAM tensor order."""
    tiles, transfers = len(tiling.steps), columns.moved
    operator_of_place = np.array([names.operator[name] for name in tiling.schedule.order], dtype=np.int64)
    kind = columns.kind[:transfers]
    queues = {
        LOAD_WEIGHT: TensorKind.LOAD_WEIGHT,
        LOAD_INPUT: TensorKind.LOAD_INPUT,
        STORE_OUTPUT: TensorKind.STORE_OUTPUT,
    }
    queue = np.array([0, *(1 + queue_of[queues[number]] for number in sorted(queues))], dtype=np.int64)

    def column(of_tiles: Sequence[int] | IntColumn | int, of_transfers: IntColumn | int) -> IntColumn:
        parts = ((of_tiles, tiles), (of_transfers, transfers))
        return np.concatenate([np.broadcast_to(np.asarray(part, dtype=np.int64), size) for part, size in parts])

    return ActivityTable(
        queue=column(0, queue[kind]),
        kind=column(ActivityKind.TILE, np.where(kind == STORE_OUTPUT, ActivityKind.STORE, ActivityKind.LOAD)),
        cycles=column(costs.cycles, 0),
        bytes=column(0, columns.moved_bytes[:transfers]),
        operator=column(
            operator_of_place[[step.place for step in tiling.steps]], operator_of_place[columns.place[:transfers]]
        ),
        tile=column([step.tile for step in tiling.steps], columns.tile[:transfers]),
        tensor=column(-1, rows[:transfers]),
        position=column(np.arange(tiles), -1),
        macs=column(costs.macs, 0),
        vector_ops=column(costs.vector_ops, 0),
        shape=column(costs.shape, -1),
    )


def _dependencies(tiling: Tiling, tensors: Sequence[LiveTensor], columns: LiveColumns) -> DependencyTable:
    """Up to three edges a transfer: with its own tile, with that which its living duration speaks of, and, of a load,
    with the last store of what it loads."""
    tiles, count = len(tiling.steps), columns.moved
    kind, start, end = columns.kind[:count], columns.start[:count], columns.dram_end[:count]
    position, row = columns.position[:count], tiles + np.arange(count)
    is_store = kind == STORE_OUTPUT
    last_store = np.full(len(tiling.schedule.order) + 1, -1)
    np.maximum.at(last_store, columns.place[:count][is_store], row[is_store])
    producers = (tensor.dram.producer for tensor in tensors[:count] if tensor.dram is not None)
    places = (-1 if producer is None else tiling.place.get(producer, -1) for producer in producers)
    stored = last_store[np.fromiter(places, np.int64, count)]  # the last row stands for what nobody stores
    before = np.stack([np.where(is_store, position, row), np.where(is_store, row, start - 1), stored], axis=1)
    after = np.stack([np.where(is_store, row, position), np.where(is_store, end, row), row], axis=1)
    there = np.stack([np.ones(count, dtype=bool), np.where(is_store, end < tiles, start >= 1), stored >= 0], axis=1)
    return DependencyTable(before=before[there], after=after[there])


def _claims(tiling: Tiling, columns: LiveColumns, rows: IntColumn) -> tuple[ClaimTable, ReleaseTable]:
    tiles, count = len(tiling.steps), len(columns.place)
    claim = np.stack([np.arange(count)] * 2, axis=1)
    activity = np.stack([columns.end - 1, tiles + np.arange(count)], axis=1)
    there = np.stack([np.ones(count, dtype=bool), columns.kind == STORE_OUTPUT], axis=1)
    claims = ClaimTable(
        buffer=np.zeros(count, dtype=np.int64), bytes=columns.bytes, taken_by=columns.start, tensor=rows
    )
    return claims, ReleaseTable(claim=claim[there], activity=activity[there])


def _transfer_energy(accelerator: Accelerator, columns: LiveColumns) -> FloatTable:
    count = columns.moved
    energy = np.zeros((count, len(accelerator.part_names)))
    stored = columns.kind[:count] == STORE_OUTPUT
    per_byte = np.where(stored, accelerator.dram.write_pj_per_byte, accelerator.dram.read_pj_per_byte)
    energy[:, accelerator.part_names.index("dram")] = columns.moved_bytes[:count] * per_byte
    return energy


def _facts(workload: Workload, accelerator: Accelerator) -> dict[str, int | float | str]:
    """``ideal_cycles``: each operator's own work at full rate, rounded down per operator (the SoMa artifact's
    utilisation)."""
    ideal, shares = 0, []
    for operator in workload.operators:
        work = operator.whole_work(workload.batch)
        shares.append(_effectual(work))
        if isinstance(work, ArrayWork):
            ideal += work.macs // accelerator.macs_per_cycle
        else:
            ideal += int(work.operations // accelerator.vector_unit.rates([work.function])[0])
    facts: dict[str, int | float | str] = {
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
    if any(share != 1 for share in shares):
        facts["effectual"] = ",".join(map(str, shares))
    if accelerator.vector_unit.functions:
        facts["vector_functions"] = ",".join(operator.kind for operator in workload.operators)
    return facts


def _effectual(work: Work) -> Fraction:
    """The share of products of which neither operand is known to be zero."""
    if not isinstance(work, ArrayWork):
        return Fraction(1)
    forms = (work.weight_sparsity, work.input_sparsity)
    return prod((form.density for form in forms if form is not None), start=Fraction(1))
