"""SoMa's tile rule to the letter: one rounded-up shape for all tiles of an operator (HPCA 2025, section IV-B).

Where the reference data leave a choice, it is made here: padding counts above the input only, and a consumer outside
the fused group asks for nothing (``docs/model.md`` lists these).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from accelsim.errors import WorkloadError
from accelsim.schedule.tiling import Block, inside_consumers, split_tiling_number
from accelsim.workload.graph import Workload
from accelsim.workload.operator import Operand, Operator
from accelsim.workload.operators import Conv2d, Elementwise, Pool, Transpose, Upsample


class Shape(NamedTuple):
    """Channels, rows and columns of a tile, or of what it reads."""

    channels: int
    rows: int
    columns: int


def tile_group(workload: Workload, group: Sequence[Operator], tiles: int) -> list[list[Block]]:
    """See :data:`accelsim.schedule.tiling.GroupTiler`."""
    consumers = inside_consumers(workload, group)
    shapes: dict[str, Shape] = {}
    samples = workload.batch
    for operator in reversed(group):
        if readers := consumers[operator.name]:
            needs = [_read_from(reader, operator, shapes[reader.name]) for reader in readers]
            shapes[operator.name] = Shape(*map(max, *needs)) if len(needs) > 1 else needs[0]
        else:
            channels, rows, columns = operator.output.shape
            parts = split_tiling_number(operator, workload.batch, tiles, rows, columns)
            samples = workload.batch // parts.batch
            shapes[operator.name] = Shape(channels, -(-rows // parts.rows), -(-columns // parts.columns))
    return [[_block(operator, samples, shapes[operator.name])] * tiles for operator in group]


def largest_tiling_number(workload: Workload, group: Sequence[Operator]) -> int:
    """The cap of the search: the largest power of two up to batch * rows * columns of the first pure output
    operator."""
    consumers = inside_consumers(workload, group)
    first = next(operator for operator in group if not consumers[operator.name])
    _, rows, columns = first.output.shape
    return 1 << ((workload.batch * rows * columns).bit_length() - 1)


def _read_from(reader: Operator, producer: Operator, tile: Shape) -> Shape:
    """What a tile of ``reader`` asks of ``producer``, the maximum over the operands that read it."""
    needs = [
        Shape(*producer.output.shape) if operand.is_weight else input_shape(reader, operand, tile)
        for operand in reader.operands
        if any(source.producer == producer.name for source in operand.sources)
    ]
    return Shape(*map(max, *needs)) if len(needs) > 1 else needs[0]


def input_shape(reader: Operator, operand: Operand, tile: Shape) -> Shape:
    """Channels, rows and columns of ``operand`` that a tile reads: the range from 0 that the top-left tile needs."""
    match reader:
        case Conv2d() | Pool():
            rows, columns = (
                min((size - 1) * stride + (kernel - 1) * dilation + 1 - padding, whole)
                for size, stride, kernel, dilation, padding, whole in zip(
                    tile[1:],
                    reader.stride,
                    reader.kernel,
                    reader.dilation,
                    reader.padding,
                    operand.shape[1:],
                    strict=True,
                )
            )
            return Shape(operand.shape[0] if isinstance(reader, Conv2d) else tile.channels, rows, columns)
        case Elementwise():
            return tile
        case Upsample():
            return Shape(tile.channels, -(-tile.rows // reader.factors[0]), -(-tile.columns // reader.factors[1]))
        case Transpose():
            back = [0, 0, 0]
            for out_axis, in_axis in enumerate(reader.permutation):
                back[in_axis] = tile[out_axis]
            return Shape(*back)
        case _:
            raise WorkloadError(
                f"operator '{reader.name}' ({reader.kind}) has no place in SoMa's tile rule; "
                "give the workload the tile rule 'exact'"
            )


def _block(operator: Operator, samples: int, tile: Shape) -> Block:
    box = ((0, samples), *((0, size) for size in tile))
    bits = operator.output.bits
    output_bytes = -(-samples * prod(tile) * bits // 8)
    reads: dict[str, int] = {}
    for operand in operator.operands:
        spatial = operand.shape[1:] if operand.is_weight else input_shape(operator, operand, tile)[1:]
        for source, channels in zip(operand.sources, operand.extents, strict=True):
            loaded = -(-samples * channels * prod(spatial) * bits // 8)
            reads[source.producer] = max(reads.get(source.producer, 0), loaded)
    return Block(box, operator.work(box), output_bytes, output_bytes, tuple(reads.items()))
