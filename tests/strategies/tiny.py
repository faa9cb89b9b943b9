"""Tiny random workloads, for which every schedule can be tried: up to four operators, eight tiles in all."""

from __future__ import annotations

import numpy as np

from accelsim.hardware.accelerator import Accelerator
from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.operator import Operand, Operator, Source
from accelsim.workload.operators import Conv2d, Elementwise, Pool
from accelsim.workload.tensor import Tensor
from tests.strategies.machines import machine

MOST_TILES = 8


def tiny_case(seed: int) -> tuple[Workload, Accelerator]:
    """A workload and a machine whose buffer holds between little of it and all of it."""
    random = np.random.default_rng(seed)
    while True:
        workload = tiny_workload(random)
        if sum(workload.batch * int(np.prod(one.output.shape[1:])) for one in workload.operators) <= MOST_TILES:
            break
    least = max(_bytes_of(operator) for operator in workload.operators)
    most = sum(_bytes_of(operator) for operator in workload.operators) + least
    capacity = int(random.integers(least, most + 1))
    rate = str(random.choice(["16", "64", "1.5"]))
    return workload, machine(capacity, rate, int(random.choice([0, 0, 0, 7])), int(random.choice([0, 0, 2])))


def tiny_workload(random: np.random.Generator) -> Workload:
    """One to four convolutions, poolings and sums on images of at most four pixels."""
    rows, columns = [(1, 1), (2, 1), (1, 2), (2, 2), (3, 1), (4, 1)][random.integers(6)]
    shapes: dict[str, tuple[int, ...]] = {"input": (int(random.integers(1, 64)), rows, columns)}
    inputs = (Tensor("input", shapes["input"]),)
    operators: list[Operator] = []
    for number in range(int(random.integers(1, 5))):
        name = f"op{number}"
        producer = str(random.choice(list(shapes)[-2:]))
        shape = shapes[producer]
        kind = random.choice(["convolution", "convolution", "pool", "sum"])
        kernel = tuple(int(random.integers(1, size + 1)) for size in shape[1:])
        output = tuple(size - k + 1 for size, k in zip(shape[1:], kernel, strict=True))
        data = Operand((Source(producer),), shape)
        if kind == "convolution":
            filters = int(random.integers(1, 64))
            weight = Tensor(f"{name}.weight", (filters, shape[0], *kernel))
            operators.append(Conv2d(name, (data,), Tensor(name, (filters, *output)), (weight,), kernel=kernel))
        elif kind == "pool":
            operators.append(Pool(name, (data,), Tensor(name, (shape[0], *output)), kernel=kernel))
        else:
            others = [other for other, its in shapes.items() if its == shape]
            second = Operand((Source(str(random.choice(others))),), shape)
            operators.append(Elementwise(name, (data, second), Tensor(name, shape), operations_per_element=2))
        shapes[name] = operators[-1].output.shape
    batch = int(random.choice([1, 1, 2, 3, 4]))
    return Workload("tiny", tuple(operators), inputs, batch=batch, tile_rule=TileRule(random.choice(list(TileRule))))


def _bytes_of(operator: Operator) -> int:
    read = sum(int(np.prod(operand.shape)) for operand in operator.operands)
    return operator.weight_bytes + 2 * (read + operator.output.elements)
