"""The accelerator: its parts under one clock, with every number in cycles, bytes and picojoules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from accelsim.errors import UnsupportedOperator
from accelsim.hardware.arithmetic import Arithmetic, Forms
from accelsim.hardware.buffer import Buffer
from accelsim.hardware.dataflow.dataflow import Dataflow, FloatTable, TileColumns, TileCosts
from accelsim.hardware.link import Link, Network
from accelsim.hardware.vector_unit import VectorUnit


@dataclass(frozen=True)
class Accelerator:
    """A machine, as a template describes it (see :func:`accelsim.hardware.template.parse_template`)."""

    name: str
    description: str
    clock_hz: int
    dataflow: Dataflow
    """The PE array and the order in which it runs a tile."""
    vector_unit: VectorUnit
    buffers: Mapping[str, Buffer]
    """By name; tiles take space in ``global`` only, the others belong to the PEs."""
    dram: Link
    static_pj_per_cycle: float
    """Energy of every cycle, whatever happens in it."""
    digest: str
    """SHA-256 over all numbers and the name, after overrides: equal digests are equal machines."""
    source: str = field(repr=False, compare=False)
    """The template's text, with the overrides written into it: reading it gives this accelerator."""
    arithmetic: Arithmetic = field(default_factory=Arithmetic)
    """What the array's elements make of zeros and of narrow numbers."""
    link: Network | None = None
    """To other accelerators of the same kind; None for a machine that stands alone."""
    energy_bands: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """By part of energy, the factors within which sources put it; parts that no energy table gave are not there."""
    notes: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """What its user should know: what a file could not say, and what of it was left out."""

    @property
    def macs_per_cycle(self) -> int:
        """Multiply-accumulates in the arrays: the peak rate of one cycle."""
        return self.dataflow.macs_per_cycle

    @property
    def link_bytes_per_cycle(self) -> Fraction:
        """What the link to DRAM moves at most; of the pins behind it, where those are looked at and are slower."""
        link, memory = self.dram.bytes_per_cycle, self.dram.memory
        if memory is None:
            return link
        return min(link, Fraction(memory.dram.peak_bytes_per_cycle) * memory.dram.clock_hz / self.clock_hz)

    @property
    def vector_ops_per_cycle(self) -> Fraction:
        """Peak rate of the vector unit."""
        return self.vector_unit.operations_per_cycle

    @property
    def transfers_pass_port(self) -> bool:
        """Transfers to and from DRAM pass the port of buffer ``global`` that tiles read and write through."""
        ports = self.buffers["global"].ports
        return ports is not None and ports.dma_shared

    @property
    def part_names(self) -> tuple[str, ...]:
        """The parts that energy is booked on, in the order of the columns of :class:`TileCosts`."""
        return ("mac", "vector", *(f"buffer.{name}" for name in self.buffers), "dram", "static")

    def array_cost(self, tiles: TileColumns) -> TileCosts:
        """What tiles cost on the PE array: cycles, and picojoules by :attr:`part_names`.

        Raises :class:`MappingError` for a tile that the array's own buffers cannot hold, and
        :class:`UnsupportedOperator` for a shape that makes no sense.
        """
        cycles, energy_pj = self.dataflow.cost(tiles)
        names = self.part_names
        by_part = np.zeros((len(cycles), len(names)))
        by_part[:, [names.index(part) for part in self.dataflow.all_parts]] = energy_pj
        return TileCosts(cycles, by_part)

    def effectual(self, tiles: TileColumns, forms: Forms) -> tuple[TileColumns, FloatTable]:
        """What of tiles whose operands have these forms is left to do, and the energy of each of its products in MACs.

        :meth:`array_cost` of the former is what they cost, its column ``mac`` times the latter.
        """
        return self.arithmetic.effectual(self.dataflow, tiles, forms)

    def vector_cost(self, operations: npt.ArrayLike, functions: Sequence[str] = ()) -> TileCosts:
        """What tiles of so many vector operations cost: ceil(operations / throughput) cycles.

        ``functions`` names the kind of operator of each tile; without it all have the unit's own throughput.
        Raises :class:`UnsupportedOperator` for a count below 0 or too large for ``int64`` arithmetic.
        """
        count = np.ascontiguousarray(operations, dtype=np.int64)
        rates = self.vector_unit.rates(functions) if functions else [self.vector_unit.operations_per_cycle] * len(count)
        numerators = np.array([rate.numerator for rate in rates], dtype=np.int64)
        denominators = np.array([rate.denominator for rate in rates], dtype=np.int64)
        most = (1 << 62) // max(denominators.tolist(), default=1)
        if count.size and not 0 <= int(count.min()) <= int(count.max()) <= most:
            raise UnsupportedOperator(
                f"a tile of {int(count.min())} to {int(count.max())} vector operations; 0 to {most} can run"
            )
        by_part = np.zeros((len(count), len(self.part_names)))
        by_part[:, self.part_names.index("vector")] = self.vector_unit.pj_per_operation * count
        return TileCosts(-(-count * denominators // numerators), by_part)
