"""One rule for each ONNX operator that is understood: how it becomes an operator of a workload, or a free view.

A rule looks first and builds last: it raises :class:`UnsupportedOperator` before it has added anything.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

from accelsim.errors import FormatError
from accelsim.formats.onnx_builder import Builder, axis_of, integers, sample_shape
from accelsim.formats.onnx_inference import Node
from accelsim.workload.operators import (
    Conv2d,
    Elementwise,
    LocalResponseNorm,
    MatMul,
    Normalization,
    Pool,
    Softmax,
    Upsample,
)

Rule = Callable[[Builder, Node], None]


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


def _image(builder: Builder, node: Node, shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(channels, rows, columns) of an ONNX shape (1, channels, columns) or (1, channels, rows, columns)."""
    if len(shape) not in (3, 4) or shape[0] != 1:
        raise builder.refusal(node, "only images of 1 or 2 axes with a leading batch of 1 are understood")
    return (shape[1], 1, shape[2]) if len(shape) == 3 else (shape[1], shape[2], shape[3])


def _unpadded(builder: Builder, node: Node) -> tuple[int, int, int]:
    """The image that a window operator reads, without what a Pad node before it adds."""
    shape = builder.shape(node.inputs[0])
    if node.inputs[0] in builder.padding:
        return builder.operand(node).shape  # type: ignore[return-value]
    return _image(builder, node, shape)


def conv(builder: Builder, node: Node) -> None:
    """Conv: a bias is one value a filter; padding of any kind only moves the first window."""
    weight = builder.parameter(node, 1)
    bias = builder.parameter(node, 2)
    channels, _, _ = _image(builder, node, builder.shape(node.inputs[0]))
    filters, rows, columns = _image(builder, node, builder.shape(node.outputs[0]))
    groups = node.attributes.get("group", 1)
    if weight is None or groups < 1 or len(weight) != len(builder.shape(node.inputs[0])):
        raise FormatError(f"weights of shape {weight} in {groups} groups do not fit an image of {channels} channels")
    if (
        weight[1] * groups != channels
        or weight[0] != filters
        or tuple(node.attributes.get("kernel_shape", weight[2:])) != weight[2:]
        or (bias is not None and prod(bias) != filters)
    ):
        raise FormatError(
            f"weights {weight} and bias {bias} in {groups} groups, with a kernel of "
            f"{node.attributes.get('kernel_shape', weight[2:])}, do not turn {channels} channels into {filters}"
        )
    window = _window(builder, node, weight[2:])
    image = _unpadded(builder, node)
    name = builder.name(node)
    weights = [builder.tensor(f"{name}.weight", weight)]
    if bias is not None:
        weights.append(builder.tensor(f"{name}.bias", (filters,)))
    operator = Conv2d(
        name,
        (builder.operand(node, 0, image),),
        builder.tensor(name, (filters, rows, columns)),
        tuple(weights),
        *window,
        groups=groups,
    )
    builder.add(node, operator, channel_axis=1 - len(weight))


def matmul(builder: Builder, node: Node) -> None:
    """MatMul: by weights, which may stand in leading axes of 1, or by another operator's result."""
    left, right, out = (builder.shape(value) for value in (*node.inputs[:2], node.outputs[0]))
    name_of_right = node.inputs[1]
    if builder.is_constant(name_of_right):
        if len(right) < 2 or any(size != 1 for size in right[:-2]):
            raise builder.refusal(node, "its weights are no single matrix")
        rows = sample_shape(left) if len(left) > 1 else left
        operand = builder.operand(node, 0, rows)
        name = builder.name(node)
        weight = builder.tensor(f"{name}.weight", right[-2:])
        product = MatMul(name, (operand,), builder.tensor(name, (*rows[:-1], right[-1])), (weight,))
        builder.add(node, product, channel_axis=-1)
        return
    if min(len(left), len(right)) < 2:
        raise builder.refusal(node, "a vector times an operator's result is not understood")
    strip = len(out) > 2 and out[0] == 1
    shapes = [shape[1:] if strip and len(shape) == len(out) else shape for shape in (left, right, out)]
    operands = (builder.operand(node, 0, shapes[0]), builder.operand(node, 1, shapes[1]))
    name = builder.name(node)
    builder.add(node, MatMul(name, operands, builder.tensor(name, shapes[2])), takes_activation=True)


