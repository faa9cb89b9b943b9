"""Operators whose weights do not fit twice: the parts compute what the whole computed."""

from __future__ import annotations

from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accelsim.errors import WorkloadError
from accelsim.formats.schedule_json import write_schedule
from accelsim.job import Job
from accelsim.library import load_accelerator, load_workload
from accelsim.schedule.notation import Schedule
from accelsim.search import Layerwise
from accelsim.workload.cut import cut_to_fit
from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.operator import Operand, Operator, Source
from accelsim.workload.operators import Conv2d, Elementwise, MatMul, Pool, Softmax
from accelsim.workload.tensor import Reshape, Tensor
from accelsim.workload.views import joined, reshaped, sliced
from tests.naive.networks import run

Shape = tuple[int, ...]


def whole(name: str, shape: Shape) -> Operand:
    return Operand((Source(name),), shape)


def dense(name: str, operand: Operand, columns: int) -> MatMul:
    shape = operand.shape
    weight = Tensor(f"{name}.weight", (shape[-1], columns))
    return MatMul(name, (operand,), Tensor(name, (*shape[:-1], columns)), (weight,))


def network(*operators: Operator, inputs: dict[str, Shape], rule: TileRule = TileRule.EXACT) -> Workload:
    return Workload("net", operators, tuple(Tensor(n, s) for n, s in inputs.items()), tile_rule=rule)


