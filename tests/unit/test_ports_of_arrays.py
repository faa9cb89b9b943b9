"""Ports of arrays that are not systolic: words against every single wavefront's addresses, by hand, and laws."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accelsim
from accelsim.engine import simulate
from accelsim.errors import TemplateError
from accelsim.hardware.dataflow.dataflow import Dataflow, TileColumns
from tests.naive.direct_convolution import Machine, cut
from tests.naive.wavefronts import Counted, folds

PORTS = "buffers.global.ports."
LAYOUTS = st.tuples(*map(st.sampled_from, (("terms", "positions"), ("terms", "filters"), ("positions", "filters"))))
ARRAYS = {  # small ones, so that tiles have edges
    "nvdla_small": ("pe_array.rows=3", "pe_array.columns=4", "pe_array.stripe=5"),
    "imc_generic": ("pe_array.rows=3", "pe_array.columns=32", "pe_array.macros=2"),  # 4 filters
    "eyeriss": (),
}


@lru_cache(maxsize=4096)
def array(template: str, *ports: str) -> Dataflow:
    overrides = [*ARRAYS[template], *(PORTS + port for port in ports)]
    return accelsim.load_accelerator(template, overrides).dataflow


def tile(
    rows: int, columns: int, channels: int, filters: int, kernel: int = 1, stride: int = 1, groups: int = 1
) -> TileColumns:
    sizes = (channels * groups, filters * groups, filters, rows, columns, kernel, kernel, stride, stride, groups, 0)
    return TileColumns(*(np.array([size]) for size in (1, *sizes)))


class Matrices:
    """Wavefronts of a tile's matrices as a layout has them."""

    def __init__(self, width: int, banks: int, layout: tuple[str, str, str]) -> None:
        self.inputs, self.weights, self.outputs = layout
        self.reads, self.writes = Counted(width, banks), Counted(width, banks)

    def input_terms(self, lanes: range, channels: int, positions: int) -> None:
        if self.inputs == "terms":
            self.reads.side_by_side(lanes, channels)
        else:
            self.reads.across(lanes, positions)

    def weight(self, lanes: range, along: str, size: int, other: int) -> None:
        if self.weights == along:
            self.reads.side_by_side(lanes, size)
        else:
            self.reads.across(lanes, other)

    def output_filters(self, port: Counted, lanes: range, filters: int, positions: int, size: int = 1) -> None:
        if self.outputs == "filters":
            port.side_by_side(lanes, filters, 1, size)
        else:
            port.across(lanes, positions, size)


def check(found: Dataflow, tiles: TileColumns, counted: Matrices, array_cycles: int) -> None:
    use = found.port_use(tiles)
    assert use is not None
    reads, writes = counted.reads, counted.writes
    assert (use.read_words[0], use.write_words[0]) == (reads.touched, writes.touched)
    assert use.conflict_words[0] == reads.served + writes.served - reads.touched - writes.touched
    assert use.unused_bytes[0] >= 0
    assert use.cycles[0] == max(-(-reads.served // reads.banks), -(-writes.served // writes.banks))
    assert found.cost(tiles).cycles[0] == max(array_cycles, use.cycles[0])


def described(width: int, banks: int, layout: tuple[str, str, str]) -> list[str]:
    names = ("inputs", "weights", "outputs")
    return [f"width={width} B", f"banks={banks}"] + [
        f"layout.{name}={along}" for name, along in zip(names, layout, strict=True)
    ]


WORDS = st.tuples(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]))


@settings(max_examples=80, deadline=None)
@given(st.tuples(*(st.integers(1, top) for top in (4, 4, 11, 8))), st.tuples(*[st.integers(1, 2)] * 3), WORDS, LAYOUTS)
def test_words_of_direct_convolution_are_those_of_every_wavefront(shape, more, words, layout) -> None:
    rows, columns, channels, filters = shape
    kernel, stride, groups = more
    image = channels <= 4 and kernel > 1
    terms, taps = (channels * kernel, kernel) if image else (channels, kernel * kernel)
    counted, positions = Matrices(*words, layout), rows * columns
    for _ in range(groups):
        for kernels in folds(filters, 3):
            for block in cut(positions, Machine(3, 4, 5, 1)):
                for vector in folds(terms, 4):
                    for _ in range(taps):
                        for _ in kernels:
                            counted.weight(vector, "terms", terms, filters)
                        for _ in block:
                            counted.input_terms(vector, channels, positions)
                for _ in block:
                    counted.output_filters(counted.writes, kernels, filters, positions)
    tiles = tile(rows, columns, channels, filters, kernel, stride, groups)
    unlimited = int(array("nvdla_small").cost(tiles).cycles[0])
    check(array("nvdla_small", *described(*words, layout)), tiles, counted, unlimited)


