"""Computing in memory: the closed form against macros clocked bit by bit, and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.errors import TemplateError, UnsupportedOperator
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.hardware.dataflow.in_memory import InMemory
from accelsim.library import load_accelerator
from tests.naive import in_memory as twin

FIELDS = ("macros", "rows", "columns", "weight_bits", "cell_bits", "input_bits", "step_bits", "columns_per_converter",
          "conversion_cycles", "write_cycles")  # fmt: skip


def generic(**fields: int) -> InMemory:
    dataflow = load_accelerator("imc_generic", [f"pe_array.{name}={value}" for name, value in fields.items()]).dataflow
    assert isinstance(dataflow, InMemory)
    return dataflow


def product(M: int, N: int, K: int, groups: int = 1) -> TileColumns:
    sizes = (1, K * groups, N * groups, N, M, 1, 1, 1, 1, 1, groups, 0)
    return TileColumns(*(np.array([size]) for size in sizes))


def test_the_closed_form_is_what_the_clocked_macros_do() -> None:
    """Random products and macros: the product, bit by bit, cycles, and every value that is read."""
    random = np.random.default_rng(0)
    for _ in range(100):
        weight_bits, cell_bits, input_bits, step_bits = (int(n) for n in random.integers([2, 1, 2, 1], [9, 5, 9, 5]))
        slices = -(-weight_bits // cell_bits)
        macros, rows, shared, conversion, write = (int(n) for n in random.integers(1, [4, 7, 9, 4, 4]))
        columns = int(random.integers(slices, 3 * slices + 3))
        machine = twin.Machine(
            macros, rows, columns, weight_bits, cell_bits, input_bits, step_bits, shared, conversion, write
        )
        dataflow = generic(**dict(zip(FIELDS, machine, strict=True)))
        M, N, K, groups = (int(n) for n in random.integers(1, [9, 9, 9, 4]))
        low, high = 1 << (input_bits - 1), 1 << (weight_bits - 1)
        pairs = [(random.integers(-low, low, (M, K)), random.integers(-high, high, (K, N))) for _ in range(groups)]
        products, cycles, crossed = twin.multiply(pairs, machine)
        assert all((result == a @ b).all() for result, (a, b) in zip(products, pairs, strict=True))
        tile = product(M, N, K, groups)
        assert dataflow.cost(tile).cycles.tolist() == [cycles], (machine, M, N, K, groups)
        assert dataflow.port_bytes(tile).tolist() == [crossed["weights"] + crossed["inputs"] + 4 * crossed["added"]]
        assert cycles * dataflow.macs_per_cycle >= groups * M * N * K


def test_a_product_by_hand() -> None:
    # 100 inputs, 64 filters, 1152 terms: one fold fills one macro. 1152 rows to write, 1, and 8 bits x 4 columns each.
    assert generic().cost(product(100, 64, 1152)).cycles.tolist() == [1152 + 1 + 100 * 8 * 4]
    # Eight of them run side by side, a ninth alone.
    assert generic().cost(product(100, 8 * 64, 1152)).cycles.tolist() == [1152 + 1 + 3200]
    assert generic().cost(product(100, 9 * 64, 1152)).cycles.tolist() == [2 * (1152 + 1 + 3200)]
    # Two macros, three folds over the terms: the third one adds to 100 x 64 sums of 4 bytes.
    two = generic(macros=2)
    assert two.port_bytes(product(100, 64, 3 * 1152)).tolist() == [3 * 1152 * 164 + 4 * 6400]


def test_writing_is_paid_by_each_tile() -> None:
    # The same work in two tiles writes all cells twice.
    whole, half = (generic().cost(product(M, 64, 1152)).cycles[0] for M in (100, 50))
    assert 2 * half - whole == 1152 + 1


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(TemplateError, match=r"pe_array.columns: found 4; expected at least 8, the columns of"):
        generic(columns=4)
    with pytest.raises(UnsupportedOperator, match="folds, at most 16777216; cut the operator"):
        generic(rows=1, columns=8).cost(product(1, 1 << 13, 1 << 13))
