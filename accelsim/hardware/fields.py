"""The kinds of field that a hardware template has: each checks its text and becomes an exact number."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, ValidationInfo

from accelsim import units
from accelsim.errors import UnitError


class Fields(BaseModel):
    """A section of a template: frozen, and a key that it does not know is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class FieldMistake(Exception):  # noqa: N818  (never leaves the package: the loader adds the place and raises it anew)
    """A mistake that only shows when several fields are seen together."""

    def __init__(self, path: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.path = path


def _read_with(parse: Callable[[object], Any]) -> PlainValidator:
    def read(value: object) -> Any:
        try:
            return parse(value)
        except UnitError as error:
            raise ValueError(str(error)) from None

    return PlainValidator(read)


def _read_with_clock(parse: Callable[[object, int], Any]) -> PlainValidator:
    """For quantities that mean cycles only together with the clock, which the loader passes as context."""

    def read(value: object, info: ValidationInfo) -> Any:
        try:
            return parse(value, info.context["clock_hz"])  # type: ignore[index]
        except UnitError as error:
            raise ValueError(str(error)) from None

    return PlainValidator(read)


_AS_TEXT = PlainSerializer(str, return_type=str)

Bytes = Annotated[int, _read_with(units.parse_bytes), Field(examples=["8 MiB"])]
Rate = Annotated[Fraction, _read_with_clock(units.parse_rate), _AS_TEXT, Field(examples=["16 GB/s"])]
Cycles = Annotated[int, _read_with_clock(units.parse_cycles), Field(examples=["100 ns"])]
Frequency = Annotated[int, _read_with(units.parse_frequency), Field(examples=["1 GHz"])]
Energy = Annotated[Fraction, _read_with(units.parse_energy), _AS_TEXT, Field(examples=["0.3 pJ"])]
EnergyPerByte = Annotated[Fraction, _read_with(units.parse_energy_per_byte), _AS_TEXT, Field(examples=["10.5 pJ/bit"])]
Power = Annotated[Fraction, _read_with(units.parse_power), _AS_TEXT, Field(examples=["250 mW"])]
Throughput = Annotated[Fraction, _read_with(units.parse_throughput), _AS_TEXT, Field(examples=["512 op/cycle"])]
Count = Annotated[int, Field(strict=True, ge=1, le=1 << 16, examples=[32])]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, examples=["0.1"])]
"""A part of something, from 0 to 1."""
Flag = Annotated[bool, Field(strict=True, examples=["true"])]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-]{1,64}$", examples=["my_accelerator"])]
