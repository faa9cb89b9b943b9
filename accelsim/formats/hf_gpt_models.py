"""Hugging Face's configuration classes of models with layer normalization: GPT, BERT, and what came of them.

One class a ``model_type``, with the field names and defaults of that configuration class in the transformers library
(huggingface.co/docs/transformers). Fields that decide nothing here are ignored.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from accelsim.errors import WorkloadError
from accelsim.workload.models.language_model import LanguageModel, shared_evenly

Count = Annotated[int, Field(strict=True, ge=1, le=1 << 24)]
Flag = Annotated[bool, Field(strict=True)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_fast": "gelu_tanh",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
"""Names of activation functions there and here."""

Activation = Literal["gelu", "gelu_fast", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish", "tanh"]

BITS = {"float32": 32, "float16": 16, "bfloat16": 16, "float8_e4m3fn": 8, "float8_e5m2": 8, "int8": 8}
"""Bits per element of a type of elements."""


class Config(BaseModel):
    """What all model types have."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    torch_dtype: Literal["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8"] | None = Field(
        None, validation_alias=AliasChoices("torch_dtype", "dtype")
    )

    @abstractmethod
    def architecture(self) -> LanguageModel:
        """The model. Raises :class:`WorkloadError` where numbers do not fit together."""


class Gpt2Config(Config):
    """``gpt2``: learned positions, layer normalization first."""

    vocab_size: Count = 50257
    n_positions: Count = 1024
    n_embd: Count = 768
    n_layer: Count = 12
    n_head: Count = 12
    n_inner: Count | None = None
    activation_function: Activation = "gelu_new"
    tie_word_embeddings: Flag = True

    def architecture(self) -> LanguageModel:
        """See :meth:`Config.architecture`."""
        return LanguageModel(
            name="gpt2",
            layers=self.n_layer,
            model_width=self.n_embd,
            heads=self.n_head,
            kv_heads=self.n_head,
            head_width=shared_evenly("gpt2", self.n_embd, self.n_head),
            feed_forward_width=self.n_inner or 4 * self.n_embd,
            vocabulary=self.vocab_size,
            positions=self.n_positions,
            position_rows=self.n_positions,
            activation=ACTIVATIONS[self.activation_function],
            qkv_bias=True,
            projection_bias=True,
            feed_forward_bias=True,
            tied=self.tie_word_embeddings,
        )


class OptConfig(Config):
    """``opt`` (Zhang et al., 2022): learned positions, of which two more are stored than used."""

    vocab_size: Count = 50272
    hidden_size: Count = 768
    num_hidden_layers: Count = 12
    ffn_dim: Count = 3072
    max_position_embeddings: Count = 2048
    num_attention_heads: Count = 12
    word_embed_proj_dim: Count | None = None
    do_layer_norm_before: Flag = True
    activation_function: Activation = "relu"
    enable_bias: Flag = True
    tie_word_embeddings: Flag = True

    def architecture(self) -> LanguageModel:
        """See :meth:`Config.architecture`."""
        if self.word_embed_proj_dim not in (None, self.hidden_size):
            raise WorkloadError(
                f"word_embed_proj_dim: found {self.word_embed_proj_dim}; a projection between embedding and blocks is "
                f"not understood, so that only hidden_size = {self.hidden_size} is accepted"
            )
        return LanguageModel(
            name="opt",
            layers=self.num_hidden_layers,
            model_width=self.hidden_size,
            heads=self.num_attention_heads,
            kv_heads=self.num_attention_heads,
            head_width=shared_evenly("opt", self.hidden_size, self.num_attention_heads),
            feed_forward_width=self.ffn_dim,
            vocabulary=self.vocab_size,
            positions=self.max_position_embeddings,
            position_rows=self.max_position_embeddings + 2,
            norm_first=self.do_layer_norm_before,
            activation=ACTIVATIONS[self.activation_function],
            qkv_bias=self.enable_bias,
            projection_bias=self.enable_bias,
            feed_forward_bias=self.enable_bias,
            tied=self.tie_word_embeddings,
        )


