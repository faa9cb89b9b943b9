"""Workloads in YAML: recipes, operators one by one, and mistakes with their places."""

from __future__ import annotations

from pathlib import Path

import pytest

from accelsim.errors import FormatError, InputError, UnknownName, WorkloadError
from accelsim.files import data_folder
from accelsim.formats.workload_yaml import parse_workload_yaml, read_workload_yaml
from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.operators import OPERATORS, Conv2d

EVERY_TYPE = """\
kind: operators
name: all
batch: 3
bits: 16
tile_rule: soma
inputs:
  image: {shape: [4, 8, 10]}
  ids: {shape: [6, 4], bits: 32}
operators:
  - {name: conv, type: conv2d, inputs: [image], filters: 8, kernel: 3, padding: same, stride: [1, 2]}
  - {name: group, type: conv2d, inputs: [conv], filters: 4, kernel: [3, 1], groups: 2, dilation: 2, padding: [2, 0]}
  - {name: sum, type: elementwise, inputs: [group, group, group]}
  - {name: pool, type: pool, inputs: [[sum, conv]], kernel: 2, stride: 3}
  - {name: near, type: local_response_norm, inputs: [pool], size: 3}
  - {name: up, type: upsample, inputs: [near], factors: [2, 1]}
  - {name: turn, type: transpose, inputs: [up], permutation: [1, 2, 0]}
  - {name: rows, type: matmul, inputs: [{tensor: turn, reshape: [12, 12]}], features: 6}
  - {name: square, type: matmul, inputs: [rows, ids]}
  - {name: soft, type: softmax, inputs: [square], axis: 0}
  - {name: norm, type: normalization, inputs: [soft], axes: [0, 1]}
  - {name: out, type: move, inputs: [norm, ids], shape: [5], of: Gather}
"""


def parse(text: str, **parameters: object) -> Workload:
    return parse_workload_yaml(text, "net.yaml", **parameters)


class TestOperators:
    def test_shapes_follow(self) -> None:
        workload = parse(EVERY_TYPE)
        assert {operator.name: operator.output.shape for operator in workload.operators} == {
            "conv": (8, 8, 5),  # same, stride 2 along columns: ceil(10 / 2)
            "group": (4, 8, 5),  # rows: 8 + 2 x 2 - 5 + 1; columns: 5
            "sum": (4, 8, 5),
            "pool": (12, 3, 2),  # (8 - 2) / 3 + 1 rows, (5 - 2) / 3 + 1 columns
            "near": (12, 3, 2),
            "up": (12, 6, 2),
            "turn": (6, 2, 12),
            "rows": (12, 6),
            "square": (12, 4),
            "soft": (12, 4),
            "norm": (12, 4),
            "out": (5,),
        }
        assert workload.outputs == ("out",)
        assert (workload.name, workload.batch, workload.tile_rule) == ("all", 3, TileRule.SOMA)
        assert [tensor.bits for tensor in workload.inputs] == [16, 32]

    def test_every_operator_but_those_that_only_files_know_can_be_written(self) -> None:
        only_files = {"conv_transpose2d", "embedding", "recurrent", "reduction", "resample"}  # workloads/README.md
        assert {operator.kind for operator in parse(EVERY_TYPE).operators} == set(OPERATORS) - only_files

    def test_work_follows(self) -> None:
        workload = parse(EVERY_TYPE)
        # conv 8 x 8 x 5 x 4 x 9; group 4 x 8 x 5 x 4 x 3; rows 12 x 12 x 6; square 12 x 6 x 4: for three samples.
        assert workload.macs == 3 * (11520 + 1920 + 864 + 288)
        # sum 160 x 3; pool 72 x 4; near 72 x 10; up and turn 144; soft 48 x 5; norm 48 x 7; out 5.
        assert workload.vector_ops == 3 * (480 + 288 + 720 + 144 + 144 + 240 + 336 + 5)
        # 16 bits: 8 x 4 x 9, 4 x 4 x 3 and 12 x 6 elements.
        assert workload.weight_bytes == 2 * (288 + 48 + 72)

    def test_windows(self) -> None:
        workload = parse(EVERY_TYPE)
        conv, group = workload.operator("conv"), workload.operator("group")
        assert isinstance(conv, Conv2d)
        assert isinstance(group, Conv2d)
        # same: 2 rows in total; (5 - 1) x 2 + 3 - 10 = 1 column, which stands left.
        assert conv.padding == (1, 1)
        assert (group.padding, group.dilation, group.groups) == ((2, 0), (2, 2), 2)

    def test_weights_from_an_operator(self) -> None:
        workload = parse(
            """\
kind: operators
name: attention
inputs: {q: {shape: [6, 5, 1]}, k: {shape: [8, 3, 1]}}
operators:
  - {name: keys, type: elementwise, inputs: [k]}
  - {name: scores, type: conv2d, inputs: [q], groups: 2, weights_from: keys}
outputs: [scores, keys]
"""
        )
        scores = workload.operator("scores")
        assert scores.output.shape == (8, 5, 1)
        assert scores.operands[1].is_weight
        assert workload.macs == 8 * 5 * 3
        assert workload.weight_bytes == 0
        assert workload.outputs == ("scores", "keys")

    def test_the_example_of_the_readme(self) -> None:
        text = (data_folder("workloads") / "README.md").read_text()
        examples = [block.split("```")[0] for block in text.split("```yaml\n")[1:]]
        recipe, operators = (parse(example) for example in examples)
        assert recipe.macs == 7570194432
        assert operators.operator("row").output.shape == (32, 10)
        assert operators.macs == 16 * 32 * 32 * (3 * 9 + 16 * 3) + 32 * 256 * 10


