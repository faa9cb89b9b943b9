"""Ports, banks and layout of a buffer, against every single wavefront's addresses; and the laws of more of them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import accelsim
from accelsim.analysis.ledger import ledger
from accelsim.engine import simulate
from accelsim.errors import TemplateError
from accelsim.hardware.buffer import Buffer
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.hardware.dataflow.systolic import SystolicArray
from accelsim.hardware.ports import PortFields
from accelsim.program.tables import ActivityKind
from accelsim.timeline.provenance import with_provenance
from tests.naive.wavefronts import Counted, folds

TEMPLATE = "scalesim_32x32"
DATAFLOWS = ("output_stationary", "weight_stationary", "input_stationary")


@lru_cache
def plain_array(dataflow: str) -> SystolicArray:
    overrides = (f"pe_array.dataflow={dataflow}", "pe_array.counting=causal")
    found = accelsim.load_accelerator(TEMPLATE, overrides).dataflow
    assert isinstance(found, SystolicArray)
    return found


@lru_cache(maxsize=4096)
def array(dataflow: str, rows: int, columns: int, *ports: str, accumulator: int = 0) -> SystolicArray:
    """As a template with ``buffers.global.ports.PORT`` for each of these texts makes it, but sooner."""
    found, values = plain_array(dataflow), {}
    for text in ports:
        path, value = text.split("=")
        section, _, name = path.rpartition(".")
        where = values.setdefault(section, {}) if section else values
        where[name] = value if name == "width" or section else value == "true" if name == "single" else int(value)
    described = PortFields.model_validate(values).ports("global") if ports else None
    changed = replace(found, rows=rows, columns=columns, buffer=replace(found.buffer, ports=described))
    if accumulator:
        buffer = Buffer("accumulator", accumulator, None, read_pj_per_byte=1.0, write_pj_per_byte=2.0)
        changed = replace(changed, accumulator=buffer)
    return changed


def tile(
    rows: int, columns: int, channels: int, filters: int, kernel: int = 1, stride: int = 1, batch: int = 1
) -> TileColumns:
    values = (batch, channels, filters, filters, rows, columns, kernel, kernel, stride, stride, 1, 0)
    return TileColumns(*(np.array([value]) for value in values))


def counted(found: SystolicArray, dataflow: str, shape: TileColumns, kept: int) -> tuple[Counted, Counted]:
    """Reads and writes of a tile without groups, fold by fold and item by item."""
    ports = found.buffer.ports
    assert ports is not None
    layout = ports.layout
    reads, writes = (Counted(ports.width_bytes, ports.banks) for _ in range(2))
    one = TileColumns(*(int(column[0]) for column in shape))
    M, N = one.rows * one.columns * one.batch, one.filters
    K = one.channels * one.kernel_rows * one.kernel_columns
    plain = one.kernel_rows * one.kernel_columns * one.stride_rows * one.stride_columns == 1

    def inputs(lanes: range, along: str) -> None:
        if along == layout.inputs == "terms":
            reads.side_by_side(lanes, one.channels)
        elif along == layout.inputs == "positions":
            reads.side_by_side(lanes, M if plain else one.columns, one.stride_columns)
        else:
            reads.across(lanes, M if along == "terms" else one.channels * one.stride_columns)

    def weights(lanes: range, along: str) -> None:
        size, other = (K, N) if along == "terms" else (N, K)
        if along == layout.weights:
            reads.side_by_side(lanes, size)
        else:
            reads.across(lanes, other)

    def outputs(port: Counted, lanes: range, along: str, size: int) -> None:
        length, other = (M, N) if along == "positions" else (N, M)
        if along == layout.outputs:
            port.side_by_side(lanes, length, 1, size)
        else:
            port.across(lanes, other, size)

    if dataflow == "output_stationary":
        for columns in folds(N, found.columns):
            for rows in folds(M, found.rows):
                for _ in range(K):
                    inputs(rows, "positions")
                    weights(columns, "filters")
                for _ in rows:
                    outputs(writes, columns, "filters", 1)
        return reads, writes
    turned = dataflow == "input_stationary"
    stream, width, along = (N, M, "positions") if turned else (M, N, "filters")
    for columns in folds(width, found.columns):
        for number, rows in enumerate(all_rows := folds(K, found.rows)):
            for _ in rows:
                (inputs if turned else weights)(columns, along)
            for item in range(stream):
                (weights if turned else inputs)(rows, "terms")
                if number and item >= kept:
                    outputs(reads, columns, along, 4)
                if number == len(all_rows) - 1:
                    outputs(writes, columns, along, 1)
                elif item >= kept:
                    outputs(writes, columns, along, 4)
    return reads, writes


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(DATAFLOWS),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.tuples(*(st.integers(1, top) for top in (4, 4, 6, 11))),
    st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 2)),
    st.tuples(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4])),
    st.tuples(*map(st.sampled_from, (("terms", "positions"), ("terms", "filters"), ("positions", "filters")))),
    st.integers(0, 3),
)
def test_words_are_those_of_every_wavefront(dataflow, size, shape, more, words, layout, kept) -> None:
    width, banks = words
    accumulator = 4 * size[1] * kept if dataflow != "output_stationary" else 0
    ports = [f"width={width} B", f"banks={banks}"]
    ports += [f"layout.{name}={along}" for name, along in zip(("inputs", "weights", "outputs"), layout, strict=True)]
    found = array(dataflow, *size, *ports, accumulator=accumulator)
    tiles = tile(*shape, kernel=more[0], stride=more[1], batch=more[2])
    use = found.port_use(tiles)
    assert use is not None
    reads, writes = counted(found, dataflow, tiles, kept if accumulator else 0)
    assert (use.read_words[0], use.write_words[0]) == (reads.touched, writes.touched)
    assert use.conflict_words[0] == reads.served + writes.served - reads.touched - writes.touched
    assert use.unused_bytes[0] >= 0
    assert use.cycles[0] == max(-(-reads.served // banks), -(-writes.served // banks))
    unlimited = array(dataflow, *size, accumulator=accumulator).cost(tiles).cycles[0]
    assert found.cost(tiles).cycles[0] == max(unlimited, use.cycles[0])


def test_a_stride_of_banks_serialises_as_many_lanes() -> None:
    """N lanes on N banks with a stride of s words take gcd(s, N) times as long (natural pitch)."""
    for terms, factor in ((8, 1), (16, 2), (24, 1), (32, 4), (64, 8), (128, 8), (8 * 6, 2)):  # words of 8 bytes
        found = array("output_stationary", 8, 8, "width=8 B", "banks=8", "layout.pitch=natural", "layout.inputs=terms")
        use = found.port_use(tile(1, 8, terms, 8))
        assert use is not None
        # Inputs: `terms` wavefronts of 8 words across; weights: one word each, side by side.
        assert use.read_words[0] == terms * 8 + terms
        assert use.conflict_words[0] == terms * 8 * (factor - 1)
        padded = array("output_stationary", 8, 8, "width=8 B", "banks=8", "layout.inputs=terms")
        again = padded.port_use(tile(1, 8, terms, 8))
        assert again is not None and again.conflict_words[0] == 0


def test_under_use_costs_energy_and_conflicts_do_not() -> None:
    tiles = tile(4, 4, 32, 16)
    along, across, conflicts = (
        array("output_stationary", 16, 16, "width=16 B", "banks=16", *more)
        for more in (["layout.inputs=positions"], [], ["layout.pitch=natural"])
    )
    buffer = 1
    energies = [one.cost(tiles).energy_pj[0, buffer] for one in (along, across, conflicts)]
    assert energies[0] < energies[1] == energies[2]
    cycles = [one.port_use(tiles).cycles[0] for one in (along, across, conflicts)]
    assert cycles[0] < cycles[1] < cycles[2]


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@settings(max_examples=40, deadline=None)
@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.tuples(*(st.integers(1, top) for top in (6, 6, 40, 40))),
    st.tuples(st.integers(1, 3), st.integers(1, 2)),
    st.tuples(*(st.integers(0, 4) for _ in range(4))),
    st.tuples(st.booleans(), st.sampled_from(("terms", "positions")), st.sampled_from(("terms", "filters"))),
)
def test_more_ports_banks_or_width_are_never_slower(dataflow, size, shape, window, powers, layout) -> None:
    """In isolation, with rows of an odd number of words; and never more words, whatever the width."""
    single, inputs, weights = layout
    tiles = tile(*shape, kernel=window[0], stride=window[1])
    kinds = {"width": 2 ** powers[0], "banks": 2 ** powers[1], "read": 1 + powers[2], "write": 1 + powers[3]}
    if single:
        del kinds["write"]

    def cycles(**changed: int) -> int:
        fields = [f"{name}={value}{' B' if name == 'width' else ''}" for name, value in (kinds | changed).items()]
        fields += [f"single={str(single).lower()}", f"layout.inputs={inputs}", f"layout.weights={weights}"]
        return int(array(dataflow, *size, *fields).cost(tiles).cycles[0])

    now = cycles()
    for name, value in kinds.items():
        assert cycles(**{name: 2 * value if name in ("width", "banks") else value + 1}) <= now, name
    assert array(dataflow, *size).cost(tiles).cycles[0] <= now


def test_sums_are_kept_or_spilled_and_both_are_counted() -> None:
    # 6 positions, 4 filters, 8 terms on 4 rows x 4 columns: 2 row folds, 24 sums. An accumulator of 64 bytes holds 4
    # items of 4 columns; 2 items x 4 filters are spilled once: written and read back.
    tiles = tile(2, 3, 8, 4)
    without, part, whole = (array("weight_stationary", 4, 4, accumulator=size) for size in (0, 64, 96))
    assert [int(one.accesses(tiles).partial_sum_reads[0]) for one in (without, part, whole)] == [24, 8, 0]
    assert [int(one.accesses(tiles).output_writes[0]) for one in (without, part, whole)] == [48, 32, 24]
    products = whole._products(tiles)
    assert [int(one.accumulator_accesses(products)[0]) for one in (part, whole)] == [32, 48]
    assert whole.all_parts == ("mac", "buffer.global", "buffer.accumulator")
    assert part.cost(tiles).energy_pj[0, 2] == 32 * 4 * (1 + 2)  # pJ a byte read and written
    assert (
        int(
            array("weight_stationary", 4, 4, accumulator=64).accumulator_accesses(without._products(tile(2, 3, 4, 4)))[
                0
            ]
        )
        == 0
    )  # one row fold: nothing to add to


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("width=3 B", "width: found 3 B; expected a power of two"),
        ("width=8 KiB", "width: found 8192 B; expected a power of two"),
        ("banks=3", "banks: found 3; expected a power of two"),
        ("banks=0", "banks: found 0; expected a power of two"),
        ("read=0", "read: found 0"),
        ("dma=shared", "dma: found 'shared', but reads and writes have ports of their own"),
        ("layout.inputs=filters", "expected 'terms' or 'positions'"),
        ("layout.pitch=even", "expected 'odd' or 'natural'"),
    ],
)
def test_ports_that_cannot_be(override: str, message: str) -> None:
    ports = [*([] if "width" in override else ["width=8 B"]), override]
    with pytest.raises(TemplateError, match=message):
        accelsim.load_accelerator(
            TEMPLATE, ["pe_array.counting=causal", *(f"buffers.global.ports.{port}" for port in ports)]
        )


def test_ports_and_what_excludes_them() -> None:
    ports = "buffers.global.ports.width=8 B"
    for more, message in (
        (["buffers.global.read_bandwidth=8 B/cycle"], "stands beside ports"),
        (["pe_array.counting=scalesim"], "SCALE-Sim has none"),
        (["buffers.global.ports.single=true", "buffers.global.ports.write=2"], "single ports write, too"),
    ):
        with pytest.raises(TemplateError, match=message):
            accelsim.load_accelerator(TEMPLATE, ["pe_array.counting=causal", ports, *more])


def test_machines_that_do_not_declare_ports_stay_what_they_are() -> None:
    """Their digest does not know of ports."""
    assert accelsim.load_accelerator("tpu_v1").buffers["global"].ports is None
    one = accelsim.load_accelerator(TEMPLATE, ["pe_array.counting=causal"])
    other = accelsim.load_accelerator(TEMPLATE, ["pe_array.counting=causal", "buffers.global.ports.width=4 KiB"])
    assert one.digest != other.digest


def port_run(width: int, dma: str, workload: str = "soma.gpt2_small_decode") -> accelsim.Timeline:
    ports = (f"width={width} B", "single=true", f"dma={dma}")
    machine = accelsim.load_accelerator("tpu_v1", [f"buffers.global.ports.{port}" for port in ports])
    network = accelsim.load_workload(workload)
    schedule = accelsim.Layerwise().search(network, machine).schedule
    timeline = accelsim.simulate(accelsim.lower(network, machine, schedule))
    return with_provenance(timeline, hardware_template=machine.source)


def test_transfers_that_pass_the_port_make_tiles_wait_and_the_ledger_says_so() -> None:
    own, shared = (port_run(64, dma) for dma in ("own", "shared"))
    assert same_events(simulate(shared.program, "reference"), shared)
    tile = own.program.activities.kind == ActivityKind.TILE

    def took(timeline: accelsim.Timeline) -> int:
        events = timeline.events
        return int((events.end_cycles - events.start_cycles)[tile[events.activity]].sum())

    waited = took(shared) - took(own)
    assert waited > 0
    assert shared.latency_cycles >= own.latency_cycles
    core = ledger(shared).core.by_label(None)
    assert core["shared_port"] == waited
    assert sum(core.values()) == shared.latency_cycles
    assert "shared_port" not in ledger(own).core.by_label(None)


def test_a_wide_port_is_as_good_as_one_of_its_own() -> None:
    own, shared = (port_run(4096, dma) for dma in ("own", "shared"))
    # A cycle of the link takes 34/0.7/4096 of the port; what a tile leaves idle of it is more than that.
    assert same_events(own, shared)


def same_events(one: accelsim.Timeline, other: accelsim.Timeline) -> bool:
    return all(map(np.array_equal, one.events, other.events))


def test_a_bank_level_memory_cannot_share_the_port() -> None:
    ports = ["width=256 B", "single=true", "dma=shared"]
    overrides = [f"buffers.global.ports.{port}" for port in ports]
    overrides += ["dram.memory.technology=ddr4_3200", "dram.fidelity=banks"]
    with pytest.raises(TemplateError, match="a memory with banks does not"):
        accelsim.load_accelerator("tpu_v1", overrides)
