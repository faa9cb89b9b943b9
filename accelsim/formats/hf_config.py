"""Hugging Face ``config.json``: a transformer by its published architecture fields, without its weights.

One class a ``model_type``, with the field names and defaults of that configuration class in the transformers library
(huggingface.co/docs/transformers). Fields that decide nothing here are ignored.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from accelsim.errors import FormatError, UnknownName, WorkloadError
from accelsim.units import did_you_mean
from accelsim.workload.graph import Workload
from accelsim.workload.models.language import language_workload
from accelsim.workload.models.language_model import LanguageModel, shared_evenly
from accelsim.yaml_source import read_text

Count = Annotated[int, Field(strict=True, ge=1, le=1 << 24)]
Flag = Annotated[bool, Field(strict=True)]

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
        if self.use_sliding_window and 0 < self.max_window_layers < self.num_hidden_layers:
            raise WorkloadError(
                f"max_window_layers: found {self.max_window_layers}; a window in some of the "
                f"{self.num_hidden_layers} layers only is not understood"
            )
        window = self.sliding_window if self.use_sliding_window and self.max_window_layers == 0 else None
        return LanguageModel(name="qwen2", qkv_bias=True, window=window, **self._common("qwen2"))


MODEL_TYPES: dict[str, type[Config]] = {
    "bert": BertConfig,
    "gpt2": Gpt2Config,
    "llama": LlamaConfig,
    "mistral": MistralConfig,
    "mixtral": MixtralConfig,
    "opt": OptConfig,
    "qwen2": Qwen2Config,
}


def read_hf_config(
    path: str | Path,
    *,
    phase: str = "prefill",
    sequence_length: int | None = None,
    context_length: int | None = None,
    logits: str = "all",
    bits: int | None = None,
) -> Workload:
    """Reads a ``config.json`` as a workload of one sample, named after its model type and phase.

    Phase and lengths as :func:`accelsim.workload.models.language.language_workload` takes them. ``bits`` per element
    are those of the file's ``torch_dtype`` unless given, and 8 where it has none.

    Raises:
        FormatError: the file cannot be read, is no JSON object, or has fields of the wrong type or out of range; all
            such mistakes at once.
        UnknownName: a ``model_type`` that is not known.
        WorkloadError: numbers that do not fit together, or lengths out of range.
    """
    return parse_hf_config(
        read_text(Path(path), FormatError),
        str(path),
        phase=phase,
        sequence_length=sequence_length,
        context_length=context_length,
        logits=logits,
        bits=bits,
    )


def parse_hf_config(text: str, place: str, *, bits: int | None = None, **options: Any) -> Workload:
    """As :func:`read_hf_config`, from the text itself; ``place`` is what messages call it."""
    config = _parse(text, place)
    if bits is None:
        bits = 8 if config.torch_dtype is None else BITS[config.torch_dtype]
    try:
        return language_workload(config.architecture(), bits=bits, **options)
    except WorkloadError as error:
        raise WorkloadError(f"{place}: {error}") from None


def _parse(text: str, place: str) -> Config:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(f"{place}:{error.lineno}:{error.colno}: not JSON: {error.msg}") from None
    except (RecursionError, ValueError) as error:  # ValueError: a number of thousands of digits
        raise FormatError(f"{place}: not readable as JSON: {error}") from None
    if not isinstance(content, dict) or "model_type" not in content:
        raise FormatError(f"{place}: not the configuration of a model: expected an object with a field model_type")
    kind = content["model_type"]
    if not isinstance(kind, str) or kind not in MODEL_TYPES:
        near = did_you_mean(kind, MODEL_TYPES) if isinstance(kind, str) else ""
        raise UnknownName(f"{place}: model_type: found {kind!r}{near}; known are {', '.join(MODEL_TYPES)}")
    try:
        return MODEL_TYPES[kind].model_validate(content)
    except ValidationError as error:
        lines = []
        for mistake in error.errors(include_url=False):
            field = ".".join(str(part) for part in mistake["loc"])
            found = repr(mistake["input"])
            shown = found if len(found) <= 60 else found[:57] + "..."
            message = mistake["msg"]
            lines.append(f"{place}: {field}: found {shown}; {message[:1].lower()}{message[1:]}")
        raise FormatError("\n".join(lines)) from None