def operators(*lines: str) -> str:
    rows = "\n".join(f"  - {line}" for line in lines)
    return f"kind: operators\nname: n\ninputs:\n  x: {{shape: [4, 8, 8]}}\noperators:\n{rows}\n"


GOOD = "{name: a, type: elementwise, inputs: [x]}"
MISTAKES = [
    ("{name: a, type: conv2d, inputs: [x], filter: 8}", "6:42: operators.0.conv2d.filter: unknown key (did you"),
    ("{name: a, type: conv3d, inputs: [x]}", "6:5: operators.0: found {"),
    ("{name: a, inputs: [x]}", "6:5: operators.0: found {"),
    ("{name: a, type: pool, inputs: [x]}", "6:5: operators.0.pool.kernel: missing"),
    ("{name: a, type: conv2d, inputs: [x], filters: -8}", "6:51: operators.0.conv2d.filters: found -8"),
    ("{name: a, type: conv2d, inputs: [x], filters: 8.0}", "6:51: operators.0.conv2d.filters: found 8.0"),
    ("{name: a, type: conv2d, inputs: [x], filters: .nan}", "6:51: operators.0.conv2d.filters: found '.nan'"),
    ("{name: a, type: elementwise, inputs: []}", "6:42: operators.0.elementwise.inputs: found []"),
    ("{name: a, type: elementwise, inputs: [y]}", "6:5: operator 'a': reads 'y'"),
    ("{name: x, type: elementwise, inputs: [x]}", "6:5: operator 'x': the name stands for two things"),
    ("{name: a, type: conv2d, inputs: [x]}", "operator 'a': filters is missing"),
    ("{name: a, type: conv2d, inputs: [x], filters: 8, groups: 3}", "3 groups do not divide its 4 input channels"),
    ("{name: a, type: conv2d, inputs: [x], filters: 9, groups: 2}", "groups divide neither"),
    ("{name: a, type: conv2d, inputs: [x], filters: 8, kernel: 9}", "a window of 9 does not fit into 8 rows"),
    ("{name: a, type: conv2d, inputs: [x], filters: 8, padding: 1}", "padding 1 is not smaller than the window of 1"),
    ("{name: a, type: conv2d, inputs: [x], filters: 8, weights_from: x}", "weights of shape [8, 4, 1]"),
    ("{name: a, type: conv2d, inputs: [x, x], filters: 8}", "has 2 inputs; expected one"),
    ("{name: a, type: matmul, inputs: [x]}", "has 1 inputs; expected two, or one and features"),
    ("{name: a, type: matmul, inputs: [x, {tensor: x, reshape: [4, 4, 16]}]}", "(4, 8, 8) times (4, 4, 16)"),
    ("{name: a, type: elementwise, inputs: [x, {tensor: x, reshape: [16, 16]}]}", "does not broadcast"),
    ("{name: a, type: elementwise, inputs: [{tensor: x, reshape: [3, 3]}]}", "the numbers of elements differ"),
    ("{name: a, type: elementwise, inputs: [[x, {tensor: x, reshape: [8, 4, 8]}]]}", "cannot be joined along axis 0"),
    ("{name: a, type: elementwise, inputs: [[x, x]], join_axis: 3}", "join_axis is 3; the inputs have 3 axes"),
    ("{name: a, type: transpose, inputs: [x], permutation: [0, 1]}", "[0, 1] is no permutation of the 3 axes"),
    ("{name: a, type: softmax, inputs: [x], axis: 3}", "axis 3 lies outside the 3 axes"),
    ("{name: a, type: normalization, inputs: [x], axes: [-4]}", "axis -4 lies outside"),
    ("{name: a, type: pool, inputs: [{tensor: x, reshape: [256]}], kernel: 2}", "expected channels, rows and columns"),
    ("{name: a, type: upsample, inputs: [x], factors: 2000000000}", "bytes; the most that is accepted"),
]  # fmt: skip