class BertConfig(Config):
    """``bert``: encoder and pooler."""

    vocab_size: Count = 30522
    hidden_size: Count = 768
    num_hidden_layers: Count = 12
    num_attention_heads: Count = 12
    intermediate_size: Count = 3072
    hidden_act: Activation = "gelu"
    max_position_embeddings: Count = 512
    type_vocab_size: Count = 2

    def architecture(self) -> LanguageModel:
        """See :meth:`Config.architecture`."""
        return LanguageModel(
            name="bert",
            layers=self.num_hidden_layers,
            model_width=self.hidden_size,
            heads=self.num_attention_heads,
            kv_heads=self.num_attention_heads,
            head_width=shared_evenly("bert", self.hidden_size, self.num_attention_heads),
            feed_forward_width=self.intermediate_size,
            vocabulary=self.vocab_size,
            positions=self.max_position_embeddings,
            position_rows=self.max_position_embeddings,
            token_types=self.type_vocab_size,
            causal=False,
            norm_first=False,
            embedding_norm=True,
            activation=ACTIVATIONS[self.hidden_act],
            qkv_bias=True,
            projection_bias=True,
            feed_forward_bias=True,
        )


class BloomConfig(Config):
    """``bloom`` (BigScience, 2022): ALiBi, and a normalization behind the embedding."""

    vocab_size: Count = 250880
    hidden_size: Count = Field(64, validation_alias=AliasChoices("hidden_size", "n_embed"))
    n_layer: Count = Field(2, validation_alias=AliasChoices("n_layer", "num_hidden_layers"))
    n_head: Count = Field(8, validation_alias=AliasChoices("n_head", "num_attention_heads"))
    seq_length: Count = 2048
    tie_word_embeddings: Flag = True

    def architecture(self) -> LanguageModel:
        """See :meth:`Config.architecture`."""
        return LanguageModel(
            name="bloom",
            layers=self.n_layer,
            model_width=self.hidden_size,
            heads=self.n_head,
            kv_heads=self.n_head,
            head_width=shared_evenly("bloom", self.hidden_size, self.n_head),
            feed_forward_width=4 * self.hidden_size,
            vocabulary=self.vocab_size,
            positions=self.seq_length,
            alibi=True,
            embedding_norm=True,
            activation="gelu_tanh",
            qkv_bias=True,
            projection_bias=True,
            feed_forward_bias=True,
            tied=self.tie_word_embeddings,
        )


class GptJConfig(Config):
    """``gptj`` (Wang and Komatsuzaki, 2021): attention and feed-forward read the same; a part of a head is rotated."""

    vocab_size: Count = 50400
    n_positions: Count = 2048
    n_embd: Count = 4096
    n_layer: Count = 28
    n_head: Count = 16
    n_inner: Count | None = None
    rotary_dim: Count | None = 64
    activation_function: Activation = "gelu_new"
    tie_word_embeddings: Flag = False

    def architecture(self) -> LanguageModel:
        """See :meth:`Config.architecture`."""
        return LanguageModel(
            name="gptj",
            layers=self.n_layer,
            model_width=self.n_embd,
            heads=self.n_head,
            kv_heads=self.n_head,
            head_width=shared_evenly("gptj", self.n_embd, self.n_head),
            feed_forward_width=self.n_inner or 4 * self.n_embd,
            vocabulary=self.vocab_size,
            positions=self.n_positions,
            rotary_width=self.rotary_dim,
            parallel_norms=1,
            activation=ACTIVATIONS[self.activation_function],
            feed_forward_bias=True,
            head_bias=True,
            tied=self.tie_word_embeddings,
        )


class GptNeoXConfig(Config):
    """``gpt_neox`` (Black et al., 2022): attention and feed-forward read the same, each through its normalization."""

    vocab_size: Count = 50432
    hidden_size: Count = 6144
    num_hidden_layers: Count = 44
    num_attention_heads: Count = 64
    intermediate_size: Count = 24576
    hidden_act: Activation = "gelu"
    rotary_pct: Share = 0.25
    max_position_embeddings: Count = 2048
    use_parallel_residual: Flag = True
    attention_bias: Flag = True
    tie_word_embeddings: Flag = False

    def architecture(self) -> LanguageModel:
        """See :meth:`Config.architecture`."""
        width = shared_evenly("gpt_neox", self.hidden_size, self.num_attention_heads)
        return LanguageModel(
            name="gpt_neox",
            layers=self.num_hidden_layers,
            model_width=self.hidden_size,
            heads=self.num_attention_heads,
            kv_heads=self.num_attention_heads,
            head_width=width,
            feed_forward_width=self.intermediate_size,
            vocabulary=self.vocab_size,
            positions=self.max_position_embeddings,
            rotary_width=int(width * self.rotary_pct),
            parallel_norms=2 if self.use_parallel_residual else 0,
            activation=ACTIVATIONS[self.hidden_act],
            qkv_bias=self.attention_bias,
            projection_bias=self.attention_bias,
            feed_forward_bias=True,
            tied=self.tie_word_embeddings,
        )


