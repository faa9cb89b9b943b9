"""Laws of the roofline that hold for every network, schedule and machine."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.analysis.energy import energy_pj
from accelsim.analysis.roofline import roofline_points
from accelsim.engine import simulate
from accelsim.library import load_accelerator
from accelsim.program.lower import lower
from accelsim.program.tables import ActivityKind
from accelsim.search import Layerwise
from accelsim.timeline.table import Timeline
from accelsim.workload.graph import Workload
from tests.strategies.networks import networks

SLOW = ("dram.bandwidth=1 B/cycle", "buffers.global.read_bandwidth=3 B/cycle", "vector_unit.throughput=1 op/cycle")
MACHINES = (
    ("soma_edge", ()),
    ("soma_edge", SLOW),
    ("soma_edge", ("dram.bandwidth=1000 B/cycle", "dram.latency=50 cycles", "static_power=2 W")),
    ("scalesim_32x32", ("dram.bandwidth=7.3 B/cycle", "dram.arbitration=round_robin", "dram.grant=16 B")),
    ("scalesim_32x32", ("pe_array.rows=2", "pe_array.columns=3", "buffers.global.read_bandwidth=2.5 B/cycle")),
)


@settings(max_examples=40)
@given(workload=networks(), machine=st.sampled_from(MACHINES))
def test_identities_hold_and_no_point_lies_above_its_roof(
    workload: Workload, machine: tuple[str, tuple[str, ...]]
) -> None:
    accelerator = load_accelerator(*machine)
    timeline = simulate(lower(workload, accelerator, Layerwise().search(workload, accelerator).schedule))
    points = roofline_points(accelerator, timeline)
    peak, vector_peak = accelerator.macs_per_cycle, float(accelerator.vector_ops_per_cycle)
    port = accelerator.buffers["global"].read_bytes_per_cycle
    rates = {"dram": float(accelerator.dram.bytes_per_cycle), "buffer.global": float(port) if port else math.inf}
    for point in points:
        work = 2 * point.macs + point.vector_ops
        at_peak = point.macs / peak + point.vector_ops / vector_peak
        assert point.operations == work
        assert point.ops_per_cycle <= point.roof_ops_per_cycle * (1 + 1e-9)
        assert point.ops_per_pj <= point.roof_ops_per_pj * (1 + 1e-9)
        # y = W / T, y / P = U, y / (B I) = Q / (B T), and the roof is the smaller of P and B I.
        assert math.isclose(point.ops_per_cycle * point.cycles, work, rel_tol=1e-12, abs_tol=1e-12)
        assert math.isclose(point.utilization, at_peak / point.cycles if point.cycles else 0.0, rel_tol=1e-12)
        used = point.bytes / (rates[point.level] * point.cycles) if point.cycles else 0.0
        assert math.isclose(point.memory_utilization, used, rel_tol=1e-12)
        assert point.utilization <= 1 + 1e-12
        assert point.memory_utilization <= 1 + 1e-12
        assert (point.intensity is None) == (point.bytes == 0)
        if work and point.intensity is not None:
            roof = min(work / at_peak, rates[point.level] * point.intensity)
            assert math.isclose(point.roof_ops_per_cycle, roof, rel_tol=1e-12)
    _check_sums(workload, timeline, [point for point in points if point.level == "dram"])


def _check_sums(workload: Workload, timeline: Timeline, points: list) -> None:
    """The run's point is that of the whole timeline, and its operators' points add up to it."""
    run, *operators = points
    activities = timeline.program.activities
    moved = int(activities.bytes[activities.kind != ActivityKind.TILE].sum())
    assert (run.name, run.bytes, run.cycles) == ("run", moved, timeline.latency_cycles)
    assert run.macs == workload.macs  # every operator alone in its group: nothing is left out, halo counts once
    assert {point.name for point in operators} == {operator.name for operator in workload.operators}
    for column in ("macs", "vector_ops", "bytes", "cycles_attributed"):
        assert sum(getattr(point, column) for point in operators) == getattr(run, column)
    assert math.isclose(math.fsum(point.energy_pj for point in operators), run.energy_pj, rel_tol=1e-12)
    assert math.isclose(run.energy_pj, energy_pj(timeline), rel_tol=1e-12)
    # An operator's time covers what each resource did for it.
    for point in operators:
        row = timeline.program.operator_names.index(point.name)
        mine = activities.operator[timeline.events.activity] == row
        for resource in np.unique(timeline.events.resource):
            rows = mine & (timeline.events.resource == resource)
            busy = (timeline.events.end_cycles[rows] - timeline.events.start_cycles[rows]).sum()
            assert point.cycles >= busy
