"""The exhaustive search against plain enumeration, and the other schedulers against it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product
from math import factorial, inf, prod

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accelsim.engine import simulate
from accelsim.errors import BufferOverflow, InputError, ScheduleError
from accelsim.hardware.accelerator import Accelerator
from accelsim.library import load_accelerator, load_workload
from accelsim.program.lower import lower, work_costs
from accelsim.schedule.living import LiveTensor, live_tensors, usage_bytes
from accelsim.schedule.notation import DramTensor, Schedule, TensorKind
from accelsim.schedule.rules import check_dram, check_layer_fusion
from accelsim.schedule.tiling import Tiling, tile
from accelsim.search import Exhaustive, Interleave, Objective
from accelsim.search.dram_state import dram_problem
from accelsim.search.exact_dram import ExactDram
from accelsim.workload.graph import Workload
from tests.search.test_claims import OBJECTIVES, check_claim
from tests.strategies.machines import machine
from tests.strategies.networks import layer_fusions, three_layers
from tests.strategies.tiny import tiny_case

MOST_TENSORS = 5
MOST_ENUMERATED = 5_000


def cycles_of(tiling: Tiling, accelerator: Accelerator, tensors: list[LiveTensor]) -> int | None:
    """The latency of a legal schedule by its dependencies alone; None if they go round in a circle."""
    tile_cycles = work_costs([step.block.work for step in tiling.steps], accelerator).cycles.tolist()
    rate, after = accelerator.dram.bytes_per_cycle, accelerator.dram.latency_cycles
    order = [(tensor, tensor.dram) for tensor in tensors if tensor.dram is not None]
    ends: list[int] = []
    finished: list[tuple[LiveTensor, DramTensor, int]] = []
    link = 0

    def run_up_to(position: int) -> bool:
        """Runs the tiles up to this one."""
        while len(ends) <= position:
            p = len(ends)
            waits = [
                tensor.dram
                for tensor, dram in order
                if (dram.end <= p if dram.kind is TensorKind.STORE_OUTPUT else first_use(tiling, tensor) <= p)
            ]
            done = {dram.key: time for _, dram, time in finished}
            if any(dram.key not in done for dram in waits if dram):
                return False
            ends.append(max([ends[-1] if ends else 0, *(done[d.key] for d in waits if d)]) + tile_cycles[p])
        return True

    for tensor, dram in order:
        gate = dram.start if dram.kind is TensorKind.STORE_OUTPUT else dram.start - 1
        if gate >= 0 and not run_up_to(gate):
            return None
        written = [t for _, other, t in finished if is_store_of(other, dram.producer)]
        begin = max(link, ends[gate] if gate >= 0 else 0, *written, 0)
        link = begin + -(-tensor.moved_bytes * rate.denominator // rate.numerator)
        finished.append((tensor, dram, link + after))
    if not run_up_to(len(tile_cycles) - 1):
        return None
    return max([ends[-1], *(time for _, _, time in finished)])


def is_store_of(dram: DramTensor, operator: str | None) -> bool:
    return dram.kind is TensorKind.STORE_OUTPUT and dram.operator == operator


def first_use(tiling: Tiling, tensor: LiveTensor) -> int:
    return tiling.position(tensor.place, tensor.tile or 0)


def all_gates(tiling: Tiling, tensor: LiveTensor) -> list[DramTensor]:
    """A DRAM tensor with every living duration that it may have."""
    dram, first = tensor.dram, first_use(tiling, tensor)
    assert dram is not None
    if dram.kind is TensorKind.STORE_OUTPUT:
        return [replace(dram, end=end) for end in range(first + 1, len(tiling.steps) + 1)]
    return [replace(dram, start=start) for start in range(-1, first + 1)]


def plainly(workload: Workload, accelerator: Accelerator, schedule: Schedule) -> float:
    """The least latency of a schedule whatever its DRAM tensor order and living durations; infinite if none fits."""
    tiling = tile(workload, schedule)
    moved = [tensor for tensor in live_tensors(tiling) if tensor.dram is not None]
    gates = [all_gates(tiling, tensor) for tensor in moved]
    assume(len(moved) <= MOST_TENSORS)
    assume(factorial(len(moved)) * prod(map(len, gates)) <= MOST_ENUMERATED)
    least = inf
    for drams in product(*gates):
        tried = replace(tiling, schedule=replace(schedule, dram_tensors=drams))
        if max(usage_bytes(live_tensors(tried), len(tiling.steps))) > accelerator.buffers["global"].capacity_bytes:
            continue
        for order in permutations(drams):
            tensors = live_tensors(replace(tiling, schedule=replace(schedule, dram_tensors=order)))
            try:
                check_dram(tiling, tensors)
            except ScheduleError:
                continue
            latency = cycles_of(tiling, accelerator, tensors)
            least = least if latency is None else min(least, latency)
    return least


@given(st.integers(0, 10_000), st.data())
@settings(max_examples=12, deadline=None)
def test_the_best_dram_order_is_that_of_plain_enumeration(seed: int, data: st.DataObject) -> None:
    workload, accelerator = tiny_case(seed)
    schedule = data.draw(layer_fusions(workload))
    try:
        check_layer_fusion(workload, schedule)
        least = plainly(workload, accelerator, schedule)
    except ScheduleError:
        assume(False)
    found = ExactDram(dram_problem(workload, accelerator, schedule), workload).best(lambda cycles: False)
    if found is None:
        assert least == inf
        return
    assert found[0] == least
    assert simulate(lower(workload, accelerator, found[1])).latency_cycles == least


def all_choices(workload: Workload) -> Iterator[Schedule]:
    """Every order, every pair of cuts, all tiling numbers up to 8."""
    names = [operator.name for operator in workload.operators]
    for order in permutations(names):
        for cuts in product((0, 1, 2), repeat=len(names) - 1):
            fusion = tuple(place for place, cut in enumerate(cuts, 1) if cut)
            dram = tuple(place for place, cut in enumerate(cuts, 1) if cut == 2)
            for numbers in product(range(1, 9), repeat=len(fusion) + 1):
                schedule = Schedule(workload.name, order, fusion, dram, numbers)
                try:
                    check_layer_fusion(workload, schedule)
                    tile(workload, schedule)
                except ScheduleError:
                    continue
                yield schedule


@pytest.mark.parametrize(("seed", "objective"), list(zip([13, 14, 33, 38], OBJECTIVES, strict=True)))
def test_no_choice_is_left_out(seed: int, objective: Objective) -> None:
    """The optimum of all orders, cuts and tiling numbers, without any bound."""
    workload, accelerator = tiny_case(seed)
    least = inf
    for schedule in all_choices(workload):
        found = ExactDram(dram_problem(workload, accelerator, schedule), workload).best(lambda cycles: False)
        if found is not None:
            program = lower(workload, accelerator, found[1])
            energy = float(program.energy_pj.sum()) + program.static_pj_per_cycle * found[0]
            least = min(least, objective.cost(energy, found[0]))
    best = Exhaustive(objective).search(workload, accelerator)
    assert objective.cost(best.energy_pj or 0, best.latency_cycles or 0) == pytest.approx(least, rel=1e-12)
    check_claim(workload, accelerator, best)


def test_our_scheduler_finds_the_optimum_of_tiny_cases() -> None:
    """The first cases of ``benchmarks/bench_optimum.py``, which does 200: never below the optimum, nearly always at
    it."""
    optimal = total = 0
    for seed in range(16):
        workload, accelerator = tiny_case(seed)
        try:
            best = Exhaustive().search(workload, accelerator)
        except (InputError, BufferOverflow):
            continue
        ours = Interleave(runs=4).search(workload, accelerator)
        costs = [Objective().cost(one.energy_pj or 0, one.latency_cycles or 0) for one in (ours, best)]
        assert costs[0] >= costs[1] * (1 - 1e-12), seed
        optimal += costs[0] <= costs[1] * (1 + 1e-12)
        total += 1
    assert total >= 14
    assert optimal >= total - 1


def test_more_than_tiny_is_refused_with_its_numbers() -> None:
    edge = load_accelerator("soma_edge")
    with pytest.raises(InputError, match="has 72 operators; the exhaustive search takes at most 4"):
        Exhaustive().search(load_workload("soma.resnet50"), edge)
    with pytest.raises(InputError, match=r"can be cut into 60 tiles; .* at most 8"):
        Exhaustive().search(three_layers(), edge)
    with pytest.raises(InputError, match=r"has a schedule of \d+ DRAM tensors .* at most 2"):
        Exhaustive(most_dram_tensors=2).search(*tiny_case(13))
    with pytest.raises(InputError, match="one transfer after another"):
        Exhaustive().search(tiny_case(0)[0], machine(4096, arbitration="round_robin"))
