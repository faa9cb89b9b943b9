"""Transformer language models as a whole: embedding, all blocks, output head; a prompt at once, or one token.

Tensors have shape (positions, features). Heads are split and joined, and keys transposed, by the order in which the
array addresses them: free views. All heads of a block are one product; query heads that share keys and values are its
rows, so that these are loaded once. Where the model is causal, only what the mask keeps is computed.

Operations on the vector unit: layer normalization 7 an element, root-mean-square normalization 4, softmax 5, rotary
embedding 3 an element that is rotated (its table of sines is not loaded), ALiBi 1 a score, activations as in
:data:`accelsim.workload.models.language_model.ACTIVATION_OPERATIONS`, one for each product and sum of residuals, gates
and experts.
"""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.errors import WorkloadError
from accelsim.workload.graph import Workload
from accelsim.workload.models.language_model import ACTIVATION_OPERATIONS, ROTARY_OPERATIONS, LanguageModel
from accelsim.workload.operator import Operand, Operator, Source
from accelsim.workload.operators import Elementwise, Embedding, MatMul, Normalization, Softmax
from accelsim.workload.operators.causal import CausalMask
from accelsim.workload.operators.normalization import NORMALIZATION_OPERATIONS, RMS_NORMALIZATION_OPERATIONS
from accelsim.workload.tensor import Tensor
from accelsim.workload.views import joined, permuted, reshaped, sliced

INDEX_BITS = 32
"""Bits of a token number."""
PHASES = ("prefill", "decode")
LOGITS = ("all", "last")
DEFAULT_SEQUENCE_LENGTH = 512


def language_workload(
    model: LanguageModel,
    *,
    phase: str = "prefill",
    sequence_length: int | None = None,
    context_length: int | None = None,
    logits: str = "all",
    bits: int = 8,
) -> Workload:
    """A language model as a workload of one sample.

    Keys and values of cached positions are external inputs ``blockN.key_cache`` and ``blockN.value_cache`` of shape
    (kv_heads, cached positions, head_width); those of the new positions are outputs, beside the logits. With a sliding
    window no more is cached than a new token still attends to.

    Args:
        model: the architecture.
        phase: ``prefill`` computes a prompt at once, ``decode`` one token after those in the cache.
        sequence_length: prefill: positions computed at once. decode: positions that the new token attends to, itself
            included. By default 512, or all that the model was made for if these are fewer.
        context_length: positions in the cache. By default none for prefill, ``sequence_length - 1`` for decode, where
            it takes precedence over ``sequence_length``.
        logits: ``all`` positions, as the model's forward pass gives them, or the ``last`` one, which is all that
            generation needs.
        bits: bits per element of weights, activations and caches.

    Raises:
        WorkloadError: a phase that there is not, a length out of range, or an encoder that is asked to decode.
    """
    if phase not in PHASES or logits not in LOGITS:
        raise WorkloadError(f"phase is {phase!r}, expected one of {PHASES}; logits is {logits!r}, one of {LOGITS}")
    if not model.causal and (phase == "decode" or context_length):
        raise WorkloadError(f"'{model.name}' is an encoder: it has no cache and nothing to decode; use phase prefill")
    if sequence_length is None:
        sequence_length = min(DEFAULT_SEQUENCE_LENGTH, model.positions)
    new = 1 if phase == "decode" else sequence_length
    cached = context_length if context_length is not None else sequence_length - 1 if phase == "decode" else 0
    if new < 1 or cached < 0:
        raise WorkloadError(
            f"sequence_length is {sequence_length}, context_length {context_length}: expected at least 1 position "
            "to compute, and a cache of 0 or more"
        )
    notes = []
    if new + cached > model.positions:
        notes.append(f"{new + cached} positions are more than the {model.positions} that the model was made for")
    if model.experts:
        notes.append(
            f"the router is taken to spread the tokens evenly over the {model.experts} experts; "
            f"{min(model.experts, new * model.experts_per_token)} of them are computed, and only their weights loaded"
        )
    if model.window is not None:
        cached = min(cached, model.window - 1)
    net = _Network(model, new, cached, bits)
    last = _embedding(net)
    for number in range(model.layers):
        last = _block(net, f"block{number}", last)
    _head(net, last, logits)
    return Workload(
        f"{model.name}_{phase}" if model.causal else model.name,
        tuple(net.operators),
        tuple(net.inputs),
        outputs=tuple(net.outputs),
        notes=tuple(notes),
    )


