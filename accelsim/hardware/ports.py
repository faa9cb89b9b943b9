"""Ports, banks and layout of a buffer: how many words a wavefront of accesses touches, and how many cycles they take.

The words of a buffer lie in ``banks`` in turn; each bank has so many ports, and each port serves one word a cycle. A
*wavefront* is what an array takes in one step: n elements along one dimension of a matrix. Two things are lost, which
are counted apart (M. Verhelst et al., "Know your rooflines", JSSC 2025, tells them apart, too):

* *under-use*: a wavefront along the dimension that lies side by side fills its words; one across it takes a word for
  every element, and the rest of each word is read for nothing. That costs energy, and the bandwidth of the words.
* *bank conflicts*: n words with a pitch of p words lie in B / gcd(p, B) of B banks. The fullest bank makes the
  wavefront wait: it is as if there were more words, by the factor of that bank's words over those of an even spread
  (gcd(p, B), where n = B). That costs cycles, but no energy.

Operands wait in registers before the array, so wavefronts need not be served in the cycle in which they are needed, and
those of several streams fill the banks together: a tile takes at least its words, conflicts included, over banks times
ports.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field, PlainValidator

from accelsim.hardware.fields import Bytes, Count, FieldMistake, Fields, Flag
from accelsim.jit import kernel

IntColumn = npt.NDArray[np.int64]

MOST_BANKS, MOST_WIDTH_BYTES = 1 << 10, 1 << 12


def _power_of_two(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_BANKS or value & (value - 1):
        raise ValueError(f"found {value!r}; expected a power of two from 1 to {MOST_BANKS}")
    return value


PowerOfTwo = Annotated[int, PlainValidator(_power_of_two), Field(examples=[4])]


class LayoutFields(Fields):
    """Which dimension of each matrix lies side by side in a buffer's words."""

    inputs: Literal["terms", "positions"] = "terms"
    weights: Literal["terms", "filters"] = "filters"
    outputs: Literal["positions", "filters"] = "filters"
    pitch: Literal["odd", "natural"] = "odd"


class PortFields(Fields):
    """A buffer's ports as a template describes them."""

    width: Bytes
    banks: PowerOfTwo = 1
    read: Count = 1
    write: Count = 1
    single: Flag = False
    dma: Literal["own", "shared"] = "own"
    layout: LayoutFields = LayoutFields()

    def ports(self, buffer: str) -> Ports:
        """The ports that these fields describe.

        Raises :class:`FieldMistake`.
        """
        path = ("buffers", buffer, "ports")
        if self.width < 1 or self.width & (self.width - 1) or self.width > MOST_WIDTH_BYTES:
            raise FieldMistake(
                (*path, "width"), f"found {self.width} B; expected a power of two from 1 B to {MOST_WIDTH_BYTES} B"
            )
        if self.single and self.write != 1:
            raise FieldMistake(
                (*path, "write"), f"found {self.write}, but single ports write, too: give their count as read"
            )
        if self.dma == "shared" and not self.single:
            raise FieldMistake(
                (*path, "dma"),
                "found 'shared', but reads and writes have ports of their own: set single to true, so that transfers "
                "and tiles meet on one",
            )
        return Ports(self.width, self.banks, self.read, self.write, self.single, self.dma == "shared", self.layout)


