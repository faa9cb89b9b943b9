"""SCALE-Sim's configuration files (``.cfg``) as hardware.

A file has array, buffers, dataflow and bandwidth; clock, vector unit and energies, which SCALE-Sim does not know, come
from a template, and so does what a file leaves out. The three buffers become one; a word is one byte, a kB 1024 bytes;
the one DRAM link has ``Bandwidth``. Cycles are counted as the hardware needs them; ``pe_array.counting=scalesim``
counts as SCALE-Sim does. Addresses, request queues, layouts and seeds are read and play no part. Keys are read as
Python's ``configparser`` reads them: upper and lower case are the same, and so are ``:`` and ``=``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from accelsim.errors import FormatError
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.template import LARGEST_FILE_BYTES, parse_template
from accelsim.units import did_you_mean, format_bytes
from accelsim.yaml_source import read_text
from accelsim.yaml_tree import with_values

LARGEST = {"ArrayHeight": 1 << 16, "ArrayWidth": 1 << 16, "Bandwidth": 1 << 32}
LARGEST_BUFFER_KB = 1 << 32
DATAFLOWS = {"os": "output_stationary", "ws": "weight_stationary", "is": "input_stationary"}
BUFFERS = ("IfmapSramSzkB", "FilterSramSzkB", "OfmapSramSzkB")
USED = ("ArrayHeight", "ArrayWidth", *BUFFERS, "Dataflow", "Bandwidth")
SECTIONS: dict[str, tuple[str, ...]] = {
    "general": ("run_name",),
    "architecture_presets": (
        *USED,
        *("IfmapOffset", "FilterOffset", "OfmapOffset", "ReadRequestBuffer", "WriteRequestBuffer"),
        *("MemoryBanks", "OnChipMemoryBanks", "OnChipMemoryBankPorts"),
    ),
    "layout": tuple(
        f"{operand}{what}"
        for operand in ("Ifmap", "Filter")
        for what in ("CustomLayout", "SRAMBankBandwidth", "SRAMBankNum", "SRAMBankPort")
    ),
    "sparsity": ("SparsitySupport", "SparseRep", "OptimizedMapping", "BlockSize", "RandomNumberGeneratorSeed"),
    "run_presets": ("InterfaceBandwidth", "UseRamulatorTrace"),
}
"""The keys of SCALE-Sim v3.0.0, by section."""
KEYS = {key.lower(): key for keys in SECTIONS.values() for key in keys}
OLDER_KEYS = {"ifmapsramsz": "IfmapSramSzkB", "filtersramsz": "FilterSramSzkB", "ofmapsramsz": "OfmapSramSzkB"}
"""The names of SCALE-Sim v1, in kB too (its ``run_nets.py`` multiplies them by 1024)."""
LEFT_OUT = {
    "UseRamulatorTrace": "DRAM is a link here; 'accelsim memory' runs traces through a bank-level model",
    "IfmapCustomLayout": "buffers have no layout here",
    "FilterCustomLayout": "buffers have no layout here",
}
"""Switches that are noted where a file turns them on, and why they are left out."""


def read_scalesim_config(path: str | Path, template: str, overrides: Sequence[str] = ()) -> Accelerator:
    """Reads a configuration file; ``template`` is the text of the template that gives what it does not have.

    ``overrides``, and the errors that they may raise, are those of
    :func:`accelsim.hardware.template.parse_template`. What was taken from the template, and what is not known here, is
    said in the accelerator's ``notes``.

    Raises :class:`FormatError` with every line that cannot be understood, as ``file:line: what is wrong``.
    """
    path = Path(path)
    return parse_scalesim_config(read_text(path, FormatError, LARGEST_FILE_BYTES), str(path), template, overrides)


def parse_scalesim_config(text: str, place: str, template: str, overrides: Sequence[str] = ()) -> Accelerator:
    """As :func:`read_scalesim_config`, from the text itself; ``place`` is what messages call it."""
    config = _Config(text)
    defaults = parse_template(template)
    sizes = {key: config.size(key) for key in (*LARGEST, *BUFFERS)}
    dataflow = config.choice("Dataflow", DATAFLOWS)
    interface = config.choice("InterfaceBandwidth", {"calc": "CALC", "user": "USER"})
    sparse = config.is_on("SparsitySupport")
    if sparse and config.is_on("OptimizedMapping"):
        config.mistake(
            "OptimizedMapping", "row-wise sparsity, whose ratios are drawn at random, is not simulated; set it to false"
        )
    if config.mistakes:
        raise FormatError("\n".join(f"{place}:{line}: {words}" for line, words in sorted(config.mistakes)[:20]))

    bare = re.sub(r"(?m)^\s*#.*\n|\s+#.*$", "", template)  # its comments give the sources of other numbers
    name = re.sub(r"[^A-Za-z0-9_.\-]", "_", (config.text("run_name") or "").strip("'\"") or Path(place).stem)[:64]
    values: dict[tuple[str, ...], object] = {("name",): name, ("description",): "after a SCALE-Sim configuration"}
    fields = {"ArrayHeight": "rows", "ArrayWidth": "columns"}
    values |= {("pe_array", field): sizes[key] for key, field in fields.items() if sizes[key] is not None}
    if dataflow is not None:
        values["pe_array", "dataflow"] = dataflow
    if sparse:
        values["pe_array", "sparsity"] = {"weights": "structured"}
    if sizes["Bandwidth"] is not None:
        values["dram", "bandwidth"] = f"{sizes['Bandwidth']} B/cycle"
    # A third of the template's buffer stands for each one that the file does not have.
    default_bytes = defaults.buffers["global"].capacity_bytes // len(BUFFERS)
    capacity = sum(default_bytes if size is None else size << 10 for size in (sizes[key] for key in BUFFERS))
    values["buffers", "global", "capacity"] = f"{capacity} B"

    accelerator = parse_template(with_values(bare, values), place, overrides)
    notes = [f"{place}: clock, vector unit and energies are those of the template '{defaults.name}'"]
    if missing := [key for key in USED if config.text(key) is None]:
        third = f" ({format_bytes(default_bytes)} for each buffer)" if set(missing) & set(BUFFERS) else ""
        notes.append(
            f"{place}: not in the file, and taken from the template '{defaults.name}': {', '.join(missing)}{third}"
        )
    if interface == "CALC":
        notes.append(
            f"{place}: under CALC, DRAM never limits SCALE-Sim; here it has {accelerator.dram.bytes_per_cycle} bytes a "
            "cycle (dram.bandwidth)"
        )
    notes += [f"{place}:{line}: {words}" for line, words in config.notes]
    notes += [
        f"{place}:{config.entries[key.lower()].line}: {key} is left out: {why}"
        for key, why in LEFT_OUT.items()
        if config.is_on(key)
    ]
    return replace(accelerator, notes=tuple(notes))


class _Entry(NamedTuple):
    value: str
    line: int


class _Config:
    """A file's entries by lower-case key, and what there is to say about its lines."""

    def __init__(self, text: str) -> None:
        self.entries: dict[str, _Entry] = {}
        self.mistakes: list[tuple[int, str]] = []
        self.notes: list[tuple[int, str]] = []
        section: str | None = None
        for number, line in enumerate(text.split("\n"), 1):
            line = re.split(r"(?:^|\s)[;#]", line, maxsplit=1)[0].strip()
            if header := re.fullmatch(r"\[(.*)\]", line):
                section = header[1].strip().lower()
                if section not in SECTIONS:
                    near = did_you_mean(section, SECTIONS)
                    self.notes.append((number, f"section [{section[:40]}] is not known{near} and is left out"))
            elif line:
                self._read_entry(number, line, section)

    def _read_entry(self, number: int, line: str, section: str | None) -> None:
        key, separator, value = [part.strip() for part in [*re.split(r"([:=])", line, maxsplit=1), "", ""][:3]]
        key = OLDER_KEYS.get(key.lower(), key)
        known = KEYS.get(key.lower())
        if not separator or not key:
            self.mistakes.append((number, f"found {line[:60]!r}; expected 'key: value', 'key = value' or '[section]'"))
        elif section is not None and section not in SECTIONS:
            return
        elif known is None:
            near = did_you_mean(key[:60], KEYS.values())
            self.notes.append((number, f"{key[:60]!r} is not known{near} and is left out"))
        elif key.lower() in self.entries:
            first = self.entries[key.lower()].line
            self.mistakes.append((number, f"{known} stands a second time; first in line {first}"))
        else:
            self.entries[key.lower()] = _Entry(value, number)

    def text(self, key: str) -> str | None:
        """A key's value as it stands, or None."""
        entry = self.entries.get(key.lower())
        return None if entry is None else entry.value

    def is_on(self, key: str) -> bool:
        """Whether a switch is there and true."""
        return (self.text(key) or "").lower() == "true"

    def mistake(self, key: str, why: str) -> None:
        """Notes a mistake in a key that is there."""
        value, line = self.entries[key.lower()]
        self.mistakes.append((line, f"{key} is {value[:40]!r}; {why}"))

    def size(self, key: str) -> int | None:
        """A whole number; None where the key is not there, or wrong."""
        value, largest = self.text(key), LARGEST.get(key, LARGEST_BUFFER_KB)
        if value is None:
            return None
        if value.isascii() and value.isdecimal() and len(value) <= 20 and 1 <= int(value) <= largest:
            return int(value)
        self.mistake(key, f"expected a whole number from 1 to {largest}")
        return None

    def choice(self, key: str, choices: dict[str, str]) -> str | None:
        """What a word stands for; None where the key is not there, or the word is wrong."""
        value = self.text(key)
        if value is None:
            return None
        if value.lower() not in choices:
            self.mistake(key, f"expected one of {', '.join(choices)}")
        return choices.get(value.lower())
