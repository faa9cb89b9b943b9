"""Lowering of recorded graphs: from what devices did to a Program, on a machine or as it was recorded.

With one recording, the other devices of the link are taken to do the same at the same time: each round of a collective
is one message on the device's own link, and what it receives is there when it asks for it. With a recording for each
device every message is a transfer of its own, and a receive waits for its send.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from accelsim.errors import FormatError, InputError
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.link import Network
from accelsim.program.collectives import round_bytes, rounds
from accelsim.program.issue_order import Job, circle, issue_order
from accelsim.program.recorded import NodeKind, RecordedDevice, RecordedGraph, RecordedNode
from accelsim.program.recorded_rows import IN, LINK, RecordedRows, unit
from accelsim.program.tables import ActivityKind, Program
from accelsim.program.trace_program import MEMORY

COMMUNICATION = (NodeKind.COLLECTIVE, NodeKind.SEND, NodeKind.RECEIVE)
MEMORY_KINDS = {NodeKind.LOAD: ActivityKind.LOAD, NodeKind.STORE: ActivityKind.STORE}


def lower_recorded(
    devices: Sequence[RecordedDevice], accelerator: Accelerator | None, workload: str, notes: Sequence[str] = ()
) -> Program:
    """The Program of what the devices did; ``workload`` is what reports call it, ``notes`` what readers should know.

    On ``accelerator``, loads and stores are transfers over its path to DRAM and communication goes over its link.
    Computing takes the recorded time or, where there is none, the larger of operations / (2 * MACs in the arrays) and
    bytes / DRAM bandwidth. Without a machine every node takes its recorded time, and a cycle is a nanosecond.

    Raises:
        FormatError: nodes contradict one another: unknown parents, circles, messages without a counterpart.
        InputError: the machine lacks what the recording needs, or the recording lacks what takes the place of one.
    """
    graph = RecordedGraph(devices)
    if accelerator is None:
        _refuse_without_time(graph)
    network = _network(graph, accelerator)
    return _Lowering(graph, accelerator, network).program(workload, notes)


def _refuse_without_time(graph: RecordedGraph) -> None:
    for row, node in enumerate(graph.nodes):
        if not node.duration_ns and (node.operations or (node.kind in (*MEMORY_KINDS, *COMMUNICATION) and node.bytes)):
            raise InputError(
                f"{graph.at(row)}: the trace does not say how long this {node.kind.value} takes; give the machine that "
                "it runs on with --hardware"
            )


def _network(graph: RecordedGraph, accelerator: Accelerator | None) -> Network | None:
    """The link that communication goes over; None where nothing needs one, or there is no machine."""
    first = next((row for row, node in enumerate(graph.nodes) if node.kind in COMMUNICATION), None)
    if accelerator is None or first is None:
        return None
    network = accelerator.link
    if network is None:
        raise InputError(
            f"{graph.at(first)} communicates, but {accelerator.name} has no link to other accelerators; give it one "
            "with --set link.devices=8 --set 'link.bandwidth=50 GB/s', or by a section 'link' in its template"
        )
    ranks = [device.rank for device in graph.devices]
    if len(ranks) > 1 and ranks != list(range(network.devices)):
        raise InputError(
            f"{graph.devices[0].place}: recorded are the devices {', '.join(map(str, ranks[:9]))}"
            f"{' …' if len(ranks) > 9 else ''}, but the link joins devices 0 to {network.devices - 1}; give a trace "
            f"for each of them (or --set link.devices={len(ranks)}), or one that stands for all"
        )
    for row, node in enumerate(graph.nodes):
        if node.kind in (NodeKind.SEND, NodeKind.RECEIVE) and not 0 <= node.peer < network.devices:
            raise InputError(
                f"{graph.at(row)}: its peer is device {node.peer}, the link joins devices 0 to {network.devices - 1}"
            )
    return network


class _Lowering:
    """From jobs, which are issued as one, to rows of activities."""

    def __init__(self, graph: RecordedGraph, accelerator: Accelerator | None, network: Network | None) -> None:
        self.graph, self.accelerator, self.network = graph, accelerator, network
        self.several = len(graph.devices) > 1 and network is not None
        self.members = {row: rows for rows in graph.collectives() for row in rows} if self.several else {}
        self.send_of = graph.messages() if self.several else {}
        self.rows = RecordedRows(graph, accelerator)
        self.last: list[tuple[int, ...]] = [()] * len(graph.nodes)
        """For each node the activities that whoever depends on it waits for."""
        self.arrived: dict[int, tuple[int, ...]] = {}
        """The same for whoever receives what it sent."""

    def program(self, workload: str, notes: Sequence[str]) -> Program:
        """All jobs, in the order of issue."""
        jobs, nodes_of = self.jobs()
        order = issue_order(jobs)
        if len(order) < len(jobs):
            self._refuse_circle([nodes_of[job][0] for job in circle(jobs, set(range(len(jobs))) - set(order))])
        for job in order:
            self.add(nodes_of[job])
        return self.rows.program(workload, [*notes, *self.notes()])

    def _refuse_circle(self, ring: list[int]) -> NoReturn:
        """``ring``: nodes each of which waits for the next one."""
        others = [f"node {self.graph.nodes[row].number} ({self.graph.nodes[row].name[:60]!r})" for row in ring[1:]]
        if self.several:
            others = [self.graph.at(row) for row in ring[1:]]
        if len(others) > 5:
            others[5:] = ["others"]
        waits = ", which waits for ".join([*others, "the first" if others else "itself"])
        raise FormatError(f"{self.graph.at(ring[0])} waits for {waits}: nodes wait for each other")

    def jobs(self) -> tuple[list[Job], list[list[int]]]:
        """What is issued as one, and its nodes."""
        nodes_of: list[list[int]] = []
        job_of = [-1] * len(self.graph.nodes)
        for row in range(len(job_of)):
            if job_of[row] < 0:
                for other in self.members.get(row, [row]):
                    job_of[other] = len(nodes_of)
                nodes_of.append(self.members.get(row, [row]))
        jobs = []
        for rows in nodes_of:
            parents = {job_of[parent] for row in rows for parent in self.graph.parents[row]}
            parents |= {job_of[self.send_of[row]] for row in rows if row in self.send_of}
            jobs.append(Job(*self.estimate(rows), tuple(sorted(parents))))
        return jobs, nodes_of

    def kind(self, row: int) -> NodeKind:
        """What a node is here: without a machine, memory and communication are tiles of recorded length."""
        kind = self.graph.nodes[row].kind
        if row in self.send_of or (self.network is not None and self.network.devices == 1 and kind in COMMUNICATION):
            return NodeKind.MARK
        lacking = (kind in COMMUNICATION and self.network is None) or (kind in MEMORY_KINDS and not self.accelerator)
        return NodeKind.COMPUTE if lacking else kind

    def estimate(self, rows: list[int]) -> tuple[tuple[int, ...], int]:
        """The resources of a job, and its time on idle ones, which decides the order only."""
        node, device, kind = self.graph.nodes[rows[0]], self.graph.device_of[rows[0]], self.kind(rows[0])
        if kind is NodeKind.MARK:
            return (), 0
        if kind is NodeKind.COMPUTE:
            return (self.rows.resource(unit(node), device),), self.rows.tile_cycles(node)
        if kind is NodeKind.COLLECTIVE:
            cycles = sum(self.rows.transfer_cycles(LINK, size) for size in self.round_bytes(rows))
            return tuple(sorted(self.rows.resource(LINK, self.graph.device_of[row]) for row in rows)), cycles
        name = IN if kind is NodeKind.RECEIVE else LINK if kind is NodeKind.SEND else MEMORY
        return (self.rows.resource(name, device),), self.rows.transfer_cycles(name, node.bytes or 0)

    def round_bytes(self, rows: list[int]) -> list[int]:
        """The bytes of a message in each round of a collective."""
        assert self.network is not None
        node, members = self.graph.nodes[rows[0]], len(rows) if self.several else self.network.devices
        return round_bytes(node.collective, members, node.bytes or 0, direct=self.network.topology == "switch")

    def add(self, rows: list[int]) -> None:
        """The activities of a job; all that it waits for has been added."""
        row, before = rows[0], self.before(rows[0])
        node, device, kind = self.graph.nodes[row], self.graph.device_of[row], self.kind(row)
        if kind is NodeKind.MARK:
            self.last[row] = self.arrived[row] = before
        elif kind is NodeKind.COMPUTE:
            self.last[row] = (self.rows.tile(unit(node), device, node, before),)
        elif kind in MEMORY_KINDS:
            self.last[row] = (self.rows.transfer(MEMORY, device, MEMORY_KINDS[kind], node, node.bytes or 0, before),)
        elif kind is NodeKind.RECEIVE:
            self.last[row] = (self.rows.transfer(IN, device, ActivityKind.SEND, node, node.bytes or 0, before),)
        elif kind is NodeKind.SEND:
            self.last[row], self.arrived[row] = self.add_message(node, device, node.peer, node.bytes or 0, before)
        elif self.several:
            self.add_collective(rows)
        else:
            for size in self.round_bytes(rows):
                before = (self.rows.transfer(LINK, device, ActivityKind.SEND, node, size, before),)
            self.last[row] = before

    def add_collective(self, rows: list[int]) -> None:
        """Every message of every round; a member waits with its first for what its node depends on."""
        assert self.network is not None
        node, devices = self.graph.nodes[rows[0]], [self.graph.device_of[row] for row in rows]
        before = [self.before(row) for row in rows]
        fresh = set(range(len(rows)))
        for messages in rounds(node.collective, len(rows), node.bytes or 0, direct=self.network.topology == "switch"):
            arrived: dict[int, tuple[int, ...]] = {}
            for source, to, size in messages:
                waits = before[source] + (before[to] if to in fresh else ())
                _, message = self.add_message(node, devices[source], devices[to], size, waits)
                for member in (source, to):
                    arrived[member] = arrived.get(member, ()) + message
            for member, message in arrived.items():
                before[member] = message
            fresh.difference_update(arrived)
        for row, waits in zip(rows, before, strict=True):
            self.last[row] = waits

    def add_message(
        self, node: RecordedNode, source: int, to: int, size_bytes: int, before: tuple[int, ...]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """A message between two devices, passed on by those between; the activities of its first hop and of its last.

        Where one recording stands for all devices, only the first hop is on a link of its own.
        """
        assert self.network is not None
        first = before
        for hop in range(self.network.hops(source, to) if self.several else 1):
            through = (source + hop) % self.network.devices
            before = (self.rows.transfer(LINK, through, ActivityKind.SEND, node, size_bytes, before),)
            first = first if hop else before
        return first, before

    def before(self, row: int) -> tuple[int, ...]:
        """The activities that a node waits for."""
        waits = [activity for parent in self.graph.parents[row] for activity in self.last[parent]]
        if row in self.send_of:
            waits += self.arrived[self.send_of[row]]
        return tuple(dict.fromkeys(waits))

    def notes(self) -> list[str]:
        """What the recording does not say, and what was done about it."""
        notes = []
        nodes = self.graph.nodes
        computing = [node for node in nodes if node.kind is NodeKind.COMPUTE]
        without = [node for node in computing if not node.duration_ns and not node.operations and not node.bytes]
        if without:
            notes.append(
                f"{len(without):,} of {len(computing):,} nodes that compute tell neither a duration nor operations; "
                f"they take no time (the first is {without[0].name[:60]!r})"
            )
        if self.accelerator and (kept := sum(1 for node in computing if node.duration_ns)):
            notes.append(f"{kept:,} of {len(computing):,} nodes that compute keep the time that was recorded")
        if self.accelerator and computing:
            notes.append("the trace does not tell the energy of computing; it is not counted")
        if self.several and self.accelerator and self.accelerator.dram.memory is not None:
            notes.append("the memory of each device is taken as a link without banks")
        if self.network is not None and not self.several:
            groups = ", and every group is taken to be all of them" if any(node.group for node in nodes) else ""
            notes.append(f"one trace stands for all {self.network.devices} devices of the link{groups}")
        return notes
