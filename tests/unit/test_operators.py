"""Operators by hand: regions, work and refusals that can be counted on paper."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from accelsim.errors import WorkloadError
from accelsim.workload.operator import ArrayWork, Operand, Source, TileAxes, VectorWork
from accelsim.workload.operators import (
    Conv2d,
    Elementwise,
    LocalResponseNorm,
    MatMul,
    Normalization,
    Pool,
    Softmax,
    Transpose,
    Upsample,
)
from accelsim.workload.tensor import Tensor


def operand(*shape: int, is_weight: bool = False) -> Operand:
    return Operand((Source("x"),), shape, is_weight=is_weight)


def out(*shape: int) -> Tensor:
    return Tensor("o", shape)


CONV1 = Conv2d(  # the first layer of ResNet-50
    "o", (operand(3, 224, 224),), out(64, 112, 112), (Tensor("o.weight", (64, 3, 7, 7)),),
    kernel=(7, 7), stride=(2, 2), padding=(3, 3),
)  # fmt: skip


class TestConvolution:
    def test_windows(self) -> None:
        # Rows 0 to 55 read rows -3 to 55 x 2 + 3 = 113, clipped; rows 56 to 111 read 109 to 225, clipped to 223.
        assert CONV1.operand_box(0, ((0, 1), (0, 64), (0, 56), (56, 112))) == ((0, 1), (0, 3), (0, 114), (109, 224))

    def test_work(self) -> None:
        whole = CONV1.whole_work(4)
        assert whole == ArrayWork(4, 3, 64, 64, 112, 112, 7, 7, 2, 2, 1, 0)
        assert whole.macs == 4 * 118_013_952
        assert CONV1.weight_bytes == 9408
        assert CONV1.tile_axes() == TileAxes(1, 2)

    def test_groups(self) -> None:
        """Filters 3 to 5 of 8 in 4 groups belong to groups 1 and 2, whose channels are 3 to 8 of 12."""
        conv = Conv2d("o", (operand(12, 5, 5),), out(8, 5, 5), groups=4)
        assert conv.operand_box(0, ((0, 1), (3, 6), (0, 5), (0, 5)))[1] == (3, 9)
        assert conv.whole_work(1) == ArrayWork(1, 12, 8, 2, 5, 5, 1, 1, 1, 1, 4, 0)

    def test_dilation(self) -> None:
        conv = Conv2d("o", (operand(1, 9, 9),), out(1, 5, 5), kernel=(3, 3), dilation=(2, 2))
        assert conv.operand_box(0, ((0, 1), (0, 1), (1, 2), (2, 4)))[2:] == ((1, 6), (2, 8))

    def test_a_block_beyond_the_image_reads_one_row(self) -> None:
        conv = Conv2d("o", (operand(1, 2, 2),), out(1, 6, 6), kernel=(3, 3), padding=(3, 3))
        assert conv.operand_box(0, ((0, 1), (0, 1), (0, 1), (5, 6)))[2:] == ((0, 1), (1, 2))

    def test_weights_that_another_operator_makes_are_read_whole(self) -> None:
        conv = Conv2d("o", (operand(6, 5, 1), operand(8, 3, 1, is_weight=True)), out(8, 5, 1), groups=2)
        assert conv.operand_box(1, ((1, 2), (0, 1), (0, 1), (0, 1))) == ((1, 2), (0, 8), (0, 3), (0, 1))
        assert conv.whole_work(1).weights_from_operator == 1


class TestMatMul:
    def test_shared_weights_join_the_leading_axes_to_the_batch(self) -> None:
        product = MatMul("o", (operand(12, 512, 64),), out(12, 512, 10), (Tensor("w", (64, 10)),))
        assert product.whole_work(2) == ArrayWork(24, 64, 10, 10, 512, 1, 1, 1, 1, 1, 1, 0)

    def test_two_operands_are_a_group_for_each_head(self) -> None:
        product = MatMul("o", (operand(12, 512, 64), operand(12, 64, 512)), out(12, 512, 512))
        assert product.whole_work(1).macs == 12 * 512 * 512 * 64
        assert product.whole_work(1).groups == 12
        box = ((0, 1), (3, 5), (0, 128), (256, 512))
        assert product.operand_box(0, box) == ((0, 1), (3, 5), (0, 128), (0, 64))
        assert product.operand_box(1, box) == ((0, 1), (3, 5), (0, 64), (256, 512))

    def test_one_operand_shared_by_all_heads(self) -> None:
        product = MatMul("o", (operand(4, 5, 6), operand(1, 6, 7)), out(4, 5, 7))
        assert product.operand_box(1, ((0, 1), (2, 3), (0, 5), (0, 7))) == ((0, 1), (0, 1), (0, 6), (0, 7))


def test_vector_work_by_hand() -> None:
    image = operand(2, 4, 6)
    block = ((0, 3), (0, 2), (0, 2), (0, 3))  # 36 elements
    for operator, operations in [
        (Elementwise("o", (image,) * 3, out(2, 4, 6), operations_per_element=3), 108),
        (Pool("o", (image,), out(2, 2, 3), kernel=(2, 3)), 216),
        (Transpose("o", (image,), out(6, 4, 2), permutation=(2, 1, 0)), 36),
        (Softmax("o", (image,), out(2, 4, 6)), 180),
        (Normalization("o", (image,), out(2, 4, 6)), 252),
        (LocalResponseNorm("o", (image,), out(2, 4, 6), size=5), 504),
        (Upsample("o", (image,), out(2, 8, 6), factors=(2, 1), operations_per_element=4), 144),
    ]:
        assert operator.work(block) == VectorWork(operations, operator.kind)


def test_regions_by_hand() -> None:
    block = ((0, 1), (1, 2), (2, 3), (3, 5))
    image = operand(2, 4, 6)
    assert Transpose("o", (operand(5, 2, 4),), out(2, 4, 5), permutation=(1, 2, 0)).operand_box(0, block) == (
        (0, 1), (3, 5), (1, 2), (2, 3),
    )  # fmt: skip
    assert Softmax("o", (image,), out(2, 4, 6), axis=1).operand_box(0, block) == ((0, 1), (1, 2), (0, 4), (3, 5))
    assert Normalization("o", (image,), out(2, 4, 6), axes=(0, -1)).operand_box(0, block) == (
        (0, 1), (0, 2), (2, 3), (0, 6),
    )  # fmt: skip
    assert Upsample("o", (image,), out(2, 8, 12), factors=(2, 2)).operand_box(0, block) == (
        (0, 1), (1, 2), (1, 2), (1, 3),
    )  # fmt: skip
    # Broadcast: a row for all channels and rows, and one number.
    mixed = Elementwise("o", (image, operand(6), operand(4, 1), operand()), out(2, 4, 6))
    assert [mixed.operand_box(number, block) for number in range(4)] == [
        block, ((0, 1), (3, 5)), ((0, 1), (2, 3), (0, 1)), ((0, 1),),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Conv2d("o", (operand(3, 5, 5),), out(4, 5, 5), groups=2), "2 groups divide neither"),
        (lambda: Conv2d("o", (operand(4, 5, 5),), out(4, 5, 5), stride=(0, 1)), "must be >= 1"),
        (lambda: Conv2d("o", (operand(4, 5, 5),), out(4, 5, 5), padding=(-1, 0)), "padding"),
        (lambda: Elementwise("o", (operand(2, 3),), out(3, 2)), "does not broadcast"),
        (lambda: Elementwise("o", (operand(1, 1, 2),), out(1, 2)), "does not broadcast"),
        (lambda: MatMul("o", (operand(2, 3), operand(2, 3)), out(2, 3)), "is not defined"),
        (lambda: Transpose("o", (operand(2, 3),), out(3, 2), permutation=(0, 1)), "does not give"),
        (lambda: Upsample("o", (operand(1, 2, 3),), out(1, 4, 7), factors=(2, 2)), "does not give"),
        (lambda: out(2, 0), "every size must be a whole number >= 1"),
        (lambda: Tensor("o", (2,), 65), "65 bits per element"),
        (lambda: out(1 << 40, 1 << 20), "is a size wrong?"),
    ],
)
def test_refusals(make: Callable[[], object], words: str) -> None:
    with pytest.raises(WorkloadError, match=words.replace("?", r"\?")) as caught:
        make()
    assert "'o'" in str(caught.value)
