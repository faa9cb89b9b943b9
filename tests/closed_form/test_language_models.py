"""Whole language models: parameters as published, work and caches by the closed forms of the literature."""

from __future__ import annotations

from typing import Any

import pytest

from accelsim.formats.hf_config import parse_hf_config
from accelsim.library import load_workload
from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.models import build
from accelsim.workload.operators import Embedding, MatMul, Normalization, Softmax
from accelsim.workload.tensor import box_elements, whole_box

# Parameters of the published weights, tied tensors counted once.
PARAMETERS = {
    "gpt2_small_prefill": 124_439_808,  # huggingface.co/openai-community/gpt2
    "gpt2_small_decode": 124_439_808,
    "gpt2_xl_prefill": 1_557_611_200,  # huggingface.co/openai-community/gpt2-xl
    "gpt2_xl_decode": 1_557_611_200,
    "llama2_7b_prefill": 6_738_415_616,  # huggingface.co/meta-llama/Llama-2-7b-hf
    "llama2_7b_decode": 6_738_415_616,
    "mixtral_8x7b_prefill": 46_702_792_704,  # huggingface.co/mistralai/Mixtral-8x7B-v0.1
    "bert_base": 109_482_240,  # huggingface.co/google-bert/bert-base-uncased, without the heads of pre-training
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_those_of_the_published_weights(name: str) -> None:
    assert load_workload(name).parameters == PARAMETERS[name]


@pytest.mark.parametrize(("layers", "width"), [(12, 768), (48, 1600), (2, 64)])
def test_gpt2_parameters_by_arithmetic(layers: int, width: int) -> None:
    """Kaplan et al., "Scaling Laws for Neural Language Models", 2020, table 1: N = 12 layers d^2 without embeddings.

    It leaves out biases (9 d a block) and gains (4 d a block and 2 d in the end); here they count.
    """
    network = build("language.gpt2", {"layers": layers, "model_width": width, "heads": width // 32})
    matrices = sum(one.weights[0].elements for one in network.operators if isinstance(one, MatMul) and one.weights)
    assert matrices == 12 * layers * width**2 + 50257 * width
    assert network.parameters == 12 * layers * width**2 + layers * 13 * width + 2 * width + (50257 + 1024) * width


# A token at a context of n positions, itself included: N multiply-accumulates by matrices, the output head among them,
# and 2 n d in attention (Kaplan et al., 2020, table 1, which counts 2 n d operations, a MAC as two, for the scores
# alone; Chowdhery et al., "PaLM", 2022, appendix B, counts both products).
@pytest.mark.parametrize("context", [1, 511, 1023, 4095])
def test_macs_of_a_token_of_gpt2(context: int) -> None:
    network = load_workload("gpt2_small_decode", context_length=context)
    layers, width, positions = 12, 768, context + 1
    assert network.macs == 12 * layers * width**2 + 50257 * width + 2 * layers * width * positions


@pytest.mark.parametrize("kv_heads", [32, 8, 1])
def test_macs_of_a_token_of_llama(kv_heads: int) -> None:
    """Queries and projection 2 d^2, keys and values 2 d kv_heads head_width, feed-forward 3 d f (SwiGLU)."""
    network = load_workload("llama2_7b_decode", kv_heads=kv_heads, context_length=4096)
    layers, width, hidden, head_width = 32, 4096, 11008, 128
    block = 2 * width**2 + 2 * width * kv_heads * head_width + 3 * width * hidden
    assert network.macs == layers * (block + 2 * width * 4097) + 32000 * width


@pytest.mark.parametrize("kv_heads", [32, 8])
@pytest.mark.parametrize("length", [1, 2, 7, 512])
def test_a_prompt_costs_what_its_tokens_cost_one_by_one(length: int, kv_heads: int) -> None:
    """Causal attention: the i-th token attends to i positions. Their sum is n (n + 1) / 2 pairs."""
    parameters = {"layers": 2, "kv_heads": kv_heads}
    prompt = load_workload("llama2_7b_prefill", sequence_length=length, **parameters)
    tokens = [load_workload("llama2_7b_decode", context_length=one, **parameters) for one in range(length)]
    assert prompt.macs == sum(token.macs for token in tokens)
    assert prompt.vector_ops == sum(token.vector_ops for token in tokens)
    if length > 1:
        pairs = 2 * 2 * 4096 * length * (length + 1) // 2
        assert attention_macs(prompt) == pairs


def attention_macs(network: Workload) -> int:
    return sum(
        one.whole_work(1).macs for one in network.operators if isinstance(one, MatMul) and len(one.operands) == 2
    )  # type: ignore[union-attr]


def caches(network: Workload) -> dict[str, tuple[int, int]]:
    """Shape but for the head's width, and bytes, of every cache."""
    return {one.name: (one.shape[:2], one.sample_bytes) for one in network.inputs if one.name.endswith("_cache")}


# Bytes of keys and values: 2 x layers x kv_heads x head_width x context x bytes an element (Pope et al., "Efficiently
# Scaling Transformer Inference", 2022, section 2; Ainslie et al., "GQA", 2023).
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize(
    ("name", "parameters", "layers", "kv_heads", "head_width"),
    [
        ("gpt2_small_decode", {}, 12, 12, 64),
        ("gpt2_xl_decode", {}, 48, 25, 64),
        ("llama2_7b_decode", {}, 32, 32, 128),
        ("llama2_7b_decode", {"kv_heads": 8}, 32, 8, 128),
        ("mixtral_8x7b_decode", {}, 32, 8, 128),
    ],
)
def test_bytes_of_keys_and_values(
    name: str, parameters: dict[str, Any], layers: int, kv_heads: int, head_width: int, bits: int
) -> None:
    context = 4096
    network = load_workload(name, context_length=context, bits=bits, **parameters)
    cache = caches(network)
    assert len(cache) == 2 * layers
    assert {shape for shape, _ in cache.values()} == {(kv_heads, context)}
    assert sum(size for _, size in cache.values()) == 2 * layers * kv_heads * head_width * context * bits // 8
    new = [network.operator(name).output for name in network.outputs if name != "logits"]
    assert sum(one.sample_bytes for one in new) == 2 * layers * kv_heads * head_width * bits // 8


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_query_heads_that_share_keys_load_them_once(phase: str) -> None:
    network = load_workload(f"llama2_7b_{phase}", kv_heads=4, layers=1, sequence_length=101)
    for part, producer in (("scores", "key"), ("attended", "value")):
        operator = network.operator(f"block0.{part}")
        box = operator.operand_box(1, whole_box(1, operator.output.shape))
        needed = dict(operator.operands[1].source_boxes(box))
        new = f"block0.{producer}" + ("_rotated" if producer == "key" else "")
        assert box_elements(needed[new]) == 4 * 128 * (101 if phase == "prefill" else 1)
        assert box_elements(box) == 4 * 128 * 101


def test_only_the_experts_chosen_are_computed_and_loaded() -> None:
    """Mixtral: 12.9 billion parameters are active for a token (Jiang et al., 2024, section 1)."""
    network = load_workload("mixtral_8x7b_decode")
    layers, width, hidden, vocabulary, kv_width = 32, 4096, 14336, 32000, 1024
    block = 2 * width**2 + 2 * width * kv_width + 2 * 3 * width * hidden + 8 * width
    assert network.macs == layers * (block + 2 * width * 4096) + vocabulary * width
    assert network.parameters == layers * (block + 2 * width) + width + 2 * vocabulary * width
    assert round(network.parameters / 1e9, 1) == 12.9
    assert any("spread the tokens evenly" in note for note in network.notes)


@pytest.mark.parametrize(("tokens", "experts", "choices"), [(1, 8, 2), (3, 8, 2), (5, 3, 2), (16, 8, 2), (7, 4, 4)])
def test_every_choice_of_every_token_is_computed_once(tokens: int, experts: int, choices: int) -> None:
    parameters = {"layers": 1, "model_width": 64, "heads": 4, "kv_heads": 2, "feed_forward_width": 32}
    parameters |= {"experts": experts, "experts_per_token": choices, "sequence_length": tokens}
    network = build("language.llama", parameters)
    rows = [one.output.shape[0] for one in network.operators if ".expert" in one.name and one.name.endswith(".down")]
    assert sum(rows) == tokens * choices
    assert len(rows) == min(experts, tokens * choices)
    assert max(rows) - min(rows) <= 1


def test_operations_of_a_block_of_llama() -> None:
    """RMSNorm 4 d twice; rotation 3 (d + kv); softmax 5 a head and position; SwiGLU 5 f; two sums d; final norm 4 d.

    The embedding copies d elements.
    """
    network = load_workload("llama2_7b_decode", layers=1, kv_heads=8, context_length=99)
    width, hidden, heads = 4096, 11008, 32
    block = 2 * 4 * width + 3 * (width + 8 * 128) + 5 * heads * 100 + 5 * hidden + 2 * width
    assert network.vector_ops == width + block + 4 * width


def test_an_encoder_attends_to_everything() -> None:
    network = load_workload("bert_base", sequence_length=128)
    layers, width, length = 12, 768, 128
    assert network.macs == layers * (12 * width**2 * length + 2 * width * length**2) + width**2
    assert attention_macs(network) == layers * 2 * width * length**2
    assert all(one.causal is None for one in network.operators if isinstance(one, Softmax))


def test_a_window_limits_what_is_cached_and_computed() -> None:
    whole = build("language.llama", {"phase": "decode", "context_length": 5000, "layers": 1})
    assert caches(whole)["block0.key_cache"][0] == (32, 5000)
    text = '{"model_type": "mistral", "num_hidden_layers": 1}'
    network = parse_hf_config(text, "here", phase="decode", context_length=5000)
    assert caches(network)["block0.key_cache"][0] == (8, 4095)
    prompt = parse_hf_config(text, "here", sequence_length=5000)
    pairs = sum(min(position + 1, 4096) for position in range(5000))
    exact = 2 * 4096 * pairs
    assert exact <= attention_macs(prompt) < exact + 2 * 4096 * 5000  # rounded up by less than a position a row


def test_all_are_of_the_exact_rule_and_gather_their_embeddings() -> None:
    network = load_workload("gpt2_small_prefill", sequence_length=16)
    assert network.tile_rule is TileRule.EXACT
    tables = [one for one in network.operators if isinstance(one, Embedding)]
    assert [one.table.shape for one in tables] == [(50257, 768), (1024, 768)]
    assert all(one.weight_bytes == 0 for one in tables)
    rows = {one.name: one.shape for one in network.inputs}
    assert rows == {"token_embedding.rows": (16, 768), "tokens": (16,), "position_embedding.rows": (16, 768)}
    assert sum(isinstance(one, Normalization) for one in network.operators) == 2 * 12 + 1
    last = load_workload("gpt2_small_prefill", sequence_length=16, logits="last")
    assert network.macs - last.macs == 15 * 50257 * 768
