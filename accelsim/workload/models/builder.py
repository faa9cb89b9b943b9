"""Builds a convolutional network operator by operator.

Batch normalization and ReLU are folded into the operator before them. A concatenation is no operator: whatever reads it
names several producers. By default it counts as SoMa does (HPCA 2025): convolutions have no bias, an addition counts
one vector operation an operand, and tiles follow SoMa's rule.
"""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.errors import WorkloadError
from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.operator import Operand, Operator, Source
from accelsim.workload.operators import Conv2d, Elementwise, Pool, Transpose
from accelsim.workload.tensor import Tensor

Producers = str | Sequence[str]
"""One producer, or several that are joined along the channels."""


class Builder:
    """A network under construction. Each method adds one operator and returns its name.

    Args:
        bits: bits per element of all tensors.
        plain: not as SoMa counts: convolutions have a bias (what is left of a normalization), an addition of n operands
            counts n - 1 operations, and tiles are exact.
    """

    def __init__(self, bits: int = 8, *, plain: bool = False) -> None:
        self._bits = bits
        self._plain = plain
        self._inputs: list[Tensor] = []
        self._operators: list[Operator] = []
        self._shapes: dict[str, tuple[int, ...]] = {}

    def input(self, name: str, shape: tuple[int, ...]) -> str:
        """A tensor from outside, of shape (channels, rows, columns)."""
        self._inputs.append(Tensor(name, shape, self._bits))
        self._shapes[name] = shape
        return name

    def shape(self, producers: Producers) -> tuple[int, ...]:
        """Shape of what these producers give together."""
        shapes = [self._shapes[name] for name in _names(producers)]
        return (sum(shape[0] for shape in shapes), *shapes[0][1:])

    def conv(
        self,
        name: str,
        producers: Producers,
        filters: int,
        kernel: tuple[int, int] = (1, 1),
        stride: int = 1,
        *,
        same: bool = True,
        groups: int = 1,
        weights_from: str | None = None,
        fully_connected: bool = False,
    ) -> str:
        """A convolution. ``same`` pads to ceil(input / stride) rows and columns; otherwise nothing is padded."""
        operand, sizes, padding = self._window(name, producers, kernel, stride, same)
        weight_shape = (filters, operand.shape[0] // groups, *kernel)
        operands = [operand]
        if weights_from is not None:
            operands.append(
                Operand((Source(weights_from),), (*weight_shape[:2], kernel[0] * kernel[1]), is_weight=True)
            )
        weights = [] if weights_from is not None else [Tensor(f"{name}.weight", weight_shape, self._bits)]
        if self._plain and weights:
            weights.append(Tensor(f"{name}.bias", (filters,), self._bits))
        return self._add(
            Conv2d(
                name,
                tuple(operands),
                Tensor(name, (filters, *sizes), self._bits),
                tuple(weights),
                kernel=kernel,
                stride=(stride, stride),
                padding=padding,
                groups=groups,
                fully_connected=fully_connected,
            )
        )

    def pool(self, name: str, producers: Producers, kernel: tuple[int, int], stride: int, *, same: bool = True) -> str:
        """A pooling layer, padded as :meth:`conv`."""
        operand, sizes, padding = self._window(name, producers, kernel, stride, same)
        output = Tensor(name, (operand.shape[0], *sizes), self._bits)
        return self._add(Pool(name, (operand,), output, kernel=kernel, stride=(stride, stride), padding=padding))

    def average(self, name: str, producers: Producers) -> str:
        """The average of each channel over the whole image."""
        _, rows, columns = self.shape(producers)
        return self.pool(name, producers, (rows, columns), rows, same=False)

    def add(self, name: str, *operands: Producers) -> str:
        """The sum of all operands."""
        shape = self.shape(operands[0])
        joined = tuple(self._operand(operand, shape) for operand in operands)
        output = Tensor(name, shape, self._bits)
        operations = max(len(operands) - 1, 1) if self._plain else len(operands)
        return self._add(Elementwise(name, joined, output, operations_per_element=operations))

    def pointwise(self, name: str, producers: Producers, operations_per_element: int = 1) -> str:
        """A function of each element, or a copy that joins several producers into one tensor."""
        shape = self.shape(producers)
        output = Tensor(name, shape, self._bits)
        operand = self._operand(producers, shape)
        return self._add(Elementwise(name, (operand,), output, operations_per_element=operations_per_element))

    def transpose(self, name: str, producers: Producers, permutation: tuple[int, ...]) -> str:
        """Output axis i is axis ``permutation[i]`` of the input."""
        shape = self.shape(producers)
        output = Tensor(name, tuple(shape[axis] for axis in permutation), self._bits)
        return self._add(Transpose(name, (self._operand(producers, shape),), output, permutation=permutation))

    def workload(self, name: str) -> Workload:
        """All that was added, as a workload of one sample."""
        rule = TileRule.EXACT if self._plain else TileRule.SOMA
        return Workload(name, tuple(self._operators), tuple(self._inputs), tile_rule=rule)

    def _add(self, operator: Operator) -> str:
        self._operators.append(operator)
        self._shapes[operator.name] = operator.output.shape
        return operator.name

    def _operand(self, producers: Producers, shape: tuple[int, ...]) -> Operand:
        names = _names(producers)
        return Operand(
            tuple(Source(name) for name in names), shape, extents=tuple(self._shapes[name][0] for name in names)
        )

    def _window(
        self, name: str, producers: Producers, kernel: tuple[int, int], stride: int, same: bool
    ) -> tuple[Operand, tuple[int, int], tuple[int, int]]:
        """The operand of a window operator, the rows and columns of its output, and its padding above and left.

        Rows that the last window does not reach are not read. Of an odd padding the larger half stands above.
        """
        channels, rows, columns = self.shape(producers)
        read, sizes, padding = [], [], []
        for size, window in zip((rows, columns), kernel, strict=True):
            outputs = -(-size // stride) if same else (size - window) // stride + 1
            if outputs < 1:
                raise WorkloadError(f"'{name}': a window of {kernel} does not fit into {rows} rows, {columns} columns")
            reach = (outputs - 1) * stride + window
            read.append(min(size, reach))
            sizes.append(outputs)
            padding.append((max(reach - size, 0) + 1) // 2)
        return (
            self._operand(producers, (channels, read[0], read[1])),
            (sizes[0], sizes[1]),
            (padding[0], padding[1]),
        )


def _names(producers: Producers) -> tuple[str, ...]:
    return (producers,) if isinstance(producers, str) else tuple(producers)
