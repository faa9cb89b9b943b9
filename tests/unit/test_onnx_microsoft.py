"""Operators of onnxruntime's own domain: shapes that the onnx package does not infer, and work by arithmetic."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from accelsim.errors import FormatError, UnsupportedOperator
from accelsim.formats.hf_config import parse_hf_config
from accelsim.formats.onnx.inference import Node
from accelsim.formats.onnx.microsoft_shapes import written_shapes
from accelsim.formats.onnx.reader import read_onnx
from accelsim.workload.graph import Workload
from accelsim.workload.operators import MatMul, Normalization, Softmax
from tests.unit.onnx_models import model, node, save

ms = partial(node, domain="com.microsoft")


def f(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def u(*shape: int) -> Any:
    return np.ones(shape, np.uint8)


def i(*values: int) -> Any:
    return np.array(values, np.int32)


CACHE = f(1, 2, 3, 8)
SCALED = (f(), u())
STEPS = {"strides": [2, 2]}
GROUPED = {"num_heads": 4, "kv_num_heads": 2}
RUNS: list[tuple[str, list[Any], str, dict[str, Any]]] = [
    ("GroupQueryAttention", [f(1, 5, 32), f(1, 5, 16), f(1, 5, 16), CACHE, CACHE, i(7), i(8)], "y k v", GROUPED),
    ("MultiHeadAttention", [f(1, 4, 16), f(1, 6, 16), f(1, 6, 16), f(48)], "y", {"num_heads": 2}),
    ("MultiHeadAttention", [f(1, 4, 16), f(1, 2, 6, 8), f(1, 2, 6, 8)], "y", {"num_heads": 2}),
    ("Attention", [f(1, 5, 16), f(16, 48), f(48)], "y", {"num_heads": 2}),
    ("EmbedLayerNormalization", [i(0, 1)[None], i(0, 1)[None], f(9, 16), f(8, 16), f(2, 16), f(16), f(16)], "y m", {}),
    ("MatMulNBits", [f(1, 5, 64), u(96, 2, 16), f(192)], "y", {"K": 64, "N": 96, "bits": 4, "block_size": 32}),
    ("FusedMatMul", [f(1, 2, 8, 5), f(1, 2, 7, 8)], "y", {"transA": 1, "transB": 1}),
    ("FastGelu", [f(1, 5, 16), f(16)], "y", {}),
    ("BiasGelu", [f(1, 5, 16), f(16)], "y", {}),
    ("QuickGelu", [f(1, 5, 16)], "y", {}),
    ("RotaryEmbedding", [f(1, 5, 32), np.arange(5)[None], f(64, 4), f(64, 4)], "y", {}),
    ("QLinearAdd", [u(1, 4, 8, 8), *SCALED, u(1, 4, 1, 8), *SCALED, *SCALED], "y", {}),
    ("QLinearConcat", [*SCALED, u(1, 4, 8), *SCALED, u(1, 3, 8), *SCALED], "y", {"axis": 1}),
    (
        "QLinearAveragePool",
        [u(1, 4, 8, 8), *SCALED, *SCALED],
        "y",
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    ),
    ("QLinearGlobalAveragePool", [u(1, 4, 8, 8), *SCALED, *SCALED], "y", {}),
    ("DynamicQuantizeMatMul", [f(1, 5, 8), u(8, 7), *SCALED], "y", {}),
    ("MatMulIntegerToFloat", [u(5, 8), u(8, 7), f(), f()], "y", {}),
    (
        "FusedConv",
        [f(1, 4, 8, 8), f(6, 4, 3, 3), f(6)],
        "y",
        {"activation": "Relu", "pads": [1, 1, 1, 1], "strides": [2, 2]},
    ),
    ("FusedGemm", [f(5, 8), f(7, 8), f(7)], "y", {"activation": "Relu", "transB": 1}),
]
"""Operators of onnxruntime, with arrays that it runs them on, names of their outputs, and attributes."""


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


WIDTH, HEADS, GROUPS, HIDDEN, VOCABULARY, LAYERS = 64, 4, 2, 96, 128, 2


def language_model(new: int, cached: int) -> Any:
    """Blocks as onnxruntime-genai exports them: 4-bit products, grouped attention, sums that are normalized."""
    head = WIDTH // HEADS
    inputs: dict[str, Any] = {"ids": (1, new), "n": (1,), "t": (1,)}
    weights: dict[str, Any] = {"T": (VOCABULARY, WIDTH // 2), "Ts": (VOCABULARY, WIDTH // 32), "g": (WIDTH,)}
    weights |= dict.fromkeys(("cos", "sin"), (4096, head // 2))
    nodes = [ms("GatherBlockQuantized", "T ids Ts", "x", bits=4, block_size=32)]
    nodes.append(node("SimplifiedLayerNormalization", "x g", "h", axis=-1))

    def product(source: str, target: str, depth: int, columns: int) -> None:
        weights.update({f"{target}.w": (columns, depth // 32, 16), f"{target}.s": (columns * depth // 32,)})
        given = f"{source} {target}.w {target}.s"
        nodes.append(ms("MatMulNBits", given, target, K=depth, N=columns, bits=4, block_size=32))

    def normalized_sum(one: str, other: str, total: str, result: str) -> None:
        skip = ms("SkipSimplifiedLayerNormalization", f"{one} {other} g", f"{result} _ _ {total}")
        skip.output[1:3] = ["", ""]
        nodes.append(skip)

    total, read = "x", "h"
    for n in range(LAYERS):
        inputs |= dict.fromkeys((f"pk{n}", f"pv{n}"), (1, GROUPS, cached, head))
        for part, heads in (("q", HEADS), ("k", GROUPS), ("v", GROUPS)):
            product(read, f"{part}{n}", WIDTH, heads * head)
        given = f"q{n} k{n} v{n} pk{n} pv{n} n t cos sin"
        shared = {"num_heads": HEADS, "kv_num_heads": GROUPS, "do_rotary": 1}
        nodes.append(ms("GroupQueryAttention", given, f"a{n} nk{n} nv{n}", **shared))
        product(f"a{n}", f"o{n}", WIDTH, WIDTH)
        normalized_sum(total, f"o{n}", f"y{n}", f"z{n}")
        product(f"z{n}", f"gate{n}", WIDTH, HIDDEN)
        product(f"z{n}", f"up{n}", WIDTH, HIDDEN)
        nodes.append(node("Sigmoid", f"gate{n}", f"sigmoid{n}"))
        nodes.append(node("Mul", f"gate{n} sigmoid{n}", f"silu{n}"))
        nodes.append(node("Mul", f"silu{n} up{n}", f"both{n}"))
        product(f"both{n}", f"down{n}", HIDDEN, WIDTH)
        normalized_sum(f"y{n}", f"down{n}", f"x{n}", f"h{n}")
        total, read = f"x{n}", f"h{n}"
    product(read, "logits", WIDTH, VOCABULARY)
    outputs = ["logits", *(f"n{part}{n}" for n in range(LAYERS) for part in "kv")]
    return model(nodes, inputs, " ".join(outputs), weights, integers=["ids", "n", "t"])


@pytest.mark.parametrize(("phase", "new", "cached"), [("decode", 1, 8), ("prefill", 6, 3)])
def test_an_exported_language_model_is_that_of_its_configuration(
    tmp_path: Path, phase: str, new: int, cached: int
) -> None:
    exported = read_onnx(save(tmp_path, language_model(new, cached)), bits=8)
    config = {"model_type": "llama", "hidden_size": WIDTH, "intermediate_size": HIDDEN, "vocab_size": VOCABULARY}
    config |= {"num_attention_heads": HEADS, "num_key_value_heads": GROUPS, "num_hidden_layers": LAYERS}
    made = parse_hf_config(json.dumps(config), "config.json", phase=phase, sequence_length=new, context_length=cached)
    assert exported.macs == made.macs
    assert kinds(exported).count("matmul") == kinds(made).count("matmul")
    cache = [tensor.elements for tensor in exported.inputs if tensor.name.startswith("p")]
    assert sorted(cache) == sorted(tensor.elements for tensor in made.inputs if tensor.name.endswith("_cache"))


def test_products_that_quantize_first(read: Any) -> None:
    workload = read([ms("DynamicQuantizeMatMul", "x w s", "y")], {"x": (1, 5, 8)}, "y", {"w": (8, 7)}, {"s": 0.5})
    assert (workload.macs, workload.vector_ops) == (5 * 8 * 7, 4 * 40)


def test_shapes_are_those_of_onnxruntime() -> None:
    """Each operator once, run by onnxruntime itself."""
    runtime = pytest.importorskip("onnxruntime", reason="needs the extra 'onnx-run'")
    for op, given, outputs, attributes in RUNS:
        names = "".join(f"i{number} " for number, _ in enumerate(given))
        content = model([ms(op, names, outputs, **attributes)], {}, outputs)
        for name, array in zip(names.split(), given, strict=True):
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            content.graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
        for output in content.graph.output:
            output.ClearField("type")
        session = runtime.InferenceSession(content.SerializeToString(), providers=["CPUExecutionProvider"])
        found = [array.shape for array in session.run(None, dict(zip(names.split(), given, strict=True)))]
        shapes = {name: array.shape for name, array in zip(names.split(), given, strict=True)}
        written = Node(op, "", tuple(names.split()), tuple(outputs.split()), attributes)
        assert written_shapes(written, shapes)[: len(found)] == found, op


def test_what_is_refused_or_does_not_fit(read: Any) -> None:
    shapes = {"q": (1, 5, 32), "k": (1, 5, 16), "v": (1, 5, 16)}
    with pytest.raises(UnsupportedOperator, match="no rule tells its cost"):
        read([ms("NotYetKnown", "q", "y")], shapes, "y")
    with pytest.raises(FormatError, match=r"\(GroupQueryAttention\).*do not fit it"):
        read([ms("GroupQueryAttention", "q k v", "y", num_heads=4)], shapes, "y")
    with pytest.raises(FormatError, match=r"\(MultiHeadAttention\): packed queries"):
        read([ms("MultiHeadAttention", "q", "y", num_heads=2)], {"q": (1, 5, 2, 3, 8)}, "y")
    with pytest.raises(UnsupportedOperator, match="a sum that is fused"):
        convolution = ms("FusedConv", "x w _ r", "y", kernel_shape=[1, 1])
        read([convolution], {"x": (1, 4, 8, 8), "r": (1, 6, 8, 8)}, "y", {"w": (6, 4, 1, 1)})
