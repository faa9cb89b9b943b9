"""Runs a small network with NumPy, operator by operator, from the twins of its operators."""

from __future__ import annotations

import re
import zlib

import numpy as np

from accelsim.workload.graph import Workload
from accelsim.workload.operator import Operand, Source
from accelsim.workload.tensor import Reshape, Tensor
from tests.naive.operators import Array, compute

PART = re.compile(r"(.*)\[(\d+):(\d+)\]")


def read(operand: Operand, values: dict[str, Array]) -> Array:
    """What an operator sees of the tensors that others wrote: views applied, sources joined."""
    sizes = [
        (*operand.shape[: operand.axis], extent, *operand.shape[operand.axis + 1 :]) if operand.shape else ()
        for extent in operand.extents
    ]
    pieces = [_through_views(source, size, values) for source, size in zip(operand.sources, sizes, strict=True)]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces, axis=operand.axis + 1)


def _through_views(source: Source, shape: tuple[int, ...], values: dict[str, Array]) -> Array:
    """A view knows where its block begins; where it ends, the next reshape or the operand says."""
    array = values[source.producer]
    for view in source.views:
        if isinstance(view, Reshape):
            array = _cropped(array, view.from_shape)
            array = array.reshape(array.shape[0], *view.to_shape)
        else:
            array = array[(slice(None), *(slice(begin, None) for begin in view.begin))]
    return _cropped(array, shape)


def _cropped(array: Array, shape: tuple[int, ...]) -> Array:
    assert len(shape) == array.ndim - 1
    assert all(size <= there for size, there in zip(shape, array.shape[1:], strict=True))
    return array[(slice(None), *(slice(size) for size in shape))]


def whole_numbers(name: str, shape: tuple[int, ...]) -> Array:
    """Small whole numbers that depend on the name alone, so that sums are exact."""
    return np.random.default_rng(zlib.crc32(name.encode())).integers(-3, 4, shape).astype(np.float64)


def weight_of(weight: Tensor, whole: dict[str, Tensor], axis: int) -> Array:
    """Values of a parameter of ``whole``; of ``name[k0:k1]`` a share along ``axis``, of ``name.in[c0:c1]`` along 1."""
    return _share(weight.name, whole, axis)


def _share(name: str, whole: dict[str, Tensor], axis: int) -> Array:
    if name in whole:
        return whole_numbers(name, whole[name].shape)
    part = PART.fullmatch(name)
    assert part is not None, name
    of, span = part[1], range(int(part[2]), int(part[3]))
    if of.endswith(".in"):
        return np.take(_share(of.removesuffix(".in"), whole, axis), span, axis=1)
    return np.take(_share(of, whole, axis), span, axis=axis)


def run(workload: Workload, uncut: Workload) -> dict[str, Array]:
    """The output of every operator for one sample, on inputs and parameters made from their names.

    ``uncut`` is the workload before any operator was cut, which says what the parameters were.
    """
    values = {tensor.name: whole_numbers(tensor.name, (1, *tensor.shape)) for tensor in workload.inputs}
    whole = {weight.name: weight for operator in uncut.operators for weight in operator.weights}
    for operator in workload.operators:
        operands = [read(operand, values) for operand in operator.operands]
        if operator.kind == "move":  # a copy
            values[operator.name] = operands[0]
            continue
        axis = 0 if operator.kind == "conv2d" else -1
        values[operator.name] = compute(operator, operands, [weight_of(w, whole, axis) for w in operator.weights])
        assert values[operator.name].shape == (1, *operator.output.shape)
    return values
