"""A workload as columns that kernels can read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.operator import Operator
from accelsim.workload.operators import Conv2d, Elementwise, Pool, Transpose, Upsample

IntColumn = npt.NDArray[np.int64]
FloatColumn = npt.NDArray[np.float64]

CONVOLUTION, POOL, ELEMENTWISE, TRANSPOSE, UPSAMPLE, OTHER = range(6)
_KINDS: dict[type[Operator], int] = {
    Conv2d: CONVOLUTION,
    Pool: POOL,
    Elementwise: ELEMENTWISE,
    Transpose: TRANSPOSE,
    Upsample: UPSAMPLE,
}


class Network(NamedTuple):
    """One row an operator, in the workload's order; sources and readers as runs of rows of their own."""

    batch: int
    soma_rule: int
    """1: tiles follow SoMa's rule and kernels shape them; 0: the exact rule, group by group in Python."""
    kind: IntColumn
    channels: IntColumn
    """Of the output; likewise rows and columns. SoMa's rule only, as everything down to ``bits``."""
    rows: IntColumn
    columns: IntColumn
    read_channels: IntColumn
    """Of operand 0; likewise rows and columns."""
    read_rows: IntColumn
    read_columns: IntColumn
    window_rows: IntColumn
    """Extent of the window, dilation included."""
    window_columns: IntColumn
    stride_rows: IntColumn
    """Of an upsampling: its factor."""
    stride_columns: IntColumn
    padding_rows: IntColumn
    padding_columns: IntColumn
    axis_of_channels: IntColumn
    """Transposes: the input axis (0 channels, 1 rows, 2 columns) that becomes the output's channels; likewise below."""
    axis_of_rows: IntColumn
    axis_of_columns: IntColumn
    bits: IntColumn
    weight_bytes: IntColumn
    is_output: IntColumn
    """1: its result must end in DRAM."""
    fully_connected: IntColumn
    source_begin: IntColumn
    """Operators + 1 rows: the sources of operator i are the rows source_begin[i] to source_begin[i + 1]."""
    source: IntColumn
    """The operator that is read, or -1 for an external input."""
    source_channels: IntColumn
    """Channels read of it as data; 0 if it is read as weights only."""
    source_weights: IntColumn
    """Elements a sample of it that are read as weights, all of them for every tile; 0 if none."""
    reader_begin: IntColumn
    reader: IntColumn
    reads_data: IntColumn
    reads_weights: IntColumn

    @property
    def size(self) -> int:
        """Number of operators."""
        return len(self.kind)


def network_of(workload: Workload) -> Network:
    """The columns of ``workload``."""
    operators = workload.operators
    soma = workload.tile_rule is TileRule.SOMA
    sources: list[tuple[int, int, int]] = []
    readers: list[list[tuple[int, int, int]]] = [[] for _ in operators]
    source_begin = [0]
    for number, operator in enumerate(operators):
        found: dict[str, list[int]] = {}
        for operand in operator.operands:
            for source, extent in zip(operand.sources, operand.extents, strict=True):
                row = found.setdefault(source.producer, [0, 0])
                if operand.is_weight:
                    elements = extent * operand.shape[1] * operand.shape[2] if soma else 1
                    row[1] = max(row[1], elements)
                else:
                    row[0] = max(row[0], extent)
        for producer, (data, weights) in found.items():
            maker = workload.index.get(producer, -1)
            sources.append((maker, data, weights))
            if maker >= 0:
                readers[maker].append((number, int(data > 0), int(weights > 0)))
        source_begin.append(len(sources))
    reader_begin = np.cumsum([0] + [len(rows) for rows in readers])
    source_table = np.array(sources, dtype=np.int64).reshape(-1, 3)
    reader_table = np.array([row for rows in readers for row in rows], dtype=np.int64).reshape(-1, 3)
    shapes = _shapes(operators) if soma else np.zeros((15, len(operators)), dtype=np.int64)
    columns = (
        _column([_KINDS.get(type(operator), OTHER) for operator in operators]),
        *(np.ascontiguousarray(column) for column in shapes),
        _column([operator.output.bits for operator in operators]),
        _column([operator.weight_bytes for operator in operators]),
        _column([workload.is_output(operator.name) for operator in operators]),
        _column([isinstance(one, Conv2d) and one.fully_connected for one in operators]),
        _column(source_begin),
        *(_column(column) for column in source_table.T),
        _column(reader_begin),
        *(_column(column) for column in reader_table.T),
    )
    return Network(workload.batch, int(soma), *columns)


def _column(values: npt.ArrayLike) -> IntColumn:
    return np.ascontiguousarray(values, dtype=np.int64)


def _shapes(operators: tuple[Operator, ...]) -> IntColumn:
    """The fifteen columns from ``channels`` to ``axis_of_columns``."""
    rows = []
    for operator in operators:
        window: tuple[int, ...] = (1, 1)
        stride, padding = window, (0, 0)
        axes: tuple[int, ...] = (0, 1, 2)
        if isinstance(operator, Conv2d | Pool):
            window = tuple((k - 1) * d + 1 for k, d in zip(operator.kernel, operator.dilation, strict=True))
            stride, padding = operator.stride, operator.padding
        elif isinstance(operator, Upsample):
            stride = operator.factors
        elif isinstance(operator, Transpose):
            axes = operator.permutation
        read = operator.operands[0].shape if operator.operands else operator.output.shape
        rows.append((*operator.output.shape, *read, *window, *stride, *padding, *axes))
    return np.array(rows, dtype=np.int64).T
