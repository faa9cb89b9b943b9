"""Templates: what is read from them, and what is said about bad ones."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import AccelsimError, FormatError, InputError, TemplateError, UnknownName
from accelsim.hardware.template import LARGEST_FILE_BYTES, load_template, parse_template
from accelsim.library import data_folder, list_accelerators, load_accelerator

FILES = sorted((data_folder("hw_templates") / "accelerators").glob("*.yaml"))
EDGE = next(path for path in FILES if path.stem == "soma_edge").read_text()


def mistakes_of(text: str, *overrides: str) -> list[str]:
    with pytest.raises(TemplateError) as error:
        parse_template(text, "hw.yaml", overrides)
    lines = str(error.value).splitlines()
    return [line.strip() for line in (lines[1:] if "mistakes in the template" in lines[0] else lines)]


def place_of(text: str, words: str) -> str:
    """``line:column`` of the first place where the words stand."""
    before = text[: text.index(words)]
    return f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_source_stands_beside_every_number(path: Path) -> None:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        code = line.partition("#")[0]
        if ":" in code and not code.startswith(("name:", "description:")) and re.search(r"\d", code.split(":", 1)[1]):
            assert re.search(r"#.*[A-Za-z]{4,}", line), f"{path.name}:{number}: no source beside {line.strip()}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_named_as_its_accelerator(path: Path) -> None:
    assert load_template(path).name == path.stem


# soma.*: energies in pJ/B as rounded in the published table of SRAM costs (read, write).
SOMA_ENERGIES = {
    "soma_edge": {
        "input": (2.248710, 0.320850),
        "weight": (0.512040, 0.505890),
        "output": (0.284592, 0.371712),
        "accumulator": (0.537486, 0.695652),
        "global": (1.525885, 1.644653),
    },
    "soma_cloud": {
        "input": (4.221459, 0.372511),
        "weight": (0.381459, 0.372511),
        "output": (0.344356, 0.449772),
        "accumulator": (1.686861, 2.183255),
        "global": (4.788881, 5.161625),
    },
}


@pytest.mark.parametrize("name", SOMA_ENERGIES)
def test_soma_energies(name: str) -> None:
    machine = load_accelerator(name)
    for buffer, (read, write) in SOMA_ENERGIES[name].items():
        assert machine.buffers[buffer].read_pj_per_byte == pytest.approx(read, abs=5.1e-7)
        assert machine.buffers[buffer].write_pj_per_byte == pytest.approx(write, abs=5.1e-7)
    assert machine.dram.read_pj_per_byte == machine.dram.write_pj_per_byte == 84
    assert machine.vector_unit.pj_per_operation == 0.0873


@pytest.mark.parametrize(
    ("name", "macs", "vector", "capacity", "dram"),
    [("soma_edge", 8192, 512, 8 << 20, 16), ("soma_cloud", 65536, 4096, 32 << 20, 128)],
)
def test_soma_sizes(name: str, macs: int, vector: int, capacity: int, dram: int) -> None:
    machine = load_accelerator(name)
    assert (machine.macs_per_cycle, machine.vector_ops_per_cycle) == (macs, vector)
    assert machine.buffers["global"].capacity_bytes == capacity
    assert (machine.dram.bytes_per_cycle, machine.dram.latency_cycles, machine.dram.grant_bytes) == (dram, 0, 0)
    assert (machine.clock_hz, machine.dram.arbitration, machine.static_pj_per_cycle) == (10**9, "in_order", 0)


def test_buffer_energy_grows_with_the_global_capacity() -> None:
    # x 1.1 for every whole 2 MiB: 16 MiB is 1.1^8, 15 MiB 1.1^7; the accumulator follows, the PEs' buffers do not.
    base = load_accelerator("soma_edge")
    for capacity, steps in [("16 MiB", 8), ("15 MiB", 7), ("1 MiB", 0)]:
        grown = load_accelerator("soma_edge", [f"buffers.global.capacity={capacity}"])
        assert grown.buffers["global"].read_pj_per_byte == pytest.approx(0.217125 * 4.8 * 1.1**steps, rel=1e-14)
        assert grown.buffers["accumulator"].write_pj_per_byte == pytest.approx(0.0989875 * 4.8 * 1.1**steps, rel=1e-14)
        assert grown.buffers["input"] == base.buffers["input"]


def test_overrides_change_what_they_name_and_the_digest() -> None:
    base = load_accelerator("soma_edge")
    changed = load_accelerator(
        "soma_edge",
        ["dram.bandwidth=51.2 GB/s", "clock=1.6 GHz", "dram.latency=100 ns", "dram.grant=4 KiB", "static_power=0.8 W"],
    )
    assert (changed.dram.bytes_per_cycle, changed.dram.latency_cycles, changed.dram.grant_bytes) == (32, 160, 4096)
    assert changed.static_pj_per_cycle == pytest.approx(0.8 / 1.6e9 * 1e12)
    assert changed.digest != base.digest
    assert load_accelerator("soma_edge", ["dram.bandwidth=16 B/cycle"]).digest == base.digest
    assert load_accelerator("soma_edge", ["clock=2 GHz", "clock=1 GHz"]).digest == base.digest, "the last one counts"


def test_the_source_holds_the_overrides_and_the_comments() -> None:
    changed = load_accelerator("soma_edge", ["pe_array.rows=8", "dram.grant=4 KiB", "dram.bandwidth=3 B/cycle"])
    again = parse_template(changed.source)
    assert again == changed
    assert "# artifact, table on MACs per PE: 512 -> 16 x 32" in changed.source
    assert load_accelerator("soma_edge").source == EDGE


def test_all_mistakes_at_once_each_with_its_place() -> None:
    text = EDGE
    for good, bad in [
        ("clock: 1 GHz", "clock: 1"),
        ("  lanes: 32", "  lans: 32"),
        ("throughput: 512 op/cycle", "throughput: 512 ops/cycle"),
        ("bandwidth: 16 GB/s", "bandwidth: 16 GBps"),
        ("rows: 4", "rows: many"),
        ("  weight:  #", "  wieght:  #"),
    ]:
        assert text.count(good) == 1
        text = text.replace(good, bad)
    found = mistakes_of(text)
    expected = [
        (place_of(text, "1  # paper, evaluation"), "clock: 1 has no unit"),
        (place_of(text, "many"), "pe_array.rows: found 'many'; expected a valid integer"),
        (place_of(text, "lans"), "pe_array.lans: unknown field (did you mean 'lanes'?)"),
        (place_of(text, "pe_array"), "pe_array.lanes: missing; expected for example"),
        (place_of(text, "512 ops"), "vector_unit.throughput: '512 ops/cycle': unit 'ops/cycle' is not known (did"),
        (place_of(text, "wieght"), "buffers.wieght: unknown field (did you mean 'weight'?)"),
        (place_of(text, "buffers"), "buffers.weight: missing; expected a section with the fields capacity"),
        (place_of(text, "16 GBps"), "dram.bandwidth: '16 GBps': unit 'GBps' is not known (did you mean 'GB/s'?)"),
    ]
    assert len(found) == len(expected)
    for place, words in expected:
        assert any(line.startswith(f"hw.yaml:{place}: {words}") for line in found), (place, words, found)


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        ("rows: 4", "rows: 0", "found 0; expected"),
        ("rows: 4", "rows: 4.5", "found 4.5; expected"),
        ("rows: 4", "rows: true", "found True; expected"),
        ("rows: 4", "rows: -4", "found -4; expected"),
        ("rows: 4", "rows: 100000", "found 100000; expected"),
        ("rows: 4", "rows:", "found None; expected"),
        ("rows: 4", "rows: [4]", "found [4]; expected"),
        ("bandwidth: 16 GB/s", "bandwidth: nan GB/s", "not a finite number"),
        ("bandwidth: 16 GB/s", "bandwidth: .inf", "not a finite number"),
        ("bandwidth: 16 GB/s", "bandwidth: 0 GB/s", "above 0"),
        ("capacity: 8 MiB", "capacity: -8 MiB", "above 0"),
        ("capacity: 8 MiB", "capacity: {a: 1}", "is no size"),
        ("attention_bandwidth: true", "attention_bandwidth: yes", "found 'yes'; expected"),
        ("dataflow: spatial_cores", "dataflow: spatial_core", "did you mean 'spatial_cores'"),
        ("  dataflow: spatial_cores\n", "", "pe_array.dataflow: missing; expected one of output_stationary"),
        ("latency: 0 cycles", "fidelity: bank", "found 'bank' (did you mean 'banks'?); expected 'link'"),
        ("latency: 0 cycles", "arbitration: roundrobin", "did you mean 'round_robin'"),
        ("latency: 0 cycles", "latency: 0.5 cycles", "whole number"),
        ("{factor: 1.1, step: 2 MiB, buffer: global}  # artifact: x", "{factor: 11}  # x", "1 to 2"),
        ("buffer: global}  # artifact: x", "buffer: globl}  # artifact: x", "did you mean 'global'"),
        ("step: 2 MiB, buffer: global}  # artifact: x", "step: 1 B, buffer: global}  # artifact: x", "8388608 times"),
        ("name: soma_edge", "name: <script>alert(1)</script>", "found '<script>"),
        ("static_power: 0 W", "static_power: 1 J", "units W, mW"),
        ("pe_array:\n", "pe_array: 4\nx:\n", "found 4; expected a section"),
    ],
)  # fmt: skip
def test_a_single_mistake(good: str, bad: str, words: str) -> None:
    assert EDGE.count(good) == 1
    text = EDGE.replace(good, bad)
    assert any(words in line and re.match(r"hw\.yaml:\d+:\d+: ", line) for line in mistakes_of(text)), mistakes_of(text)


def test_a_key_that_stands_twice() -> None:
    text = EDGE.replace("  rows: 4  # artifact", "  rows: 8  # artifact\n  rows: 4  # artifact")
    place = place_of(text, "rows: 4")
    line = int(place.split(":")[0]) - 1
    assert mistakes_of(text) == [f"hw.yaml:{place}: pe_array.rows: stands a second time; first in line {line}"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("# nothing\n", "empty"),
        ("- 1\n- 2\n", "hw.yaml:1:1: found a list; expected a mapping"),
        ("just text", "hw.yaml:1:1: found the value 'just text'"),
        ("a: [1, 2", "hw.yaml:1:9: this is not YAML"),
        ("a: 1\n b: 2\n", "hw.yaml:2:3: this is not YAML"),
        ("a:\n\t- 1\n", "hw.yaml:2:1: this is not YAML"),
        ("a: 1\nb: \x00\n", "hw.yaml:2:1: this is not YAML"),
        ("a: &x [1]\nb: *x\n", "hw.yaml:1:4: anchors"),
        ("a: *x\n", "hw.yaml:1:4: aliases"),
        ("a: !!python/object/apply:os.system ['true']\n", "hw.yaml:1:4: tags"),
        ("%YAML 1.1\n---\na: 1\n", "directives"),
        ("a: 1\n---\nb: 1\n", "hw.yaml:2:1: a second document"),
        ("a: " + "[" * 5000 + "]" * 5000, "nested more than"),
        ("a: " + "{a: " * 5000 + "}" * 5000, "nested more than"),
        ("? [a]\n: 1\n", "hw.yaml:1:3: ?: unknown field"),
    ],
)
def test_texts_that_are_no_template(text: str, words: str) -> None:
    assert any(words in line for line in mistakes_of(text)), mistakes_of(text)


def test_a_bomb_of_aliases_is_refused_at_once() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    assert "anchors" in mistakes_of(bomb)[0]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    (tmp_path / "huge.yaml").write_bytes(b"#" * (LARGEST_FILE_BYTES + 1))
    for path, words in [
        (tmp_path, "folder"),
        (tmp_path / "missing.yaml", "no such file"),
        (tmp_path / "latin.yaml", "UTF-8"),
        (tmp_path / "huge.yaml", str(LARGEST_FILE_BYTES)),
        (Path(os.devnull), "device"),
    ]:
        with pytest.raises(FormatError, match=words) as error:
            load_accelerator(path)
        assert str(path) in str(error.value)


def test_a_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbf" + EDGE.encode())
    assert load_accelerator(tmp_path / "bom.yaml") == load_accelerator("soma_edge")


@pytest.mark.parametrize(
    ("override", "kind", "words"),
    [
        ("pe_arry.rows=64", UnknownName, "no field 'pe_arry.rows' (did you mean 'pe_array.rows'"),
        ("pe_array.row=64", UnknownName, "did you mean 'pe_array.rows'"),
        ("dram.bandwith=3 GB/s", UnknownName, "did you mean 'dram.bandwidth'"),
        ("buffers.globl.capacity=4 MiB", UnknownName, "did you mean 'buffers.global.capacity'"),
        ("xyzzy=4", UnknownName, "fields are name, description, clock"),
        ("dram=3", UnknownName, "'dram' is a section; set one of its fields: dram.bandwidth"),
        ("pe_array.rows.x=3", UnknownName, "no field 'pe_array.rows.x'"),
        ("pe_array.rows=many", TemplateError, "--set 'pe_array.rows=many': pe_array.rows: found 'many'"),
        ("dram.bandwidth=16", TemplateError, "--set 'dram.bandwidth=16': dram.bandwidth: 16 has no unit"),
        ("dram.fidelity=bank", TemplateError, "--set 'dram.fidelity=bank': dram.fidelity: found 'bank'"),
        ("pe_array.dataflow=foo", TemplateError, "--set 'pe_array.dataflow=foo'"),
        ("buffers.global.capacity=8 TiB", TemplateError, "--set 'buffers.global.capacity=8 TiB'"),
        ("pe_array.rows={a: 1}", TemplateError, "--set"),
        ("pe_array.rows=*x", TemplateError, "--set"),
        ("pe_array.rows", InputError, "expected KEY=VALUE"),
        ("=3", InputError, "expected KEY=VALUE"),
        ("pe_array.rows=", InputError, "expected KEY=VALUE"),
    ],
)
def test_bad_overrides_are_named(override: str, kind: type[AccelsimError], words: str) -> None:
    with pytest.raises(kind) as error:
        load_accelerator("soma_edge", [override])
    assert words in str(error.value)


def test_names_of_the_library() -> None:
    names = list_accelerators()
    assert {"soma_edge", "soma_cloud", "scalesim_32x32"} <= set(names)
    assert list(names) == sorted(names)
    assert all(text and "\n" not in text for text in names.values())
    with pytest.raises(UnknownName, match=r"no hardware template 'soma_egde' .did you mean 'soma_edge'"):
        load_accelerator("soma_egde")


@given(start=st.integers(0, len(EDGE)), length=st.integers(0, 60), piece=st.text(max_size=12))
@settings(max_examples=150, deadline=None)
def test_a_damaged_template_is_a_machine_or_an_error_with_a_place(start: int, length: int, piece: str) -> None:
    text = EDGE[:start] + piece + EDGE[start + length :]
    try:
        machine = parse_template(text, "hw.yaml")
    except AccelsimError as error:
        assert "hw.yaml" in str(error)
    else:
        assert machine.macs_per_cycle > 0
