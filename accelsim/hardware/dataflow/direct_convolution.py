"""A direct convolution engine of ``rows`` dot products over ``columns`` channels: NVDLA's convolution core.

After the hardware documentation of NVDLA version 1 (nvdla.org/hw/v1/ias/unit_description.html, convolution pipeline).
NVDLA calls the channels of one dot product *atomic C* (here ``columns``) and the kernels that work side by side *atomic
K* (``rows``). In each cycle all kernels of a group multiply one vector of input channels, of one kernel position, for
one output position. Loops, from the innermost:

* a *stripe* runs up to ``stripe`` output positions with the same weights, and no fewer than atomic K where there are as
  many: the last but one is shortened for the last one's sake (NVDLA's int16 engine: 16 to 32);
* a *block* runs the stripes of all kernel positions and channels of the same output positions, which are summed in the
  accumulator, so partial sums never leave it;
* then come the other positions, the other groups of kernels, and the groups of the convolution.

The weights of a stripe, one kernel's vector a cycle, are loaded while the stripe before it runs. The results of a
block leave while the next one runs, ``results_per_cycle`` of them in a cycle; a block ends when those of the block
before have left. Where an image has at most four channels, the kernel's columns, if they are not dilated, are counted
as channels (channel pre-extension).

With ``winograd`` a convolution of 3 x 3 with neither stride nor dilation works on squares of 2 x 2 output positions
(Lavin and Gray, CVPR 2016): a dot product takes 4 x 4 transformed values of a sixteenth of the channels, and gives four
results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Literal, Self

import numpy as np

from accelsim.errors import UnsupportedOperator
from accelsim.hardware.buffer import BankedBufferFields, Buffer, BufferFields
from accelsim.hardware.dataflow.dataflow import (
    MOST_MACS,
    Dataflow,
    FloatTable,
    IntColumn,
    PEArrayFields,
    TileColumns,
    TileCosts,
    checked_tiles,
    every_cycle,
    tile_text,
)
from accelsim.hardware.dataflow.direct_stripes import Engine, Nest, count_active, count_cycles
from accelsim.hardware.dataflow.products import ungrouped
from accelsim.hardware.dataflow.wavefronts import Matrices
from accelsim.hardware.fields import Count, FieldMistake, Flag
from accelsim.hardware.ports import PortUse, port_use

MOST_KERNEL_GROUPS = 1 << 24
"""A tile of more groups of kernels is refused: they are gone through one by one."""
IMAGE_CHANNELS = 4
"""With no more channels than this, the input is an image: its kernel columns count as channels."""
WINOGRAD_POINTS, WINOGRAD_RESULTS = 16, 4


class DirectConvolutionFields(PEArrayFields):
    """A template's ``pe_array`` section for ``direct_convolution``."""

    counting: Literal["causal"] = "causal"
    stripe: Count | None = None
    results_per_cycle: Count | None = None
    winograd: Flag = False


