"""Convolutional networks as people know them: with biases, additions counted as such, exact tiles."""

from __future__ import annotations

from accelsim.workload.graph import Workload
from accelsim.workload.models.builder import Builder
from accelsim.workload.models.cnn import inception_resnet_body, resnet_stages


def resnet(depth: int = 50, *, image_size: int = 224, classes: int = 1000, bits: int = 8) -> Workload:
    """ResNet v1.5 with bottleneck blocks: the 3x3 of a block has the stride, as in all common implementations.

    He et al., CVPR 2016; the variant as in torchvision and in MLPerf Inference.

    Args:
        depth: 50, 101 or 152.
        image_size: rows and columns of the image.
        classes: outputs of the classifier.
        bits: bits per element.

    Raises:
        WorkloadError: another depth, or an image too small for the network.
    """
    net, stages = Builder(bits, plain=True), resnet_stages(depth)
    last = net.conv("conv1", net.input("input", (3, image_size, image_size)), 64, (7, 7), 2)
    last = net.pool("maxpool", last, (3, 3), 2)
    for stage, blocks in enumerate(stages, start=1):
        width = 64 << (stage - 1)
        for block in range(blocks):
            name = f"layer{stage}.{block}"
            stride = 2 if block == 0 and stage > 1 else 1
            narrow = net.conv(f"{name}.conv1", last, width)
            middle = net.conv(f"{name}.conv2", narrow, width, (3, 3), stride)
            wide = net.conv(f"{name}.conv3", middle, 4 * width)
            if block == 0:
                last = net.conv(f"{name}.downsample", last, 4 * width, stride=stride)
            last = net.add(f"{name}.add", wide, last)
    return _classifier(net, last, classes, f"resnet{depth}")


def inception_resnet_v1(*, image_size: int = 299, classes: int = 1000, bits: int = 8) -> Workload:
    """Inception-ResNet-v1 (Szegedy et al., AAAI 2017, figures 10 to 15); dropout does nothing at inference.

    Args:
        image_size: rows and columns of the image.
        classes: outputs of the classifier.
        bits: bits per element.

    Raises:
        WorkloadError: an image too small for the network.
    """
    net = Builder(bits, plain=True)
    net.conv("FC", inception_resnet_body(net, image_size), classes, fully_connected=True)
    return net.workload("inception_resnet_v1")


INVERTED_RESIDUALS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion t, channels c, repeats n, stride s of the first: Sandler et al., CVPR 2018, table 2."""


def mobilenet_v2(*, image_size: int = 224, classes: int = 1000, bits: int = 8) -> Workload:
    """MobileNetV2 of width 1 (Sandler et al., "Inverted Residuals and Linear Bottlenecks", CVPR 2018, table 2).

    Args:
        image_size: rows and columns of the image.
        classes: outputs of the classifier.
        bits: bits per element.

    Raises:
        WorkloadError: an image too small for the network.
    """
    net = Builder(bits, plain=True)
    last = net.conv("conv_first", net.input("input", (3, image_size, image_size)), 32, (3, 3), 2)
    number = 0
    for expansion, channels, repeats, first_stride in INVERTED_RESIDUALS:
        for repeat in range(repeats):
            number += 1
            name, stride = f"block{number}", first_stride if repeat == 0 else 1
            width = expansion * net.shape(last)[0]
            wide = net.conv(f"{name}.expand", last, width) if expansion > 1 else last
            wide = net.conv(f"{name}.depthwise", wide, width, (3, 3), stride, groups=width)
            narrow = net.conv(f"{name}.project", wide, channels)
            last = net.add(f"{name}.add", narrow, last) if repeat else narrow
    return _classifier(net, net.conv("conv_last", last, 1280), classes, "mobilenet_v2")


def _classifier(net: Builder, last: str, classes: int, name: str) -> Workload:
    """Global average and fully connected layer."""
    net.conv("fc", net.average("avgpool", last), classes, fully_connected=True)
    return net.workload(name)
