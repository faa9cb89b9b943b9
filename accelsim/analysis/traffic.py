"""Bytes that a program moves: in all, and by tensor."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accelsim.program.tables import ActivityKind, Program


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
    names = (*program.tensor_names, "")  # -1 is the last
    moved = np.zeros((len(ActivityKind), len(names)), dtype=np.int64)
    np.add.at(moved, (program.activities.kind, program.activities.tensor), program.activities.bytes)
    found = zip(names, moved[ActivityKind.LOAD].tolist(), moved[ActivityKind.STORE].tolist(), strict=True)
    return {name: Traffic(read, written) for name, read, written in found if read or written}