@dataclass(frozen=True)
class DirectConvolution(Dataflow):
    """A vector of channels goes to all kernels each cycle, weights stay for a stripe of positions: NVDLA."""

    engine: Engine
    mac_pj: float
    buffer: Buffer

    pe_array_fields = DirectConvolutionFields
    buffer_fields: ClassVar[Mapping[str, type[BufferFields]]] = {"global": BankedBufferFields}
    parts = ("mac", "buffer.global")

    @classmethod
    def from_template(cls, pe_array: PEArrayFields, buffers: Mapping[str, Buffer]) -> Self:
        """Engine and buffer from the template's fields.

        Raises :class:`FieldMistake` for ``winograd`` with channels that are no multiple of 16, or with ports.
        """
        assert isinstance(pe_array, DirectConvolutionFields)
        if pe_array.winograd and pe_array.columns % WINOGRAD_POINTS:
            raise FieldMistake(
                ("pe_array", "winograd"),
                f"found True with {pe_array.columns} columns; expected a multiple of {WINOGRAD_POINTS} columns, the "
                "values of a transformed square, or false",
            )
        if pe_array.winograd and buffers["global"].ports:
            raise FieldMistake(
                ("buffers", "global", "ports"),
                "how transformed squares lie in words is not modelled: leave ports out, or set pe_array.winograd to "
                "false",
            )
        engine = Engine(
            kernels=pe_array.rows,
            channels=pe_array.columns,
            stripe=pe_array.stripe or 2 * pe_array.rows,
            results_per_cycle=pe_array.results_per_cycle or max(pe_array.rows // 2, 1),
            winograd=int(pe_array.winograd),
        )
        buffer = buffers["global"]
        if buffer.ports and "weights" not in buffer.ports.layout.model_fields_set:  # as the engine reads them
            layout = buffer.ports.layout.model_copy(update={"weights": "terms"})
            buffer = replace(buffer, ports=replace(buffer.ports, layout=layout))
        return cls(engine, float(pe_array.mac_energy), buffer)

    @property
    def macs_per_cycle(self) -> int:
        """Kernels x channels. With ``winograd`` a multiplication does the work of 2.25 where it applies, and the peak
        rises with it."""
        plain = self.engine.kernels * self.engine.channels
        return plain * 9 // 4 if self.engine.winograd else plain

    def cost(self, tiles: TileColumns) -> TileCosts:
        """Cycles, bounded below by what the buffer's read port delivers, if it has a bandwidth."""
        tiles = self._checked(tiles)
        nest = self._nest(tiles)
        cycles: IntColumn = np.empty(len(tiles.batch), np.int64)
        count_cycles(nest, self.engine, cycles)
        written_bytes = tiles.batch * tiles.filters * tiles.rows * tiles.columns
        cycles, buffer_pj = self.buffer.bounded(
            cycles, self._read_bytes(nest), written_bytes, self._port_use(tiles, nest)
        )
        return TileCosts(cycles, np.stack([self.mac_pj * self._macs(tiles), buffer_pj], axis=1))

    def port_use(self, tiles: TileColumns) -> PortUse | None:
        """See :meth:`Dataflow.port_use`."""
        tiles = self._checked(tiles)
        return self._port_use(tiles, self._nest(tiles))

    def _port_use(self, tiles: TileColumns, nest: Nest) -> PortUse | None:
        """A vector of inputs a cycle, one of weights for each kernel of a stripe, and results position by position."""
        ports = self.buffer.ports
        if ports is None:
            return None
        matrices = Matrices(nest.positions, nest.filters, nest.channels, tiles, ports)
        kernel_groups = -(-nest.filters // self.engine.kernels)
        blocks = -(-nest.positions // self.engine.stripe)
        inputs = matrices.inputs("terms", self.engine.channels).times(kernel_groups * nest.positions * nest.taps)
        weights = matrices.weights("terms", self.engine.channels).times(blocks * nest.filters * nest.taps)
        outputs = matrices.outputs("filters", self.engine.kernels, 1).times(nest.positions)
        wanted = self._read_bytes(nest) + nest.groups * nest.positions * nest.filters
        return port_use(ports, inputs.plus(weights).times(nest.groups), outputs.times(nest.groups), wanted)

    def port_bytes(self, tiles: TileColumns) -> IntColumn:
        """Input vectors, one a cycle, and weights, once a stripe."""
        return self._read_bytes(self._nest(self._checked(tiles)))

    def accessed_bytes(self, tiles: TileColumns) -> Mapping[str, tuple[IntColumn, IntColumn]]:
        """See :meth:`Dataflow.accessed_bytes`: results are written once."""
        return {"global": (self.port_bytes(tiles), tiles.batch * tiles.filters * tiles.rows * tiles.columns)}

    def mapping_efficiency(self, tiles: TileColumns) -> FloatTable:
        """MACs over what the engine could make while vectors stream through it."""
        tiles = self._checked(tiles)
        nest = self._nest(tiles)
        streams = nest.groups * -(-nest.filters // self.engine.kernels) * nest.positions
        streams = streams * nest.taps * -(-nest.channels // nest.vector)
        efficiency: FloatTable = self._macs(tiles) / (streams * float(self.macs_per_cycle))
        return efficiency

    def activity(self, tile: TileColumns) -> IntColumn:
        """See :meth:`Dataflow.activity`; with ``winograd``, which multiplies transformed values, it is not clocked."""
        if self.engine.winograd:
            return super().activity(tile)
        nest = self._nest(self._checked(tile))
        cycles: IntColumn = np.empty(1, np.int64)
        count_cycles(nest, self.engine, cycles)
        active = every_cycle(cycles.item())
        count_active(nest, self.engine, active)
        return active

    def _checked(self, tiles: TileColumns) -> TileColumns:
        rate = self.buffer.read_bytes_per_cycle or Fraction(1)
        headroom = self.engine.kernels * self.engine.channels * rate.denominator * 8
        headroom = max(headroom, self.buffer.most_bytes_an_access)
        tiles = checked_tiles(tiles, min(MOST_MACS, (1 << 62) // headroom))
        many = tiles.batch * tiles.filters > MOST_KERNEL_GROUPS
        if many.any():
            raise UnsupportedOperator(
                f"tile {tile_text(tiles, int(np.argmax(many)))}: more than {MOST_KERNEL_GROUPS} kernels; cut the "
                "operator"
            )
        return tiles

    def _nest(self, tiles: TileColumns) -> Nest:
        groups, nest = ungrouped(tiles)
        channels = nest.channels
        square = (
            (tiles.kernel_rows == 3)
            & (tiles.kernel_columns == 3)
            & (tiles.stride_rows * tiles.stride_columns * tiles.dilation_rows * tiles.dilation_columns == 1)
            & (channels > IMAGE_CHANNELS)
            & bool(self.engine.winograd)
        )
        image = (channels <= IMAGE_CHANNELS) & (tiles.kernel_columns > 1) & (tiles.dilation_columns == 1)
        taps = tiles.kernel_rows * np.where(image, 1, tiles.kernel_columns)
        columns = (
            groups,
            nest.batch * np.where(square, -(-tiles.rows // 2) * -(-tiles.columns // 2), tiles.rows * tiles.columns),
            np.where(square, WINOGRAD_RESULTS, 1),
            channels * np.where(image, tiles.kernel_columns, 1),
            nest.filters,
            np.where(square, 1, taps),
            np.where(square, self.engine.channels // WINOGRAD_POINTS, self.engine.channels),
        )
        return Nest(*(np.ascontiguousarray(column, dtype=np.int64) for column in columns))

    @staticmethod
    def _macs(tiles: TileColumns) -> IntColumn:
        points = tiles.batch * tiles.filters * tiles.rows * tiles.columns
        macs: IntColumn = points * (tiles.channels // tiles.groups) * tiles.kernel_rows * tiles.kernel_columns
        return macs

    def _read_bytes(self, nest: Nest) -> IntColumn:
        """A transformed square is sixteen values of each channel, and so is its kernel."""
        values = nest.channels * nest.taps * np.where(nest.results > 1, WINOGRAD_POINTS, 1)
        kernel_groups = -(-nest.filters // self.engine.kernels)
        blocks = -(-nest.positions // self.engine.stripe)
        read_bytes: IntColumn = nest.groups * values * (kernel_groups * nest.positions + blocks * nest.filters)
        return read_bytes
