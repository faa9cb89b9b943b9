"""Cuts a convolution along its input channels: the parts are sums that are not complete, and are added afterwards.

A strongly dilated kernel reaches over so much of the image that not even the input of one output position fits twice
beside the weights. With fewer channels it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from accelsim.workload.operator import Operator
from accelsim.workload.operators import Conv2d
from accelsim.workload.tensor import Box, Range, Tensor
from accelsim.workload.views import sliced


def has_channels_to_cut(operator: Operator) -> bool:
    """Whether an operator is a convolution with parameters, whose positions read more than themselves."""
    return (
        isinstance(operator, Conv2d)
        and operator.groups == 1
        and operator.kernel != (1, 1)
        and len(operator.operands) == 1
        and bool(operator.weights)
    )


def largest_tile_bytes(operator: Operator, tensors: Mapping[str, Tensor]) -> int:
    """Input and output of the output position that reads most, of all filters."""
    operand, (filters, *sizes) = operator.operands[0], operator.output.shape

    def box(row: int, column: int) -> Box:
        return ((0, 1), (0, filters), (row, row + 1), (column, column + 1))

    def reach(axis: int, row: int, column: int) -> int:
        begin, end = operator.operand_box(0, box(row, column))[axis]
        return end - begin

    row = max(range(sizes[0]), key=lambda row: reach(2, row, 0))
    column = max(range(sizes[1]), key=lambda column: reach(3, 0, column))
    tile = box(row, column)
    read = operand.source_boxes(operator.operand_box(0, tile))
    return operator.output.box_bytes(tile) + sum(tensors[name].box_bytes(block) for name, block in read)


def channel_part(operator: Conv2d, span: Range, sum_bits: int) -> Conv2d:
    """The sums over some input channels; other parameters than the kernels, such as a bias, go with the first."""
    begin, end = span
    operand, (kernels, *others) = operator.operands[0], operator.weights
    name = f"{operator.name}.in[{begin}:{end}]"
    shape = (kernels.shape[0], end - begin, *kernels.shape[2:])
    return replace(
        operator,
        name=name,
        operands=(sliced(operand, (begin, 0, 0), (end - begin, *operand.shape[1:])),),
        output=Tensor(name, operator.output.shape, sum_bits),
        weights=(
            replace(kernels, name=f"{kernels.name}.in[{begin}:{end}]", shape=shape),
            *(others if begin == 0 else ()),
        ),
    )
