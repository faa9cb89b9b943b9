"""Memory requests replayed over a machine's path to DRAM, by hand."""

from pathlib import Path

import pytest

import accelsim
from accelsim.errors import FormatError, InputError
from accelsim.formats import load_trace

HARDWARE = "soma_edge"  # 16 B/cycle, no latency


def saved(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def starts(path: Path, *overrides: str) -> tuple[list[tuple[int, int]], accelsim.Timeline]:
    run = load_trace(path, accelsim.load_accelerator(HARDWARE, overrides))
    moved = run.events.bytes > 0
    return list(zip(run.events.start_cycles[moved].tolist(), run.events.end_cycles[moved].tolist(), strict=True)), run


def test_requests_without_times_stand_in_line(tmp_path: Path) -> None:
    found, run = starts(saved(tmp_path, "a.trace", "LD 0x40\nST 0x80\n\n# note\nLD 0\n"))
    assert found == [(0, 4), (4, 8), (8, 12)]  # bursts of 64 bytes
    summary = accelsim.report(run).to_dict()
    assert (summary["dram_read_bytes"], summary["dram_write_bytes"]) == (128, 64)
    assert "taken for one burst of 64 bytes" in str(run.program.facts["notes"])


def test_requests_are_offered_at_their_times(tmp_path: Path) -> None:
    text = "arrival,address,bytes,kind\n5,0,160,read\n6,0,32,write\n6,0,16,read\n40,0,16,read\n"
    found, run = starts(saved(tmp_path, "a.csv", text))
    assert found == [(5, 15), (15, 17), (17, 18), (40, 41)]
    assert run.latency_cycles == 41
    faster, _ = starts(tmp_path / "a.csv", "dram.bandwidth=32 GB/s")
    assert faster == [(5, 10), (10, 11), (11, 12), (40, 41)]


def test_dramsim3(tmp_path: Path) -> None:
    found, _ = starts(saved(tmp_path, "b.txt", "0x40 READ 7\n0x80 WRITE 9\n"))
    assert found == [(7, 11), (11, 15)]


def test_scalesim(tmp_path: Path) -> None:
    lines = "-10.0, 1.0, 2.0, -1.0, 3.0,\n-9,5,6,7,8,\n\n0,1,,\n3,-1,-1\n"
    found, run = starts(saved(tmp_path, "layer_IFMAP_DRAM_TRACE.csv", lines))
    assert found == [(0, 1), (1, 2), (10, 11)]
    assert run.events.bytes[run.events.bytes > 0].tolist() == [3, 4, 1]
    _, written = starts(saved(tmp_path, "layer_OFMAP_DRAM_TRACE.csv", lines))
    assert accelsim.report(written).to_dict()["dram_write_bytes"] == 8


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "5,1\n4,1\n", r"a\.csv:2: cycle 4 comes after cycle 5"),
        ("a.csv", "5,1\nx,1\n", r"a\.csv:2: 'x,1' is no line of a cycle and addresses"),
        ("a.csv", "5,1\n6,<b>\n", r"a\.csv:2: '6,<b>' is no line"),
        ("a.csv", "5,-1\n", r"no line asks for an address"),
        ("a.csv", "Layer,M,N,K\n", r"unknown column"),
        ("a.csv", f"{10**30},1\n", r"is beyond the clock"),
        ("a.trace", "", r"no request in it"),
        ("a.trace", "LD 5\nLOAD 6\n", r"a\.trace:2"),
        ("a.txt", "a b c d\n", r"a\.txt:1"),
    ],
)
def test_files_that_are_no_requests(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        starts(saved(tmp_path, name, text))


def test_a_machine_is_needed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"does not tell how fast they are served; give the machine with --hardware"):
        load_trace(saved(tmp_path, "a.trace", "LD 0x40\n"))
