"""Recorded graphs: what devices computed, loaded, stored and sent, in nodes that depend on one another.

The common form of other tools' traces (see :mod:`accelsim.formats`), and which of its nodes belong together;
:mod:`accelsim.program.lower_recorded` makes Programs of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from accelsim.errors import FormatError


class NodeKind(Enum):
    """What a node does."""

    COMPUTE = "computing"
    LOAD = "load"
    STORE = "store"
    COLLECTIVE = "collective"
    SEND = "send"
    RECEIVE = "receive"
    MARK = "marker"
    """Nothing: it only passes dependencies on."""


class RecordedNode(NamedTuple):
    """A node; what is not recorded is None, or has the default."""

    number: int
    """Its id in the file."""
    name: str
    kind: NodeKind
    parents: tuple[int, ...] = ()
    """Ids of the nodes that it depends on."""
    duration_ns: int | None = None
    bytes: int | None = None
    """Moved; of a node that computes, the operands and results that pass through memory."""
    operations: int | None = None
    """Computed; a multiply-accumulate is two."""
    on_host: bool = False
    collective: str = ""
    """A name of :data:`accelsim.program.collectives.COLLECTIVES`."""
    peer: int = -1
    """Of sends and receives the other device."""
    tag: int = 0
    group: str = ""
    """Of collectives: the name of the group of devices; empty for all."""
    track: str = ""
    """What ran it, where that is recorded: a thread, a stream. Empty for the accelerator, or the host."""


class RecordedDevice(NamedTuple):
    """What one device did."""

    rank: int
    place: str
    """The file, for messages."""
    nodes: Sequence[RecordedNode]


class RecordedGraph:
    """The nodes of all devices in one list, in the order of ranks; a row is a place in it.

    Raises:
        FormatError: an id stands twice, or a parent is missing.
    """

    def __init__(self, devices: Sequence[RecordedDevice]) -> None:
        self.devices = sorted(devices, key=lambda device: device.rank)
        self.nodes = [node for device in self.devices for node in device.nodes]
        self.device_of = [place for place, device in enumerate(self.devices) for _ in device.nodes]
        self.parents = self._resolved()

    def at(self, row: int) -> str:
        """Where a node stands, for messages."""
        node = self.nodes[row]
        return f"{self.devices[self.device_of[row]].place}: node {node.number} ({node.name[:60]!r})"

    def _resolved(self) -> list[list[int]]:
        row_of: dict[tuple[int, int], int] = {}
        for row, (node, device) in enumerate(zip(self.nodes, self.device_of, strict=True)):
            if (first := row_of.setdefault((device, node.number), row)) != row:
                raise FormatError(
                    f"{self.at(row)}: its id stands a second time, first for {self.nodes[first].name[:60]!r}"
                )
        found: list[list[int]] = []
        for row, (node, device) in enumerate(zip(self.nodes, self.device_of, strict=True)):
            for parent in node.parents:
                if (device, parent) not in row_of:
                    raise FormatError(f"{self.at(row)} depends on node {parent}, which is not in the file")
            found.append([row_of[device, parent] for parent in dict.fromkeys(node.parents)])
        return found

    def collectives(self) -> list[list[int]]:
        """For each collective operation its nodes, one a device: the n-th of a group is the same on all that name it.

        Raises:
            FormatError: devices disagree.
        """
        by_group: dict[str, list[list[int]]] = {}
        for row, node in enumerate(self.nodes):
            if node.kind is NodeKind.COLLECTIVE:
                by_group.setdefault(node.group, [[] for _ in self.devices])[self.device_of[row]].append(row)
        found = []
        for group, lists in by_group.items():
            members = [rows for rows in lists if rows or not group]
            most, least = max(members, key=len), min(members, key=len)
            if len(least) < len(most):
                lacking = self.devices[lists.index(least)].place
                raise FormatError(
                    f"{self.at(most[len(least)])} is number {len(least) + 1} of the collectives"
                    f"{f' of group {group!r}' if group else ''}, of which {lacking} has only {len(least)}"
                )
            for together in map(list, zip(*members, strict=True)):
                self._agree(together)
                found.append(together)
        return found

    def _agree(self, rows: list[int]) -> None:
        one = self.nodes[rows[0]]
        for row in rows[1:]:
            node = self.nodes[row]
            if (node.collective, node.bytes) != (one.collective, one.bytes):
                raise FormatError(
                    f"{self.at(row)} is {node.collective} of {node.bytes or 0:,} bytes, but its counterpart, "
                    f"{self.at(rows[0])}, {one.collective} of {one.bytes or 0:,}"
                )

    def messages(self) -> dict[int, int]:
        """For each receive its send: the n-th from one device to another with one tag.

        Raises:
            FormatError: one of them has no counterpart.
        """
        ends: dict[tuple[int, int, int], tuple[list[int], list[int]]] = {}
        for row, node in enumerate(self.nodes):
            own = self.devices[self.device_of[row]].rank
            if node.kind is NodeKind.SEND:
                ends.setdefault((own, node.peer, node.tag), ([], []))[0].append(row)
            elif node.kind is NodeKind.RECEIVE:
                ends.setdefault((node.peer, own, node.tag), ([], []))[1].append(row)
        found: dict[int, int] = {}
        for sent, received in ends.values():
            if len(sent) != len(received):
                both = min(len(sent), len(received))
                lone, what = (sent[both], "receive") if len(sent) > both else (received[both], "send")
                peer, tag = self.nodes[lone].peer, self.nodes[lone].tag
                raise FormatError(f"{self.at(lone)}: device {peer} has no {what} of tag {tag} that matches it")
            found |= dict(zip(received, sent, strict=True))
        return found
