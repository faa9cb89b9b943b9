"""The tables that controllers work on: what is chosen, what is asked, and what they remember."""

from __future__ import annotations

from enum import IntEnum, auto
from typing import NamedTuple

from accelsim.hardware.memory.device import Device, Gap, IntColumn, IntTable
from accelsim.jit import kernel

# Columns of Controller.requests. ACCEPTED and FINISHED are cycles, OUTCOME is what the first command found, ACTIVATED
# how often a row was opened for it.
ARRIVAL, AT_CHANNEL, AT_BANK, AT_ROW, IS_WRITE, ENGINE, ADDRESS, ACCEPTED, FINISHED, OUTCOME, NEXT_OF_ENGINE = range(11)
ACTIVATED = NEXT_OF_ENGINE + 1
REQUEST_COLUMNS = ACTIVATED + 1

WAITING, HIT, MISS, CONFLICT, FORWARDED, MERGED = range(-1, 5)
"""OUTCOME: no command yet; row open, bank closed, other row open; read from, or merged with, a write that waited."""

# Columns of Controller.channels. The first three are lengths of the queues in rows 3 c .. 3 c + 2 of the queue table;
# REFRESHES counts the refreshes due, REFRESHED those begun; SERVED the requests of the direction since it was switched.
READS, WRITES, ACTIVES, WRITE_MODE, ROW_BUS_FREE, NEXT_REFRESH, REFRESHES, REFRESHED, SERVED, SCAN, WAKE = range(11)
PAIRED_AT, PAIRED_RANK, PAIRED_BANK = range(11, 14)
FIRST_READER, FIRST_WRITER = range(14, 16)  # of channel 0: the engine that is asked first for a read, for a write
# LPDDR5: the bank whose activation lacks its second half (or -1), for which request, and when it is due; the request
# whose data clock was just started (or -1), and until when that clock runs.
SPLIT_BANK, SPLIT_REQUEST, SPLIT_DUE, SYNCED, CLOCK_UNTIL = range(16, 21)
DONE = 21  # the request whose access was sent last; whoever reads it puts -1 there
CHANNEL_COLUMNS = DONE + 1

ANY, COLUMN, ROW_COMMANDS = range(3)
"""Which commands a slot of the command bus takes."""


class Policy(IntEnum):
    """Rows of the table of choices."""

    DUAL_BUS = 0
    """Column and row commands have a bus of their own (HBM)."""
    HALF_CYCLES = auto()
    """Cycles are half clocks; only precharges may start on the second half (HBM3)."""
    READ_QUEUE = auto()
    WRITE_QUEUE = auto()
    HIGH = auto()
    """Writes are served once more than this many wait."""
    LOW = auto()
    """Reads are served again once fewer than this many writes wait."""
    HIT_FIRST = auto()
    """A row is not closed while an older request waits for it."""
    HIT_CAP = auto()
    """With HIT_FIRST: after this many accesses an open row has no claim any more."""
    WRITE_BATCH = auto()
    """With reads waiting, serve at most this many writes before reads have their turn."""
    READ_BATCH = auto()
    """Serve at least this many reads, if there are so many, before writes have their turn."""
    AGE_LIMIT = auto()
    """A request that has waited for longer goes before all others, and its bank belongs to it."""
    REFRESH = auto()
    """0 off, 1 all banks of a rank at once, 2 one bank after another."""
    REFRESH_INTERVAL = auto()
    SPLIT_WITHIN = auto()
    """Activations come in two halves, the second at most this many cycles after the first; 0: in one (LPDDR5)."""
    READ_CLOCK = auto()
    """The data clock runs for this many cycles after a read, then has to be started again; 0: always (LPDDR5)."""
    WRITE_CLOCK = auto()
    """The same after a write."""
    QUEUE_PER_BANK = auto()
    """1: the controller of ``per_bank.py``, 0: that of ``frfcfs.py``."""
    INJECTION = auto()
    """0 one queue for all engines; one queue an engine: 1 the first one asked changes every cycle, 2 whoever was
    accepted goes last."""


ACCEPTS = 2
"""Requests that are accepted in one cycle, for each channel that there is."""


class Controller(NamedTuple):
    """The device, the requests, and what the controllers of all channels remember."""

    device: Device
    policy: IntColumn
    requests: IntTable
    channels: IntTable
    queues: IntTable
    """Indices of requests: three rows a channel (reads, writes, those that have opened their row), in order of
    acceptance, the third of activation; then a row a bank, for controllers with a queue a bank."""
    engines: IntTable
    """The first request that was not accepted yet: of each engine (-1 for none left), or, in row 0, of all."""


@kernel
def remove(m: Controller, queue: int, length: int, at: int) -> None:
    """Take an entry out of a queue; those behind it move up."""
    for place in range(at, length - 1):
        m.queues[queue, place] = m.queues[queue, place + 1]


@kernel
def finish(m: Controller, request: int, cycle: int) -> None:
    """The access command has been sent: a write is done, a read when its last data is back."""
    m.channels[m.requests[request, AT_CHANNEL], DONE] = request
    if m.requests[request, IS_WRITE]:
        m.requests[request, FINISHED] = cycle
    else:
        m.requests[request, FINISHED] = cycle + m.device.gaps[Gap.READ_RETURN]