@settings(max_examples=80, deadline=None)
@given(st.tuples(*(st.integers(1, top) for top in (3, 3, 9, 11))), st.integers(1, 2), WORDS, LAYOUTS)
def test_words_of_computing_in_memory_are_those_of_every_wavefront(shape, groups, words, layout) -> None:
    rows, columns, channels, filters = shape
    counted, positions = Matrices(*words, layout), rows * columns
    work = [(g, cells, terms) for g in range(groups) for cells in folds(filters, 4) for terms in folds(channels, 3)]
    for first in range(0, len(work), 2):  # a round of two macros
        begun = {(g, cells) for g, cells, _ in work[:first]}
        here = work[first : first + 2]
        for _, cells, terms in here:
            for _ in terms:
                counted.weight(cells, "filters", filters, channels)
            for _ in range(positions):
                counted.input_terms(terms, channels, positions)
        for g, cells in {(g, cells) for g, cells, _ in here}:
            for _ in range(positions):
                if (g, cells) in begun:  # sums of a fold begin with a word of their own
                    lanes = range(len(cells))
                    counted.output_filters(counted.reads, lanes, len(cells), positions, 4)
                    counted.output_filters(counted.writes, lanes, len(cells), positions, 4)
    for _ in range(groups * positions):
        for cells in folds(filters, 4):
            counted.output_filters(counted.writes, cells, filters, positions)
    tiles = tile(rows, columns, channels, filters, groups=groups)
    unlimited = int(array("imc_generic").cost(tiles).cycles[0])
    check(array("imc_generic", *described(*words, layout)), tiles, counted, unlimited)


def test_buses_take_words_of_their_own() -> None:
    """Eyeriss: buses of 1, 4 and 4 words of 2 bytes; 13 x 13 outputs of a 3 x 3 kernel are one strip."""
    tiles = tile(13, 13, 1, 1, 3)  # 15 x 15 inputs, 9 filter words, 169 results, which no sum is added to
    for width, reads, writes in ((8, 225 + 3, 43), (2, 225 + 3 * 4, 43 * 4), (4, 225 + 3 * 2, 43 * 2)):
        use = array("eyeriss", f"width={width} B").port_use(tiles)
        assert use is not None
        assert [int(count[0]) for count in use] == [
            max(reads, writes),
            reads,
            writes,
            (reads + writes) * width - 2 * (225 + 9 + 169),
            0,
        ]


@pytest.mark.parametrize("template", ARRAYS)
@settings(max_examples=40, deadline=None)
@given(
    st.tuples(*(st.integers(1, top) for top in (6, 6, 40, 40))),
    st.tuples(st.integers(1, 3), st.integers(1, 2)),
    st.tuples(*[st.integers(0, 3)] * 4),
    st.booleans(),
    LAYOUTS,
)
def test_more_ports_banks_or_width_are_never_slower(template, shape, window, powers, single, layout) -> None:
    tiles = tile(*shape, kernel=window[0], stride=window[1])
    kinds = {"width": 2 ** powers[0], "banks": 2 ** powers[1], "read": 1 + powers[2], "write": 1 + powers[3]}
    if single:
        del kinds["write"]
    more = [] if template == "eyeriss" else described(1, 1, layout)[2:]

    def cycles(**changed: int) -> int:
        fields = [f"{name}={value}{' B' if name == 'width' else ''}" for name, value in (kinds | changed).items()]
        return int(array(template, *fields, f"single={str(single).lower()}", *more).cost(tiles).cycles[0])

    now = cycles()
    for name, value in kinds.items():
        assert cycles(**{name: 2 * value if name in ("width", "banks") else value + 1}) <= now, name
    assert array(template).cost(tiles).cycles[0] <= now


@pytest.mark.parametrize("template", ARRAYS)
def test_engines_agree_where_transfers_pass_the_port(template: str) -> None:
    overrides = [f"{PORTS}{port}" for port in ("width=16 B", "single=true", "dma=shared")]
    overrides.append("buffers.global.capacity=4 MiB")
    machine, network = accelsim.load_accelerator(template, overrides), accelsim.load_workload("mobilenet_v2")
    program = accelsim.lower(network, machine, accelsim.Layerwise().search(network, machine).schedule)
    assert program.activities.port_cycles.any()
    events = [simulate(program, engine).events for engine in ("reference", "compiled")]
    assert all(map(np.array_equal, *events))


def test_weights_lie_as_direct_convolution_reads_them() -> None:
    tiles = tile(
        4, 4, 8, 6
    )  # two atoms of four channels; four stripes of at most five positions; 16 + 4 x 6 atoms each
    own, across = (array("nvdla_small", "width=4 B", *more) for more in ((), ("layout.weights=filters",)))
    assert [int(one.port_use(tiles).read_words[0]) for one in (own, across)] == [
        2 * (2 * 16 + 4 * 6),
        2 * 2 * 16 + 8 * 4 * 6,
    ]


def test_what_excludes_ports() -> None:
    with pytest.raises(TemplateError, match="transformed squares"):
        accelsim.load_accelerator("nvdla_large", [f"{PORTS}width=64 B", "pe_array.winograd=true"])
    with pytest.raises(TemplateError, match="in the order in which the buses carry it"):
        accelsim.load_accelerator("eyeriss", [f"{PORTS}width=8 B", f"{PORTS}layout.inputs=positions"])
