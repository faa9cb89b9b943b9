"""Memory templates: the YAML description of a memory technology, checked. The format: ``docs/memory.md``."""

# ruff: noqa: N815  (timing parameters have the names of the standards)
from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from accelsim.errors import InputError, TemplateError, UnitError, UnknownName
from accelsim.files import data_folder, files_by_name
from accelsim.hardware.fields import Bytes, Cycles, Energy, EnergyPerByte, Fields, Flag, Frequency, Name, Power
from accelsim.units import did_you_mean, parse_frequency
from accelsim.yaml_source import YamlSource, read_text
from accelsim.yaml_tree import read_scalar, read_tree, with_values

Small = Annotated[int, Field(strict=True, ge=1, le=1 << 10)]
Rows = Annotated[int, Field(strict=True, ge=1, le=1 << 24)]
Depth = Annotated[int, Field(strict=True, ge=1, le=256)]

LARGEST_FILE_BYTES = 1 << 20

CONTROLLERS = {
    "bounded": "row hits first with a cap, bounded batches of reads and writes, an age limit: nobody starves",
    "dramsim3": "as DRAMsim3: a queue a bank, served in turn; drains all writes at once",
    "ramulator": "as Ramulator 2.1: oldest ready command first, writes in batches between two thresholds",
    "ramulator_row_hit": "as ramulator, but a row is not closed while an older request waits for it",
}
"""Name to description."""


class Organization(Fields):
    """What a channel consists of."""

    pseudo_channels: Small = 1
    stacks: Small = 1
    bank_groups: Small
    banks_per_group: Small
    rows: Rows
    row_bytes: Bytes
    access_bytes: Bytes
    command_bus: Literal["shared", "split"] = "shared"
    half_cycles: Flag = False

    @model_validator(mode="after")
    def _powers_of_two(self) -> Organization:
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, int) and value & (value - 1):
                raise ValueError(f"{name} is {value}; address maps need a power of two")
        if self.access_bytes > self.row_bytes:
            raise ValueError(f"access_bytes {self.access_bytes} is more than a row of {self.row_bytes} bytes")
        return self


class Timing(Fields):
    """Distances between commands, in cycles of the clock, by their names in the JEDEC standards."""

    tBL: Cycles
    tBL_max: Cycles | None = None
    tCL: Cycles
    tCWL: Cycles
    tRCDRD: Cycles
    tRCDWR: Cycles
    tRP: Cycles
    tRPab: Cycles | None = None
    tRAS: Cycles
    tRC: Cycles
    tCCD_S: Cycles
    tCCD_L: Cycles
    tCCD_L_WR: Cycles | None = None
    tCCD_R: Cycles | None = None
    tRRD_S: Cycles
    tRRD_L: Cycles
    tFAW: Cycles
    t32AW: Cycles = 0
    tWTR_S: Cycles
    tWTR_L: Cycles
    tRTP: Cycles
    tWR: Cycles
    tRTW: Cycles | None = None
    tCS: Cycles = 0
    tPPD: Cycles = 0
    tRFC: Cycles
    tREFI: Cycles
    tRFCpb: Cycles | None = None
    tREFIpb: Cycles | None = None
    tRREFD: Cycles = 0
    tPBR2PBR: Cycles | None = None
    tAAD: Cycles | None = None
    tWCKPST: Cycles | None = None
    activate_length: Cycles = 1

    @model_validator(mode="after")
    def _possible(self) -> Timing:
        ordered = (
            ("tRAS", "tRC"),
            ("tRCDRD", "tRAS"),
            ("tRCDWR", "tRAS"),
            ("tRP", "tRC"),
            ("tBL", "tCCD_L"),
            ("tCCD_S", "tCCD_L"),
            ("tCCD_L", "tCCD_L_WR"),
            ("tRRD_S", "tRRD_L"),
            ("tWTR_S", "tWTR_L"),
            ("tRFC", "tREFI"),
            ("tRFCpb", "tREFI"),
        )
        for smaller, larger in ordered:
            low, high = getattr(self, smaller), getattr(self, larger)
            if low is not None and high is not None and low > high:
                raise ValueError(f"{smaller} of {low} cycles is longer than {larger} of {high}; no chip can do that")
        for name in ("tBL", "tCL", "tRCDRD", "tRP", "tRAS", "tREFI", "activate_length"):
            if not getattr(self, name):
                raise ValueError(f"{name} is 0 cycles; expected at least 1")
        longest = max(value for value in self.model_dump().values() if value is not None)
        if longest > 1 << 30:
            raise ValueError(f"{longest} cycles; the longest distance is 2^30 cycles")
        return self


