"""Operators of onnxruntime's own domain: shapes that the onnx package does not infer, and work by arithmetic."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from accelsim.errors import FormatError, UnsupportedOperator
from accelsim.formats.onnx.reader import read_onnx
from accelsim.workload.graph import Workload
from accelsim.workload.operators import MatMul, Normalization, Softmax
from tests.unit.onnx_models import model, node, save

ms = partial(node, domain="com.microsoft")


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def read_model(*arguments: Any, **more: Any) -> Workload:
        return read_onnx(save(tmp_path, model(*arguments, **more)), bits=8)

    return read_model


def kinds(workload: Workload) -> list[str]:
    return [operator.kind for operator in workload.operators]


@pytest.mark.parametrize("packed", [False, True])
def test_grouped_query_attention(read: Any, packed: bool) -> None:
    """4 query heads share 2 of keys, width 8; 5 new positions behind 3: 4 + 5 + 6 + 7 + 8 pairs a head."""
    inputs = {"q": (1, 5, 32), "k": (1, 5, 16), "v": (1, 5, 16)} if not packed else {"q": (1, 5, 64)}
    inputs |= {"pk": (1, 2, 3, 8), "pv": (1, 2, 3, 8), "n": (1,), "t": (1,)}
    given = "q _ _" if packed else "q k v"
    attributes = {"num_heads": 4, "kv_num_heads": 2}
    attention = ms("GroupQueryAttention", f"{given} pk pv n t", "a k2 v2", **attributes)
    rest = [node("Exp", "a", "y"), node("Exp", "k2", "z")]
    workload = read([attention, *rest], inputs, "y z v2", integers=["n", "t"])
    assert workload.macs == 4 * 30 * (8 + 8)
    assert workload.operator("y").output.shape == (5, 32)
    assert workload.operator("z").output.shape == (2, 8, 8)
    assert workload.vector_ops == 5 * 4 * 30 + 5 * 32 + 2 * 8 * 8  # softmax and the two functions
    # Rotary embedding: three operations for each of 5 x (32 + 16) elements; its tables have 5 rows of 4.
    turned = ms("GroupQueryAttention", f"{given} pk pv n t cos sin", "a k2 v2", do_rotary=1, **attributes)
    tables = {"cos": (4096, 4), "sin": (4096, 4)}
    rotary = read([turned, *rest], inputs, "y z v2", tables, integers=["n", "t"])
    assert (rotary.macs, rotary.vector_ops) == (workload.macs, workload.vector_ops + 3 * 5 * 48)
    assert rotary.weight_bytes == 2 * 2 * 5 * 4
    # A window of 2, itself among them: 2 pairs for each.
    near = ms("GroupQueryAttention", f"{given} pk pv n t", "a k2 v2", local_window_size=2, **attributes)
    assert read([near, *rest], inputs, "y z v2", integers=["n", "t"]).macs == 4 * 10 * 16


def test_products_with_weights_of_few_bits(tmp_path: Path) -> None:
    """64 x 96 weights of 4 bits; two blocks of 32 a column, each with a scale of 32 bits and a zero point of 4."""
    product = ms("MatMulNBits", "x w s z _ b", "y", K=64, N=96, bits=4, block_size=32)
    weights = {"w": (96, 2, 16), "s": (192,), "z": (96,), "b": (96,)}
    workload = read_onnx(save(tmp_path, model([product], {"x": (1, 5, 64)}, "y", weights)))
    (found,) = workload.operators
    assert isinstance(found, MatMul)
    assert (workload.macs, found.output.shape) == (5 * 64 * 96, (5, 96))
    assert workload.weight_bytes == 64 * 96 // 2 + 2 * 96 * 4 + 2 * 96 // 2 + 96 * 4


def test_rows_of_a_quantized_table(tmp_path: Path) -> None:
    """Two elements of 4 bits a byte: 100 rows of 64."""
    gather = ms("GatherBlockQuantized", "t i s", "e", bits=4, block_size=32)
    content = model(
        [gather, node("Exp", "e", "y")], {"i": (1, 7)}, "y", {"t": (100, 32), "s": (100, 2)}, integers=["i"]
    )
    embedding, function = read_onnx(save(tmp_path, content)).operators
    assert function.output.shape == (7, 64)
    assert embedding.operands[0].shape == (7, 64) and embedding.table.bits == 4  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("op", "parameters", "each"), [("SkipLayerNormalization", "g b", 7), ("SkipSimplifiedLayerNormalization", "g", 4)]
)
@pytest.mark.parametrize("bias", [False, True])
def test_sums_that_are_normalized(read: Any, op: str, parameters: str, each: int, bias: bool) -> None:
    inputs, weights = {"x": (1, 6, 16), "s": (1, 6, 16)}, {"g": (16,), "b": (16,), "c": (16,)}
    skip = ms(op, f"x s {parameters}{' c' if bias else ''}", "n mean inv sum")
    workload = read([skip, node("Exp", "sum", "y")], inputs, "n y", weights)
    assert kinds(workload) == ["elementwise", *(["elementwise"] if bias else []), "normalization", "elementwise"]
    assert workload.vector_ops == 96 * (1 + bias + each + 1)
    alone = read([ms(op, f"x s {parameters}", "y")], inputs, "y", weights)
    assert alone.vector_ops == 96 * (1 + each)
    assert isinstance(alone.operators[-1], Normalization)


def test_a_fused_encoder_block(read: Any) -> None:
    """5 positions of width 16 in 2 heads: embedding, projections, scores and values of all pairs, a GELU with bias."""
    embed = ms("EmbedLayerNormalization", "ids seg W P S g b", "e mask")
    attention = ms("Attention", "e w wb", "a", num_heads=2)
    skip = ms("SkipLayerNormalization", "a e g b wo", "n")
    gelu = [node("MatMul", "n u", "m"), ms("BiasGelu", "m ub", "y")]
    weights = {"W": (100, 16), "P": (32, 16), "S": (2, 16), "g": (16,), "b": (16,), "w": (16, 48), "wb": (48,)}
    weights |= {"wo": (16,), "u": (16, 64), "ub": (64,)}
    workload = read(
        [embed, attention, skip, *gelu], {"ids": (1, 5), "seg": (1, 5)}, "y", weights, integers=["ids", "seg"]
    )
    assert workload.macs == 5 * 16 * 48 + 2 * 5 * 5 * (8 + 8) + 5 * 16 * 64
    # Two embeddings, positions and segments added, normalized; softmax; sum with a bias, normalized; the rest is free.
    assert workload.vector_ops == 80 * (2 + 2 + 7) + 5 * 50 + 80 * (2 + 7)
    assert [operator.kind for operator in workload.operators].count("softmax") == 1


def test_multi_head_attention_with_biases_and_a_mask(read: Any) -> None:
    """Cross attention: 4 positions look at 6, 2 heads of width 8; the mask is added once to each score."""
    inputs = {"x": (1, 4, 16), "e": (1, 6, 16), "mask": (1, 6)}
    projections = [node("MatMul", f"{'x' if name == 'q' else 'e'} w{name}", name) for name in "qkv"]
    attention = ms("MultiHeadAttention", "q k v b mask", "y", num_heads=2)
    weights = {**dict.fromkeys(("wq", "wk", "wv"), (16, 16)), "b": (48,)}
    workload = read([*projections, attention], inputs, "y", weights)
    assert workload.macs == (4 + 6 + 6) * 256 + 2 * 4 * 6 * 16
    assert workload.vector_ops == 48 + 5 * 48
    assert sum(isinstance(operator, Softmax) for operator in workload.operators) == 1
    assert workload.weight_bytes == 3 * 256 + 48


@pytest.mark.parametrize("transposed", ["transA", "transB"])
def test_products_of_what_is_addressed_transposed(read: Any, transposed: str) -> None:
    shapes = {"a": (1, 2, 5, 8), "b": (1, 2, 8, 7)}
    name = transposed[-1].lower()
    shapes[name] = (*shapes[name][:2], *shapes[name][:1:-1])
    workload = read([ms("FusedMatMul", "a b", "y", alpha=0.5, **{transposed: 1})], shapes, "y")
    assert (workload.macs, kinds(workload)) == (2 * 5 * 8 * 7, ["matmul"])
    weights = read([ms("FusedMatMul", "x w", "y", transB=1)], {"x": (1, 5, 8)}, "y", {"w": (7, 8)})
    assert (weights.macs, weights.weight_bytes) == (5 * 8 * 7, 56)


def test_quantized_images(read: Any) -> None:
    """Residual blocks as quantizers write them: sums, pools, concatenations, functions."""
    scale = dict.fromkeys(("s", "t"), 0.5) | {"z": 0}
    nodes = [
        ms("QLinearAdd", "x s z r s z t z", "sum"),
        ms("QLinearSigmoid", "sum s z t z", "sig"),
        ms("QLinearMul", "sum s z sig s z t z", "mul"),
        ms("QLinearConcat", "t z mul s z x s z", "both", axis=1),
        ms("QLinearAveragePool", "both s z t z", "small", kernel_shape=[2, 2], strides=[2, 2]),
        ms("QLinearGlobalAveragePool", "small s z t z", "y"),
    ]
    workload = read(nodes, {"x": (1, 4, 8, 8), "r": (1, 4, 8, 8)}, "y", None, scale)
    assert kinds(workload) == ["elementwise", "elementwise", "elementwise", "pool", "pool"]
    assert workload.vector_ops == 256 + 256 + 256 + 8 * 16 * 4 + 8 * 16
    fused = ms("FusedConv", "x w b", "y", activation="Relu", kernel_shape=[3, 3])
    assert read([fused], {"x": (1, 4, 8, 8)}, "y", {"w": (6, 4, 3, 3), "b": (6,)}).macs == 36 * 6 * 36


def test_products_that_quantize_first(read: Any) -> None:
    workload = read([ms("DynamicQuantizeMatMul", "x w s", "y")], {"x": (1, 5, 8)}, "y", {"w": (8, 7)}, {"s": 0.5})
    assert (workload.macs, workload.vector_ops) == (5 * 8 * 7, 4 * 40)


def test_what_is_refused_or_does_not_fit(read: Any) -> None:
    shapes = {"q": (1, 5, 32), "k": (1, 5, 16), "v": (1, 5, 16)}
    with pytest.raises(UnsupportedOperator, match="no rule tells its cost"):
        read([ms("NotYetKnown", "q", "y")], shapes, "y")
    with pytest.raises(FormatError, match=r"\(GroupQueryAttention\).*do not fit it"):
        read([ms("GroupQueryAttention", "q k v", "y", num_heads=4)], shapes, "y")
    with pytest.raises(UnsupportedOperator, match="a sum that is fused"):
        convolution = ms("FusedConv", "x w _ r", "y", kernel_shape=[1, 1])
        read([convolution], {"x": (1, 4, 8, 8), "r": (1, 6, 8, 8)}, "y", {"w": (6, 4, 1, 1)})
