"""Free dimensions of an ONNX model's inputs, and what they are bound to."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from accelsim.errors import FormatError, InputError, UnknownName
from accelsim.formats.onnx.folding import MAXIMUM_ELEMENTS
from accelsim.formats.onnx.inference import Shape
from accelsim.units import did_you_mean

if TYPE_CHECKING:
    import onnx

INTEGERS = (6, 7)
"""TensorProto.INT32 and INT64: inputs of these types (token ids, lengths) can be bound to a value."""
MAXIMUM_SIZE = (1 << 31) - 1


class Binding(NamedTuple):
    """What is left of the inputs once their dimensions are bound."""

    batch: int
    """The leading dimension that all inputs share, or 1."""
    free: tuple[str, ...]
    """Names of the dimensions that are still free, as they can be bound."""


def bind_inputs(
    path: Path, model: onnx.ModelProto, parameters: dict[str, Shape], bindings: Mapping[str, int], notes: list[str]
) -> Binding:
    """Binds dimensions and values of the inputs of ``model``, in place.

    A dimension is called by its name in the file, or ``INPUT.AXIS``. An integer input can be bound to a value, with
    which all of it is filled: it becomes a constant, and is added to ``parameters``. A leading dimension that is free
    and not bound becomes 1, and so do all that have its name.

    Raises:
        UnknownName: there is nothing of a name in ``bindings``.
        InputError: a size is below 1, or bindings contradict a size that is fixed.
        FormatError: an input is no tensor of known rank, or has a size that is none.
    """
    unused = set(bindings)
    leading = {value.type.tensor_type.shape.dim[0].dim_param for value in model.graph.input if _has_axes(value)} - {""}
    names: dict[str, None] = {}
    fixed: set[int] = set()
    free: list[str] = []
    constants = []
    for value in model.graph.input:
        if value.name in parameters:
            continue
        if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
            raise FormatError(f"{path}: input '{value.name}' is no tensor of known rank")
        dims = value.type.tensor_type.shape.dim
        for axis, dim in enumerate(dims):
            place = f"{value.name}.{axis}"
            # Some exporters write -1 for a free dimension.
            is_free = not dim.HasField("dim_value") or dim.dim_value == -1
            if not is_free and dim.dim_value < 1:
                raise FormatError(f"{path}: input '{value.name}' has size {dim.dim_value} along axis {axis}")
            if not is_free:
                fixed.update([dim.dim_value] if axis == 0 else [])
                continue
            name = dim.dim_param or place
            names |= dict.fromkeys((name, place))
            key = next((key for key in (place, name) if key in bindings), None)
            unused -= {place, name}
            if key is not None:
                size = bindings[key]
                if not 1 <= size <= MAXIMUM_SIZE:
                    raise InputError(f"{path}: '{key}' is bound to {size}; a size is a whole number >= 1")
            elif axis == 0 or name in leading:
                notes.append(f"the free leading dimension '{name}' of input '{value.name}' is bound to 1")
                size = 1
            else:
                free.append(name)
                dim.Clear()
                dim.dim_param = name
                continue
            dim.Clear()
            dim.dim_value = size
            fixed.update([size] if axis == 0 else [])
        if value.type.tensor_type.elem_type in INTEGERS:
            names[value.name] = None
            if value.name in unused:
                unused.discard(value.name)
                constants.append(value)
    if unused:
        name = min(unused)
        there = ", ".join(names) or "none"
        raise UnknownName(
            f"{path}: nothing to bind is called '{name}'{did_you_mean(name, names)}; free dimensions and integer "
            f"inputs are: {there}"
        )
    for value in constants:
        _fill(path, model, parameters, value, bindings[value.name])
    return Binding(fixed.pop() if len(fixed) == 1 else 1, tuple(dict.fromkeys(free)))


def _has_axes(value: onnx.ValueInfoProto) -> bool:
    return len(value.type.tensor_type.shape.dim) > 0


def _fill(
    path: Path, model: onnx.ModelProto, parameters: dict[str, Shape], value: onnx.ValueInfoProto, number: int
) -> None:
    """Makes an integer input a constant."""
    from onnx import helper, numpy_helper

    dims = value.type.tensor_type.shape.dim
    shape = tuple(dim.dim_value for dim in dims)
    if any(size < 1 for size in shape) or prod(shape) > MAXIMUM_ELEMENTS:
        raise InputError(
            f"{path}: input '{value.name}' is bound to the value {number}, but its shape is not known or has more than "
            f"{MAXIMUM_ELEMENTS} elements"
        )
    if not -(1 << 31) <= number < 1 << 31:
        raise InputError(f"{path}: input '{value.name}' is bound to {number}; expected a number of 32 bits")
    kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    model.graph.initializer.append(numpy_helper.from_array(np.full(shape, number, kind), value.name))
    parameters[value.name] = shape
