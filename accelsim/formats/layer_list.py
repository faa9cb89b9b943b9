"""Layer lists: a network in JSON, layer by layer, with SoMa's conventions (``workloads/README.md``).

A layer is told by its output (``K`` channels, ``H`` rows, ``W`` columns), its window, and what it reads:
``input_layers`` and ``external_input_ids``. Several producers are concatenated, external inputs first; those of an
element-wise layer fill its ``N`` operands one after another. ``weight_layers`` make the weights of a convolution
(attention).

Much in such a file follows from the rest of it (``ops``, ``weight_bytes``, shapes); all of it is checked.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from math import prod
from pathlib import Path
from typing import NamedTuple

from accelsim.errors import FormatError, WorkloadError
from accelsim.formats.layer_list_fields import CONVOLUTIONS, ExternalInput, Layer, LayerList, Shape, parse
from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.operator import Operand, Operator, Source
from accelsim.workload.operators import Conv2d, Elementwise, Pool, Transpose, Upsample
from accelsim.workload.tensor import Tensor
from accelsim.yaml_source import read_text


def read_layer_list(path: str | Path) -> Workload:
    """Reads a layer-list file as a workload of 8-bit elements under SoMa's tile rule.

    Raises:
        FormatError: the file cannot be read, is not JSON or cut short, or lacks fields; all such mistakes at once.
        WorkloadError: the layers contradict themselves or each other; the first of them, by name.
    """
    return parse_layer_list(read_text(Path(path), FormatError), str(path))


def parse_layer_list(text: str, place: str) -> Workload:
    """As :func:`read_layer_list`, from the text itself; ``place`` is what messages call it."""
    network = parse(text, place)
    try:
        return _workload(network)
    except WorkloadError as error:
        raise WorkloadError(f"{place}: {error}") from None


def _workload(network: LayerList) -> Workload:
    layers = {layer.id: layer for layer in network.layers}
    if len(layers) < len(network.layers):
        ids = [layer.id for layer in network.layers]
        raise WorkloadError(f"the layer id {next(one for one in ids if ids.count(one) > 1)} stands twice")
    builder = _Builder(network.external_inputs, layers)
    return Workload(
        name=network.name,
        operators=tuple(builder.operator(layer) for layer in _in_topological_order(layers)),
        inputs=tuple(Tensor(one.name, one.shape_chw) for one in network.external_inputs),
        tile_rule=TileRule.SOMA,
    )


def _in_topological_order(layers: dict[int, Layer]) -> list[Layer]:
    """Producers before consumers; a file that has this order already keeps it."""
    place = {identifier: number for number, identifier in enumerate(layers)}
    waits: dict[int, int] = {}
    consumers: dict[int, list[int]] = {identifier: [] for identifier in layers}
    for layer in layers.values():
        producers = {*layer.input_layers, *layer.weight_layers}
        for producer in producers:
            _check(layer, producer in layers, f"reads the layer with id {producer}, which does not exist")
            consumers[producer].append(layer.id)
        waits[layer.id] = len(producers)
    ready = [(place[identifier], identifier) for identifier, count in waits.items() if count == 0]
    heapq.heapify(ready)
    order: list[Layer] = []
    while ready:
        _, identifier = heapq.heappop(ready)
        order.append(layers[identifier])
        for consumer in consumers[identifier]:
            waits[consumer] -= 1
            if waits[consumer] == 0:
                heapq.heappush(ready, (place[consumer], consumer))
    if len(order) < len(layers):
        names = [layers[identifier].name for identifier, count in waits.items() if count]
        raise WorkloadError(f"the layers {names[:6]} wait for one another: a cycle")
    return order


class _Builder:
    """Turns layers into operators, checking each against the layers and inputs that it reads."""

    def __init__(self, inputs: tuple[ExternalInput, ...], layers: dict[int, Layer]) -> None:
        self._inputs = inputs
        self._layers = layers

    def operator(self, layer: Layer) -> Operator:
        """The operator of one layer."""
        sources = self._sources(layer)
        _check_shapes(layer, sources)
        make: Callable[[Layer, list[_Producer]], Operator] = {
            "pool": _pool,
            "eltwise": _elementwise,
            "pointwise": _pointwise,
            "transpose": _transpose,
            "upsample": _upsample,
        }.get(layer.type, self._convolution)
        if layer.type not in CONVOLUTIONS:
            _check_without_weights(layer)
        return make(layer, sources)

    def _sources(self, layer: Layer) -> list[_Producer]:
        """What the layer reads as data, external inputs first."""
        for identifier in layer.external_input_ids:
            _check(
                layer,
                identifier < len(self._inputs),
                f"reads external input {identifier}; there are {len(self._inputs)}, counted from 0",
            )
        external = [_Producer(self._inputs[one].name, self._inputs[one].shape_chw) for one in layer.external_input_ids]
        _check_equal(layer, "external_channels", layer.external_channels, sum(one.shape[0] for one in external))
        return external + self._producers(layer.input_layers)

    def _producers(self, identifiers: Iterable[int]) -> list[_Producer]:
        return [_Producer(self._layers[one].name, self._layers[one].output_chw) for one in identifiers]

    def _convolution(self, layer: Layer, sources: list[_Producer]) -> Conv2d:
        channels, groups = layer.input_chw[0], layer.groups or 1
        _check_equal(layer, "C", layer.C, channels)
        _check(layer, layer.N in (None, 1), f"N is {layer.N}; a convolution has one input")
        _check(layer, layer.output_dims_from_input is None, "output_dims_from_input belongs to transposes only")
        _check(
            layer,
            channels % groups == 0 and layer.K % groups == 0,
            f"its {groups} groups do not divide its {channels} input and {layer.K} output channels evenly",
        )
        weight_shape = (layer.K, channels // groups, layer.R, layer.S)
        _check_equal(layer, "ops", layer.ops, prod(weight_shape) * layer.H * layer.W)
        _check_equal(layer, "weight_bytes", layer.weight_bytes, 0 if layer.weight_layers else prod(weight_shape))
        operands = [_concatenated(sources, layer.input_chw)]
        if layer.weight_layers:
            operands.append(self._weights(layer, (*weight_shape[:2], layer.R * layer.S)))
        return Conv2d(
            name=layer.name,
            operands=tuple(operands),
            output=Tensor(layer.name, layer.output_chw),
            weights=() if layer.weight_layers else (Tensor(f"{layer.name}.weight", weight_shape),),
            kernel=(layer.R, layer.S),
            stride=(layer.stride_h, layer.stride_w),
            padding=_padding(layer),
            groups=groups,
            fully_connected=layer.type == "fully_connected",
        )

    def _weights(self, layer: Layer, shape: tuple[int, int, int]) -> Operand:
        """The weights that other layers make: their channels are the filters, rows the channels of one group."""
        producers = self._producers(layer.weight_layers)
        _check_equal(layer, "channels of weight_layers", sum(one.shape[0] for one in producers), shape[0])
        for producer in producers:
            _check_equal(layer, f"shape of weight layer '{producer.name}'", producer.shape[1:], shape[1:])
        return _concatenated(producers, shape, is_weight=True)


class _Producer(NamedTuple):
    """What a layer reads: its name, and the shape that it provides."""

    name: str
    shape: Shape


def _check(layer: Layer, condition: bool, message: str) -> None:
    if not condition:
        raise WorkloadError(f"layer '{layer.name}': {message}")


def _check_equal(layer: Layer, field: str, found: object, expected: object) -> None:
    _check(layer, found == expected, f"{field} is {found}; the rest of the layer gives {expected}")


def _check_shapes(layer: Layer, sources: list[_Producer]) -> None:
    """Output against K, H, W; what is read against what the producers provide; window against both."""
    _check(layer, bool(sources), "reads nothing: input_layers and external_input_ids are empty")
    _check_equal(layer, "output_chw", list(layer.output_chw), [layer.K, layer.H, layer.W])
    _check_equal(layer, "input_chw[0]", layer.input_chw[0], sum(source.shape[0] for source in sources))
    for axis, stride in ((1, layer.stride_h), (2, layer.stride_w)):
        for source in sources:
            unread = source.shape[axis] - layer.input_chw[axis]
            _check(
                layer,
                0 <= unread < stride,
                f"input_chw is {list(layer.input_chw)}, but '{source.name}' provides {list(source.shape)}",
            )


def _check_without_weights(layer: Layer) -> None:
    _check_equal(layer, "weight_bytes", layer.weight_bytes, 0)
    _check(layer, not layer.weight_layers, f"a layer of type {layer.type} has no weight_layers")
    _check(layer, layer.C in (None, layer.input_chw[0]), f"C is {layer.C}; input_chw has {layer.input_chw[0]} channels")
    _check(layer, layer.groups in (None, 1), f"a layer of type {layer.type} has no groups")
    if layer.type != "transpose":
        _check(layer, layer.output_dims_from_input is None, "output_dims_from_input belongs to transposes only")
    if layer.type != "pool":
        window = (layer.R, layer.S, layer.stride_h, layer.stride_w)
        _check(layer, window == (1, 1, 1, 1), f"R, S and strides are {window}; this type has no window: all must be 1")


def _concatenated(producers: list[_Producer], shape: tuple[int, int, int], *, is_weight: bool = False) -> Operand:
    return Operand(
        sources=tuple(Source(producer.name) for producer in producers),
        shape=shape,
        extents=tuple(producer.shape[0] for producer in producers),
        is_weight=is_weight,
    )


def _padding(layer: Layer) -> tuple[int, int]:
    """Zero rows above and zero columns left: the file gives only the total, of which this is the upper half."""
    return (
        _upper_half(layer, layer.H, layer.stride_h, layer.R, layer.input_chw[1], "rows"),
        _upper_half(layer, layer.W, layer.stride_w, layer.S, layer.input_chw[2], "columns"),
    )


def _upper_half(layer: Layer, outputs: int, stride: int, window: int, size: int, axis: str) -> int:
    total = (outputs - 1) * stride + window - size
    _check(
        layer,
        -stride < total <= 2 * (window - 1),
        f"{outputs} output {axis} from {size}, with a window of {window} and a stride of {stride}, "
        + (f"would need {total} {axis} of padding" if total > 0 else f"leave {-total} unread"),
    )
    return (max(total, 0) + 1) // 2


def _pool(layer: Layer, sources: list[_Producer]) -> Pool:
    _check_equal(layer, "input_chw[0]", layer.input_chw[0], layer.K)
    _check(layer, layer.N in (None, 1), f"N is {layer.N}; a pooling layer has one input")
    _check_equal(layer, "ops", layer.ops, layer.K * layer.H * layer.W * layer.R * layer.S)
    return Pool(
        name=layer.name,
        operands=(_concatenated(sources, layer.input_chw),),
        output=Tensor(layer.name, layer.output_chw),
        kernel=(layer.R, layer.S),
        stride=(layer.stride_h, layer.stride_w),
        padding=_padding(layer),
    )


def _elementwise(layer: Layer, sources: list[_Producer]) -> Elementwise:
    """The producers fill N operands of K channels, one after another."""
    operands: list[Operand] = []
    filling: list[_Producer] = []
    for source in sources:
        filling.append(source)
        if sum(one.shape[0] for one in filling) == layer.K:
            operands.append(_concatenated(filling, layer.output_chw))
            filling = []
    _check(layer, not filling, f"its producers do not add up to whole operands of {layer.K} channels")
    _check_equal(layer, "N", layer.N, len(operands))
    return _of_elements(layer, operands)


def _pointwise(layer: Layer, sources: list[_Producer]) -> Elementwise:
    return _of_elements(layer, [_concatenated(sources, layer.input_chw)])


def _of_elements(layer: Layer, operands: list[Operand]) -> Elementwise:
    _check_equal(layer, "input_chw", list(layer.input_chw), [layer.K * len(operands), layer.H, layer.W])
    _check(layer, layer.N is not None, "N is missing")
    operations_per_element = layer.N or 1
    _check_equal(layer, "ops", layer.ops, prod(layer.output_chw) * operations_per_element)
    return Elementwise(
        name=layer.name,
        operands=tuple(operands),
        output=Tensor(layer.name, layer.output_chw),
        operations_per_element=operations_per_element,
    )


def _transpose(layer: Layer, sources: list[_Producer]) -> Transpose:
    _check(layer, layer.output_dims_from_input is not None, "output_dims_from_input is missing")
    _check(layer, layer.N in (None, 1), f"N is {layer.N}; a transpose has one input")
    _check_equal(layer, "ops", layer.ops, prod(layer.output_chw))
    return Transpose(
        name=layer.name,
        operands=(_concatenated(sources, layer.input_chw),),
        output=Tensor(layer.name, layer.output_chw),
        permutation=tuple("CHW".index(dimension) for dimension in layer.output_dims_from_input or ()),
    )


def _upsample(layer: Layer, sources: list[_Producer]) -> Upsample:
    """Factors follow from the shapes; N operations an element."""
    _, rows, columns = layer.input_chw
    _check_equal(layer, "ops", layer.ops, prod(layer.output_chw) * (layer.N or 1))
    return Upsample(
        name=layer.name,
        operands=(_concatenated(sources, layer.input_chw),),
        output=Tensor(layer.name, layer.output_chw),
        factors=(max(layer.H // rows, 1), max(layer.W // columns, 1)),
        operations_per_element=layer.N or 1,
    )
