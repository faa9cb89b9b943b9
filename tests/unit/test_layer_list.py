"""The reader of layer lists: what it understands, and how it refuses what it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from accelsim.errors import FormatError, InputError, WorkloadError
from accelsim.formats.layer_list import parse_layer_list, read_layer_list
from accelsim.workload.graph import TileRule
from accelsim.workload.operators import Conv2d, Elementwise, Pool, Transpose, Upsample


def layer(identifier: int, name: str, type_: str, inputs: list[int], /, **fields: Any) -> dict[str, Any]:
    """A layer of (2, 6, 6) -> (2, 6, 6) that only adds what differs."""
    return {
        **{"id": identifier, "name": name, "type": type_, "K": 2, "R": 1, "S": 1, "H": 6, "W": 6, "N": 1},
        **{"stride_h": 1, "stride_w": 1, "input_chw": [2, 6, 6], "output_chw": [2, 6, 6], "weight_bytes": 0},
        **{"ops": 72, "input_layers": inputs, "weight_layers": [], "external_input_ids": [], "external_channels": 0},
        **fields,
    }


def conv(identifier: int, name: str, inputs: list[int], /, **fields: Any) -> dict[str, Any]:
    """A 1x1 convolution of 2 channels to 2: 4 weights, 4 x 36 multiplications."""
    return layer(
        identifier, name, "conv", inputs, **{"N": None, "C": 2, "groups": 1, "weight_bytes": 4, "ops": 144, **fields}
    )


FIRST = {"external_input_ids": [0], "external_channels": 2}


def network(*layers: dict[str, Any], inputs: list[dict[str, Any]] | None = None) -> str:
    external = inputs or [{"name": "x", "shape_chw": [2, 6, 6]}]
    return json.dumps({"name": "net", "external_inputs": external, "layers": list(layers)})


def read(*layers: dict[str, Any], **more: Any) -> Any:
    return parse_layer_list(network(*layers, **more), "net.json")


class TestOperators:
    def test_a_convolution(self) -> None:
        strided = {"R": 3, "S": 2, "stride_h": 2, "H": 3, "W": 5, "K": 4, "output_chw": [4, 3, 5]}
        workload = read(conv(0, "a", [], **FIRST, **strided, weight_bytes=48, ops=720))
        operator = workload.operator("a")
        assert isinstance(operator, Conv2d)
        assert (operator.kernel, operator.stride, operator.groups) == ((3, 2), (2, 1), 1)
        # Rows: (3 - 1) * 2 + 3 - 6 = 1 in total, all of it above; columns: (5 - 1) * 1 + 2 - 6 = 0.
        assert operator.padding == (1, 0)
        assert [(weight.name, weight.shape, weight.bits) for weight in operator.weights] == [
            ("a.weight", (4, 2, 3, 2), 8)
        ]
        assert (workload.macs, workload.weight_bytes, workload.tile_rule) == (720, 48, TileRule.SOMA)

    def test_the_upper_half_of_the_padding_is_rounded_up(self) -> None:
        wide = {"R": 4, "S": 6, "weight_bytes": 96, "ops": 3456}  # 3 rows and 5 columns in total
        operator = read(conv(0, "a", [], **FIRST, **wide)).operator("a")
        assert operator.padding == (2, 3)

    def test_rows_that_no_window_reaches_are_not_read(self) -> None:
        """Of 6 rows a 1x1 window with stride 2 reads 5; the list says so, or leaves the sixth to be ignored."""
        strided = {"stride_h": 2, "stride_w": 2, "H": 3, "W": 3, "output_chw": [2, 3, 3], "ops": 36}
        for rows in (5, 6):
            operator = read(conv(0, "a", [], **FIRST, **{**strided, "input_chw": [2, rows, rows]})).operator("a")
            assert operator.padding == (0, 0)
            assert operator.operand_box(0, ((0, 1), (0, 2), (0, 3), (0, 3)))[2:] == ((0, 5), (0, 5))

    def test_a_grouped_convolution(self) -> None:
        operator = read(conv(0, "a", [], **FIRST, type="group_conv", groups=2, weight_bytes=2, ops=72)).operator("a")
        assert operator.weights[0].shape == (2, 1, 1, 1)
        assert operator.operand_box(0, ((0, 1), (1, 2), (0, 6), (0, 6)))[1] == (1, 2)

    def test_weights_from_two_layers(self) -> None:
        """Two layers of one channel each make the two filters; their rows are the channels of a group."""
        external = [{"name": "x", "shape_chw": [2, 6, 6]}, {"name": "y", "shape_chw": [1, 2, 1]}]
        made = {"K": 1, "H": 2, "W": 1, "input_chw": [1, 2, 1], "output_chw": [1, 2, 1], "ops": 2}
        makers = [
            layer(one, f"w{one}", "pointwise", [], **made, external_input_ids=[1], external_channels=1)
            for one in (0, 1)
        ]
        workload = read(*makers, conv(2, "a", [], **FIRST, weight_layers=[1, 0], weight_bytes=0), inputs=external)
        operand = workload.operator("a").operands[1]
        assert operand.is_weight
        assert [source.producer for source in operand.sources] == ["w1", "w0"]
        assert (operand.shape, operand.axis, operand.extents) == ((2, 2, 1), 0, (1, 1))
        assert workload.weight_bytes == 0

    def test_the_others(self) -> None:
        workload = read(
            conv(0, "a", [], **FIRST),
            layer(1, "pool", "pool", [0], R=2, S=3, stride_h=2, stride_w=3, H=3, W=2, output_chw=[2, 3, 2], ops=72),
            layer(2, "turn", "transpose", [1], K=3, H=2, W=2, input_chw=[2, 3, 2], output_chw=[3, 2, 2], ops=12,
                  output_dims_from_input=["H", "C", "W"]),
            layer(3, "up", "upsample", [2], K=3, H=4, W=6, N=2, input_chw=[3, 2, 2], output_chw=[3, 4, 6], ops=144),
        )  # fmt: skip
        pool, turn, up = (workload.operator(name) for name in ("pool", "turn", "up"))
        assert isinstance(pool, Pool)
        assert (pool.kernel, pool.stride, pool.padding) == ((2, 3), (2, 3), (0, 0))
        assert isinstance(turn, Transpose)
        assert turn.permutation == (1, 0, 2)
        assert isinstance(up, Upsample)
        assert up.factors == (2, 3)
        assert workload.vector_ops == 72 + 12 + 144

    def test_a_sum_whose_first_operand_is_a_concatenation(self) -> None:
        halves = {"K": 1, "output_chw": [1, 6, 6], "weight_bytes": 2, "ops": 72}
        workload = read(
            conv(0, "a", [], **FIRST, **halves),
            conv(1, "b", [], **FIRST, **halves),
            layer(2, "sum", "eltwise", [0, 1], **FIRST, N=2, input_chw=[4, 6, 6], ops=144),
        )
        operator = workload.operator("sum")
        assert isinstance(operator, Elementwise)
        assert [[source.producer for source in one.sources] for one in operator.operands] == [["x"], ["a", "b"]]
        assert workload.vector_ops == 144

    def test_a_list_out_of_order_is_put_in_order(self) -> None:
        workload = read(conv(7, "late", [3]), conv(3, "early", [], **FIRST), conv(5, "other", [], **FIRST))
        assert [operator.name for operator in workload.operators] == ["early", "late", "other"]

    def test_markup_in_a_name_is_only_text(self) -> None:
        assert read(conv(0, "<script>alert(1)</script>", [], **FIRST)).operators[0].name == "<script>alert(1)</script>"


# What is changed in the layer 'a' (a 1x1 convolution of the input), and what the refusal must say.
CONTRADICTIONS: list[tuple[dict[str, Any], str]] = [
    ({"ops": 145}, "ops is 145; the rest of the layer gives 144"),
    ({"weight_bytes": 5}, "weight_bytes is 5"),
    ({"weight_bytes": 0}, "weight_bytes is 0"),
    ({"output_chw": [2, 6, 5]}, "output_chw"),
    ({"input_chw": [3, 6, 6]}, "input_chw[0] is 3"),
    ({"C": 3}, "C is 3"),
    ({"C": None}, "C is None"),
    ({"external_channels": 1}, "external_channels is 1"),
    ({"external_input_ids": [1]}, "external input 1"),
    ({"external_input_ids": [], "external_channels": 0}, "reads nothing"),
    ({"input_layers": [9]}, "the layer with id 9, which does not exist"),
    ({"input_layers": [0]}, "a cycle"),
    ({"weight_layers": [0]}, "a cycle"),
    ({"input_chw": [2, 5, 6]}, "'x' provides [2, 6, 6]"),
    ({"input_chw": [2, 7, 6]}, "'x' provides [2, 6, 6]"),
    ({"H": 8, "output_chw": [2, 8, 6], "ops": 192}, "would need 2 rows of padding"),
    ({"W": 5, "output_chw": [2, 6, 5], "ops": 120}, "leave 1 unread"),
    ({"groups": 3}, "groups do not divide"),
    ({"N": 2}, "N is 2"),
    ({"name": "x"}, "the name 'x' stands for two things"),
    ({"type": "pool"}, "weight_bytes is 4"),
    ({"type": "eltwise", "weight_bytes": 0, "N": 2}, "N is 2"),
    ({"type": "transpose", "weight_bytes": 0}, "output_dims_from_input is missing"),
]  # fmt: skip


class TestRefusals:
    @pytest.mark.parametrize(("change", "words"), CONTRADICTIONS, ids=[words for _, words in CONTRADICTIONS])
    def test_contradictions_name_file_and_layer(self, change: dict[str, Any], words: str) -> None:
        with pytest.raises(WorkloadError) as caught:
            read(conv(0, "a", [], **{**FIRST, **change}))
        assert str(caught.value).startswith("net.json: ")
        assert words in str(caught.value)
        assert "'a'" in str(caught.value) or "'x'" in str(caught.value)

    def test_a_network_without_layers(self) -> None:
        with pytest.raises(WorkloadError, match="has no operators"):
            read()

    def test_ids_and_names_stand_once(self) -> None:
        with pytest.raises(WorkloadError, match="id 0 stands twice"):
            read(conv(0, "a", [], **FIRST), conv(0, "b", [], **FIRST))
        with pytest.raises(WorkloadError, match="'a' stands for two things"):
            read(conv(0, "a", [], **FIRST), conv(1, "a", [0]))

    def test_a_layer_that_reads_itself_through_another(self) -> None:
        with pytest.raises(WorkloadError, match=r"\['a', 'b'\] wait for one another"):
            read(conv(0, "a", [1]), conv(1, "b", [0]))

    def test_a_sum_of_what_does_not_fit(self) -> None:
        with pytest.raises(WorkloadError, match="do not add up to whole operands of 3 channels"):
            read(layer(0, "s", "eltwise", [], **FIRST, K=3, output_chw=[3, 6, 6], ops=108))

    def test_a_tensor_beyond_reason(self) -> None:
        """Consistent, but 2^62 bytes; 10 GB are only large."""
        size = {"H": 1 << 30, "W": 1 << 31, "input_chw": [2, 1 << 30, 1 << 31], "output_chw": [2, 1 << 30, 1 << 31]}
        huge = layer(0, "a", "pointwise", [], **FIRST, **size, ops=1 << 62)
        with pytest.raises(WorkloadError, match="tensor 'a'"):
            read(huge, inputs=[{"name": "x", "shape_chw": [2, 1 << 30, 1 << 31]}])
        size = {"H": 100_000, "W": 50_000, "input_chw": [2, 100_000, 50_000], "output_chw": [2, 100_000, 50_000]}
        large = layer(0, "a", "pointwise", [], **FIRST, **size, ops=10**10)
        assert read(large, inputs=[{"name": "x", "shape_chw": [2, 100_000, 50_000]}]).vector_ops == 10**10

    @pytest.mark.parametrize(
        ("field", "value", "words"),
        [
            *[("H", value, "layer 'a', H: found") for value in (0, -1, 1.5, "6", None, True, 10**30, [6])],
            ("ops", -1, "layer 'a', ops: found -1"),
            ("input_chw", [2, 6], "layer 'a', input_chw.2: missing"),
            ("input_layers", 0, "layer 'a', input_layers: found 0"),
            ("type", "attention", "layer 'a', type: found 'attention'"),
            ("name", "", "name: found ''"),
            ("name", "a\nb", "name: found 'a\\nb'; a name must be made of printable characters"),
            ("strideh", 1, "layer 'a', strideh: unknown key (did you mean 'stride_h'?)"),
        ],
    )
    def test_fields(self, field: str, value: object, words: str) -> None:
        with pytest.raises(FormatError) as caught:
            read(conv(0, "a", [], **{**FIRST, field: value}))
        assert words in str(caught.value)

    def test_all_mistakes_of_the_fields_at_once(self) -> None:
        first, second = conv(0, "a", [], **FIRST), conv(1, "b", [0], K=-1)
        del first["ops"]
        with pytest.raises(FormatError) as caught:
            read(first, second)
        assert str(caught.value).splitlines() == [
            "net.json: layer 'a', ops: missing",
            "net.json: layer 'b', K: found -1; input should be greater than or equal to 1",
        ]

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[]",
            "null",
            "3",
            '"net"',
            "{}",
            '{"name": "net"',
            '{"name": "net", "external_inputs": [], "layers": {}}',
            '{"name": NaN}',
            '{"name": Infinity}',
            "[" * 100_000,
        ],
    )
    def test_no_layer_list_at_all(self, text: str) -> None:
        with pytest.raises(FormatError, match=r"^net\.json"):
            parse_layer_list(text, "net.json")

    def test_every_truncation_is_an_error(self) -> None:
        text = network(conv(0, "a", [], **FIRST))
        for length in range(len(text)):
            with pytest.raises(FormatError):
                parse_layer_list(text[:length], "net.json")

    def test_a_number_of_a_thousand_digits(self) -> None:
        text = network(conv(0, "a", [], **FIRST)).replace('"ops": 144', '"ops": ' + "1" * 9000)
        with pytest.raises(FormatError, match="not a layer list"):
            parse_layer_list(text, "net.json")

    def test_a_key_that_stands_twice(self) -> None:
        text = network(conv(0, "a", [], **FIRST)).replace('"ops": 144', '"ops": 144, "ops": 145')
        with pytest.raises(FormatError, match="'ops' stands twice"):
            parse_layer_list(text, "net.json")


class TestFiles:
    def test_what_cannot_be_read(self, tmp_path: Path) -> None:
        (tmp_path / "folder.json").mkdir()
        (tmp_path / "latin.json").write_bytes('{"name": "é"}'.encode("latin-1"))
        (tmp_path / "zero.json").write_bytes(b"\0" * 100)
        for name in ("folder.json", "latin.json", "zero.json", "missing.json", "a\0b.json"):
            with pytest.raises(InputError) as caught:
                read_layer_list(tmp_path / name)
            assert isinstance(caught.value, FormatError)
            assert name in str(caught.value)

    def test_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "net.json"
        path.write_text("\ufeff" + network(conv(0, "a", [], **FIRST)))
        assert read_layer_list(path).macs == 144
