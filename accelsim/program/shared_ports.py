"""Buffer ports that transfers pass, too: which port, and for how long each tile needs it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.dataflow.dataflow import TileColumns
from accelsim.program.tables import IntColumn, Program, ResourceKind


def with_shared_ports(program: Program, accelerator: Accelerator) -> Program:
    """The program with the ports that ``buffers.global.ports.dma: shared`` says transfers and tiles share.

    A core is that of the tenant whose transfers they are, or the only one; with more cores nobody knows, and none is.
    """
    shared = accelerator.transfers_pass_port
    resources, queues, activities = program.resources, program.queues, program.activities
    if not shared and not activities.port_cycles.any() and (queues.port < 0).all():
        return program
    rate = accelerator.buffers["global"].read_bytes_per_cycle if shared else None
    core = resources.kind == ResourceKind.CORE
    numerator, denominator = resources.bytes_numerator.copy(), resources.bytes_denominator.copy()
    numerator[core], denominator[core] = (rate.numerator, rate.denominator) if rate else (0, 1)
    cycles = np.zeros(program.size, dtype=np.int64)
    known = activities.shape >= 0
    if shared and known.any():
        use = accelerator.dataflow.port_use(TileColumns(*np.ascontiguousarray(program.shapes.T)))
        if use is not None:
            cycles[known] = use.cycles[activities.shape[known]]
    return replace(
        program,
        resources=resources._replace(bytes_numerator=numerator, bytes_denominator=denominator),
        queues=queues._replace(port=_cores_of_links(program) if shared else np.full(len(queues.port), -1)),
        activities=activities._replace(port_cycles=cycles),
    )


def _cores_of_links(program: Program) -> IntColumn:
    """For each queue of a link the core of its tenant, or the only one; else -1."""
    queues = program.queues
    core = (program.resources.kind == ResourceKind.CORE)[queues.resource]
    ports = np.full(len(core), -1)
    for row in np.flatnonzero(~core).tolist():
        cores = np.unique(queues.resource[core & (queues.tenant == queues.tenant[row])])
        if len(cores) == 1:
            ports[row] = cores[0]
    return ports
