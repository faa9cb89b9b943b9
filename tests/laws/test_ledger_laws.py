"""Both ledgers close, whatever runs: labels add up to the latency to the cycle, accounts to the energy."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accelsim.analysis.energy import energy_pj
from accelsim.analysis.ladder import energy_ladder, performance_ladder
from accelsim.analysis.ledger import ACCOUNTS, LABELS, ledger
from accelsim.analysis.roofline import roofline_points
from accelsim.engine import simulate
from accelsim.errors import BufferOverflow
from accelsim.hardware.accelerator import Accelerator
from accelsim.library import load_accelerator
from accelsim.program.lower import lower
from accelsim.program.tables import ActivityKind, Program, ResourceKind
from accelsim.search import Layerwise
from accelsim.timeline.stalls import cycles_by_cause, cycles_by_operator
from accelsim.timeline.table import Timeline
from accelsim.workload.graph import Workload
from tests.laws.test_roofline_laws import MACHINES
from tests.strategies.networks import networks
from tests.strategies.programs import legal_programs
from tests.strategies.sparse_machines import INPUTS, WEIGHTS, machines, sparse


def check_sums(timeline: Timeline, found: object) -> None:
    names = (*timeline.program.operator_names, "")
    for one in found.resources:
        assert sum(one.by_label().values()) == timeline.latency_cycles
        assert (one.cycles >= 0).all()
        assert set(one.by_label()) <= set(LABELS)
        assert one.cycles.shape[0] == len(names)
    accounts = found.by_account()
    assert math.isclose(math.fsum(accounts.values()), energy_pj(timeline), rel_tol=1e-9, abs_tol=1e-12)
    assert (found.energy_pj >= 0).all()
    named = [name for name in accounts if not name.startswith("buffer.") and not name.startswith("part")]
    assert set(named) <= set(ACCOUNTS)


@settings(max_examples=60)
@given(program=legal_programs(), seed=st.integers(0, 1000))
def test_ledgers_of_any_program_close(program: Program, seed: int) -> None:
    random = np.random.default_rng(seed)
    energy = random.random((program.size, 3)) * 1e6
    names = ("mac", "dram", "part 3")
    tile = program.activities.kind == ActivityKind.TILE
    macs = np.where(tile, random.integers(0, 500, program.size), 0)
    program = dataclasses.replace(
        program,
        energy_pj=energy,
        part_names=names,
        static_pj_per_cycle=float(random.random() * 10),
        activities=program.activities._replace(macs=macs),
        facts={"macs_per_cycle": int(random.integers(1, 90))},
    )
    timeline = simulate(program)
    found = ledger(timeline)
    check_sums(timeline, found)
    kinds = program.resources.kind.tolist()
    for one, kind in zip(found.resources, kinds, strict=True):
        rows = timeline.events.resource == program.resource_names.index(one.resource)
        busy = int((timeline.events.end_cycles - timeline.events.start_cycles)[rows].sum())
        waits = sum(cycles for label, cycles in one.by_label().items() if label.startswith(("wait", "drain", "no_")))
        assert busy == timeline.latency_cycles - waits
        assert one.kind == kind


@settings(max_examples=25)
@given(workload=networks(), machine=st.sampled_from(MACHINES))
def test_ledgers_of_any_network_close_and_split_the_causes(
    workload: Workload, machine: tuple[str, tuple[str, ...]]
) -> None:
    accelerator = load_accelerator(*machine)
    timeline = simulate(lower(workload, accelerator, Layerwise().search(workload, accelerator).schedule))
    found = ledger(timeline, accelerator)
    check_sums(timeline, found)
    core = next(one for one in found.resources if one.kind == ResourceKind.CORE)
    labels, causes = core.by_label(), cycles_by_cause(timeline)
    loads = sum(cycles for label, cycles in labels.items() if label.startswith("wait_load"))
    waits = {label: cycles for label, cycles in labels.items() if label.startswith("wait") and label != "wait_port"}
    assert loads == causes["wait_load"]
    assert sum(waits.values()) + labels.get("drain", 0) == timeline.latency_cycles - causes["compute"]
    by_operator = cycles_by_operator(timeline)
    for row, name in enumerate(timeline.program.operator_names):
        assert sum(core.by_label(row).values()) == by_operator.get(name, 0)
    needed = min(int(timeline.program.activities.macs.sum()), int(timeline.program.operator_macs.sum()))
    assert abs(labels.get("useful_mac", 0) - needed / accelerator.macs_per_cycle) <= len(workload.operators)
    for point in roofline_points(accelerator, timeline):
        for ladder, value in (
            (performance_ladder(found, point), point.ops_per_cycle),
            (energy_ladder(found, point), point.ops_per_pj),
        ):
            if ladder:
                assert math.isclose(ladder[-1].value, value, rel_tol=1e-9)
                assert all(one.value >= two.value for one, two in itertools.pairwise(ladder))


@settings(max_examples=40)
@given(
    workload=networks(),
    machine=machines(),
    weights=st.sampled_from(WEIGHTS),
    inputs=st.sampled_from(INPUTS),
)
def test_ledgers_of_any_machine_with_zeros_close(
    workload: Workload, machine: Accelerator, weights: str | None, inputs: str | None
) -> None:
    """Sums are whole, ladders end at their points, no point is above its roof, whatever is counted."""
    workload = sparse(workload, weights, inputs)
    try:
        schedule = Layerwise().search(workload, machine).schedule
    except BufferOverflow:
        assume(False)
    timeline = simulate(lower(workload, machine, schedule))
    found = ledger(timeline, machine)
    check_sums(timeline, found)
    dense, effectual = (roofline_points(machine, timeline, effectual=one) for one in (False, True))
    for whole, part in zip(dense, effectual, strict=True):
        assert part.macs <= whole.macs and (part.cycles, part.bytes) == (whole.cycles, whole.bytes)
        assert whole.ops_per_cycle <= whole.roof_ops_per_cycle * (1 + 1e-9)
        assert whole.ops_per_pj <= whole.roof_ops_per_pj * (1 + 1e-9)
        for ladder, value in (
            (performance_ladder(found, whole), whole.ops_per_cycle),
            (energy_ladder(found, whole), whole.ops_per_pj),
        ):
            if ladder:
                assert math.isclose(ladder[-1].value, value, rel_tol=1e-9)
                assert all(one.value >= two.value for one, two in itertools.pairwise(ladder))
    core = next(one for one in found.resources if one.kind == ResourceKind.CORE)
    run = dense[0]
    useful = core.by_label().get("useful_mac", 0)
    assert useful <= run.peak_cycles + len(workload.operators)
