"""One transformer block of GPT-2 (Radford et al., 2019), as SoMa counts it (HPCA 2025, section VI).

Tensors have shape (features, positions, 1). Query times keys, and scores times values, are convolutions with one group
a head whose weights another operator makes. The keys of all heads must exist as one tensor, so that they are transposed
head by head and joined by a copy; the softmax and the normalizations count one operation an element. The whole square
of scores is computed: nothing is saved for the causal mask. Figures of the whole model are those of a block times the
number of blocks; embedding and output head are not part of it.
"""

from __future__ import annotations

from accelsim.errors import WorkloadError
from accelsim.workload.graph import Workload
from accelsim.workload.models.builder import Builder

SWAP_CHANNELS_AND_ROWS = (1, 0, 2)


def gpt2_prefill(*, model_width: int = 768, heads: int = 12, sequence_length: int = 512, bits: int = 8) -> Workload:
    """One block that reads a prompt of ``sequence_length`` positions at once.

    Args:
        model_width: features of a position.
        heads: attention heads; they share the features evenly.
        sequence_length: positions of the prompt.
        bits: bits per element.

    Raises:
        WorkloadError: the heads do not share the features evenly, or a number is below 1.
    """
    head_width = _head_width(model_width, heads)
    net = Builder(bits)
    block_input = net.input("input_qkv", (model_width, sequence_length, 1))
    normalized = net.pointwise("norm1", block_input)
    query = net.conv("attention_Q", normalized, model_width)
    keys = [
        net.transpose(
            f"attention_Kt{head}", net.conv(f"attention_K{head}", normalized, head_width), SWAP_CHANNELS_AND_ROWS
        )
        for head in range(heads)
    ]
    joined_keys = net.pointwise("attention_K", keys)
    values = net.conv("attention_V", normalized, model_width)
    attended = _attention(net, query, joined_keys, values, heads)
    _feed_forward(net, block_input, net.conv("attention_FC", attended, model_width))
    return net.workload("gpt2_prefill")


def gpt2_decode(*, model_width: int = 768, heads: int = 12, sequence_length: int = 513, bits: int = 8) -> Workload:
    """One block that adds one token to ``sequence_length - 1`` whose keys and values are cached.

    The caches are loaded, copied together with the new key and value, and used as weights; the new ones are not
    written back.

    Args:
        model_width: features of a position.
        heads: attention heads; they share the features evenly.
        sequence_length: positions that the new token attends to: those in the cache, and itself.
        bits: bits per element.

    Raises:
        WorkloadError: the heads do not share the features evenly, or ``sequence_length`` is below 2.
    """
    head_width = _head_width(model_width, heads)
    cached = sequence_length - 1
    if cached < 1:
        raise WorkloadError(f"decoding with a sequence of {sequence_length}: at least one cached token and the new one")
    net = Builder(bits)
    block_input = net.input("input_q", (model_width, 1, 1))
    key_cache = net.input("k_cache", (heads * cached, head_width, 1))
    value_cache = net.input("v_cache", (cached, model_width, 1))
    normalized = net.pointwise("norm1", block_input)
    query = net.conv("attention_Q", normalized, model_width)
    new_keys = [
        net.transpose(
            f"attention_newKt_head_{head}",
            net.conv(f"attention_newK_head_{head}", normalized, head_width),
            SWAP_CHANNELS_AND_ROWS,
        )
        for head in range(heads)
    ]
    new_key = net.pointwise("attention_newK", new_keys)
    new_value = net.conv("attention_newV", normalized, model_width)
    keys = net.pointwise("attention_K", [key_cache, new_key])
    turned = net.transpose("attention_newVt", new_value, SWAP_CHANNELS_AND_ROWS)
    joined = net.pointwise("attention_Vt_concat", [value_cache, turned])
    values = net.transpose("attention_V", joined, SWAP_CHANNELS_AND_ROWS)
    attended = _attention(net, query, keys, values, heads)
    _feed_forward(net, block_input, net.conv("attention_Out_proj", attended, model_width))
    return net.workload("gpt2_decode")


def _head_width(model_width: int, heads: int) -> int:
    if heads < 1 or model_width < 1 or model_width % heads:
        raise WorkloadError(f"{heads} heads do not share {model_width} features evenly")
    return model_width // heads


def _attention(net: Builder, query: str, keys: str, values: str, heads: int) -> str:
    """Scores of all heads, their softmax, and the values weighted by them."""
    scores = net.conv("attention_QK", query, net.shape(keys)[0], groups=heads, weights_from=keys)
    weights = net.pointwise("attention_QK_elt", scores)
    return net.conv("attention_QKV", weights, net.shape(values)[0], groups=heads, weights_from=values)


def _feed_forward(net: Builder, block_input: str, projected: str) -> None:
    """From the output projection to the end of the block, with both residual additions."""
    width = net.shape(projected)[0]
    first_sum = net.add("res1", block_input, projected)
    hidden = net.conv("ffn1", net.pointwise("norm2", first_sum), 4 * width)
    net.add("res2", first_sum, net.conv("ffn2", net.pointwise("GeLU", hidden), width))
