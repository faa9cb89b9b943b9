"""The tables of a Program, filled row by row while a recorded graph is lowered."""

from __future__ import annotations

import numpy as np

from accelsim.errors import InputError
from accelsim.hardware.accelerator import Accelerator
from accelsim.program.memory_plan import with_memory
from accelsim.program.recorded import NodeKind, RecordedGraph, RecordedNode
from accelsim.program.tables import ActivityKind, DependencyTable, Program
from accelsim.program.trace_program import MEMORY, TraceRows, trace_program

CORE, HOST, LINK, IN = "core", "host", "link", "link in"
"""Resources; with several devices the rank stands behind the name. ``link in`` brings what one device receives."""
MOST_ACTIVITIES = 20_000_000
MOST_DEPENDENCIES = 100_000_000


def unit(node: RecordedNode) -> str:
    """The resource that runs a node as a tile: its track, the accelerator or its host; ``memory`` and ``network`` where
    no machine says how long moving bytes takes."""
    if node.kind in (NodeKind.LOAD, NodeKind.STORE):
        return "memory"
    if node.kind is not NodeKind.COMPUTE:
        return "network"
    return node.track or (HOST if node.on_host else CORE)


class RecordedRows:
    """Activities and their dependencies, and the resources that serve them."""

    def __init__(self, graph: RecordedGraph, accelerator: Accelerator | None) -> None:
        self.accelerator = accelerator
        self.ranks = [device.rank for device in graph.devices]
        self.resources: dict[tuple[str, int], int] = {}
        self.activities: list[tuple[int, ...]] = []
        """The columns of :class:`TraceRows`."""
        self.before: list[int] = []
        self.after: list[int] = []
        self.operators: dict[str, int] = {}
        self.tiles: list[int] = []
        """Activities of each operator so far."""

    def resource(self, name: str, device: int) -> int:
        """The row of a device's resource; a new one where it has none of that name."""
        return self.resources.setdefault((name, device), len(self.resources))

    def _clock_hz(self) -> int:
        return self.accelerator.clock_hz if self.accelerator else 10**9

    def tile_cycles(self, node: RecordedNode) -> int:
        """What is recorded, in cycles rounded up; else what its operations, and its bytes of memory, take."""
        if node.duration_ns:
            return -(-node.duration_ns * self._clock_hz() // 10**9)
        if self.accelerator is None or not (node.operations or node.bytes):
            return 0
        computing = -(-(node.operations or 0) // (2 * self.accelerator.macs_per_cycle))
        return max(computing, self.transfer_cycles(MEMORY, node.bytes or 0) - self.accelerator.dram.latency_cycles)

    def transfer_cycles(self, name: str, size_bytes: int) -> int:
        """From the start of a transfer on an idle link to its finish."""
        assert self.accelerator is not None
        link = self.accelerator.dram if name == MEMORY else self.accelerator.link
        assert link is not None
        rate = link.bytes_per_cycle
        return -(-size_bytes * rate.denominator // rate.numerator) + link.latency_cycles

    def tile(self, name: str, device: int, node: RecordedNode, before: tuple[int, ...]) -> int:
        """A node as a tile; returns its row."""
        macs = -(-(node.operations or 0) // 2)
        return self._add(name, device, ActivityKind.TILE, node, self.tile_cycles(node), 0, macs, before)

    def transfer(
        self, name: str, device: int, kind: ActivityKind, node: RecordedNode, size_bytes: int, before: tuple[int, ...]
    ) -> int:
        """A transfer that a node makes; returns its row."""
        return self._add(name, device, kind, node, 0, size_bytes, 0, before)

    def _add(
        self,
        name: str,
        device: int,
        kind: ActivityKind,
        node: RecordedNode,
        cycles: int,
        size_bytes: int,
        macs: int,
        before: tuple[int, ...],
    ) -> int:
        row = len(self.activities)
        if row >= MOST_ACTIVITIES or len(self.before) + len(before) > MOST_DEPENDENCIES:
            raise InputError(
                f"the trace comes to more than {MOST_ACTIVITIES:,} tiles and messages, or {MOST_DEPENDENCIES:,} "
                "dependencies; take fewer devices, or a part of the trace"
            )
        operator = self.operators.setdefault(node.name, len(self.operators))
        if operator == len(self.tiles):
            self.tiles.append(0)
        resource = self.resource(name, device)
        self.activities.append((resource, kind, cycles, size_bytes, operator, self.tiles[operator], macs))
        self.tiles[operator] += 1
        self.before.extend(before)
        self.after.extend([row] * len(before))
        return row

    def program(self, workload: str, notes: list[str]) -> Program:
        """The Program of all that was added: a queue for each resource, served in the order of rows."""
        machine, several = self.accelerator, len(self.ranks) > 1
        links = {MEMORY: machine.dram, LINK: machine.link, IN: machine.link} if machine else {}
        program = trace_program(
            workload,
            TraceRows(*np.array(self.activities, dtype=np.int64).reshape(-1, len(TraceRows._fields)).T),
            DependencyTable(np.array(self.before, dtype=np.int64), np.array(self.after, dtype=np.int64)),
            tuple(self.operators),
            [(f"{name} {self.ranks[device]}" if several else name, links.get(name)) for name, device in self.resources],
            machine,
            clock_hz=self._clock_hz(),
            devices=len(self.ranks),
            notes=notes,
        )
        if machine is None or several or (MEMORY, 0) not in self.resources:
            return program
        return with_memory(program, machine, self.resources[MEMORY, 0])
