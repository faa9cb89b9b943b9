"""The nine networks that come with the onnx package: MACs and parameters, from other arithmetic and from papers."""

from __future__ import annotations

import subprocess
import sys
from math import prod
from pathlib import Path

import onnx
import pytest
from onnx import shape_inference

from accelsim.workload.cut import cut_to_fit
from accelsim.workload.graph import TileRule
from accelsim.workload.tensor import whole_box
from tests.unit.onnx_models import read_onnx

FOLDER = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NETWORKS = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
each_network = pytest.mark.parametrize("name", NETWORKS)


def light(name: str) -> Path:
    return FOLDER / f"light_{name}.onnx"


def macs_of_file(path: Path) -> int:
    """Output elements times the weights of one filter, over the Conv and Gemm nodes of a file."""
    graph = shape_inference.infer_shapes(onnx.load(path)).graph
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    total = 0
    for node in graph.node:
        if node.op_type == "Conv":
            total += prod(shapes[node.output[0]]) * prod(shapes[node.input[1]][1:])
        elif node.op_type == "Gemm":
            total += prod(shapes[node.output[0]]) * shapes[node.input[0]][1]
        else:
            assert node.op_type not in ("MatMul", "ConvTranspose", "LSTM", "Einsum")
    return total


def test_there_are_these_nine() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.onnx")) == [f"light_{name}.onnx" for name in NETWORKS]


@each_network
def test_macs_are_those_of_the_file(name: str) -> None:
    workload = read_onnx(light(name))
    assert workload.macs == macs_of_file(light(name)) > 10**8
    assert workload.tile_rule is TileRule.EXACT
    assert workload.batch == 1
    assert [tensor.shape for tensor in workload.inputs] == [(3, 224, 224)]
    assert not [note for note in workload.notes if "moved data" in note]
    assert read_onnx(light(name), batch=3).macs == 3 * workload.macs


def test_macs_of_resnet50() -> None:
    """From table 1 of He et al. (CVPR 2016), with the stride in the 3x3 convolution (version 1.5)."""
    macs = 64 * 3 * 49 * 112**2  # conv1
    channels = 64
    for width, blocks, size in ((64, 3, 56), (128, 4, 28), (256, 6, 14), (512, 3, 7)):
        for block in range(blocks):
            stride = 2 if block == 0 and width > 64 else 1
            before = (size * stride) ** 2
            macs += channels * width * before + width * width * 9 * size**2 + width * 4 * width * size**2
            if block == 0:
                macs += channels * 4 * width * size**2  # the projection shortcut
            channels = 4 * width
    macs += 2048 * 1000
    assert macs == 4_089_184_256
    assert read_onnx(light("resnet50")).macs == macs


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("bvlc_alexnet", 60_965_224),  # the Caffe model zoo's reference network
        ("vgg19", 143_667_240),  # 144 million, table 2 of Simonyan and Zisserman (ICLR 2015)
        ("squeezenet", 1_235_496),  # version 1.1
        ("resnet50", 25_557_032 - 26_560),  # without the gains of 26,560 normalized channels, folded into filters
    ],
)
def test_parameters_are_those_published(name: str, parameters: int) -> None:
    assert read_onnx(light(name)).weight_bytes == parameters


def test_operators_of_resnet50() -> None:
    """53 convolutions and a classifier, 16 sums, 2 pools, a softmax; normalizations and ReLUs are folded away."""
    workload = read_onnx(light("resnet50"))
    kinds = [operator.kind for operator in workload.operators]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "conv2d": 53,
        "matmul": 1,
        "elementwise": 16,
        "pool": 2,
        "softmax": 1,
    }
    assert all(len(operator.weights) == 2 for operator in workload.operators if operator.kind in ("conv2d", "matmul"))
    sums = 3 * 256 * 56**2 + 4 * 512 * 28**2 + 6 * 1024 * 14**2 + 3 * 2048 * 7**2
    pools = 64 * 56**2 * 9 + 2048 * 49
    assert workload.vector_ops == sums + pools + 5 * 1000


def test_what_is_not_folded_into_a_convolution_is_counted() -> None:
    """DenseNet normalizes concatenations and convolutions that others read too: Huang et al. (CVPR 2017), table 1."""
    workload = read_onnx(light("densenet121"))
    kinds = [operator.kind for operator in workload.operators]
    assert kinds.count("conv2d") == 121
    # Before each of 58 layers, and before the 3 transitions and the classifier; those of 1x1 outputs, and of the
    # first convolution, are folded.
    assert kinds.count("elementwise") == 58 + 3 + 1
    assert all(o.operations_per_element == 2 for o in workload.operators if o.kind == "elementwise")  # type: ignore[attr-defined]


@each_network
def test_every_element_that_is_written_is_read_or_an_output(name: str) -> None:
    """Views of reads stay inside what was written and miss nothing but rows that no window reaches."""
    workload = read_onnx(light(name))
    read: dict[str, int] = {}
    for operator in workload.operators:
        for index, operand in enumerate(operator.operands):
            needed = operator.operand_box(index, whole_box(1, operator.output.shape))
            for producer, box in operand.source_boxes(needed):
                read[producer] = max(read.get(producer, 0), prod(end - begin for begin, end in box))
    for operator in workload.operators:
        if operator.name not in workload.outputs:
            # A window of 3 with stride 2 leaves the last row and column of an even image unread.
            _, rows, columns = (1, 1, *operator.output.shape)[-3:]
            least = operator.output.elements * max(rows - 1, 1) * max(columns - 1, 1) // (rows * columns)
            assert least <= read[operator.name] <= operator.output.elements


@each_network
def test_cutting_keeps_macs_and_weights(name: str) -> None:
    workload = read_onnx(light(name))
    cut = cut_to_fit(workload, 1 << 20)
    assert (cut.macs, cut.weight_bytes, cut.vector_ops) == (workload.macs, workload.weight_bytes, workload.vector_ops)
    assert max(operator.weight_bytes for operator in cut.operators) <= 1 << 19


def test_the_same_file_gives_the_same_workload() -> None:
    assert read_onnx(light("shufflenet")).digest == read_onnx(light("shufflenet")).digest


def test_onnx_is_imported_only_when_a_file_is_read() -> None:
    code = "import sys, accelsim, accelsim.formats.onnx.reader; assert 'onnx' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
