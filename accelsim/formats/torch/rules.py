"""Rules for what PyTorch has and ONNX has not, and the names under which both mean the same."""

from __future__ import annotations

from accelsim.formats.onnx.builder import Builder, Rule, sample_shape
from accelsim.formats.onnx.inference import Node
from accelsim.formats.onnx.moves import cut, move
from accelsim.formats.onnx.rules import RULES
from accelsim.workload.views import permuted


def permute(builder: Builder, node: Node) -> None:
    """The axes in another order, as addresses give it: free."""
    axes = node.attributes["perm"]
    shape = builder.shape(node.inputs[0])
    if sample_shape(shape) != shape and axes[0] == 0:
        shape, axes = shape[1:], [axis - 1 for axis in axes[1:]]
    builder.define(node, permuted(builder.operand(node, 0, shape), axes))


def block(builder: Builder, node: Node) -> None:
    """A block of a tensor: free."""
    cut(builder, node, node.attributes["begin"], tuple(node.attributes["shape"]))


MOVED = (
    "constant_pad_nd flip gather index index_put index_select masked_scatter pixel_shuffle pixel_unshuffle repeat "
    "repeat_interleave roll scatter scatter_add select_scatter slice slice_scatter take_along_dim tile"
)
"""Operators that only rearrange what they read: one operation an element."""
TORCH_RULES: dict[str, Rule] = {
    **RULES,
    "permute": permute,
    "block": block,
    **dict.fromkeys(MOVED.split(), move),
}
SAME = (
    "alias clone contiguous detach dropout expand_as feature_dropout flatten lift_fresh_copy native_dropout reshape "
    "squeeze to type_as unflatten unsqueeze view view_as _to_copy _unsafe_view _reshape_alias dequantize"
)
"""Operators whose result holds the same elements in the same order."""
CREATED = (
    "arange empty empty_like eye full full_like linspace new_empty new_full new_ones new_zeros ones ones_like "
    "rand rand_like randn randn_like scalar_tensor zeros zeros_like"
)
"""Operators whose result does not depend on what they read, but on its shape."""
_SAME_NAME = (
    "abs acos acosh asin asinh atan atanh celu ceil cos cosh elu erf floor gelu leaky_relu mish neg reciprocal relu "
    "round selu sigmoid sign sin sinh softplus softsign tan tanh"
)
FUNCTIONS = {
    **dict.fromkeys(("relu6", "hardtanh", "clamp", "clamp_min", "clamp_max"), "Clip"),
    **dict.fromkeys(("log", "log1p", "log2", "log10", "log_sigmoid"), "Log"),
    **dict.fromkeys(("exp", "exp2", "expm1"), "Exp"),
    **dict.fromkeys(("sqrt", "rsqrt"), "Sqrt"),
    **dict.fromkeys(("logical_not", "bitwise_not"), "Not"),
    **{name: name.title().replace("_", "") for name in _SAME_NAME.split()},
    "hardsigmoid": "HardSigmoid",
    "hardswish": "HardSwish",
    "isinf": "IsInf",
    "isnan": "IsNaN",
    "prelu": "PRelu",
    "_prelu_kernel": "PRelu",
    "silu": "Swish",
    "trunc": "Floor",
}
"""Functions of one tensor."""
ELEMENTWISE = {
    **dict.fromkeys(("add", "logaddexp"), "Add"),
    **dict.fromkeys(("sub", "subtract", "rsub"), "Sub"),
    **dict.fromkeys(("mul", "multiply", "square"), "Mul"),
    **dict.fromkeys(("div", "divide", "true_divide", "floor_divide"), "Div"),
    **dict.fromkeys(("pow", "atan2"), "Pow"),
    **dict.fromkeys(("remainder", "fmod"), "Mod"),
    **dict.fromkeys(("eq", "ne"), "Equal"),
    **dict.fromkeys(("logical_and", "bitwise_and"), "And"),
    **dict.fromkeys(("logical_or", "bitwise_or"), "Or"),
    **dict.fromkeys(("logical_xor", "bitwise_xor"), "Xor"),
    **dict.fromkeys(("maximum", "max"), "Max"),
    **dict.fromkeys(("minimum", "min"), "Min"),
    **dict.fromkeys(("where", "masked_fill"), "Where"),
    **dict.fromkeys(("tril", "triu"), "Trilu"),
    "ge": "GreaterOrEqual",
    "gt": "Greater",
    "le": "LessOrEqual",
    "lt": "Less",
}
"""Operators that work element by element on one tensor or several, numbers among them."""
REDUCTIONS = {
    **dict.fromkeys(("mean", "nanmean"), "ReduceMean"),
    **dict.fromkeys(("sum", "nansum"), "ReduceSum"),
    **dict.fromkeys(("amax", "max", "any"), "ReduceMax"),
    **dict.fromkeys(("amin", "min", "all"), "ReduceMin"),
    **dict.fromkeys(("var", "std"), "ReduceSumSquare"),
    **dict.fromkeys(("norm", "linalg_vector_norm"), "ReduceL2"),
    "argmax": "ArgMax",
    "argmin": "ArgMin",
    "logsumexp": "ReduceLogSumExp",
    "prod": "ReduceProd",
}
"""Operators that make one element of many."""
