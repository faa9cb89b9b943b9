"""What an ONNX file stores: its weights are taken out unread, its external data are never opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

from accelsim.errors import FormatError
from accelsim.formats.onnx.inference import Shape, is_small

if TYPE_CHECKING:
    import onnx


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Every tensor stored in a graph, subgraphs included."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
            for subgraph in (attribute.g, *attribute.graphs):
                yield from _tensors(subgraph)


def check_external_data(path: Path, model: onnx.ModelProto) -> None:
    """External data are never opened; a place outside the model's folder is refused all the same."""
    for tensor in _tensors(model.graph):
        for entry in tensor.external_data:
            place = entry.value
            if entry.key == "location" and (
                PurePosixPath(place).is_absolute()
                or PureWindowsPath(place).anchor
                or ".." in PureWindowsPath(place).parts
            ):
                raise FormatError(
                    f"{path}: tensor '{tensor.name}' keeps its data in '{place}', outside the folder of the model; "
                    "a location must be relative and without '..'"
                )


def strip_weights(path: Path, graph: onnx.GraphProto, source: onnx.GraphProto, parameters: dict[str, Shape]) -> None:
    """Takes the initializers out of ``source``, leaves inputs of their shapes in ``graph``, and small ones as they are.

    The shapes of all of them are added to ``parameters``. ``source`` is ``graph`` itself, or a branch of it.

    Raises:
        FormatError: two initializers have one name, or a size is negative.
    """
    from onnx import helper

    declared = {value.name: value for value in graph.input}
    dims = [(tensor.name, tensor.data_type, tuple(tensor.dims)) for tensor in source.initializer]
    dims += [(sparse.values.name, sparse.values.data_type, tuple(sparse.dims)) for sparse in source.sparse_initializer]
    for name, data_type, shape in dims:
        if not name or name in parameters:
            raise FormatError(f"{path}: two initializers are called '{name}'")
        if any(size < 0 for size in shape):
            raise FormatError(f"{path}: initializer '{name}' has shape {list(shape)}; a size cannot be negative")
        parameters[name] = shape
        value = helper.make_tensor_value_info(name, data_type, shape)
        if name in declared:
            declared[name].CopyFrom(value)
        else:
            graph.input.append(value)
    small = [type(one).FromString(one.SerializeToString()) for one in source.initializer if is_small(one)]
    del source.initializer[:]
    del source.sparse_initializer[:]
    graph.initializer.extend(small)
