"""The exact tile rule: every tile has its own channels and its true halo; nothing is inflated or rounded up.

A pure output operator's output is cut into blocks as equal as whole numbers allow. Going backwards through the fused
group, a tile of any other operator computes the smallest block that holds all that the same tile of its consumers in
the group reads, and, if the outside needs it too, its own share of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple
from weakref import WeakKeyDictionary

from accelsim.errors import TilingNumberError
from accelsim.schedule.tiling import Block, inside_consumers, split_tiling_number
from accelsim.sparsity import Sparsity
from accelsim.workload.graph import Workload
from accelsim.workload.operator import Operator, Source
from accelsim.workload.tensor import Box, Range, Tensor, bounding_box


def tile_group(workload: Workload, group: Sequence[Operator], tiles: int) -> list[list[Block]]:
    """See :data:`accelsim.schedule.tiling.GroupTiler`.

    What an operator alone was cut into is kept, and given again, with other names, to operators like it.
    """
    if len(group) > 1:
        return _tile_group(workload, group, tiles)
    key = (alike(workload, group[0]), tiles)
    kept = _KEPT[workload].blocks
    producers = group[0].producers()
    if key not in kept:
        kept[key] = (producers, _tile_group(workload, group, tiles))
    read, blocks = kept[key]
    if read == producers:
        return blocks
    renamed = dict(zip(read, producers, strict=True))
    return [
        [
            Block(b.box, b.work, b.output_bytes, b.stored_bytes, tuple([(renamed[old], size) for old, size in b.reads]))
            for b in blocks[0]
        ]
    ]


def alike(workload: Workload, operator: Operator) -> int:
    """A number that the operators of a workload share which differ in names only, and so are cut alike: the parts of
    one that was too large, and the same operator of another layer."""
    kept = _KEPT.setdefault(workload, _Kept({}, {}, {}))
    number = kept.number.get(operator.name)
    if number is None:
        number = kept.number_of_like.setdefault(_nameless(workload, operator), len(kept.number_of_like))
        kept.number[operator.name] = number
    return number


class _Kept(NamedTuple):
    """Operators of a workload numbered, those alike with one number; what was read, and the blocks, by that and tiling
    number."""

    number: dict[str, int]
    number_of_like: dict[_Like, int]
    blocks: dict[tuple[int, int], tuple[tuple[str, ...], list[list[Block]]]]


_Form = tuple[int, Sparsity | None]
_Like = tuple[Operator, bool, tuple[_Form, ...], tuple[_Form, ...]]

_KEPT: WeakKeyDictionary[Workload, _Kept] = WeakKeyDictionary()


def _nameless(workload: Workload, operator: Operator) -> _Like:
    """All that decides the blocks of an operator alone, but for names; producers are numbered as they come."""
    producers = operator.producers()
    number = {name: str(index) for index, name in enumerate(producers)}
    operands = tuple(
        replace(operand, sources=tuple(Source(number[source.producer], source.views) for source in operand.sources))
        for operand in operator.operands
    )
    nameless = replace(operator, name="", operands=operands, output=replace(operator.output, name=""), weights=())
    read = tuple((tensor.bits, tensor.sparsity) for tensor in (_tensor(workload, name) for name in producers))
    weights = tuple((weight.bits, weight.sparsity) for weight in operator.weights[:1])
    return nameless, _needed_outside(workload, operator, {operator.name}), read, weights


def _tile_group(workload: Workload, group: Sequence[Operator], tiles: int) -> list[list[Block]]:
    consumers = inside_consumers(workload, group)
    names = set(consumers)
    asked: dict[str, list[Box | None]] = {name: [None] * tiles for name in names}
    blocks: dict[str, list[Block]] = {}
    for operator in reversed(group):
        shared = _needed_outside(workload, operator, names)
        shares = even_shares(operator, workload.batch, tiles) if shared else [None] * tiles
        boxes = [_join(need, share) for need, share in zip(asked[operator.name], shares, strict=True)]
        blocks[operator.name] = []
        for number, (box, share) in enumerate(zip(boxes, shares, strict=True)):
            needs = operand_boxes(operator, box)
            blocks[operator.name].append(_block(workload, operator, box, share, needs))
            for producer, needed in needs:
                if producer in names:
                    asked[producer][number] = _join(asked[producer][number], needed)
    return [blocks[operator.name] for operator in group]


def even_shares(operator: Operator, batch: int, tiles: int) -> list[Box | None]:
    """The output cut into ``tiles`` blocks as equal as whole numbers allow, batch first, then rows, then columns.

    Raises:
        TilingNumberError: it cannot be cut into so many.
    """
    shape = operator.output.shape
    axes = operator.tile_axes()
    rows = 1 if axes.rows is None else shape[axes.rows]
    columns = 1 if axes.columns is None else shape[axes.columns]
    parts = split_tiling_number(operator, batch, tiles, rows, columns)
    boxes: list[Box | None] = []
    for i, j, k in product(range(parts.batch), range(parts.rows), range(parts.columns)):
        ranges: list[Range] = [(0, size) for size in shape]
        if axes.rows is not None:
            ranges[axes.rows] = _share(rows, parts.rows, j)
        if axes.columns is not None:
            ranges[axes.columns] = _share(columns, parts.columns, k)
        boxes.append((_share(batch, parts.batch, i), *ranges))
    return boxes


def operand_boxes(operator: Operator, box: Box) -> list[tuple[str, Box]]:
    """For every producer that the block ``box`` of ``operator`` reads: the smallest block that holds all of it."""
    found: dict[str, Box] = {}
    for index, operand in enumerate(operator.operands):
        for producer, needed in operand.source_boxes(operator.operand_box(index, box)):
            found[producer] = bounding_box(found[producer], needed) if producer in found else needed
    return list(found.items())


def _needed_outside(workload: Workload, operator: Operator, inside: set[str]) -> bool:
    return workload.is_output(operator.name) or any(
        reader not in inside for reader in workload.consumers[operator.name]
    )


def _join(first: Box | None, second: Box | None) -> Box:
    if first is None or second is None:
        box = first or second
        if box is None:
            raise TilingNumberError(
                "a tile of the group reads nothing of an operator fused into it; put a fusion cut behind that operator"
            )
        return box
    return bounding_box(first, second)


def _share(size: int, parts: int, index: int) -> Range:
    return size * index // parts, size * (index + 1) // parts


def _block(workload: Workload, operator: Operator, box: Box, share: Box | None, needs: list[tuple[str, Box]]) -> Block:
    output = operator.output
    reads = tuple((producer, _tensor(workload, producer).box_bytes(needed)) for producer, needed in needs)
    stored_bytes = 0 if share is None else output.box_bytes(share)
    return Block(box, operator.work(box), output.box_bytes(box), stored_bytes, reads)


def _tensor(workload: Workload, name: str) -> Tensor:
    if name in workload.index:
        return workload.operator(name).output
    return workload.inputs[workload.input_index[name]]
