"""Traces in JSON: which tool wrote one is told by what stands in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from accelsim.errors import FormatError, InputError
from accelsim.formats.chakra import chakra_program
from accelsim.formats.kineto import kineto_program
from accelsim.formats.pytorch_execution_trace import execution_trace_program
from accelsim.formats.trace_file import json_values, unpacked
from accelsim.hardware.accelerator import Accelerator
from accelsim.program.tables import Program


def read_json_trace(
    path: str | Path, accelerator: Accelerator | None = None, times: str | Path | None = None
) -> Program:
    """Reads ``.json`` or ``.json.gz`` of PyTorch's profiler, PyTorch's execution traces, or Chakra.

    ``times`` is the profiler's trace of the same run, for an execution trace.

    Raises:
        FormatError: it cannot be read, is none of them, or contradicts itself.
        InputError: the machine lacks what the trace needs, or there is none and the trace does not tell all times.
    """
    path = Path(path)
    values = json_values(unpacked(path), str(path))
    first = values[0] if values else None
    if len(values) == 1 and isinstance(first, dict) and "nodes" in first and "workload_graph" not in first:
        return execution_trace_program(first, path, accelerator, times)
    if times is not None:
        raise InputError(f"{path}: --times is for execution traces of PyTorch, this is none")
    if len(values) == 1 and _is_kineto(first):
        return kineto_program(first, path)
    if len(values) > 1 or isinstance(first, list) or (isinstance(first, dict) and "workload_graph" in first):
        return chakra_program(values, path, accelerator)
    raise FormatError(
        f"{path}: is JSON, but no trace that can be replayed: not of PyTorch's profiler (a list 'traceEvents'), nor a "
        "PyTorch execution trace ('nodes'), nor Chakra's ('workload_graph', or one node after another)"
    )


def _is_kineto(value: Any) -> bool:
    if isinstance(value, dict):
        return "traceEvents" in value
    return isinstance(value, list) and any(isinstance(event, dict) and "ph" in event for event in value[:100])
