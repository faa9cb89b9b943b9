"""Operators on every array: padding, stride, dilation, groups, depthwise, batched and grouped products, own weights.

A random operator is computed in NumPy; its work is laid on the twin of a dataflow, as real windows and kernels; the
twin must give the same output, in exactly the cycles that the operator's :class:`ArrayWork` costs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.hardware.dataflow.direct_convolution import IMAGE_CHANNELS
from accelsim.hardware.dataflow.row_passes import ConvolutionShape
from accelsim.hardware.dataflow.row_stationary import RowStationary, best_mapping
from accelsim.library import load_accelerator
from accelsim.workload.operator import ArrayWork, Operand, Operator, Source
from accelsim.workload.operators import Conv2d, MatMul
from accelsim.workload.tensor import Tensor
from tests.naive import direct_convolution, in_memory, row_stationary, systolic
from tests.naive.operators import _taps, compute

Array = npt.NDArray[Any]
OPERATORS_A_DATAFLOW = 25


def operand(name: str, *shape: int, is_weight: bool = False) -> Operand:
    return Operand((Source(name),), shape, is_weight=is_weight)


def convolution(random: np.random.Generator) -> Conv2d:
    """Padding, stride, dilation, groups up to depthwise; at times with weights that another operator makes."""
    r, s, row_stride, column_stride, row_dilation, column_dilation = (
        int(n) for n in random.integers(1, [4, 4, 3, 3, 3, 3])
    )
    groups, filters, channels, rows, columns = (int(n) for n in random.integers(1, [4, 4, 4, 5, 5]))
    if random.random() < 0.25:
        filters = channels = 1  # depthwise
    reach = ((r - 1) * row_dilation + 1, (s - 1) * column_dilation + 1)
    padding = tuple(int(random.integers(0, size)) for size in reach)
    size = [
        max((rows - 1) * row_stride + reach[0] - padding[0], 1),
        max((columns - 1) * column_stride + reach[1] - padding[1], 1),
    ]
    shape = (groups * filters, channels, r, s)
    own = random.random() < 0.2
    return Conv2d(
        "o",
        (operand("x", groups * channels, *size), *([operand("w", *shape[:2], r * s, is_weight=True)] if own else [])),
        Tensor("o", (groups * filters, rows, columns)),
        () if own else (Tensor("o.weight", shape),),
        kernel=(r, s),
        stride=(row_stride, column_stride),
        padding=padding,
        dilation=(row_dilation, column_dilation),
        groups=groups,
    )


def product(random: np.random.Generator) -> MatMul:
    """Batched with shared weights; or of two operands, one product a head, at times with keys that heads share."""
    heads, rows, depth, columns = (int(n) for n in random.integers(1, [4, 6, 7, 6]))
    if random.random() < 0.5:
        weights = (Tensor("o.weight", (depth, columns)),)
        return MatMul("o", (operand("x", heads, rows, depth),), Tensor("o", (heads, rows, columns)), weights)
    keys = operand("w", int(random.choice([1, heads])), depth, columns)
    return MatMul("o", (operand("x", heads, rows, depth), keys), Tensor("o", (heads, rows, columns)))


Nest = tuple[Array, Array]
"""Windows (nests, positions, taps, channels) and kernels (nests, filters, taps, channels)."""


def nest(operator: Operator, values: list[Array], weights: list[Array]) -> tuple[Nest, Callable[[Array], Array]]:
    """The operator's work as real numbers; and how (nests, filters, positions) become its output."""
    batch, x = values[0].shape[0], values[0]
    if isinstance(operator, MatMul):
        _, heads, rows, depth = x.shape
        columns = operator.output.shape[-1]
        if weights:  # one nest of all samples' and heads' rows
            windows, kernels = x.reshape(1, -1, 1, depth), weights[0].T.reshape(1, columns, 1, depth)
            return (windows, kernels), lambda out: out[0].T.reshape(batch, heads, rows, columns)
        right = np.broadcast_to(values[1], (batch, heads, depth, columns))
        windows = x.reshape(batch * heads, rows, 1, depth)
        kernels = right.transpose(0, 1, 3, 2).reshape(batch * heads, columns, 1, depth)
        return (windows, kernels), lambda out: out.transpose(0, 2, 1).reshape(batch, heads, rows, columns)
    assert isinstance(operator, Conv2d)
    filters, rows, columns = operator.output.shape
    groups, taps = operator.groups, operator.kernel[0] * operator.kernel[1]
    points = [_taps(operator, x, row, column) for row in range(rows) for column in range(columns)]
    windows = np.stack(points, axis=1).astype(np.int64)
    windows = windows.reshape(batch, rows * columns, groups, -1, taps).transpose(2, 0, 1, 4, 3)
    if weights:
        kernels = weights[0].reshape(groups, filters // groups, -1, taps).transpose(0, 1, 3, 2)
        windows = windows.reshape(groups, batch * rows * columns, taps, -1)
        return (
            (windows, kernels),
            lambda out: (
                out.reshape(groups, -1, batch, rows, columns)
                .transpose(2, 0, 1, 3, 4)
                .reshape(batch, filters, rows, columns)
            ),
        )
    kernels = values[1].reshape(batch, groups, filters // groups, -1, taps).transpose(1, 0, 2, 4, 3)
    windows = windows.reshape(groups * batch, rows * columns, taps, -1)
    kernels = kernels.reshape(groups * batch, filters // groups, taps, -1)
    return (
        (windows, kernels),
        lambda out: (
            out.reshape(groups, batch, -1, rows, columns)
            .transpose(1, 0, 2, 3, 4)
            .reshape(batch, filters, rows, columns)
        ),
    )


def matrices(of: Nest) -> list[tuple[Array, Array]]:
    return [(w.reshape(len(w), -1), k.reshape(len(k), -1).T) for w, k in zip(*of, strict=True)]


def on_systolic(flow: str, random: np.random.Generator, of: Nest, operator: Operator) -> tuple[Array, int, Any]:
    rows, columns = (int(n) for n in random.integers(1, 6, 2))
    compact, overlap = (bool(n) for n in random.integers(0, 2, 2))
    products, cycles, _ = getattr(systolic, flow)(matrices(of), rows, columns, systolic.Switches(compact, overlap))
    fields = {
        "dataflow": flow,
        "rows": rows,
        "columns": columns,
        "compact_edge_folds": compact,
        "fold_overlap": overlap,
    }
    machine = load_accelerator(
        "scalesim_32x32", [f"pe_array.{name}={str(value).lower()}" for name, value in fields.items()]
    )
    return np.stack([one.T for one in products]), cycles, machine.dataflow


def on_in_memory(random: np.random.Generator, of: Nest, operator: Operator) -> tuple[Array, int, Any]:
    fields = {"macros": 2, "rows": 5, "columns": 24, "columns_per_converter": 3}
    products, cycles, _ = in_memory.multiply(matrices(of), in_memory.Machine(2, 5, 24, 8, 1, 8, 1, 3, 1, 1))
    machine = load_accelerator("imc_generic", [f"pe_array.{name}={value}" for name, value in fields.items()])
    return np.stack([one.T for one in products]), cycles, machine.dataflow


def on_direct(random: np.random.Generator, of: Nest, operator: Operator) -> tuple[Array, int, Any]:
    windows, kernels = of
    machine = direct_convolution.Machine(*(int(n) for n in random.integers(1, [5, 6, 9, 5])))
    if windows.shape[3] <= IMAGE_CHANNELS and isinstance(operator, Conv2d) and operator.kernel[1] > 1:
        # An image: the kernel's columns are channels.
        windows, kernels = (one.reshape(*one.shape[:2], operator.kernel[0], -1) for one in of)
    out, cycles, _ = direct_convolution.run(windows[..., None], kernels[..., None], machine, machine.channels)
    names = ("rows", "columns", "stripe", "results_per_cycle")
    overrides = [f"pe_array.{name}={value}" for name, value in zip(names, machine, strict=True)]
    return out[..., 0], cycles, load_accelerator("nvdla_small", overrides).dataflow


def on_row_stationary(random: np.random.Generator, of: Nest, operator: Operator) -> tuple[Array, int, Any]:
    """From the padded image itself, so that rows are shared as the array shares them."""
    windows, kernels = of
    dataflow = load_accelerator(
        "eyeriss", ["pe_array.rows=5", "pe_array.columns=4", "buffers.filter.capacity=40 B"]
    ).dataflow
    assert isinstance(dataflow, RowStationary)
    nests, positions, _, channels = windows.shape
    filters = kernels.shape[1]
    machine = row_stationary.Machine(*dataflow.array)
    if isinstance(operator, MatMul):
        shape = ConvolutionShape(nests, 1, channels, filters, positions, 1, 1, 1, 1, 1)
        x = windows.transpose(0, 2, 3, 1)[..., None]
        w, stride = kernels.transpose(0, 1, 3, 2)[..., None], (1, 1)
    else:
        assert isinstance(operator, Conv2d)
        (_, rows, columns), (r, s), stride = operator.output.shape, operator.kernel, operator.stride
        samples = positions // (rows * columns)
        shape = ConvolutionShape(nests, samples, channels, filters, rows, columns, r, s, *stride)
        x = np.zeros(
            (nests, samples, channels, (rows - 1) * stride[0] + r, (columns - 1) * stride[1] + s), dtype=np.int64
        )
        seen = windows.reshape(nests, samples, rows, columns, r, s, channels)
        for row, column, i, j in np.ndindex(rows, columns, r, s):  # overlapping windows agree where nothing is dilated
            x[:, :, :, row * stride[0] + i, column * stride[1] + j] = seen[:, :, row, column, i, j]
        w = kernels.reshape(nests, filters, r, s, channels).transpose(0, 1, 4, 2, 3)
    out, run = row_stationary.convolve(x, w, stride, row_stationary.Lay(*best_mapping(dataflow, shape)), machine)
    return out.transpose(0, 2, 1, 3, 4).reshape(nests, filters, positions), run.cycles, dataflow


LAYERS: dict[str, Callable[..., tuple[Array, int, Any]]] = {
    "output_stationary": lambda *of: on_systolic("output_stationary", *of),
    "weight_stationary": lambda *of: on_systolic("weight_stationary", *of),
    "input_stationary": lambda *of: on_systolic("input_stationary", *of),
    "direct_convolution": on_direct,
    "in_memory": on_in_memory,
    "row_stationary": on_row_stationary,
}


def check(flow: str, seed: int, count: int) -> int:
    """Compares ``count`` random operators; returns how many of them were dilated."""
    random = np.random.default_rng(seed)
    dilated = 0
    for _ in range(count):
        operator = convolution(random) if random.random() < 0.7 else product(random)
        if flow == "row_stationary" and isinstance(operator, Conv2d) and operator.dilation != (1, 1):
            continue  # its tiles do not know of dilation
        dilated += isinstance(operator, Conv2d) and operator.dilation != (1, 1)
        batch = int(random.integers(1, 4))
        values = [random.integers(-8, 8, (batch, *one.shape)) for one in operator.operands]
        weights = [random.integers(-8, 8, one.shape) for one in operator.weights]
        of, back = nest(operator, values, weights)
        out, cycles, dataflow = LAYERS[flow](random, of, operator)
        assert (back(out) == compute(operator, values, weights)).all(), operator
        work = operator.whole_work(batch)
        assert isinstance(work, ArrayWork)
        assert dataflow.cost(TileColumns(*(np.array([size]) for size in work[:12]))).cycles.tolist() == [cycles], (
            operator
        )
    return dilated


@pytest.mark.parametrize("flow", LAYERS)
def test_operators_on_arrays(flow: str) -> None:
    slow = flow == "row_stationary"
    assert check(flow, 1, OPERATORS_A_DATAFLOW // (3 if slow else 1)) > 0 or slow
