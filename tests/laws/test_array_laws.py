"""Laws of arrays, over every template: no more than all elements work, no work is lost by cutting, causes add up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.analysis.ledger_tiles import tile_cycles
from accelsim.errors import TilingNumberError
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.library import list_accelerators, load_accelerator
from accelsim.program.lower import lower
from accelsim.schedule.notation import Schedule
from accelsim.workload.graph import Workload
from accelsim.workload.models.builder import Builder
from accelsim.workload.operator import ArrayWork
from accelsim.workload.operators import Conv2d

MACHINES = {name: load_accelerator(name, ["buffers.global.capacity=64 MiB"]) for name in list_accelerators()} | {
    "nvdla_large with squares": load_accelerator(
        "nvdla_large", ["pe_array.winograd=true", "buffers.global.capacity=64 MiB"]
    ),
    "tpu_v1 with inputs held": load_accelerator("tpu_v1", ["pe_array.dataflow=input_stationary"]),
}


def layer(channels: int, filters: int, size: int, kernel: int, stride: int, groups: int, dilation: int) -> Workload:
    net = Builder(plain=True)
    image = net.input("image", (channels * groups, size, size))
    net.conv("layer", image, filters * groups, (kernel, kernel), stride, groups=groups)
    workload = net.workload("net")
    [operator] = workload.operators
    assert isinstance(operator, Conv2d)
    padding = (kernel - 1) * dilation // 2
    dilated = replace(operator, dilation=(dilation, dilation), padding=(padding, padding))
    return replace(workload, operators=(dilated,))


layers = st.builds(
    layer,
    channels=st.sampled_from([1, 3, 16, 70]),
    filters=st.sampled_from([1, 8, 33]),
    size=st.integers(1, 20),
    kernel=st.sampled_from([1, 3, 5]),
    stride=st.integers(1, 2),
    groups=st.sampled_from([1, 1, 4]),
    dilation=st.sampled_from([1, 1, 2, 3]),
)


def work_columns(works: list[ArrayWork]) -> TileColumns:
    return TileColumns(
        *(np.array(column) for column in zip(*(work[: len(TileColumns._fields)] for work in works), strict=True))
    )


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
class TestArrays:
    @given(net=layers, number=st.sampled_from([1, 2, 3, 5, 8]))
    @settings(max_examples=15, deadline=None)
    def test_cutting_loses_and_adds_no_work(self, machine: Accelerator, net: Workload, number: int) -> None:
        try:
            program = lower(net, machine, Schedule("net", ("layer",), (), (), (number,)))
        except TilingNumberError:
            return
        assert int(program.activities.macs.sum()) == net.macs
        mac = program.part_names.index("mac")
        whole = lower(net, machine, Schedule("net", ("layer",), (), (), (1,)))
        np.testing.assert_allclose(program.energy_pj[:, mac].sum(), whole.energy_pj[:, mac].sum(), rtol=1e-12)

    @given(net=layers)
    @settings(max_examples=15, deadline=None)
    def test_no_more_than_all_elements_work_and_while_they_stream(self, machine: Accelerator, net: Workload) -> None:
        work = net.operators[0].whole_work(1)
        assert isinstance(work, ArrayWork)
        columns = work_columns([work])
        cycles = machine.array_cost(columns).cycles.item()
        assert work.macs <= cycles * machine.macs_per_cycle
        efficiency = machine.dataflow.mapping_efficiency(columns)
        if efficiency is not None:
            assert 0 < efficiency[0] <= 1 + 1e-12
            assert work.macs / (efficiency[0] * machine.macs_per_cycle) <= cycles * (1 + 1e-12)

    @given(net=layers, number=st.sampled_from([1, 4]))
    @settings(max_examples=10, deadline=None)
    def test_causes_of_tiles_add_up_to_their_cycles(self, machine: Accelerator, net: Workload, number: int) -> None:
        try:
            program = lower(net, machine, Schedule("net", ("layer",), (), (), (number,)))
        except TilingNumberError:
            return
        causes = tile_cycles(program, machine, np.arange(program.size))
        assert (causes >= 0).all()
        assert causes.sum() == program.activities.cycles.sum()