@dataclass(frozen=True)
class Ports:
    """The ports of a buffer."""

    width_bytes: int
    """Of a word: what a port serves in a cycle."""
    banks: int
    read: int
    """Ports of each bank that read; with ``single`` they write, too."""
    write: int
    single: bool
    dma_shared: bool
    """Transfers to and from DRAM pass the same ports as tiles' accesses."""
    layout: LayoutFields

    @property
    def read_bytes_per_cycle(self) -> Fraction:
        """The most that can be read: every port of every bank a full word."""
        return Fraction(self.width_bytes * self.banks * self.read)

    def cycles(self, reads: IntColumn, writes: IntColumn) -> IntColumn:
        """What so many words, conflicts included, take."""
        if self.single:
            return -(-(reads + writes) // (self.banks * self.read))
        return np.asarray(
            np.maximum(-(-reads // (self.banks * self.read)), -(-writes // (self.banks * self.write))), dtype=np.int64
        )


class Words(NamedTuple):
    """Words of a buffer, one row a tile."""

    touched: IntColumn
    served: IntColumn
    """As many as bank conflicts make of them."""

    def times(self, count: IntColumn | int) -> Words:
        """So many such."""
        return Words(self.touched * count, self.served * count)

    def plus(self, other: Words) -> Words:
        """Both together."""
        return Words(self.touched + other.touched, self.served + other.served)


class PortUse(NamedTuple):
    """What tiles need of the ports of their buffer, one row a tile."""

    cycles: IntColumn
    """The least that the ports allow."""
    read_words: IntColumn
    write_words: IntColumn
    unused_bytes: IntColumn
    """Of these words, what no access wanted."""
    conflict_words: IntColumn
    """For how many more words bank conflicts make the ports wait."""


def port_use(ports: Ports, reads: Words, writes: Words, wanted_bytes: IntColumn) -> PortUse:
    """Sums up the streams of tiles."""
    return PortUse(
        cycles=ports.cycles(reads.served, writes.served),
        read_words=reads.touched,
        write_words=writes.touched,
        unused_bytes=(reads.touched + writes.touched) * ports.width_bytes - wanted_bytes,
        conflict_words=reads.served + writes.served - reads.touched - writes.touched,
    )


class Run(NamedTuple):
    """How wavefronts along a dimension lie in the words, one row a tile. The dimension is cut into folds."""

    size: IntColumn
    """Of the dimension."""
    piece: IntColumn
    """So many elements lie in a row, then another begins, with a word of its own."""
    step: IntColumn
    """From one element to the next, in elements: the stride of a convolution."""


def words_along(run: Run, fold: int, element_bytes: int, ports: Ports) -> Words:
    """A wavefront in each fold of at most ``fold`` elements, all folds together, along what lies side by side."""
    touched = np.zeros(len(run.size), dtype=np.int64)
    columns = [np.ascontiguousarray(column, dtype=np.int64) for column in run]
    _touched(columns[0], columns[1], columns[2], fold, (element_bytes, ports.width_bytes), touched)
    return Words(touched, touched)  # consecutive words lie in consecutive banks


def words_across(size: IntColumn, length: IntColumn, fold: int, element_bytes: int, ports: Ports) -> Words:
    """The same across it: a word for each element. ``length`` elements lie side by side, in rows of whole words."""
    pitch = -(-length * element_bytes // ports.width_bytes)
    if ports.layout.pitch == "odd":
        pitch |= 1
    reached = ports.banks // np.gcd(pitch, ports.banks)
    whole, rest = size // fold, size % fold

    def served(count: IntColumn | int) -> IntColumn:
        fullest, even = -(-count // reached), np.maximum(-(-count // ports.banks), 1)
        return np.asarray(-(-count * fullest // even), dtype=np.int64)

    words = -(-element_bytes // ports.width_bytes)  # of one element
    return Words(size, whole * served(fold) + served(rest)).times(words)


@kernel
def _touched(
    size: IntColumn, piece: IntColumn, step: IntColumn, fold: int, bytes_of: tuple[int, int], touched: IntColumn
) -> None:
    """Words that wavefronts touch, each row for itself; pieces begin with a word."""
    element, width = bytes_of
    for row in range(len(size)):
        first = 0
        while first < size[row]:
            end = min(first + fold, size[row])
            at = first
            while at < end:
                inside = at % piece[row]
                count = min(end - at, piece[row] - inside)
                low = inside * step[row] * element
                high = (inside + count - 1) * step[row] * element + element - 1
                touched[row] += min(high // width - low // width + 1, count * ((element - 1) // width + 1))
                at += count
            first = end
