"""Free dimensions and steering inputs of ONNX files, and shapes that only a run tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from accelsim.errors import InputError, UnknownName, UnsupportedOperator, WorkloadError
from accelsim.formats.onnx.run import can_run
from accelsim.library import load_workload
from tests.naive.onnx_macs import has_onnxruntime
from tests.unit.onnx_models import model, node, read_onnx, save

needs_onnxruntime = pytest.mark.skipif(not has_onnxruntime(), reason="onnxruntime (extra onnx-run) is not installed")


def convolution(*sizes: int | str) -> onnx.ModelProto:
    return model([node("Conv", "x w", "y", name="first")], {"x": sizes}, "y", {"w": (6, 4, 3, 3)})


def test_dimensions_are_bound_by_name_or_by_place(tmp_path: Path) -> None:
    path = save(tmp_path, convolution("N", 4, "height", "width"))
    for bind in ({"height": 8, "width": 10}, {"x.2": 8, "x.3": 10}, {"height": 8, "x.3": 10}):
        workload = read_onnx(path, bind=bind)
        assert (workload.macs, workload.batch) == (6 * 6 * 8 * 36, 1)
        assert "leading dimension 'N' of input 'x' is bound to 1" in workload.notes[1]
    assert read_onnx(path, bind={"N": 3, "height": 8, "width": 10}).macs == 3 * 6 * 6 * 8 * 36
    assert load_workload(path, bind={"height": 8, "width": 10}).macs == 6 * 6 * 8 * 36


def test_minus_one_is_a_free_dimension(tmp_path: Path) -> None:
    broken = convolution(1, 4, 8, 8)
    for axis in (0, 2):
        broken.graph.input[0].type.tensor_type.shape.dim[axis].dim_value = -1
    assert read_onnx(save(tmp_path, broken), bind={"x.2": 5}).macs == 6 * 3 * 6 * 36


def test_a_leading_dimension_is_bound_wherever_it_stands(tmp_path: Path) -> None:
    nodes = [node("Squeeze", "s zero", "t"), node("Add", "x t", "y")]
    inputs = {"x": ("batch", 5), "s": (1, "batch", 5)}
    workload = read_onnx(save(tmp_path, model(nodes, inputs, "y", None, {"zero": [0]})))
    assert workload.vector_ops == 5


@pytest.mark.parametrize(
    ("bind", "kind", "message"),
    [
        ({"hight": 8}, UnknownName, r"nothing to bind is called 'hight' \(did you mean 'height'.*N, x.0, height, x.2"),
        ({"x.1": 4}, UnknownName, "called 'x.1'"),
        ({"height": 0}, InputError, "'height' is bound to 0; a size is a whole number >= 1"),
        ({"height": 1 << 40}, InputError, "bound to 1099511627776"),
        ({"height": 8}, WorkloadError, r"node 'first' \(Conv\).*free dimension 'width'.*--bind width=SIZE, or export"),
        ({}, WorkloadError, r"'height', 'width'.*--bind height=SIZE --bind width=SIZE, or export with fixed shapes"),
    ],
)
def test_bindings_that_are_refused_or_missing(tmp_path: Path, bind: Any, kind: Any, message: str) -> None:
    path = save(tmp_path, convolution("N", 4, "height", "width"))
    with pytest.raises(kind, match=message) as caught:
        read_onnx(path, bind=bind)
    assert str(path) in str(caught.value)


def test_an_integer_input_can_be_bound_to_a_value(tmp_path: Path) -> None:
    """The length of a range is the value of an input."""
    nodes = [node("Range", "zero n one", "r"), node("Cast", "r", "c", to=1), node("Add", "x c", "y")]
    content = model(nodes, {"x": (3, 1), "n": ()}, "y", None, {"zero": 0, "one": 1}, integers=["n"])
    assert read_onnx(save(tmp_path, content), bind={"n": 7}).vector_ops == 3 * 7
    with pytest.raises(InputError, match="expected a number of 32 bits"):
        read_onnx(save(tmp_path, content), bind={"n": 1 << 40})
    many = model([node("Cast", "n", "c", to=1), node("Add", "x c", "y")], {"x": (1,), "n": (5000,)}, "y", integers="n")
    with pytest.raises(InputError, match="'n' is bound to the value 2, but its shape"):
        read_onnx(save(tmp_path, many), bind={"n": 2})


def if_model(condition: list[onnx.NodeProto], **more: Any) -> onnx.ModelProto:
    """A convolution by 6 filters where the condition ``c`` holds, else by 5, each with its weights inside."""

    def branch(name: str, filters: int) -> onnx.GraphProto:
        weight = helper.make_tensor(f"{name}_w", TensorProto.FLOAT, [filters, 4, 3, 3], np.ones(filters * 36))
        out = helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)
        return helper.make_graph([node("Conv", f"x {name}_w", "inner", name=f"conv_{name}")], name, [], [out], [weight])

    choose = node("If", "c", "a", name="choose", then_branch=branch("then", 6), else_branch=branch("else", 5))
    # A value of the main graph has the name of one inside the branches.
    return model([*condition, node("Exp", "x", "inner2"), choose, node("Relu", "a", "y")], **more)


@pytest.mark.parametrize(("rate", "filters"), [(16000, 6), (8000, 5)])
def test_the_branch_of_a_known_condition_stands_in_its_place(tmp_path: Path, rate: int, filters: int) -> None:
    inputs = {"x": (1, 4, 8, 8), "rate": ()}
    content = if_model(
        [node("Equal", "rate wide", "c")], inputs=inputs, outputs="y", arrays={"wide": 16000}, integers=["rate"]
    )
    workload = read_onnx(save(tmp_path, content), bind={"rate": rate})
    assert [operator.kind for operator in workload.operators] == ["conv2d"]
    assert (workload.macs, workload.weight_bytes) == (filters * 36 * 36, filters * 36)


def test_branches_inside_branches_and_names_that_two_of_them_use(tmp_path: Path) -> None:
    """Two of them compute t = exp(x) and, in an If of their own, u = t + x: 8 operations each; then they are added."""

    def value(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)

    inner = helper.make_graph([node("Add", "t x", "u")], "inner", [], [value("u")])
    nested = node("If", "yes", "v", then_branch=inner, else_branch=inner)
    outer = helper.make_graph([node("Exp", "x", "t"), nested], "outer", [], [value("v")])
    choices = [node("If", "yes", name, then_branch=outer, else_branch=outer) for name in "ab"]
    content = model([*choices, node("Add", "a b", "y")], {"x": (4,)}, "y", None, {"yes": np.bool_(True)})
    assert read_onnx(save(tmp_path, content)).vector_ops == 2 * 8 + 4


def test_control_flow_whose_course_is_not_known_is_refused_by_name(tmp_path: Path) -> None:
    content = if_model(
        [node("Greater", "m zero", "c")], inputs={"x": (1, 4, 8, 8), "m": (1,)}, outputs="y", arrays={"zero": 0.0}
    )
    with pytest.raises(UnsupportedOperator, match=r"node 'choose' \(If\).*only known when it runs"):
        read_onnx(save(tmp_path, content))
    body = helper.make_graph(
        [node("Identity", "go", "on"), node("Exp", "v", "w")],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [4]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("w", TensorProto.FLOAT, [4]),
        ],
    )
    loop = model([node("Loop", "n _ x", "y", name="again", body=body)], {"x": (4,)}, "y", None, {"n": 3})
    with pytest.raises(UnsupportedOperator, match=r"node 'again' \(Loop\).*only known when it runs"):
        read_onnx(save(tmp_path, loop))


def open_model() -> onnx.ModelProto:
    """Inference does not tell how many elements are not zero; a run on ones does: all 12."""
    nodes = [
        node("NonZero", "x", "places"),
        node("Shape", "places", "sizes"),
        node("Gather", "sizes one", "count"),
        node("Expand", "v count", "y"),
    ]
    return model(nodes, {"x": (3, 4), "v": (1,)}, "y", None, {"one": [1]})


@needs_onnxruntime
def test_shapes_that_only_a_run_tells(tmp_path: Path) -> None:
    workload = read_onnx(save(tmp_path, open_model()))
    assert workload.operators[-1].output.shape == (12,)
    assert any("one run of onnxruntime" in note for note in workload.notes)


@needs_onnxruntime
def test_a_model_that_onnxruntime_refuses(tmp_path: Path) -> None:
    """Its weights are in a file that is not there."""
    content = open_model()
    content.graph.node.insert(0, node("Mul", "x w", "z"))
    content.graph.node[1].input[0] = "z"
    missing = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    missing.external_data.add(key="location", value="weights.bin")
    content.graph.initializer.append(missing)
    with pytest.raises(WorkloadError, match="onnxruntime cannot run the model to learn its shapes"):
        read_onnx(save(tmp_path, content))


def test_without_onnxruntime_the_message_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelsim.formats.onnx.file.can_run", lambda: False)
    with pytest.raises(WorkloadError, match=r"\(NonZero\).*stays open.*fixed shapes; or install accelsim\[onnx-run\]"):
        read_onnx(save(tmp_path, open_model()))


@pytest.mark.parametrize(
    ("session", "message"),
    [("os.abort()", "crashed .signal 6"), ("sys.exit(7)", "status 7"), ("raise ValueError('no')", "shapes: no")],
)
def test_a_model_that_crashes_onnxruntime_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: str, message: str
) -> None:
    """A package in the place of onnxruntime whose sessions end badly."""
    (tmp_path / "onnxruntime.py").write_text(
        "import os, sys\n"
        "class GraphOptimizationLevel:\n    ORT_DISABLE_ALL = 0\n"
        "class SessionOptions:\n    def add_session_config_entry(self, key, value): pass\n"
        f"def InferenceSession(*arguments, **more):\n    {session}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert can_run()
    with pytest.raises(WorkloadError, match=r"model.onnx: node 'places' \(NonZero\).*" + message):
        read_onnx(save(tmp_path, open_model()))
