"""A search at work: the kernels with their scratch, and the Python that gives them what they ask for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from accelsim import jit
from accelsim.engine import simulate
from accelsim.errors import BufferOverflow, MappingError, TilingNumberError
from accelsim.hardware.accelerator import Accelerator
from accelsim.program.lower import lower, work_costs
from accelsim.schedule.notation import DramTensor, Schedule, TensorKind
from accelsim.schedule.tiling import group_tiler
from accelsim.schedule.tiling_exact import alike
from accelsim.search.anneal_dram import DramParameters, DramState, anneal_dram, dram_state
from accelsim.search.anneal_fusion import FusionParameters, FusionState, anneal_fusion, fusion_state
from accelsim.search.bounds import least_latency_cycles
from accelsim.search.checkpoint import Checkpoint
from accelsim.search.choice import Choice, Result, empty_walk, machine_of, next_wanted, two_clocks_tell
from accelsim.search.dram_state import DramProblem, dram_problem
from accelsim.search.list_schedule import empty_lists
from accelsim.search.network import IntColumn, network_of
from accelsim.search.objective import Objective
from accelsim.search.plan_store import Plan, add_plan, empty_store
from accelsim.search.plans import (
    FULL,
    LEGAL,
    MAXIMUM_POSITIONS,
    MISSING_COST,
    MISSING_PLAN,
    TOO_LONG,
    empty_shapes,
)
from accelsim.search.pricing import price
from accelsim.search.scheduler import SearchResult, Watch
from accelsim.search.tile_costs import TileCosts
from accelsim.search.warm import compile_kernels
from accelsim.workload.graph import Workload

LARGEST_STORE_ROWS = 1 << 23
"""A store that would grow beyond this is emptied instead."""


class Cost(NamedTuple):
    """What a schedule costs."""

    latency_cycles: int
    energy_pj: float
    bound_cycles: int
    """Of its order, cuts and tiling numbers."""

    @staticmethod
    def of(found: Result) -> Cost:
        """What a kernel found."""
        return Cost(found.latency_cycles, found.energy_pj, max(found.tile_cycles, found.transfer_cycles))


class Pace:
    """Lets a kernel return about ten times a second, so that somebody can stop it; what it finds does not depend on
    that."""

    def __init__(self, counters: IntColumn, rounds: int) -> None:
        self.counters = counters
        self.rounds = rounds
        self.step = 1
        self.began = time.monotonic()

    def next(self) -> bool:
        """Names the round at which to return next; False once all are done."""
        now = time.monotonic()
        self.step = max(1, 2 * self.step if now - self.began < 0.05 else self.step // 2)
        self.began = now
        self.counters[3] = min(self.rounds, int(self.counters[0]) + self.step)
        return int(self.counters[0]) < self.rounds


class Session:
    """Prices and anneals choices for one workload on one accelerator; keeps all plans and costs it has seen."""

    def __init__(
        self,
        workload: Workload,
        accelerator: Accelerator,
        objective: Objective,
        watch: Watch | None,
        name: str = "",
        *,
        warm: bool = True,
    ) -> None:
        """``name`` says which search this is, with all its parameters: a checkpoint of another is not taken up."""
        self.workload = workload
        self.accelerator = accelerator
        self.objective = objective
        self.watch = watch or Watch()
        self.network = network_of(workload)
        self.machine = machine_of(accelerator)
        self.capacity_bytes = accelerator.buffers["global"].capacity_bytes
        self.costs = TileCosts(workload, accelerator)
        self.counts = {"fusion": 0, "dram": 0}
        self._store_rows = 1 << max(18, (self.network.size << 6).bit_length())  # every operator by itself has room
        self._most_rows = max(self._store_rows, LARGEST_STORE_ROWS)
        self._alone: dict[tuple[int, int], Plan] = {}
        self._positions = 1 << 12
        self._make_room()
        self.checkpoint: Checkpoint | None = None
        if self.watch.checkpoint is not None:
            key = f"{name} of {workload.digest} on {accelerator.digest}, kernels {jit.kernel_hash()}"
            self.checkpoint = Checkpoint(self.watch.checkpoint, key)
        if warm:
            compile_kernels(accelerator)
            self.watch.restart()

    def _make_room(self) -> None:
        size = self.network.size
        self.store = empty_store(size, max(1 << 13, self._store_rows >> 4), self._store_rows)
        self.shapes = empty_shapes(size)
        self._grow_positions()

    def _grow_positions(self) -> None:
        reads = int(np.diff(self.network.source_begin).max(initial=0)) + 1
        self.walk = empty_walk(self.network.size, self._positions)
        self.lists = empty_lists(self._positions, self._positions * min(reads, 4) + 64 * reads)

    def provide(self, status: int) -> None:
        """Gives a kernel what it asked for with ``status``."""
        if status == MISSING_COST:
            self.costs.fill()
        elif status == MISSING_PLAN:
            self._plan()
        elif status == FULL:
            self._store_rows = min(2 * self._store_rows, self._most_rows)
            self._make_room()
        elif status == TOO_LONG:
            self._positions *= 2
            self._grow_positions()

    def _plan(self) -> None:
        """Adds the plan of the wanted group, by the tile rule itself; that of an operator alone once for all like
        it."""
        count, tiles = self.store.counters[3:].tolist()
        numbers = self.store.wanted[:count].tolist()
        if count > 1:
            return add_plan(self.store, self._make_plan(numbers, tiles))
        key = (alike(self.workload, self.workload.operators[numbers[0]]), tiles)
        if key not in self._alone:
            self._alone[key] = self._make_plan(numbers, tiles)
        plan = self._alone[key]
        plan.rows[:, 0] = numbers[0]
        add_plan(self.store, plan)

    def _make_plan(self, numbers: list[int], tiles: int) -> Plan:
        count = len(numbers)
        operators = [self.workload.operators[number] for number in numbers]
        try:
            if count * tiles > MAXIMUM_POSITIONS:
                raise TilingNumberError(f"{count * tiles} tiles")
            blocks = group_tiler(self.workload.tile_rule)(self.workload, operators, tiles)
            flat = [block for row in zip(*blocks, strict=True) for block in row]
            costs = work_costs([block.work for block in flat], self.accelerator)
        except (TilingNumberError, MappingError):
            nothing = np.zeros(0, dtype=np.int64)
            return Plan(nothing.reshape(0, 4), nothing, nothing, 0.0)
        rows: list[tuple[int, ...]] = []
        reads: list[int] = []
        sources = [operator.producers() for operator in operators]
        for index, (block, cycles) in enumerate(zip(flat, costs.cycles.tolist(), strict=True)):
            place = index % count
            rows.append((numbers[place], cycles, block.output_bytes, block.stored_bytes))
            read = dict(block.reads)
            reads.extend([read.get(name, -1) for name in sources[place]])
        counts = np.array([len(names) for names in sources], dtype=np.int64)
        columns = (np.array(rows, dtype=np.int64), np.array(reads, dtype=np.int64), counts)
        return Plan(*columns, float(costs.energy_pj.sum()))

    def price(self, choice: Choice, budget_bytes: int, horizons: tuple[int, int] = (-1, -1)) -> Result | None:
        """The cost of a choice; None if it is illegal or does not fit."""
        while True:
            stores = (self.shapes, self.store, self.costs.table, self.lists)
            status, found = price(self.network, self.machine, choice, self.walk, stores, (budget_bytes, horizons))
            if status < MISSING_COST:
                return found if status == LEGAL else None
            if status == MISSING_PLAN:  # all at once: a pass over a long choice is no bargain
                begin = 0
                while (begin := next_wanted(choice, self.store, begin)) >= 0:
                    self._plan()
            else:
                self.provide(status)

    def cost(self, found: Result | Cost) -> float:
        """The objective of a result."""
        return self.objective.cost(found.energy_pj, found.latency_cycles)

    def anneal_fusion(self, choice: Choice, parameters: FusionParameters, seed: int, share: float = 1.0) -> FusionState:
        """Runs the first stage from ``choice``, which must be legal, until its rounds or ``share`` of the time is
        over."""
        found = self.price(choice, parameters.budget_bytes, parameters.urgent_positions)
        if found is None:
            raise BufferOverflow(f"the start does not fit into {parameters.budget_bytes} bytes")
        state = fusion_state(choice, self.cost(found), seed)

        def go_on() -> None:
            stores = (self.shapes, self.store, self.costs.table, self.lists)
            self.provide(anneal_fusion(self.network, self.machine, parameters, state, self.walk, stores))

        self._anneal(state, parameters.rounds, share, go_on)
        self.counts["fusion"] += int(state.counters[1])
        return state

    def anneal_dram(self, problem: DramProblem, rounds: int, seed: int, share: float = 1.0) -> DramState:
        """Runs the second stage from the problem's own order, until its rounds or ``share`` of the time is over."""
        state = dram_state(problem, seed)
        parameters = self.dram_parameters(problem, rounds)

        def go_on() -> None:
            if state.latency[1] > problem.lower_bound_cycles:
                anneal_dram(problem.tensors, parameters, state)
            else:
                state.counters[0] = rounds  # nothing is left to do

        self._anneal(state, rounds, share, go_on)
        self.counts["dram"] += int(state.counters[1])
        return state

    def _anneal(self, state: FusionState | DramState, rounds: int, share: float, go_on: Callable[[], None]) -> None:
        """Lets an annealing go on until its rounds or ``share`` of the time is over, and keeps its checkpoint.

        What is annealed after the time was over is no part of an uninterrupted search, and is not kept.
        """
        checkpoint = None if self.watch.was_expired else self.checkpoint
        if checkpoint is not None:
            checkpoint.restore(state)
        pace = Pace(state.counters, rounds)
        while pace.next() and not self.watch.expired(share):
            go_on()
            if checkpoint is not None:
                checkpoint.save()
        if checkpoint is not None:
            checkpoint.save(force=True)

    def dram_parameters(self, problem: DramProblem, rounds: int) -> DramParameters:
        """The second stage's parameters for a problem."""
        return DramParameters(
            rounds,
            problem.energy_pj,
            self.machine.static_pj_per_cycle,
            problem.lower_bound_cycles,
            self.objective.energy_exponent,
            self.objective.delay_exponent,
        )

    def result(self, scheduler: str, seed: int | None, schedule: Schedule, found: Cost) -> SearchResult:
        """What the search returns. Where two clocks do not tell all (:func:`two_clocks_tell`), it is simulated."""
        latency, energy = found.latency_cycles, found.energy_pj
        if not two_clocks_tell(self.accelerator):
            program = lower(self.workload, self.accelerator, schedule)
            latency = simulate(program).latency_cycles
            energy = float(program.energy_pj.sum()) + program.static_pj_per_cycle * latency
        least = least_latency_cycles(self.workload, self.accelerator)
        return SearchResult(schedule, scheduler, seed, latency, energy, found.bound_cycles, least, dict(self.counts))

    def dram_problem(self, schedule: Schedule) -> DramProblem:
        """The second stage's problem for a schedule."""
        return dram_problem(self.workload, self.accelerator, schedule)

    def schedule(self, choice: Choice) -> Schedule:
        """A choice as a schedule under double buffering."""
        order = tuple(self.workload.operators[number].name for number in choice.order.tolist())
        cuts = tuple(place for place in range(1, len(order)) if choice.cut[place])
        dram_cuts = tuple(place for place in cuts if choice.cut[place] == 2)
        numbers = tuple(int(choice.tiles[place]) for place in (0, *cuts))
        return Schedule(self.workload.name, order, cuts, dram_cuts, numbers)

    def list_schedule(self, choice: Choice, horizons: tuple[int, int]) -> Schedule:
        """A legal choice with the DRAM tensor order and living durations of list scheduling, the better of two
        horizons."""
        both = [self.price(choice, self.capacity_bytes, (horizon, horizon)) for horizon in horizons]
        costs = [math.inf if found is None else self.cost(found) for found in both]
        horizon = horizons[costs.index(min(costs))]
        self.price(choice, self.capacity_bytes, (horizon, horizon))
        schedule, lists, walk = self.schedule(choice), self.lists, self.walk
        tensors = []
        for code in lists.served[: lists.counters[1]].tolist():
            number, is_store = divmod(code, 2)
            position = number if is_store else int(lists.load_position[number])
            place, tile = int(walk.at[position]), int(walk.tile[position])
            name = schedule.order[place]
            if is_store:
                end = int(lists.store_end[position])
                tensors.append(DramTensor(TensorKind.STORE_OUTPUT, name, tile, None, position, end))
                continue
            start, row = int(lists.load_start[number]), int(lists.load_row[number])
            if row < 0:
                end = int(walk.last[place]) + 1
                tensors.append(DramTensor(TensorKind.LOAD_WEIGHT, name, None, None, start, end))
            else:
                producer = self.workload.operator(name).producers()[row]
                tensors.append(DramTensor(TensorKind.LOAD_INPUT, name, tile, producer, start, position + 1))
        return replace(schedule, dram_tensors=tuple(tensors))

    def choice(self, schedule: Schedule) -> Choice:
        """A schedule's order, cuts and tiling numbers as columns."""
        size = len(schedule.order)
        cut, tiles = np.zeros(size, dtype=np.int64), np.ones(size, dtype=np.int64)
        cut[list(schedule.fusion_cuts)] = 1
        cut[[0, *schedule.dram_cuts]] = 2
        for (begin, _), number in zip(pairwise((0, *schedule.fusion_cuts, size)), schedule.tiling_numbers, strict=True):
            tiles[begin] = number
        return Choice(np.array([self.workload.index[name] for name in schedule.order]), cut, tiles)
