"""DRAM down to banks and rows: requests to bursts, the compiled controllers, and figures from what they did."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from accelsim.hardware.memory import controller as table
from accelsim.hardware.memory import device
from accelsim.hardware.memory.address_map import AddressMap
from accelsim.hardware.memory.controller import Controller, Policy
from accelsim.hardware.memory.device import NEVER, Command, Device
from accelsim.hardware.memory.gaps import command_gaps, cycles_per_clock
from accelsim.hardware.memory.ideal import IdealMemory
from accelsim.hardware.memory.inject import run_frfcfs, run_per_bank
from accelsim.hardware.memory.memory import ONE_BURST, Memory, MemoryRequests, MemoryRun
from accelsim.hardware.memory.template import MemoryTemplate

IntColumn = npt.NDArray[np.int64]

REFRESH_KINDS = {"off": 0, "all_bank": 1, "per_bank": 2}


class DramMemory(Memory):
    """A DRAM of one or more channels, each with a controller, simulated command by command.

    Raises:
        UnknownName: the template names an address map that there is not.
    """

    def __init__(self, template: MemoryTemplate) -> None:
        organization = template.organization
        self.template = template
        self.name, self.description = template.name, template.description
        self.cycles_per_clock = cycles_per_clock(template)
        self.clock_hz = template.clock * self.cycles_per_clock
        self.access_bytes = organization.access_bytes
        self.ranks_per_channel = template.ranks * organization.pseudo_channels
        self.banks_per_rank = organization.stacks * organization.bank_groups * organization.banks_per_group
        burst_cycles = template.timing.tBL * self.cycles_per_clock
        self.peak_bytes_per_cycle = (
            template.channels * organization.pseudo_channels * organization.access_bytes / burst_cycles
        )
        sizes = {
            "channel": template.channels,
            "rank": template.ranks,
            "pseudo": organization.pseudo_channels,
            "stack": organization.stacks,
            "group": organization.bank_groups,
            "bank": organization.banks_per_group,
            "row": organization.rows,
            "column": organization.row_bytes // organization.access_bytes,
        }
        bits = {name: size.bit_length() - 1 for name, size in sizes.items()}
        self.address_map = AddressMap(template.address_map, bits, organization.access_bytes.bit_length() - 1)
        self.capacity_bytes = self.address_map.capacity_bytes

    def without_banks(self) -> IdealMemory:
        """The same pins and read latency, but no banks, turnarounds or refresh."""
        timing, units = self.template.timing, self.template.channels * self.template.organization.pseudo_channels
        return IdealMemory(
            name=self.name,
            description=f"{self.description}, without banks",
            clock_hz=self.clock_hz,
            channels=units,
            burst_cycles=timing.tBL * self.cycles_per_clock,
            access_bytes=self.access_bytes,
            latency_cycles=timing.tCL * self.cycles_per_clock,
            capacity_bytes=self.capacity_bytes,
        )

    @property
    def write_data_cycles(self) -> int:
        """From a write command to its last data."""
        return (self.template.timing.tCWL + self.template.timing.tBL) * self.cycles_per_clock

    def controller(self) -> Controller:
        """All channels at cycle 0, and a table with a place for each request that can be under way at a time."""
        queues, channels = self.template.queues, self.template.channels
        banks = channels * self.ranks_per_channel * self.banks_per_rank
        places = channels * (queues.reads + queues.writes) + banks + 1
        return self._controller(np.zeros((places, table.REQUEST_COLUMNS), dtype=np.int64), 0)

    def serve(self, requests: MemoryRequests, *, record_commands: bool = False) -> MemoryRun:
        """As :meth:`Memory.serve`."""
        self.check(requests)
        first_burst, bursts = self._bursts(requests)
        room = 4 * len(bursts) + 1024 if record_commands else 0
        while True:
            controller = self._controller(bursts.copy(), room)
            (run_per_bank if self.template.controller == "dramsim3" else run_frfcfs)(controller)
            recorded = int(controller.device.counts[-1])
            if not record_commands or recorded <= room:
                break
            room = recorded
        served = controller.requests
        finished = np.maximum.reduceat(served[:, table.FINISHED], first_burst)
        outcomes = np.bincount(served[:, table.OUTCOME], minlength=table.MERGED + 1)
        cycles = int(finished.max()) + 1
        return MemoryRun(
            memory=self.name,
            clock_hz=self.clock_hz,
            peak_bytes_per_cycle=self.peak_bytes_per_cycle,
            requests=requests,
            accepted_cycles=served[first_burst, table.ACCEPTED],
            finished_cycles=finished,
            cycles=cycles,
            bytes_moved=len(served) * self.access_bytes,
            row_hits=int(outcomes[table.HIT]),
            row_misses=int(outcomes[table.MISS]),
            row_conflicts=int(outcomes[table.CONFLICT]),
            energy_by_command_pj=self.energy_by_command_pj(controller.device, cycles),
            commands=controller.device.commands[:recorded] if record_commands else None,
        )

    def _bursts(self, requests: MemoryRequests) -> tuple[IntColumn, npt.NDArray[np.int64]]:
        """The first burst of each request, and all bursts as rows of :attr:`Controller.requests`."""
        step = self.access_bytes
        first = requests.address // step
        last = (requests.address + np.where(requests.bytes == ONE_BURST, 1, requests.bytes) - 1) // step
        count = last - first + 1
        first_burst = np.cumsum(count) - count
        within = np.arange(int(count.sum())) - np.repeat(first_burst, count)
        address = (np.repeat(first, count) + within) * step
        location = self.address_map.locate(address)
        bursts = np.zeros((len(address), table.REQUEST_COLUMNS), dtype=np.int64)
        bursts[:, table.ARRIVAL] = np.repeat(requests.arrival_cycles, count)
        bursts[:, table.AT_CHANNEL] = location.channel
        bursts[:, table.AT_BANK] = location.bank
        bursts[:, table.AT_ROW] = location.row
        bursts[:, table.IS_WRITE] = np.repeat(requests.is_write, count)
        bursts[:, table.ENGINE] = np.repeat(np.unique(requests.engine, return_inverse=True)[1], count)
        bursts[:, table.ADDRESS] = address
        bursts[:, table.ACCEPTED] = bursts[:, table.FINISHED] = -1
        bursts[:, table.OUTCOME] = table.WAITING
        return first_burst, bursts

    def _controller(self, bursts: npt.NDArray[np.int64], room: int) -> Controller:
        """Everything at cycle 0."""
        template = self.template
        channels, ranks = template.channels, template.channels * self.ranks_per_channel
        groups_per_rank = template.organization.stacks * template.organization.bank_groups
        banks = np.zeros((ranks * self.banks_per_rank, device.BANK_COLUMNS), dtype=np.int64)
        banks[:, device.ROW] = banks[:, device.HIT_SCAN] = -1
        banks[:, device.GROUP] = np.arange(len(banks)) // template.organization.banks_per_group
        banks[:, device.RANK] = np.arange(len(banks)) // self.banks_per_rank
        groups = np.zeros((ranks * groups_per_rank, device.GROUP_COLUMNS), dtype=np.int64)
        groups[:, device.GROUP_STACK] = np.arange(len(groups)) // template.organization.bank_groups
        rank_table = np.zeros((ranks, device.RANK_COLUMNS), dtype=np.int64)
        rank_table[:, device.RANKS] = self.ranks_per_channel
        policy = self._policy()
        channel_table = np.zeros((channels, table.CHANNEL_COLUMNS), dtype=np.int64)
        channel_table[:, table.NEXT_REFRESH] = policy[Policy.REFRESH_INTERVAL] - 1
        channel_table[:, [table.SPLIT_BANK, table.SYNCED, table.DONE]] = -1
        longest = max(template.queues.reads, template.queues.writes, self.ranks_per_channel * self.banks_per_rank)
        return Controller(
            device=Device(
                gaps=command_gaps(template),
                banks=banks,
                groups=groups,
                ranks=rank_table,
                counts=np.zeros(len(Command) + 1, dtype=np.int64),
                commands=np.zeros((room, device.RECORD_COLUMNS), dtype=np.int64),
            ),
            policy=policy,
            requests=bursts,
            channels=channel_table,
            queues=np.zeros((3 * channels + len(banks), longest), dtype=np.int64),
            engines=self._heads(bursts),
        )

    def _heads(self, bursts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """:attr:`Controller.engines`; with a queue per engine the bursts of each are linked."""
        if self.template.injection == "one_queue":
            return np.zeros((1, 1), dtype=np.int64)
        engine = bursts[:, table.ENGINE]
        order = np.argsort(engine, kind="stable")
        is_last = np.append(np.diff(engine[order]) != 0, True)
        bursts[order, table.NEXT_OF_ENGINE] = np.where(is_last, -1, np.append(order[1:], -1))
        heads: npt.NDArray[np.int64] = order[np.append(0, np.flatnonzero(is_last)[:-1] + 1)].reshape(-1, 1)
        return heads

    def _policy(self) -> IntColumn:
        template, queues, scale = self.template, self.template.queues, self.cycles_per_clock
        bounded, timing = template.controller == "bounded", template.timing
        hit_first = template.controller in ("bounded", "ramulator_row_hit")
        interval = timing.tREFIpb if template.refresh == "per_bank" else timing.tREFI
        if template.controller == "dramsim3" and template.refresh == "all_bank":
            interval = timing.tREFI // self.ranks_per_channel  # one rank after another
        choices = {
            Policy.DUAL_BUS: template.organization.command_bus == "split",
            Policy.HALF_CYCLES: template.organization.half_cycles,
            Policy.READ_QUEUE: queues.reads,
            Policy.WRITE_QUEUE: queues.writes,
            Policy.HIGH: queues.write_above,
            Policy.LOW: queues.read_below,
            Policy.HIT_FIRST: hit_first,
            Policy.HIT_CAP: queues.hit_cap if bounded else NEVER,
            Policy.WRITE_BATCH: queues.batch if bounded else NEVER,
            Policy.READ_BATCH: queues.batch if bounded else 0,
            Policy.AGE_LIMIT: queues.age_limit * scale if bounded else NEVER,
            Policy.REFRESH: REFRESH_KINDS[template.refresh],
            Policy.SPLIT_WITHIN: timing.tAAD or 0,
            Policy.READ_CLOCK: timing.tCL + timing.tBL + timing.tWCKPST if timing.tWCKPST else 0,
            Policy.WRITE_CLOCK: timing.tCWL + timing.tBL + timing.tWCKPST if timing.tWCKPST else 0,
            Policy.QUEUE_PER_BANK: template.controller == "dramsim3",
            Policy.REFRESH_INTERVAL: NEVER if template.refresh == "off" else (interval or NEVER) * scale,
            Policy.INJECTION: 0 if template.injection == "one_queue" else 2 if bounded else 1,
        }
        policy = np.zeros(len(Policy), dtype=np.int64)
        for row, value in choices.items():
            policy[row] = value
        return policy

    def energy_by_command_pj(self, chips: Device, cycles: int) -> dict[str, float]:
        """Picojoules from the counts of commands, as ``docs/memory.md`` tells."""
        energy = self.template.energy
        counts, ranks = chips.counts, chips.ranks
        still_open = np.where(ranks[:, device.OPEN] > 0, cycles - ranks[:, device.SINCE], 0)
        active_seconds = int((ranks[:, device.OPEN_CYCLES] + still_open).sum()) / self.clock_hz
        all_seconds = len(ranks) * cycles / self.clock_hz
        idle_seconds = all_seconds - active_seconds
        refreshes = int(counts[Command.REF]) + int(counts[Command.REFB]) / self.banks_per_rank
        return {
            "act": float(energy.activate) * int(counts[Command.ACT]),
            "rd": float(energy.read) * self.access_bytes * int(counts[Command.RD]),
            "wr": float(energy.write) * self.access_bytes * int(counts[Command.WR]),
            "ref": float(energy.refresh) * refreshes,
            "background": 1e12
            * (float(energy.active_standby) * active_seconds + float(energy.idle_standby) * idle_seconds),
        }
