"""The DRAM chips as compiled code sees them: what each bank, group and rank remembers, and what a command changes.

A command may start at a cycle that is not before the largest of a few numbers: the earliest cycle for that kind of
command that its bank, its bank group and its rank remember. Issuing a command moves those numbers. All distances are
in :class:`Gap`, in cycles from the start of one command to the start of another (JESD79-4 and its kin; how they follow
from a standard's parameters is told in ``gaps.py``).
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from accelsim.jit import kernel

IntColumn = npt.NDArray[np.int64]
IntTable = npt.NDArray[np.int64]

NEVER = 1 << 60
"""A cycle that does not come."""


class Gap(IntEnum):
    """Rows of the table of distances, X_Y from command X to command Y; MANY_ACT is from an ACT to the 32nd behind it.

    ``S`` other bank group of the same rank, ``L`` same bank group, ``STACK`` other stack of the same rank, ``RANK``
    other rank of the channel. PREA precharges all banks of a rank, REF refreshes a rank, REFB one bank.
    """

    ACT_ACT = 0
    ACT_ACT_S = auto()
    ACT_ACT_L = auto()
    FOUR_ACT = auto()
    MANY_ACT = auto()
    ACT_RD = auto()
    ACT_WR = auto()
    ACT_PRE = auto()
    ACT_REF = auto()
    ACT_REFB_S = auto()
    RD_RD_S = auto()
    RD_RD_L = auto()
    RD_RD_STACK = auto()
    RD_RD_RANK = auto()
    RD_WR = auto()
    RD_WR_RANK = auto()
    RD_PRE = auto()
    WR_WR_S = auto()
    WR_WR_L = auto()
    WR_WR_RANK = auto()
    WR_RD_S = auto()
    WR_RD_L = auto()
    WR_RD_RANK = auto()
    WR_PRE = auto()
    PRE_ACT = auto()
    PREA_ACT = auto()
    PRE_PRE = auto()
    PRE_REF = auto()
    REF_ACT = auto()
    REF_PRE = auto()
    REFB_ACT = auto()
    REFB_ACT_S = auto()
    REFB_REFB = auto()
    ROW_BUS = auto()
    """Cycles for which ACT holds the bus of row commands."""
    READ_RETURN = auto()
    """From a read to its last data."""


class Command(IntEnum):
    """What can be sent to a chip."""

    ACT = 0
    PRE = auto()
    PREA = auto()
    RD = auto()
    WR = auto()
    REF = auto()
    REFB = auto()
    ACT2 = auto()
    CAS = auto()


# Columns of Device.banks. ACT, PRE, RD and WR are earliest cycles. ROW is the open row or -1, ACTIVE the number of
# requests that have opened it and wait to use it, HITS the accesses since it was opened,
# QUEUED the length of the bank's own queue where it has one.
ACT, PRE, RD, WR, ROW, ACTIVE, HITS, GROUP, RANK, REFB, HIT_SINCE, HIT_SCAN, QUEUED = range(13)
BANK_COLUMNS = QUEUED + 1
# Columns of Device.groups: earliest ACT, RD and WR, and the stack.
GROUP_ACT, GROUP_RD, GROUP_WR, GROUP_STACK = range(4)
GROUP_COLUMNS = GROUP_STACK + 1
# Columns of Device.ranks. Those before R_ACTIVE are earliest cycles, R_PREA of closing all banks. OPEN counts the open
# banks, since cycle SINCE; OPEN_CYCLES adds up. RANKS is how many share a channel. Four columns from FAW hold the last
# four ACTs plus tFAW; FAW_AT says which is the oldest. The same for the last 32, where a standard limits them.
R_ACT, R_PRE, R_PREA, R_RD, R_WR, R_REF, R_REFB, R_ACTIVE, OPEN, SINCE, OPEN_CYCLES, RANKS, FAW_AT, FAW = range(14)
AW32_AT = FAW + 4
AW32 = AW32_AT + 1
RANK_COLUMNS = AW32 + 32
RECORD_COLUMNS = 5


class Device(NamedTuple):
    """All chips of all channels."""

    gaps: IntColumn
    """One row a :class:`Gap`."""
    banks: IntTable
    groups: IntTable
    ranks: IntTable
    counts: IntColumn
    """Commands issued, one row a :class:`Command`, and in the last row those recorded."""
    commands: IntTable
    """The record: cycle, command, rank, bank (-1 for all), row; as many rows as the caller has room for."""


@kernel
def record(d: Device, cycle: int, command: int, rank: int, bank: int, row: int) -> None:
    """Count a command; write it down if the caller has left any room for a record."""
    d.counts[command] += 1
    at = d.counts[-1]
    if at < d.commands.shape[0]:
        d.commands[at, 0] = cycle
        d.commands[at, 1] = command
        d.commands[at, 2] = rank
        d.commands[at, 3] = bank
        d.commands[at, 4] = row
    d.counts[-1] += 1


@kernel
def later(table: IntTable, row: int, column: int, cycle: int) -> None:
    """Not before ``cycle``."""
    if table[row, column] < cycle:
        table[row, column] = cycle


@kernel
def ready_to_activate(d: Device, bank: int) -> int:
    """The first cycle at which the bank may be activated."""
    rank = d.banks[bank, RANK]
    return int(
        max(
            max(d.banks[bank, ACT], d.groups[d.banks[bank, GROUP], GROUP_ACT]),
            max(
                max(d.ranks[rank, R_ACT], d.ranks[rank, FAW + d.ranks[rank, FAW_AT]]),
                d.ranks[rank, AW32 + d.ranks[rank, AW32_AT]],
            ),
        )
    )


@kernel
def activate(d: Device, bank: int, row: int, cycle: int) -> None:
    """ACT: open a row."""
    group, rank = d.banks[bank, GROUP], d.banks[bank, RANK]
    gaps = d.gaps
    d.banks[bank, ROW] = row
    d.banks[bank, HITS] = 0
    later(d.banks, bank, ACT, cycle + gaps[Gap.ACT_ACT])
    later(d.banks, bank, RD, cycle + gaps[Gap.ACT_RD])
    later(d.banks, bank, WR, cycle + gaps[Gap.ACT_WR])
    later(d.banks, bank, PRE, cycle + gaps[Gap.ACT_PRE])
    later(d.banks, bank, REFB, cycle + gaps[Gap.ACT_REF])
    later(d.groups, group, GROUP_ACT, cycle + gaps[Gap.ACT_ACT_L])
    later(d.ranks, rank, R_ACT, cycle + gaps[Gap.ACT_ACT_S])
    later(d.ranks, rank, R_PREA, cycle + gaps[Gap.ACT_PRE])
    later(d.ranks, rank, R_REF, cycle + gaps[Gap.ACT_REF])
    later(d.ranks, rank, R_REFB, cycle + gaps[Gap.ACT_REFB_S])
    oldest = d.ranks[rank, FAW_AT]
    d.ranks[rank, FAW + oldest] = cycle + gaps[Gap.FOUR_ACT]
    d.ranks[rank, FAW_AT] = (oldest + 1) & 3
    if gaps[Gap.MANY_ACT] > 0:
        oldest = d.ranks[rank, AW32_AT]
        d.ranks[rank, AW32 + oldest] = cycle + gaps[Gap.MANY_ACT]
        d.ranks[rank, AW32_AT] = (oldest + 1) & 31
    if d.ranks[rank, OPEN] == 0:
        d.ranks[rank, SINCE] = cycle
    d.ranks[rank, OPEN] += 1
    record(d, cycle, Command.ACT, rank, bank, row)


@kernel
def close(d: Device, bank: int, cycle: int) -> None:
    """The row of an open bank is given up; its rank is idle once this was the last."""
    rank = d.banks[bank, RANK]
    d.banks[bank, ROW] = -1
    d.ranks[rank, OPEN] -= 1
    if d.ranks[rank, OPEN] == 0:
        d.ranks[rank, OPEN_CYCLES] += cycle - d.ranks[rank, SINCE]


@kernel
def precharge(d: Device, bank: int, cycle: int) -> None:
    """PRE: close the row of one bank."""
    rank = d.banks[bank, RANK]
    close(d, bank, cycle)
    later(d.banks, bank, ACT, cycle + d.gaps[Gap.PRE_ACT])
    later(d.banks, bank, REFB, cycle + d.gaps[Gap.PRE_REF])
    later(d.ranks, rank, R_PRE, cycle + d.gaps[Gap.PRE_PRE])
    later(d.ranks, rank, R_PREA, cycle + d.gaps[Gap.PRE_PRE])
    later(d.ranks, rank, R_REF, cycle + d.gaps[Gap.PRE_REF])
    record(d, cycle, Command.PRE, rank, bank, -1)


@kernel
def precharge_all(d: Device, rank: int, cycle: int) -> None:
    """PREA: close all rows of a rank; closed banks have to wait as well."""
    banks = d.banks.shape[0] // d.ranks.shape[0]
    for bank in range(rank * banks, (rank + 1) * banks):
        if d.banks[bank, ROW] >= 0:
            close(d, bank, cycle)
    later(d.ranks, rank, R_ACT, cycle + d.gaps[Gap.PREA_ACT])
    later(d.ranks, rank, R_PRE, cycle + d.gaps[Gap.PRE_PRE])
    later(d.ranks, rank, R_PREA, cycle + d.gaps[Gap.PRE_PRE])
    later(d.ranks, rank, R_REF, cycle + d.gaps[Gap.PRE_REF])
    record(d, cycle, Command.PREA, rank, -1, -1)


@kernel
def refresh(d: Device, rank: int, cycle: int) -> None:
    """REF: refresh a rank whose banks are closed."""
    later(d.ranks, rank, R_ACT, cycle + d.gaps[Gap.REF_ACT])
    later(d.ranks, rank, R_PREA, cycle + d.gaps[Gap.REF_PRE])
    later(d.ranks, rank, R_REF, cycle + d.gaps[Gap.REF_ACT])
    record(d, cycle, Command.REF, rank, -1, -1)


@kernel
def refresh_bank(d: Device, bank: int, cycle: int) -> None:
    """REFB: refresh one closed bank."""
    rank = d.banks[bank, RANK]
    later(d.banks, bank, ACT, cycle + d.gaps[Gap.REFB_ACT])
    later(d.banks, bank, REFB, cycle + d.gaps[Gap.REFB_ACT])
    later(d.ranks, rank, R_ACT, cycle + d.gaps[Gap.REFB_ACT_S])
    later(d.ranks, rank, R_REFB, cycle + d.gaps[Gap.REFB_REFB])
    record(d, cycle, Command.REFB, rank, bank, -1)


@kernel
def ready_to_access(d: Device, bank: int, is_write: int) -> int:
    """The first cycle at which the open row of the bank may be read or written."""
    group, rank = d.banks[bank, GROUP], d.banks[bank, RANK]
    if is_write:
        return int(max(max(d.banks[bank, WR], d.groups[group, GROUP_WR]), d.ranks[rank, R_WR]))
    return int(max(max(d.banks[bank, RD], d.groups[group, GROUP_RD]), d.ranks[rank, R_RD]))


@kernel
def access(d: Device, bank: int, is_write: int, cycle: int) -> None:
    """RD or WR: one burst of the open row."""
    group, rank = d.banks[bank, GROUP], d.banks[bank, RANK]
    gaps = d.gaps
    d.banks[bank, HITS] += 1
    if is_write:
        later(d.groups, group, GROUP_WR, cycle + gaps[Gap.WR_WR_L])
        later(d.ranks, rank, R_WR, cycle + gaps[Gap.WR_WR_S])
        later(d.groups, group, GROUP_RD, cycle + gaps[Gap.WR_RD_L])
        later(d.ranks, rank, R_RD, cycle + gaps[Gap.WR_RD_S])
        precharge_at = cycle + gaps[Gap.WR_PRE]
    else:
        later(d.groups, group, GROUP_RD, cycle + gaps[Gap.RD_RD_L])
        later(d.ranks, rank, R_RD, cycle + gaps[Gap.RD_RD_S])
        later(d.ranks, rank, R_WR, cycle + gaps[Gap.RD_WR])
        precharge_at = cycle + gaps[Gap.RD_PRE]
        if gaps[Gap.RD_RD_STACK] > gaps[Gap.RD_RD_S]:
            in_rank = d.groups.shape[0] // d.ranks.shape[0]
            for other in range(rank * in_rank, (rank + 1) * in_rank):
                if d.groups[other, GROUP_STACK] != d.groups[group, GROUP_STACK]:
                    later(d.groups, other, GROUP_RD, cycle + gaps[Gap.RD_RD_STACK])
    later(d.banks, bank, PRE, precharge_at)
    later(d.ranks, rank, R_PREA, precharge_at)
    in_channel = d.ranks[rank, RANKS]
    first = rank // in_channel * in_channel
    for other in range(first, first + in_channel):
        if other != rank:
            switch_rank(d, other, is_write, cycle)
    record(d, cycle, Command.WR if is_write else Command.RD, rank, bank, d.banks[bank, ROW])


@kernel
def switch_rank(d: Device, rank: int, is_write: int, cycle: int) -> None:
    """What an access to one rank means for another rank on the same data bus."""
    if is_write:
        later(d.ranks, rank, R_WR, cycle + d.gaps[Gap.WR_WR_RANK])
        later(d.ranks, rank, R_RD, cycle + d.gaps[Gap.WR_RD_RANK])
    else:
        later(d.ranks, rank, R_RD, cycle + d.gaps[Gap.RD_RD_RANK])
        later(d.ranks, rank, R_WR, cycle + d.gaps[Gap.RD_WR_RANK])