@st.composite
def networks(draw: st.DrawFn) -> Workload:
    """Convolutions in groups, matrix products, sums and attention, that read each other through every kind of view."""
    shapes: dict[str, Shape] = {"input": (4, draw(st.integers(1, 3)), draw(st.integers(1, 3)))}
    operators: list[Operator] = []

    def operand(shape: Shape | None = None) -> Operand:
        """Something computed so far, joined with its like, sliced and reshaped."""
        name = draw(st.sampled_from(sorted(shapes)))
        view = whole(name, shapes[name])
        if draw(st.booleans()):
            view = joined([view, view], draw(st.integers(0, len(view.shape) - 1))) or view
        for _ in range(draw(st.integers(0, 2))):
            sizes = [draw(st.integers(1, size)) for size in view.shape]
            view = sliced(view, [draw(st.integers(0, s - n)) for s, n in zip(view.shape, sizes, strict=True)], sizes)
        if shape is None:
            elements = prod(view.shape)
            divisors = [n for n in range(1, elements + 1) if elements % n == 0]
            rows = draw(st.sampled_from(divisors))
            shape = draw(
                st.sampled_from([view.shape, (rows, elements // rows), (elements, 1, 1), (rows, elements // rows, 1)])
            )
        return reshaped(view, shape) or whole(name, shapes[name])

    for number in range(draw(st.integers(1, 5))):
        name, kind = f"op{number}", draw(st.sampled_from(["conv", "dense", "sum", "product", "attention"]))
        x = operand()
        if kind == "conv" and len(x.shape) == 3:
            groups = draw(st.sampled_from([g for g in (1, 2, 4) if x.shape[0] % g == 0]))
            filters = groups * draw(st.integers(1, 4))
            weight = Tensor(f"{name}.weight", (filters, x.shape[0] // groups, 1, 1))
            operator: Operator = Conv2d(name, (x,), Tensor(name, (filters, *x.shape[1:])), (weight,), groups=groups)
        elif kind == "attention" and len(x.shape) == 3:
            y = operand()
            assume(prod(y.shape) % x.shape[0] == 0)
            filters = prod(y.shape) // x.shape[0]
            kernel = reshaped(y, (filters, x.shape[0], 1))
            assume(kernel is not None)
            assert kernel is not None
            kernel = Operand(kernel.sources, kernel.shape, kernel.axis, kernel.extents, is_weight=True)
            operator = Conv2d(name, (x, kernel), Tensor(name, (filters, *x.shape[1:])))
        elif kind == "product" and len(x.shape) == 2:
            y = operand()
            assume(prod(y.shape) % x.shape[1] == 0)
            right = reshaped(y, (x.shape[1], prod(y.shape) // x.shape[1]))
            assume(right is not None)
            assert right is not None
            operator = MatMul(name, (x, right), Tensor(name, (x.shape[0], right.shape[1])))
        elif kind == "sum":
            operator = Elementwise(name, (x, x), Tensor(name, x.shape))
        else:
            operator = dense(name, x, draw(st.integers(1, 8)))
        assume(operator.output.elements <= 200)
        operators.append(operator)
        shapes[name] = operator.output.shape
    return network(*operators, inputs={"input": shapes["input"]})


@settings(max_examples=300)
@given(networks(), st.integers(1, 60))
def test_the_parts_compute_what_the_whole_computes(workload: Workload, capacity_bytes: int) -> None:
    try:
        cut = cut_to_fit(workload, capacity_bytes)
    except WorkloadError as error:
        assert "smallest part" in str(error)
        assume(False)
    assert cut.macs == workload.macs
    assert cut.weight_bytes == workload.weight_bytes
    assert all(2 * operator.weight_bytes <= capacity_bytes for operator in cut.operators)
    before, after = run(workload, workload), run(cut, workload)
    for operator in workload.operators:
        if operator.name in after:
            found = after[operator.name]
        else:
            axis = 0 if isinstance(operator, Conv2d) else -1
            found = np.concatenate([after[n] for n in after if n.startswith(f"{operator.name}[")], axis or 1)
        np.testing.assert_array_equal(found, before[operator.name])


@given(st.integers(1, 40), st.integers(1, 30), st.integers(1, 400))
def test_there_are_no_fewer_parts_than_needed_and_they_are_equal(depth: int, columns: int, capacity: int) -> None:
    """Twice a part of k columns is 2 * depth * k bytes, so at most capacity // (2 * depth) columns go into one."""
    workload = network(dense("fc", whole("x", (depth,)), columns), inputs={"x": (depth,)})
    most = capacity // (2 * depth)
    if most == 0:
        with pytest.raises(WorkloadError, match="do not fit twice into a buffer of"):
            cut_to_fit(workload, capacity)
        return
    sizes = [operator.output.shape[0] for operator in cut_to_fit(workload, capacity).operators]
    assert len(sizes) == -(-columns // most)
    assert sum(sizes) == columns
    assert max(sizes) - min(sizes) <= 1


def test_names_outputs_and_what_readers_see() -> None:
    first, second = dense("a", whole("x", (10,)), 9), dense("b", whole("a", (9,)), 2)
    cut = cut_to_fit(network(first, second, inputs={"x": (10,)}), 60)
    assert [operator.name for operator in cut.operators] == ["a[0:3]", "a[3:6]", "a[6:9]", "b"]
    reader = cut.operator("b").operands[0]
    assert [source.producer for source in reader.sources] == ["a[0:3]", "a[3:6]", "a[6:9]"]
    assert reader.extents == (3, 3, 3)
    assert cut.outputs == ("b",)
    alone = cut_to_fit(network(first, inputs={"x": (10,)}), 60)
    assert alone.outputs == ("a[0:3]", "a[3:6]", "a[6:9]")
    assert "'a' is cut into 3 parts" in alone.notes[0]


def test_slices_in_a_row_find_their_parts() -> None:
    """Two of the columns from 2 + 3 on are the last of the second part and the first of the third."""
    once = sliced(whole("a", (9,)), (2,), (7,))
    second = dense("b", sliced(once, (3,), (2,)), 2)
    cut = cut_to_fit(network(dense("a", whole("x", (10,)), 9), second, inputs={"x": (10,)}), 60)
    reader = cut.operator("b").operands[0]
    assert list(reader.source_boxes(((0, 1), (0, 2)))) == [("a[3:6]", ((0, 1), (2, 3))), ("a[6:9]", ((0, 1), (0, 1)))]


def test_a_reshape_across_the_parts_is_paid_for() -> None:
    """Columns 0-4 and 5-9 of two rows, read as one vector: they have to be written out as one."""
    product = dense("a", whole("x", (2, 6)), 10)
    flat = Operand((Source("a", (Reshape((2, 10), (20,)),)),), (20,))
    second = dense("b", flat, 1)
    cut = cut_to_fit(network(product, second, inputs={"x": (2, 6)}), 60)
    assert [operator.name for operator in cut.operators] == ["a[0:5]", "a[5:10]", "a.join", "b"]
    assert cut.operator("b").operands[0].sources == (Source("a.join", flat.sources[0].views),)
    assert cut.vector_ops == 20


def test_groups_are_cut_apart_before_they_are_cut_themselves() -> None:
    weight = Tensor("c.weight", (8, 2, 1, 1))
    conv = Conv2d("c", (whole("x", (8, 3, 3)),), Tensor("c", (8, 3, 3)), (weight,), groups=4)
    workload = network(conv, inputs={"x": (8, 3, 3)})
    halves = cut_to_fit(workload, 16)
    assert [o.name for o in halves.operators] == ["c[0:4]", "c[4:8]"]
    assert [getattr(o, "groups", 0) for o in halves.operators] == [2, 2]
    assert halves.operators[1].operands[0].shape == (4, 3, 3)
    single = cut_to_fit(workload, 4)
    assert [o.output.shape[0] for o in single.operators] == [1] * 8
    assert halves.macs == single.macs == 8 * 9 * 2


def test_keys_are_cut_along_the_context() -> None:
    """Of 2 heads, 4 features and 100 positions, one head needs 400 bytes of keys, 4 of queries, 100 of scores.

    A third, 34 positions, needs 4 x 34 + 4 + 34 = 174 bytes, which fit twice into 400; half of them do not.
    """
    scores = MatMul("qk", (whole("q", (2, 1, 4)), whole("k", (2, 4, 100))), Tensor("qk", (2, 1, 100)))
    softmax = Softmax("softmax", (whole("qk", (2, 1, 100)),), Tensor("softmax", (2, 1, 100)))
    workload = network(scores, softmax, inputs={"q": (2, 1, 4), "k": (2, 4, 100)})
    assert cut_to_fit(workload, 1008) is workload
    assert cut_to_fit(workload, 1007) is not workload
    cut = cut_to_fit(workload, 400)
    assert [operator.name for operator in cut.operators] == ["qk[0:33]", "qk[33:66]", "qk[66:100]", "softmax"]
    assert cut.operators[2].operands[1].shape == (2, 4, 34)
    assert cut.macs == workload.macs == 2 * 4 * 100


def test_values_are_cut_along_the_context_and_added() -> None:
    attended = MatMul("av", (whole("p", (2, 1, 100)), whole("v", (2, 100, 4))), Tensor("av", (2, 1, 4)))
    workload = network(attended, inputs={"p": (2, 1, 100), "v": (2, 100, 4)})
    cut = cut_to_fit(workload, 400)
    assert [operator.name for operator in cut.operators] == ["av[0:33]", "av[33:66]", "av[66:100]", "av"]
    assert [operator.output.bits for operator in cut.operators] == [32, 32, 32, 8]
    assert cut.outputs == ("av",)
    assert cut.macs == workload.macs
    assert cut.vector_ops == 2 * 2 * 4  # two additions for each of the 8 sums


def test_workloads_that_fit_are_returned_themselves() -> None:
    product = dense("a", whole("x", (10,)), 10)
    soma = network(product, inputs={"x": (10,)}, rule=TileRule.SOMA)
    assert cut_to_fit(soma, 140) is soma  # weights once, two tiles of 10 bytes in and 10 out
    assert cut_to_fit(soma, 139) is not soma
    exact = network(product, inputs={"x": (10,)})
    assert cut_to_fit(exact, 200) is exact
    assert cut_to_fit(exact, 199) is not exact


def test_a_capacity_below_one_byte_is_refused() -> None:
    with pytest.raises(WorkloadError, match="expected at least 1"):
        cut_to_fit(network(dense("a", whole("x", (10,)), 10), inputs={"x": (10,)}), 0)


def test_absurdly_many_parts_are_refused() -> None:
    huge = network(dense("a", whole("x", (1 << 20,)), 1 << 20), inputs={"x": (1 << 20,)})
    with pytest.raises(WorkloadError, match="would have to be cut into 1048576 parts"):
        cut_to_fit(huge, 1 << 21)


def test_a_pooling_over_the_whole_image_is_cut_along_its_channels() -> None:
    # 6 channels of 4 x 4 and 6 results are 102 bytes, twice 204: 3 parts of 2 channels, 34 bytes each, fit into 100.
    pool = Pool("pool", (whole("input", (6, 4, 4)),), Tensor("pool", (6, 1, 1)), kernel=(4, 4))
    reader = Elementwise("reader", (whole("pool", (6, 1, 1)),), Tensor("reader", (6, 1, 1)))
    cut = cut_to_fit(network(pool, reader, inputs={"input": (6, 4, 4)}), 100)
    assert [operator.name for operator in cut.operators] == ["pool[0:2]", "pool[2:4]", "pool[4:6]", "reader"]
    assert cut.operators[1].operand_box(0, ((0, 1), (0, 2), (0, 1), (0, 1))) == ((0, 1), (0, 2), (0, 4), (0, 4))
    boxes = list(cut.operators[1].operands[0].source_boxes(((0, 1), (0, 2), (0, 4), (0, 4))))
    assert boxes == [("input", ((0, 1), (2, 4), (0, 4), (0, 4)))]
    assert cut.operators[3].producers() == ("pool[0:2]", "pool[2:4]", "pool[4:6]")
    assert cut.vector_ops == network(pool, reader, inputs={"input": (6, 4, 4)}).vector_ops
    assert "'pool' is cut into 3 parts: its smallest tile of 102 bytes does not fit twice into 100" in cut.notes
    same = network(pool, reader, inputs={"input": (6, 4, 4)})
    assert cut_to_fit(same, 204) is same
    # Windows that slide need a few rows only: nothing is cut.
    slides = Pool("pool", (whole("input", (6, 4, 4)),), Tensor("pool", (6, 4, 4)), kernel=(1, 1))
    same = network(slides, inputs={"input": (6, 4, 4)})
    assert cut_to_fit(same, 100) is same


def test_a_kernel_that_reaches_too_far_is_cut_along_its_channels() -> None:
    """Dilation 4 on 9 x 9: the position in the middle reads all 81 pixels of each of 6 channels."""
    kernels, bias = Tensor("a.weight", (4, 6, 3, 3)), Tensor("a.bias", (4,))
    far = Conv2d(
        "a", (whole("x", (6, 9, 9)),), Tensor("a", (4, 9, 9)), (kernels, bias), (3, 3), padding=(4, 4), dilation=(4, 4)
    )
    workload = network(far, inputs={"x": (6, 9, 9)})
    needed = 4 * 6 * 9 + 4 + 2 * (6 * 81 + 4)
    assert cut_to_fit(workload, needed) is workload
    cut = cut_to_fit(workload, needed - 1)
    assert [operator.name for operator in cut.operators] == ["a.in[0:3]", "a.in[3:6]", "a"]
    assert [operator.output.bits for operator in cut.operators] == [32, 32, 8]
    assert sum(operator.weight_bytes for operator in cut.operators) == far.weight_bytes
    assert cut.macs == workload.macs
    assert np.array_equal(run(cut, workload)["a"], run(workload, workload)["a"])
    # 50 bytes of weights at a time: two channels of two filters, in each of three parts.
    smaller = cut_to_fit(workload, 2 * 2 * 81 + 100)
    assert np.array_equal(run(smaller, workload)["a"], run(workload, workload)["a"])
    machine = load_accelerator("nvdla_small", ["buffers.global.capacity=424 B"])
    assert len(Layerwise().search(smaller, machine).schedule.order) == len(smaller.operators)


def test_a_given_schedule_says_whether_its_workload_is_cut(tmp_path: Path) -> None:
    machine = load_accelerator("nvdla_small")
    whole = load_workload("soma.randwire_small")
    cut = cut_to_fit(whole, machine.buffers["global"].capacity_bytes)
    for workload in (whole, cut):
        names = tuple(operator.name for operator in workload.operators)
        cuts = tuple(range(1, len(names)))
        file = tmp_path / f"{len(names)}.json"
        file.write_text(write_schedule(Schedule(workload.name, names, cuts, cuts, (1,) * len(names))))
        found = Job("soma.randwire_small", "nvdla_small", schedule_file=str(file)).find_schedule()
        assert found.workload.digest == workload.digest
    assert whole.digest != cut.digest
