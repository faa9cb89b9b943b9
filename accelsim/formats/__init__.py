"""File formats, one file each. A format of workloads is a line here: how its files' names end (the longest that fits
counts), and module and name of its reader; so is a format that timelines are exported to: its name, module and name of
its writer, and a sentence about it.

The modules are imported when first used, because some parsers are heavy.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from accelsim.errors import UnknownName
from accelsim.files import write_whole
from accelsim.formats.timeline_npz import load_timeline, save_timeline
from accelsim.units import did_you_mean

if TYPE_CHECKING:
    from accelsim.timeline.table import Timeline

__all__ = [
    "FORMATS",
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
    ".onnx": ("accelsim.formats.onnx_reader", "read_onnx"),
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
        "JSON trace events, for chrome://tracing and other viewers",
    ),
    "csv": ("accelsim.formats.events_csv", "write_events_csv", "one line an event, for spreadsheets and scripts"),
    "parquet": (
        "accelsim.formats.events_parquet",
        "write_events_parquet",
        "one row an event, for data frames and DuckDB; needs the extra 'dataframe'",
    ),
}

TRACE_READERS: dict[str, tuple[str, str]] = {
    ".json": ("accelsim.formats.kineto", "read_kineto"),
    ".json.gz": ("accelsim.formats.kineto", "read_kineto"),
}
"""Other tools' traces, besides our own ``timeline.npz``: suffix to module and function that reads a Program."""

FORMATS: dict[str, str] = {name: text for name, (_, _, text) in TIMELINE_WRITERS.items()}
"""What timelines are exported to, with a sentence about each."""


def load_trace(path: str | Path, events: bool = True) -> Timeline:
    """Reads what can be replayed: our own timelines, and by their suffix other tools' traces (``TRACE_READERS``).

    The timeline of another tool's trace is that of its program, simulated. Without ``events`` that is left out, and
    those of our own files are not read: for who runs the trace again.

    Raises:
        FormatError: it cannot be read, or is not what its suffix says.
    """
    for suffix, (module, function) in TRACE_READERS.items():
        if Path(path).name.endswith(suffix):
            from accelsim.engine import simulate
            from accelsim.timeline.table import Timeline, no_events

            program = getattr(import_module(module), function)(path)
            return simulate(program) if events else Timeline(no_events(), program, "compiled")
    return load_timeline(path, events)


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
