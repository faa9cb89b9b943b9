"""Energies by process node: what multiplying, adding and reading a buffer cost in a technology, each with its band.

A template that names a table in ``energy.table`` gets its energies on the chip from there: of a multiply-accumulate and
of a vector operation by the numbers that it computes with, of buffers by their size and the width of a word. DRAM,
links and static power stay the template's own. The format stands in ``hw_templates/README.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field, model_validator

from accelsim.errors import InputError, TemplateError, UnitError
from accelsim.files import data_folder, files_by_name
from accelsim.hardware.fields import Bytes, Energy, FieldMistake, Fields, Name
from accelsim.units import did_you_mean, parse_bytes
from accelsim.yaml_source import YamlSource, read_text

LARGEST_FILE_BYTES = 1 << 20
PLAIN_WORD_BYTES = 8
"""Of buffers whose ports are not described."""


def _ordered(band: tuple[float, float]) -> tuple[float, float]:
    if not 0 < band[0] <= 1 <= band[1] < math.inf:
        raise ValueError("a band is two factors, the first above 0 and at most 1, the second at least 1")
    return band


Band = Annotated[tuple[float, float], AfterValidator(_ordered)]
"""Factors, below and above."""
Bands = dict[str, tuple[float, float]]
"""By part of energy."""


class Action(Fields):
    """The energy of one action, and the factors within which respectable sources put it."""

    energy: Energy
    band: Band


class Number(Fields):
    """What computing with one kind of number costs."""

    mac: Action
    vector: Action


class Sram(Fields):
    """Reads of a word, by its bytes and the capacity of the memory; writes cost ``write_factor`` times as much."""

    write_factor: Annotated[float, Field(gt=0, le=10, allow_inf_nan=False)]
    words: Annotated[dict[Bytes, dict[Bytes, Action]], Field(min_length=1)]

    @model_validator(mode="after")
    def _lines(self) -> Sram:
        for word, sizes in self.words.items():
            if word < 1 or len(sizes) < 2 or min(sizes) < 1:
                raise ValueError("each word has at least one byte, and energies at two capacities or more")
            if any(action.energy <= 0 for action in sizes.values()):
                raise ValueError("energies of reads must be above 0")
        return self


class EnergyTable(Fields):
    """A table of one node."""

    name: Name
    description: Annotated[str, Field(strict=True, max_length=200)]
    node: Annotated[str, Field(pattern=r"^[0-9.]+ nm$", examples=["28 nm"])]
    numbers: Annotated[dict[str, Number], Field(min_length=1)]
    sram: Sram

    def read_pj_per_byte(self, capacity_bytes: int, word_bytes: int) -> Priced:
        """A byte read from a memory of this capacity, in words of this width.

        Between two capacities, or two widths, that the table has, energies follow the power law through both; beyond
        its capacities the law of the last two goes on, beyond its widths the nearest one holds.
        """
        sram = self.sram.words
        widths = sorted(sram)
        below = max((width for width in widths if width <= word_bytes), default=widths[0])
        above = min((width for width in widths if width >= word_bytes), default=widths[-1])
        first, second = (_at_capacity(sram[width], capacity_bytes, width) for width in (below, above))
        share = 0.0 if above == below else math.log(word_bytes / below) / math.log(above / below)
        return Priced(*(_between(one, other, share) for one, other in zip(first, second, strict=True)))


class Priced(NamedTuple):
    """An energy in picojoules and the ends of its band."""

    pj: float
    least_pj: float
    most_pj: float

    @property
    def band(self) -> tuple[float, float]:
        """Its ends, as factors."""
        return self.least_pj / self.pj, self.most_pj / self.pj


def _between(one: float, other: float, share: float) -> float:
    """On the power law through both: the first at share 0, the second at 1."""
    return one * math.pow(other / one, share)


def _at_capacity(sizes: Mapping[int, Action], capacity_bytes: int, word_bytes: int) -> Priced:
    known = sorted(sizes)
    at = min(max(sum(size <= capacity_bytes for size in known), 1), len(known) - 1)
    low, high = known[at - 1], known[at]
    share = math.log(capacity_bytes / low) / math.log(high / low)
    ends = []
    for factor in (lambda band: 1.0, lambda band: band[0], lambda band: band[1]):
        one, other = (float(sizes[size].energy) * factor(sizes[size].band) / word_bytes for size in (low, high))
        ends.append(_between(one, other, share))
    return Priced(*ends)


class EnergyFields(Fields):
    """``energy`` of a hardware template."""

    table: Annotated[str, Field(strict=True, min_length=1, max_length=200, examples=["cmos_28nm"])]
    number: Annotated[str, Field(strict=True, min_length=1, max_length=40, examples=["int8"])] = "int8"


def energy_table(name: str) -> EnergyTable:
    """A table by its name in the library, or by its path.

    Raises:
        TemplateError: there is none, or it has mistakes, each with its place.
    """
    files = files_by_name(data_folder("hw_templates") / "energy", ".yaml")
    is_path = "/" in name or "\\" in name or Path(name).suffix in (".yaml", ".yml")
    if not is_path and name not in files:
        near = did_you_mean(name, files, 3)
        raise TemplateError(f"no energy table '{name}'{near}; there are {', '.join(files)}; or give the path of a file")
    path = Path(name) if is_path else files[name]
    text = read_text(path, TemplateError, LARGEST_FILE_BYTES)
    return YamlSource(text, str(path), TemplateError).validate(EnergyTable)


def fill_energies(values: dict[str, Any], overridden: Mapping[tuple[str, ...], object]) -> Bands:
    """Puts the energies of a template's table where the template would state them itself; no table, no change.

    Args:
        values: the template as plain mappings, not checked yet; what is no section, or no size, is left for that check.
        overridden: fields that were set from outside; one that the table gives is a mistake.

    Returns:
        The band of each part of energy that came from the table, as factors.

    Raises:
        FieldMistake: there is no such table, it lacks the number, or an energy is given twice.
    """
    section = values.get("energy")
    if not isinstance(section, dict) or not isinstance(section.get("table"), str):
        return {}
    try:
        table = energy_table(section["table"])
    except InputError as error:
        raise FieldMistake(("energy", "table"), str(error)) from None
    name = section.get("number", EnergyFields.model_fields["number"].default)
    if name not in table.numbers:
        raise FieldMistake(("energy", "number"), f"found {name!r}; table '{table.name}' has {', '.join(table.numbers)}")
    number = table.numbers[name]
    bands: Bands = {}

    def put(path: tuple[str, ...], text: str) -> None:
        if path in overridden:
            raise FieldMistake(path, f"energy.table '{table.name}' gives it already; leave one of them out")
        at: Any = values
        for key in path[:-1]:
            at = at.get(key) if isinstance(at, dict) else None
        if isinstance(at, dict):
            at[path[-1]] = text

    pe_array = values.get("pe_array")
    if isinstance(pe_array, dict) and pe_array.get("dataflow") == "in_memory":
        raise FieldMistake(
            ("energy", "table"), "conversions of an in_memory array are in no table; give its energies one by one"
        )
    put(("pe_array", "mac_energy"), _text(float(number.mac.energy), "pJ"))
    put(("vector_unit", "energy"), _text(float(number.vector.energy), "pJ"))
    bands["mac"], bands["vector"] = number.mac.band, number.vector.band
    buffers = values.get("buffers")
    for buffer, fields in buffers.items() if isinstance(buffers, dict) else ():
        if not isinstance(fields, dict):
            continue
        priced = _buffer(table, fields)
        for field, factor in (("read_energy", 1.0), ("write_energy", table.sram.write_factor)):
            put(("buffers", buffer, field), _text(priced.pj * factor, "pJ/B"))
        fields.pop("energy_growth", None)
        bands[f"buffer.{buffer}"] = priced.band
    return bands


def _text(value: float, unit: str) -> str:
    return f"{value:.9f} {unit}"


def _buffer(table: EnergyTable, fields: Mapping[str, Any]) -> Priced:
    """A byte read from a buffer: of one bank, where it has several; mistakes are told when its fields are checked."""
    ports = fields.get("ports")
    ports = ports if isinstance(ports, dict) else {}
    banks = ports.get("banks", 1)
    try:
        capacity, word = parse_bytes(fields.get("capacity")), parse_bytes(ports.get("width", f"{PLAIN_WORD_BYTES} B"))
        return table.read_pj_per_byte(max(capacity // max(int(banks), 1), 1), max(word, 1))
    except (UnitError, TypeError, ValueError):
        return Priced(1.0, 1.0, 1.0)