def gemm(builder: Builder, node: Node) -> None:
    """Gemm: a matrix product with its bias; an operand to be transposed is transposed and paid, a weight is not."""
    left, right, out = (builder.shape(value) for value in (*node.inputs[:2], node.outputs[0]))
    is_weight = builder.is_constant(node.inputs[1])
    builder.operand(node)  # refuses a constant
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    columns = out[-1]
    fits = bias == "" or (builder.is_constant(bias) and builder.shape(bias) in ((columns,), (1, columns), (1,), ()))
    if not fits:
        raise builder.refusal(node, "its third input is no constant bias of one value a column")
    if len(left) != 2 or len(right) != 2 or (is_weight and node.attributes.get("transB", 0) and right[0] != columns):
        raise FormatError(f"{left} times {right} is no matrix product that gives {out}")
    operand = builder.operand(node, 0, left)
    if node.attributes.get("transA", 0):
        operand = builder.transposed(node, operand)
    depth = operand.shape[1]
    if not is_weight:
        other = builder.operand(node, 1, right)
        if node.attributes.get("transB", 0):
            other = builder.transposed(node, other)
        name = builder.name(node)
        weights = [builder.tensor(f"{name}.bias", (columns,))] if bias else []
        product = MatMul(name, (operand, other), builder.tensor(name, out), tuple(weights))
        builder.add(node, product, takes_activation=True)
        return
    if prod(right) != depth * columns:
        raise FormatError(f"{left} times {right} is no matrix product that gives {out}")
    rows = sample_shape(operand.shape)
    operand = builder.view(node, operand, rows)
    name = builder.name(node)
    weights = [builder.tensor(f"{name}.weight", (depth, columns))]
    if bias:
        weights.append(builder.tensor(f"{name}.bias", (columns,)))
    product = MatMul(name, (operand,), builder.tensor(name, (*rows[:-1], columns)), tuple(weights))
    builder.add(node, product, channel_axis=-1)


def batch_normalization(builder: Builder, node: Node) -> None:
    """BatchNormalization: folded into what comes before it, else a scale and a shift."""
    channels = [builder.parameter(node, number) for number in range(1, 5)]
    if node.attributes.get("training_mode", 0):
        raise builder.refusal(node, "training is not understood")
    shape = builder.shape(node.inputs[0])
    if len(shape) < 2 or any(parameter != (shape[1],) for parameter in channels):
        raise FormatError(f"parameters of shapes {channels} do not fit an input of shape {shape}")
    by_channel = (shape[1], *(1 for _ in shape[2:]))
    if builder.absorb_scale(node, 0, by_channel):
        return
    operand = builder.operand(node)
    name = builder.name(node)
    weights = tuple(builder.tensor(f"{name}.{part}", (shape[1],)) for part in ("scale", "shift"))
    output = builder.tensor(name, operand.shape)
    builder.add(node, Elementwise(name, (operand,), output, weights, 2), channel_axis=1 - len(shape))


def activation(builder: Builder, node: Node) -> None:
    """A function of one input: free in the output stage of what comes before, else one operation an element."""
    slopes = builder.constants(node, node.name or node.outputs[0]) if node.op == "PRelu" else ()
    builder.operand(node)
    if len(builder.activations(node)) != 1:
        raise builder.refusal(node, "its parameters are not constant")
    if builder.absorb_activation(node, slopes):
        return
    operand = builder.operand(node)
    name = builder.name(node)
    builder.add(node, Elementwise(name, (operand,), builder.tensor(name, operand.shape), slopes))


