"""The networks of the library, against the published ones, against published totals, and against arithmetic."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from accelsim.formats.layer_list import read_layer_list
from accelsim.library import list_workloads, load_workload
from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.models import build
from accelsim.workload.operator import ArrayWork
from accelsim.workload.operators import Conv2d
from tests.published_networks import digest, published_lines, workload_lines
from tests.reference_data import COPIED, whole_table

FACTS: dict[str, dict[str, Any]] = json.loads((COPIED / "soma_networks.json").read_text())
NETWORKS = {name: load_workload(f"soma.{name}") for name in FACTS}
every_network = pytest.mark.parametrize("name", FACTS)

# Layers; convolutions, grouped, fully connected, sums, pools, point-wise, transposes; GMAC, of which attention;
# millions of vector operations; MB of weights, outputs, external inputs, the largest weight, the largest output.
# Source: the graphs published with SoMa (HPCA 2025), commit 6e80836, walked and counted.
TABLE: dict[str, tuple[float, ...]] = {
    "resnet50": (72, 53, 0, 1, 16, 2, 0, 0, 3.8580, 0, 12.945, 25.5029, 16.3102, 0.1505, 2.3593, 0.8028),
    "resnet101": (140, 104, 0, 1, 33, 2, 0, 0, 7.5702, 0, 19.769, 44.4428, 24.8402, 0.1505, 2.3593, 0.8028),
    "inception_resnet_v1": (
        *(153, 127, 0, 2, 20, 4, 0, 0, 6.2096, 0, 13.828),
        *(25.9204, 18.3415, 0.2682, 3.2113, 1.3830),
    ),
    "randwire_small": (85, 63, 0, 0, 20, 0, 2, 0, 0.9285, 0, 1.769, 7.5764, 3.0231, 0.1505, 0.5898, 0.4014),
    "randwire_large": (253, 100, 97, 0, 56, 0, 0, 0, 0.5737, 0, 6.620, 5.6500, 9.5512, 0.1505, 1.2800, 0.4892),
    "gpt2_small_prefill": (
        *(38, 17, 2, 0, 2, 0, 5, 12, 4.0265, 0.4027, 7.864),
        *(7.0779, 14.1558, 0.3932, 2.3593, 3.1457),
    ),
    "gpt2_small_decode": (42, 17, 2, 0, 2, 0, 7, 14, 0.0079, 0.0008, 1.198, 7.0779, 1.2104, 0.7872, 2.3593, 0.3940),
    "gpt2_xl_prefill": (
        *(64, 30, 2, 0, 2, 0, 5, 25, 34.8127, 3.3554, 45.875),
        *(30.7200, 85.1968, 1.6384, 10.2400, 26.2144),
    ),
    "gpt2_xl_decode": (68, 30, 2, 0, 2, 0, 7, 27, 0.0340, 0.0033, 4.966, 30.7200, 5.0049, 3.2784, 10.2400, 1.6400),
}


def kinds(workload: Workload) -> Counter[str]:
    return Counter(line.split()[1] for line in workload_lines(workload))


@every_network
def test_the_table_of_networks(name: str) -> None:
    network = NETWORKS[name]
    count = kinds(network)
    works = [operator.whole_work(1) for operator in network.operators]
    attention = sum(work.macs for work in works if isinstance(work, ArrayWork) and work.weights_from_operator)
    outputs = [operator.output.sample_bytes for operator in network.operators]
    types = ("conv", "group_conv", "fully_connected", "eltwise", "pool", "pointwise", "transpose")
    assert (
        len(network.operators),
        *(count[one] for one in types),
        *(round(network.macs / 1e9, 4), round(attention / 1e9, 4), round(network.vector_ops / 1e6, 3)),
        *(round(network.weight_bytes / 1e6, 4), round(sum(outputs) / 1e6, 4)),
        round(sum(tensor.sample_bytes for tensor in network.inputs) / 1e6, 4),
        round(max(operator.weight_bytes for operator in network.operators) / 1e6, 4),
        round(max(outputs) / 1e6, 4),
    ) == TABLE[name]


@every_network
def test_every_layer_is_the_published_one(name: str) -> None:
    network, facts = NETWORKS[name], FACTS[name]
    assert network.macs == facts["macs"]
    assert network.vector_ops == facts["vector_ops"]
    assert network.weight_bytes == facts["weight_bytes"]
    assert {tensor.name: list(tensor.shape) for tensor in network.inputs} == facts["inputs"]
    lines = workload_lines(network)
    wrong = [line for line, expected in zip(lines, facts["layers"], strict=True) if digest(line) != expected]
    assert not wrong
    assert network.name == f"soma.{name}"
    assert network.tile_rule is TileRule.SOMA


@every_network
def test_the_published_list_itself(name: str) -> None:
    path = whole_table(f"soma_networks/{name}.json")
    published = json.loads(path.read_text())
    lines = published_lines(published)
    assert workload_lines(NETWORKS[name]) == lines
    assert [digest(line) for line in lines] == FACTS[name]["layers"]
    network = read_layer_list(path)
    assert network.name == name
    assert network.operators == NETWORKS[name].operators
    assert network.inputs == NETWORKS[name].inputs
    assert network.macs + network.vector_ops == sum(layer["ops"] for layer in published["layers"])


# Parameters of the torchvision models (their documentation). They count what is folded away here: gain and bias of a
# normalization after each convolution, and the bias of the classifier. Where the stride stands changes none of it.
@pytest.mark.parametrize(("depth", "parameters"), [(50, 25_557_032), (101, 44_549_160), (152, 60_192_808)])
def test_resnet_has_the_parameters_of_the_known_model(depth: int, parameters: int) -> None:
    network = build("cnn.resnet", {"depth": depth})
    convolutions = [one for one in network.operators if isinstance(one, Conv2d) and not one.fully_connected]
    folded = 2 * sum(one.output.shape[0] for one in convolutions) + 1000
    assert network.weight_bytes + folded == parameters


@pytest.mark.parametrize(("width", "heads", "length"), [(768, 12, 512), (768, 12, 96), (1600, 25, 1024), (64, 1, 2)])
def test_a_block_of_gpt2_by_arithmetic(width: int, heads: int, length: int) -> None:
    """Projections 4 d^2, feed-forward 8 d^2 a position; scores and values d a pair of positions."""
    parameters = {"model_width": width, "heads": heads, "sequence_length": length}
    prefill, decode = (build(f"transformer.gpt2_{phase}", parameters) for phase in ("prefill", "decode"))
    assert prefill.macs == length * 12 * width**2 + 2 * length**2 * width
    assert decode.macs == 12 * width**2 + 2 * length * width
    assert prefill.weight_bytes == decode.weight_bytes == 12 * width**2
    # norm1, norm2 and both sums: 6 d; GELU 4 d; keys turned and joined: 2 d; softmax: one a head and pair.
    assert prefill.vector_ops == length * 12 * width + heads * length**2
    # As above for one position; the new value is turned; keys and values in full are copied, and values turned.
    assert decode.vector_ops == 13 * width + heads * length + 3 * length * width
    caches = [tensor.elements for tensor in decode.inputs[1:]]
    assert caches == [(length - 1) * width] * 2


@every_network
def test_batch_and_bits_scale_what_they_should(name: str) -> None:
    one, four = NETWORKS[name], load_workload(f"soma.{name}", batch=4)
    assert (four.macs, four.vector_ops) == (4 * one.macs, 4 * one.vector_ops)
    assert four.weight_bytes == one.weight_bytes
    if name.startswith("randwire"):
        return
    wide = load_workload(f"soma.{name}", bits=16)
    assert wide.weight_bytes == 2 * one.weight_bytes
    assert [operator.output.sample_bytes for operator in wide.operators] == [
        2 * operator.output.sample_bytes for operator in one.operators
    ]


# Xie et al., ICCV 2019, tables 2 and 3: means over random graphs of WS(4, 0.75), normalizations counted. One graph
# differs from the next by its nodes without predecessors, which have fewer channels.
@pytest.mark.parametrize(("regime", "macs", "parameters"), [("small", 583e6, 5.6e6), ("regular", 4.0e9, 31.9e6)])
def test_randwire_has_the_size_of_the_paper(regime: str, macs: float, parameters: float) -> None:
    networks = [build("randwire.randwire", {"regime": regime, "seed": seed}) for seed in range(8)]
    for network in networks:
        assert network.macs == pytest.approx(macs, rel=0.04)
        assert network.weight_bytes == pytest.approx(parameters, rel=0.04)
    assert len({network.digest for network in networks}) == len(networks)


def test_the_library_lists_every_workload_with_a_sentence() -> None:
    listed = list_workloads()
    assert list(listed) == sorted(listed)
    assert set(listed) >= {"randwire", *(f"soma.{name}" for name in FACTS)}
    assert all(10 < len(sentence) < 120 and "\n" not in sentence for sentence in listed.values())
