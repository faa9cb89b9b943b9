"""Where a timeline came from: what one needs to make the same one again, and nothing that differs from run to run.

No host names or times of day, and of paths only the workload's, as the command named it. The two durations of
:data:`MEASURED` are kept while the timeline is in memory, for reports; files leave them out, so that equal runs are
equal bytes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
from importlib import import_module

import numpy as np

from accelsim.program.tables import Program
from accelsim.timeline.table import Timeline

MEASURED = ("search_seconds", "simulate_seconds")
TABLES = ("resources", "queues", "activities", "dependencies", "claims", "releases", "buffers")


def with_provenance(timeline: Timeline, **facts: object) -> Timeline:
    """The same timeline with its provenance completed.

    ``facts`` are what the caller knows: ``scheduler``, ``seed``, ``objective``, ``search_seconds`` … Versions, the
    digests of workload and hardware (where the program carries them) and that of the program are added.
    """
    program = timeline.program
    known: dict[str, object] = {
        # The package itself: a static import would draw all layers into this one.
        "accelsim": import_module("accelsim").__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    digests = ("workload_digest", "hardware_digest")
    known.update((name, program.facts[name]) for name in digests if name in program.facts)
    known["program_digest"] = program_digest(program)
    return dataclasses.replace(timeline, provenance={**known, **timeline.provenance, **facts})


def lasting(provenance: dict[str, object]) -> dict[str, object]:
    """A provenance without the durations that were measured."""
    return {name: value for name, value in provenance.items() if name not in MEASURED}


def program_digest(program: Program) -> str:
    """SHA-256 over every row, name and number of a program: equal digests run alike."""
    digest = hashlib.sha256()
    for name in TABLES:
        table = getattr(program, name)
        for column, values in zip(table._fields, table, strict=True):
            digest.update(f"{name}.{column} {len(values)}\n".encode())
            digest.update(np.ascontiguousarray(values, dtype="<i8").data)
    own = ((program.operator_macs, "<i8"), (program.operator_vector_ops, "<i8"))
    for values, kind in ((program.energy_pj, "<f8"), (program.shapes, "<i8"), *own):
        digest.update(f"{values.shape}\n".encode())
        digest.update(np.ascontiguousarray(values, dtype=kind).data)
    names = [
        getattr(program, f"{what}_names") for what in ("resource", "queue", "buffer", "operator", "tensor", "part")
    ]
    rest = [*names, program.static_pj_per_cycle, dict(sorted(program.facts.items()))]
    if program.memory is not None:
        rest.append(program.memory.facts())
        for values in program.memory.placement:
            digest.update(np.ascontiguousarray(values, dtype="<i8").data)
    digest.update(json.dumps(rest).encode())
    return digest.hexdigest()