def elementwise(builder: Builder, node: Node) -> None:
    """Add, Mul and their like: one operation for each operand after the first; parameters of a channel are folded."""
    active = builder.activations(node)
    constant = [number for number, value in enumerate(node.inputs) if value and builder.is_constant(value)]
    if len(active) == len(constant) == 1:
        linear = node.op in ("Add", "Sub", "Mul", "Sum") or (node.op == "Div" and active[0] == 0)
        if linear and builder.absorb_scale(node, active[0], builder.shape(node.inputs[constant[0]])):
            return
    operands = tuple(builder.operand(node, number) for number in active)
    if not operands:
        raise builder.refusal(node, "none of its inputs is computed by the graph")
    name = builder.name(node)
    operations = max(len(active) + len(constant) - 1, 1) if node.op in VARIADIC else 1
    output = builder.tensor(name, sample_shape(builder.shape(node.outputs[0])))
    operator = Elementwise(name, operands, output, builder.constants(node, name), operations)
    builder.add(node, operator, takes_activation=node.op in ("Add", "Sub", "Mul", "Sum"))


def pool(builder: Builder, node: Node) -> None:
    """MaxPool, AveragePool, LpPool: ceil_mode and padding at the end only show in the output's shape."""
    image, out = (_image(builder, node, builder.shape(value)) for value in (node.inputs[0], node.outputs[0]))
    window = _window(builder, node, integers(node, "kernel_shape", len(builder.shape(node.inputs[0])) - 2, 0))
    image = _unpadded(builder, node)
    name = builder.name(node)
    builder.add(node, Pool(name, (builder.operand(node, 0, image),), builder.tensor(name, out), (), *window))


def global_pool(builder: Builder, node: Node) -> None:
    """A pool whose window is the whole image."""
    channels, rows, columns = _image(builder, node, builder.shape(node.inputs[0]))
    operand = builder.operand(node, 0, (channels, rows, columns))
    name = builder.name(node)
    builder.add(node, Pool(name, (operand,), builder.tensor(name, (channels, 1, 1)), kernel=(rows, columns)))


def reduction(builder: Builder, node: Node) -> None:
    """ReduceMean and its like: a pool over the axes that vanish, which must be neighbours."""
    shape = builder.shape(node.inputs[0])
    if node.op.startswith("Arg"):
        axes: list[int] | None = [node.attributes.get("axis", 0)]
    elif len(node.inputs) > 1 and node.inputs[1]:
        array = builder.graph.arrays.get(node.inputs[1])
        if array is None:
            raise builder.refusal(node, "its axes are not known")
        axes = array.reshape(-1).tolist()
    else:
        axes = node.attributes.get("axes")
    if not axes and node.attributes.get("noop_with_empty_axes", 0):
        builder.same(node)
        return
    if not axes:
        axes = list(range(len(shape)))
    if any(not isinstance(axis, int) or not -len(shape) <= axis < len(shape) for axis in axes):
        raise FormatError(f"axes {axes} of an input of shape {shape}")
    summed = {axis % len(shape) for axis in axes}
    wide = [axis for axis in summed if shape[axis] > 1]
    if not wide:
        builder.same(node)
        return
    first, last = min(wide), max(wide) + 1
    if any(axis not in summed and shape[axis] > 1 for axis in range(first, last)):
        raise builder.refusal(node, "the axes that it reduces are not neighbours")
    view = (prod(shape[:first]), prod(shape[first:last]), prod(shape[last:]))
    operand = builder.operand(node, 0, view)
    name = builder.name(node)
    builder.add(node, Pool(name, (operand,), builder.tensor(name, (view[0], 1, view[2])), kernel=(view[1], 1)))


def local_response_norm(builder: Builder, node: Node) -> None:
    """LRN."""
    _image(builder, node, builder.shape(node.inputs[0]))
    size = node.attributes.get("size", 1)
    if size < 1:
        raise FormatError(f"attribute 'size' is {size}; expected 1 or more")
    operand = builder.operand(node)
    name = builder.name(node)
    builder.add(node, LocalResponseNorm(name, (operand,), builder.tensor(name, operand.shape), size=size))


