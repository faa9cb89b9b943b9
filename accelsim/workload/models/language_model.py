"""What there is to know of a transformer language model to count and move everything in it."""

from __future__ import annotations

from dataclasses import dataclass

from accelsim.errors import WorkloadError

ACTIVATION_OPERATIONS = {"relu": 0, "silu": 4, "gelu": 5, "gelu_tanh": 9, "tanh": 1}
"""Vector operations an element; each exponential, tanh and error function is one.

ReLU is free: the output stage of the array applies it. SiLU x / (1 + exp(-x)): negate, exponential, add, divide.
GELU x/2 (1 + erf(x / sqrt 2)): scale, erf, add, multiply, halve. Its tanh form (Hendrycks and Gimpel, 2016):
square, cube, scale, add, scale, tanh, add, multiply, halve.
"""
ROTARY_OPERATIONS = 3
"""Of an element of rotary position embedding: a pair is rotated by four products and two sums (Su et al., 2021,
equation 34)."""
MAXIMUM_OPERATORS = 1 << 18
"""More operators than this are a mistake in a number, not a model."""


@dataclass(frozen=True, kw_only=True)
class LanguageModel:
    """The architecture of a transformer with one kind of block.

    Raises:
        WorkloadError: numbers that do not fit together; all such mistakes at once.
    """

    name: str
    layers: int
    model_width: int
    heads: int
    kv_heads: int
    """Heads of keys and values, each shared by ``heads / kv_heads`` query heads (Ainslie et al., 2023)."""
    head_width: int
    feed_forward_width: int
    vocabulary: int
    positions: int
    """The longest sequence that it was made for."""
    position_rows: int = 0
    """Rows of a learned table of positions; 0 for rotary position embedding."""
    rotary_width: int | None = None
    """Features of a head that are rotated by their position, where there is no table of positions; None: all."""
    alibi: bool = False
    """Neither: a bias by distance is added to the scores (Press et al., 2022)."""
    token_types: int = 0
    """Rows of a table of segments (BERT)."""
    causal: bool = True
    """A decoder with a causal mask and an output head; else an encoder with a pooler."""
    norm_first: bool = True
    """Normalization before attention and feed-forward, and once at the end; else behind each residual addition."""
    parallel_norms: int = 0
    """Attention and feed-forward read the same, through this many normalizations (1 or 2); 0: one behind the other."""
    embedding_norm: bool = False
    embedding_scale: bool = False
    """The embedding is multiplied by a constant (Gemma)."""
    head_norm: bool = False
    """Queries and keys are normalized head by head (Qwen3)."""
    rms_norm: bool = False
    """Root-mean-square normalization without bias; else layer normalization."""
    gated: bool = False
    """Feed-forward with a gate of its own (SwiGLU; Shazeer, 2020)."""
    activation: str = "gelu"
    qkv_bias: bool = False
    projection_bias: bool = False
    feed_forward_bias: bool = False
    experts: int = 0
    """Feed-forward networks to choose from; 0 where there is one and no choice."""
    experts_per_token: int = 0
    window: int | None = None
    """Positions that a token attends to at the most, itself included."""
    tied: bool = True
    """The output head uses the token table as its weights."""
    head_bias: bool = False

    def __post_init__(self) -> None:
        mistakes = []
        for field in ("layers", "model_width", "heads", "kv_heads", "head_width", "feed_forward_width", "vocabulary"):
            if getattr(self, field) < 1:
                mistakes.append(f"{field} is {getattr(self, field)}; expected at least 1")
        if min(self.heads, self.kv_heads) >= 1 and self.heads % self.kv_heads:
            mistakes.append(f"{self.heads} heads do not share {self.kv_heads} heads of keys and values evenly")
        if not 0 <= (self.rotary_width or 0) <= self.head_width or not 0 <= self.parallel_norms <= 2:
            mistakes.append(
                f"rotary_width is {self.rotary_width} of {self.head_width}, parallel_norms {self.parallel_norms}; "
                "expected no more than a head has, and 0, 1 or 2"
            )
        if self.activation not in ACTIVATION_OPERATIONS:
            known = ", ".join(ACTIVATION_OPERATIONS)
            mistakes.append(f"activation is {self.activation!r}; expected one of {known}")
        if self.experts < 0 or (self.experts and not 1 <= self.experts_per_token <= self.experts):
            mistakes.append(f"{self.experts_per_token} of {self.experts} experts a token; expected 1 to all of them")
        if (operators := self.layers * (16 + 4 * self.experts)) > MAXIMUM_OPERATORS:
            mistakes.append(
                f"{self.layers} layers with {self.experts} experts are about {operators} operators; the most that is "
                f"accepted is {MAXIMUM_OPERATORS}: is a number wrong?"
            )
        if mistakes:
            raise WorkloadError(f"language model '{self.name}': " + "; ".join(mistakes))

    @property
    def rotated(self) -> int:
        """Features of a head that are rotated by their position."""
        if self.position_rows or self.alibi:
            return 0
        return self.head_width if self.rotary_width is None else self.rotary_width


def shared_evenly(name: str, model_width: int, heads: int) -> int:
    """Features of a head, where the heads share all of them.

    Raises:
        WorkloadError: they cannot.
    """
    if heads < 1 or model_width < 1 or model_width % heads:
        raise WorkloadError(f"language model '{name}': {heads} heads do not share {model_width} features evenly")
    return model_width // heads
