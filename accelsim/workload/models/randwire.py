"""Randomly wired networks: Xie et al., "Exploring Randomly Wired Neural Networks for Image Recognition", ICCV 2019."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.errors import WorkloadError
from accelsim.workload.graph import Workload
from accelsim.workload.models.builder import Builder


class Regime(NamedTuple):
    """One column of the paper's table 1: the network around the random stages."""

    channels: int
    """C of the table."""
    wired_second_stage: bool
    """The stage at 56x56 is a random graph of half the nodes, not a single convolution."""
    multiples: tuple[int, int, int]
    """Channels of the stages at 28x28, 14x14 and 7x7, as multiples of C."""


REGIMES = {
    "small": Regime(78, False, (1, 2, 4)),
    "regular": Regime(109, True, (2, 4, 8)),
    "large": Regime(154, True, (2, 4, 8)),
}
CLASSIFIER_CHANNELS = 1280


def randwire(
    *,
    regime: str = "small",
    seed: int = 0,
    nodes: int = 32,
    neighbours: int = 4,
    probability: float = 0.75,
    image_size: int = 224,
    classes: int = 1000,
    bits: int = 8,
    counting: str = "soma",
) -> Workload:
    """A RandWire network whose stages are Watts-Strogatz graphs WS(``neighbours``, ``probability``).

    A node adds up its inputs (weights, ReLU and normalization are folded in) and applies a separable 3x3 convolution: a
    depthwise one and a 1x1. The nodes without predecessors read the stage's input with a stride of 2; a last node
    averages those without successors. The same parameters give the same network everywhere.

    Args:
        regime: "small" (C = 78) or "regular" (C = 109), the columns of the paper's table 1, or "large", the regular one
            with C = 154 (table 3).
        seed: of the random graphs.
        nodes: N, nodes of a stage.
        neighbours: K, even: each node is first joined with K/2 neighbours on either side of a ring.
        probability: P, with which an edge is rewired.
        image_size: rows and columns of the image.
        classes: outputs of the classifier.
        bits: bits per element.
        counting: "soma", with SoMa's tile rule, no biases and one operation an operand of a sum; or "plain".

    Raises:
        WorkloadError: an unknown regime, or parameters that make no such graph.
    """
    if counting not in ("soma", "plain"):
        raise WorkloadError(f"counting is {counting!r}; expected soma or plain")
    if regime not in REGIMES:
        raise WorkloadError(f"RandWire has no regime {regime!r}; expected one of {list(REGIMES)}")
    if seed < 0:
        raise WorkloadError(f"seed is {seed}; expected a whole number >= 0")
    channels, wired_second_stage, multiples = REGIMES[regime]
    random = np.random.default_rng(seed)
    net = Builder(bits, plain=counting == "plain")
    last = net.conv("conv1", net.input("input", (3, image_size, image_size)), channels // 2, (3, 3), 2)
    if wired_second_stage:
        graph = watts_strogatz(nodes // 2, neighbours, probability, random)
        last = _stage(net, "stage2", last, channels, graph)
    else:
        last = net.conv("conv2", last, channels, (3, 3), 2)
    for stage, multiple in enumerate(multiples, start=3):
        graph = watts_strogatz(nodes, neighbours, probability, random)
        last = _stage(net, f"stage{stage}", last, multiple * channels, graph)
    last = net.conv("conv_last", last, CLASSIFIER_CHANNELS)
    last = net.average("pool", last)
    net.conv("fc", last, classes, fully_connected=True)
    return net.workload(f"randwire_{regime}")


def watts_strogatz(nodes: int, neighbours: int, probability: float, random: np.random.Generator) -> list[list[int]]:
    """A random graph, directed from lower to higher node: for each node its predecessors, in rising order.

    A ring in which each node is joined with ``neighbours / 2`` nodes on either side; then, going around once for each
    distance i up to that, the edge from each node to its i-th next is moved, with ``probability``, to a node drawn
    uniformly among those that it is not joined with (Watts and Strogatz, Nature 393, 1998; Xie et al., section 3.3).

    Raises:
        WorkloadError: ``neighbours`` is odd, below 2 or not below ``nodes``, or ``probability`` lies outside 0 to 1.
    """
    if neighbours < 2 or neighbours % 2 or neighbours >= nodes:
        raise WorkloadError(
            f"a ring of {nodes} nodes, each joined with {neighbours} others: that number must be even, "
            "at least 2 and below the number of nodes"
        )
    if not 0 <= probability <= 1:
        raise WorkloadError(f"the probability of rewiring is {probability}; expected 0 to 1")
    joined: list[set[int]] = [set() for _ in range(nodes)]
    for node in range(nodes):
        for distance in range(1, neighbours // 2 + 1):
            _join(joined, node, (node + distance) % nodes)
    for distance in range(1, neighbours // 2 + 1):
        for node in range(nodes):
            if random.random() >= probability:
                continue
            free = [other for other in range(nodes) if other != node and other not in joined[node]]
            if free:
                neighbour = (node + distance) % nodes
                joined[node].discard(neighbour)
                joined[neighbour].discard(node)
                _join(joined, node, free[int(random.random() * len(free))])
    return [sorted(other for other in joined[node] if other < node) for node in range(nodes)]


def _join(joined: list[set[int]], node: int, other: int) -> None:
    joined[node].add(other)
    joined[other].add(node)


def _stage(net: Builder, name: str, stage_input: str, channels: int, predecessors: list[list[int]]) -> str:
    """One random graph between its input and the average of its outputs, at half the rows and columns."""
    outputs: list[str] = []
    for node, earlier in enumerate(predecessors):
        here = f"{name}_node{node}"
        source = stage_input
        if len(earlier) == 1:
            source = outputs[earlier[0]]
        elif earlier:
            source = net.add(f"{here}_sum", *(outputs[one] for one in earlier))
        width = net.shape(source)[0]
        depthwise = net.conv(f"{here}_depthwise", source, width, (3, 3), 1 if earlier else 2, groups=width)
        outputs.append(net.conv(f"{here}_pointwise", depthwise, channels))
    read = {one for earlier in predecessors for one in earlier}
    return net.add(f"{name}_average", *(output for node, output in enumerate(outputs) if node not in read))
