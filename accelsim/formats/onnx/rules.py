"""One rule for each ONNX operator that is understood: how it becomes an operator of a workload, or a free view.

A rule looks first and builds last: it raises :class:`UnsupportedOperator` before it has added anything. The larger
families have files of their own, ``*_rules.py`` and ``moves.py``.
"""

from __future__ import annotations

from math import prod

from accelsim.errors import FormatError
from accelsim.formats.onnx.attention_rules import ATTENTION_RULES
from accelsim.formats.onnx.builder import INDEX_BITS, Builder, Rule, axis_of, sample_shape
from accelsim.formats.onnx.inference import Node
from accelsim.formats.onnx.microsoft_rules import microsoft_rules
from accelsim.formats.onnx.moves import MOVE_RULES
from accelsim.formats.onnx.product_rules import PRODUCT_RULES
from accelsim.formats.onnx.quantized_rules import QUANTIZED_RULES
from accelsim.formats.onnx.recurrent_rules import RECURRENT_RULES
from accelsim.formats.onnx.window_rules import WINDOW_RULES, image_of
from accelsim.workload.operator import Operand, Source
from accelsim.workload.operators import Elementwise, LocalResponseNorm, Move, Normalization, Reduction, Softmax
from accelsim.workload.operators.normalization import NORMALIZATION_OPERATIONS, RMS_NORMALIZATION_OPERATIONS
from accelsim.workload.tensor import Tensor


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
    weights = tuple(builder.weight(f"{name}.{part}", (shape[1],)) for part in ("scale", "shift"))
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


def reduction(builder: Builder, node: Node) -> None:
    """ReduceMean and its like, ArgMax: each input element is looked at once, or twice where it is transformed first."""
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
    if any(not isinstance(axis, int) or not -len(shape) <= axis < max(len(shape), 1) for axis in axes):
        raise FormatError(f"axes {axes} of an input of shape {shape}")
    operand = builder.operand(node)
    strip = len(shape) - len(operand.shape)
    reduced = sorted({axis % max(len(shape), 1) - strip for axis in axes})
    reduced = [axis for axis in reduced if axis >= 0 and operand.shape[axis] > 1]
    if not reduced:
        builder.same(node)
        return
    name = builder.name(node)
    output = builder.tensor(name, (1 if axis in reduced else size for axis, size in enumerate(operand.shape)))
    operations = prod(operand.shape[axis] for axis in reduced) * (2 if node.op in _TRANSFORMED else 1)
    builder.add(node, Reduction(name, (operand,), output, (), tuple(reduced), operations))


