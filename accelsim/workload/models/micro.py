"""Micro-kernels: workloads that do one thing, from which the roofs of a machine are measured.

A chain of matrix products computes, a stream moves bytes and computes nothing, a vector kernel keeps the vector unit
busy. Each is scaled by one parameter or by its batch, so that what a run costs at its begin and end drops out of the
difference of two runs (:mod:`accelsim.analysis.measure`).
"""

from __future__ import annotations

from accelsim.errors import WorkloadError
from accelsim.workload.graph import Workload
from accelsim.workload.operator import Operand, Operator, Source
from accelsim.workload.operators import Conv2d, Elementwise, MatMul, Move, Normalization
from accelsim.workload.tensor import Tensor


def matmul_chain(
    *, rows: int = 512, depth: int = 1024, columns: int = 512, operators: int = 1, bits: int = 8
) -> Workload:
    """Matrix products one after another, each of (rows x depth) by weights of its own (depth x columns).

    One of them, large in all dimensions, shows the peak of the array; many of them, with few rows, a bandwidth: each
    byte of weights is used for ``rows`` multiply-accumulates.

    Args:
        rows: rows of the left matrix.
        depth: terms of each sum.
        columns: columns of the weights; with more than one operator as many as ``depth``.
        operators: products in the chain.
        bits: bits per element.

    Raises:
        WorkloadError: a chain whose products do not fit onto one another, or a number below 1.
    """
    if operators < 1 or (operators > 1 and columns != depth):
        raise WorkloadError(
            f"a chain of {operators} products of depth {depth} and {columns} columns: expected at least one, and where "
            "there are more, as many columns as the next one has terms"
        )
    source = Tensor("input", (rows, depth), bits)
    chain: list[Operator] = []
    last = source.name
    for number in range(1, operators + 1):
        name = f"matmul{number}"
        weights = (Tensor(f"{name}.weight", (depth, columns), bits),)
        chain.append(
            MatMul(name, (Operand((Source(last),), (rows, depth)),), Tensor(name, (rows, columns), bits), weights)
        )
        last = name
    return Workload("matmul_chain", tuple(chain), (source,))


def stream(*, reads: int = 1, writes: int = 1, chunk_bytes: int = 65536) -> Workload:
    """Bytes that are read from memory, written to it, or both, a chunk a sample; nothing is computed.

    Args:
        reads: chunks read for each sample.
        writes: chunks written for each sample, 0 or 1; without one a single element is written.
        chunk_bytes: bytes of a chunk.

    Raises:
        WorkloadError: neither reads nor writes, or a number out of range.
    """
    if reads < 0 or writes not in (0, 1) or not reads + writes or chunk_bytes < 1:
        raise WorkloadError(
            f"a stream of {reads} reads and {writes} writes of {chunk_bytes} bytes: expected reads >= 0, 0 or 1 writes "
            "(not none of both), and chunks of at least a byte"
        )
    # Without reads the output is spread from a single element.
    size = chunk_bytes if reads else 1
    inputs = tuple(Tensor(f"input{number}", (size,)) for number in range(1, max(reads, 1) + 1))
    operands = tuple(Operand((Source(tensor.name),), tensor.shape) for tensor in inputs)
    operator: Operator = (
        Elementwise("stream", operands, Tensor("stream", (chunk_bytes,)), operations_per_element=0)
        if writes
        else Move("stream", operands, Tensor("stream", (1,)), of="reads")
    )
    return Workload("stream", (operator,), inputs)


def vector(*, elements: int = 65536, operations_per_element: int = 1, normalized: bool = False) -> Workload:
    """An element-wise operator, which keeps the vector unit busy.

    Args:
        elements: elements of its input and of its output.
        operations_per_element: vector operations on each.
        normalized: a normalization instead, of each element by itself: units may do that at another rate.

    Raises:
        WorkloadError: a number below 1.
    """
    if operations_per_element < 1:
        raise WorkloadError(f"{operations_per_element} operations an element; expected at least 1")
    kind = Normalization if normalized else Elementwise
    shape = (elements, 1) if normalized else (elements,)
    operand = Operand((Source("input"),), shape)
    operator = kind("vector", (operand,), Tensor("vector", shape), operations_per_element=operations_per_element)
    return Workload("vector", (operator,), (Tensor("input", shape),))


def strided(*, channels: int = 64, filters: int = 64, side: int = 64, stride: int = 1, bits: int = 8) -> Workload:
    """A 1 x 1 convolution with a stride: of what it could read it uses one row in ``stride``, and one column.

    Args:
        channels: channels of its input.
        filters: channels of its output.
        side: rows and columns of its input.
        stride: along both.
        bits: bits per element.

    Raises:
        WorkloadError: a number below 1, or a stride larger than the input.
    """
    if min(channels, filters, side, stride) < 1 or stride > side:
        raise WorkloadError(
            f"{channels} channels, {filters} filters, a side of {side} and a stride of {stride}: expected numbers from "
            "1 on, and a stride up to the side"
        )
    source = Tensor("input", (channels, side, side), bits)
    out = -(-side // stride)
    operator = Conv2d(
        "strided",
        (Operand((Source("input"),), (channels, side, side)),),
        Tensor("strided", (filters, out, out), bits),
        (Tensor("strided.weight", (filters, channels, 1, 1), bits),),
        kernel=(1, 1),
        stride=(stride, stride),
    )
    return Workload("strided", (operator,), (source,))


def blocked(*, side: int = 768, block: int = 128, bits: int = 8) -> Workload:
    """A square matrix product in square blocks, as a small buffer forces it.

    Each block of the two factors is loaded for every block product, sums stay on chip until they are complete.

    Block products with one sum after another: the blocks of a row of the left factor times those of a column of the
    right one, added in 32 bits.

    Args:
        side: rows and columns of both factors.
        block: rows and columns of a block.
        bits: bits per element of the factors, and of the result.

    Raises:
        WorkloadError: blocks that do not divide the side, or more than 10,000 block products.
    """
    if min(side, block) < 1 or side % block or (side // block) ** 3 > 10_000:
        raise WorkloadError(
            f"a product of side {side} in blocks of {block}: expected blocks that divide the side, and at most 10,000 "
            "block products"
        )
    count = side // block
    shape = (block, block)
    left = {(i, k): Tensor(f"left{i}.{k}", shape, bits) for i in range(count) for k in range(count)}
    operators: list[Operator] = []
    for i in range(count):
        for j in range(count):
            total = ""
            for k in range(count):
                name = f"product{i}.{j}.{k}"
                last = k == count - 1
                wide = 32 if count > 1 else bits
                weights = (Tensor(f"{name}.right", shape, bits),)
                operators.append(
                    MatMul(name, (Operand((Source(left[i, k].name),), shape),), Tensor(name, shape, wide), weights)
                )
                if total:
                    added = f"sum{i}.{j}.{k}"
                    operands = tuple(Operand((Source(one),), shape) for one in (total, name))
                    operators.append(Elementwise(added, operands, Tensor(added, shape, bits if last else 32)))
                    name = added
                total = name
    return Workload("blocked", tuple(operators), tuple(left.values()))
