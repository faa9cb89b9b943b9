"""The accelerator: costs of vector work, parts, and that it survives being sent to another process."""

from __future__ import annotations

import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from accelsim.errors import UnsupportedOperator
from accelsim.library import load_accelerator


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