def top_k(builder: Builder, node: Node) -> None:
    """TopK: as many comparisons as the k largest are looked for one by one, or as a sort takes, whichever is less."""
    shape = builder.shape(node.inputs[0])
    axis = axis_of(node, len(shape), -1)
    number = 0 if node.outputs[0] and builder.readers[node.outputs[0]] else 1
    kept = builder.shape(node.outputs[number])[axis]
    operand = builder.operand(node)
    axis -= len(shape) - len(operand.shape)
    if axis < 0:
        raise builder.refusal(node, "it looks along the samples")
    size = operand.shape[axis]
    name = builder.name(node)
    out = tuple(kept if place == axis else width for place, width in enumerate(operand.shape))
    operations = min(size, -(-size * (size - 1).bit_length() // kept)) or 1
    found = Reduction(name, (operand,), builder.tensor(name, out), (), (axis,), operations)
    builder.operators[name] = found
    written = Operand((Source(name),), out)
    builder.define(node, written)
    if len(node.outputs) > 1 and node.outputs[1] and builder.readers[node.outputs[1]]:
        name = builder.name(node, ".indices")
        builder.operators[name] = Move(name, (written,), Tensor(name, out, INDEX_BITS), of="TopK")
        builder.define(node, Operand((Source(name),), out), 1)


def local_response_norm(builder: Builder, node: Node) -> None:
    """LRN."""
    image_of(builder, node, builder.shape(node.inputs[0]))
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


_ROOT_MEAN_SQUARE = ("RMSNormalization", "SimplifiedLayerNormalization", "LpNormalization")


def normalization(builder: Builder, node: Node) -> None:
    """Layer, root-mean-square, instance and group normalization, as rows that are normalized one by one."""
    shape = builder.shape(node.inputs[0])
    parameters = [builder.parameter(node, number) for number in range(1, len(node.inputs))]
    width = None
    if node.op in ("LayerNormalization", *_ROOT_MEAN_SQUARE):
        axis = axis_of(node, len(shape), -1)
        rows = prod(shape[:axis])
        if node.op == "LpNormalization":
            width = (rows, shape[axis], prod(shape[axis + 1 :]))
    elif len(shape) < 3 or shape[0] != 1:
        raise builder.refusal(node, "only a leading batch of 1 is understood")
    else:
        rows = shape[1] if node.op == "InstanceNormalization" else node.attributes.get("num_groups", 1)
    if rows < 1 or prod(shape) % rows:
        raise FormatError(f"{rows} rows do not divide an input of shape {shape}")
    operand = builder.operand(node, 0, width or (rows, prod(shape) // rows))
    name = builder.name(node)
    weights = tuple(
        builder.weight(f"{name}.{part}", size)
        for part, size in zip(("scale", "bias"), parameters, strict=False)
        if size is not None
    )
    operations = RMS_NORMALIZATION_OPERATIONS if node.op in _ROOT_MEAN_SQUARE else NORMALIZATION_OPERATIONS
    builder.add(node, Normalization(name, (operand,), builder.tensor(name, operand.shape), weights, (1,), operations))


def along_axis(builder: Builder, node: Node) -> None:
    """CumSum, CumProd, Hardmax: each element from all of its row, in one operation a step of the scan, or two."""
    shape = builder.shape(node.inputs[0])
    if node.op == "Hardmax":
        axis = axis_of(node, len(shape), -1 if builder.graph.opset >= 13 else 1)
    else:
        array = builder.graph.arrays.get(node.inputs[1])
        if array is None or array.size != 1 or not -len(shape) <= array.item() < len(shape):
            raise builder.refusal(node, "its axis is not known, or is none of its input")
        axis = int(array.item()) % len(shape)
    operand = builder.operand(node)
    axis -= len(shape) - len(operand.shape)
    if axis < 0 or operand.shape[axis] == 1:
        builder.same(node)
        return
    name = builder.name(node)
    operations = HARDMAX_OPERATIONS if node.op == "Hardmax" else 1
    builder.add(node, Normalization(name, (operand,), builder.tensor(name, operand.shape), (), (axis,), operations))


def mean_variance_normalization(builder: Builder, node: Node) -> None:
    """MeanVarianceNormalization, without gain and bias."""
    shape = builder.shape(node.inputs[0])
    axes = node.attributes.get("axes", [0, 2, 3])
    if any(not -len(shape) <= axis < len(shape) for axis in axes):
        raise FormatError(f"attribute 'axes' is {axes}; the tensor has {len(shape)} axes")
    operand = builder.operand(node)
    strip = len(shape) - len(operand.shape)
    along = tuple(sorted({axis % len(shape) - strip for axis in axes} - {-1}))
    name = builder.name(node)
    output = builder.tensor(name, operand.shape)
    builder.add(node, Normalization(name, (operand,), output, (), along, NORMALIZATION_OPERATIONS - 2))


def grid_sample(builder: Builder, node: Node) -> None:
    """GridSample: any place of the image may be asked for; two operations a neighbour, as in a Resize."""
    neighbours = {"linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4, "nearest": 1}.get(
        node.attributes.get("mode", "linear"), 0
    ) ** (len(builder.shape(node.inputs[0])) - 2)
    if not neighbours:
        raise FormatError(f"attribute 'mode' is {node.attributes.get('mode')!r}; expected nearest, linear or cubic")
    operands = tuple(builder.operand(node, number) for number in builder.activations(node))
    name = builder.name(node)
    output = builder.tensor(name, sample_shape(builder.shape(node.outputs[0])))
    operations = 1 if neighbours == 1 else 2 * neighbours
    builder.add(node, Move(name, operands, output, builder.constants(node, name), node.op, operations))


VARIADIC = ("Sum", "Mean", "Max", "Min")
_ACTIVATIONS = (
    "Relu Clip LeakyRelu PRelu Elu Selu Celu ThresholdedRelu Sigmoid HardSigmoid Tanh HardSwish Swish Mish Gelu Erf "
    "Softplus Softsign Shrink Exp Log Sqrt Reciprocal Neg Abs Floor Ceil Round Sign Sin Cos Tan Asin Acos Atan Sinh "
    "Cosh Asinh Acosh Atanh Not BitwiseNot IsNaN IsInf"
)
_ELEMENTWISE = (
    "Add Sub Mul Div Pow Mod Equal Greater GreaterOrEqual Less LessOrEqual And Or Xor BitwiseAnd BitwiseOr BitwiseXor "
    "BitShift Where Expand Trilu RandomNormalLike RandomUniformLike Bernoulli"
)
_SEQUENCES = (
    "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct SequenceEmpty "
    "SequenceErase SequenceInsert SequenceLength SequenceMap SplitToSequence"
)
_TEXTS = "RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer"
_TRANSFORMED = ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")
"""Reductions of something that is made of each element first."""
_REDUCTIONS = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceLogSum", "ArgMax", "ArgMin")
HARDMAX_OPERATIONS = 2
"""A comparison to find the largest element, and one to mark it."""
_NORMALIZATIONS = ("LayerNormalization", "InstanceNormalization", "GroupNormalization", *_ROOT_MEAN_SQUARE)

RULES: dict[str, Rule] = {
    **WINDOW_RULES,
    **PRODUCT_RULES,
    **ATTENTION_RULES,
    **QUANTIZED_RULES,
    **RECURRENT_RULES,
    **MOVE_RULES,
    "BatchNormalization": batch_normalization,
    **dict.fromkeys(_ACTIVATIONS.split(), activation),
    **dict.fromkeys((*_ELEMENTWISE.split(), *VARIADIC), elementwise),
    **dict.fromkeys((*_REDUCTIONS, *_TRANSFORMED), reduction),
    "TopK": top_k,
    "LRN": local_response_norm,
    **dict.fromkeys(("Softmax", "LogSoftmax"), softmax),
    **dict.fromkeys(_NORMALIZATIONS, normalization),
    **dict.fromkeys(("CumSum", "CumProd", "Hardmax"), along_axis),
    "MeanVarianceNormalization": mean_variance_normalization,
    "GridSample": grid_sample,
}
MICROSOFT_RULES = microsoft_rules(RULES)
"""Those of operators in onnxruntime's domain."""
WITHOUT_DOMAIN = frozenset(["SimplifiedLayerNormalization", "DynamicQuantizeLSTM"])
"""Operators of onnxruntime, outside the standard, that are understood."""
SEVERAL_OUTPUTS = frozenset(["Split", "Attention", "DynamicQuantizeLinear", "TopK", *RECURRENT_RULES])
"""Operators of which more than the first output may be used."""
REFUSED = {
    **dict.fromkeys(("If", "Loop", "Scan"), "what it computes, and how often, is only known when it runs"),
    **dict.fromkeys(
        ("NonMaxSuppression", "NonZero", "Unique", "Compress"), "how much it writes depends on the data that it reads"
    ),
    **dict.fromkeys(_SEQUENCES.split(), "sequences of tensors and optional tensors are not understood"),
    **dict.fromkeys(_TEXTS.split(), "text is not understood"),
}
"""Operators that no rule can be written for, and why."""
