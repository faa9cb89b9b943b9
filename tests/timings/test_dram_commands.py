"""The exact cycle of commands, from the timing parameters alone: not a cycle earlier, not a cycle later."""

from __future__ import annotations

import numpy as np
import pytest

from accelsim.hardware.memory.device import Command
from accelsim.hardware.memory.memory import ALWAYS, ONE_BURST, MemoryRequests
from accelsim.library import load_memory

KIB = 1024


def commands_of(requests: list[tuple[str, int]], *settings: str, name: str = "ddr4_3200") -> list[tuple[str, int]]:
    """Command and cycle of a list of (R or W, address), all offered at once, one after another where refresh is off."""
    memory = load_memory(name, ["controller=ramulator", "refresh=off", "address_map=rorababgchco", *settings])
    address = np.array([address for _, address in requests], dtype=np.int64)
    is_write = np.array([kind == "W" for kind, _ in requests])
    zero = np.zeros(len(address), dtype=np.int64)
    run = memory.serve(MemoryRequests(zero + ALWAYS, address, zero + ONE_BURST, is_write, zero), record_commands=True)
    return [(Command(command).name, cycle) for cycle, command, *_ in run.commands.tolist()]


# With that map 8 KiB apart is the next bank group, 32 KiB the next bank, 128 KiB the next row; DDR4-3200AA: tRCD 22,
# tRP 22, tRAS 52, tRTP 12, tCCD_S 4, tCCD_L 8, tRRD_S 4, tRRD_L 8, tFAW 34, CL 22, CWL 16, BL 4, tWTR_L 12, tWR 24.
@pytest.mark.kernel
@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([("R", 0)], [("ACT", 0), ("RD", 22)]),
        ([("R", 0), ("R", 64)], [("ACT", 0), ("RD", 22), ("RD", 22 + 8)]),
        ([("R", 0), ("R", 8 * KIB)], [("ACT", 0), ("ACT", 4), ("RD", 22), ("RD", 26)]),
        ([("R", 0), ("R", 32 * KIB)], [("ACT", 0), ("ACT", 8), ("RD", 22), ("RD", 30)]),
        ([("R", 0), ("R", 128 * KIB)], [("ACT", 0), ("RD", 22), ("PRE", 52), ("ACT", 74), ("RD", 96)]),
        ([("W", 0), ("W", 128 * KIB)], [("ACT", 0), ("WR", 22), ("PRE", 22 + 16 + 4 + 24), ("ACT", 88), ("WR", 110)]),
    ],
)
def test_ddr4_to_the_cycle(requests: list[tuple[str, int]], expected: list[tuple[str, int]]) -> None:
    assert commands_of(requests) == expected


@pytest.mark.kernel
def test_the_fifth_activation_waits_for_the_window() -> None:
    activations = [cycle for name, cycle in commands_of([("R", 8 * KIB * bank) for bank in range(5)]) if name == "ACT"]
    assert activations == [0, 4, 8, 12, 34 + 1]  # tRRD_S; tFAW, but at 34 the command bus carries the fourth read


@pytest.mark.kernel
def test_a_read_after_a_write_waits_for_the_end_of_its_data() -> None:
    found = commands_of([("W", 0), ("R", 64)])  # the read goes first: reads wait, and few writes
    assert [name for name, _ in found] == ["ACT", "RD", "WR"]
    assert found[2][1] - found[1][1] == 22 + 4 + 2 - 16  # CL + BL + 2 - CWL


@pytest.mark.kernel
def test_hbm2_has_two_command_buses_and_a_long_activation() -> None:
    found = commands_of([("R", 0), ("R", 1 * KIB)], name="hbm2_2000")
    # tRRD_S 4 from reception to reception; tRCD 14 from the end of an activation of two cycles
    assert found == [("ACT", 0), ("ACT", 4), ("RD", 15), ("RD", 19)]


@pytest.mark.kernel
def test_a_refresh_closes_all_banks_first() -> None:
    memory = load_memory("ddr4_3200", ["controller=ramulator", "timing.tREFI=1000 cycles"])
    arrival = np.array([0, 990, 1700])
    zero = np.zeros(3, dtype=np.int64)
    requests = MemoryRequests(arrival, zero, zero + ONE_BURST, zero > 0, zero)
    run = memory.serve(requests, record_commands=True)
    found = [(Command(command).name, cycle) for cycle, command, *_ in run.commands.tolist()]
    # due at the end of cycle 999; tRTP 12 after the read of 990 is over at 1002; REF tRP later; ACT tRFC later
    assert found == [("ACT", 0), ("RD", 22), ("RD", 990), ("PREA", 1002), ("REF", 1024), ("ACT", 1700), ("RD", 1722)]
    assert run.row_hits == 1 and run.row_misses == 2
