"""The accelerator: costs of vector work, parts, and that it survives being sent to another process."""

from __future__ import annotations

import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from accelsim.errors import UnknownName, UnsupportedOperator
from accelsim.hardware.vector_unit import FunctionFields
from accelsim.library import load_accelerator
from accelsim.program.lower import lower
from accelsim.program.rebind import rebind
from accelsim.schedule.notation import Schedule
from accelsim.workload.graph import Workload
from accelsim.workload.operator import Operand, Source
from accelsim.workload.operators import OPERATORS, Softmax
from accelsim.workload.tensor import Tensor


def test_vector_work_is_rounded_up_once_a_tile() -> None:
    machine = load_accelerator("soma_edge")
    operations = [0, 1, 511, 512, 513, 51200]
    cost = machine.vector_cost(operations)
    assert cost.cycles.tolist() == [0, 1, 1, 1, 2, 100]
    vector = machine.part_names.index("vector")
    np.testing.assert_allclose(cost.energy_pj[:, vector], 0.0873 * np.array(operations), rtol=1e-15)
    assert np.delete(cost.energy_pj, vector, axis=1).sum() == 0


def test_a_throughput_need_not_be_whole() -> None:
    machine = load_accelerator("soma_edge", ["vector_unit.throughput=1.5 op/cycle"])
    assert machine.vector_ops_per_cycle == Fraction(3, 2)
    assert machine.vector_cost([1, 2, 3, 4, 3 * 10**15]).cycles.tolist() == [1, 2, 2, 3, 2 * 10**15]


@pytest.mark.parametrize("count", [-1, 1 << 62])
def test_senseless_counts_are_refused(count: int) -> None:
    machine = load_accelerator("soma_edge", ["vector_unit.throughput=1.5 op/cycle"])
    with pytest.raises(UnsupportedOperator, match="vector operations"):
        machine.vector_cost([1, count])


def test_part_names_follow_the_template() -> None:
    assert load_accelerator("scalesim_32x32").part_names == ("mac", "vector", "buffer.global", "dram", "static")
    assert load_accelerator("soma_cloud").part_names == (
        "mac",
        "vector",
        "buffer.global",
        "buffer.input",
        "buffer.weight",
        "buffer.output",
        "buffer.accumulator",
        "dram",
        "static",
    )


def test_an_accelerator_can_be_pickled() -> None:
    machine = load_accelerator("soma_edge", ["dram.bandwidth=10 GB/s"])
    again = pickle.loads(pickle.dumps(machine))
    assert again == machine
    assert again.source == machine.source


def test_importing_the_package_of_hardware_compiles_nothing() -> None:
    code = "import sys, accelsim.hardware; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_kind_of_operator_with_a_throughput_of_its_own() -> None:
    plain = load_accelerator("soma_edge")
    slow = load_accelerator("soma_edge", ["vector_unit.functions.softmax=3 op/cycle"])
    operations, kinds = [1000, 1000, 1000], ["softmax", "elementwise", ""]
    assert plain.vector_cost(operations, kinds).cycles.tolist() == [2, 2, 2]  # 512 a cycle
    assert slow.vector_cost(operations, kinds).cycles.tolist() == [334, 2, 2]
    assert slow.vector_cost(operations).cycles.tolist() == [2, 2, 2]
    assert (slow.vector_cost(operations, kinds).energy_pj == plain.vector_cost(operations).energy_pj).all()
    assert slow.digest != plain.digest
    with pytest.raises(UnknownName, match=r"did you mean 'vector_unit\.functions\.softmax'"):
        load_accelerator("soma_edge", ["vector_unit.functions.softmx=3 op/cycle"])


def test_every_kind_on_the_vector_unit_may_have_its_throughput() -> None:
    on_array = {"conv2d", "conv_transpose2d", "matmul", "recurrent"}
    assert set(FunctionFields.model_fields) == set(OPERATORS) - on_array


def test_a_recorded_run_knows_its_kinds_where_they_mattered() -> None:
    # A softmax of 8 x 8 counts 320 operations; at 2 a cycle instead of 1 it takes half of 320 cycles.
    source, operand = Tensor("input", (8, 8)), Operand((Source("input"),), (8, 8))
    softmax = Softmax("softmax", (operand,), Tensor("softmax", (8, 8)))
    workload = Workload("one", (softmax,), (source,))
    schedule = Schedule("one", ("softmax",), (), (), (1,))
    for recorded, expected in (("vector_unit.functions.softmax=1 op/cycle", 160), ("dram.latency=0 cycles", 1)):
        program = lower(workload, load_accelerator("soma_edge", [recorded]), schedule)
        target = load_accelerator("soma_edge", ["vector_unit.functions.softmax=2 op/cycle"])
        assert rebind(program, target).activities.cycles.max() == expected
