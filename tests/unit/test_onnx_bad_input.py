"""Files that are no ONNX models, or bad ones: each a clear error, none a crash."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto

from accelsim.errors import FormatError, InputError, WorkloadError
from tests.unit.onnx_models import model, node, read_onnx, save

IMAGE = {"x": (1, 4, 8, 8)}
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def good() -> onnx.ModelProto:
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "r"), node("Reshape", "r target", "y")]
    return model(nodes, IMAGE, "y", {"w": (6, 4, 3, 3)}, {"target": [1, -1]})


def refused(path: Path, message: str, kind: type[InputError] = FormatError) -> None:
    with pytest.raises(kind, match=message) as caught:
        read_onnx(path)
    assert str(path) in str(caught.value)


def test_the_model_that_these_tests_break_is_good(tmp_path: Path) -> None:
    assert read_onnx(save(tmp_path, good())).macs == 6 * 36 * 36


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"not a model at all", "not an ONNX model, or cut short"),
        (b"\x89PNG\r\n\x1a\n", "not an ONNX model, or cut short"),
        (b"\x08\x07", "no graph with nodes"),
        (onnx.ModelProto(ir_version=8).SerializeToString(), "no graph with nodes"),
        (good().SerializeToString()[:-20], "not an ONNX model, or cut short"),
    ],
)
def test_files_that_are_no_models(tmp_path: Path, content: bytes, message: str) -> None:
    refused(save(tmp_path, content), message)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    refused(tmp_path, "cannot be read: Is a directory")
    refused(tmp_path / "missing.onnx", "cannot be read: No such file")


@pytest.mark.parametrize(
    "place", ["/etc/passwd", "../weights.bin", "a/../../b", "C:\\weights.bin", "..\\w", "\\\\host\\w"]
)
@pytest.mark.parametrize("where", ["initializer", "attribute", "subgraph"])
def test_external_data_outside_the_folder_are_refused(tmp_path: Path, place: str, where: str) -> None:
    broken = good()
    tensor = TensorProto(name="t", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=place)
    if where == "initializer":
        broken.graph.initializer.append(tensor)
    elif where == "attribute":
        broken.graph.node.append(node("Constant", "", "k", value=tensor))
    else:
        inner = onnx.helper.make_graph([], "inner", [], [], [tensor])
        broken.graph.node.append(node("If", "x", "k", then_branch=inner, else_branch=inner))
    refused(save(tmp_path, broken), "outside the folder of the model")


def test_external_data_are_never_opened(tmp_path: Path) -> None:
    """The weights of the good model are in a file that does not exist; a pipe there would block a reader."""
    path = save(tmp_path, good())
    os.mkfifo(tmp_path / "weights.bin")
    assert read_onnx(path).weight_bytes == 6 * 4 * 9


def graph_of(*nodes: onnx.NodeProto, **more: Any) -> onnx.ModelProto:
    return model(list(nodes), IMAGE, "y", **more)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (graph_of(node("Relu", "b", "a"), node("Relu", "a", "b"), node("Relu", "a", "y")), "topologically sorted"),
        (graph_of(node("Relu", "x", "a"), node("Exp", "x", "a"), node("Relu", "a", "y")), "SSA|unique|already"),
        (graph_of(node("Conv", "x", "y")), "Conv.* has input size 1 not in range"),
        (graph_of(node("Relu", "x x", "y")), "Relu.* has input size 2 not in range"),
        (
            graph_of(node("Conv", "x w", "y", strides=[1]), weights={"w": (6, 4, 3, 3)}),
            "Attribute strides has incorrect",
        ),
        (graph_of(node("Conv", "x w", "y", auto_pad="NONE"), weights={"w": (6, 4, 3, 3)}), "'auto_pad' is 'NONE'"),
        (graph_of(node("Conv", "x w", "y", kernel_shape=[2, 2]), weights={"w": (6, 4, 3, 3)}), r"a kernel of \[2, 2\]"),
        (graph_of(node("Conv", "x w", "y"), weights={"w": (6, -4, 3, 3)}), "cannot be negative"),
        (graph_of(node("Conv", "x w", "y"), weights={"w": (6, 3, 3, 3)}), "do not turn 4 channels"),
        (graph_of(node("Conv", "x w", "y", group=3), weights={"w": (6, 4, 3, 3)}), "do not turn 4 channels"),
        (graph_of(node("Conv", "x w", "y", strides=[0, 1]), weights={"w": (6, 4, 3, 3)}), r"'y' \(Conv\)"),
        (graph_of(node("Relu", "x", "z")), "output 'y' is not an output of any node"),
        (graph_of(node("Transpose", "x", "y", perm=[0, 1, 1, 2])), r"'y' \(Transpose\).*perm"),
        (graph_of(node("Softmax", "x", "y", axis=7)), r"'y' \(Softmax\).*axis"),
        (graph_of(node("Concat", "x x", "y", axis=9)), r"'y' \(Concat\).*axis"),
        (graph_of(node("Relu", "w", "y"), weights={"w": (3,)}), "computes nothing"),
    ],
)
def test_graphs_that_contradict_themselves(tmp_path: Path, broken: onnx.ModelProto, message: str) -> None:
    refused(save(tmp_path, broken), message, InputError)


def test_a_large_tensor_is_no_trouble_and_an_absurd_one_is_refused(tmp_path: Path) -> None:
    large = model([node("MatMul", "x w", "y")], {"x": (1, 100_000)}, "y", {"w": (100_000, 100_000)})
    assert read_onnx(save(tmp_path, large)).weight_bytes == 10**10
    absurd = model([node("MatMul", "x w", "y")], {"x": (1, 1 << 30)}, "y", {"w": (1 << 30, 1 << 30)})
    refused(save(tmp_path, absurd), "is a size wrong", WorkloadError)
    folded = [node("ConstantOfShape", "s", "w"), node("MatMul", "x w", "y")]
    nodes_only = model(folded, {"x": (1, 100_000)}, "y", None, {"s": [100_000, 100_000]})
    assert read_onnx(save(tmp_path, nodes_only)).weight_bytes == 10**10


def test_a_small_constant_that_is_cut_short(tmp_path: Path) -> None:
    broken = good()
    broken.graph.initializer[0].raw_data = broken.graph.initializer[0].raw_data[:-1]
    refused(save(tmp_path, broken), "not a valid ONNX model")


@pytest.mark.parametrize(
    ("sizes", "message"), [((1, 4, 0, 8), "size 0 along axis 2"), ((1, 4, -8, 8), "size -8 along")]
)
def test_inputs_without_elements(tmp_path: Path, sizes: tuple[int, ...], message: str) -> None:
    broken = good()
    for dim, size in zip(broken.graph.input[0].type.tensor_type.shape.dim, sizes, strict=True):
        dim.dim_value = size
    refused(save(tmp_path, broken), message)


def test_a_free_dimension_is_named_with_the_node_that_it_leaves_open(tmp_path: Path) -> None:
    nodes = [node("Conv", "x w", "y", name="first")]
    broken = model(nodes, {"x": (1, 4, "height", 8)}, "y", {"w": (6, 4, 1, 1)})
    refused(save(tmp_path, broken), r"node 'first' \(Conv\), output 'y': .*free dimension", WorkloadError)
    relu = model([node("Relu", "x", "y")], {"x": (1, "height")}, "y")
    refused(save(tmp_path, relu), r"\(Relu\).*free dimension 'height'", WorkloadError)


@pytest.mark.parametrize("through", ["", "Concat"])
def test_a_list_of_sizes_that_claims_to_be_endless(tmp_path: Path, through: str) -> None:
    """Found by mutating files: for each size that is claimed, shape inference takes memory."""
    nodes = [node("Concat", "sizes sizes", "both", axis=0)] if through else []
    nodes.append(node("Expand", "x both" if through else "x sizes", "y"))
    broken = model(nodes, IMAGE, "y", {"sizes": (1 << 31,)})
    refused(save(tmp_path, broken), "'sizes', which claims 2147483648 elements")


def test_a_split_with_more_outputs_than_it_says(tmp_path: Path) -> None:
    """Found by mutating files: shape inference ends the process."""
    split = node("Split", "x", "y z", axis=1, num_outputs=1)
    refused(save(tmp_path, model([split], IMAGE, "y", opset=18)), "has 2 outputs; attribute 'num_outputs' is 1")


@pytest.mark.parametrize("equation", [b"bij, end-->bik", b"ij,jk->i\xe1", b"ij,jk>ik", b"i..j,jk->ik", b"ij->jk->ik"])
def test_an_equation_that_is_none(tmp_path: Path, equation: bytes) -> None:
    """Found by mutating files: on the first one shape inference never ends."""
    broken = model([node("Einsum", "x x", "y", equation="ij,jk->ik")], {"x": (4, 4)}, "y")
    broken.graph.node[0].attribute[0].s = equation
    refused(save(tmp_path, broken), r"'y' \(Einsum\).* is no equation")


def test_names_that_are_not_text(tmp_path: Path) -> None:
    """Found by mutating files: protobuf hands names that are not UTF-8 on as bytes."""
    content = good().SerializeToString()
    named = good()
    named.graph.node[0].name = "QQQQ"
    content = named.SerializeToString().replace(b"QQQQ", b"Q\xff\xfeQ")
    refused(save(tmp_path, content), "not UTF-8")


@pytest.mark.parametrize("name", ["squeezenet", "zfnet512", "vgg19"])
def test_broken_files_never_crash_the_reader(tmp_path: Path, name: str) -> None:
    """Bytes changed, inserted, taken out, and files cut short; whatever can be read still, is; the rest is refused."""
    content = (LIGHT / f"light_{name}.onnx").read_bytes()
    chance = random.Random(name)
    outcomes = set()
    for _ in range(150):
        mutant = bytearray(content)
        for _ in range(chance.choice([1, 1, 1, 3])):
            place = chance.randrange(len(mutant))
            change = chance.choice(["set", "set", "set", "set", "insert", "delete", "cut"])
            if change == "set":
                mutant[place] = chance.randrange(256)
            elif change == "insert":
                mutant[place:place] = chance.randbytes(4)
            elif change == "delete":
                del mutant[place : place + 4]
            elif place > 100:
                del mutant[place:]
        try:
            read_onnx(save(tmp_path, bytes(mutant)), allow_unsupported=chance.random() < 0.5)
            outcomes.add("read")
        except InputError:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}
