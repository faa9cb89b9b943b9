"""SCALE-Sim configuration files as hardware: what is taken, what is noted, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim.errors import AccelsimError, FormatError, TemplateError, UnknownName
from accelsim.files import data_folder
from accelsim.formats.scalesim_config import parse_scalesim_config
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.dataflow import InputStationary, OutputStationary, WeightStationary
from accelsim.hardware.template import parse_template
from accelsim.library import load_accelerator

TEMPLATE = (data_folder("hw_templates") / "accelerators" / "scalesim_32x32.yaml").read_text(encoding="utf-8")
TPU = """[general]
run_name = GoogleTPU_v1_ws

[architecture_presets]
ArrayHeight:    256
ArrayWidth:     128
IfmapSramSzkB:    6144
FilterSramSzkB:   6144
OfmapSramSzkB:    2048
IfmapOffset:    0
FilterOffset:   10000000
OfmapOffset:    20000000
Dataflow : ws
Bandwidth : 12
ReadRequestBuffer: 512
WriteRequestBuffer: 512

[layout]
IfmapCustomLayout: False
IfmapSRAMBankBandwidth: 10
IfmapSRAMBankNum: 10
IfmapSRAMBankPort: 2
FilterCustomLayout: False
FilterSRAMBankBandwidth: 10
FilterSRAMBankNum: 10
FilterSRAMBankPort: 2

[sparsity]
SparsitySupport : false
SparseRep : ellpack_block
OptimizedMapping : false
BlockSize : 8
RandomNumberGeneratorSeed : 40

[run_presets]
InterfaceBandwidth: USER
UseRamulatorTrace: False
"""


def read(text: str, *overrides: str) -> Accelerator:
    return parse_scalesim_config(text, "array.cfg", TEMPLATE, overrides)


def refusal(text: str) -> list[str]:
    with pytest.raises(FormatError) as error:
        read(text)
    return str(error.value).splitlines()


def test_a_whole_file() -> None:
    machine = read(TPU)
    dataflow = machine.dataflow
    assert isinstance(dataflow, WeightStationary)
    assert (machine.name, dataflow.rows, dataflow.columns, dataflow.counting) == ("GoogleTPU_v1_ws", 256, 128, "causal")
    assert machine.buffers["global"].capacity_bytes == (6144 + 6144 + 2048) * 1024
    assert machine.dram.bytes_per_cycle == 12
    base = parse_template(TEMPLATE)
    assert (machine.clock_hz, machine.vector_unit, dataflow.mac_pj) == (base.clock_hz, base.vector_unit, 0.3)
    assert machine.notes == ("array.cfg: clock, vector unit and energies are those of the template 'scalesim_32x32'",)


def test_what_it_becomes_is_a_template_that_gives_the_same_machine() -> None:
    machine = read(TPU, "pe_array.counting=scalesim", "dram.latency=5 cycles")
    assert machine.dataflow.one_tile_per_operator
    again = parse_template(machine.source)
    assert again == machine
    assert again.digest == machine.digest
    assert "#" not in machine.source, "the sources beside the template's numbers are not those of this file's"


@pytest.mark.parametrize(
    ("word", "kind"), [("os", OutputStationary), ("WS", WeightStationary), ("is", InputStationary)]
)
def test_dataflows_and_the_case_of_words(word: str, kind: type) -> None:
    machine = read(f"[ARCHITECTURE_PRESETS]\nDATAFLOW={word}\narrayheight   =  7 ; rows\n# width\nArrayWidth:9")
    assert isinstance(machine.dataflow, kind)
    assert machine.macs_per_cycle == 63


def test_what_is_missing_comes_from_the_template_and_is_named() -> None:
    machine = read("[architecture_presets]\nIfmapSramSzkB: 100\nDataflow: ws\n")
    # 100 kB, and for the other two a third each of the template's 192 KiB.
    assert machine.buffers["global"].capacity_bytes == (100 + 64 + 64) * 1024
    assert (machine.macs_per_cycle, machine.dram.bytes_per_cycle, machine.name) == (1024, 10, "array")
    assert machine.notes[1] == (
        "array.cfg: not in the file, and taken from the template 'scalesim_32x32': ArrayHeight, ArrayWidth, "
        "FilterSramSzkB, OfmapSramSzkB, Bandwidth (64 KiB for each buffer)"
    )
    assert read("").macs_per_cycle == 1024


def test_names_of_the_first_version() -> None:
    """SCALE-Sim v1's eyeriss.cfg (ARM-software/SCALE-Sim): 512, 512 and 256 kB."""
    lines = ['run_name = "eyeriss"', "IfmapSramSz: 512", "FilterSramSz:   512", "OfmapSramSz: 256", "Dataflow: ws"]
    machine = read("\n".join(lines))
    assert (machine.name, machine.notes[1].rpartition(": ")[2]) == ("eyeriss", "ArrayHeight, ArrayWidth, Bandwidth")
    assert machine.buffers["global"].capacity_bytes == (512 + 512 + 256) * 1024
    assert refusal("IfmapSramSz: 5\nIfmapSramSzkB: 6") == [
        "array.cfg:2: IfmapSramSzkB stands a second time; first in line 1"
    ]


def test_unknown_keys_and_sections_are_named() -> None:
    notes = read("[architecture_presets]\nArrayHieght: 8\n[network_presets]\nTopologyCsvLoc = x\n").notes[2:]
    assert notes == (
        "array.cfg:2: 'ArrayHieght' is not known (did you mean 'ArrayHeight'?) and is left out",
        "array.cfg:3: section [network_presets] is not known (did you mean 'run_presets'?) and is left out",
    )


