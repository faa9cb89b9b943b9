"""Small constants of an ONNX graph: the values that shapes, slices and pads are made of, computed with NumPy.

A weight is never computed, whatever its size: only arrays of at most :data:`MAXIMUM_ELEMENTS` elements are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
MAXIMUM_ELEMENTS = 1024

_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Max": np.maximum,
    "Min": np.minimum,
    "Equal": np.equal,
    "Greater": np.greater,
    "Less": np.less,
}
_UNARY: dict[str, Callable[[Array], Array]] = {
    "Identity": np.asarray,
    "CastLike": np.asarray,  # as far as shapes go
    "Floor": np.floor,
    "Ceil": np.ceil,
    "Neg": np.negative,
    "Not": np.logical_not,
}


def fold(op: str, attributes: Mapping[str, Any], inputs: list[Array | None], opset: int) -> Array | None:
    """The first output of a node whose inputs are these arrays (None for one left out), or None where not known.

    ``attributes`` hold Python numbers, lists and, for tensors, arrays.
    """
    try:
        with np.errstate(all="ignore"):
            result = _fold(op, attributes, inputs, opset)
    except (ArithmeticError, IndexError, KeyError, TypeError, ValueError):
        return None  # a malformed node: shape inference says what is wrong with it
    return result if result is not None and result.size <= MAXIMUM_ELEMENTS else None


def _fold(op: str, attributes: Mapping[str, Any], inputs: list[Array | None], opset: int) -> Array | None:
    if op == "Constant":
        return _constant(attributes)
    data, *others = inputs
    if data is None:
        return None
    axes = _axes(attributes, others, opset)
    if op in _UNARY:
        return _UNARY[op](data)
    if op in _BINARY:
        return _BINARY[op](data, _given(others[0]))
    if op == "Div":
        quotient = data / _given(others[0])
        return np.trunc(quotient).astype(data.dtype) if data.dtype.kind in "iu" else quotient
    if op == "Cast":
        return data.astype(_CAST[attributes["to"]])
    if op == "ConstantOfShape":
        if prod(int(size) for size in data) > MAXIMUM_ELEMENTS:
            return None
        value = attributes.get("value", np.zeros(1, np.float32))
        return np.full(data.astype(np.int64), value.reshape(-1)[0], value.dtype)
    if op == "Gather":
        return np.take(data, _given(others[0]), axis=attributes.get("axis", 0))
    if op == "Concat":
        return np.concatenate([_given(array) for array in inputs], axis=attributes["axis"])
    if op == "Reshape":
        target = [data.shape[i] if size == 0 else int(size) for i, size in enumerate(_given(others[0]))]
        return data.reshape(target)
    if op == "Squeeze":
        return np.squeeze(data, axis=axes)
    if op == "Unsqueeze" and axes is not None:
        return np.expand_dims(data, axis=axes)
    if op == "ReduceProd" and axes in ((0,), None):
        return np.asarray(np.prod(data, keepdims=bool(attributes.get("keepdims", 1)), dtype=data.dtype))
    if op == "Where":
        return np.where(data, _given(others[0]), _given(others[1]))
    if op == "Range":
        start, limit, delta = (_given(array).item() for array in inputs)
        return np.arange(start, limit, delta) if ceil((limit - start) / delta) <= MAXIMUM_ELEMENTS else None
    if op == "Transpose":
        return np.transpose(data, attributes.get("perm"))
    if op == "Slice":
        return data[slices(data.shape, attributes, others)]
    return None


def slices(shape: tuple[int, ...], attributes: Mapping[str, Any], bounds: list[Array | None]) -> tuple[slice, ...]:
    """One slice an axis for a Slice node on ``shape``, from its attributes (opset < 10) or its inputs after the first.

    Raises:
        TypeError: a bound is not known.
    """
    if "starts" in attributes:
        starts, ends, axes, steps = attributes["starts"], attributes["ends"], attributes.get("axes"), None
    else:
        starts, ends, axes, steps = (None if array is None else array.tolist() for array in (*bounds, None, None)[:4])
    result = [slice(None)] * len(shape)
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        result[axes[i] if axes is not None else i] = slice(start, end, 1 if steps is None else steps[i])
    return tuple(result)


def _axes(attributes: Mapping[str, Any], others: list[Array | None], opset: int) -> tuple[int, ...] | None:
    if "axes" in attributes:
        return tuple(attributes["axes"])
    if opset >= 13 and others and others[0] is not None and others[0].dtype.kind == "i" and others[0].ndim == 1:
        return tuple(others[0].tolist())
    return None


def _constant(attributes: Mapping[str, Any]) -> Array | None:
    for name in ("value", "value_int", "value_ints", "value_float", "value_floats"):
        if name in attributes:
            return np.asarray(attributes[name])
    return None


def _given(array: Array | None) -> Array:
    if array is None:
        raise TypeError("an input is not known")
    return array


_CAST: dict[int, type] = {
    1: np.float32,
    2: np.uint8,
    3: np.int8,
    4: np.uint16,
    5: np.int16,
    6: np.int32,
    7: np.int64,
    9: np.bool_,
    10: np.float16,
    11: np.float64,
    12: np.uint32,
    13: np.uint64,
}
"""TensorProto.DataType to NumPy, for the types that shape arithmetic uses."""
