"""Convolutional networks, as SoMa counts them (HPCA 2025, section VI; its published networks, layer for layer)."""

from __future__ import annotations

from accelsim.errors import WorkloadError
from accelsim.workload.graph import Workload
from accelsim.workload.models.builder import Builder

RESNET_BLOCKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Bottleneck blocks of each stage: He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, table 1."""


def resnet(depth: int = 50, *, image_size: int = 224, classes: int = 1000, bits: int = 8) -> Workload:
    """ResNet with bottleneck blocks (He et al., CVPR 2016), version 1: the first 1x1 of a block has the stride.

    Args:
        depth: 50, 101 or 152.
        image_size: rows and columns of the image.
        classes: outputs of the classifier.
        bits: bits per element.

    Raises:
        WorkloadError: another depth, or an image too small for the network.
    """
    net, stages = Builder(bits), resnet_stages(depth)
    last = net.conv("conv1", net.input("input", (3, image_size, image_size)), 64, (7, 7), 2)
    last = net.pool("pool1", last, (3, 3), 2)
    for stage, blocks in enumerate(stages, start=2):
        width = 64 << (stage - 2)
        for block in range(blocks):
            name = f"conv_{stage}_{block}"
            stride = 2 if block == 0 and stage > 2 else 1
            narrow = net.conv(f"{name}_a", last, width, stride=stride)
            middle = net.conv(f"{name}_b", narrow, width, (3, 3))
            wide = net.conv(f"{name}_c", middle, 4 * width)
            if block == 0:
                last = net.add(f"{name}_res", wide, net.conv(f"conv_{stage}_br", last, 4 * width, stride=stride))
            else:
                last = net.add(f"{name}_res", last, wide)
    net.conv("fc", net.average("pool5", last), classes, fully_connected=True)
    return net.workload(f"resnet{depth}")


def resnet_stages(depth: int) -> tuple[int, ...]:
    """Blocks of each stage; raises :class:`WorkloadError` for a depth that the paper has not."""
    if depth not in RESNET_BLOCKS:
        raise WorkloadError(f"ResNet of depth {depth} is not known; expected one of {list(RESNET_BLOCKS)}")
    return RESNET_BLOCKS[depth]


def inception_resnet_v1(*, image_size: int = 299, classes: int = 1000, bits: int = 8) -> Workload:
    """Inception-ResNet-v1 (Szegedy et al., "Inception-v4, Inception-ResNet …", AAAI 2017, figures 10 to 15).

    As SoMa's published network has it: the dropout before the classifier is a fully connected layer.

    Args:
        image_size: rows and columns of the image.
        classes: outputs of the classifier.
        bits: bits per element.

    Raises:
        WorkloadError: an image too small for the network.
    """
    net = Builder(bits)
    pooled = inception_resnet_body(net, image_size)
    last = net.conv("Dropout", pooled, net.shape(pooled)[0], fully_connected=True)
    net.conv("FC", last, classes, fully_connected=True)
    return net.workload("inception_resnet_v1")


def inception_resnet_body(net: Builder, image_size: int) -> str:
    """All from the image to the average before the classifier (figures 10 to 15 of the paper); the name of the latter.

    The scaling of residuals is folded into the convolution before each addition.
    """
    last = net.conv("Conv_1a_3x3", net.input("input", (3, image_size, image_size)), 32, (3, 3), 2, same=False)
    last = net.conv("Conv_2a_3x3", last, 32, (3, 3), same=False)
    last = net.conv("Conv_2b_3x3", last, 64, (3, 3))
    last = net.pool("MaxPool_3a_3x3", last, (3, 3), 2, same=False)
    last = net.conv("Conv_3b_1x1", last, 80)
    last = net.conv("Conv_4a_3x3", last, 192, (3, 3), same=False)
    last = net.conv("Conv_4b_3x3", last, 256, (3, 3), 2, same=False)
    for block in range(1, 6):
        last = _inception_a(net, f"A{block}", last)
    joined = _reduction_a(net, last)
    for block in range(1, 11):
        joined = [_inception_bc(net, f"B{block}", joined, 128, 7)]
    joined = _reduction_b(net, joined)
    for block in range(1, 6):
        joined = [_inception_bc(net, f"C{block}", joined, 192, 3)]
    return net.average("AvgPool", joined)


def _inception_a(net: Builder, name: str, last: str) -> str:
    """Figure 10: three branches of 32 channels, joined, widened and added to the input."""
    first = net.conv(f"{name}_Conv_1a_1x1", last, 32)
    second = net.conv(f"{name}_Conv_2b_3x3", net.conv(f"{name}_Conv_2a_1x1", last, 32), 32, (3, 3))
    third = net.conv(f"{name}_Conv_3b_3x3", net.conv(f"{name}_Conv_3a_1x1", last, 32), 32, (3, 3))
    third = net.conv(f"{name}_Conv_3c_3x3", third, 32, (3, 3))
    widened = net.conv(f"{name}_Conv_4_1x1", [first, second, third], net.shape(last)[0])
    return net.add(f"{name}_Eltwise", last, widened)


def _reduction_a(net: Builder, last: str) -> list[str]:
    """Figure 11 with k = 192, l = 192, m = 256, n = 384."""
    first = net.conv("RA_Conv_1a_3x3", last, 384, (3, 3), 2, same=False)
    second = net.conv("RA_Conv_2b_3x3", net.conv("RA_Conv_2a_1x1", last, 192), 192, (3, 3))
    second = net.conv("RA_Conv_2c_3x3", second, 256, (3, 3), 2, same=False)
    return [first, second, net.pool("RA_MaxPool_3a_3x3", last, (3, 3), 2, same=False)]


def _inception_bc(net: Builder, name: str, joined: list[str], width: int, length: int) -> str:
    """Figures 12 and 14: a 1x1 branch and one with a window of ``length`` taken apart into a row and a column."""
    first = net.conv(f"{name}_Conv_1a_1x1", joined, width)
    second = net.conv(f"{name}_Conv_2a_1x1", joined, width)
    second = net.conv(f"{name}_Conv_2b_1x{length}", second, width, (1, length))
    second = net.conv(f"{name}_Conv_2c_{length}x1", second, width, (length, 1))
    widened = net.conv(f"{name}_Conv_3_1x1", [first, second], net.shape(joined)[0])
    return net.add(f"{name}_Eltwise", joined, widened)


def _reduction_b(net: Builder, joined: list[str]) -> list[str]:
    """Figure 13."""
    pooled = net.pool("RB_MaxPool_1a_3x3", joined, (3, 3), 2, same=False)
    second = net.conv("RB_Conv_2a_1x1", joined, 256)
    second = net.conv("RB_Conv_2b_3x3", second, 384, (3, 3), 2, same=False)
    third = net.conv("RB_Conv_3a_1x1", joined, 256)
    third = net.conv("RB_Conv_3b_3x3", third, 256, (3, 3), 2, same=False)
    fourth = net.conv("RB_Conv_4b_3x3", net.conv("RB_Conv_4a_1x1", joined, 256), 256, (3, 3))
    fourth = net.conv("RB_Conv_4c_3x3", fourth, 256, (3, 3), 2, same=False)
    return [pooled, second, third, fourth]
