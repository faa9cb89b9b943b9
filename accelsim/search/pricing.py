"""What a choice of order, cuts and tiling numbers costs: under double buffering, or with its DRAM tensors list
scheduled."""

from __future__ import annotations

from accelsim.jit import kernel
from accelsim.search.choice import Choice, Machine, Result, Walk, find_readers, place_groups
from accelsim.search.double_buffering import walk_positions
from accelsim.search.list_schedule import Limits, Lists, collect, pass_over
from accelsim.search.network import Network
from accelsim.search.plan_store import PlanStore
from accelsim.search.plans import ILLEGAL, LEGAL, TOO_LONG, Shapes
from accelsim.search.tile_costs import TileCostTable

Stores = tuple[Shapes, PlanStore, TileCostTable, Lists]


@kernel
def cost_of(energy_exponent: float, delay_exponent: float, energy_pj: float, latency_cycles: int) -> float:
    """energy^n * delay^m."""
    if energy_exponent == 1.0 and delay_exponent == 1.0:
        return energy_pj * latency_cycles
    return float(energy_pj**energy_exponent * float(latency_cycles) ** delay_exponent)


@kernel
def price(
    net: Network, machine: Machine, choice: Choice, walk: Walk, stores: Stores, limits: tuple[int, tuple[int, int]]
) -> tuple[int, Result]:
    """Status and cost of a choice within ``limits``: a budget of bytes, and two horizons of list scheduling.

    The better horizon counts. With (-1, -1) the DRAM tensors are double-buffered instead, and a peak above the budget
    is illegal. After list scheduling, ``lists`` hold the order of the last horizon tried.
    """
    shapes, store, costs, lists = stores
    budget, horizons = limits
    for place in range(choice.order.shape[0]):
        walk.place[choice.order[place]] = place
    status, positions, tiles_pj = place_groups(net, choice, walk, shapes, store, costs)
    nothing = Result(0, 0.0, 0, 0, 0, positions)
    if status != LEGAL:
        return status, nothing
    find_readers(net, choice, walk)
    if horizons[0] < 0:
        found = walk_positions(net, machine, choice, walk, store, positions)
        transfers_pj, tile_cycles, busy_cycles = found.energy_pj, found.tile_cycles, found.transfer_cycles
        latency, peak = found.latency_cycles, found.peak_bytes
        if peak > budget:
            return ILLEGAL, nothing
    else:
        latency, peak, busy_cycles = -1, 0, 0
        for turn in range(2):
            if turn == 1 and horizons[1] == horizons[0]:
                break
            if not collect(net, choice, walk, store, lists, positions):
                return TOO_LONG, nothing
            other = pass_over(machine, lists, Limits(positions, budget, horizons[turn]))
            if other >= 0:
                latency = other if latency < 0 else min(latency, other)
                busy_cycles = int(lists.counters[3])
        if latency < 0:
            return ILLEGAL, nothing
        transfers_pj = float(
            machine.read_pj_per_byte * lists.counters[4] + machine.write_pj_per_byte * lists.counters[5]
        )
        tile_cycles = int(lists.counters[2])
    energy = transfers_pj + tiles_pj + machine.static_pj_per_cycle * latency
    return LEGAL, Result(latency, energy, peak, tile_cycles, busy_cycles, positions)