class _Network:
    """The operators so far. Methods add one and return its name; ``read`` gives what it wrote as an operand."""

    def __init__(self, model: LanguageModel, new: int, cached: int, bits: int) -> None:
        self.model, self.new, self.cached = model, new, cached
        self.inputs: list[Tensor] = []
        self.operators: list[Operator] = []
        self.outputs: list[str] = []
        self._bits = bits
        self._shapes: dict[str, tuple[int, ...]] = {}

    def tensor(self, name: str, shape: Sequence[int]) -> Tensor:
        return Tensor(name, tuple(shape), self._bits)

    def read(self, name: str) -> Operand:
        return Operand((Source(name),), self._shapes[name])

    def input(self, name: str, shape: tuple[int, ...], bits: int | None = None) -> Operand:
        self.inputs.append(Tensor(name, shape, bits or self._bits))
        self._shapes[name] = shape
        return self.read(name)

    def add(self, operator: Operator) -> str:
        self.operators.append(operator)
        self._shapes[operator.name] = operator.output.shape
        return operator.name

    def linear(
        self, name: str, operand: Operand, features: int, *, bias: bool = False, heads: int = 1, table: str = ""
    ) -> str:
        """Times a matrix of parameters, which may be the ``table`` of an embedding."""
        weights = [self.tensor(table or f"{name}.weight", (operand.shape[-1], features))]
        if bias:
            weights.append(self.tensor(f"{name}.bias", (features,)))
        output = self.tensor(name, (*operand.shape[:-1], features))
        return self.add(MatMul(name, (operand,), output, tuple(weights), heads=heads))

    def norm(self, name: str, producer: str) -> str:
        width = self.model.model_width
        weights = [self.tensor(f"{name}.gain", (width,))]
        operations = RMS_NORMALIZATION_OPERATIONS
        if not self.model.rms_norm:
            weights.append(self.tensor(f"{name}.bias", (width,)))
            operations = NORMALIZATION_OPERATIONS
        operand = self.read(producer)
        output = self.tensor(name, operand.shape)
        return self.add(
            Normalization(name, (operand,), output, tuple(weights), axes=(1,), operations_per_element=operations)
        )

    def head_norm(self, name: str, operand: Operand) -> str:
        """Root-mean-square normalization of each head of (positions, heads, features), with one gain for all heads."""
        gain, output = self.tensor(f"{name}.gain", operand.shape[-1:]), self.tensor(name, operand.shape)
        return self.add(Normalization(name, (operand,), output, (gain,), (2,), RMS_NORMALIZATION_OPERATIONS))

    def pointwise(self, name: str, operands: Sequence[Operand], operations: int) -> str:
        """Element by element, of the first operand's shape."""
        output = self.tensor(name, operands[0].shape)
        return self.add(Elementwise(name, tuple(operands), output, operations_per_element=operations))

    def activation(self, name: str, producer: str, function: str) -> str:
        operations = ACTIVATION_OPERATIONS[function]
        return self.pointwise(name, [self.read(producer)], operations) if operations else producer

    def table(self, name: str, rows: int, gathered: int, *, indices: bool) -> str:
        """Rows of a table of parameters; without ``indices`` they follow one another."""
        width = self.model.model_width
        operands = [self.input(f"{name}.rows", (gathered, width))]
        if indices:
            operands.append(self.input("tokens", (gathered,), INDEX_BITS))
        output = self.tensor(name, (gathered, width))
        return self.add(Embedding(name, tuple(operands), output, table=self.tensor(f"{name}.table", (rows, width))))


TOKENS = "token_embedding"


def _embedding(net: _Network) -> str:
    model = net.model
    parts = [net.table(TOKENS, model.vocabulary, net.new, indices=True)]
    if model.position_rows:
        parts.append(net.table("position_embedding", max(model.position_rows, net.new), net.new, indices=False))
    if model.token_types:  # all tokens are of one segment
        parts.append(net.table("token_type_embedding", model.token_types, 1, indices=False))
    last = parts[0]
    if len(parts) > 1:
        last = net.pointwise("embedding", [net.read(part) for part in parts], len(parts) - 1)
    if model.embedding_scale:
        last = net.pointwise("embedding_scaled", [net.read(last)], 1)
    return net.norm("embedding_norm", last) if model.embedding_norm else last


