"""What holds for every dataflow, over every template that comes with accelsim."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.dataflow import DATAFLOWS
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.library import list_accelerators, load_accelerator

pytestmark = pytest.mark.kernel
TEMPLATES = {name: load_accelerator(name) for name in list_accelerators()}
MACHINES = TEMPLATES | {
    f"scalesim_32x32 {name}": load_accelerator("scalesim_32x32", [f"pe_array.dataflow={name}"])
    for name in DATAFLOWS
    if name not in ("output_stationary", "spatial_cores")
}

row = st.builds(
    lambda b, g, c, k, h, w, r, s, attention: (b, g * c, g * k, k, h, w, r, s, 1, 1, g, attention),
    *(st.integers(1, 3), st.sampled_from([1, 1, 4]), st.sampled_from([1, 3, 64, 130]), st.sampled_from([1, 5, 64])),
    *(st.integers(1, 9), st.integers(1, 9), st.sampled_from([1, 3]), st.sampled_from([1, 3]), st.integers(0, 1)),
)


def columns_of(rows: list[tuple[int, ...]]) -> TileColumns:
    return TileColumns(*(np.array(column) for column in zip(*rows, strict=True)))


def test_every_dataflow_has_a_machine() -> None:
    assert {type(machine.dataflow) for machine in MACHINES.values()} == set(DATAFLOWS.values())


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
class TestDataflow:
    def test_every_energy_belongs_to_a_part(self, machine: Accelerator) -> None:
        assert set(machine.dataflow.parts) <= set(machine.part_names)
        dataflow = machine.dataflow
        described = [name for name in machine.buffers if name not in dataflow.optional_buffer_fields]
        assert described == list(dataflow.buffer_fields)

    def test_no_tiles_cost_nothing(self, machine: Accelerator) -> None:
        cost = machine.array_cost(TileColumns(*[np.empty(0, np.int64)] * len(TileColumns._fields)))
        assert cost.cycles.shape == (0,)
        assert cost.energy_pj.shape == (0, len(machine.part_names))

    @given(rows=st.lists(row, min_size=1, max_size=5))
    @settings(max_examples=25, deadline=None)
    def test_laws(self, machine: Accelerator, rows: list[tuple[int, ...]]) -> None:
        cost = machine.array_cost(columns_of(rows))
        macs = np.array([b * c // g * k * h * w * r * s for b, c, k, _, h, w, r, s, _, _, g, _ in rows])
        # No array is faster than its peak, and the MACs are paid exactly once.
        assert (cost.cycles * machine.macs_per_cycle >= macs).all()
        mac = cost.energy_pj[:, machine.part_names.index("mac")]
        np.testing.assert_allclose(mac / macs, mac[0] / macs[0], rtol=1e-12)
        assert (cost.energy_pj >= 0).all()
        # A tile's cost is its own: neither order nor company matters.
        backwards = machine.array_cost(columns_of(rows[::-1] + rows))
        assert (backwards.cycles == np.r_[cost.cycles[::-1], cost.cycles]).all()
        assert (backwards.energy_pj == np.r_[cost.energy_pj[::-1], cost.energy_pj]).all()

    def test_more_work_takes_no_less_time(self, machine: Accelerator) -> None:
        small = (1, 64, 64, 64, 8, 8, 3, 3, 1, 1, 1, 0)
        for index in (0, 1, 4, 5, 6, 7):
            large = tuple(2 * n if i == index else n for i, n in enumerate(small))
            before, after = machine.array_cost(columns_of([small, large])).cycles
            assert after >= before, TileColumns._fields[index]