def softmax(builder: Builder, node: Node) -> None:
    """Softmax and LogSoftmax: along one axis, or, before operator set 13, along it and all behind it."""
    shape = builder.shape(node.inputs[0])
    if not shape:
        raise FormatError("a softmax of a scalar")
    old = builder.graph.opset < 13
    axis = axis_of(node, len(shape), 1 if old and len(shape) > 1 else -1)
    last = len(shape) if old else axis + 1
    strip = int(shape[0] == 1)
    if axis >= strip and shape[axis] == prod(shape[axis:last]):
        view, along = shape[strip:], axis - strip
    else:
        view, along = (prod(shape[:axis]), prod(shape[axis:last]), prod(shape[last:])), 1
    operand = builder.operand(node, 0, view)
    name = builder.name(node)
    builder.add(node, Softmax(name, (operand,), builder.tensor(name, operand.shape), axis=along))


def normalization(builder: Builder, node: Node) -> None:
    """Layer, instance and group normalization, as rows that are normalized one by one."""
    shape = builder.shape(node.inputs[0])
    parameters = [builder.parameter(node, number) for number in range(1, len(node.inputs))]
    if node.op == "LayerNormalization":
        rows = prod(shape[: axis_of(node, len(shape), -1)])
    elif len(shape) < 3 or shape[0] != 1:
        raise builder.refusal(node, "only a leading batch of 1 is understood")
    else:
        rows = shape[1] if node.op == "InstanceNormalization" else node.attributes.get("num_groups", 1)
    if rows < 1 or prod(shape) % rows:
        raise FormatError(f"{rows} rows do not divide an input of shape {shape}")
    operand = builder.operand(node, 0, (rows, prod(shape) // rows))
    name = builder.name(node)
    weights = tuple(
        builder.tensor(f"{name}.{part}", size)
        for part, size in zip(("scale", "bias"), parameters, strict=False)
        if size is not None
    )
    builder.add(node, Normalization(name, (operand,), builder.tensor(name, operand.shape), weights, axes=(1,)))


def resize(builder: Builder, node: Node) -> None:
    """Resize and Upsample to the nearest neighbour, by whole factors."""
    shape, out = (_image(builder, node, builder.shape(value)) for value in (node.inputs[0], node.outputs[0]))
    mode = node.attributes.get("mode", "nearest")
    if mode != "nearest" or shape[0] != out[0] or out[1] % shape[1] or out[2] % shape[2]:
        raise builder.refusal(node, f"mode '{mode}'; only nearest neighbours by whole factors are understood")
    factors = (out[1] // shape[1], out[2] // shape[2])
    operand = builder.operand(node, 0, shape)
    name = builder.name(node)
    builder.add(node, Upsample(name, (operand,), builder.tensor(name, out), factors=factors))


VARIADIC = ("Sum", "Mean", "Max", "Min")
_ACTIVATIONS = (
    "Relu Clip LeakyRelu PRelu Elu Selu Celu ThresholdedRelu Sigmoid HardSigmoid Tanh HardSwish Swish Mish Gelu Erf "
    "Softplus Softsign Exp Log Sqrt Reciprocal Neg Abs Floor Ceil Round Sign Sin Cos Not IsNaN"
)
_ELEMENTWISE = "Add Sub Mul Div Pow Mod Equal Greater GreaterOrEqual Less LessOrEqual And Or Xor Where Expand"
_REDUCTIONS = "ReduceMean ReduceSum ReduceMax ReduceMin ReduceProd ArgMax ArgMin"

RULES: dict[str, Rule] = {
    "Conv": conv,
    "MatMul": matmul,
    "Gemm": gemm,
    "BatchNormalization": batch_normalization,
    **dict.fromkeys(_ACTIVATIONS.split(), activation),
    **dict.fromkeys((*_ELEMENTWISE.split(), *VARIADIC), elementwise),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), pool),
    **dict.fromkeys(("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"), global_pool),
    **dict.fromkeys(_REDUCTIONS.split(), reduction),
    "LRN": local_response_norm,
    **dict.fromkeys(("Softmax", "LogSoftmax"), softmax),
    **dict.fromkeys(("LayerNormalization", "InstanceNormalization", "GroupNormalization"), normalization),
    **dict.fromkeys(("Resize", "Upsample"), resize),
}
