"""The direct convolution engine: the closed form against the engine clocked on real numbers, and by hand for NVDLA."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.errors import TemplateError, UnsupportedOperator
from accelsim.hardware.buffer import Buffer
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.hardware.dataflow.direct_convolution import IMAGE_CHANNELS, DirectConvolution, Engine
from accelsim.library import load_accelerator
from tests.naive import direct_convolution as twin
from tests.naive.convolution import convolution


def tile(groups: int, batch: int, channels: int, filters: int, out: tuple[int, int], kernel: tuple[int, int],
         stride: tuple[int, int] = (1, 1)) -> TileColumns:  # fmt: skip
    sizes = (batch, channels * groups, filters * groups, filters, *out, *kernel, *stride, groups, 0)
    return TileColumns(*(np.array([size]) for size in sizes))


def large(*overrides: str) -> DirectConvolution:
    dataflow = load_accelerator("nvdla_large", list(overrides)).dataflow
    assert isinstance(dataflow, DirectConvolution)
    return dataflow


def test_the_closed_form_is_what_the_clocked_engine_does() -> None:
    """Random tiles and engines, with and without squares: product, cycles, every value read, what multiplies when."""
    random = np.random.default_rng(0)
    squares = 0
    for _ in range(250):
        g, b, c, k, p, q, r, s, sr, sc = (int(n) for n in random.integers(1, [4, 3, 10, 10, 7, 7, 4, 4, 3, 3]))
        winograd = bool(random.integers(0, 2))
        if winograd and random.random() < 0.5:
            r, s, sr, sc = 3, 3, 1, 1
        columns = int(random.choice([16, 32])) if winograd else int(random.integers(1, 9))
        machine = twin.Machine(int(random.integers(1, 6)), columns, *(int(n) for n in random.integers(1, [9, 6])))
        dataflow = DirectConvolution(Engine(*machine, int(winograd)), 1.0, Buffer("global", 1, None, 1.0, 1.0))
        x = random.integers(-9, 9, (g, b, c, (p - 1) * sr + r, (q - 1) * sc + s))
        w = random.integers(-9, 9, (g, k, c, r, s))
        image = c <= IMAGE_CHANNELS
        if winograd and (r, s, sr, sc) == (3, 3, 1, 1) and not image:
            out, cycles, read = twin.winograd(x, w, machine)
            squares += 1
        else:
            active: list[int] = []
            out, cycles, read = twin.convolve(x, w, (sr, sc), machine, image and s > 1, active)
        assert (out == convolution(x, w, (sr, sc))).all()
        this = tile(g, b, c, k, (p, q), (r, s), (sr, sc))
        assert dataflow.cost(this).cycles.tolist() == [cycles], (machine, winograd, this)
        if not winograd:
            assert dataflow.activity(this).tolist() == active, (machine, this)
        assert dataflow.port_bytes(this).tolist() == [read["inputs"] + read["weights"]]
    assert squares > 20


def test_a_layer_by_hand() -> None:
    # 128 channels, 64 kernels of 3 x 3, 14 x 14 outputs: 196 positions are stripes of 64, 64, 36, 32, each two groups
    # of 64 channels and 9 taps; two groups of 32 kernels. The first weights take 32 cycles, all others come meanwhile.
    # Results leave at 16 a cycle, and the last block's, 32 x 32 of them, in 64 cycles at the end.
    assert large().cost(tile(1, 1, 128, 64, (14, 14), (3, 3))).cycles.tolist() == [32 + 2 * 18 * 196 + 64]
    # 7 x 7: one stripe of 49. 4 x 4: 16 positions, but weights take 32 cycles; the last stripe of all takes its 16.
    assert large().cost(tile(1, 1, 128, 64, (7, 7), (3, 3))).cycles.tolist() == [32 + 2 * 18 * 49 + 98]
    assert large().cost(tile(1, 1, 128, 64, (4, 4), (3, 3))).cycles.tolist() == [32 + 36 * 32 - 16 + 32]


def test_results_may_be_the_limit() -> None:
    # 64 channels, 32 kernels, pointwise: a block is one stripe of 64 cycles, but its results take 64 x 32 / 16 = 128.
    assert large().cost(tile(1, 1, 64, 32, (64, 10), (1, 1))).cycles.tolist() == [32 + 64 + 9 * 128 + 128]


def test_squares_save_a_factor_of_2_25() -> None:
    # 64 channels, 32 kernels of 3 x 3 on 64 x 64: 1024 squares x 16 groups of 4 channels, instead of 4096 x 9.
    squares, plain = large("pe_array.winograd=true"), large()
    this = tile(1, 1, 64, 32, (64, 64), (3, 3))
    assert plain.cost(this).cycles[0] == pytest.approx(4096 * 9, rel=0.02)
    assert squares.cost(this).cycles[0] == pytest.approx(1024 * 16, rel=0.04)
    for other in (tile(1, 1, 64, 32, (64, 64), (3, 3), (2, 2)), tile(1, 1, 64, 32, (64, 64), (1, 3))):
        assert squares.cost(other).cycles[0] == plain.cost(other).cycles[0]


def test_an_image_has_its_kernel_columns_as_channels() -> None:
    # 3 channels x 7 columns are 21 channels: 7 taps, not 49.
    cycles = large().cost(tile(1, 1, 3, 32, (64, 64), (7, 7), (2, 2))).cycles[0]
    assert cycles == 32 + 64 * 7 * 64 + 128


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(TemplateError, match=r"pe_array.winograd: found True with 8 columns; expected a multiple of 16"):
        load_accelerator("nvdla_small", ["pe_array.winograd=true"])
    with pytest.raises(UnsupportedOperator, match="more than 16777216 kernels"):
        large().cost(tile(1, 1, 1, 1 << 25, (1, 1), (1, 1)))
