"""Families of language models as recipes: a few numbers make the architecture, a phase and lengths the workload."""

from __future__ import annotations

from accelsim.workload.graph import Workload
from accelsim.workload.models.language import language_workload
from accelsim.workload.models.language_model import LanguageModel, shared_evenly


def gpt2(
    *,
    layers: int = 12,
    model_width: int = 768,
    heads: int = 12,
    vocabulary: int = 50257,
    positions: int = 1024,
    phase: str = "prefill",
    sequence_length: int | None = None,
    context_length: int | None = None,
    logits: str = "all",
    bits: int = 8,
) -> Workload:
    """GPT-2 (Radford et al., 2019): learned positions, layer normalization first, GELU, biases, tied output head.

    Phase and lengths as :func:`accelsim.workload.models.language.language_workload` takes them, which also raises.
    """
    model = LanguageModel(
        name="gpt2",
        layers=layers,
        model_width=model_width,
        heads=heads,
        kv_heads=heads,
        head_width=shared_evenly("gpt2", model_width, heads),
        feed_forward_width=4 * model_width,
        vocabulary=vocabulary,
        positions=positions,
        position_rows=positions,
        activation="gelu_tanh",
        qkv_bias=True,
        projection_bias=True,
        feed_forward_bias=True,
    )
    return language_workload(
        model,
        phase=phase,
        sequence_length=sequence_length,
        context_length=context_length,
        logits=logits,
        bits=bits,
    )


def llama(
    *,
    layers: int = 32,
    model_width: int = 4096,
    heads: int = 32,
    kv_heads: int = 32,
    feed_forward_width: int = 11008,
    vocabulary: int = 32000,
    positions: int = 4096,
    experts: int = 0,
    experts_per_token: int = 2,
    phase: str = "prefill",
    sequence_length: int | None = None,
    context_length: int | None = None,
    logits: str = "all",
    bits: int = 8,
) -> Workload:
    """Llama (Touvron et al., 2023) and its class: rotary positions, RMSNorm first, SwiGLU, no biases, own output head.

    ``kv_heads`` below ``heads`` gives grouped queries (Llama 2 70B, Llama 3, Mistral); ``experts`` a mixture of experts
    in every block (Mixtral). Phase and lengths as :func:`accelsim.workload.models.language.language_workload` takes
    them, which also raises.
    """
    model = LanguageModel(
        name="llama",
        layers=layers,
        model_width=model_width,
        heads=heads,
        kv_heads=kv_heads,
        head_width=shared_evenly("llama", model_width, heads),
        feed_forward_width=feed_forward_width,
        vocabulary=vocabulary,
        positions=positions,
        rms_norm=True,
        gated=True,
        activation="silu",
        experts=experts,
        experts_per_token=experts_per_token,
        tied=False,
    )
    return language_workload(
        model,
        phase=phase,
        sequence_length=sequence_length,
        context_length=context_length,
        logits=logits,
        bits=bits,
    )


def bert(
    *,
    layers: int = 12,
    model_width: int = 768,
    heads: int = 12,
    vocabulary: int = 30522,
    positions: int = 512,
    sequence_length: int = 384,
    bits: int = 8,
) -> Workload:
    """BERT (Devlin et al., 2019), encoder and pooler: every position attends to all; normalization behind each sum.

    All positions belong to one segment, and none is padding.

    Raises:
        WorkloadError: the heads do not share the features evenly, or a number is out of range.
    """
    model = LanguageModel(
        name="bert",
        layers=layers,
        model_width=model_width,
        heads=heads,
        kv_heads=heads,
        head_width=shared_evenly("bert", model_width, heads),
        feed_forward_width=4 * model_width,
        vocabulary=vocabulary,
        positions=positions,
        position_rows=positions,
        token_types=2,
        causal=False,
        norm_first=False,
        embedding_norm=True,
        qkv_bias=True,
        projection_bias=True,
        feed_forward_bias=True,
    )
    return language_workload(model, sequence_length=sequence_length, bits=bits)