def _block(net: _Network, name: str, last: str) -> str:
    """Attention and feed-forward, each with its normalization and residual addition, or both beside one another."""
    if net.model.parallel_norms:
        read = net.norm(f"{name}.attention_norm", last)
        attended = _attention(net, name, read)
        if net.model.parallel_norms > 1:
            read = net.norm(f"{name}.feed_forward_norm", last)
        parts = (last, attended, _feed_forward(net, name, read))
        return net.pointwise(f"{name}.sum", [net.read(part) for part in parts], len(parts) - 1)
    for part, layer in (("attention", _attention), ("feed_forward", _feed_forward)):
        read = net.norm(f"{name}.{part}_norm", last) if net.model.norm_first else last
        last = net.pointwise(f"{name}.{part}_sum", [net.read(last), net.read(layer(net, name, read))], 1)
        if not net.model.norm_first:
            last = net.norm(f"{name}.{part}_norm", last)
    return last


def _attention(net: _Network, name: str, last: str) -> str:
    """Queries, keys and values of the new positions; scores over them and the cache; the weighted values, projected.

    The query heads of a group stand together before their shared keys and values: as rows if there is one position,
    else along an axis of their own.
    """
    model, new, cached = net.model, net.new, net.cached
    groups, sharing, width = model.kv_heads, model.heads // model.kv_heads, model.head_width
    query = _by_head(net, f"{name}.query", net.read(last), model.heads)
    key = _by_head(net, f"{name}.key", net.read(last), groups)
    value = net.linear(f"{name}.value", net.read(last), groups * width, bias=model.qkv_bias, heads=groups)
    keys = [permuted(_shaped(net.read(key), (new, groups, width)), (1, 2, 0))]
    values = [permuted(_shaped(net.read(value), (new, groups, width)), (1, 0, 2))]
    if model.causal:
        net.outputs += [key, value]
    if cached:
        keys.insert(0, permuted(net.input(f"{name}.key_cache", (groups, cached, width)), (0, 2, 1)))
        values.insert(0, net.input(f"{name}.value_cache", (groups, cached, width)))
    all_keys, all_values = _joined(keys, 2), _joined(values, 1)
    queries = permuted(_shaped(net.read(query), (new, groups, sharing, width)), (1, 2, 0, 3))
    apart = new > 1 and sharing > 1
    heads = (groups, sharing) if apart else (groups,)
    queries = _shaped(queries, (*heads, new if apart else new * sharing, width))
    if apart:
        all_keys = _shaped(all_keys, (groups, 1, *all_keys.shape[1:]))
        all_values = _shaped(all_values, (groups, 1, *all_values.shape[1:]))
    mask = CausalMask(cached, model.window) if model.causal and new > 1 else None
    shape = (*queries.shape[:-1], new + cached)
    scores = MatMul(f"{name}.scores", (queries, all_keys), net.tensor(f"{name}.scores", shape), causal_columns=mask)
    scored = net.read(net.add(scores))
    if model.alibi:
        scored = net.read(net.pointwise(f"{name}.scores_biased", [scored], 1))
    softmax = Softmax(f"{name}.softmax", (scored,), net.tensor(f"{name}.softmax", shape), causal=mask)
    operands = (net.read(net.add(softmax)), all_values)
    output = net.tensor(f"{name}.attended", (*shape[:-1], width))
    attended = net.read(net.add(MatMul(f"{name}.attended", operands, output, causal_depth=mask)))
    by_position = permuted(_shaped(attended, (groups, sharing, new, width)), (2, 0, 1, 3))
    flat = _shaped(by_position, (new, model.heads * width))
    return net.linear(f"{name}.projection", flat, model.model_width, bias=model.projection_bias)


def _by_head(net: _Network, name: str, operand: Operand, heads: int) -> str:
    """Queries or keys, normalized and rotated head by head; where only a part of a head is, the whole is copied."""
    model, new, width = net.model, net.new, net.model.head_width
    last = net.linear(name, operand, heads * width, bias=model.qkv_bias, heads=heads)
    if model.head_norm:
        last = net.head_norm(f"{name}_norm", _shaped(net.read(last), (new, heads, width)))
    if not model.rotated:
        return last
    if model.rotated == width:
        return net.pointwise(f"{name}_rotated", [net.read(last)], ROTARY_OPERATIONS)
    whole = _shaped(net.read(last), (new, heads, width))
    first = sliced(whole, (0, 0, 0), (new, heads, model.rotated))
    rotated = net.read(net.pointwise(f"{name}_rotated", [first], ROTARY_OPERATIONS))
    rest = sliced(whole, (0, 0, model.rotated), (new, heads, width - model.rotated))
    return net.pointwise(f"{name}_joined", [_joined([rotated, rest], 2)], 1)


