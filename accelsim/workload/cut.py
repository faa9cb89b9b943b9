"""Cuts operators whose weights do not fit twice into the buffer, so that one part computes while the next one loads.

A convolution is cut along its filters, first between its groups, then inside them; a matrix product along its columns,
first between heads, if it has some. A pooling, whose windows may need all rows, is cut along its channels where its
smallest tile, input and output, does not fit twice. A convolution that could not run however small its tiles, as
strongly dilated kernels do not, is cut along its input channels besides, and its parts are added.
The parts are called ``name[k0:k1]`` and share the input; whatever reads the operator reads the parts joined, for free.
Keys and values, which another operator or a cache provides, are cut along the context. For scores these are the
columns. For scores times values the context is the depth: its parts are sums that are not complete, kept at
:data:`PARTIAL_SUM_BITS` and added by an element-wise operator that takes the name of the product.

Weights count twice because of double buffering. Of an operand that plays the weights, only the block counts that the
smallest tile needs: one sample, one head; in a matrix product together with the rest of that tile. Parameters of vector
operators are never cut. Under SoMa's tile rule, which knows no such cuts, an operator is cut only where it could not
run at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from accelsim.errors import WorkloadError
from accelsim.workload.cut_channels import channel_part, has_channels_to_cut, largest_tile_bytes
from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.operator import Operand, Operator, Source
from accelsim.workload.operators import Conv2d, Elementwise, MatMul, Pool
from accelsim.workload.tensor import Box, Permute, Range, Reshape, Tensor
from accelsim.workload.views import joined, permuted, reshaped, sliced

PARTIAL_SUM_BITS = 32
"""Bits of an element of a sum that other parts still have to be added to, as wide as accumulators of INT8 products."""
MAXIMUM_PARTS = 1 << 14
"""More parts than this of one operator are a mistake in a size, not a schedule."""


def cut_to_fit(workload: Workload, capacity_bytes: int) -> Workload:
    """The workload with every operator cut into the fewest parts whose weights fit twice into ``capacity_bytes``.

    MACs and weights stay the same. A workload in which everything fits is returned itself. A reader that reshapes the
    output across the cut reads it from ``name.join``, a copy that is paid.

    Raises:
        WorkloadError: even the smallest part, one filter or column, does not fit twice; or more than
            :data:`MAXIMUM_PARTS` parts are needed; or the capacity is below 1.
    """
    if capacity_bytes < 1:
        raise WorkloadError(f"a buffer of {capacity_bytes} bytes; expected at least 1")
    cutter = _Cutter(workload, capacity_bytes)
    for operator in workload.operators:
        cutter.add(operator)
    if not cutter.notes:
        return workload
    outputs: list[str] = []
    for name in workload.outputs:
        parts = cutter.parts.get(name)
        outputs.extend([name] if parts is None else [source.producer for source in parts.sources])
    return replace(
        workload,
        operators=tuple(cutter.operators),
        outputs=tuple(outputs),
        notes=(*workload.notes, *cutter.notes),
    )


class _Cutter:
    """The operators so far, and for each that was cut the operand that joins its parts again."""

    def __init__(self, workload: Workload, capacity_bytes: int) -> None:
        self.capacity_bytes = capacity_bytes
        self.only_where_needed = workload.tile_rule is TileRule.SOMA
        self.tensors = {tensor.name: tensor for tensor in workload.inputs}
        self.operators: list[Operator] = []
        self.parts: dict[str, Operand] = {}
        self.notes: list[str] = []
        self._uncut: dict[str, Operator] = {}

    def add(self, operator: Operator) -> None:
        """Adds an operator, or its parts."""
        operator = replace(operator, operands=tuple(self._rewired(operand) for operand in operator.operands))
        parts = self._needed_parts_of(operator) if self.only_where_needed else self._parts_of(operator)
        if channels := self._channel_parts_of(operator, parts):
            self._append_sum(operator, channels)
            return
        if len(parts) == 1:
            self._append(operator)
            return
        for part in parts:
            self._append(part)
        what = "its smallest tile" if isinstance(operator, Pool) else "its weights"
        self.notes.append(
            f"'{operator.name}' is cut into {len(parts)} parts: {what} of {self._least_bytes(operator)} bytes "
            f"{'does' if isinstance(operator, Pool) else 'do'} not fit twice into {self.capacity_bytes}"
        )
        sources = tuple(Source(part.name) for part in parts)
        if _cuts_depth(operator):
            shape = operator.output.shape
            self._append(
                Elementwise(
                    operator.name,
                    tuple(Operand((source,), shape) for source in sources),
                    operator.output,
                    operator.weights,
                    operations_per_element=len(parts) - 1,
                )
            )
            return
        axis = 0 if isinstance(operator, Conv2d | Pool) else len(operator.output.shape) - 1
        extents = tuple(part.output.shape[axis] for part in parts)
        self.parts[operator.name] = Operand(sources, operator.output.shape, axis, extents)
        self._uncut[operator.name] = operator

    def _channel_parts_of(self, operator: Operator, parts: list[Operator]) -> list[Conv2d]:
        """The fewest parts along the input channels that can run, where ``parts`` cannot, but they can; else none."""
        if self.only_where_needed or not has_channels_to_cut(operator) or self._run(parts):
            return []
        assert isinstance(operator, Conv2d)
        channels = operator.operands[0].shape[0]
        for count in range(2, channels + 1):
            spans = _equal_ranges(channels, count)
            largest = channel_part(operator, max(spans, key=lambda span: span[1] - span[0]), PARTIAL_SUM_BITS)
            if self._run(self._parts_of(largest)):
                return [channel_part(operator, span, PARTIAL_SUM_BITS) for span in spans]
        return []

    def _run(self, parts: list[Operator]) -> bool:
        """Whether the largest of a convolution's parts can run, double-buffered, in tiles of one output position."""
        part = max(parts, key=lambda part: part.output.shape[0])
        return part.weight_bytes + 2 * largest_tile_bytes(part, self.tensors) <= self.capacity_bytes

    def _append_sum(self, operator: Operator, parts: list[Conv2d]) -> None:
        for part in parts:
            self.add(part)
        operands = (self._rewired(Operand((Source(part.name),), part.output.shape)) for part in parts)
        self._append(
            Elementwise(operator.name, tuple(operands), operator.output, operations_per_element=len(parts) - 1)
        )
        self.notes.append(
            f"'{operator.name}' is cut into {len(parts)} parts along its input channels: what one of its outputs reads "
            f"does not fit twice into {self.capacity_bytes} bytes beside its weights"
        )

    def _append(self, operator: Operator) -> None:
        self.operators.append(operator)
        self.tensors[operator.name] = operator.output

    def _weight_bytes(self, operator: Operator) -> int:
        """Bytes of the weights that a tile of ``operator`` needs at the least."""
        total = operator.weight_bytes
        for index, operand in enumerate(operator.operands):
            if _plays_weights(operator, index):
                block = operator.operand_box(index, _smallest_tile(operator))
                total += sum(self.tensors[name].box_bytes(box) for name, box in operand.source_boxes(block))
        return total

    def _tile_bytes(self, operator: Operator) -> int:
        """Bytes of the smallest tile of ``operator``: of its output and of what it reads."""
        tile = _smallest_tile(operator)
        total = operator.output.box_bytes(tile)
        for index, operand in enumerate(operator.operands):
            for name, box in operand.source_boxes(operator.operand_box(index, tile)):
                total += self.tensors[name].box_bytes(box)
        return total

    def _least_bytes(self, operator: Operator) -> int:
        """What has to fit twice: the weights, or the smallest tile of a pooling."""
        return self._tile_bytes(operator) if isinstance(operator, Pool) else self._weight_bytes(operator)

    def _fits(self, operator: Operator) -> bool:
        """Whether the weights fit twice; keys and values, which come and go with their tile, with all that it needs."""
        needed = operator.weight_bytes
        operands = range(len(operator.operands))
        if isinstance(operator, Pool) or any(_plays_weights(operator, index) for index in operands):
            needed += self._tile_bytes(operator)
        return 2 * needed <= self.capacity_bytes

    def _parts_of(self, operator: Operator) -> list[Operator]:
        """The fewest parts of ``operator`` that fit, as equal as can be; itself alone if it fits or cannot be cut."""
        if not isinstance(operator, Conv2d | MatMul | Pool) or self._fits(operator):
            return [operator]
        if isinstance(operator, Pool):
            return self._parts_of_pool(operator)
        at_least = -(-2 * self._weight_bytes(operator) // self.capacity_bytes)
        if at_least > MAXIMUM_PARTS:
            raise WorkloadError(
                f"operator '{operator.name}': its weights of {self._weight_bytes(operator)} bytes would have to be cut "
                f"into {at_least} parts to fit twice into a buffer of {self.capacity_bytes} bytes; the most that is "
                f"accepted is {MAXIMUM_PARTS}. Enlarge the buffer."
            )
        smallest: Operator = operator
        for ranges in _ways_to_cut(operator, max(at_least, 2)):
            smallest = _part(operator, *max(ranges, key=lambda span: span[1] - span[0]))
            if self._fits(smallest):
                return [_part(operator, begin, end) for begin, end in ranges]
        raise WorkloadError(
            f"operator '{operator.name}': the smallest part that it can be cut into, '{smallest.name}', has weights of "
            f"{self._weight_bytes(smallest)} bytes, which do not fit twice into a buffer of {self.capacity_bytes} "
            "bytes. Enlarge the buffer."
        )

    def _needed_parts_of(self, operator: Operator) -> list[Operator]:
        """Its parts where it could not run whole, but they could; else itself."""
        if operator.weight_bytes + 2 * self._tile_bytes(operator) <= self.capacity_bytes:
            return [operator]
        try:
            return self._parts_of(operator)
        except WorkloadError:
            return [operator]

    def _parts_of_pool(self, operator: Pool) -> list[Operator]:
        """The fewest parts along the channels whose smallest tile fits twice; single channels if none does."""
        channels = operator.output.shape[0]
        least = min(-(-2 * self._tile_bytes(operator) // self.capacity_bytes), channels)
        for count in range(least, channels + 1):
            ranges = _equal_ranges(channels, count)
            if count == channels or self._fits(_pool_part(operator, *max(ranges, key=lambda span: span[1] - span[0]))):
                return [_pool_part(operator, begin, end) for begin, end in ranges]
        raise AssertionError("a pooling has at least one channel")

    def _rewired(self, operand: Operand) -> Operand:
        """``operand`` with the parts in the place of every operator that was cut."""
        if not any(source.producer in self.parts for source in operand.sources):
            return operand
        pieces = []
        for source, extent in zip(operand.sources, operand.extents, strict=True):
            shape = operand.shape
            if len(operand.sources) > 1:
                shape = (*shape[: operand.axis], extent, *shape[operand.axis + 1 :])
            piece = Operand((source,), shape)
            if source.producer in self.parts:
                viewed = _viewed(self.parts[source.producer], source, shape)
                mixed = viewed is not None and len(viewed.sources) > 1 and viewed.axis != operand.axis
                if viewed is None or (mixed and len(operand.sources) > 1):
                    piece = Operand((Source(self._joined(source.producer), source.views),), shape)
                else:
                    piece = viewed
            pieces.append(piece)
        whole = joined(pieces, operand.axis)
        assert whole is not None  # every piece is one source, or joined along this axis
        return replace(whole, is_weight=operand.is_weight, sparsity=operand.sparsity)

    def _joined(self, name: str) -> str:
        """The operator that writes the parts of ``name`` out as one tensor."""
        join = f"{name}.join"
        if join not in self.tensors:
            output = replace(self._uncut[name].output, name=join)
            self._append(Elementwise(join, (self.parts[name],), output))
        return join


def _plays_weights(operator: Operator, index: int) -> bool:
    """Whether an operand takes the place of weights."""
    return operator.operands[index].is_weight or (isinstance(operator, MatMul) and index == 1)


def _smallest_tile(operator: Operator) -> Box:
    """One sample, one row and one column of the output; all of the axes that no tiling number cuts.

    It is the last row, which a causal mask keeps the most of.
    """
    axes = operator.tile_axes()
    return ((0, 1), *((size - 1 if axis in axes else 0, size) for axis, size in enumerate(operator.output.shape)))


def _cuts_depth(operator: Operator) -> bool:
    """Whether the depth of a product of two operands is the context, being the longer side of the second."""
    if not isinstance(operator, MatMul) or len(operator.operands) < 2:
        return False
    depth, columns = operator.operands[1].shape[-2:]
    return depth > columns


def _ways_to_cut(operator: Conv2d | MatMul, at_least: int) -> Iterator[list[Range]]:
    """All ways to cut an operator into ``at_least`` parts or more, as equal as can be, fewest parts first."""
    if isinstance(operator, MatMul) and (operator.heads == 1 or _cuts_depth(operator)):
        size = operator.operands[0].shape[-1] if _cuts_depth(operator) else operator.output.shape[-1]
        yield from (_equal_ranges(size, count) for count in range(min(at_least, size), size + 1))
        return
    if isinstance(operator, MatMul):
        groups, filters = operator.heads, operator.output.shape[-1] // operator.heads
    else:
        groups, filters = operator.groups, operator.output.shape[0] // operator.groups
    for count in range(at_least, groups + 1):
        yield [(begin * filters, end * filters) for begin, end in _equal_ranges(groups, count)]
    for count in range(min(max(-(-at_least // groups), 2), filters), filters + 1):
        inside = _equal_ranges(filters, count)
        yield [(g * filters + begin, g * filters + end) for g in range(groups) for begin, end in inside]


def _equal_ranges(size: int, count: int) -> list[Range]:
    """``count`` ranges that together are ``size`` long and differ by at most one."""
    edges = [size * number // count for number in range(count + 1)]
    return list(pairwise(edges))


def _part(operator: Conv2d | MatMul, begin: int, end: int) -> Operator:
    """The operator cut down to filters, columns or depth ``begin`` to ``end``."""
    name = f"{operator.name}[{begin}:{end}]"
    if isinstance(operator, Conv2d):
        return _conv_part(operator, name, begin, end)
    left, *others = operator.operands
    if _cuts_depth(operator):
        terms = (_along(left, -1, begin, end), _along(others[0], -2, begin, end))
        mask = operator.causal_depth and operator.causal_depth.behind(begin)
        return MatMul(name, terms, Tensor(name, operator.output.shape, PARTIAL_SUM_BITS), causal_depth=mask)
    output = replace(operator.output, name=name, shape=(*operator.output.shape[:-1], end - begin))
    weights = tuple(_cut_weight(operator, weight, -1, begin, end) for weight in operator.weights)
    mask = operator.causal_columns and operator.causal_columns.behind(begin)
    operands = (left, *(_along(other, -1, begin, end) for other in others))
    return MatMul(name, operands, output, weights, causal_columns=mask)


def _conv_part(operator: Conv2d, name: str, begin: int, end: int) -> Operator:
    """Some filters of a convolution: whole groups, or a part of one, with the channels that these groups read."""
    filters = operator.output.shape[0] // operator.groups
    first, last = begin // filters, (end - 1) // filters + 1
    operands = []
    for operand in operator.operands:
        if operand.is_weight:
            operands.append(_along(operand, 0, begin, end))
        else:
            channels = operand.shape[0] // operator.groups
            operands.append(_along(operand, 0, first * channels, last * channels))
    return replace(
        operator,
        name=name,
        operands=tuple(operands),
        output=replace(operator.output, name=name, shape=(end - begin, *operator.output.shape[1:])),
        weights=tuple(_cut_weight(operator, weight, 0, begin, end) for weight in operator.weights),
        groups=last - first,
    )


def _pool_part(operator: Pool, begin: int, end: int) -> Pool:
    """Some channels of a pooling."""
    name = f"{operator.name}[{begin}:{end}]"
    output = replace(operator.output, name=name, shape=(end - begin, *operator.output.shape[1:]))
    return replace(operator, name=name, operands=(_along(operator.operands[0], 0, begin, end),), output=output)


def _along(operand: Operand, axis: int, begin: int, end: int) -> Operand:
    """The operand cut down to ``begin`` to ``end`` along one axis."""
    starts, shape = [0] * len(operand.shape), list(operand.shape)
    starts[axis], shape[axis] = begin, end - begin
    return replace(sliced(operand, starts, shape), is_weight=operand.is_weight)


def _cut_weight(operator: Operator, weight: Tensor, axis: int, begin: int, end: int) -> Tensor:
    """The filters or columns ``begin`` to ``end`` of a parameter."""
    if weight.shape[axis] != operator.output.shape[axis]:
        raise WorkloadError(
            f"operator '{operator.name}' has to be cut, but its parameter '{weight.name}' of shape {weight.shape} "
            f"does not have the {operator.output.shape[axis]} output channels along axis {axis}"
        )
    shape = list(weight.shape)
    shape[axis] = end - begin
    return replace(weight, name=f"{weight.name}[{begin}:{end}]", shape=tuple(shape))


def _viewed(parts: Operand, source: Source, shape: tuple[int, ...]) -> Operand | None:
    """``parts`` through the views of ``source``, of ``shape`` in the end; None where a reshape crosses the parts."""
    operand: Operand | None = parts
    begin = [0] * len(parts.shape)
    for view in source.views:
        if isinstance(view, Reshape):
            assert operand is not None
            operand = reshaped(sliced(operand, begin, view.from_shape), view.to_shape)
            if operand is None:
                return None
            begin = [0] * len(view.to_shape)
        elif isinstance(view, Permute):
            assert operand is not None
            operand = permuted(operand, view.axes)
            begin = [begin[axis] for axis in view.axes]
        else:
            begin = [low + more for low, more in zip(begin, view.begin, strict=True)]
    assert operand is not None
    return sliced(operand, begin, shape)
