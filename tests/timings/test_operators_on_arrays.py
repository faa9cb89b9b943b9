"""Operators on every array: padding, stride, dilation, groups, depthwise, batched and grouped products, own weights,
transposed convolutions, causal masks.

A random operator is computed in NumPy; its work is laid on the twin of a dataflow, as real windows and kernels; the
twin must give the same output, in exactly the cycles that the operator's :class:`ArrayWork` costs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as pairs_of
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from accelsim.hardware.dataflow.dataflow import Dataflow, TileColumns
from accelsim.hardware.dataflow.direct_convolution import IMAGE_CHANNELS
from accelsim.hardware.dataflow.row_passes import ConvolutionShape
from accelsim.hardware.dataflow.row_stationary import RowStationary, best_mapping
from accelsim.library import load_accelerator
from accelsim.workload.operator import ArrayWork, Operand, Operator, Source
from accelsim.workload.operators import Conv2d, ConvTranspose2d, MatMul
from accelsim.workload.operators.causal import CausalMask
from accelsim.workload.tensor import Tensor
from tests.naive import direct_convolution, in_memory, row_stationary, systolic
from tests.naive.operators import _taps, compute

Array = npt.NDArray[Any]
OPERATORS_A_DATAFLOW = 18
UNKNOWN = 1 << 20


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


def transposed(random: np.random.Generator) -> ConvTranspose2d:
    """Mostly of a kernel that the stride divides, so that all phases have as many taps."""
    kernel, stride, dilation, size, padding, outputs = ([0, 0] for _ in range(6))
    for axis in range(2):
        stride[axis] = int(random.integers(1, 4))
        kernel[axis] = (
            stride[axis] * int(random.integers(1, 3)) if random.random() < 0.8 else int(random.integers(1, 4))
        )
        dilation[axis], size[axis] = int(random.integers(1, 3)), int(random.integers(1, 5))
        full = (size[axis] - 1) * stride[axis] + (kernel[axis] - 1) * dilation[axis] + 1
        padding[axis] = int(random.integers(0, min(2, full)))
        outputs[axis] = full - padding[axis]
        if random.random() < 0.8:
            outputs[axis] = max(outputs[axis] // stride[axis] * stride[axis], 1)
    groups, channels, filters = (int(n) for n in random.integers(1, [3, 4, 4]))
    return ConvTranspose2d(
        "o",
        (operand("x", groups * channels, *size),),
        Tensor("o", (groups * filters, *outputs)),
        (Tensor("o.weight", (groups * channels, filters, *kernel)),),
        kernel=(kernel[0], kernel[1]),
        stride=(stride[0], stride[1]),
        padding=(padding[0], padding[1]),
        dilation=(dilation[0], dilation[1]),
        groups=groups,
    )


def nests_of_phases(operator: ConvTranspose2d, x: Array, w: Array) -> list[tuple[Nest, ArrayWork, tuple[slice, slice]]]:
    """For each phase of the stride a gather of the inputs that reach its outputs: a nest, its work, and its place."""
    found = []
    groups, (filters, *sizes), batch = operator.groups, operator.output.shape, x.shape[0]
    for phase in pairs_of(*(range(min(stride, size)) for stride, size in zip(operator.stride, sizes, strict=True))):
        taps, outputs = [], []
        for axis in range(2):
            stride, first = operator.stride[axis], phase[axis] + operator.padding[axis]
            reach = [k for k in range(operator.kernel[axis]) if (first - k * operator.dilation[axis]) % stride == 0]
            taps.append(reach[::-1])  # the last of them reads the first input
            outputs.append(range(phase[axis], sizes[axis], stride))
        if not taps[0] or not taps[1]:
            continue
        windows = np.zeros((batch, *map(len, outputs), *map(len, taps), x.shape[1]), dtype=np.int64)
        for at in np.ndindex(*windows.shape[1:5]):
            source = [
                (outputs[axis][at[axis]] + operator.padding[axis] - taps[axis][at[2 + axis]] * operator.dilation[axis])
                // operator.stride[axis]
                for axis in range(2)
            ]
            if all(0 <= place < size for place, size in zip(source, x.shape[2:], strict=True)):
                windows[:, *at] = x[:, :, *source]
        kernels = w[:, :, taps[0]][:, :, :, taps[1]].reshape(groups, -1, filters // groups, len(taps[0]) * len(taps[1]))
        windows = windows.reshape(-1, len(taps[0]) * len(taps[1]), groups, x.shape[1] // groups)
        between = [abs(k[1] - k[0]) * d // s if len(k) > 1 else 1
                   for k, d, s in zip(taps, operator.dilation, operator.stride, strict=True)]  # fmt: skip
        work = ArrayWork(batch, x.shape[1], filters, filters // groups, len(outputs[0]), len(outputs[1]), len(taps[0]),
                         len(taps[1]), 1, 1, groups, 0, between[0], between[1])  # fmt: skip
        nest = (windows.transpose(2, 0, 1, 3), kernels.transpose(0, 2, 3, 1))
        found.append(
            (nest, work, (slice(phase[0], None, operator.stride[0]), slice(phase[1], None, operator.stride[1])))
        )
    return found


def matrices(of: Nest) -> list[tuple[Array, Array]]:
    return [(w.reshape(len(w), -1), k.reshape(len(k), -1).T) for w, k in zip(*of, strict=True)]


def on_systolic(flow: str, random: np.random.Generator, of: Nest, work: ArrayWork) -> tuple[Array, int, Any]:
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


def on_in_memory(random: np.random.Generator, of: Nest, work: ArrayWork) -> tuple[Array, int, Any]:
    fields = {"macros": 2, "rows": 5, "columns": 24, "columns_per_converter": 3}
    products, cycles, _ = in_memory.multiply(matrices(of), in_memory.Machine(2, 5, 24, 8, 1, 8, 1, 3, 1, 1))
    machine = load_accelerator("imc_generic", [f"pe_array.{name}={value}" for name, value in fields.items()])
    return np.stack([one.T for one in products]), cycles, machine.dataflow


def on_direct(random: np.random.Generator, of: Nest, work: ArrayWork) -> tuple[Array, int, Any]:
    windows, kernels = of
    machine = direct_convolution.Machine(*(int(n) for n in random.integers(1, [5, 6, 9, 5])))
    if windows.shape[3] <= IMAGE_CHANNELS and work.kernel_columns > 1 and work.dilation_columns == 1:
        # An image: the kernel's columns are channels.
        windows, kernels = (one.reshape(*one.shape[:2], work.kernel_rows, -1) for one in of)
    out, cycles, _ = direct_convolution.run(windows[..., None], kernels[..., None], machine, machine.channels)
    names = ("rows", "columns", "stripe", "results_per_cycle")
    overrides = [f"pe_array.{name}={value}" for name, value in zip(names, machine, strict=True)]
    return out[..., 0], cycles, load_accelerator("nvdla_small", overrides).dataflow


def on_row_stationary(random: np.random.Generator, of: Nest, work: ArrayWork) -> tuple[Array, int, Any]:
    """From images, so that rows are shared as the array shares them; of a dilated kernel, one for each phase."""
    windows, kernels = of
    dataflow = load_accelerator(
        "eyeriss", ["pe_array.rows=5", "pe_array.columns=4", "buffers.filter.capacity=40 B"]
    ).dataflow
    assert isinstance(dataflow, RowStationary)
    nests, positions, _, channels = windows.shape
    filters, rows, columns, r, s = kernels.shape[1], work.rows, work.columns, work.kernel_rows, work.kernel_columns
    samples = positions // (rows * columns)
    seen = windows.reshape(nests, samples, rows, columns, r, s, channels)
    w = kernels.reshape(nests, filters, r, s, channels).transpose(0, 1, 4, 2, 3)
    out = np.zeros((nests, samples, filters, rows, columns), dtype=np.int64)
    strides, dilations = (work.stride_rows, work.stride_columns), (work.dilation_rows, work.dilation_columns)
    common = [gcd(*pair) for pair in zip(strides, dilations, strict=True)]
    step = [
        min(d // c, size) if k > 1 else 1
        for d, c, size, k in zip(dilations, common, (rows, columns), (r, s), strict=True)
    ]
    stride = tuple(n // c if k > 1 else n for n, c, k in zip(strides, common, (r, s), strict=True))
    alike: dict[tuple[int, int], list[tuple[slice, slice]]] = {}
    for i, j in np.ndindex(*step):
        size = (len(range(i, rows, step[0])), len(range(j, columns, step[1])))
        alike.setdefault(size, []).append((slice(i, None, step[0]), slice(j, None, step[1])))
    cycles = 0
    for (high, wide), places in alike.items():
        x = np.full(
            (nests, len(places), samples, channels, (high - 1) * stride[0] + r, (wide - 1) * stride[1] + s), UNKNOWN
        )
        for number, place in enumerate(places):
            of_phase = seen[:, :, place[0], place[1]]
            for row, column, i, j in np.ndindex(high, wide, r, s):
                there = x[:, number, :, :, row * stride[0] + i, column * stride[1] + j]
                value = of_phase[:, :, row, column, i, j]
                assert ((there == UNKNOWN) | (there == value)).all(), "overlapping windows must agree"
                there[...] = value
        x[x == UNKNOWN] = 0
        shape = ConvolutionShape(nests, samples * len(places), channels, filters, high, wide, r, s, *stride)
        lay = row_stationary.Lay(*best_mapping(dataflow, shape))
        images = x.reshape(nests, -1, *x.shape[3:])
        made, run = row_stationary.convolve(images, w, stride, lay, row_stationary.Machine(*dataflow.array))
        cycles += run.cycles
        for number, place in enumerate(places):
            out[:, :, :, place[0], place[1]] = made.reshape(nests, len(places), samples, *made.shape[2:])[:, number]
    return out.transpose(0, 2, 1, 3, 4).reshape(nests, filters, positions), cycles, dataflow


LAYERS: dict[str, Callable[..., tuple[Array, int, Any]]] = {
    "output_stationary": lambda *of: on_systolic("output_stationary", *of),
    "weight_stationary": lambda *of: on_systolic("weight_stationary", *of),
    "input_stationary": lambda *of: on_systolic("input_stationary", *of),
    "direct_convolution": on_direct,
    "in_memory": on_in_memory,
    "row_stationary": on_row_stationary,
}


def cycles_of(dataflow: Dataflow, work: ArrayWork) -> int:
    return int(dataflow.cost(TileColumns(*(np.array([size]) for size in work[: len(TileColumns._fields)]))).cycles[0])


def random_values(random: np.random.Generator, operator: Operator, batch: int) -> tuple[list[Array], list[Array]]:
    values = [random.integers(-8, 8, (batch, *one.shape)) for one in operator.operands]
    return values, [random.integers(-8, 8, one.shape) for one in operator.weights]


def check(flow: str, random: np.random.Generator) -> bool:
    """One convolution or product; whether it was dilated."""
    operator = convolution(random) if random.random() < 0.7 else product(random)
    batch = int(random.integers(1, 4))
    values, weights = random_values(random, operator, batch)
    of, back = nest(operator, values, weights)
    work = operator.whole_work(batch)
    assert isinstance(work, ArrayWork)
    out, cycles, dataflow = LAYERS[flow](random, of, work)
    assert (back(out) == compute(operator, values, weights)).all(), operator
    assert cycles_of(dataflow, work) == cycles, operator
    return (work.dilation_rows, work.dilation_columns) != (1, 1)


def check_transposed(flow: str, random: np.random.Generator) -> bool:
    """One transposed convolution, phase by phase; whether all phases were alike, so that cycles were compared."""
    operator = transposed(random)
    batch = int(random.integers(1, 3))
    (x,), (w,) = random_values(random, operator, batch)
    out = np.zeros((batch, *operator.output.shape), dtype=np.int64)
    work, seed = operator.whole_work(batch), int(random.integers(1 << 30))
    parts = nests_of_phases(operator, x, w)
    assert sum(part.macs for _, part, _ in parts) == work.macs, operator
    exact = work.groups == operator.groups * operator.stride[0] * operator.stride[1]
    if exact:  # all phases as groups of one nest
        of = tuple(np.concatenate([part[0][side] for part in parts]) for side in range(2))
        made, taken, dataflow = LAYERS[flow](np.random.default_rng(seed), of, work)
        results = np.split(made, len(parts))
        assert cycles_of(dataflow, work) == taken, operator
    else:
        results = [LAYERS[flow](np.random.default_rng(seed), of, part)[0] for of, part, _ in parts]
    for (_, part, (rows, columns)), result in zip(parts, results, strict=True):
        shaped = result.reshape(operator.groups, -1, batch, part.rows, part.columns).transpose(2, 0, 1, 3, 4)
        out[:, :, rows, columns] = shaped.reshape(batch, -1, part.rows, part.columns)
    assert (out == compute(operator, [x], [w])).all(), operator
    return exact


def check_causal(flow: str, random: np.random.Generator) -> None:
    """Attention under a mask, row by row, each over what its mask keeps: the pairs that a tile of all rows counts."""
    heads, rows, positions, width = (int(n) for n in random.integers(1, [3, 6, 9, 6]))
    window = int(random.integers(1, 6)) if random.random() < 0.4 else None
    mask = CausalMask(int(random.integers(0, positions)), window)
    scores = random.random() < 0.5
    left, right = ((rows, width), (width, positions)) if scores else ((rows, positions), (positions, width))
    operator = MatMul(
        "o",
        (operand("q", heads, *left), operand("k", heads, *right)),
        Tensor("o", (heads, rows, right[1])),
        **{"causal_columns" if scores else "causal_depth": mask},
    )
    batch, seed = int(random.integers(1, 3)), int(random.integers(1 << 30))
    (q, k), _ = random_values(random, operator, batch)
    i, j = np.arange(rows)[:, None] + mask.offset, np.arange(positions)
    kept = (j <= i) & (j > i - (window or positions + rows))
    expected = (q @ k) * kept if scores else (q * kept) @ k
    out = np.zeros_like(expected)
    macs = 0
    for row in range(rows):
        columns = np.flatnonzero(kept[row])
        box = ((0, batch), (0, heads), (row, row + 1), (0, right[1]))
        work = operator.work(box)
        if not len(columns):
            assert not isinstance(work, ArrayWork)
            continue
        assert isinstance(work, ArrayWork)
        some = (q[:, :, row], k[..., columns]) if scores else (q[:, :, row, columns], k[:, :, columns])
        windows, kernels = some[0].reshape(batch * heads, 1, 1, -1), some[1].transpose(0, 1, 3, 2)
        of = (windows, kernels.reshape(batch * heads, kernels.shape[2], 1, -1))
        made, cycles, dataflow = LAYERS[flow](np.random.default_rng(seed), of, work)
        assert cycles_of(dataflow, work) == cycles, operator
        out[:, :, row, columns if scores else slice(None)] = made.reshape(batch, heads, -1)
        macs += work.macs
    assert (out == expected).all(), operator
    assert macs == batch * heads * kept.sum() * width
    whole = operator.whole_work(batch)
    if isinstance(whole, ArrayWork):
        assert macs <= whole.macs < macs + batch * heads * rows * width


@pytest.mark.parametrize("flow", LAYERS)
def test_operators_on_arrays(flow: str) -> None:
    random = np.random.default_rng(1)
    count = OPERATORS_A_DATAFLOW // (3 if flow == "row_stationary" else 1)
    assert sum(check(flow, random) for _ in range(count)) > 0
    assert sum(check_transposed(flow, random) for _ in range(count // 2)) > 0
    for _ in range(count // 2):
        check_causal(flow, random)
