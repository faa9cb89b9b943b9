"""Row stationary: the closed form against the array clocked on real numbers, and by hand for Eyeriss."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.errors import MappingError
from accelsim.hardware.buffer import Buffer
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.hardware.dataflow.row_passes import ConvolutionShape, RowArray, RowMapping, run_passes
from accelsim.hardware.dataflow.row_stationary import RowStationary, best_mapping
from accelsim.library import load_accelerator
from tests.naive import row_stationary as twin
from tests.naive.convolution import convolution

EYERISS = RowArray(12, 14, 224, 12, 24, 4, 1, 4)


def eyeriss(*overrides: str) -> RowStationary:
    dataflow = load_accelerator("eyeriss", list(overrides)).dataflow
    assert isinstance(dataflow, RowStationary)
    return dataflow


def tile(shape: ConvolutionShape) -> TileColumns:
    g, b, c, k, p, q, r, s, sr, sc = shape
    return TileColumns(*(np.array([n]) for n in (b, c * g, k * g, k, p, q, r, s, sr, sc, g, 0)))


def test_the_closed_form_is_what_the_clocked_array_does() -> None:
    """Random tiles, arrays, the mappings found for them: product, cycles, every word, what multiplies when."""
    random = np.random.default_rng(0)
    compared = 0
    while compared < 60:
        g, b, p, q, r, s, sr, sc = (int(n) for n in random.integers(1, [3, 3, 6, 6, 5, 5, 4, 4]))
        c, k = (int(n) for n in random.integers(1, 7, 2))
        if random.random() < 0.3:
            r = s = sr = sc = 1
        machine = twin.Machine(*(int(n) for n in random.integers(1, [6, 6, 30, 7, 5, 5, 4, 5])))
        shape = ConvolutionShape(g, b, c, k, p, q, r, s, sr, sc)
        dataflow = RowStationary(RowArray(*machine), 1, 1.0, {"global": Buffer("global", 1, None, 1.0, 1.0)})
        try:
            mapping = best_mapping(dataflow, shape)
        except MappingError:
            continue
        compared += 1
        x = random.integers(-9, 9, (g, b, c, (p - 1) * sr + r, (q - 1) * sc + s))
        w = random.integers(-9, 9, (g, k, c, r, s))
        out, run = twin.convolve(x, w, (sr, sc), twin.Lay(*mapping), machine)
        assert (out == convolution(x, w, (sr, sc))).all()
        cycles, words = run_passes(shape, mapping, dataflow.array)
        assert (cycles, run.macs) == (run.cycles, run.macs), (shape, mapping, machine)
        assert {name: run.crossed[name] for name in words._fields} == words._asdict(), (shape, mapping, machine)
        assert run.busiest <= machine.rows * machine.columns
        assert dataflow.activity(tile(shape)).tolist() == run.active, (shape, mapping, machine)


def test_alexnet_conv3_by_hand() -> None:
    # As the chip ran it: 13 x 13 outputs, 3 x 3, 256 channels, 384 filters, batch 4; strips of 13 rows, 16 filters, 4
    # channels in an element, 4 sets on different filters: 156 of 168 elements. 6 x 64 times: filters, 64 x 4 x 9 words
    # / 4 = 576 cycles. A column of 15 x 4 words comes in 60 cycles and takes 64 multiplications, a step 192; but sums
    # take 64 x 13 / 4 = 208. First step: 60 + 192 = 252, which is more than 180 + 64, 208 and (3 + 1) x 60; behind new
    # filters 576 + 192. Then 12 x 208, and the drain 208 + 2.
    shape = ConvolutionShape(1, 4, 256, 384, 13, 13, 3, 3, 1, 1)
    cycles, words = run_passes(shape, RowMapping(13, 16, 4, 1, 4, 1), EYERISS)
    a_pass = 252 + 12 * 208 + 210
    assert cycles == 6 * 64 * (4 * a_pass + (576 + 192 - 252))
    outputs = 4 * 384 * 13 * 13
    assert (words.sums_out, words.sums_in) == (64 * outputs, 63 * outputs)
    assert (words.filters, words.inputs) == (384 * 256 * 9, 6 * 4 * 256 * 15 * 15)


@pytest.mark.parametrize(
    ("layer", "mapping", "active"),
    [  # Active elements of AlexNet's layers on the chip: Chen et al., JSSC 2017, table V.
        ((1, 4, 3, 96, 55, 55, 11, 11, 4, 4), (7, 16, 1, 1, 2, 1), 154),
        ((2, 4, 48, 128, 27, 27, 5, 5, 1, 1), (27, 16, 2, 1, 1, 1), 135),
        ((1, 4, 256, 384, 13, 13, 3, 3, 1, 1), (13, 16, 4, 1, 4, 1), 156),
        ((2, 4, 192, 192, 13, 13, 3, 3, 1, 1), (13, 16, 3, 2, 2, 1), 156),
        ((2, 4, 192, 128, 13, 13, 3, 3, 1, 1), (13, 16, 3, 2, 2, 1), 156),
    ],
)
def test_the_mapper_is_no_worse_than_the_chip(layer: tuple[int, ...], mapping: tuple[int, ...], active: int) -> None:
    shape, published = ConvolutionShape(*layer), RowMapping(*mapping)
    assert published.e * shape.kernel_rows * published.r * published.t == active
    twin.lay_out(twin.Machine(*EYERISS), twin.Lay(*published), shape.kernel_rows)
    own, _ = run_passes(shape, best_mapping(eyeriss(), shape), EYERISS)
    assert own == eyeriss().cost(tile(shape)).cycles[0] <= run_passes(shape, published, EYERISS)[0]


def test_a_product_lies_on_the_array_as_positions() -> None:
    # 168 positions by 24 filters over 12 terms: all elements work, 12 x 24 multiplications each.
    shape = ConvolutionShape(1, 1, 12, 24, 168, 1, 1, 1, 1, 1)
    mapping = best_mapping(eyeriss(), shape)
    cycles = eyeriss().cost(tile(shape)).cycles[0]
    assert cycles * 168 >= 168 * 24 * 12
    assert run_passes(shape, mapping, EYERISS)[0] == cycles


def test_the_read_port_and_energy() -> None:
    shape = ConvolutionShape(1, 1, 16, 16, 14, 14, 3, 3, 1, 1)
    free, narrow = eyeriss(), eyeriss("buffers.global.read_bandwidth=1 B/cycle")
    assert narrow.cost(tile(shape)).cycles[0] == max(free.port_bytes(tile(shape))[0], free.cost(tile(shape)).cycles[0])
    _, words = run_passes(shape, best_mapping(free, shape), EYERISS)
    assert free.port_bytes(tile(shape))[0] == 2 * (words.inputs + words.filters + words.sums_in)
    macs = 16 * 16 * 14 * 14 * 9
    mac, glob, filters, inputs, sums = free.cost(tile(shape)).energy_pj[0]
    assert mac == pytest.approx(0.84 * macs)
    assert glob == pytest.approx(2 * 2.52 * (words.inputs + words.filters + words.sums_in + words.sums_out))
    assert filters == pytest.approx(2 * 0.42 * (macs + words.filter_copies))
    assert inputs == pytest.approx(2 * 0.42 * (macs + words.input_copies))
    assert sums == pytest.approx(2 * 0.42 * 2 * macs)


def test_stores_that_hold_nothing_are_refused() -> None:
    with pytest.raises(MappingError, match=r"no mapping fits tile 0 .*buffers.filter holds 2 words"):
        eyeriss("buffers.filter.capacity=4 B").cost(tile(ConvolutionShape(1, 1, 4, 4, 8, 8, 3, 3, 1, 1)))
