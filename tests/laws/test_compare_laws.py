"""Laws of comparisons and replays: tables add up exactly, and another machine is what lowering for it gives."""

import dataclasses
import itertools
import json
import math

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accelsim.analysis.compare_report import compare
from accelsim.analysis.compare_runs import compare_runs
from accelsim.analysis.energy import energy_pj
from accelsim.engine import simulate
from accelsim.engine.replay import replay
from accelsim.errors import AccelsimError, ScheduleError
from accelsim.library import load_accelerator
from accelsim.program.check import same_program
from accelsim.program.lower import lower
from accelsim.program.rebind import rebind
from accelsim.program.tables import ActivityKind
from accelsim.timeline.compare import identical
from tests.strategies.networks import layer_fusions, networks
from tests.strategies.programs import legal_programs

OLD = load_accelerator("soma_edge")
MACHINES = [
    load_accelerator("soma_edge", overrides)
    for overrides in (
        ["dram.bandwidth=32 GB/s"],
        ["dram.bandwidth=3 GB/s", "dram.latency=7 ns", "dram.arbitration=round_robin", "dram.grant=16 B"],
        ["pe_array.rows=1", "vector_unit.throughput=3 op/cycle", "clock=900 MHz"],
        ["buffers.global.capacity=32 MiB", "static_power=1 W"],
    )
] + [load_accelerator("soma_cloud")]


@st.composite
def runs(draw):
    """Runs of legal programs with energies, some operators and parts of which have the same names in every run."""
    program = draw(legal_programs())
    energies = st.floats(0, 1e12, allow_subnormal=False)
    energy = draw(st.lists(st.tuples(energies, energies), min_size=program.size, max_size=program.size))
    return simulate(
        dataclasses.replace(
            program,
            part_names=draw(st.sampled_from([("mac", "dram"), ("dram", "vector")])),
            energy_pj=np.array(energy).reshape(-1, 2),
            static_pj_per_cycle=draw(energies),
            facts=draw(st.sampled_from([{}, {"clock_hz": 1e9}, {"clock_hz": 3e8}])),
        )
    )


def dram_bytes(run):
    kind = run.program.activities.kind[run.events.activity]
    return int(run.events.bytes[kind != ActivityKind.SEND].sum())


@given(runs(), runs())
def test_every_table_adds_up_to_its_difference(a, b):
    found = compare(a, b)
    cycles = b.latency_cycles - a.latency_cycles
    assert sum(found.cycles_by_cause.values()) == sum(found.cycles_by_operator.values()) == cycles
    assert sum(found.dram_bytes_by_tensor.values()) == dram_bytes(b) - dram_bytes(a)
    for kinds in zip(*found.critical_paths, strict=True):
        assert sum(kinds[1].values()) - sum(kinds[0].values()) == cycles
    difference = found.to_dict()["difference"]
    assert difference["latency_cycles"] == cycles


@given(st.lists(runs(), min_size=2, max_size=4))
def test_columns_and_ladders_of_several_runs_add_up(timelines):
    found = compare_runs(timelines)
    for run, timeline in zip(found.to_dict()["runs"], timelines, strict=True):
        cycles = timeline.latency_cycles
        assert sum(run["cycles_by_cause"].values()) == sum(run["cycles_by_operator"].values()) == cycles
        assert math.fsum(run["energy_by_part_pj"].values()) == run["energy_pj"]
    for step, (one, other) in zip(found.to_dict()["ladder"], itertools.pairwise(timelines), strict=True):
        assert sum(step["cycles_by_cause"].values()) == other.latency_cycles - one.latency_cycles
        assert sum(step["energy_by_part_pj"].values()) == step["energy_pj"]
    json.dumps(found.to_dict(), allow_nan=False)
    assert str(found) and found._repr_html_()


@given(runs(), runs())
def test_energies_add_up_in_any_order(a, b):
    parts = list(compare(a, b).energy_by_part_pj.values())
    total = compare(a, b).energy_pj
    assert sum(parts) == sum(reversed(parts)) == sum(sorted(parts)) == math.fsum(parts) == total
    larger = max(energy_pj(a), energy_pj(b))
    assert abs(total - (energy_pj(b) - energy_pj(a))) <= 1e-14 * larger


@given(runs(), runs())
def test_turned_round_it_is_the_opposite(a, b):
    there, back = compare(a, b), compare(b, a)
    assert {name: -cycles for name, cycles in back.cycles_by_operator.items()} == there.cycles_by_operator
    assert {part: -energy for part, energy in back.energy_by_part_pj.items()} == there.energy_by_part_pj
    assert there.identical == back.identical
    assert {(one.name, -one.shift_cycles) for one in back.transfers.both} == {
        (one.name, one.shift_cycles) for one in there.transfers.both
    }


@given(runs(), runs())
def test_a_run_is_itself_and_every_comparison_can_be_shown(a, b):
    assert compare(a, replay(a)).identical
    found = compare(a, b)
    assert found.identical == identical(a, b)
    json.dumps(found.to_dict(), allow_nan=False)
    assert str(found) and found._repr_html_() and all(found.sentences)


@settings(max_examples=60)
@given(st.data())
def test_a_replay_elsewhere_is_the_schedule_lowered_there(data):
    workload = data.draw(networks())
    schedule = data.draw(layer_fusions(workload))
    new = data.draw(st.sampled_from(MACHINES))
    try:
        program = lower(workload, OLD, schedule)
    except ScheduleError:
        assume(False)
    wanted = lower(workload, new, schedule)
    got = rebind(program, new, data.draw(st.sampled_from([OLD, None])))
    assert same_program(got, wanted)
    assert same_program(rebind(got, OLD, new), program)


@given(legal_programs(), st.sampled_from(MACHINES))
def test_any_program_runs_elsewhere_or_says_why_not(program, new):
    try:
        again = replay(simulate(program), new)
    except AccelsimError as error:
        assert str(error)
        return
    assert np.array_equal(again.program.activities.bytes, program.activities.bytes)
    for table in ("dependencies", "claims", "releases"):
        assert all(map(np.array_equal, getattr(again.program, table), getattr(program, table)))
