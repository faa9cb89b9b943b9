"""ONNX operators beyond those of classifiers: images, recurrences, attention, quantized numbers, selections."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from accelsim.errors import FormatError, UnsupportedOperator
from accelsim.workload.graph import Workload
from accelsim.workload.operator import ArrayWork, Operator
from accelsim.workload.operators import Conv2d, ConvTranspose2d, MatMul, Recurrent, Softmax
from accelsim.workload.tensor import Box, whole_box
from tests.unit.onnx_models import model, node, read_onnx, save


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read_model(*arguments: Any, bind: Any = None, **more: Any) -> Workload:
        return read_onnx(save(tmp_path, model(*arguments, **more)), bind=bind or {})

    return read_model


def kinds(workload: Workload) -> list[str]:
    return [operator.kind for operator in workload.operators]


def sources_of(operator: Operator, index: int, box: Box) -> list[tuple[str, Box]]:
    return list(operator.operands[index].source_boxes(operator.operand_box(index, box)))


def rows_behind(content: Any, shape: tuple[int, ...], row: int) -> set[int]:
    """The rows of input x on which a row of output y depends, found by computing it, for images of one column."""
    evaluator = ReferenceEvaluator(content)
    rows = set()
    before = evaluator.run(None, {"x": np.zeros(shape, np.float32)})[0][0, 0, row]
    for place in range(shape[2]):
        x = np.zeros(shape, np.float32)
        x[0, 0, place] = 1
        if not np.allclose(evaluator.run(None, {"x": x})[0][0, 0, row], before):
            rows.add(place)
    return rows


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 1]},
        {"strides": [2, 1], "pads": [1, 0, 2, 0], "output_padding": [1, 0]},
        {"strides": [3, 1], "dilations": [2, 1]},
        {"strides": [2, 1], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 1], "auto_pad": "SAME_LOWER"},
    ],
)
def test_transposed_convolutions_read_what_they_depend_on(read: Any, attributes: Any) -> None:
    arrays = {"w": np.ones((1, 1, 3, 1), np.float32)}
    arguments = ([node("ConvTranspose", "x w", "y", **attributes)], {"x": (1, 1, 5, 1)}, "y", None, arrays)
    (found,) = read(*arguments).operators
    assert isinstance(found, ConvTranspose2d)
    for row in range(found.output.shape[1]):
        needed = rows_behind(model(*arguments), (1, 1, 5, 1), row)
        low, high = found.operand_box(0, ((0, 1), (0, 1), (row, row + 1), (0, 1)))[2]
        assert not needed or (low, high) == (min(needed), max(needed) + 1)


@pytest.mark.parametrize(("mode", "cut"), [({}, 2), ({"auto_pad": "SAME_UPPER"}, 1), ({"auto_pad": "SAME_LOWER"}, 2)])
def test_a_transposed_convolution_of_a_wanted_shape(read: Any, mode: Any, cut: int) -> None:
    """5 rows give 11, of which 8 are wanted: the odd row is cut in front, but for SAME_UPPER (ONNX, ConvTranspose)."""
    attributes = {"strides": [2, 1], "output_shape": [8, 1], **mode}
    workload = read([node("ConvTranspose", "x w", "y", **attributes)], {"x": (1, 1, 5, 1)}, "y", {"w": (1, 1, 3, 1)})
    (found,) = workload.operators
    assert isinstance(found, ConvTranspose2d)
    assert (found.output.shape, found.padding) == ((1, 8, 1), (cut, 0))


def test_the_work_of_a_transposed_convolution(read: Any) -> None:
    """Each of 5 x 7 input points times 2 x 3 taps of each of 6 filters, over 4 channels in 2 groups of 2."""
    attributes = {"strides": [2, 3], "group": 2}
    nodes = [node("ConvTranspose", "x w b", "c", **attributes), node("Relu", "c", "y")]
    workload = read(nodes, {"x": (1, 4, 5, 7)}, "y", {"w": (4, 3, 2, 3), "b": (6,)})
    assert kinds(workload) == ["conv_transpose2d"]
    assert workload.macs == 5 * 7 * 2 * 3 * 6 * 2
    assert workload.weight_bytes == 4 * 3 * 2 * 3 + 6
    assert workload.operators[0].output.shape == (6, 10, 21)


@pytest.mark.parametrize("sizes", [(5, 7), (4, 10), (7, 3), (6, 1)])
@pytest.mark.parametrize("place", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize(
    "mode",
    [
        {"mode": "linear"},
        {"mode": "cubic"},
        {"mode": "nearest", "nearest_mode": "round_prefer_floor"},
        {"mode": "nearest", "nearest_mode": "round_prefer_ceil"},
        {"mode": "nearest", "nearest_mode": "floor"},
        {"mode": "nearest", "nearest_mode": "ceil"},
    ],
)
def test_resizing_reads_what_it_depends_on(read: Any, sizes: tuple[int, int], place: str, mode: Any) -> None:
    """All that it depends on, and no more than the neighbours whose weight happens to be zero."""
    resize = node("Resize", "x _ _ sizes", "y", coordinate_transformation_mode=place, **mode)
    arguments = ([resize], {"x": (1, 1, sizes[0], 1)}, "y", None, {"sizes": [1, 1, sizes[1], 1]})
    (found,) = read(*arguments).operators
    taps = {"nearest": 1, "linear": 2, "cubic": 4}[mode["mode"]]
    for row in range(sizes[1]):
        needed = rows_behind(model(*arguments), (1, 1, sizes[0], 1), row)
        low, high = found.operand_box(0, ((0, 1), (0, 1), (row, row + 1), (0, 1)))[2]
        assert needed <= set(range(low, high))
        assert high - low <= taps
    assert found.whole_work(1).operations == sizes[1] * (1 if taps == 1 else 2 * taps)


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        ("x roi scales", {"coordinate_transformation_mode": "tf_crop_and_resize"}),
        ("x _ scales", {"mode": "linear", "antialias": 1}),
    ],
)
def test_resizing_in_ways_that_are_not_understood(read: Any, inputs: str, attributes: Any) -> None:
    arrays = {"scales": [1.0, 1.0, 2.0, 2.0], "roi": [0.0] * 4 + [1.0] * 4}
    with pytest.raises(UnsupportedOperator, match=r"\(Resize\).*understood"):
        read([node("Resize", inputs, "y", **attributes)], {"x": (1, 2, 4, 4)}, "y", None, arrays, opset=18)


LSTM_WEIGHTS = {"w": (1, 20, 6), "r": (1, 20, 5), "b": (1, 40)}


@pytest.mark.parametrize(
    ("op", "gates", "operations"),
    # Functions, products and sums of Hochreiter and Schmidhuber (1997), Cho et al. (2014), Elman (1990).
    [("LSTM", 4, 9), ("GRU", 3, 8), ("RNN", 1, 1)],
)
def test_recurrent_layers(read: Any, op: str, gates: int, operations: int) -> None:
    weights = {"w": (1, gates * 5, 6), "r": (1, gates * 5, 5), "b": (1, gates * 10)}
    workload = read([node(op, "x w r b", "y", hidden_size=5)], {"x": (7, 1, 6)}, "y", weights)
    assert kinds(workload) == ["matmul", "recurrent", "elementwise"]
    assert workload.macs == 7 * gates * 5 * (6 + 5)
    assert workload.vector_ops == 7 * 5 * operations
    assert workload.weight_bytes == gates * 5 * (6 + 5 + 2)
    recurrence = workload.operators[1]
    assert isinstance(recurrence, Recurrent)
    work = recurrence.whole_work(1)
    assert (work.groups, work.rows, work.filters_per_group) == (7, 1, gates * 5)  # a product of one row for each step
    assert recurrence.tile_axes() == (1, None)


def test_states_of_a_bidirectional_lstm(read: Any) -> None:
    """The last step of the forward direction is step 6, that of the reverse one is step 0."""
    weights = {"w": (2, 20, 6), "r": (2, 20, 5)}
    nodes = [
        node("LSTM", "x w r _ _ h c", "a last cell", hidden_size=5, direction="bidirectional"),
        node("Exp", "last", "y"),
        node("Exp", "cell", "z"),
        node("Exp", "a", "v"),
    ]
    workload = read(nodes, {"x": (7, 1, 6), "h": (2, 1, 5), "c": (2, 1, 5)}, "y z v", weights)
    names = {operator.name: operator for operator in workload.operators}
    assert workload.macs == 2 * 7 * 20 * 11
    assert [box for _, box in sources_of(names["y"], 0, ((0, 1), (0, 2), (0, 1), (0, 5)))] == [
        ((0, 1), (6, 7), (0, 1), (0, 5)),
        ((0, 1), (0, 1), (0, 1), (0, 5)),
    ]
    reverse = names["a.reverse.recurrence"]
    assert isinstance(reverse, Recurrent) and reverse.reverse
    # Its step 3 needs steps 3 to 6 and the second half of the initial state.
    step = ((0, 1), (3, 4), (0, 1), (0, 20))
    assert reverse.operand_box(0, step) == ((0, 1), (3, 7), (0, 1), (0, 20))
    assert sources_of(reverse, 1, step) == [("h", ((0, 1), (1, 2), (0, 1), (0, 5)))]
    assert names["v"].output.shape == (7, 2, 1, 5)
    assert workload.vector_ops == 2 * (7 * 5 * 9 + 5) + 10 + 10 + 70


@pytest.mark.parametrize("outputs", ["_ y _", "_ _ y"])
def test_a_layer_of_which_only_the_last_state_is_wanted(read: Any, outputs: str) -> None:
    lstm = node("LSTM", "x w r b", outputs, hidden_size=5)
    lstm.output[:] = ["" if name == "_" else name for name in outputs.split()]
    workload = read([lstm], {"x": (7, 1, 6)}, "y", LSTM_WEIGHTS)
    assert workload.macs == 7 * 20 * 11
    assert workload.outputs == (("y",) if outputs == "_ y _" else ("y.cell",))


def test_recurrent_layers_that_do_not_fit(read: Any) -> None:
    with pytest.raises(FormatError, match=r"'y' \(LSTM\).*do not fit 4 gates of 5"):
        read([node("LSTM", "x w r", "y", hidden_size=5)], {"x": (7, 1, 9)}, "y", LSTM_WEIGHTS)
    with pytest.raises(UnsupportedOperator, match="its input 1 is not constant"):
        read([node("LSTM", "x v r", "y", hidden_size=5)], {"x": (7, 1, 6), "v": (1, 20, 6)}, "y", LSTM_WEIGHTS)


@pytest.mark.parametrize(
    ("left", "right", "macs", "box", "needed"),
    [
        # 3 heads with a matrix each; column 1 of head 2 and row 4 needs row 4 of head 2
        ((3, 6, 8), (3, 8, 5), 3 * 6 * 8 * 5, (11, 12), ((2, 3), (4, 5), (0, 8))),
        # all heads read the same rows
        ((6, 8), (3, 8, 5), 3 * 6 * 8 * 5, (11, 12), ((4, 5), (0, 8))),
    ],
)
def test_weights_of_several_heads(read: Any, left: Any, right: Any, macs: int, box: Any, needed: Any) -> None:
    workload = read([node("MatMul", "x w", "m"), node("Relu", "m", "y")], {"x": (1, *left)}, "y", {"w": right})
    (product,) = workload.operators
    assert isinstance(product, Conv2d)
    assert (workload.macs, workload.weight_bytes) == (macs, prod(right))
    assert sources_of(product, 0, ((0, 1), box, (4, 5), (0, 1))) == [("x", ((0, 1), *needed))]


def test_weights_on_the_left(read: Any) -> None:
    """Rows of the weights become filters; row 2 of sample 1, columns 3 and 4, needs these columns, all 6 rows."""
    workload = read([node("MatMul", "w x", "m"), node("Exp", "m", "y")], {"x": (1, 2, 6, 5)}, "y m", {"w": (4, 6)})
    product, reader = workload.operators
    assert workload.macs == 2 * 4 * 6 * 5 and workload.weight_bytes == 24
    ((name, box),) = sources_of(reader, 0, ((0, 1), (1, 2), (2, 3), (3, 5)))
    assert (name, box) == ("m", ((0, 1), (2, 3), (8, 10), (0, 1)))
    assert sources_of(product, 0, box) == [("x", ((0, 1), (1, 2), (0, 6), (3, 5)))]


@pytest.mark.parametrize(("shape", "output"), [((8,), (1, 6)), ((1, 8, 1), (1, 6, 1))])
def test_a_matrix_times_a_vector(read: Any, shape: Any, output: Any) -> None:
    workload = read([node("MatMul", "x v", "y")], {"x": (1, 6, 8), "v": shape}, "y")
    assert workload.macs == 6 * 8
    assert isinstance(workload.operators[0], MatMul)


def test_products_in_the_notation_of_einstein(read: Any) -> None:
    """Scores of 3 heads: position i of head h needs row i and, of the keys, all positions of head h."""
    einsum = node("Einsum", "q k", "s", equation="bihd, bjhd -> bhij")
    workload = read([einsum, node("Exp", "s", "y")], {"q": (1, 6, 3, 4), "k": (1, 7, 3, 4)}, "y s")
    product, reader = workload.operators
    assert workload.macs == 3 * 6 * 7 * 4
    ((name, box),) = sources_of(reader, 0, ((0, 1), (1, 2), (5, 6), (2, 3)))
    assert name == "s"
    assert sources_of(product, 0, box) == [("q", ((0, 1), (5, 6), (1, 2), (0, 4)))]
    assert sources_of(product, 1, box) == [("k", ((0, 1), (2, 3), (1, 2), (0, 4)))]
    weights = read([node("Einsum", "q w", "y", equation="bihd,hde->bie")], {"q": (1, 6, 3, 4)}, "y", {"w": (3, 4, 9)})
    assert (weights.macs, weights.weight_bytes) == (6 * 12 * 9, 108)
    with pytest.raises(UnsupportedOperator, match="summed over on its own"):
        read([node("Einsum", "q k", "y", equation="bihd,bjhd->bh")], {"q": (1, 6, 3, 4), "k": (1, 7, 3, 4)}, "y")
    with pytest.raises(UnsupportedOperator, match="only products of two"):
        read([node("Einsum", "q", "y", equation="bihd->bhid")], {"q": (1, 6, 3, 4)}, "y")


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("axes", [3, 4])
def test_attention(read: Any, groups: int, axes: int) -> None:
    """4 query heads of width 8 over 5 new positions; keys and values of width 8 and 6 by ``groups`` heads, 3 cached."""
    shapes = {"q": (4, 5, 8), "k": (groups, 5, 8), "v": (groups, 5, 6)}
    inputs = {name: (1, *shape) if axes == 4 else (1, shape[1], shape[0] * shape[2]) for name, shape in shapes.items()}
    inputs |= {"pk": (1, groups, 3, 8), "pv": (1, groups, 3, 6), "m": (5, 8)}
    heads = {"q_num_heads": 4, "kv_num_heads": groups} if axes == 3 else {}
    nodes = [node("Attention", "q k v m pk pv", "a k2 v2", **heads), node("Exp", "a", "y"), node("Exp", "k2", "z")]
    workload = read(nodes, inputs, "y z v2", opset=23)
    assert workload.macs == 4 * 5 * 8 * (8 + 6)
    assert workload.vector_ops == 160 + 5 * 160 + 4 * 5 * 6 + groups * 8 * 8
    assert workload.operator("z").output.shape == (groups, 8, 8)
    assert [one.name for one in workload.operators if isinstance(one, Softmax)] == ["a.softmax"]
    # Position 4 of the second key head comes from the second new position.
    ((name, box),) = sources_of(workload.operator("z"), 0, ((0, 1), (groups - 1, groups), (4, 5), (0, 8)))
    head = (groups - 1, groups) if axes == 4 else (8 * (groups - 1), 8 * groups)
    assert (name, box) == ("k", ((0, 1), head, (1, 2), (0, 8)) if axes == 4 else ((0, 1), (1, 2), head))


def test_causal_attention_computes_what_the_mask_keeps(read: Any) -> None:
    """Position i of 6 needs i + 1 positions: 21 pairs; with 4 cached ones before it 21 + 24."""
    inputs = dict.fromkeys("qkv", (1, 2, 6, 8))
    workload = read([node("Attention", "q k v", "y", is_causal=1, softcap=30.0)], inputs, "y", opset=23)
    assert workload.macs == 2 * 21 * 16
    assert workload.vector_ops == 3 * 2 * 36 + 5 * 2 * 21
    cached = inputs | {"pk": (1, 2, 4, 8), "pv": (1, 2, 4, 8)}
    workload = read([node("Attention", "q k v _ pk pv", "y k2 v2", is_causal=1)], cached, "y k2 v2", opset=23)
    assert workload.macs == 2 * 45 * 16


def test_a_window_of_attention(read: Any) -> None:
    """Position i of 6 needs itself and 2 before it: 1 + 2 + 3 + 3 + 3 + 3 pairs."""
    inputs = dict.fromkeys("qkv", (1, 2, 6, 8))
    attention = node("Attention", "q k v", "y", is_causal=1, left_window_size=2)
    assert read([attention], inputs, "y", opset=25).macs == 2 * 15 * 16
    with pytest.raises(UnsupportedOperator, match="window without a causal mask"):
        read([node("Attention", "q k v", "y", left_window_size=2)], inputs, "y", opset=25)
    with pytest.raises(UnsupportedOperator, match="lengths of its keys"):
        inputs |= {"n": (1,)}
        read([node("Attention", "q k v _ _ _ n", "y")], inputs, "y", opset=24, integers=["n"])


@pytest.mark.parametrize(("third", "operations"), [((5, 7), 35), ((5, 1), 35), ((7,), 0)])
@pytest.mark.parametrize("computed", [True, False])
def test_a_gemm_with_a_sum(read: Any, third: Any, operations: int, computed: bool) -> None:
    """A bias of one value a column is where accumulators start; anything else, or a computed one, is added and paid."""
    inputs, weights = {"x": (5, 6)}, {"w": (6, 7)}
    (inputs if computed else weights)["c"] = third
    workload = read([node("Gemm", "x w c", "y", name="g")], inputs, "y", weights)
    assert workload.macs == 5 * 6 * 7
    assert workload.vector_ops == (35 if computed else operations)
    assert workload.weight_bytes == 42 + (0 if computed else prod(third))


def test_normalizations_by_the_root_of_the_mean_square(read: Any) -> None:
    workload = read([node("RMSNormalization", "x s", "y")], {"x": (1, 5, 6)}, "y", {"s": (6,)}, opset=23)
    assert (workload.operators[0].output.shape, workload.vector_ops, workload.weight_bytes) == ((5, 6), 120, 6)
    lp = read([node("LpNormalization", "x", "y", axis=1)], {"x": (1, 5, 6)}, "y")
    assert (lp.operators[0].output.shape, lp.vector_ops) == ((1, 5, 6), 120)


def test_group_normalization(read: Any) -> None:
    group = node("GroupNormalization", "x s b", "y", num_groups=2)
    workload = read([group], {"x": (1, 6, 4, 4)}, "y", {"s": (6,), "b": (6,)}, opset=21)
    assert (workload.operators[0].output.shape, workload.vector_ops) == ((2, 48), 7 * 96)


def test_quantized_networks(read: Any) -> None:
    """Only the first quantization, of an input, and the last dequantization, of an output, stand on their own."""
    nodes = [
        node("QuantizeLinear", "x s", "q"),
        node("DequantizeLinear", "q s", "d"),
        node("DequantizeLinear", "w s", "dw"),
        node("Conv", "d dw", "c"),
        node("Relu", "c", "r"),
        node("QuantizeLinear", "r s", "q2"),
        node("DequantizeLinear", "q2 s", "y"),
    ]
    arrays = {"s": np.float32(0.5), "w": np.ones((6, 4, 1, 1), np.int8)}
    workload = read(nodes, {"x": (1, 4, 8, 8)}, "y", None, arrays)
    assert kinds(workload) == ["elementwise", "conv2d", "elementwise"]
    assert workload.vector_ops == 2 * 4 * 64 + 2 * 6 * 64
    assert (workload.macs, workload.weight_bytes) == (6 * 4 * 64, 24)


def test_quantized_products(read: Any) -> None:
    arrays = {"s": np.float32(0.5), "z": np.uint8(3), "w": np.ones((6, 4, 3, 3), np.uint8)}
    arrays |= {"b": np.ones(6, np.int32), "v": np.ones((64, 10), np.uint8)}
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("QLinearConv", "q s z w s z s z b", "c", pads=[1, 1, 1, 1]),
        node("Reshape", "c flat", "f"),
        node("QLinearMatMul", "f s z v s z s z", "m"),
        node("MatMulInteger", "m u", "i"),
        node("Cast", "i", "y", to=1),
    ]
    arrays |= {"flat": [1, 6, 64], "u": np.ones((10, 2), np.uint8)}
    workload = read(nodes, {"x": (1, 4, 8, 8)}, "y", None, arrays)
    assert workload.macs == 6 * 64 * 36 + 6 * 64 * 10 + 6 * 10 * 2
    assert workload.weight_bytes == 6 * 36 + 6 + 640 + 20


def test_dynamic_quantization_looks_at_everything_first(read: Any) -> None:
    nodes = [node("DynamicQuantizeLinear", "x", "q s z"), node("Cast", "q", "c", to=1), node("Mul", "c s", "y")]
    workload = read(nodes, {"x": (1, 5, 6)}, "y")
    quantize, scale = workload.operators
    assert quantize.operand_box(0, ((0, 1), (0, 1), (0, 1))) == whole_box(1, (5, 6))
    assert workload.vector_ops == 4 * 30 + 30
    assert [operand.shape for operand in scale.operands] == [(5, 6), ()]


@pytest.mark.parametrize(
    ("k", "operations"),
    # Of 8 in a row: one by one takes 8 comparisons each, a sort 8 * 3 in all.
    [(1, 32 * 8), (2, 32 * 2 * 8), (4, 32 * 4 * 6), (8, 32 * 8 * 3)],
)
def test_the_largest_k(read: Any, k: int, operations: int) -> None:
    workload = read([node("TopK", "x k", "y i")], {"x": (1, 4, 8, 8)}, "y", None, {"k": [k]}, integers=["i"])
    assert (workload.vector_ops, workload.operators[0].output.shape) == (operations, (4, 8, k))
    both = read([node("TopK", "x k", "y i")], {"x": (1, 4, 8, 8)}, "y i", None, {"k": [k]}, integers=["i"])
    assert both.vector_ops == operations + 32 * k
    assert both.operators[1].output.bits == 32


@pytest.mark.parametrize("op", ["NonMaxSuppression", "NonZero", "Unique", "Compress", "SequenceAt", "StringSplit"])
def test_operators_whose_output_depends_on_data_are_refused_by_name(op: str) -> None:
    from accelsim.formats.onnx.rules import REFUSED, RULES

    assert op in REFUSED and op not in RULES


@pytest.mark.parametrize(
    ("nodes", "elements"),
    [
        ([node("Tile", "x twice", "y")], 512),
        ([node("Slice", "x from to axes steps", "y")], 128),
        ([node("ScatterND", "x place new", "y")], 256),
        ([node("GatherElements", "x zeros", "y", axis=3)], 256),
        ([node("DepthToSpace", "x", "y", blocksize=2)], 256),
    ],
)
def test_data_that_is_moved_costs_an_operation_an_element(read: Any, nodes: Any, elements: int) -> None:
    arrays = {"twice": [1, 2, 1, 1], "from": [0], "to": [8], "axes": [2], "steps": [2]}
    arrays |= {"place": [[0, 1]], "zeros": np.zeros((1, 4, 8, 8), np.int64), "new": np.ones((1, 8, 8), np.float32)}
    workload = read(nodes, {"x": (1, 4, 8, 8)}, "y", None, arrays)
    assert (kinds(workload), workload.vector_ops) == (["move"], elements)


def test_scans_along_an_axis(read: Any) -> None:
    """Each element needs its row, whatever the tile; along the samples, of which there is one, nothing is done."""
    inputs, arrays = {"x": (1, 6, 8)}, {"last": -1, "first": 0}
    workload = read([node("CumSum", "x last", "y")], inputs, "y", None, arrays)
    assert workload.vector_ops == 48
    assert workload.operators[0].operand_box(0, ((0, 1), (2, 3), (5, 6))) == ((0, 1), (2, 3), (0, 8))
    nothing = read([node("CumSum", "x first", "c"), node("Exp", "c", "y")], inputs, "y", None, arrays)
    assert kinds(nothing) == ["elementwise"]
    assert read([node("Hardmax", "x", "y")], inputs, "y").vector_ops == 2 * 48
    with pytest.raises(UnsupportedOperator, match="its axis is not known"):
        read([node("CumSum", "x a", "y")], inputs | {"a": ()}, "y", integers=["a"])


def test_normalization_of_images_without_parameters(read: Any) -> None:
    """Sum, subtract, square, sum, scale: 5 operations an element, over all rows and columns of a channel."""
    workload = read([node("MeanVarianceNormalization", "x", "y")], {"x": (1, 3, 4, 5)}, "y")
    assert workload.vector_ops == 5 * 60
    block = ((0, 1), (1, 2), (0, 1), (0, 1))
    assert workload.operators[0].operand_box(0, block) == ((0, 1), (1, 2), (0, 4), (0, 5))


@pytest.mark.parametrize(("mode", "operations"), [("nearest", 1), ("linear", 8), ("cubic", 32)])
def test_sampling_at_computed_places(read: Any, mode: str, operations: int) -> None:
    """7 x 9 places in an image of 3 channels: two operations for each of 1, 4 or 16 neighbours, 1 for a copy."""
    sample = node("GridSample", "x grid", "y", mode=mode)
    workload = read([sample], {"x": (1, 3, 4, 5), "grid": (1, 7, 9, 2)}, "y", opset=20)
    assert workload.vector_ops == 3 * 7 * 9 * operations
    assert workload.operators[0].output.shape == (3, 7, 9)


def test_macs_are_the_same_for_every_way_to_cut_the_work(read: Any) -> None:
    workload = read([node("ConvTranspose", "x w", "y", strides=[2, 2])], {"x": (1, 4, 5, 5)}, "y", {"w": (4, 3, 3, 3)})
    (found,) = workload.operators
    parts = [((0, 1), (0, 3), (row, row + 1), (0, 11)) for row in range(11)]
    works = [found.work(part) for part in parts]
    assert all(isinstance(work, ArrayWork) for work in works)
    # Rows 1, 3, … have one tap, rows 2, 4, … two, also where the input ends: 17 in each axis.
    assert workload.macs == sum(work.macs for work in works) == 17 * 17 * 4 * 3