class Queues(Fields):
    """Queues and limits of the controller of a channel."""

    reads: Depth = 32
    writes: Depth = 32
    write_above: Annotated[int, Field(strict=True, ge=0, le=256)] = 25
    read_below: Annotated[int, Field(strict=True, ge=0, le=256)] = 7
    batch: Annotated[int, Field(strict=True, ge=1, le=1 << 20)] = 32
    hit_cap: Annotated[int, Field(strict=True, ge=1, le=1 << 20)] = 16
    age_limit: Cycles = 2000


class CommandEnergy(Fields):
    """Energy of each command, of all chips of a rank together, and the power drawn meanwhile."""

    activate: Energy
    read: EnergyPerByte
    write: EnergyPerByte
    refresh: Energy
    active_standby: Power
    idle_standby: Power


class MemoryTemplate(Fields):
    """A whole memory template."""

    name: Name
    description: str = Field(strict=True, max_length=200)
    clock: Frequency
    channels: Small = 1
    ranks: Small = 1
    controller: Literal["bounded", "dramsim3", "ramulator", "ramulator_row_hit"] = "bounded"
    address_map: str = Field(default="bank_group_low_hash", strict=True, max_length=40)
    injection: Literal["one_queue", "queue_per_engine"] = "one_queue"
    refresh: Literal["all_bank", "per_bank", "off"] = "all_bank"
    organization: Organization
    timing: Timing
    queues: Queues = Queues()
    energy: CommandEnergy

    @model_validator(mode="after")
    def _fits(self) -> MemoryTemplate:
        for name in ("channels", "ranks"):
            value = getattr(self, name)
            if value & (value - 1):
                raise ValueError(f"{name} is {value}; address maps need a power of two")
        if self.refresh == "per_bank" and (self.timing.tRFCpb is None or self.timing.tREFIpb is None):
            raise ValueError("refresh per_bank needs timing.tRFCpb and timing.tREFIpb, which this template lacks")
        if self.controller == "dramsim3" and self.refresh == "per_bank":
            raise ValueError("controller dramsim3 refreshes whole ranks; set refresh to all_bank or off")
        if self.controller == "dramsim3" and self.organization.half_cycles:
            raise ValueError("controller dramsim3 knows no commands on half clocks; set another controller")
        return self


def memory_template_text(name: str | Path, overrides: Sequence[str] = ()) -> str:
    """The text of a memory template, by its name in the library or its path, with ``overrides`` (``KEY=VALUE``) in it.

    Raises:
        TemplateError: the file is missing, or no plain YAML.
        UnknownName: no such memory, or an override of a field that there is not.
        InputError: an override that is no ``KEY=VALUE``.
    """
    files = files_by_name(data_folder("hw_templates") / "memory", ".yaml")
    is_path = isinstance(name, Path) or "/" in name or "\\" in name or Path(name).suffix in (".yaml", ".yml")
    if not is_path and name not in files:
        near = did_you_mean(str(name), files, 3)
        raise UnknownName(f"no memory '{name}'{near}; there are {', '.join(files)}; or give the path of a file")
    path = Path(name) if is_path else files[str(name)]
    text = read_text(path, TemplateError, LARGEST_FILE_BYTES)
    read_tree(text, str(path), TemplateError)
    values = _parse_overrides(overrides)
    return with_values(text, values) if values else text


def memory_template(text: str, name: str = "<memory template>") -> MemoryTemplate:
    """The template that a text describes.

    Raises:
        TemplateError: its mistakes, each with its place.
    """
    source = YamlSource(text, name, TemplateError)
    try:
        clock_hz = parse_frequency(source.data.get("clock"))
    except UnitError:
        clock_hz = 10**9  # a mistake that the model reports
    return source.validate(MemoryTemplate, {"clock_hz": clock_hz})


def _parse_overrides(overrides: Sequence[str]) -> dict[tuple[str, ...], Any]:
    names = list(_dotted_names(MemoryTemplate))
    values: dict[tuple[str, ...], Any] = {}
    for text in overrides:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key or not value:
            raise InputError(f"--set {text!r}: expected KEY=VALUE, for example 'channels=2'")
        if key not in names:
            near = did_you_mean(key, names, 3) or f"; fields are {', '.join(names)}"
            raise UnknownName(f"--set {text!r}: no field '{key}'{near}")
        values[tuple(key.split("."))] = read_scalar(value)
    return values


def _dotted_names(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _dotted_names(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"
