"""Laws that hold for what is read from any run: nothing is lost, nothing counted twice."""

import dataclasses
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from accelsim.analysis.energy import energy_by_operator_pj, energy_by_part_pj, energy_pj
from accelsim.analysis.report import summary
from accelsim.engine import simulate
from accelsim.formats import load_timeline
from accelsim.formats.timeline_npz import check_events, write_timeline
from accelsim.program.tables import ActivityKind
from accelsim.timeline.columns import event_columns
from accelsim.timeline.occupancy import bin_edges, buffer_occupancy, bytes_in_bins, cycles_in_bins
from accelsim.timeline.stalls import (
    CAUSE_NAMES,
    DRAIN,
    critical_path,
    cycles_by_cause,
    cycles_by_operator,
    idle_intervals,
    operator_intervals,
)
from accelsim.timeline.table import Cause
from tests.strategies.programs import legal_programs


@st.composite
def timelines(draw):
    """Runs of legal programs, with energies."""
    program = draw(legal_programs())
    energies = st.floats(0, 1e6, allow_subnormal=False)
    energy = draw(st.lists(st.tuples(energies, energies), min_size=program.size, max_size=program.size))
    return simulate(
        dataclasses.replace(
            program,
            part_names=("mac", "dram"),
            energy_pj=np.array(energy).reshape(-1, 2),
            static_pj_per_cycle=draw(energies),
        )
    )


def causes_cycle_by_cycle(timeline):
    """The rule of the contract, followed literally for every single cycle."""
    events, program = timeline.events, timeline.program
    tiles = [row for row, activity in enumerate(events.activity) if program.activities.kind[activity] == 0]
    found = {}
    for cycle in range(timeline.latency_cycles):
        if any(events.start_cycles[row] <= cycle < events.end_cycles[row] for row in tiles):
            name = "compute"
        else:
            later = [row for row in tiles if events.start_cycles[row] > cycle]
            following = min(later, key=lambda row: (events.start_cycles[row], events.resource[row], row), default=None)
            name = "drain" if following is None else CAUSE_NAMES[Cause(events.cause[following])]
        found[name] = found.get(name, 0) + 1
    return found


@given(timelines())
def test_causes_add_up_and_follow_the_rule(timeline):
    found = cycles_by_cause(timeline)
    assert sum(found.values()) == timeline.latency_cycles
    assert {name: cycles for name, cycles in found.items() if cycles} == causes_cycle_by_cycle(timeline)


@given(timelines())
def test_operators_add_up_and_their_intervals_cover_the_run(timeline):
    assert sum(cycles_by_operator(timeline).values()) == timeline.latency_cycles
    starts, ends, _ = operator_intervals(timeline)
    assert starts.tolist() == [0, *ends[:-1].tolist()][: len(starts)]
    assert ends[-1:].tolist() == ([timeline.latency_cycles] if timeline.latency_cycles else [])


@given(timelines())
def test_idle_and_busy_cycles_of_a_core_are_all_cycles(timeline):
    events = timeline.events
    for core in np.flatnonzero(timeline.program.resources.kind == 0).tolist():
        idle = idle_intervals(timeline, core)
        mine = events.resource == core
        busy = int((events.end_cycles[mine] - events.start_cycles[mine]).sum())
        assert int((idle.end_cycles - idle.start_cycles).sum()) + busy == timeline.latency_cycles
        assert ((idle.event == -1) == (idle.cause == DRAIN)).all()


@given(timelines())
def test_the_critical_path_has_no_gaps(timeline):
    path, events = critical_path(timeline), timeline.events
    if not len(path):
        assert not len(events.activity)
        return
    assert events.start_cycles[path[0]] == 0
    assert events.finish_cycles[path[-1]] == timeline.latency_cycles
    for before, after in zip(path[:-1].tolist(), path[1:].tolist(), strict=True):
        moments = {int(column[before]) for column in (events.start_cycles, events.end_cycles, events.finish_cycles)}
        if events.cause[after] == Cause.LIMIT:  # a latency behind the end of one of the grants in that event
            latency = int(timeline.program.resources.latency_cycles[events.resource[before]])
            start, end = int(events.start_cycles[before]), int(events.end_cycles[before])
            moments.update(range(start + latency, end + latency + 1))
        assert int(events.start_cycles[after]) in moments
        assert events.cause_activity[after] == events.activity[before]


@given(timelines())
def test_energy_ledgers_close(timeline):
    program = timeline.program
    total = energy_pj(timeline)
    assert np.isclose(sum(energy_by_part_pj(timeline).values()), total, rtol=1e-12)
    static = program.static_pj_per_cycle * timeline.latency_cycles
    assert np.isclose(sum(energy_by_operator_pj(timeline).values()) + static, total, rtol=1e-9)
    assert np.isclose(float(event_columns(timeline)["energy_pj"].sum()) + static, total, rtol=1e-9)


@given(timelines())
def test_occupancy_stays_within_the_buffer_and_ends_with_what_nobody_releases(timeline):
    program = timeline.program
    claims = program.claims
    for buffer, capacity in enumerate(program.buffers.capacity_bytes.tolist()):
        held = buffer_occupancy(timeline, buffer)
        assert held.cycles[0] == 0 and (np.diff(held.cycles) > 0).all()
        assert held.values.min() >= 0 and held.peak <= capacity
        kept = (claims.buffer == buffer) & ~np.isin(np.arange(len(claims.bytes)), program.releases.claim)
        assert held.values[-1] == claims.bytes[kept].sum()


@given(timelines(), st.integers(1, 40))
def test_bins_lose_no_byte_and_no_cycle(timeline, bins):
    events, edges = timeline.events, bin_edges(timeline, bins)
    assert edges[0] == 0 and edges[-1] == timeline.latency_cycles
    for resource in range(len(timeline.program.resource_names)):
        mine = events.resource == resource
        assert bytes_in_bins(timeline, mine, edges).sum() == events.bytes[mine].sum()
        busy = cycles_in_bins(events.start_cycles[mine], events.end_cycles[mine], edges)
        assert busy.sum() == (events.end_cycles[mine] - events.start_cycles[mine]).sum()
        assert (busy >= 0).all() and (busy <= np.diff(edges)).all()


@given(timelines())
def test_the_summary_counts_every_byte_and_activity(timeline):
    found, activities = summary(timeline), timeline.program.activities
    sent = activities.kind[timeline.events.activity] == ActivityKind.SEND  # to other accelerators, past DRAM
    assert found["dram_read_bytes"] + found["dram_write_bytes"] == timeline.events.bytes[~sent].sum()
    assert found["tiles"] + found["transfers"] == timeline.program.size
    assert found["latency_cycles"] >= found["lower_bound_cycles"]
    assert found["tiles"] == (activities.kind == ActivityKind.TILE).sum()


@given(timelines())
def test_every_run_survives_its_file(timeline):
    check_events(timeline)
    content = write_timeline(timeline)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "timeline.npz"
        path.write_bytes(content)
        assert write_timeline(load_timeline(path)) == content
