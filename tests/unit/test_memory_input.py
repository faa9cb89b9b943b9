"""Trace files, maps, templates and figures: what is read, what is refused, and what the report counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accelsim.errors import AccelsimError, FormatError
from accelsim.formats.memory_trace import read_memory_trace, write_memory_trace
from accelsim.hardware.memory.address_map import ADDRESS_MAPS, AddressMap
from accelsim.hardware.memory.memory import ALWAYS, ONE_BURST, MemoryRequests, latency_figures
from accelsim.library import list_memories, load_memory

BITS = {"channel": 1, "rank": 1, "pseudo": 0, "stack": 1, "group": 2, "bank": 2, "row": 4, "column": 5}


def write(folder: Path, text: str) -> Path:
    path = folder / "some.trace"
    path.write_text(text)
    return path


def requests(**columns: list[int]) -> MemoryRequests:
    size = len(columns["address"])
    default = {"arrival": [ALWAYS] * size, "bytes": [ONE_BURST] * size, "write": [0] * size, "engine": [0] * size}
    table = {name: np.array(values, dtype=np.int64) for name, values in {**default, **columns}.items()}
    return MemoryRequests(table["arrival"], table["address"], table["bytes"], table["write"] > 0, table["engine"])


@pytest.mark.parametrize(
    "text", ["LD 8000\nST 0x40\n", "# note\n\nLD 0x1f40\nST 64", "address,kind\n8000,read\n0x40,W\n"]
)
def test_traces_without_time(tmp_path: Path, text: str) -> None:
    found = read_memory_trace(write(tmp_path, text))
    assert found.address.tolist() == [8000, 64] and found.is_write.tolist() == [False, True]
    assert set(found.arrival_cycles) == {ALWAYS} and set(found.bytes) == {ONE_BURST}


def test_dramsim3_traces_are_hexadecimal(tmp_path: Path) -> None:
    found = read_memory_trace(write(tmp_path, "1f40 READ 3\n0x40 write 17\n"))
    assert found.address.tolist() == [0x1F40, 0x40] and found.arrival_cycles.tolist() == [3, 17]


def test_our_form_comes_back(tmp_path: Path) -> None:
    given = requests(arrival=[0, 5], address=[64, 4096], bytes=[64, 8192], write=[0, 1], engine=[2, 1])
    write_memory_trace(given, tmp_path / "ours.csv")
    for before, after in zip(given, read_memory_trace(tmp_path / "ours.csv"), strict=True):
        assert (before == after).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no request"),
        ("# only a note\n", "no request"),
        ("LD 0x40\nLD zebra\n", "some.trace:2: 'LD zebra'"),
        ("LD 0x40\nXX 0x40\n", "some.trace:2"),
        ("0x40 READ 3\n0x40 JUMP 4\n", "some.trace:2"),
        ("0x40 READ 30\n0x40 READ 4\n", "some.trace:2: cycle 4 comes after cycle 30"),
        ("arrival,address,kind\n# note\n9,0,read\n9,0,read\n8,0,read\n", "some.trace:5: cycle 8 comes after cycle 9"),
        ("0x40 READ -7\n", "arrival is -7"),
        ("address,kind\n", "a header but no request"),
        ("address,when\n1,2\n", "unknown column 'when'"),
        ("address,bytes\n1,2\n", "no column 'kind'"),
        ("address,kind\n1,read\n1\n", "some.trace:3"),
        ("address,kind\n99999999999999999999,read\n", "some.trace:2"),
    ],
)
def test_bad_traces_name_file_and_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(FormatError, match=r"some\.trace") as problem:
        read_memory_trace(write(tmp_path, text))
    assert words in str(problem.value)


@pytest.mark.parametrize("name", list(ADDRESS_MAPS))
def test_every_map_is_one_to_one(name: str) -> None:
    address_map = AddressMap(name, BITS, 6)
    address = np.arange(0, address_map.capacity_bytes, 64)
    location = address_map.locate(address)
    places = np.stack([location.bank, location.row, location.column])
    assert len(np.unique(places, axis=1).T) == len(address) == 1 << sum(BITS.values())
    assert (location.channel == location.bank >> 6).all()


def test_maps_by_hand() -> None:
    low = AddressMap("column_low", {**BITS, "channel": 0, "rank": 0, "stack": 0}, 6)
    location = low.locate(np.array([0, 64, 32 * 64, 4 * 32 * 64, 16 * 32 * 64]))
    assert location.column.tolist() == [0, 1, 0, 0, 0]
    assert location.bank.tolist() == [0, 0, 4, 1, 0]  # bank group 1 is banks 4 to 7
    assert location.row.tolist() == [0, 0, 0, 0, 1]
    mop = AddressMap("mop4clxor", {**BITS, "channel": 0, "rank": 0, "stack": 0}, 6)
    location = mop.locate(np.array([0, 64, 256, 64 * 64]))
    # accesses 1, 4 and 64: column 1; bank group 1; column 4 -> bank XOR 1
    assert location.column.tolist() == [0, 1, 0, 4]
    assert location.bank.tolist() == [0, 4, 4, 1]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("channels=0", "channels: found 0"),
        ("channels=3", "power of two"),
        ("timing.tRAS=80 cycles", "tRAS of 80 cycles is longer than tRC of 74"),
        ("timing.tRFC=9 us", "tRFC"),
        ("timing.tCL=0 cycles", "tCL is 0"),
        ("timing.tCL=22", "unit"),
        ("controller=fifo", "controller"),
        ("address_map=bank_group_lo", "did you mean 'bank_group_low"),
        ("chanels=2", "did you mean 'channels'"),
        ("refresh=per_bank", "needs timing.tRFCpb"),
        ("queues.reads=0", "queues.reads: found 0"),
        ("organization.access_bytes=48 B", "power of two"),
    ],
)
def test_bad_settings(setting: str, words: str) -> None:
    with pytest.raises(AccelsimError) as problem:
        load_memory("ddr4_3200", [setting])
    assert words in str(problem.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (requests(address=[0, 1 << 33]), "request 2 goes up to address 0x200000000"),
        (requests(address=[(1 << 33) - 64], bytes=[65]), "lie outside"),
        (requests(address=[0, 0], arrival=[5, 4]), "before the one above it"),
        (requests(address=[]), "no requests"),
    ],
)
def test_requests_that_cannot_be_served(given: MemoryRequests, words: str) -> None:
    memory = load_memory("ddr4_3200")  # 8 GiB: 16 banks of 65536 rows of 8 KiB
    assert memory.capacity_bytes == 1 << 33
    with pytest.raises(AccelsimError) as problem:
        memory.serve(given)
    assert words in str(problem.value)


PEAKS_GB_PER_S = {
    "ddr4_3200": 25.6,
    "ddr5_4800": 19.2,
    "gddr6_14000": 28.07,
    "hbm2_2000": 32.0,
    "hbm3_6400": 51.2,
    "lpddr4_3200": 6.4,
    "lpddr4_4000": 8.0,
    "lpddr5_6400": 12.8,
}
"""Data rate times pins / 8; GDDR6 with its period rounded to 570 ps."""


@pytest.mark.kernel
@pytest.mark.parametrize("name", list(list_memories()))
def test_peak_and_sequential_reads(name: str) -> None:
    memory = load_memory(name)
    assert memory.peak_bytes_per_cycle * memory.clock_hz / 1e9 == pytest.approx(PEAKS_GB_PER_S[name], rel=1e-3)
    run = memory.serve(requests(address=list(range(0, 8000 * memory.access_bytes, memory.access_bytes))))
    assert 0.75 < run.summary()["efficiency"] <= 1
    assert memory.without_banks().serve(run.requests).cycles <= run.cycles


@pytest.mark.kernel
def test_long_requests_become_bursts() -> None:
    memory = load_memory("ddr4_3200", ["refresh=off"])
    long = memory.serve(requests(address=[32], bytes=[4096]))  # touches 65 bursts
    assert long.bytes_moved == 65 * 64 and long.row_hits + long.row_misses + long.row_conflicts == 65
    assert long.requests.size == len(long.finished_cycles) == 1
    assert long.latency_cycles[0] == long.finished_cycles[0] - long.accepted_cycles[0] == long.cycles - 1


@pytest.mark.kernel
def test_energy_closes_over_the_commands() -> None:
    memory = load_memory("ddr4_3200", ["controller=ramulator", "refresh=off"])
    run = memory.serve(requests(address=[0, 64, 1 << 20], write=[0, 1, 1]), record_commands=True)
    kinds = run.commands[:, 1].tolist()
    energy = run.energy_by_command_pj
    assert energy["act"] == pytest.approx(4233.6 * kinds.count(0))
    assert energy["rd"] == pytest.approx(5.481 * 512) and energy["wr"] == pytest.approx(2 * 4.63 * 512)
    assert energy["ref"] == 0
    first_act = int(run.commands[0, 0])
    seconds = np.array([run.cycles - first_act, first_act]) / memory.clock_hz  # a bank is open since the first ACT
    closed = kinds.count(1)  # a precharge of one of two banks keeps the rank active
    assert closed <= 1 and energy["background"] == pytest.approx(1e12 * (0.4992 * seconds[0] + 0.3552 * seconds[1]))
    assert run.summary()["energy_pj"] == pytest.approx(sum(energy.values()))


def test_latency_figures() -> None:
    assert latency_figures(np.array([4, 1, 3, 2])) == {"mean": 2.5, "p50": 2, "p99": 4, "max": 4}
    assert latency_figures(np.array([], dtype=np.int64)) == {"mean": 0, "p50": 0, "p99": 0, "max": 0}


def test_ideal_memory_keeps_its_pins_busy() -> None:
    memory = load_memory("ddr4_3200").without_banks()
    run = memory.serve(requests(address=[0, 64, 128], arrival=[0, 0, 100]))
    assert run.finished_cycles.tolist() == [4 + 22, 8 + 22, 104 + 22]
