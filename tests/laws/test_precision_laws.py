"""Fewer bits never cost more at equal work."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.analysis.energy import energy_pj
from accelsim.analysis.options import tensors, widest_bits, with_fewer_bits
from accelsim.engine import simulate
from accelsim.library import load_accelerator
from accelsim.program.lower import lower
from accelsim.search import Layerwise
from accelsim.workload.graph import Workload
from tests.laws.test_roofline_laws import MACHINES
from tests.strategies.networks import networks


@settings(max_examples=25)
@given(workload=networks(), machine=st.sampled_from(MACHINES), share=st.sampled_from((0.5, 0.25)))
def test_fewer_bits_never_cost_more_under_the_same_schedule(
    workload: Workload, machine: tuple[str, tuple[str, ...]], share: float
) -> None:
    accelerator = load_accelerator(*machine)
    schedule = Layerwise().search(workload, accelerator).schedule
    narrow = with_fewer_bits(workload, share)
    before, after = (simulate(lower(one, accelerator, schedule)) for one in (workload, narrow))
    assert narrow.macs == workload.macs
    assert narrow.vector_ops == workload.vector_ops
    assert energy_pj(after) <= energy_pj(before) * (1 + 1e-12)
    assert int(after.program.activities.bytes.sum()) <= int(before.program.activities.bytes.sum())
    for wide, slim in zip(tensors(workload), tensors(narrow), strict=True):
        assert slim.bits == (wide.bits if wide.bits > widest_bits(workload) else max(int(wide.bits * share), 1))
