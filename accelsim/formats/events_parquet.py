"""The events of a timeline as Apache Parquet (https://parquet.apache.org), one row an event.

The columns are those of :func:`accelsim.timeline.columns.event_columns`; names are dictionary encoded, so that ten
million events take some tens of megabytes. The file's metadata hold the latency, the facts and the provenance.
"""

from __future__ import annotations

import io
import json

from accelsim.errors import MissingExtra
from accelsim.timeline.columns import event_columns
from accelsim.timeline.provenance import lasting
from accelsim.timeline.table import Timeline

_TIMES = ("start_cycles", "end_cycles", "finish_cycles", "ready_cycles")
"""Rise from row to row, so that differences take fewer bytes."""


def write_events_parquet(timeline: Timeline) -> bytes:
    """The file; equal timelines are equal bytes where the same pyarrow writes them.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtra("Parquet needs pyarrow: pip install 'accelsim[dataframe]'") from None
    columns = event_columns(timeline)
    arrays = {
        name: pyarrow.array([_storable(text) for text in values], pyarrow.string()).dictionary_encode()
        if isinstance(values, list)
        else pyarrow.array(values)
        for name, values in columns.items()
    }
    metadata = {
        "latency_cycles": str(timeline.latency_cycles),
        "facts": json.dumps(timeline.program.facts, sort_keys=True),
        "provenance": json.dumps(lasting(timeline.provenance), sort_keys=True),
    }
    file = io.BytesIO()
    parquet.write_table(
        pyarrow.table(arrays).replace_schema_metadata(metadata),
        file,
        compression="zstd",
        use_dictionary=[name for name, values in columns.items() if isinstance(values, list)],
        column_encoding=dict.fromkeys(_TIMES, "DELTA_BINARY_PACKED"),
    )
    return file.getvalue()


def _storable(text: str) -> str:
    """A name without lone surrogates, which UTF-8 does not have."""
    return text.encode(errors="replace").decode()
