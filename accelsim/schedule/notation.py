"""The Schedule: SoMa's tensor-centric notation with its six attributes (HPCA 2025, section IV), frozen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import pairwise


class TensorKind(StrEnum):
    """What a DRAM tensor is."""

    LOAD_WEIGHT = "load_weight"
    """All parameters of an operator, once per run."""
    LOAD_INPUT = "load_input"
    """What one tile reads from one producer that lies in another layer group or outside the workload."""
    STORE_OUTPUT = "store_output"
    """What one tile writes for another layer group, or for the outside."""


@dataclass(frozen=True, slots=True)
class DramTensor:
    """A tensor that is loaded from or stored to DRAM, with its living duration.

    It occupies the buffer in the tile positions [start, end). A load may begin once position ``start`` has begun (-1:
    at once); a store must be done before position ``end`` may begin.
    """

    kind: TensorKind
    operator: str
    tile: int | None
    """Tile number within the operator; None for weights."""
    producer: str | None
    """Loads of inputs: the operator or external input that it comes from. Else None."""
    start: int
    end: int

    @property
    def key(self) -> tuple[TensorKind, str, int | None, str | None]:
        """What identifies it, apart from its living duration."""
        return (self.kind, self.operator, self.tile, self.producer)

    def __str__(self) -> str:
        tile = "" if self.tile is None else f"[{self.tile}]"
        source = "" if self.producer is None else f" from {self.producer}"
        return f"{self.kind} {self.operator}{tile}{source}"


@dataclass(frozen=True)
class Schedule:
    """All that may be chosen about how a workload runs, in tensor-centric notation.

    A cut at p lies between positions p-1 and p of ``order``. Fusion cuts split the order into fused groups (FLGs),
    the DRAM cuts among them into layer groups (LGs); a fused group is run tile by tile, ``tiling_numbers`` says in
    how many. Without ``dram_tensors`` the default double-buffer order applies
    (:func:`accelsim.schedule.living.default_order`)."""

    workload: str
    """Name of the workload it was made for."""
    order: tuple[str, ...]
    """Computing order: every operator's name, once."""
    fusion_cuts: tuple[int, ...]
    """All cuts, ascending, the DRAM cuts among them."""
    dram_cuts: tuple[int, ...]
    tiling_numbers: tuple[int, ...]
    """One for each fused group."""
    dram_tensors: tuple[DramTensor, ...] | None = None
    """In DRAM tensor order."""

    @cached_property
    def groups(self) -> tuple[tuple[int, int], ...]:
        """The fused groups: [begin, end) in ``order``."""
        return tuple(pairwise((0, *self.fusion_cuts, len(self.order))))

    @cached_property
    def layer_groups(self) -> tuple[tuple[int, int], ...]:
        """The layer groups: [begin, end) in ``order``."""
        return tuple(pairwise((0, *self.dram_cuts, len(self.order))))

    def __str__(self) -> str:
        from accelsim.schedule.text import format_schedule

        return format_schedule(self)

    def with_default_dram_order(self) -> Schedule:
        """The same schedule under default double buffering."""
        return replace(self, dram_tensors=None)
