"""Hugging Face's configuration classes of models with root-mean-square normalization: Llama, and what came of it.

As :mod:`accelsim.formats.hf_gpt_models`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from accelsim.errors import WorkloadError
from accelsim.formats.hf_gpt_models import ACTIVATIONS, Activation, Config, Count, Flag, Share
from accelsim.workload.models.language_model import LanguageModel, shared_evenly


class LlamaConfig(Config):
    """``llama``: rotary positions, RMSNorm first, SwiGLU; the base of the model types that differ in a few fields."""

    vocab_size: Count = 32000
    hidden_size: Count = 4096
    intermediate_size: Count = 11008
    num_hidden_layers: Count = 32
    num_attention_heads: Count = 32
    num_key_value_heads: Count | None = None
    head_dim: Count | None = None
    hidden_act: Activation = "silu"
    max_position_embeddings: Count = 2048
    tie_word_embeddings: Flag = False
    attention_bias: Flag = False
    mlp_bias: Flag = False

    def architecture(self) -> LanguageModel:
        """See :meth:`Config.architecture`."""
        return LanguageModel(
            name="llama",
            qkv_bias=self.attention_bias,
            projection_bias=self.attention_bias,
            feed_forward_bias=self.mlp_bias,
            **self._common("llama"),
        )

    def _common(self, name: str) -> dict[str, Any]:
        """What all of this class have."""
        width = self.head_dim or shared_evenly(name, self.hidden_size, self.num_attention_heads)
        return {
            "layers": self.num_hidden_layers,
            "model_width": self.hidden_size,
            "heads": self.num_attention_heads,
            "kv_heads": self.num_key_value_heads or self.num_attention_heads,
            "head_width": width,
            "feed_forward_width": self.intermediate_size,
            "vocabulary": self.vocab_size,
            "positions": self.max_position_embeddings,
            "rms_norm": True,
            "gated": True,
            "activation": ACTIVATIONS[self.hidden_act],
            "tied": self.tie_word_embeddings,
        }


class MistralConfig(LlamaConfig):
    """``mistral`` (Jiang et al., 2023): grouped queries and a sliding window."""

    intermediate_size: Count = 14336
    num_key_value_heads: Count | None = 8
    max_position_embeddings: Count = 131072
    sliding_window: Count | None = 4096

    def architecture(self) -> LanguageModel:
        """See :meth:`Config.architecture`."""
        return LanguageModel(name="mistral", window=self.sliding_window, **self._common("mistral"))


class MixtralConfig(MistralConfig):
    """``mixtral`` (Jiang et al., 2024): a mixture of experts in every block."""

    sliding_window: Count | None = None
    num_local_experts: Count = 8
    num_experts_per_tok: Count = 2

    def architecture(self) -> LanguageModel:
        """See :meth:`Config.architecture`."""
        return LanguageModel(
            name="mixtral",
            window=self.sliding_window,
            experts=self.num_local_experts,
            experts_per_token=self.num_experts_per_tok,
            **self._common("mixtral"),
        )


class Qwen2Config(LlamaConfig):
    """``qwen2`` (Yang et al., 2024): biases of queries, keys and values only; a window only if it is switched on."""

    vocab_size: Count = 151936
    intermediate_size: Count = 22016
    num_key_value_heads: Count | None = 32
    max_position_embeddings: Count = 32768
    use_sliding_window: Flag = False
    sliding_window: Count | None = 4096
    max_window_layers: Annotated[int, Field(strict=True, ge=0)] = 28

    def architecture(self) -> LanguageModel:
        """See :meth:`Config.architecture`."""
        return LanguageModel(name="qwen2", qkv_bias=True, window=self._window(), **self._common("qwen2"))

    def _window(self) -> int | None:
        if self.use_sliding_window and 0 < self.max_window_layers < self.num_hidden_layers:
            raise WorkloadError(
                f"max_window_layers: found {self.max_window_layers}; a window in some of the "
                f"{self.num_hidden_layers} layers only is not understood"
            )
        return self.sliding_window if self.use_sliding_window and self.max_window_layers == 0 else None


class Qwen3Config(Qwen2Config):
    """``qwen3`` (Yang et al., 2025): queries and keys are normalized head by head."""

    head_dim: Count | None = 128

    def architecture(self) -> LanguageModel:
        """See :meth:`Config.architecture`."""
        return self._normalized("qwen3")

    def _normalized(self, name: str, **experts: int) -> LanguageModel:
        return LanguageModel(
            name=name,
            head_norm=True,
            window=self._window(),
            qkv_bias=self.attention_bias,
            projection_bias=self.attention_bias,
            **self._common(name) | experts,
        )


class Qwen3MoeConfig(Qwen3Config):
    """``qwen3_moe``: a mixture of experts, whose width is a field of its own, in every block."""

    hidden_size: Count = 2048
    intermediate_size: Count = 6144
    num_hidden_layers: Count = 24
    num_key_value_heads: Count | None = 4
    head_dim: Count | None = None
    moe_intermediate_size: Count = 768
    num_experts: Count = 128
    num_experts_per_tok: Count = 8
    decoder_sparse_step: Literal[1] = 1
    mlp_only_layers: Annotated[list[int], Field(max_length=0)] | None = None

    def architecture(self) -> LanguageModel:
        """See :meth:`Config.architecture`."""
        return self._normalized(
            "qwen3_moe",
            feed_forward_width=self.moe_intermediate_size,
            experts=self.num_experts,
            experts_per_token=self.num_experts_per_tok,
        )


class Phi3Config(LlamaConfig):
    """``phi3`` (Abdin et al., 2024): as Llama; a part of a head may be rotated."""

    vocab_size: Count = 32064
    hidden_size: Count = 3072
    intermediate_size: Count = 8192
    max_position_embeddings: Count = 4096
    sliding_window: Count | None = None
    partial_rotary_factor: Share = 1.0

    def architecture(self) -> LanguageModel:
        """See :meth:`Config.architecture`."""
        common = self._common("phi3")
        rotated = int(common["head_width"] * self.partial_rotary_factor)
        return LanguageModel(name="phi3", window=self.sliding_window, rotary_width=rotated, **common)


class GemmaConfig(LlamaConfig):
    """``gemma`` (Gemma Team, 2024): a scaled embedding, GeGLU, heads wider than they would be evenly."""

    vocab_size: Count = 256000
    hidden_size: Count = 3072
    intermediate_size: Count = 24576
    num_hidden_layers: Count = 28
    num_attention_heads: Count = 16
    num_key_value_heads: Count | None = 16
    head_dim: Count | None = 256
    hidden_act: Activation = "gelu_pytorch_tanh"
    max_position_embeddings: Count = 8192
    tie_word_embeddings: Flag = True

    def architecture(self) -> LanguageModel:
        """See :meth:`Config.architecture`."""
        return LanguageModel(
            name="gemma",
            embedding_scale=True,
            qkv_bias=self.attention_bias,
            projection_bias=self.attention_bias,
            **self._common("gemma") | {"activation": "gelu_tanh"},  # also where an old file says "gelu", by mistake
        )
