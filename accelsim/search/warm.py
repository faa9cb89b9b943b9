"""Compiles the search's kernels before its time begins to count."""

from __future__ import annotations

import numpy as np

from accelsim.hardware.accelerator import Accelerator
from accelsim.search.anneal_fusion import FusionParameters
from accelsim.search.choice import Choice, next_wanted
from accelsim.search.objective import Objective
from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.operator import Operand, Source
from accelsim.workload.operators import Conv2d
from accelsim.workload.tensor import Tensor

_done: set[str] = set()
"""Digests of the accelerators whose kernels are compiled."""


def compile_kernels(accelerator: Accelerator) -> None:
    """Runs both stages once, on two operators of one element."""
    from accelsim.search.session import Session

    if accelerator.digest in _done:
        return
    _done.add(accelerator.digest)
    operators, producer = [], "input"
    for name in ("first", "second"):
        weight = Tensor(f"{name}.weight", (1, 1, 1, 1))
        operators.append(Conv2d(name, (Operand((Source(producer),), (1, 1, 1)),), Tensor(name, (1, 1, 1)), (weight,)))
        producer = name
    workload = Workload("warm", tuple(operators), (Tensor("input", (1, 1, 1)),), tile_rule=TileRule.SOMA)
    session = Session(workload, accelerator, Objective(), None, warm=False)
    choice = Choice(np.arange(2), np.full(2, 2), np.ones(2, dtype=np.int64))
    next_wanted(choice, session.store, 0)
    for horizons in ((-1, -1), (1, 2)):
        parameters = FusionParameters(2, session.capacity_bytes, urgent_positions=horizons)
        session.anneal_fusion(choice, parameters, 0)
    session.anneal_dram(session.dram_problem(session.schedule(choice)), 2, 0)
