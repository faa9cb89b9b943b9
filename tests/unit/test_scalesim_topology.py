"""SCALE-Sim topology files: what is read, what is noted, and what is refused, each with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.errors import FormatError, WorkloadError
from accelsim.formats.scalesim_topology import MOST_LAYERS, parse_scalesim_topology
from accelsim.library import load_workload
from accelsim.workload.graph import Workload
from accelsim.workload.operators import Conv2d, MatMul

HEADER = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"


def read(*lines: str, header: str = HEADER) -> Workload:
    return parse_scalesim_topology(header + "\n".join(lines), "net.csv", "net")


def refusal(*lines: str) -> str:
    with pytest.raises(FormatError) as error:
        read(*lines)
    return str(error.value)


def test_a_matrix_product() -> None:
    (product,) = read("qkv, 196, 192, 384,").operators
    assert isinstance(product, MatMul)
    assert product.name == "qkv"
    assert (product.operands[0].shape, product.weights[0].shape, product.output.shape) == (
        (196, 384),
        (384, 192),
        (196, 192),
    )


def test_a_convolution() -> None:
    (conv,) = read("Conv1, 224, 224, 7, 7, 3, 64, 2,").operators
    assert isinstance(conv, Conv2d)
    assert (conv.operands[0].shape, conv.weights[0].shape) == ((3, 224, 224), (64, 3, 7, 7))
    assert (conv.stride, conv.padding, conv.groups) == ((2, 2), (0, 0), 1)
    # (224 - 7 + 2) / 2 = 109.5, rounded up; a framework would have 109.
    assert conv.output.shape == (64, 110, 110)
    assert conv.whole_work(1).macs == 110 * 110 * 64 * 3 * 49


def test_layers_depend_on_nothing_and_keep_their_order() -> None:
    workload = read("b, 5, 6, 7,", "", "a, 8, 8, 3, 3, 4, 2, 1,", "c d, 1, 1, 1,")
    assert [operator.name for operator in workload.operators] == ["b", "a", "c d"]
    assert [tensor.name for tensor in workload.inputs] == ["b.input", "a.input", "c d.input"]
    assert workload.outputs == ("b", "a", "c d")
    assert workload.notes == ()


@pytest.mark.parametrize("end", [",", ",,", " , , ", ",\r"])
def test_commas_at_the_end_and_spaces_mean_nothing(end: str) -> None:
    workload = read(f"  L ,5 , 6,7{end}")
    assert (workload.operators[0].name, workload.operators[0].output.shape) == ("L", (5, 6))
    assert workload.notes == ()


def test_no_comma_at_the_end_is_noted() -> None:
    workload = read("L, 5, 6, 7", "M, 5, 6, 7,", "N, 5, 6, 7")
    assert [operator.output.shape for operator in workload.operators] == [(5, 6)] * 3
    (note,) = workload.notes
    assert note.startswith("net.csv: each of the lines 2, 4 ends without a comma")


def test_a_sparsity_ratio_is_noted() -> None:
    workload = read("g, 5, 6, 8, 2:4,", "c, 8, 8, 3, 3, 4, 2, 1, 1:1,")
    assert workload.macs == 5 * 6 * 8 + 6 * 6 * 2 * 4 * 9
    (note,) = workload.notes
    assert note.startswith("net.csv: line 2 has a sparsity ratio")


def test_two_strides() -> None:
    workload = read("c, 9, 10, 3, 3, 4, 2, 1, 2,")
    assert workload.operators[0].output.shape == (2, 7, 5)  # (10 - 3 + 2) / 2 = 4.5
    assert "line 2 has two strides" in workload.notes[0]


def test_depthwise_rows_are_a_layer_a_channel() -> None:
    workload = read("conv_DP_1, 10, 10, 3, 3, 3, 1, 1,", "next, 1, 2, 3,")
    names = [operator.name for operator in workload.operators]
    assert names == ["conv_DP_1Channel_0", "conv_DP_1Channel_1", "conv_DP_1Channel_2", "next"]
    assert [tensor.shape for tensor in workload.inputs] == [(1, 10, 10)] * 3 + [(1, 3)]
    assert workload.macs == 3 * 64 * 9 + 6
    # Only convolutions: a product called so is one layer.
    assert len(read("DP, 5, 6, 7,").operators) == 1


def test_names_that_stand_twice_are_told_apart() -> None:
    workload = read("a, 1, 2, 3,", "a, 2, 2, 3,", "a.input, 1, 1, 1,", "a, 3, 2, 3,")
    names = [operator.name for operator in workload.operators]
    assert names == ["a", "a#2", "a.input#2", "a#3"]
    assert "each of the lines 3, 4, 5 repeats the name" in workload.notes[0]


def test_a_first_line_with_numbers_is_a_layer() -> None:
    workload = read("b, 4, 5, 6,", header="a, 1, 2, 3,\n")
    assert [operator.name for operator in workload.operators] == ["a", "b"]
    assert "line 1 is the first one and is read as a layer" in workload.notes[0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("L, 5, 6,", "has 2 numbers; a matrix product has 3"),
        ("L, 5, 6, 7, 8,", "has 4 numbers"),
        ("L, 1, 2, 3, 4, 5, 6, 7, 8, 9,", "has 9 numbers"),
        ("L, 5, nan, 7,", "N is 'nan'"),
        ("L, 5, inf, 7,", "N is 'inf'"),
        ("L, 5, 6, -7,", "K is '-7'"),
        ("L, 0, 6, 7,", "M is '0'"),
        ("L, 5, , 7,", "N is ''"),
        ("L, 5.0, 6, 7,", "M is '5.0'"),
        ("L, 1e3, 6, 7,", "M is '1e3'"),
        ("L, ٣, 6, 7,", "M is '٣'"),
        (f"L, {10**30}, 6, 7,", "M is '1000000"),
        ("L, 2147483649, 6, 7,", "expected a whole number from 1 to 2^31"),
        ("L, 1000000000, 1000000000, 1000000000,", "1.0e+27 multiply-accumulates"),
        ("L, 2147483648, 1, 2097152,", "holds 4.504e+15 bytes"),
        ("L, 4, 9, 5, 3, 1, 1, 1,", "its filter, 5 x 3, is larger than its ifmap, 4 x 9"),
        ("L, 9, 4, 3, 5, 1, 1, 1,", "its filter, 3 x 5, is larger than its ifmap, 9 x 4"),
        ("L, 9, 9, 3, 3, 1, 1, 0,", "stride is '0'"),
        ("L, 5, 6, 7, 4:2,", "the sparsity ratio is '4:2'"),
        ("L, 5, 6, 7, 0:2,", "the sparsity ratio is '0:2'"),
        ("L, 5, 6, 7, a:b,", "the sparsity ratio is 'a:b'"),
        (", 5, 6, 7,", "the layer's name is ''"),
        ("a\x1bb, 5, 6, 7,", "the layer's name is 'a\\x1bb'"),
        (f"{'x' * 201}, 5, 6, 7,", "the layer's name is 'xxx"),
        (f"DP, 9, 9, 3, 3, {MOST_LAYERS + 1}, 1, 1,", f"more than {MOST_LAYERS} layers"),
    ],
)
def test_a_line_that_cannot_be_understood_is_named(line: str, words: str) -> None:
    message = refusal("good, 1, 2, 3,", line)
    assert message.startswith("net.csv:3: ")
    assert words in message
    assert "\n" not in message


def test_all_such_lines_are_named() -> None:
    message = refusal("a, 1,", "b, 1, 2, 3,", *["c, x, 2, 3,"] * 30)
    lines = message.splitlines()
    assert lines[0].startswith("net.csv:2: ")
    assert lines[1].startswith("net.csv:4: ")
    assert (len(lines), lines[-1]) == (21, "… and 11 more")


@pytest.mark.parametrize("text", ["", "\n\n", HEADER, "Layer,\n,,,\n", "Layer, M, N, K,\nAlexnet,\n"])
def test_a_file_without_layers(text: str) -> None:
    with pytest.raises(FormatError, match=r"net\.csv: no layers"):
        parse_scalesim_topology(text, "net.csv", "net")


def test_the_library_reads_it_by_its_suffix(tmp_path: Path) -> None:
    path = tmp_path / "small net.csv"
    path.write_bytes(b"\xef\xbb\xbfLayer, M, N, K,\r\nL0, 2, 3, 4,\r\n")
    workload = load_workload(path, batch=3)
    assert (workload.name, workload.macs) == ("small net", 3 * 24)
    with pytest.raises(FormatError, match="no such file"):
        load_workload(tmp_path / "none.csv")
    path.write_bytes(b"Layer\n\xff\xfe")
    with pytest.raises(FormatError, match="not UTF-8"):
        load_workload(path)


@given(
    st.lists(
        st.one_of(
            st.text(max_size=30),
            st.lists(st.sampled_from(["", "L", "DP", "3", "1", "2:4", "-1", "9" * 12, "1e9"]), max_size=11).map(
                ",".join
            ),
        ),
        max_size=6,
    )
)
def test_any_text_is_read_or_refused(lines: list[str]) -> None:
    try:
        workload = parse_scalesim_topology("\n".join(lines), "net.csv", "net")
    except WorkloadError:
        raise AssertionError("a line's mistake must be told with its line") from None
    except FormatError as error:
        assert str(error).startswith("net.csv:")
    else:
        assert workload.macs > 0


CONV_HEADER = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,"


@pytest.mark.parametrize(
    ("header", "line", "note"),
    [
        (CONV_HEADER, "dw1, 56, 56, 3, 3, 1, 1, 1,#dw", "line 2 ends with a word"),
        (f"{CONV_HEADER}, Target", "conv, 56, 56, 3, 3, 1, 1, 1, NPU", "line 2 ends with a word"),
        (f"{CONV_HEADER} Batch Size,", "conv,  56,   56, 3,   3,  1, 1, 1,   1,", "line 2 has a batch of 1"),
        (CONV_HEADER, "\tconv,56,56,3,3,1,1,1,", ""),
        (CONV_HEADER, "conv, 56, 56, 3, 3, 1, 1, 1, 1", "line 2 has two strides"),
        (f"{CONV_HEADER}\n\nAlexnet,", "conv, 56, 56, 3, 3, 1, 1, 1,", "line 3 has a name only"),
        (CONV_HEADER, ",,,,,,,,\nconv, 56, 56, 3, 3, 1, 1, 1, ", "line 2 has commas only"),
        (f"{CONV_HEADER},,Eh,Ew,e2", "conv,56,56,3,3,1,1,1,,,110,110,12100", "line 2 has more behind an empty column"),
        (f"{CONV_HEADER},,Eh,Ew,e2", "conv,56,56,3,3,1,1,1,,,,,", ""),
        (
            "Layer name\tIFMAP Height\tIFMAP Width",
            "conv\t56\t56\t3\t3\t1\t1\t1\t",
            "line 2 has its columns parted by tabs",
        ),
    ],
)
def test_lines_as_they_are_found_in_the_wild(header: str, line: str, note: str) -> None:
    """Shapes that people have written into files of SCALE-Sim's repositories, most of which its own reader drops."""
    workload = parse_scalesim_topology(f"{header}\n{line}\n", "wild.csv", "wild")
    (layer,) = workload.operators
    assert (layer.output.shape, workload.macs) == ((1, 54, 54), 54 * 54 * 9)
    assert any(note in said for said in workload.notes) if note else not workload.notes


