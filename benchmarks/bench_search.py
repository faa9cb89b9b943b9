"""Search speed: moves a second of both stages, and how soon our scheduler reaches what SoMa's own program ends with.

    python benchmarks/bench_search.py [--seeds 5]

All times are CPU seconds of this process, kernels' compilation excluded and stated. With ``--seeds N`` also the medians
of energy times delay of ``soma`` over N seeds, against SoMa's own program. Every schedule is lowered and simulated: it
has to cost what the search claims.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import NamedTuple

import numpy as np

import accelsim
from accelsim.search import Interleave, Objective, Scheduler, SearchResult, SoMa, Watch
from accelsim.search.anneal_fusion import FusionParameters
from accelsim.search.interleave import HORIZONS
from accelsim.search.session import Session
from accelsim.search.start import coarse_numbers, separate
from accelsim.search.warm import compile_kernels


class Reference(NamedTuple):
    """What SoMa's own program (commit 6e80836, one thread) ends with at batch 1, measured on it."""

    network: str
    machine: str
    latency_cycles: int
    energy_mj: float
    cpu_seconds: float


REFERENCES = (
    Reference("resnet50", "edge", 1_624_151, 2.823, 4.8),
    Reference("resnet101", "edge", 2_807_895, 4.985, 30.6),
    Reference("inception_resnet_v1", "edge", 1_658_415, 3.393, 27.2),
    Reference("randwire_small", "edge", 487_638, 0.810, 31.4),
    Reference("gpt2_small_prefill", "edge", 656_448, 1.399, 19.4),
    Reference("gpt2_small_decode", "edge", 500_895, 0.682, 0.6),
    Reference("resnet50", "cloud", 206_023, 2.870, 11.2),
    Reference("resnet101", "cloud", 353_991, 5.010, 64.5),
    Reference("randwire_small", "cloud", 61_296, 0.844, 27.4),
    Reference("gpt2_xl_prefill", "cloud", 811_200, 8.339, 21.2),
    Reference("gpt2_xl_decode", "cloud", 285_653, 3.050, 1.5),
)
ENERGY_DIGITS = 5e-4
"""The reference's energies are known to so many millijoules."""


def checked(scheduler: Scheduler, reference: Reference, watch: Watch) -> tuple[SearchResult, float]:
    """Searches, and simulates what was found; also the CPU seconds of the search."""
    workload = accelsim.load_workload(f"soma.{reference.network}")
    accelerator = accelsim.load_accelerator(f"soma_{reference.machine}")
    result = scheduler.search(workload, accelerator, watch)
    seconds = time.process_time() - watch.began
    program = accelsim.lower(workload, accelerator, result.schedule)
    assert accelsim.simulate(program).latency_cycles == result.latency_cycles, reference
    assert abs(float(program.energy_pj.sum()) / (result.energy_pj or 0) - 1) < 1e-9, reference
    return result, seconds


def ratio(result: SearchResult, reference: Reference) -> float:
    """Energy times delay over the reference's."""
    return (
        (result.energy_pj or 0) * (result.latency_cycles or 0) / (reference.energy_mj * 1e9 * reference.latency_cycles)
    )


def moves(network: str, machine: str) -> None:
    """Rounds of annealing a second: stage 1 under double buffering and with list scheduling, stage 2."""
    workload = accelsim.load_workload(f"soma.{network}")
    session = Session(workload, accelsim.load_accelerator(f"soma_{machine}"), Objective(), None)
    start = separate(session, coarse_numbers(session), session.capacity_bytes)
    assert start is not None
    rates, best = [], start
    for horizons in ((-1, -1), HORIZONS):
        parameters = FusionParameters(100 * session.network.size, session.capacity_bytes, urgent_positions=horizons)
        session.anneal_fusion(start, parameters, 1)  # fills the stores of plans and costs
        began = time.process_time()
        state = session.anneal_fusion(start, parameters, 1)
        rates.append(parameters.rounds / (time.process_time() - began))
        found = session.price(state.best, session.capacity_bytes, horizons)
        assert found is not None and session.cost(found) == state.cost[1]
        best = state.best
    problem = session.dram_problem(session.list_schedule(best, HORIZONS))._replace(
        lower_bound_cycles=0
    )  # never reached
    rounds = 200_000
    began = time.process_time()
    session.anneal_dram(problem, rounds, 1)
    rates.append(rounds / (time.process_time() - began))
    print(f"{network:<20} {machine:<6}" + "".join(f"{rate:>12,.0f}" for rate in rates), flush=True)


def reach(reference: Reference) -> None:
    """When our scheduler reaches the reference's cost, and when it ends."""
    goal = (reference.energy_mj + ENERGY_DIGITS) * 1e9 * reference.latency_cycles
    reached: list[float] = []

    def show(stage: str, latency_cycles: int, energy_pj: float, gap_percent: float) -> None:
        if latency_cycles * energy_pj <= goal:
            reached.append(time.process_time() - watch.began)

    watch = Watch(show=show, clock=time.process_time)
    result, ended = checked(Interleave(), reference, watch)
    assert reached, reference
    print(
        f"{reference.network:<20} {reference.machine:<6} {reference.cpu_seconds:>8.1f} {reached[0]:>8.2f} "
        f"{100 * reached[0] / reference.cpu_seconds:>6.1f} % {ended:>8.2f} {ratio(result, reference):>9.4f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=0)
    seeds = parser.parse_args().seeds
    np.seterr(over="ignore")
    began = time.process_time()
    for machine in ("edge", "cloud"):
        compile_kernels(accelsim.load_accelerator(f"soma_{machine}"))
    print(f"kernels compiled, or loaded: {time.process_time() - began:.1f} s\n")
    print(f"{'moves a second':<27}{'stage 1':>12}{'listed':>12}{'stage 2':>12}")
    for network, machine in (("resnet50", "edge"), ("inception_resnet_v1", "cloud"), ("gpt2_small_prefill", "edge")):
        moves(network, machine)
    print(f"\n{'CPU seconds':<27} {'theirs':>8} {'reached':>8} {'share':>8} {'ended':>8} {'E*D':>9}")
    for reference in REFERENCES:
        reach(reference)
    if seeds:
        print(f"\nSoMa, median of {seeds} seeds: energy times delay over theirs")
    for reference in REFERENCES if seeds else ():
        ratios = [
            ratio(checked(SoMa(seed=seed), reference, Watch(clock=time.process_time))[0], reference)
            for seed in range(seeds)
        ]
        print(
            f"{reference.network:<20} {reference.machine:<6} {statistics.median(ratios):.4f} "
            f"({min(ratios):.4f} to {max(ratios):.4f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