def test_what_changes_little_is_noted() -> None:
    notes = read(TPU.replace("USER", "CALC").replace("Trace: False", "Trace: True")).notes[1:]
    assert "under CALC, DRAM never limits SCALE-Sim; here it has 12 bytes a cycle" in notes[0]
    assert notes[1].startswith("array.cfg:37: UseRamulatorTrace is left out")


@pytest.mark.parametrize(
    ("found", "put", "words"),
    [
        (
            "ArrayHeight:    256",
            "ArrayHeight: nan",
            "array.cfg:5: ArrayHeight is 'nan'; expected a whole number from 1 to 6",
        ),
        ("ArrayHeight:    256", "ArrayHeight: 70000", "array.cfg:5: ArrayHeight is '70000'"),
        ("ArrayHeight:    256", "ArrayHeight: -1", "array.cfg:5: ArrayHeight is '-1'"),
        ("ArrayHeight:    256", "ArrayHeight:", "array.cfg:5: ArrayHeight is ''"),
        ("ArrayHeight:    256", "ArrayHeight 256", "array.cfg:5: found 'ArrayHeight 256'; expected 'key: value'"),
        ("ArrayWidth:     128", "ArrayHeight = 128", "array.cfg:6: ArrayHeight stands a second time; first in line 5"),
        ("Bandwidth : 12", "Bandwidth : 0", "array.cfg:14: Bandwidth is '0'"),
        ("Bandwidth : 12", "Bandwidth : 10,10,10", "array.cfg:14: Bandwidth is '10,10,10'"),
        ("SzkB:    6144", "SzkB: 1e3", "array.cfg:7: IfmapSramSzkB is '1e3'"),
        ("SzkB:    6144", f"SzkB: {10**12}", "array.cfg:7: IfmapSramSzkB is '1000000000000'"),
        ("Dataflow : ws", "Dataflow : xs", "array.cfg:13: Dataflow is 'xs'; expected one of os, ws, is"),
        ("USER", "USERS", "array.cfg:36: InterfaceBandwidth is 'USERS'; expected one of calc, user"),
        (
            "Support : false\nSparseRep : ellpack_block\nOptimizedMapping : false",
            "Support : true\nSparseRep : ellpack_block\nOptimizedMapping : true",
            "array.cfg:31: OptimizedMapping is 'true'; row-wise sparsity, whose ratios are drawn at random",
        ),
    ],
)
def test_a_line_that_cannot_be_understood_is_named(found: str, put: str, words: str) -> None:
    assert found in TPU
    assert any(line.startswith(words) for line in refusal(TPU.replace(found, put)))


def test_all_mistakes_at_once() -> None:
    lines = refusal("ArrayWidth: x\nArrayHeight: y\nz\n")
    assert [line[:12] for line in lines] == ["array.cfg:1:", "array.cfg:2:", "array.cfg:3:"]


def test_overrides_are_checked_as_those_of_a_template() -> None:
    assert read(TPU, "pe_array.stationary_preload=true").dataflow.stationary_preload  # type: ignore[attr-defined]
    with pytest.raises(UnknownName, match=r"did you mean 'pe_array\.rows'"):
        read(TPU, "pe_array.row=3")
    with pytest.raises(TemplateError, match="SCALE-Sim has no such array"):
        read(TPU, "pe_array.stationary_preload=true", "pe_array.counting=scalesim")


def test_the_library_reads_it_by_its_suffix(tmp_path: Path) -> None:
    path = tmp_path / "tpu <v1>.cfg"
    path.write_text(TPU.replace("run_name = GoogleTPU_v1_ws", ""))
    assert load_accelerator(path).name == "tpu__v1_"
    assert load_accelerator(str(path), ["pe_array.rows=8"]).macs_per_cycle == 8 * 128
    with pytest.raises(FormatError, match="no such file"):
        load_accelerator("none.cfg")
    with pytest.raises(FormatError, match="folder"):
        (tmp_path / "folder.cfg").mkdir()
        load_accelerator(tmp_path / "folder.cfg")


@given(
    st.lists(
        st.one_of(
            st.text(max_size=30),
            st.tuples(
                st.sampled_from(["ArrayHeight", "Bandwidth", "Dataflow", "IfmapSramSzkB", "run_name", "[layout]"]),
                st.sampled_from([":", "=", " ", ""]),
                st.one_of(st.text(max_size=9), st.sampled_from(["os", "7", "-7", "nan", "9" * 30])),
            ).map("".join),
        ),
        max_size=8,
    )
)
def test_any_text_is_read_or_refused(lines: list[str]) -> None:
    try:
        machine = read("\n".join(lines))
    except AccelsimError as error:
        assert str(error).startswith("array.cfg:")
    else:
        assert machine.macs_per_cycle >= 32


def test_sparsity_support_shortens_layers_of_that_ratio() -> None:
    text = TPU.replace("SparsitySupport : false", "SparsitySupport : true")
    machine = parse_scalesim_config(text, "array.cfg", TEMPLATE, ["pe_array.counting=scalesim"])
    assert machine.arithmetic.weights == "structured"
    assert parse_scalesim_config(TPU, "array.cfg", TEMPLATE).arithmetic.weights == "none"
