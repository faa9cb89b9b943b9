"""The networks as people know them: against the same network from another source, and against published totals."""

from __future__ import annotations

import pytest

from accelsim.errors import WorkloadError
from accelsim.library import load_workload, shipped_onnx
from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.models import build
from accelsim.workload.operators import Conv2d, Elementwise, Pool


def shapes(network: Workload) -> list[tuple[object, ...]]:
    """Every convolution: its output, its input channels, its window and how it moves; in no order."""
    return sorted(
        (one.output.shape, one.operands[0].shape[0], one.kernel, one.stride, one.padding, one.groups)
        for one in network.operators
        if isinstance(one, Conv2d) and one.output.shape[1:] != (1, 1)
    )


def test_resnet50_is_that_of_the_onnx_package() -> None:
    """Its file is of version 1.5; it writes the classifier as a matrix product, and a softmax behind it."""
    plain, exported = load_workload("resnet50"), load_workload(shipped_onnx("resnet50"), bits=8)
    assert shapes(plain) == shapes(exported)
    assert plain.macs == exported.macs
    assert plain.weight_bytes == exported.weight_bytes
    assert plain.vector_ops == exported.vector_ops - 5 * 1000


# Parameters and MACs of the torchvision models (pytorch.org/vision, "num_params" and "_ops" of the weights): they count
# gain and bias of each normalization, of which one value a filter is left.
@pytest.mark.parametrize(
    ("name", "parameters", "gmacs"),
    [
        ("resnet50", 25_557_032, 4.089),
        ("resnet101", 44_549_160, 7.801),
        ("mobilenet_v2", 3_504_872, 0.301),
    ],
)
def test_as_torchvision_counts(name: str, parameters: int, gmacs: float) -> None:
    network = load_workload(name)
    convolutions = [one for one in network.operators if isinstance(one, Conv2d) and not one.fully_connected]
    assert network.parameters + sum(one.output.shape[0] for one in convolutions) == parameters
    assert round(network.macs / 1e9, 3) == gmacs
    assert network.tile_rule is TileRule.EXACT


def test_mobilenet_v2_by_the_rows_of_its_table() -> None:
    """Sandler et al., 2018, table 2: 17 bottlenecks, 10 of them with a residual, and the sizes of the images."""
    network = load_workload("mobilenet_v2")
    sums = [one for one in network.operators if isinstance(one, Elementwise)]
    assert len(sums) == 10 and all(one.operations_per_element == 1 for one in sums)
    projected = [one.output.shape for one in network.operators if one.name.endswith(".project")]
    expected = [(16, 112)] + [(24, 56)] * 2 + [(32, 28)] * 3 + [(64, 14)] * 4 + [(96, 14)] * 3 + [(160, 7)] * 3
    assert projected == [(channels, size, size) for channels, size in [*expected, (320, 7)]]


def test_inception_resnet_is_somas_without_the_dropout() -> None:
    """SoMa's network has a fully connected layer of 1792 x 1792 there, no biases, and 2 operations a sum."""
    plain, soma = load_workload("inception_resnet_v1"), load_workload("soma.inception_resnet_v1")
    assert plain.macs == soma.macs - 1792**2
    biases = sum(one.output.shape[0] for one in plain.operators if isinstance(one, Conv2d))
    assert plain.weight_bytes == soma.weight_bytes - 1792**2 + biases
    sums = sum(one.output.elements for one in plain.operators if isinstance(one, Elementwise))
    assert plain.vector_ops == soma.vector_ops - sums
    assert [one.output.shape for one in plain.operators if isinstance(one, Pool)][-1] == (1792, 1, 1)


# Xie et al., 2019, table 3: RandWire-WS(4, 0.75) with C = 154 has 7.9e9 operations (as MACs) and 61.5e6 parameters.
def test_randwire_large_has_the_size_of_the_paper() -> None:
    network = load_workload("randwire_large")
    assert network.macs == pytest.approx(7.9e9, rel=0.04)
    assert network.parameters == pytest.approx(61.5e6, rel=0.04)


def test_plain_counting_of_random_graphs() -> None:
    plain, soma = (build("randwire.randwire", {"seed": 4, "counting": way}) for way in ("plain", "soma"))
    assert plain.macs == soma.macs
    sums = sum(one.output.elements for one in plain.operators if isinstance(one, Elementwise))
    assert plain.vector_ops == soma.vector_ops - sums
    assert (plain.tile_rule, soma.tile_rule) == (TileRule.EXACT, TileRule.SOMA)
    with pytest.raises(WorkloadError, match="expected soma or plain"):
        build("randwire.randwire", {"counting": "other"})


@pytest.mark.parametrize("model", ["plain_cnn.mobilenet_v2", "plain_cnn.resnet", "plain_cnn.inception_resnet_v1"])
def test_sizes_that_cannot_be(model: str) -> None:
    with pytest.raises(WorkloadError):
        build(model, {"image_size": 0})
    if model.endswith("plain_cnn.resnet"):
        with pytest.raises(WorkloadError, match="depth 51"):
            build(model, {"depth": 51})
