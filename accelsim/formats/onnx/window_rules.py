"""Rules for the ONNX operators that slide over images: convolutions, pools, and resizing."""

from __future__ import annotations

from fractions import Fraction
from math import lcm, prod
from typing import NamedTuple

from accelsim.errors import FormatError
from accelsim.formats.onnx.builder import Builder, Rule, integers
from accelsim.formats.onnx.inference import Node, Shape
from accelsim.workload.operators import Conv2d, ConvTranspose2d, Pool, Resample, Upsample
from accelsim.workload.tensor import Tensor


class _Window(NamedTuple):
    """A window over rows and columns; ``padding`` is what stands above and left."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]


def _window(builder: Builder, node: Node, kernel: tuple[int, ...]) -> _Window:
    """The window of a node; one over a single axis has one row."""
    count = len(kernel)
    stride, dilation = integers(node, "strides", count, 1), integers(node, "dilations", count, 1)
    sizes = builder.shape(node.inputs[0])[2:]
    mode = node.attributes.get("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        total = [
            max((-(-size // step) - 1) * step + (width - 1) * spread + 1 - size, 0)
            for size, step, width, spread in zip(sizes, stride, kernel, dilation, strict=True)
        ]
        padding = tuple(pad // 2 if mode == "SAME_UPPER" else pad - pad // 2 for pad in total)
    elif mode not in ("NOTSET", "VALID"):
        raise FormatError(f"attribute 'auto_pad' is {mode!r}; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    else:
        padding = integers(node, "pads", 2 * count, 0)[:count] if mode != "VALID" else (0,) * count
    before = builder.padding.get(node.inputs[0], (0, 0))[2 - count :]
    padding = tuple(pad + more for pad, more in zip(padding, before, strict=True))
    if min(*kernel, *stride, *dilation) < 1 or min(padding) < 0:
        raise FormatError(f"kernel {kernel}, strides {stride} and dilations {dilation} must be >= 1, pads >= 0")

    def two(values: tuple[int, ...], missing: int) -> tuple[int, int]:
        return (missing, values[0]) if count == 1 else (values[0], values[1])

    return _Window(two(kernel, 1), two(stride, 1), two(padding, 0), two(dilation, 1))


def image_of(builder: Builder, node: Node, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(channels, rows, columns) of an ONNX shape (1, channels, columns) or (1, channels, rows, columns)."""
    if len(shape) not in (3, 4) or shape[0] != 1:
        raise builder.refusal(node, "only images of 1 or 2 axes with a leading batch of 1 are understood")
    return (shape[1], 1, shape[2]) if len(shape) == 3 else (shape[1], shape[2], shape[3])


def _unpadded(builder: Builder, node: Node) -> tuple[int, int, int]:
    """The image that a window operator reads, without what a Pad node before it adds."""
    shape = builder.shape(node.inputs[0])
    if node.inputs[0] in builder.padding:
        return builder.operand(node).shape  # type: ignore[return-value]
    return image_of(builder, node, shape)


_CONVOLUTIONS: dict[str, tuple[int, int | None]] = {
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "ConvInteger": (1, None),
    "QLinearConv": (3, 8),
}
"""The inputs that are weights and bias; the scales and zero points between them are part of the instruction."""


class _Weights(NamedTuple):
    """Shapes of the parameters of a convolution that fit each other, and its groups."""

    weight: Shape
    bias: int | None
    groups: int


def _weights(builder: Builder, node: Node, channels: int, filters: int) -> _Weights:
    """Checks that the weights of a convolution turn ``channels`` into ``filters``."""
    places = _CONVOLUTIONS[node.op]
    weight = builder.parameter(node, places[0])
    bias = None if places[1] is None else builder.parameter(node, places[1])
    groups = node.attributes.get("group", 1)
    if weight is None or groups < 1 or len(weight) != len(builder.shape(node.inputs[0])):
        raise FormatError(f"weights of shape {weight} in {groups} groups do not fit an image of {channels} channels")
    given = (weight[0], weight[1] * groups)
    wanted = (channels, filters) if node.op == "ConvTranspose" else (filters, channels)
    kernel = tuple(node.attributes.get("kernel_shape", weight[2:]))
    if given != wanted or kernel != weight[2:] or (bias is not None and prod(bias) != filters):
        raise FormatError(
            f"weights {weight} and bias {bias} in {groups} groups, with a kernel of "
            f"{node.attributes.get('kernel_shape', weight[2:])}, do not turn {channels} channels into {filters}"
        )
    return _Weights(weight, None if bias is None else filters, groups)


def _tensors(builder: Builder, name: str, found: _Weights) -> tuple[Tensor, ...]:
    weight = builder.weight(f"{name}.weight", found.weight)
    return (weight,) if found.bias is None else (weight, builder.tensor(f"{name}.bias", (found.bias,)))


def conv(builder: Builder, node: Node) -> None:
    """Conv, ConvInteger, QLinearConv: a bias is one value a filter; padding of any kind only moves the first window."""
    channels, _, _ = image_of(builder, node, builder.shape(node.inputs[0]))
    filters, rows, columns = image_of(builder, node, builder.shape(node.outputs[0]))
    found = _weights(builder, node, channels, filters)
    window = _window(builder, node, found.weight[2:])
    image = _unpadded(builder, node)
    operand = builder.operand(node, 0, image)
    name = builder.name(node)
    output, weights = builder.tensor(name, (filters, rows, columns)), _tensors(builder, name, found)
    operator = Conv2d(name, (operand,), output, weights, *window, groups=found.groups)
    builder.add(node, operator, channel_axis=1 - len(found.weight))


