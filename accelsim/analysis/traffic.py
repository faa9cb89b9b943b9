"""Bytes that a program moves: in all, by tensor, by link."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.program.tables import ActivityKind, IntColumn, Program


class Traffic(NamedTuple):
    """Bytes read from memory by loads, and written to it by stores."""

    read_bytes: int
    write_bytes: int

    @property
    def total_bytes(self) -> int:
        """Both together."""
        return self.read_bytes + self.write_bytes


def traffic(program: Program) -> Traffic:
    """All bytes that cross the links to memory."""
    kind, size = program.activities.kind, program.activities.bytes
    return Traffic(int(size[kind == ActivityKind.LOAD].sum()), int(size[kind == ActivityKind.STORE].sum()))


def traffic_by_tensor(program: Program) -> dict[str, Traffic]:
    """Bytes of each tensor that moves, in the order of the program's tensors; an empty name gathers the unnamed."""
    return _grouped(program, program.activities.tensor, program.tensor_names)


def traffic_by_link(program: Program) -> dict[str, Traffic]:
    """Bytes over each link that moves any."""
    return _grouped(program, program.queues.resource[program.activities.queue], program.resource_names)


def _grouped(program: Program, key: IntColumn, names: tuple[str, ...]) -> dict[str, Traffic]:
    """Bytes by key; -1 comes last."""
    moved = np.zeros((len(ActivityKind), len(names) + 1), dtype=np.int64)
    np.add.at(moved, (program.activities.kind, key), program.activities.bytes)
    reads, writes = moved[ActivityKind.LOAD].tolist(), moved[ActivityKind.STORE].tolist()
    found = zip((*names, ""), reads, writes, strict=True)
    return {name: Traffic(read, written) for name, read, written in found if read or written}