class PhiConfig(Config):
    """``phi`` (Javaheripi and Bubeck, 2023): attention and feed-forward read the same; a part of a head is rotated."""

    vocab_size: Count = 51200
    hidden_size: Count = 2048
    intermediate_size: Count = 8192
    num_hidden_layers: Count = 24
    num_attention_heads: Count = 32
    num_key_value_heads: Count | None = None
    hidden_act: Activation = "gelu_new"
    partial_rotary_factor: Share = 0.5
    max_position_embeddings: Count = 2048
    qk_layernorm: Literal[False] = False
    tie_word_embeddings: Flag = False

    def architecture(self) -> LanguageModel:
        """See :meth:`Config.architecture`."""
        width = shared_evenly("phi", self.hidden_size, self.num_attention_heads)
        return LanguageModel(
            name="phi",
            layers=self.num_hidden_layers,
            model_width=self.hidden_size,
            heads=self.num_attention_heads,
            kv_heads=self.num_key_value_heads or self.num_attention_heads,
            head_width=width,
            feed_forward_width=self.intermediate_size,
            vocabulary=self.vocab_size,
            positions=self.max_position_embeddings,
            rotary_width=int(width * self.partial_rotary_factor),
            parallel_norms=1,
            activation=ACTIVATIONS[self.hidden_act],
            qkv_bias=True,
            projection_bias=True,
            feed_forward_bias=True,
            head_bias=True,
            tied=self.tie_word_embeddings,
        )


class FalconConfig(Config):
    """``falcon`` (Almazrouei et al., 2023): one head of keys and values, or a few; ALiBi in its small models."""

    vocab_size: Count = 65024
    hidden_size: Count = 4544
    num_hidden_layers: Count = Field(32, validation_alias=AliasChoices("num_hidden_layers", "n_layer"))
    num_attention_heads: Count = Field(71, validation_alias=AliasChoices("num_attention_heads", "n_head"))
    num_kv_heads: Count | None = Field(None, validation_alias=AliasChoices("num_kv_heads", "n_head_kv"))
    num_ln_in_parallel_attn: Literal[1, 2] | None = None
    ffn_hidden_size: Count | None = None
    activation: Activation = "gelu"
    max_position_embeddings: Count = 2048
    alibi: Flag = False
    new_decoder_architecture: Flag = False
    multi_query: Flag = True
    parallel_attn: Flag = True
    bias: Flag = False
    tie_word_embeddings: Flag = True

    def architecture(self) -> LanguageModel:
        """See :meth:`Config.architecture`."""
        if self.new_decoder_architecture:
            kv_heads = self.num_kv_heads or self.num_attention_heads
            norms: int = self.num_ln_in_parallel_attn or 2
        else:
            kv_heads, norms = 1 if self.multi_query else self.num_attention_heads, int(self.parallel_attn)
        return LanguageModel(
            name="falcon",
            layers=self.num_hidden_layers,
            model_width=self.hidden_size,
            heads=self.num_attention_heads,
            kv_heads=kv_heads,
            head_width=shared_evenly("falcon", self.hidden_size, self.num_attention_heads),
            feed_forward_width=self.ffn_hidden_size or 4 * self.hidden_size,
            vocabulary=self.vocab_size,
            positions=self.max_position_embeddings,
            alibi=self.alibi,
            parallel_norms=norms,
            activation=ACTIVATIONS[self.activation],
            qkv_bias=self.bias,
            projection_bias=self.bias,
            feed_forward_bias=self.bias,
            tied=self.tie_word_embeddings,
        )