def conv_transpose(builder: Builder, node: Node) -> None:
    """ConvTranspose: padding cuts the output; what is cut off behind only shows in the output's shape."""
    image = image_of(builder, node, builder.shape(node.inputs[0]))
    out = image_of(builder, node, builder.shape(node.outputs[0]))
    found = _weights(builder, node, image[0], out[0])
    kernel, stride, _, dilation = _window(builder, node, found.weight[2:])
    count = len(found.weight) - 2
    before = integers(node, "pads", 2 * count, 0)[:count]
    mode = node.attributes.get("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER") or "output_shape" in node.attributes:
        more = (0, *integers(node, "output_padding", count, 0))[-2:]
        full = [
            (size - 1) * step + (width - 1) * spread + 1 + extra
            for size, step, width, spread, extra in zip(image[1:], stride, kernel, dilation, more, strict=True)
        ]
        total = [max(size - wanted, 0) for size, wanted in zip(full, out[1:], strict=True)]
        before = tuple(cut // 2 if mode == "SAME_UPPER" else -(-cut // 2) for cut in total)[2 - count :]
    padding = (0, before[0]) if count == 1 else (before[0], before[1])
    operand = builder.operand(node, 0, image)
    name = builder.name(node)
    output, weights = builder.tensor(name, out), _tensors(builder, name, found)
    operator = ConvTranspose2d(name, (operand,), output, weights, kernel, stride, padding, dilation, found.groups)
    builder.add(node, operator, channel_axis=1 - len(found.weight))


def pool(builder: Builder, node: Node) -> None:
    """MaxPool, AveragePool, LpPool: ceil_mode and padding at the end only show in the output's shape."""
    image, out = (image_of(builder, node, builder.shape(value)) for value in (node.inputs[0], node.outputs[0]))
    window = _window(builder, node, integers(node, "kernel_shape", len(builder.shape(node.inputs[0])) - 2, 0))
    image = _unpadded(builder, node)
    name = builder.name(node)
    builder.add(node, Pool(name, (builder.operand(node, 0, image),), builder.tensor(name, out), (), *window))


def global_pool(builder: Builder, node: Node) -> None:
    """A pool whose window is the whole image."""
    channels, rows, columns = image_of(builder, node, builder.shape(node.inputs[0]))
    operand = builder.operand(node, 0, (channels, rows, columns))
    name = builder.name(node)
    builder.add(node, Pool(name, (operand,), builder.tensor(name, (channels, 1, 1)), kernel=(rows, columns)))


_TAPS = {"nearest": 1, "linear": 2, "cubic": 4}


def resize(builder: Builder, node: Node) -> None:
    """Resize and Upsample of rows and columns."""
    shape, out = (image_of(builder, node, builder.shape(value)) for value in (node.inputs[0], node.outputs[0]))
    mode = node.attributes.get("mode", "nearest")
    old = node.op == "Upsample" or builder.graph.opset < 11
    place = node.attributes.get("coordinate_transformation_mode", "asymmetric" if old else "half_pixel")
    if mode not in _TAPS or shape[0] != out[0] or place not in _PLACES:
        raise builder.refusal(node, f"mode '{mode}' at '{place}'; only rows and columns at known places are understood")
    if node.attributes.get("antialias", 0):
        raise builder.refusal(node, "antialiasing is not understood")
    operand = builder.operand(node, 0, shape)
    name = builder.name(node)
    output = builder.tensor(name, out)
    if mode == "nearest" and not out[1] % shape[1] and not out[2] % shape[2]:
        factors = (out[1] // shape[1], out[2] // shape[2])
        builder.add(node, Upsample(name, (operand,), output, factors=factors))
        return
    rounding = node.attributes.get("nearest_mode", "floor" if old else "round_prefer_floor")
    axes = [_axis_places(size, new, place, rounding, _TAPS[mode]) for size, new in zip(shape[1:], out[1:], strict=True)]
    (step_y, shift_y, taps_y), (step_x, shift_x, taps_x) = axes
    builder.add(node, Resample(name, (operand,), output, (), (step_y, step_x), (shift_y, shift_x), (taps_y, taps_x)))


_PLACES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")


def _axis_places(size: int, new: int, place: str, rounding: str, taps: int) -> tuple[Fraction, Fraction, int]:
    """Step, shift and neighbours of a :class:`Resample` along an axis of ``size`` that becomes ``new``.

    The formulas are those of the ONNX operator Resize. Rounding to a neighbour is made part of the shift: with
    denominators of at most d, the next whole number above y is that below y + (d - 1) / d.
    """
    if size == new:
        return Fraction(1), Fraction(0), 1
    step, shift = Fraction(size, new), Fraction(0)
    if place == "align_corners":
        step = Fraction(size - 1, new - 1) if new > 1 else Fraction(0)
    elif place == "pytorch_half_pixel" and new == 1:
        step = Fraction(0)
    elif place != "asymmetric":
        shift = (step - 1) / 2
    if taps == 1 and rounding.startswith("round"):
        shift += Fraction(1, 2) if rounding == "round_prefer_ceil" else Fraction(-1, 2)
    if taps == 1 and rounding in ("ceil", "round_prefer_floor"):
        denominators = lcm(step.denominator, shift.denominator)
        shift += Fraction(denominators - 1, denominators)
    return step, shift, taps


WINDOW_RULES: dict[str, Rule] = {
    **dict.fromkeys(("Conv", "ConvInteger", "QLinearConv"), conv),
    "ConvTranspose": conv_transpose,
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), pool),
    **dict.fromkeys(("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"), global_pool),
    **dict.fromkeys(("Resize", "Upsample"), resize),
}
