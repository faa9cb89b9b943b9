"""What each operator of PyTorch is in the terms of ``onnx/rules.py`` and ``torch/rules.py``: one function each.

A function takes the node's arguments by the names of the operator's schema, and emits nodes. It looks before it emits:
what it does not know it refuses with :class:`Unknown`, and the node is handed on under its own name, for which there is
no rule.
"""

from __future__ import annotations

from accelsim.formats.torch.graph import Arguments, TorchGraph, TorchNode, Unknown
from accelsim.formats.torch.rules import CREATED, ELEMENTWISE, FUNCTIONS, REDUCTIONS
from accelsim.formats.torch.views import VIEWS, Translation, pair


def _created(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    graph.constant(node.name, graph.shape(node.name), graph.bits_of(node))


def _function(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    graph.emit(node, FUNCTIONS[graph.operator(node)], graph.tensors(node))


def _elementwise(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    """A number is part of the instruction: a parameter without elements."""
    operator = graph.operator(node)
    tensors = graph.tensors(node)
    if operator == "square":
        tensors = tensors * 2
    elif len(tensors) == 1 and operator not in ("tril", "triu"):
        first = given.get("self", given.get("input"))
        scalar = graph.number(node)
        tensors = [*tensors, scalar] if hasattr(first, "all_input_nodes") and operator != "rsub" else [scalar, *tensors]
    graph.emit(node, ELEMENTWISE[operator], tensors)


def _two_steps(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    """addcmul, addcdiv: a product or quotient, and a sum."""
    first, left, right = graph.tensors(node)
    between = graph.between(node, "product", graph.shape(node.name))
    graph.emit(node, "Mul" if graph.operator(node) == "addcmul" else "Div", [left, right], output=between)
    graph.emit(node, "Add", [first, between])


def _glu(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    shape = graph.shape(given["self"].name)
    axis = given["dim"] % len(shape)
    half = graph.shape(node.name)
    parts = []
    for number in range(2):
        begin = [number * half[axis] if i == axis else 0 for i in range(len(shape))]
        parts.append(graph.between(node, f"half{number}", half))
        graph.emit(node, "block", [given["self"].name], {"begin": begin, "shape": list(half)}, output=parts[-1])
    gate = graph.between(node, "gate", half)
    graph.emit(node, "Sigmoid", [parts[1]], output=gate)
    graph.emit(node, "Mul", [parts[0], gate])


def _reduction(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    operator = graph.operator(node)
    if operator in ("max", "min") and len(graph.tensors(node)) == 2:
        _elementwise(graph, node, given)
        return
    axes = given.get("dim")
    if operator in ("argmax", "argmin"):
        if axes is None:
            raise Unknown("along no axis")
        graph.emit(node, REDUCTIONS[operator], graph.tensors(node), {"axis": axes})
        return
    axes = [axes] if isinstance(axes, int) else list(axes or [])
    graph.emit(node, REDUCTIONS[operator], graph.tensors(node), {"axes": axes})


def _softmax(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    graph.emit(node, "Softmax", graph.tensors(node), {"axis": given["dim"]})


def _convolution(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    """Padding 'same' stands, where it is odd, one more below and to the right (torch.nn.functional.conv2d)."""
    weight = graph.shape(given["weight"].name)
    count = len(weight) - 2
    dilation = pair(given["dilation"], count)
    padding = given["padding"]
    if padding == "valid":
        padding = 0
    elif padding == "same":
        padding = [step * (size - 1) // 2 for step, size in zip(dilation, weight[2:], strict=True)]
    before = pair(padding, count)
    attributes = {
        "strides": pair(given["stride"], count),
        "pads": before * 2,
        "dilations": dilation,
        "group": given["groups"],
    }
    transposed = given.get("transposed", "transpose" in graph.operator(node))
    graph.emit(node, "ConvTranspose" if transposed else "Conv", graph.tensors(node), attributes)


def _pool(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    count = 1 if "1d" in graph.operator(node) else 2
    kernel = pair(given["kernel_size"], count)
    attributes = {
        "kernel_shape": kernel,
        "strides": pair(given["stride"], count) if given.get("stride") else kernel,
        "pads": pair(given["padding"], count) * 2,
        "dilations": pair(given.get("dilation", 1), count),
    }
    graph.emit(node, "AveragePool" if "avg" in graph.operator(node) else "MaxPool", graph.tensors(node), attributes)


def _adaptive_pool(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    count = 1 if "1d" in graph.operator(node) else 2
    sizes = graph.shape(given["self"].name)[-count:]
    wanted = pair(given["output_size"], count)
    if any(size % out for size, out in zip(sizes, wanted, strict=True)):
        raise Unknown(f"from {list(sizes)} to {wanted}, which does not divide it, windows have different sizes")
    steps = [size // out for size, out in zip(sizes, wanted, strict=True)]
    graph.emit(
        node,
        "AveragePool" if "avg" in graph.operator(node) else "MaxPool",
        graph.tensors(node),
        {"kernel_shape": steps, "strides": steps},
    )


def _upsample(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    operator = graph.operator(node)
    mode = next((mode for mode in ("nearest", "linear", "cubic") if mode in operator), "")
    if "exact" in operator or mode == "nearest":
        place = "half_pixel" if "exact" in operator else "asymmetric"
    else:
        place = "align_corners" if given.get("align_corners") else "pytorch_half_pixel"
    attributes = {"mode": mode, "coordinate_transformation_mode": place, "nearest_mode": "floor"}
    graph.emit(node, "Resize", graph.tensors(node), attributes)


def _normalization(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    operator = graph.operator(node)
    shape = graph.shape(given["input"].name)
    inputs = [given["input"].name, *(given[part].name for part in ("weight", "bias") if given.get(part) is not None)]
    if "layer" in operator or "rms" in operator:
        kind = "RMSNormalization" if "rms" in operator else "LayerNormalization"
        graph.emit(node, kind, inputs, {"axis": len(shape) - len(given["normalized_shape"])})
    elif "group" in operator:
        groups = given.get("num_groups", given.get("group"))
        graph.emit(node, "GroupNormalization", inputs, {"num_groups": groups})
    else:
        if given.get("use_input_stats") is False:
            raise Unknown("its statistics are parameters")
        graph.emit(node, "InstanceNormalization", inputs)


def _batch_normalization(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    if given.get("training") or given.get("running_mean") is None:
        raise Unknown("it takes its statistics from the batch; call module.eval() first")
    mean, variance = (given[part].name for part in ("running_mean", "running_var"))
    scale, shift = (given[part].name if given.get(part) is not None else mean for part in ("weight", "bias"))
    graph.emit(node, "BatchNormalization", [given["input"].name, scale, shift, mean, variance])


def _matmul(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    graph.emit(node, "MatMul", graph.tensors(node))


def _linear(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    """By the transpose of the weight, which is stored as it is needed; a bias is added."""
    weight = given["weight"].name
    turned = graph.between(node, "transpose", graph.shape(weight)[::-1])
    graph.emit(node, "permute", [weight], {"perm": [1, 0]}, output=turned)
    _product_and_sum(graph, node, given["input"].name, turned, given.get("bias"))


def _addmm(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    left, right = (given[name].name for name in ("mat1", "mat2")) if "mat1" in given else graph.tensors(node)[1:3]
    _product_and_sum(graph, node, left, right, given["self"] if given.get("beta", 1) else None)


def _product_and_sum(graph: TorchGraph, node: TorchNode, left: str, right: str, bias: TorchNode | None) -> None:
    if bias is None:
        graph.emit(node, "MatMul", [left, right])
        return
    product = graph.between(node, "product", graph.shape(node.name))
    graph.emit(node, "MatMul", [left, right], output=product)
    graph.emit(node, "Add", [product, bias.name], suffix=".bias")


def _einsum(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    graph.emit(node, "Einsum", graph.tensors(node), {"equation": given["equation"]})


def _attention(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    """Scaled dot-product attention; a causal mask is aligned with the first key, as PyTorch has it."""
    names = [given[part].name for part in ("query", "key", "value")]
    shapes = [graph.shape(name) for name in names]
    causal = bool(given.get("is_causal"))
    if causal and shapes[0][-2] == 1 and shapes[1][-2] > 1:
        raise Unknown("a causal mask over one query and several keys leaves it the first key alone")
    mask = given.get("attn_mask", given.get("attn_bias"))
    inputs = list(names)
    if len(shapes[0]) == 3:
        for number, shape in enumerate(shapes):
            inputs[number] = graph.between(node, f"input{number}", (1, *shape))
            graph.emit(node, "Reshape", [names[number]], output=inputs[number])
    if mask is not None:
        inputs.append(mask.name)
    graph.emit(node, "Attention", inputs, {"is_causal": int(causal)})


def _top_k(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    graph.emit(node, "TopK", [given["self"].name], {"axis": given["dim"]}, parts=2)


_RECURRENT = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}


def _recurrent(graph: TorchGraph, node: TorchNode, given: Arguments) -> None:
    """Layers one after another, each an operator of ONNX; the last states of several layers are joined."""
    kind = _RECURRENT[graph.operator(node)]
    directions = 2 if given["bidirectional"] else 1
    by_layer = len(given["params"]) // given["num_layers"] // directions
    states = given["hx"] if isinstance(given["hx"], (list, tuple)) else [given["hx"]]
    if by_layer not in (2, 4) or not all(graph.is_constant(state.name) for state in states):
        raise Unknown("its weights are projected, or its initial state is computed")
    shape = graph.shape(given["input"].name)
    batch_first = bool(given["batch_first"])
    sequences, steps = (shape[0], shape[1]) if batch_first else (shape[1], shape[0])
    if len(shape) != 3 or sequences != 1:
        raise Unknown("only one sequence at a time is understood")
    value, width = given["input"].name, shape[2]
    hidden = graph.shape(given["params"][1].name)[1]
    last: list[list[str]] = [[], []]
    for layer in range(given["num_layers"]):
        columns = graph.shape(given["params"][1].name)[0]
        weights = [
            graph.between(node, f"{part}{layer}", (directions, columns, size))
            for part, size in (("weight", width), ("recurrence", hidden))
        ]
        bits = graph.bits_of(given["params"][0])
        for weight in weights:
            graph.constant(weight, graph.shape(weight), bits)
        inputs = [graph.between(node, f"steps{layer}", (steps, 1, width)), *weights]
        graph.emit(node, "Reshape", [value], output=inputs[0])
        if by_layer == 4:
            inputs.append(graph.between(node, f"bias{layer}", (directions, 2 * columns)))
            graph.constant(inputs[-1], (directions, 2 * columns), bits)
        outputs = [graph.between(node, f"layer{layer}", (steps, directions, 1, hidden))]
        outputs += [graph.between(node, f"{state}{layer}", (directions, 1, hidden)) for state in ("hidden", "cell")]
        direction = {"direction": "bidirectional" if directions == 2 else "forward"}
        graph.emit_parts(node, kind, inputs, direction, outputs[: 3 if kind == "LSTM" else 2], suffix=f".{layer}")
        turned = graph.between(node, f"turned{layer}", (steps, 1, directions, hidden))
        graph.emit(node, "permute", [outputs[0]], {"perm": [0, 2, 1, 3]}, output=turned)
        value, width = turned, directions * hidden
        for number in range(2):
            last[number].append(outputs[number + 1])
    graph.emit(node, "Reshape", [value], output=graph.part(node, 0))
    for number in range(2 if kind == "LSTM" else 1):
        if graph.is_used(node, number + 1):
            graph.emit(node, "Concat", last[number], {"axis": 0}, output=graph.part(node, number + 1))


TRANSLATIONS: dict[str, Translation] = {
    **VIEWS,
    **dict.fromkeys(CREATED.split(), _created),
    **dict.fromkeys(FUNCTIONS, _function),
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(("addcmul", "addcdiv"), _two_steps),
    "glu": _glu,
    **dict.fromkeys(("softmax", "_softmax", "log_softmax", "_log_softmax", "_safe_softmax"), _softmax),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution", "conv_transpose1d"), _convolution),
    **dict.fromkeys(("conv_transpose2d", "conv_transpose3d", "_convolution"), _convolution),
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool2d_with_indices", "avg_pool1d", "avg_pool2d"), _pool),
    **dict.fromkeys(
        (
            f"{prefix}adaptive_{kind}_pool{axes}"
            for prefix in ("", "_")
            for kind in ("avg", "max")
            for axes in ("1d", "2d")
        ),
        _adaptive_pool,
    ),
    **dict.fromkeys(
        ("upsample_nearest2d", "_upsample_nearest_exact2d", "upsample_bilinear2d", "upsample_bicubic2d"), _upsample
    ),
    **dict.fromkeys(("layer_norm", "native_layer_norm", "rms_norm", "_fused_rms_norm"), _normalization),
    **dict.fromkeys(("group_norm", "native_group_norm", "instance_norm"), _normalization),
    **dict.fromkeys(
        (
            "batch_norm",
            "native_batch_norm",
            "_native_batch_norm_legit",
            "_native_batch_norm_legit_functional",
            "_native_batch_norm_legit_no_training",
        ),
        _batch_normalization,
    ),
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot"), _matmul),
    "linear": _linear,
    **dict.fromkeys(("addmm", "baddbmm"), _addmm),
    "einsum": _einsum,
    "scaled_dot_product_attention": _attention,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "topk": _top_k,
    **dict.fromkeys(_RECURRENT, _recurrent),
}