class TestMistakes:
    @pytest.mark.parametrize(("line", "words"), MISTAKES, ids=[words for _, words in MISTAKES])
    def test_each_has_its_place(self, line: str, words: str) -> None:
        with pytest.raises((FormatError, WorkloadError)) as caught:
            parse(operators(line))
        assert str(caught.value).startswith("net.yaml:6:")
        assert words in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1

    def test_all_at_once_and_no_consequences(self) -> None:
        with pytest.raises(WorkloadError) as caught:
            parse(
                operators(
                    "{name: a, type: conv2d, inputs: [x]}",
                    "{name: b, type: elementwise, inputs: [a, x]}",  # reads what is broken: not another mistake
                    "{name: c, type: elementwise, inputs: [x]}",
                    "{name: d, type: elementwise, inputs: [cc]}",
                )
            )
        lines = str(caught.value).splitlines()
        assert [line.split(" ")[0] for line in lines] == ["net.yaml:6:5:", "net.yaml:9:5:"]

    def test_all_fields_at_once(self) -> None:
        text = operators(GOOD).replace("kind: operators", "kind: operators\nbatch: 0\nbit: 8")
        text = text.replace("[4, 8, 8]", "[4, -8, 8]")
        with pytest.raises(FormatError) as caught:
            parse(text)
        places = [line.split(" ")[0] for line in str(caught.value).splitlines()]
        assert places == ["net.yaml:2:8:", "net.yaml:3:1:", "net.yaml:6:18:"]
        assert "bit: unknown key (did you mean 'bits'?)" in str(caught.value)

    def test_outputs_must_be_operators(self) -> None:
        with pytest.raises(WorkloadError, match="name no operator"):
            parse(operators(GOOD) + "outputs: [b]\n")

    @pytest.mark.parametrize(
        "text",
        [
            *("", "3", "[]", "kind: graph", "kind: [recipe]", "name: x", "a: b: c", "{", "\t- x", "\0", "a: *b"),
            *("kind: recipe\nkind: x", "kind: !!python/object/apply:os.system [ls]", "%YAML 9.9\n---\n"),
            "--- 1\n--- 2",
            "[" * 5000,
        ],
    )  # fmt: skip
    def test_no_workload_at_all(self, text: str) -> None:
        with pytest.raises(FormatError, match=r"^net\.yaml"):
            parse(text)

    def test_files_that_cannot_be_read(self, tmp_path: Path) -> None:
        (tmp_path / "folder.yaml").mkdir()
        (tmp_path / "latin.yaml").write_bytes("name: é".encode("latin-1"))
        for name in ("folder.yaml", "latin.yaml", "missing.yaml"):
            with pytest.raises(FormatError, match=name):
                read_workload_yaml(tmp_path / name)


RECIPE = "kind: recipe\ndescription: d\nmodel: cnn.resnet\nparameters: {depth: 101}\n"


class TestRecipes:
    def test_the_caller_wins_over_the_file(self) -> None:
        assert len(parse(RECIPE).operators) == 140
        assert len(parse(RECIPE, depth=50).operators) == 72
        assert parse(RECIPE + "batch: 4").macs == 4 * parse(RECIPE).macs

    def test_it_is_called_by_the_name_of_its_file(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.large.yaml"
        path.write_text(RECIPE)
        assert read_workload_yaml(path).name == "mine.large"

    @pytest.mark.parametrize(
        ("old", "new", "error", "words"),
        [
            ("cnn.resnet", "cnn.resnets", UnknownName, "net.yaml:3:8: no recipe 'cnn.resnets' (did you mean"),
            ("depth", "dept", UnknownName, "has no parameter 'dept' (did you mean 'depth'?)"),
            ("101", "34", WorkloadError, "ResNet of depth 34 is not known; expected one of [50, 101, 152]"),
            ("101", "'101'", WorkloadError, "parameter 'depth': found '101'; expected a whole number"),
            ("101", "101.5", WorkloadError, "parameter 'depth': found 101.5; expected a whole number"),
            ("101", "[101]", FormatError, "net.yaml:4:"),
            ("101", "50, bits: 99", WorkloadError, "99 bits per element"),
            ("101", "50, image_size: 0", WorkloadError, "every size must be a whole number >= 1"),
            ("model:", "modell:", FormatError, "net.yaml:3:1: modell: unknown key (did you mean 'model'?)"),
        ],
    )  # fmt: skip
    def test_mistakes(self, old: str, new: str, error: type[InputError], words: str) -> None:
        with pytest.raises(error) as caught:
            parse(RECIPE.replace(old, new))
        assert words in str(caught.value)

    def test_operators_have_no_parameters(self) -> None:
        with pytest.raises(UnknownName, match="no parameter 'depth'"):
            parse(operators(GOOD), depth=3)
