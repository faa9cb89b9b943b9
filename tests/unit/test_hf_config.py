"""Hugging Face configurations: published models by their published numbers, and everything that is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import AccelsimError, FormatError, UnknownName, WorkloadError
from accelsim.formats.hf_config import MODEL_TYPES, parse_hf_config
from accelsim.library import load_workload
from tests.smoke.command import in_this_process

# Fields of the config.json published with the weights, and the number of parameters that its page states (tied
# tensors once). What is left out has the default of the configuration class.
PUBLISHED: dict[str, tuple[dict[str, Any], int]] = {
    "openai-community/gpt2-medium": (
        {"model_type": "gpt2", "n_embd": 1024, "n_head": 16, "n_layer": 24, "n_positions": 1024, "vocab_size": 50257},
        354_823_168,
    ),
    "facebook/opt-125m": (
        {
            **{"model_type": "opt", "hidden_size": 768, "ffn_dim": 3072, "num_attention_heads": 12},
            **{"num_hidden_layers": 12, "max_position_embeddings": 2048, "word_embed_proj_dim": 768},
            **{"vocab_size": 50272, "do_layer_norm_before": True, "torch_dtype": "float16"},
        },
        125_239_296,
    ),
    "google-bert/bert-large-uncased": (
        {
            **{"model_type": "bert", "hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16},
            **{"num_hidden_layers": 24, "vocab_size": 30522, "type_vocab_size": 2, "hidden_act": "gelu"},
        },
        335_141_888,
    ),
    "meta-llama/Llama-2-7b-hf": (
        {
            **{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_attention_heads": 32},
            **{"num_hidden_layers": 32, "num_key_value_heads": 32, "vocab_size": 32000, "torch_dtype": "float16"},
            **{"max_position_embeddings": 4096, "rope_scaling": None, "tie_word_embeddings": False},
        },
        6_738_415_616,
    ),
    "meta-llama/Meta-Llama-3-8B": (
        {
            **{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32},
            **{"num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256, "torch_dtype": "bfloat16"},
        },
        8_030_261_248,
    ),
    "mistralai/Mistral-7B-v0.1": (
        {
            **{"model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32},
            **{"num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 32000, "sliding_window": 4096},
        },
        7_241_732_096,
    ),
    "mistralai/Mixtral-8x7B-v0.1": (
        {
            **{"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32},
            **{"num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 32000, "sliding_window": None},
            **{"num_local_experts": 8, "num_experts_per_tok": 2},
        },
        46_702_792_704,
    ),
    "Qwen/Qwen2-0.5B": (
        {
            **{"model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14},
            **{"num_hidden_layers": 24, "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True},
            **{"use_sliding_window": False, "max_window_layers": 24, "sliding_window": 131072},
        },
        494_032_768,
    ),
    "Qwen/Qwen2-7B": (
        {
            **{"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_attention_heads": 28},
            **{"num_hidden_layers": 28, "num_key_value_heads": 4, "vocab_size": 152064, "tie_word_embeddings": False},
        },
        7_615_616_512,
    ),
    "Qwen/Qwen3-8B": (
        {
            **{"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "num_attention_heads": 32},
            **{"num_hidden_layers": 36, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936},
            **{"attention_bias": False, "tie_word_embeddings": False, "max_window_layers": 36},
        },
        8_190_735_360,
    ),
    "Qwen/Qwen3-30B-A3B": (
        {
            **{"model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144, "num_attention_heads": 32},
            **{"num_hidden_layers": 48, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936},
            **{"moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1},
            **{"mlp_only_layers": [], "tie_word_embeddings": False, "max_window_layers": 48},
        },
        30_532_122_624,
    ),
    "google/gemma-7b": (
        {
            **{"model_type": "gemma", "hidden_size": 3072, "intermediate_size": 24576, "num_attention_heads": 16},
            **{"num_hidden_layers": 28, "num_key_value_heads": 16, "head_dim": 256, "vocab_size": 256000},
            **{"hidden_act": "gelu"},
        },
        8_537_680_896,
    ),
    "microsoft/phi-2": (
        {
            **{"model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240, "num_attention_heads": 32},
            **{"num_hidden_layers": 32, "partial_rotary_factor": 0.4, "vocab_size": 51200, "qk_layernorm": False},
        },
        2_779_683_840,
    ),
    "microsoft/Phi-3-mini-4k-instruct": (
        {
            **{"model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192, "num_attention_heads": 32},
            **{"num_hidden_layers": 32, "num_key_value_heads": 32, "vocab_size": 32064, "sliding_window": 2047},
        },
        3_821_079_552,
    ),
    "EleutherAI/pythia-6.9b": (
        {
            **{"model_type": "gpt_neox", "hidden_size": 4096, "intermediate_size": 16384, "num_attention_heads": 32},
            **{"num_hidden_layers": 32, "rotary_pct": 0.25, "vocab_size": 50432, "use_parallel_residual": True},
        },
        6_857_302_016,
    ),
    "EleutherAI/gpt-j-6b": (
        {"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_layer": 28, "rotary_dim": 64, "vocab_size": 50400},
        6_050_882_784,
    ),
    "tiiuae/falcon-7b": (
        {
            **{"model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71, "num_hidden_layers": 32},
            **{"multi_query": True, "parallel_attn": True, "bias": False, "alibi": False, "vocab_size": 65024},
        },
        6_921_720_704,
    ),
    "tiiuae/falcon-40b": (
        {
            **{"model_type": "falcon", "hidden_size": 8192, "num_attention_heads": 128, "num_hidden_layers": 60},
            **{"num_kv_heads": 8, "new_decoder_architecture": True, "bias": False, "vocab_size": 65024},
        },
        41_303_293_952,
    ),
    "bigscience/bloom-560m": (
        {"model_type": "bloom", "n_embed": 1024, "n_head": 16, "n_layer": 24, "vocab_size": 250880},
        559_214_592,
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_of_published_models(name: str) -> None:
    config, parameters = PUBLISHED[name]
    # 16 tokens choose 8 of 128 experts each: all are computed, and counted
    assert parse_hf_config(json.dumps(config), name, sequence_length=16).parameters == parameters


@pytest.mark.parametrize(
    ("name", "heads", "width", "layers"),
    [("microsoft/phi-2", 32, 80, 32), ("tiiuae/falcon-7b", 1, 64, 32), ("Qwen/Qwen3-8B", 8, 128, 36)],
)
def test_what_a_token_adds_to_the_cache(name: str, heads: int, width: int, layers: int) -> None:
    """Keys and values of each layer, however much of a head is rotated or normalized."""
    config, _ = PUBLISHED[name]
    workload = parse_hf_config(json.dumps(config), name, phase="decode", sequence_length=9, bits=16)
    written = [workload.operator(output).output for output in workload.outputs if output != "logits"]
    assert sum(tensor.sample_bytes for tensor in written) == 2 * 2 * heads * width * layers
    cached = [tensor for tensor in workload.inputs if tensor.name.endswith("_cache")]
    assert sum(tensor.elements for tensor in cached) == 8 * 2 * heads * width * layers


def test_the_work_of_a_block_whose_parts_stand_side_by_side() -> None:
    """GPT-J with one layer, 6 tokens, width 32 in 2 heads, 4 of 16 features rotated, then joined; by hand."""
    config = {"model_type": "gptj", "n_embd": 32, "n_head": 2, "n_layer": 1, "rotary_dim": 4, "vocab_size": 50}
    workload = parse_hf_config(json.dumps(config), "here", sequence_length=6)
    assert workload.macs == 6 * (4 * 32 * 32 + 2 * 32 * 128 + 32 * 50) + 2 * 2 * 21 * 16
    normalized, rotated, softmax, activated = 2 * 7 * 6 * 32, 2 * 6 * 2 * (3 * 4 + 16), 5 * 2 * 21, 9 * 6 * 128
    embedded, sums = 6 * 32, 2 * 6 * 32
    assert workload.vector_ops == normalized + rotated + softmax + activated + embedded + sums
    bloom = {"model_type": "bloom", "n_embed": 32, "n_head": 2, "n_layer": 1, "vocab_size": 50}
    found = parse_hf_config(json.dumps(bloom), "here", sequence_length=6)
    assert found.macs == workload.macs
    assert found.operator("block0.scores_biased").whole_work(1).operations == 2 * 6 * 6  # type: ignore[union-attr]


def test_every_model_type_is_tested_and_has_defaults() -> None:
    assert {config["model_type"] for config, _ in PUBLISHED.values()} == set(MODEL_TYPES)
    for kind in MODEL_TYPES:
        assert parse_hf_config(json.dumps({"model_type": kind}), kind).macs > 0


@pytest.mark.parametrize(
    ("config", "shipped"),
    [
        ({"model_type": "gpt2"}, "gpt2_small"),
        ({"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25}, "gpt2_xl"),
        ({"model_type": "llama", "max_position_embeddings": 4096}, "llama2_7b"),
        ({"model_type": "mixtral", "max_position_embeddings": 32768}, "mixtral_8x7b"),
    ],
)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_configuration_is_the_shipped_model(config: dict[str, Any], shipped: str, phase: str) -> None:
    read = parse_hf_config(json.dumps(config), "here", phase=phase, sequence_length=40)
    named = load_workload(f"{shipped}_{phase}", sequence_length=40)
    assert (read.operators, read.inputs, read.outputs) == (named.operators, named.inputs, named.outputs)


@pytest.mark.parametrize(("dtype", "bits"), [("float32", 32), ("bfloat16", 16), ("int8", 8), (None, 8)])
@pytest.mark.parametrize("field", ["torch_dtype", "dtype"])
def test_bits_are_those_of_the_type_unless_given(field: str, dtype: str | None, bits: int) -> None:
    text = json.dumps({"model_type": "gpt2", "n_layer": 1, field: dtype})
    assert {one.bits for one in parse_hf_config(text, "here").operators[0].parameters} == {bits}
    assert {one.bits for one in parse_hf_config(text, "here", bits=4).operators[0].parameters} == {4}


def test_by_the_name_of_the_file(tmp_path: Path) -> None:
    for name in ("config.json", "tiny_config.json"):
        (tmp_path / name).write_text('{"model_type": "gpt2", "n_layer": 1, "n_embd": 64, "n_head": 2}')
        network = load_workload(tmp_path / name, phase="decode", context_length=9, batch=3)
        assert (network.name, network.batch) == ("gpt2_decode", 3)
        assert network.inputs[-1].shape == (2, 9, 32)
    run = in_this_process(
        *("run", "config.json", "--hardware", "soma_edge", "--phase", "decode", "--context-length", 9, "--json"),
        folder=tmp_path,
    )
    assert json.loads(run.stdout)["macs"] == 12 * 64**2 + 50257 * 64 + 2 * 64 * 10
    refused = in_this_process(
        *("run", "config.json", "--hardware", "soma_edge", "--phase", "train"), folder=tmp_path, status=2
    )
    assert "phase is 'train', expected one of" in refused.stderr


def test_all_bad_values_at_once() -> None:
    config = {"model_type": "llama", "hidden_size": 0, "num_hidden_layers": "32", "hidden_act": "step", "mlp_bias": 1}
    with pytest.raises(FormatError) as caught:
        parse_hf_config(json.dumps(config), "config.json")
    lines = str(caught.value).splitlines()
    assert len(lines) == 4
    assert all(line.startswith("config.json: ") and "found" in line for line in lines)
    assert "hidden_size: found 0; input should be greater than or equal to 1" in lines[0]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("{", FormatError, "config.json:1:2: not JSON"),
        ("[1]", FormatError, "expected an object with a field model_type"),
        ("{}", FormatError, "expected an object with a field model_type"),
        ("[" * 100_000, FormatError, "not readable as JSON"),
        ('{"model_type": 3}', UnknownName, "found 3; known are bert, bloom, falcon"),
        ('{"model_type": "mixtrl"}', UnknownName, "did you mean 'mixtral'"),
        ('{"model_type": "gpt2", "n_head": 7}', WorkloadError, "7 heads do not share 768 features evenly"),
        ('{"model_type": "gpt2", "n_layer": 16777216}', WorkloadError, "about 268435456 operators"),
        ('{"model_type": "llama", "num_key_value_heads": 5}', WorkloadError, "do not share 5 heads of keys and values"),
        ('{"model_type": "llama", "hidden_size": NaN}', FormatError, "hidden_size: found nan"),
        ('{"model_type": "opt", "word_embed_proj_dim": 512}', WorkloadError, "word_embed_proj_dim: found 512"),
        ('{"model_type": "mixtral", "num_experts_per_tok": 9}', WorkloadError, "9 of 8 experts a token"),
        ('{"model_type": "qwen2", "use_sliding_window": true}', WorkloadError, "max_window_layers: found 28"),
    ],
)
def test_refusals(text: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        parse_hf_config(text, "config.json")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"phase": "train"}, "phase is 'train'"),
        ({"logits": "none"}, "logits is 'none'"),
        ({"sequence_length": 0}, "expected at least 1 position"),
        ({"context_length": -1}, "a cache of 0 or more"),
        ({"bits": 0}, "0 bits per element"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], words: str) -> None:
    with pytest.raises(WorkloadError, match=words):
        parse_hf_config('{"model_type": "gpt2"}', "config.json", **options)


def test_an_encoder_does_not_decode() -> None:
    with pytest.raises(WorkloadError, match="'bert' is an encoder"):
        parse_hf_config('{"model_type": "bert"}', "config.json", phase="decode")


def test_more_positions_than_the_model_was_made_for_are_told() -> None:
    network = parse_hf_config(
        '{"model_type": "gpt2", "n_layer": 1}', "config.json", phase="decode", context_length=1024
    )
    assert network.notes == ("1025 positions are more than the 1024 that the model was made for",)


small = st.integers(-2, 40) | st.sampled_from([None, "x", 1.5, True, [], 2**70])


@settings(max_examples=200, deadline=None)
@given(data=st.data(), kind=st.sampled_from(sorted(MODEL_TYPES)))
def test_whatever_the_fields_hold_there_is_a_model_or_a_clear_refusal(data: st.DataObject, kind: str) -> None:
    fields = [field for field in MODEL_TYPES[kind].model_fields if field != "torch_dtype"]
    layers = "n_layer" if kind == "gpt2" else "num_hidden_layers"
    config = {layers: 1, **data.draw(st.dictionaries(st.sampled_from(fields), small)), "model_type": kind}
    try:
        network = parse_hf_config(json.dumps(config), "config.json", sequence_length=3)
    except AccelsimError as error:
        assert "config.json" in str(error)
    else:
        assert network.macs > 0
