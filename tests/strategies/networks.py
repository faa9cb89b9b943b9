"""Small networks and schedules for tests: three layers by hand, and Hypothesis strategies for random ones."""

from __future__ import annotations

from hypothesis import strategies as st

from accelsim.schedule.notation import Schedule
from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.operator import Operand, Operator, Source
from accelsim.workload.operators import Conv2d, Elementwise, Pool
from accelsim.workload.tensor import Tensor


def convolution(name: str, producer: str, shape: tuple[int, int, int], filters: int, **window: object) -> Conv2d:
    """A convolution whose output size follows from its window by flooring, as frameworks do."""
    kernel = window.get("kernel", (1, 1))
    stride = window.get("stride", (1, 1))
    padding = window.get("padding", (0, 0))
    assert isinstance(kernel, tuple) and isinstance(stride, tuple) and isinstance(padding, tuple)
    rows, columns = (
        (size + 2 * pad - k) // s + 1 for size, k, s, pad in zip(shape[1:], kernel, stride, padding, strict=True)
    )
    return Conv2d(
        name,
        (Operand((Source(producer),), shape),),
        Tensor(name, (filters, rows, columns)),
        (Tensor(f"{name}.weight", (filters, shape[0], *kernel)),),
        kernel=kernel,
        stride=stride,
        padding=padding,
    )


def three_layers(rule: TileRule = TileRule.SOMA) -> Workload:
    """The worked example: A -> B -> C; weights of 320, 160 and 960 bytes, two tiles of 160 bytes for A and B."""
    layers: list[Operator] = []
    producer = "input"
    for name, weights, filters in (("A", 320, 16), ("B", 160, 16), ("C", 960, 16)):
        layer = convolution(name, producer, (16, 20, 1), filters)
        layers.append(Conv2d(name, layer.operands, layer.output, (Tensor(f"{name}.weight", (weights,)),)))
        producer = name
    return Workload("three", tuple(layers), (Tensor("input", (16, 20, 1)),), tile_rule=rule)


@st.composite
def networks(draw: st.DrawFn, rule: TileRule | None = None) -> Workload:
    """Random networks of convolutions, poolings and sums: branches, joins, strides, halos, several outputs."""
    shapes = {"input": (draw(st.integers(1, 4)), draw(st.integers(4, 12)), draw(st.integers(4, 12)))}
    inputs = (Tensor("input", shapes["input"]),)
    operators: list[Operator] = []
    for number in range(draw(st.integers(1, 6))):
        name = f"op{number}"
        producer = draw(st.sampled_from(sorted(shapes)))
        shape = shapes[producer]
        alike = [other for other, its in shapes.items() if its == shape]
        kind = draw(st.sampled_from(["convolution", "pool", "sum"]))
        kernel = tuple(draw(st.integers(1, min(3, size))) for size in shape[1:])
        stride = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
        padding = tuple(draw(st.integers(0, size // 2)) for size in kernel)
        if kind == "convolution":
            operator: Operator = convolution(
                name, producer, shape, draw(st.integers(1, 6)), kernel=kernel, stride=stride, padding=padding
            )
        elif kind == "pool":
            model = convolution(name, producer, shape, shape[0], kernel=kernel, stride=stride, padding=padding)
            operator = Pool(name, model.operands, model.output, kernel=kernel, stride=stride, padding=padding)
        else:
            others = draw(st.lists(st.sampled_from(alike), min_size=1, max_size=2))
            operands = tuple(Operand((Source(other),), shape) for other in (producer, *others))
            operator = Elementwise(name, operands, Tensor(name, shape), operations_per_element=len(operands))
        operators.append(operator)
        shapes[name] = operator.output.shape
    return Workload(
        "random",
        tuple(operators),
        inputs,
        batch=draw(st.sampled_from([1, 1, 2, 4])),
        tile_rule=rule or draw(st.sampled_from(TileRule)),
    )


@st.composite
def layer_fusions(draw: st.DrawFn, workload: Workload) -> Schedule:
    """A random legal order and random cuts of ``workload``; its tiling numbers may turn out too large."""
    left = [operator.name for operator in workload.operators]
    order: list[str] = []
    while left:
        ready = [n for n in left if not set(workload.operator(n).producers()) & set(left)]
        order.append(draw(st.sampled_from(ready)))
        left.remove(order[-1])
    places = range(1, len(order))
    fusion_cuts = [place for place in places if draw(st.booleans())]
    dram_cuts = [cut for cut in fusion_cuts if draw(st.booleans())]
    numbers = [draw(st.sampled_from([1, 1, 2, 3, 4, 8])) for _ in range(len(fusion_cuts) + 1)]
    return Schedule(workload.name, tuple(order), tuple(fusion_cuts), tuple(dram_cuts), tuple(numbers))
