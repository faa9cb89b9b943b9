"""ONNX files as people have them: all of each file is read, or a node is named; MACs agree with a count of their own.

``ACCELSIM_ONNX_MODELS`` names a folder of such files; docs/onnx.md says from which packages they come. Their shapes are
taken from one run of onnxruntime.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accelsim.errors import UnsupportedOperator
from accelsim.formats.onnx.reader import read_onnx
from tests.naive.onnx_macs import bound, has_onnxruntime, macs, shapes_by_inference, shapes_by_running, without_branches
from tests.unit.onnx_models import model, node, save

FOLDER = os.environ.get("ACCELSIM_ONNX_MODELS", "")
FILES = sorted(Path(FOLDER).rglob("*.onnx")) if FOLDER else []
SQUARE = {"DynamicDimension.1": 736, "DynamicDimension.2": 736}
SIZES: dict[str, dict[str, int]] = {
    "ddddocr/common.onnx": {"image_width": 160},
    "ddddocr/common_old.onnx": {"image_width": 160},
    "nudenet/320n.onnx": {"height": 320, "width": 320},
    "ppocrv5/cls/cls.onnx": {"p2o.DynamicDimension.1": 48, "p2o.DynamicDimension.2": 192},
    "ppocrv5/det/det.onnx": SQUARE,
    "ppocrv5/rec/rec.onnx": {"DynamicDimension.1": 320},
    "tashkeel/model.onnx": {"seq": 100, "input_lengths": 100},
    "hebrew/nakdimon.onnx": {"unk__1916": 100},
    "PP-OCRv6_det_small.onnx": SQUARE,
    "PP-OCRv6_rec_small.onnx": {"DynamicDimension.1": 320},
    "ch_ppocr_mobile_v2.0_cls_mobile.onnx": {"x.2": 48, "x.3": 192},
    "ch_PP-OCRv4_det_infer.onnx": {"p2o.DynamicDimension.1": 736, "p2o.DynamicDimension.2": 736},
    "ch_PP-OCRv4_rec_infer.onnx": {"x.2": 48, "p2o.DynamicDimension.1": 320},
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": {"x.2": 48, "x.3": 192},
    "silero_vad/data/silero_vad.onnx": {"input.1": 576, "state.1": 1, "sr": 16000},
    "silero_vad_16k_op15.onnx": {"sequence": 576, "sr": 16000},
    "silero_vad_half.onnx": {"sequence": 576},
    "silero_vad_op18_ifless.onnx": {"sequence": 576, "sr": 16000},
}
"""Sizes of free dimensions, and values of inputs that steer the network, by the end of a path."""


def sizes_of(path: Path) -> dict[str, int]:
    return next((sizes for end, sizes in SIZES.items() if path.as_posix().endswith(end)), {})


@pytest.mark.skipif(not FILES, reason="ACCELSIM_ONNX_MODELS names no folder with .onnx files")
@pytest.mark.skipif(not has_onnxruntime(), reason="onnxruntime (extra onnx-run) is not installed")
@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(FOLDER)) for path in FILES])
def test_a_file_is_read_completely_or_a_node_is_named(path: Path) -> None:
    sizes = sizes_of(path)
    whole = bound(path, sizes)
    try:
        workload = read_onnx(path, bind=sizes)
    except UnsupportedOperator as error:
        named = re.search(r"node '(.*?)' \((.*?)\)", str(error))
        assert named is not None, error
        assert any(named[1] in (one.name, *one.output) and one.op_type == named[2] for one in whole.graph.node)
        assert named[2] in ("If", "Loop", "Scan")
        return
    whole = without_branches(whole, sizes)
    expected = macs(whole, shapes_by_running(whole, sizes))
    assert workload.macs * workload.batch == pytest.approx(expected, rel=1e-3)
    assert not [note for note in workload.notes if "moved data" in note]


def weights(*shape: int) -> Any:
    return np.ones(shape, np.float32)


DETECTOR = (
    [
        node("Conv", "x w1", "a", strides=[2, 2], pads=[1, 1, 1, 1]),
        node("HardSwish", "a", "b"),
        node("Conv", "b w2", "c", group=8, pads=[2, 0, 0, 2], dilations=[1, 2]),
        node("Resize", "c _ scales", "d", mode="linear"),
        node("Conv", "d w3", "e"),
        node("ConvTranspose", "e w4", "f", strides=[2, 2]),
        node("MaxPool", "f", "g", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        node("ReduceMean", "g", "h", axes=[1, 3]),
        node("Sigmoid", "h", "y"),
    ],
    {"x": (1, 3, 32, 40)},
    {"w1": weights(8, 3, 3, 3), "w2": weights(8, 1, 3, 3), "w3": weights(6, 8, 1, 1), "w4": weights(6, 5, 2, 2)}
    | {"scales": np.float32([1, 1, 1.5, 2])},
)
RECOGNIZER = (
    [
        node("LSTM", "x wi wr b", "l", hidden_size=5, direction="bidirectional"),
        node("Transpose", "l", "t", perm=[0, 2, 1, 3]),
        node("Reshape", "t flat", "r"),
        node("GRU", "r gi gr", "g _", hidden_size=4),
        node("Squeeze", "g one", "s"),
        node("MatMul", "s v", "m"),
        node("Softmax", "m", "y", axis=-1),
    ],
    {"x": (7, 1, 6)},
    {
        "wi": weights(2, 20, 6),
        "wr": weights(2, 20, 5),
        "b": weights(2, 40),
        "flat": [7, 1, 10],
        "gi": weights(1, 12, 10),
        "gr": weights(1, 12, 4),
        "one": [1],
        "v": weights(4, 11),
    },
)
ATTENTION = (
    [
        node("MatMul", "x heads", "q"),
        node("MatMul", "turn x", "k"),
        node("Einsum", "q k", "s", equation="hqd,bkd->hqk"),
        node("Softmax", "s", "p", axis=-1),
        node("MatMul", "p x", "o"),
        node("MatMul", "o heads", "y"),
    ],
    {"x": (1, 6, 8)},
    {"heads": weights(3, 8, 8), "turn": weights(6, 6)},
)
QUANTIZED = (
    [
        node("DynamicQuantizeLinear", "x", "q scale zero"),
        node("ConvInteger", "q w zero", "a"),
        node("Cast", "a", "b", to=1),
        node("Mul", "b scale", "c"),
        node("QuantizeLinear", "c by", "d"),
        node("DequantizeLinear", "d by", "e"),
        node("Flatten", "e", "f"),
        node("Gemm", "f v", "y", transB=1),
    ],
    {"x": (1, 3, 8, 8)},
    {"w": np.ones((4, 3, 3, 3), np.uint8), "by": np.float32(0.5), "v": weights(9, 4 * 6 * 6)},
)


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        # 8 * 16 * 20 * 27; 8 * 16 * 18 * 9; 6 * 24 * 36 * 8; 6 * 24 * 36 * 20
        (DETECTOR, 69120 + 20736 + 41472 + 103680),
        # two directions of 7 * 20 * (6 + 5); 7 * 12 * (10 + 4); 7 * 4 * 11
        (RECOGNIZER, 3080 + 1176 + 308),
        # 3 heads of 6 * 8 * 8; 6 * 6 * 8; 3 heads of 6 * 6 * 8, twice; 3 heads of 6 * 8 * 8
        (ATTENTION, 1152 + 288 + 864 + 864 + 1152),
        (QUANTIZED, 4 * 36 * 27 + 9 * 144),
    ],
    ids=["detector", "recognizer", "attention", "quantized"],
)
def test_macs_of_small_networks(tmp_path: Path, network: Any, expected: int) -> None:
    nodes, inputs, arrays = network
    content = model(nodes, inputs, "y", None, arrays)
    assert macs(content, shapes_by_inference(content)) == expected
    workload = read_onnx(save(tmp_path, content))
    assert workload.macs == expected
    assert workload.batch == 1
    if has_onnxruntime():
        assert macs(content, shapes_by_running(content, {})) == expected
