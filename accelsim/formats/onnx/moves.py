"""Rules for the ONNX operators that compute nothing: views that are free, and data that are moved and paid for."""

from __future__ import annotations

from collections.abc import Sequence

from accelsim.errors import FormatError
from accelsim.formats.onnx.builder import Builder, Rule, axis_of, sample_shape
from accelsim.formats.onnx.folding import slices
from accelsim.formats.onnx.inference import Node, Shape
from accelsim.workload.operator import Operand, Source
from accelsim.workload.operators import Embedding, Transpose
from accelsim.workload.views import joined, sliced

WINDOW_OPERATORS = ("Conv", "MaxPool", "AveragePool")


def same(builder: Builder, node: Node) -> None:
    """The same elements, in the same order."""
    builder.same(node)


def move(builder: Builder, node: Node) -> None:
    """One operation an element."""
    builder.move(node)


def transpose(builder: Builder, node: Node) -> None:
    """Transpose: free where only axes of size 1 change places."""
    shape = builder.shape(node.inputs[0])
    permutation = tuple(node.attributes.get("perm", range(len(shape))[::-1]))
    if sorted(permutation) != list(range(len(shape))):
        raise FormatError(f"attribute 'perm' is {permutation}; the tensor has {len(shape)} axes")
    wide = [axis for axis in permutation if shape[axis] > 1]
    if wide == sorted(wide):
        builder.same(node)
        return
    if shape[0] == 1 and permutation[0] == 0:
        shape, permutation = shape[1:], tuple(axis - 1 for axis in permutation[1:])
    operand = builder.operand(node, 0, shape)
    name = builder.name(node)
    output = builder.tensor(name, (shape[axis] for axis in permutation))
    builder.add(node, Transpose(name, (operand,), output, permutation=permutation))


def concat(builder: Builder, node: Node) -> None:
    """Concat: free, but written out where parameters or a concatenation along another axis are among its inputs."""
    out = builder.shape(node.outputs[0])
    axis = axis_of(node, len(out), 0)
    numbers = [number for number, value in enumerate(node.inputs) if value]
    active = builder.activations(node)
    strip = int(out[0] == 1 and axis > 0)
    operands = [builder.operand(node, number, builder.shape(node.inputs[number])[strip:]) for number in active]
    if len(active) == len(numbers):
        free = joined(operands, axis - strip)
        if free is not None:
            builder.define(node, free)
            return
    if not operands:
        raise builder.refusal(node, "none of its inputs is computed by the graph")
    builder.move(node)


def cut(builder: Builder, node: Node, begin: Sequence[int], shape: Shape, number: int = 0) -> None:
    """Defines output ``number`` as the block of input 0 that begins at ``begin`` and has the ONNX shape ``shape``."""
    strip = int(builder.shape(node.inputs[0])[0] == 1)
    builder.define(node, sliced(builder.operand(node), begin[strip:], shape[strip:]), number)


def slice_(builder: Builder, node: Node) -> None:
    """Slice: free where the steps are 1."""
    shape = builder.shape(node.inputs[0])
    bounds = [builder.graph.arrays.get(value) if value else None for value in node.inputs[1:]]
    if any(value and array is None for value, array in zip(node.inputs[1:], bounds, strict=True)):
        builder.move(node)
        return
    try:
        ranges = [part.indices(size) for part, size in zip(slices(shape, node.attributes, bounds), shape, strict=True)]
    except (IndexError, TypeError, ValueError) as error:
        raise FormatError(f"its bounds do not fit an input of shape {shape}: {error}") from error
    if any(step != 1 for _, _, step in ranges):
        builder.move(node)
        return
    cut(builder, node, [begin for begin, _, _ in ranges], tuple(end - begin for begin, end, _ in ranges))


def split(builder: Builder, node: Node) -> None:
    """Split: free."""
    axis = axis_of(node, len(builder.shape(node.inputs[0])), 0)
    begin = [0] * len(builder.shape(node.inputs[0]))
    for number, value in enumerate(node.outputs):
        if not value:
            raise FormatError(f"its output {number} is left out")
        if builder.readers[value]:
            cut(builder, node, begin, builder.shape(value), number)
        begin[axis] += builder.shape(value)[axis]


def gather(builder: Builder, node: Node) -> None:
    """Gather: an embedding where the table is a parameter, a free slice where the indices are one range, else moved."""
    table, indices = node.inputs[:2]
    shape = builder.shape(table)
    axis = axis_of(node, len(shape), 0)
    if builder.is_constant(table):
        if axis != 0 or len(shape) != 2:
            builder.move(node)
            return
        name = builder.name(node)
        output = builder.tensor(name, sample_shape(builder.shape(node.outputs[0])))
        rows = builder.weight(builder.name(node, ".rows"), output.shape)
        builder.inputs[rows.name] = rows
        operands = (
            Operand((Source(rows.name),), rows.shape),
            builder.operand(node, 1, output.shape[:-1]),
        )
        builder.add(node, Embedding(name, operands, output, table=builder.weight(f"{name}.table", shape)))
        return
    known = builder.graph.arrays.get(indices)
    if known is None or known.size == 0:
        builder.move(node)
        return
    wanted = [int(index) + (shape[axis] if index < 0 else 0) for index in known.reshape(-1)]
    if min(wanted) < 0 or max(wanted) >= shape[axis]:
        raise FormatError(f"indices from {min(wanted)} to {max(wanted)} along an axis of {shape[axis]}")
    if wanted != list(range(wanted[0], wanted[0] + len(wanted))):
        builder.move(node)
        return
    begin = [wanted[0] if number == axis else 0 for number in range(len(shape))]
    cut(builder, node, begin, (*shape[:axis], len(wanted), *shape[axis + 1 :]))


def pad(builder: Builder, node: Node) -> None:
    """Pad: left to the window operator that alone reads it, where it pads rows and columns only; else moved."""
    shape = builder.shape(node.inputs[0])
    pads = node.attributes.get("pads")
    if pads is None and len(node.inputs) > 1:
        array = builder.graph.arrays.get(node.inputs[1])
        pads = None if array is None else array.reshape(-1).tolist()
    reader = next((other for other in builder.graph.nodes if node.outputs[0] in other.inputs[:1]), None)
    if (
        pads is None
        or len(pads) != 8
        or shape[0] != 1
        or len(node.inputs) > 3
        or node.attributes.get("mode", "constant") != "constant"
        or min(pads) < 0
        or any(pads[axis] for axis in (0, 1, 4, 5))
        or reader is None
        or reader.op not in WINDOW_OPERATORS
        or builder.readers[node.outputs[0]] != 1
    ):
        builder.move(node)
        return
    builder.leave_padding(node, (pads[2], pads[3]))


_SAME = "Identity Dropout Reshape Flatten Squeeze Unsqueeze Cast CastLike"
_MOVES = (
    "Tile DepthToSpace SpaceToDepth Range OneHot EyeLike ReverseSequence GatherElements GatherND ScatterElements "
    "ScatterND Scatter TensorScatter CenterCropPad Col2Im"
)

MOVE_RULES: dict[str, Rule] = {
    **dict.fromkeys(_SAME.split(), same),
    **dict.fromkeys(_MOVES.split(), move),
    "Transpose": transpose,
    "Concat": concat,
    "Slice": slice_,
    "Split": split,
    "Gather": gather,
    "Pad": pad,
}
