"""What each operator computes, in NumPy and loops, to test by perturbation what each needs. Sizes are tiny.

Arrays have the samples first, then the axes of the shape. Sums stand for maxima and averages, so that every element
that is needed also counts.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def compute(operator: Any, operands: list[Array], weights: list[Array]) -> Array:
    """The output of an operator."""
    return TWINS[operator.kind](operator, operands, weights)


def _taps(operator: Any, image: Array, row: int, column: int) -> Array:
    """The window behind an output point, of shape (batch, channels, kernel rows, kernel columns), zero outside."""
    window = np.zeros((*image.shape[:2], *operator.kernel))
    for r, s in product(range(operator.kernel[0]), range(operator.kernel[1])):
        y = row * operator.stride[0] + r * operator.dilation[0] - operator.padding[0]
        x = column * operator.stride[1] + s * operator.dilation[1] - operator.padding[1]
        if 0 <= y < image.shape[2] and 0 <= x < image.shape[3]:
            window[:, :, r, s] = image[:, :, y, x]
    return window


def _conv2d(operator: Any, operands: list[Array], weights: list[Array]) -> Array:
    image = operands[0]
    filters, rows, columns = operator.output.shape
    per_group_in, per_group_out = image.shape[1] // operator.groups, filters // operator.groups
    if weights:
        kernel = np.broadcast_to(weights[0], (image.shape[0], *weights[0].shape))
    else:
        kernel = operands[1].reshape(image.shape[0], filters, per_group_in, *operator.kernel)
    result = np.zeros((image.shape[0], filters, rows, columns))
    for row, column in product(range(rows), range(columns)):
        window = _taps(operator, image, row, column)
        for k in range(filters):
            first = k // per_group_out * per_group_in
            result[:, k, row, column] = (window[:, first : first + per_group_in] * kernel[:, k]).sum(axis=(1, 2, 3))
    return result


def _conv_transpose2d(operator: Any, operands: list[Array], weights: list[Array]) -> Array:
    """A scatter: each input point adds its kernel to the image, what falls outside is cut off."""
    image = operands[0]
    filters, rows, columns = operator.output.shape
    per_group_in, per_group_out = image.shape[1] // operator.groups, filters // operator.groups
    result = np.zeros((image.shape[0], filters, rows, columns))
    for c, y, x in product(*map(range, image.shape[1:])):
        for f, r, s in product(range(per_group_out), range(operator.kernel[0]), range(operator.kernel[1])):
            row = y * operator.stride[0] + r * operator.dilation[0] - operator.padding[0]
            column = x * operator.stride[1] + s * operator.dilation[1] - operator.padding[1]
            if 0 <= row < rows and 0 <= column < columns:
                k = c // per_group_in * per_group_out + f
                result[:, k, row, column] += image[:, c, y, x] * weights[0][c, f, r, s]
    return result


def _pool(operator: Any, operands: list[Array], weights: list[Array]) -> Array:
    result = np.zeros((operands[0].shape[0], *operator.output.shape))
    for row, column in product(*map(range, operator.output.shape[1:])):
        result[:, :, row, column] = _taps(operator, operands[0], row, column).sum(axis=(2, 3))
    return result


def _embedding(operator: Any, operands: list[Array], weights: list[Array]) -> Array:
    """Operand 0 are the rows gathered; the indices are added, so that they count."""
    return operands[0] + operands[1][..., np.newaxis] if len(operands) > 1 else operands[0]


def _elementwise(operator: Any, operands: list[Array], weights: list[Array]) -> Array:
    axes = len(operator.output.shape)
    result = np.zeros((operands[0].shape[0], *operator.output.shape))
    for operand in operands:
        aligned = operand.reshape(operand.shape[0], *(1,) * (axes + 1 - operand.ndim), *operand.shape[1:])
        result = result + aligned
    return result


def _matmul(operator: Any, operands: list[Array], weights: list[Array]) -> Array:
    left = operands[0]
    if weights:
        return left @ weights[0]
    right = operands[1]
    axes = max(left.ndim, right.ndim)
    left, right = (one.reshape(one.shape[0], *(1,) * (axes - one.ndim), *one.shape[1:]) for one in (left, right))
    return left @ right


def _move(operator: Any, operands: list[Array], weights: list[Array]) -> Array:
    total = sum(operand.reshape(operand.shape[0], -1).sum(axis=1) for operand in operands)
    return np.multiply.outer(total, np.ones(operator.output.shape))


def _normalization(operator: Any, operands: list[Array], weights: list[Array]) -> Array:
    axes = tuple(axis if axis < 0 else axis + 1 for axis in operator.axes)
    centred = operands[0] - operands[0].mean(axis=axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=axes, keepdims=True) + 1)


def _local_response_norm(operator: Any, operands: list[Array], weights: list[Array]) -> Array:
    image, result = operands[0], np.zeros_like(operands[0])
    before, after = (operator.size - 1) // 2, operator.size // 2
    for channel in range(image.shape[1]):
        near = image[:, max(channel - before, 0) : channel + after + 1]
        result[:, channel] = image[:, channel] / (1 + (near**2).sum(axis=1))
    return result


def _recurrent(operator: Any, operands: list[Array], weights: list[Array]) -> Array:
    gates = operands[0]
    batch, steps, sequences, _ = gates.shape
    state = operands[1] if len(operands) > 1 else np.ones((batch, sequences, operator.hidden))
    result = np.zeros_like(gates)
    for step in reversed(range(steps)) if operator.reverse else range(steps):
        result[:, step] = gates[:, step] + state @ weights[0]
        state = np.tanh(result[:, step].reshape(batch, sequences, -1, operator.hidden).sum(axis=2))
    return result


def _reduction(operator: Any, operands: list[Array], weights: list[Array]) -> Array:
    axes = tuple(axis if axis < 0 else axis + 1 for axis in operator.axes)
    total = operands[0].sum(axis=axes, keepdims=True)
    return total + np.zeros((operands[0].shape[0], *operator.output.shape))


def _resample(operator: Any, operands: list[Array], weights: list[Array]) -> Array:
    image = operands[0]
    result = np.zeros((image.shape[0], *operator.output.shape))
    nearby = {1: (0,), 2: (0, 1), 4: (-1, 0, 1, 2)}
    for row, column in product(*map(range, operator.output.shape[1:])):
        y, x = (floor(place * operator.step[i] + operator.shift[i]) for i, place in enumerate((row, column)))
        for r, s in product(nearby[operator.taps[0]], nearby[operator.taps[1]]):
            near = (min(max(y + r, 0), image.shape[2] - 1), min(max(x + s, 0), image.shape[3] - 1))
            result[:, :, row, column] += image[:, :, *near]
    return result


def _softmax(operator: Any, operands: list[Array], weights: list[Array]) -> Array:
    axis = operator.axis if operator.axis < 0 else operator.axis + 1
    powers = np.exp(operands[0])
    return powers / powers.sum(axis=axis, keepdims=True)


def _transpose(operator: Any, operands: list[Array], weights: list[Array]) -> Array:
    return operands[0].transpose(0, *(axis + 1 for axis in operator.permutation))


def _upsample(operator: Any, operands: list[Array], weights: list[Array]) -> Array:
    return operands[0].repeat(operator.factors[0], axis=2).repeat(operator.factors[1], axis=3)


TWINS: dict[str, Callable[[Any, list[Array], list[Array]], Array]] = {
    "conv2d": _conv2d,
    "conv_transpose2d": _conv_transpose2d,
    "elementwise": _elementwise,
    "embedding": _embedding,
    "local_response_norm": _local_response_norm,
    "matmul": _matmul,
    "move": _move,
    "normalization": _normalization,
    "pool": _pool,
    "recurrent": _recurrent,
    "reduction": _reduction,
    "resample": _resample,
    "softmax": _softmax,
    "transpose": _transpose,
    "upsample": _upsample,
}
