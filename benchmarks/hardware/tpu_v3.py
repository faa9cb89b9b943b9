"""TPU v3: cycles measured on one core, from PyTorchSim's artifact.

Template ``tpu_v3``. What is assumed of the software, for all rows alike, because it cannot be read from the sizes:

* arrays are of 32 bits in memory, as the frameworks' default is, and multiplied as bfloat16;
* channels are filled up to 128 with zeros, in memory and on the array, so each tap of a kernel has folds of its own;
* softmax is three fusions, each from memory to memory: the maximum; the exponential; the division. In attention the
  exponentials are stored in bfloat16, as the array takes them, and the division is free behind the product.

These were chosen by looking at these rows (softmax of 2048 x 2048: 84 MB / 450 GB/s is five passes over it); no
number is fitted. Operators run layer by layer, cut so finely that transfers overlap with computing. What XLA does
besides (launches, layout changes) is not modelled.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import accelsim
from accelsim.workload.graph import Workload
from accelsim.workload.models.builder import Builder
from accelsim.workload.operator import Operand, Operator, Source
from accelsim.workload.operators import Elementwise, MatMul, Normalization, Reduction
from accelsim.workload.tensor import Tensor
from hardware.table import Aim, Row, read, run_overlapped

AIMS = (Aim("TPU v3", 0.15, mean=True),)
BITS, MATRIX_BITS = 32, 16
LANES = 128


def filled(channels: int) -> int:
    return -(-channels // LANES) * LANES


class Net:
    """Operators on matrices, one after another."""

    def __init__(self) -> None:
        self.inputs: list[Tensor] = []
        self.operators: list[Operator] = []
        self.tensors: dict[str, Tensor] = {}

    def input(self, name: str, *shape: int, bits: int = BITS) -> str:
        self.inputs.append(Tensor(name, shape, bits))
        self.tensors[name] = self.inputs[-1]
        return name

    def operand(self, name: str) -> Operand:
        return Operand((Source(name),), self.tensors[name].shape)

    def add(self, operator: Operator) -> str:
        self.operators.append(operator)
        self.tensors[operator.name] = operator.output
        return operator.name

    def product(self, name: str, left: str, columns: int) -> str:
        """By weights."""
        shape = self.tensors[left].shape
        weights = (Tensor(f"{name}.weight", (shape[-1], columns), BITS),)
        return self.add(MatMul(name, (self.operand(left),), Tensor(name, (*shape[:-1], columns), BITS), weights))

    def product_of(self, name: str, left: str, right: str) -> str:
        shape = (*self.tensors[left].shape[:-1], self.tensors[right].shape[-1])
        return self.add(MatMul(name, (self.operand(left), self.operand(right)), Tensor(name, shape, BITS)))

    def each(self, name: str, *operands: str, operations: int = 1, bits: int = BITS) -> str:
        output = Tensor(name, self.tensors[operands[0]].shape, bits)
        return self.add(
            Elementwise(name, tuple(map(self.operand, operands)), output, operations_per_element=operations)
        )

    def largest(self, name: str, of: str) -> str:
        shape = self.tensors[of].shape
        output = Tensor(name, (*shape[:-1], 1), BITS)
        return self.add(Reduction(name, (self.operand(of),), output, operations_per_element=shape[-1]))

    def normalization(self, name: str, of: str) -> str:
        return self.add(Normalization(name, (self.operand(of),), Tensor(name, self.tensors[of].shape, BITS)))

    def attention(self, heads: int, length: int, width: int) -> str:
        query, key = self.input("query", heads, length, width), self.input("key", heads, width, length)
        value = self.input("value", heads, length, width)
        scores = self.product_of("scores", query, key)
        powers = self.each("powers", scores, self.largest("largest", scores), operations=2, bits=MATRIX_BITS)
        return self.product_of("context", powers, value)  # divided on the way out

    def workload(self, name: str) -> Workload:
        return Workload(name, tuple(self.operators), tuple(self.inputs))


def convolution(batch: int, size: int, channels: int, filters: int, kernel: int, stride: int) -> Workload:
    net = Builder(BITS, plain=True)
    net.conv("conv", net.input("image", (filled(channels), size, size)), filled(filters), (kernel, kernel), stride)
    return replace(net.workload("conv"), batch=batch)


def resnet(depth: int) -> Workload:
    """ResNet v1.5 with its channels filled up."""
    net = Builder(BITS, plain=True)
    bottleneck = depth == 50
    last = net.conv("conv1", net.input("image", (LANES, 224, 224)), filled(64), (7, 7), 2)
    last = net.pool("pool", last, (3, 3), 2)
    for stage, blocks in enumerate((3, 4, 6, 3) if bottleneck else (2, 2, 2, 2)):
        width = 64 << stage
        out = filled(4 * width if bottleneck else width)
        for block in range(blocks):
            stride, name = 2 if stage and not block else 1, f"stage{stage}.{block}"
            if bottleneck:
                inner = net.conv(f"{name}.a", last, filled(width))
                inner = net.conv(f"{name}.b", inner, filled(width), (3, 3), stride)
                inner = net.conv(f"{name}.c", inner, out)
            else:
                inner = net.conv(f"{name}.a", last, out, (3, 3), stride)
                inner = net.conv(f"{name}.b", inner, out, (3, 3))
            if not block and (stage or bottleneck):
                last = net.conv(f"{name}.shortcut", last, out, (1, 1), stride)
            last = net.add(f"{name}.sum", inner, last)
    last = net.pool("average", last, (7, 7), 7)
    net.conv("classifier", last, 1000)
    return net.workload(f"resnet{depth}")


def bert_large() -> Workload:
    """One block: 1024 wide, 16 heads, 512 positions."""
    length, width, heads = 512, 1024, 16
    net = Net()
    hidden = net.input("hidden", length, width)
    net.product("projections", hidden, 3 * width)
    context = net.attention(heads, length, width // heads)
    joined = net.input("joined", length, width)
    del context  # heads are joined by address; the tensor is the same
    out = net.each("sum1", net.product("out", joined, width), hidden)
    normal = net.normalization("norm1", out)
    inner = net.each("gelu", net.product("wide", normal, 4 * width), operations=5)
    out = net.each("sum2", net.product("narrow", inner, width), normal)
    net.normalization("norm2", out)
    return net.workload("bert_large")


def workload(name: str) -> Workload:
    """The work that a row of the table names."""
    if match := re.fullmatch(r"gemm_(\d+)x(\d+)x(\d+)", name):
        M, N, K = map(int, match.groups())
        net = Net()
        net.product("gemm", net.input("input", M, K), N)
        return net.workload(name)
    if match := re.fullmatch(r"conv_(\d+)x(\d+)x(\d+)x(\d+)x(\d+)x(\d+)x(\d+)x(\d+)", name):
        batch, size, _, channels, filters, kernel, stride, _ = map(int, match.groups())
        return convolution(batch, size, channels, filters, kernel, stride)
    if match := re.fullmatch(r"attention_(\d+)x(\d+)x(\d+)", name):
        net = Net()
        heads, length, width = map(int, match.groups())
        net.attention(1, length, width)
        return replace(net.workload(name), batch=heads)
    if match := re.fullmatch(r"softmax_(\d+)x(\d+)", name):
        net = Net()
        x = net.input("input", *map(int, match.groups()))
        powers = net.each("powers", x, net.largest("largest", x), operations=3)
        net.each("softmax", powers)
        return net.workload(name)
    if name.startswith("resnet"):
        return resnet(int(name.removeprefix("resnet")))
    assert name == "bert_large", name
    return bert_large()


def reason(name: str, error: float) -> str:
    if name.startswith("conv_64x56"):
        return "64 channels and 64 filters: XLA seems to use one array; two share the positions here"
    if name == "resnet18":
        return "as the convolution of 64 channels, and launches of 34 small operators"
    if name == "bert_large":
        return "heads are cut along rows here, so keys and values are loaded for each tile; XLA fuses more"
    if error < 0:
        return "launches and layout changes between operators"
    return "XLA fuses more than is assumed here"


def rows(folder: Path) -> list[Row]:
    """All rows of the table."""
    accelerator = accelsim.load_accelerator("tpu_v3")
    table = []
    for row in read(folder, "tpuv3_pytorchsim_artifact.csv"):
        cycles = run_overlapped(workload(row["workload"]), accelerator)["latency_cycles"]
        published = float(row["tpuv3_cycles_measured"])
        error = cycles / published - 1
        why = reason(row["workload"], error) if abs(error) > 0.25 else ""
        table.append(Row(AIMS[0].group, row["workload"], published, cycles, "cycles", why))
    return table
