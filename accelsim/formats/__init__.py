"""File formats, one file each. A format of workloads is a line here: its suffix, and module and name of its reader.

The modules are imported when first used, because some parsers are heavy.
"""

from __future__ import annotations

WORKLOAD_READERS: dict[str, tuple[str, str]] = {
    ".json": ("accelsim.formats.layer_list", "read_layer_list"),
    ".yaml": ("accelsim.formats.workload_yaml", "read_workload_yaml"),
    ".yml": ("accelsim.formats.workload_yaml", "read_workload_yaml"),
}
