"""What each ONNX operator becomes, on small models. Expected figures are written out beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from accelsim.errors import UnsupportedOperator, WorkloadError
from accelsim.workload.graph import Workload
from accelsim.workload.operator import Source
from accelsim.workload.operators import Conv2d, Embedding, MatMul, Pool
from accelsim.workload.tensor import Reshape, Slice, whole_box
from tests.unit.onnx_models import model, node, read_onnx, save

IMAGE = {"x": (1, 4, 8, 8)}


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read_model(*arguments: Any, allow_unsupported: bool = False, **more: Any) -> Workload:
        return read_onnx(save(tmp_path, model(*arguments, **more)), allow_unsupported=allow_unsupported)

    return read_model


def names(workload: Workload) -> list[str]:
    return [operator.name for operator in workload.operators]


@pytest.mark.parametrize(
    ("attributes", "weight", "output", "padding", "macs"),
    [
        ({}, (6, 4, 3, 3), (6, 6, 6), (0, 0), 6 * 36 * 36),
        ({"pads": [1, 2, 1, 0], "strides": [2, 1]}, (6, 4, 3, 3), (6, 4, 8), (1, 2), 6 * 32 * 36),
        ({"group": 2, "dilations": [2, 3]}, (6, 2, 3, 3), (6, 4, 2), (0, 0), 6 * 8 * 18),
        ({"group": 4}, (4, 1, 3, 3), (4, 6, 6), (0, 0), 4 * 36 * 9),
        ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, (6, 4, 3, 3), (6, 4, 4), (0, 0), 6 * 16 * 36),
        ({"auto_pad": "SAME_LOWER", "strides": [2, 2]}, (6, 4, 3, 3), (6, 4, 4), (1, 1), 6 * 16 * 36),
        ({"auto_pad": "VALID"}, (6, 4, 5, 3), (6, 4, 6), (0, 0), 6 * 24 * 60),
    ],
)
def test_convolutions(read: Any, attributes: Any, weight: Any, output: Any, padding: Any, macs: int) -> None:
    workload = read([node("Conv", "x w b", "y", **attributes)], IMAGE, "y", {"w": weight, "b": weight[:1]})
    (conv,) = workload.operators
    assert isinstance(conv, Conv2d)
    assert (conv.output.shape, conv.padding, workload.macs) == (output, padding, macs)
    assert [tensor.shape for tensor in conv.weights] == [weight, weight[:1]]


def test_a_convolution_over_one_axis_has_one_row(read: Any) -> None:
    workload = read([node("Conv", "x w", "y", pads=[1, 1])], {"x": (1, 4, 9)}, "y", {"w": (6, 4, 3)})
    (conv,) = workload.operators
    assert (conv.output.shape, conv.kernel, conv.padding) == ((6, 1, 9), (1, 3), (0, 1))
    assert workload.macs == 6 * 9 * 12


def test_a_pad_is_left_to_the_window_that_alone_reads_it(read: Any) -> None:
    pad, conv = node("Pad", "x pads", "p"), node("Conv", "p w", "y", pads=[1, 0, 0, 0])
    arrays = {"pads": [0, 0, 2, 1, 0, 0, 3, 4]}
    workload = read([pad, conv], IMAGE, "y", {"w": (2, 4, 3, 3)}, arrays)
    (found,) = workload.operators
    assert isinstance(found, Conv2d)
    assert (found.padding, found.output.shape, found.operands[0].shape) == ((3, 1), (2, 12, 11), (4, 8, 8))
    twice = read([pad, conv], IMAGE, "y p", {"w": (2, 4, 3, 3)}, arrays)
    assert [operator.kind for operator in twice.operators] == ["move", "conv2d"]
    assert twice.vector_ops == 4 * 13 * 13


def test_normalization_scale_and_activation_are_folded_into_a_convolution(read: Any) -> None:
    nodes = [
        node("Conv", "x w", "c"),
        node("BatchNormalization", "c s b m v", "n"),
        node("Mul", "n k", "o"),
        node("Add", "o k", "p"),
        node("Relu", "p", "y"),
    ]
    weights = {"w": (6, 4, 1, 1), "s": (6,), "b": (6,), "m": (6,), "v": (6,), "k": (6, 1, 1)}
    workload = read(nodes, IMAGE, "y", weights)
    assert names(workload) == ["c"] and workload.outputs == ("c",)
    assert workload.weight_bytes == 6 * 4 + 6


def test_what_others_read_too_is_not_folded_away(read: Any) -> None:
    nodes = [node("Conv", "x w", "c"), node("BatchNormalization", "c s b m v", "n"), node("Relu", "n", "y")]
    weights = {"w": (6, 4, 1, 1), "s": (6,), "b": (6,), "m": (6,), "v": (6,)}
    workload = read(nodes, IMAGE, "y c", weights)
    assert names(workload) == ["c", "n"]
    assert workload.vector_ops == 2 * 6 * 64  # the ReLU is the output stage of the scale and shift
    assert workload.outputs == ("n", "c")


def test_a_scale_after_an_activation_is_not_folded(read: Any) -> None:
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "r"), node("Mul", "r k", "y")]
    workload = read(nodes, IMAGE, "y", {"w": (6, 4, 1, 1), "k": (6, 1, 1)})
    assert names(workload) == ["c", "y"]
    assert workload.operators[1].weight_bytes == 6


def test_a_scale_that_is_not_by_channel_is_not_folded(read: Any) -> None:
    nodes = [node("Conv", "x w", "c"), node("Mul", "c k", "y")]
    assert names(read(nodes, IMAGE, "y", {"w": (6, 4, 1, 1), "k": (8,)})) == ["c", "y"]


def test_an_identity_does_not_hide_a_second_reader(read: Any) -> None:
    nodes = [node("Conv", "x w", "c"), node("Identity", "c", "i"), node("Relu", "i", "r"), node("Add", "r c", "y")]
    assert names(read(nodes, IMAGE, "y", {"w": (4, 4, 1, 1)})) == ["c", "r", "y"]


def test_an_activation_on_its_own_costs_an_operation_an_element(read: Any) -> None:
    assert read([node("Sigmoid", "x", "y")], IMAGE, "y").vector_ops == 4 * 64


@pytest.mark.parametrize(
    ("op", "inputs", "operations"),
    [("Add", "x x", 256), ("Sum", "x x x", 512), ("Max", "x x x x", 768), ("Where", "m x x", 256), ("Pow", "x x", 256)],
)
def test_elementwise_operators_cost_one_operation_an_operand_after_the_first(
    read: Any, op: str, inputs: str, operations: int
) -> None:
    nodes = [node("Greater", "x x", "m")] if op == "Where" else []
    workload = read([*nodes, node(op, inputs, "y")], IMAGE, "y")
    assert workload.vector_ops == operations + 256 * len(nodes)


def test_pools_with_ceil_mode_and_uneven_padding(read: Any) -> None:
    pool = node("MaxPool", "x", "y", kernel_shape=[3, 3], strides=[2, 2], pads=[0, 1, 1, 0], ceil_mode=1)
    (found,) = read([pool], IMAGE, "y").operators
    assert isinstance(found, Pool)
    assert (found.output.shape, found.padding) == ((4, 4, 4), (0, 1))
    assert found.operand_box(0, ((0, 1), (0, 4), (3, 4), (0, 1))) == ((0, 1), (0, 4), (6, 8), (0, 2))


@pytest.mark.parametrize(
    ("reduce", "output", "operations"),
    [
        (node("GlobalAveragePool", "x", "y"), (4, 1, 1), 256),
        (node("ReduceMean", "x", "y", axes=[2, 3]), (4, 1, 1), 256),
        (node("ReduceMean", "x", "y", axes=[1], keepdims=0), (1, 8, 8), 256),
        (node("ArgMax", "x", "y", axis=-1), (4, 8, 1), 256),
        (node("ReduceMax", "x", "y"), (1, 1, 1), 256),
        (node("ReduceMean", "x", "y", axes=[1, 3]), (1, 8, 1), 256),
        (node("ReduceL2", "x", "y", axes=[-1]), (4, 8, 1), 512),
    ],
)
def test_reductions_read_every_element_once(read: Any, reduce: Any, output: Any, operations: int) -> None:
    workload = read([reduce], IMAGE, "y", integers=["y"] if reduce.op_type == "ArgMax" else [])
    assert workload.operators[0].output.shape == output
    assert workload.vector_ops == operations


def test_gemm_and_matmul(read: Any) -> None:
    nodes = [
        node("Flatten", "x", "f"),
        node("Gemm", "f w b", "g", transB=1),
        node("Relu", "g", "r"),
        node("MatMul", "r v", "m"),
        node("Add", "m c", "y"),
    ]
    workload = read(nodes, IMAGE, "y", {"w": (10, 256), "b": (10,), "v": (10, 3), "c": (3,)})
    assert names(workload) == ["g", "m"]
    assert workload.macs == 2560 + 30
    assert workload.weight_bytes == 2560 + 10 + 30 + 3
    assert workload.operators[0].operands[0].sources == (Source("x", (Reshape((4, 8, 8), (256,)),)),)
    assert [tensor.shape for tensor in workload.operators[0].weights] == [(256, 10), (10,)]


def test_attention_with_heads(read: Any) -> None:
    """8 positions of 12 features in 3 heads of 4: query times keys and scores times values take 8 * 8 * 12 each."""
    nodes = [
        *(node("MatMul", f"x w{n}", f"p{n}") for n in "qkv"),
        *(node("Reshape", f"p{n} heads", f"h{n}") for n in "qkv"),
        *(node("Transpose", f"h{n}", f"t{n}", perm=[0, 2, 3, 1] if n == "k" else [0, 2, 1, 3]) for n in "qkv"),
        node("MatMul", "tq tk", "s"),
        node("Div", "s root", "d"),
        node("Softmax", "d", "a", axis=-1),
        node("MatMul", "a tv", "o"),
        node("Transpose", "o", "u", perm=[0, 2, 1, 3]),
        node("Reshape", "u flat", "y"),
    ]
    arrays = {"heads": [1, 8, 3, 4], "flat": [1, 8, 12], "root": 2.0}
    workload = read(nodes, {"x": (1, 8, 12)}, "y", {f"w{n}": (12, 12) for n in "qkv"}, arrays)
    assert workload.macs == 3 * 8 * 12 * 12 + 2 * 8 * 8 * 12
    scores = workload.operator("s")
    assert isinstance(scores, MatMul)
    assert [operand.shape for operand in scores.operands] == [(3, 8, 4), (3, 4, 8)]
    assert workload.vector_ops == 4 * 96 + 3 * 64 + 5 * 3 * 64
    assert workload.outputs == ("u",)


def test_a_gemm_of_two_results_transposes_and_pays(read: Any) -> None:
    workload = read([node("Gemm", "a b", "y", transB=1)], {"a": (6, 4), "b": (6, 4)}, "y")
    assert names(workload) == ["y.transpose", "y"]
    # The leading dimension of 6 is no batch: the output has 36 elements, not 6 times those of one sample.
    assert (workload.batch, workload.macs, workload.vector_ops) == (1, 6 * 6 * 4, 24)


def test_concatenations_slices_and_splits_are_free(read: Any) -> None:
    nodes = [
        node("Conv", "x w", "a"),
        node("Split", "a", "b c", axis=1, num_outputs=2),
        node("Concat", "c x b", "d", axis=1),
        node("Slice", "d from to axes", "e"),
        node("Relu", "e", "y"),
    ]
    arrays = {"from": [1, 2], "to": [6, 1000], "axes": [1, -1]}
    workload = read(nodes, IMAGE, "y", {"w": (4, 4, 1, 1)}, arrays, opset=18)
    assert names(workload) == ["a", "y"]
    # d is channels 2, 3 of a; 0 to 3 of x; 0, 1 of a. e is its channels 1 to 5, and the columns from 2 on.
    boxes = list(workload.operators[1].operands[0].source_boxes(whole_box(1, (5, 8, 6))))
    assert boxes == [
        ("a", ((0, 1), (3, 4), (0, 8), (2, 8))),
        ("x", ((0, 1), (0, 4), (0, 8), (2, 8))),
    ]


def test_a_reshape_across_a_concatenation_is_paid_for(read: Any) -> None:
    nodes = [node("Concat", "x x", "c", axis=2), node("Reshape", "c flat", "f"), node("Relu", "f", "y")]
    workload = read(nodes, {"x": (1, 2, 3)}, "y", None, {"flat": [1, 12]})
    assert names(workload) == ["f.join", "y"]
    assert workload.vector_ops == 24


@pytest.mark.parametrize(("permutation", "operators"), [([0, 2, 3, 1], 1), ([1, 0, 2, 3], 0), ([1, 2, 0, 3], 0)])
def test_a_transpose_is_free_where_only_axes_of_one_move(read: Any, permutation: list[int], operators: int) -> None:
    workload = read([node("Transpose", "x", "t", perm=permutation), node("Exp", "t", "y")], IMAGE, "y")
    assert len(workload.operators) == operators + 1


def test_embeddings_load_only_the_rows_that_they_gather(read: Any) -> None:
    workload = read([node("Gather", "table ids", "y")], {"ids": (1, 7)}, "y", {"table": (50000, 16)}, integers=["ids"])
    (embedding,) = workload.operators
    assert isinstance(embedding, Embedding)
    assert embedding.table.shape == (50000, 16)
    assert (embedding.weight_bytes, workload.vector_ops) == (0, 112)
    assert {tensor.name: (tensor.shape, tensor.sample_bytes) for tensor in workload.inputs} == {
        "ids": ((7,), 28),
        "y.rows": ((7, 16), 112),
    }


def test_gathering_a_range_is_a_slice_and_other_indices_are_moved(read: Any) -> None:
    free = read([node("Gather", "x i", "g", axis=1), node("Relu", "g", "y")], IMAGE, "y", None, {"i": 2})
    assert free.operators[0].operands[0].sources == (Source("x", (Slice((2, 0, 0)), Reshape((1, 8, 8), (8, 8)))),)
    moved = read([node("Gather", "x i", "y", axis=1)], IMAGE, "y", None, {"i": [0, 2]})
    assert (moved.operators[0].kind, moved.vector_ops) == ("move", 128)


def test_softmax_before_and_since_operator_set_13(read: Any) -> None:
    assert read([node("Softmax", "x", "y", axis=1)], IMAGE, "y", opset=11).operators[0].output.shape == (1, 256, 1)
    new = read([node("Softmax", "x", "y", axis=1)], IMAGE, "y", opset=13).operators[0]
    assert (new.output.shape, new.axis) == ((4, 8, 8), 0)


def test_normalizations_of_rows(read: Any) -> None:
    layer = read([node("LayerNormalization", "x s b", "y")], {"x": (1, 5, 6)}, "y", {"s": (6,), "b": (6,)})
    assert (layer.operators[0].output.shape, layer.vector_ops, layer.weight_bytes) == ((5, 6), 210, 12)
    instance = read([node("InstanceNormalization", "x s b", "y")], IMAGE, "y", {"s": (4,), "b": (4,)})
    assert instance.operators[0].output.shape == (4, 64)


def test_nearest_neighbours_by_whole_factors(read: Any) -> None:
    resize = node("Resize", "x _ scales", "y", mode="nearest")
    (found,) = read([resize], IMAGE, "y", None, {"scales": [1.0, 1.0, 2.0, 3.0]}).operators
    assert (found.kind, found.output.shape) == ("upsample", (4, 16, 24))


def test_shape_arithmetic_costs_nothing(read: Any) -> None:
    """What exporters write for a flatten: sizes taken from the shape at run time, here with a division in between."""
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s one", "c"),
        node("Gather", "s two", "r"),
        node("Mul", "c r", "cr"),
        node("Mul", "cr two", "double"),
        node("Div", "double two", "half"),
        node("Unsqueeze", "half zero", "u"),
        node("Concat", "minus u", "target", axis=0),
        node("Reshape", "x target", "f"),
        node("MatMul", "f w", "y"),
    ]
    arrays = {"one": 1, "two": 2, "zero": [0], "minus": [-1]}
    workload = read(nodes, IMAGE, "y", {"w": (32, 5)}, arrays)
    assert names(workload) == ["y"]
    assert workload.macs == 256 * 5


def test_a_constant_subgraph_costs_nothing_and_leaves_its_shape(read: Any) -> None:
    nodes = [node("Transpose", "w", "t", perm=[1, 0, 2, 3]), node("Sqrt", "t", "q"), node("Conv", "x q", "y")]
    workload = read(nodes, IMAGE, "y", {"w": (4, 6, 1, 1)})
    assert names(workload) == ["y"]
    assert workload.weight_bytes == 24


def test_free_and_fixed_batches(read: Any) -> None:
    nodes, weights = [node("Conv", "x w", "y")], {"w": (6, 4, 1, 1)}
    free = read(nodes, {"x": ("N", 4, 8, 8)}, "y", weights)
    assert free.batch == 1 and "'N' of input 'x' is bound to 1" in free.notes[1]
    fixed = read(nodes, {"x": (5, 4, 8, 8)}, "y", weights)
    assert (fixed.batch, fixed.macs) == (5, 5 * free.macs)
    assert fixed.operators[0].output.shape == free.operators[0].output.shape == (6, 8, 8)


def test_a_leading_dimension_that_is_no_batch_stays(read: Any) -> None:
    """Scores of 6 positions with each other are 36; taken as 6 samples they would be 6."""
    nodes = [node("Transpose", "x", "t", perm=[1, 0]), node("MatMul", "x t", "y")]
    workload = read(nodes, {"x": (6, 4)}, "y")
    assert (workload.batch, workload.macs) == (1, 6 * 6 * 4)
    assert "part of the sample" in workload.notes[1]


def test_a_batch_that_cannot_be_taken_apart_is_refused(read: Any) -> None:
    nodes = [node("Conv", "x w", "c"), node("Reshape", "c r", "y")]
    with pytest.raises(UnsupportedOperator, match="leading batch of 1"):
        read(nodes, {"x": (2, 4, 8, 8)}, "y", {"w": (6, 4, 1, 1)}, {"r": [2, 384]})


def test_nodes_that_lead_nowhere_are_left_out_with_a_note(read: Any) -> None:
    workload = read([node("Relu", "x", "y"), node("Exp", "x", "z")], IMAGE, "y")
    assert names(workload) == ["y"]
    assert "1 nodes lead to no output" in workload.notes[1]


def test_what_is_not_understood_is_refused_or_counted_as_moved(read: Any) -> None:
    arguments = ([node("Relu", "x", "r"), node("Det", "r", "y")], IMAGE, "y")
    with pytest.raises(UnsupportedOperator, match=r"node 'y' \(Det\) of shapes \[1, 4, 8, 8\] -> "):
        read(*arguments)
    workload = read(*arguments, allow_unsupported=True)
    assert [operator.kind for operator in workload.operators] == ["elementwise", "move"]
    assert "counted as moved data" in workload.notes[-1] and "Det" in workload.notes[-1]


@pytest.mark.parametrize("domain", ["", "com.example"])
def test_an_unknown_operator_has_the_shape_that_the_file_claims(read: Any, tmp_path: Path, domain: str) -> None:
    unknown = node("Frobnicate", "x", "m", domain=domain)
    with pytest.raises(WorkloadError, match=r"'m' \(Frobnicate\).*cannot be inferred"):
        read([unknown, node("Relu", "m", "y")], IMAGE, "y", allow_unsupported=True)
    claimed = model([unknown], IMAGE, "m")
    claimed.graph.output[0].type.tensor_type.shape.dim.add(dim_value=9)
    with pytest.raises(UnsupportedOperator, match=r"'m' \(Frobnicate\) of shapes \[1, 4, 8, 8\] -> \[9\]: no rule"):
        read_onnx(save(tmp_path, claimed))
    (move,) = read_onnx(save(tmp_path, claimed), allow_unsupported=True).operators
    assert (move.kind, move.output.shape) == ("move", (9,))


def test_outputs_beyond_the_first_are_refused_where_they_are_used(read: Any) -> None:
    pool = node("MaxPool", "x", "y indices", kernel_shape=[2, 2])
    assert names(read([pool], IMAGE, "y")) == ["y"]
    with pytest.raises(UnsupportedOperator, match="more than its first output"):
        read([pool], IMAGE, "y indices", integers=["indices"])
    workload = read([pool], IMAGE, "y indices", integers=["indices"], allow_unsupported=True)
    assert [operator.kind for operator in workload.operators] == ["move", "move"]


def test_names_are_kept_as_text_and_made_unique(read: Any) -> None:
    strange = "<script>alert(1)</script>\x07"
    nodes = [node("Relu", "x", "a", name=strange), node("Exp", "a", "b", name=strange), node("Exp", "b", "y", name="x")]
    shown = "<script>alert(1)</script>\N{REPLACEMENT CHARACTER}"  # a bell would ring in a terminal
    assert names(read(nodes, IMAGE, "y")) == [shown, f"{shown}_2", "x_2"]