def test_a_ratio_of_one_is_dense() -> None:
    """As a product of SCALE-Sim's sparsity/gemm_mix.csv has it."""
    workload = parse_scalesim_topology("Layer Name, M, N, K, Sparsity,\nGEMM_1, 1, 5, 16, 1,\n", "wild.csv", "wild")
    assert workload.macs == 80 and workload.operators[0].weights[0].sparsity is None
    assert any("line 2 has the sparsity ratio 1, which is read as 1:1" in note for note in workload.notes)


@pytest.mark.parametrize(
    ("line", "mistake"),
    [
        ("GEMM_1, 1, 5, 16, 2,", "the sparsity ratio is '2'; expected N:M"),
        ("LSTM_gate, 1, B, 1, 1, H, H, 1,", "ifmap width is 'B'"),
        ("FC, 1, 1, 1, ,1 2, 2, 1,", "filter width is ''"),
        ("conv, 56, 56, 3, 3, 1, 1, x,", "has 7 numbers|stride is 'x'"),
        ("layout, 1, 1, 1, 1, 1, 1, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 6, 7,", "has 20 numbers"),
    ],
)
def test_lines_that_can_mean_several_things_are_refused(line: str, mistake: str) -> None:
    with pytest.raises(FormatError, match=rf"wild\.csv:2: .*({mistake})"):
        parse_scalesim_topology(f"Layer Name, M, N, K, Sparsity,\n{line}\n", "wild.csv", "wild")
    with pytest.raises(FormatError, match=r"wild\.csv:2: layer 'conv' has a batch of its own; .*--batch"):
        parse_scalesim_topology(f"{CONV_HEADER} Batch\nconv, 56, 56, 3, 3, 1, 1, 1, 8,\n", "wild.csv", "wild")
