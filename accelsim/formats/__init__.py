"""File formats, a file or a folder each. A format of workloads is a line here: how its files' names end (the longest
that fits counts), and module and name of its reader; so is a format that timelines are exported to: its name, module
and name of its writer, and a sentence about it.

The modules are imported when first used, because some parsers are heavy.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.errors import InputError, UnknownName
from accelsim.files import write_whole
from accelsim.formats.timeline_npz import load_timeline, save_timeline
from accelsim.units import did_you_mean

if TYPE_CHECKING:
    from accelsim.hardware.accelerator import Accelerator
    from accelsim.timeline.table import Timeline

__all__ = [
    "FORMATS",
    "READ_FORMATS",
    "TRACE_READERS",
    "WORKLOAD_READERS",
    "export_timeline",
    "load_timeline",
    "load_trace",
    "save_timeline",
]

WORKLOAD_READERS: dict[str, tuple[str, str]] = {
    "config.json": ("accelsim.formats.hf_config", "read_hf_config"),
    ".csv": ("accelsim.formats.scalesim_topology", "read_scalesim_topology"),
    ".json": ("accelsim.formats.layer_list", "read_layer_list"),
    ".onnx": ("accelsim.formats.onnx.reader", "read_onnx"),
    ".yaml": ("accelsim.formats.workload_yaml", "read_workload_yaml"),
    ".yml": ("accelsim.formats.workload_yaml", "read_workload_yaml"),
}

TIMELINE_WRITERS: dict[str, tuple[str, str, str]] = {
    "perfetto": (
        "accelsim.formats.perfetto",
        "write_perfetto",
        "protobuf for ui.perfetto.dev: a track for each queue, counters, an arrow from each cause to what it let start",
    ),
    "chrome": (
        "accelsim.formats.chrome_json",
        "write_chrome_json",
        "JSON trace events, for chrome://tracing and other viewers: threads and arrows as above",
    ),
    "csv": ("accelsim.formats.events_csv", "write_events_csv", "one line an event, for spreadsheets and scripts"),
    "parquet": (
        "accelsim.formats.events_parquet",
        "write_events_parquet",
        "one row an event, for data frames and DuckDB; needs the extra 'dataframe'",
    ),
}

TRACE_READERS: dict[str, tuple[str, str]] = {
    ".et": ("accelsim.formats.chakra", "read_chakra"),
    ".et.gz": ("accelsim.formats.chakra", "read_chakra"),
    ".json": ("accelsim.formats.json_trace", "read_json_trace"),
    ".json.gz": ("accelsim.formats.json_trace", "read_json_trace"),
    ".csv": ("accelsim.formats.request_trace", "read_request_trace"),
    ".trace": ("accelsim.formats.request_trace", "read_request_trace"),
    ".txt": ("accelsim.formats.request_trace", "read_request_trace"),
}
"""Other tools' traces, besides our own ``timeline.npz``: suffix to module and function that reads a Program, given the
path, the accelerator that it is to run on or None, and a profiler's trace of the same run or None."""

READ_FORMATS: dict[str, str] = {
    "timeline": "timeline.npz of accelsim run and replay",
    "chakra": "execution traces of MLCommons' Chakra (.et, .et.gz, .json, .json.gz; a folder: one file a device)",
    "pytorch": "execution traces of PyTorch's observer (.json, .json.gz)",
    "kineto": "traces of PyTorch's profiler (.json, .json.gz)",
    "requests": "memory requests: LoadStore, DRAMsim3, or a table with a header (.trace, .txt, .csv)",
    "scalesim": "DRAM traces of SCALE-Sim (.csv)",
}
"""What is replayed, with a sentence about each."""

FORMATS: dict[str, str] = {name: text for name, (_, _, text) in TIMELINE_WRITERS.items()}
"""What timelines are exported to, with a sentence about each."""


def load_trace(
    path: str | Path, accelerator: Accelerator | None = None, *, times: str | Path | None = None, events: bool = True
) -> Timeline:
    """Reads what can be replayed: our own timelines, and by their suffix other tools' traces (``TRACE_READERS``).

    The timeline of another tool's trace is that of its program, simulated. Without ``events`` that is left out, and
    those of our own files are not read: for who runs the trace again.

    Args:
        path: the trace; a folder for Chakra traces of several devices, or that ``accelsim run --out`` has filled.
        accelerator: what another tool's trace runs on, where it does not tell all times itself.
        times: for an execution trace of PyTorch, the profiler's trace of the same run, which tells its times.
        events: whether they are wanted.

    Raises:
        FormatError: it cannot be read, or is not what its suffix says.
        InputError: the accelerator lacks what the trace needs, or is itself needed.
    """
    path = Path(path)
    if (path / "timeline.npz").is_file():  # the folder of a run
        path /= "timeline.npz"
    readers = (reader for suffix, reader in TRACE_READERS.items() if path.name.endswith(suffix))
    reader = TRACE_READERS[".et"] if path.is_dir() else next(readers, None)
    if reader is None:
        if times is not None:
            raise InputError(f"{path}: is a timeline, which tells its times itself; give none for it")
        return load_timeline(path, events)
    from accelsim.engine import simulate
    from accelsim.timeline.provenance import with_provenance
    from accelsim.timeline.table import Timeline, no_events

    program = getattr(import_module(reader[0]), reader[1])(path, accelerator, times)
    timeline = simulate(program) if events else Timeline(no_events(), program, "compiled")
    if accelerator is None or program.facts.get("hardware_digest") != accelerator.digest:
        return timeline
    return with_provenance(timeline, hardware_template=accelerator.source)


def export_timeline(timeline: Timeline, path: str | Path, format_name: str) -> None:
    """Writes a timeline in another tool's format, whole or not at all.

    Raises:
        UnknownName: there is no such format.
        InputError: the file cannot be written.
    """
    if format_name not in TIMELINE_WRITERS:
        raise UnknownName(
            f"no format '{format_name}'{did_you_mean(format_name, TIMELINE_WRITERS)}; "
            f"there are {', '.join(TIMELINE_WRITERS)}"
        )
    module, function, _ = TIMELINE_WRITERS[format_name]
    write_whole(Path(path), getattr(import_module(module), function)(timeline))