def _feed_forward(net: _Network, name: str, last: str) -> str:
    if net.model.experts:
        return _experts(net, name, last)
    return _network(net, name, net.read(last))


def _network(net: _Network, name: str, operand: Operand) -> str:
    """One feed-forward network, with or without a gate."""
    model = net.model
    width, bias = model.feed_forward_width, model.feed_forward_bias
    if model.gated:
        gate = net.linear(f"{name}.gate", operand, width, bias=bias)
        up = net.linear(f"{name}.up", operand, width, bias=bias)
        operations = ACTIVATION_OPERATIONS[model.activation] + 1
        hidden = net.pointwise(f"{name}.gated", [net.read(gate), net.read(up)], operations)
    else:
        up = net.linear(f"{name}.up", operand, width, bias=bias)
        hidden = net.activation(f"{name}.activation", up, model.activation)
    return net.linear(f"{name}.down", net.read(hidden), model.model_width, bias=bias)


def _experts(net: _Network, name: str, last: str) -> str:
    """A mixture of experts (Jiang et al., "Mixtral of Experts", 2024, section 2.1), evenly used.

    Choice c of position p is row c x positions + p of a list that is cut evenly over the experts. Rows are gathered and
    scattered by address, as those of an embedding are; an expert without rows is neither computed nor loaded.
    """
    model, new = net.model, net.new
    choices = model.experts_per_token
    router = net.read(net.linear(f"{name}.router", net.read(last), model.experts))
    chosen = net.pointwise(f"{name}.top_k", [router], choices)  # one comparison an expert for each choice
    softmax = net.tensor(f"{name}.router_softmax", router.shape)
    shares = net.read(net.add(Softmax(softmax.name, (net.read(chosen),), softmax)))
    pieces: list[list[Operand]] = [[] for _ in range(choices)]
    for expert in range(model.experts):
        begin, end = (new * choices * edge // model.experts for edge in (expert, expert + 1))
        if begin == end:
            continue
        spans = [
            (choice, max(begin - choice * new, 0), min(end - choice * new, new))
            for choice in range(begin // new, (end - 1) // new + 1)
        ]
        width = model.model_width
        rows = _joined([sliced(net.read(last), (low, 0), (high - low, width)) for _, low, high in spans], 0)
        output = net.read(_network(net, f"{name}.expert{expert}", rows))
        offset = 0
        for choice, low, high in spans:
            pieces[choice].append(sliced(output, (offset, 0), (high - low, width)))
            offset += high - low
    results = [_joined(piece, 0) for piece in pieces]
    weights = [sliced(shares, (0, choice), (new, 1)) for choice in range(choices)]
    return net.pointwise(f"{name}.combined", [*results, *weights], 2 * choices - 1)


def _head(net: _Network, last: str, logits: str) -> None:
    """The output head, or the pooler of an encoder: a layer and tanh over its first position."""
    model = net.model
    width = model.model_width
    if model.norm_first:
        last = net.norm("final_norm", last)
    if not model.causal:
        pooled = net.linear("pooler", sliced(net.read(last), (0, 0), (1, width)), width, bias=True)
        net.outputs += [last, net.activation("pooler_activation", pooled, "tanh")]
        return
    operand = net.read(last)
    if logits == "last":
        operand = sliced(operand, (net.new - 1, 0), (1, width))
    table = f"{TOKENS}.table" if model.tied else ""
    net.outputs.append(net.linear("logits", operand, model.vocabulary, bias=model.head_bias, table=table))


def _shaped(operand: Operand, shape: tuple[int, ...]) -> Operand:
    view = reshaped(operand, shape)
    assert view is not None  # the joined axis is kept
    return view


def _joined(operands: Sequence[Operand], axis: int) -> Operand:
    whole = joined(operands, axis)
    assert whole is not None  # none of them is joined along another axis
    return whole
