"""The memory behind an accelerator's link: which technology, how many channels, and where data lie in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from accelsim.errors import InputError
from accelsim.hardware.fields import Bytes, FieldMistake, Fields
from accelsim.hardware.memory.dram import DramMemory
from accelsim.hardware.memory.template import memory_template, memory_template_text

Fidelity = Literal["link", "calibrated", "banks"]
Power = Annotated[int, Field(strict=True, ge=1, le=1 << 10, examples=[2])]
PASSED_ON = ("channels", "ranks", "controller", "address_map", "refresh")
"""Fields that replace those of the memory's own template."""


class AttachedFields(Fields):
    """``dram.memory`` of a hardware template."""

    technology: str = Field(strict=True, min_length=1, max_length=200, examples=["ddr4_3200"])
    channels: Power | None = None
    ranks: Power | None = None
    controller: Literal["bounded", "ramulator", "ramulator_row_hit"] | None = None
    address_map: str | None = Field(default=None, strict=True, max_length=40, examples=["column_low"])
    refresh: Literal["all_bank", "per_bank", "off"] | None = None
    alignment: Bytes = 4096

    def attach(self) -> AttachedMemory:
        """The memory that these fields describe.

        Raises:
            FieldMistake: there is no such memory, or it cannot be set up so.
        """
        if self.alignment < 1 or self.alignment & (self.alignment - 1):
            raise FieldMistake(
                ("dram", "memory", "alignment"), f"found {self.alignment} bytes; expected a power of two"
            )
        given = {name: getattr(self, name) for name in PASSED_ON if getattr(self, name) is not None}
        try:
            text = memory_template_text(self.technology, [f"{name}={value}" for name, value in given.items()])
            memory = AttachedMemory(text, self.alignment)
            if memory.dram.template.controller == "dramsim3":
                raise InputError("controller dramsim3 serves request traces only; set another one")
        except InputError as error:
            raise FieldMistake(("dram", "memory"), str(error)) from None
        return memory


@dataclass(frozen=True)
class AttachedMemory:
    """A memory behind a link."""

    template: str
    """Text of its template, with everything set."""
    alignment_bytes: int
    """Tensors begin at multiples of this."""

    @cached_property
    def dram(self) -> DramMemory:
        """The memory itself."""
        return DramMemory(memory_template(self.template))
