"""Zeros in tensors: where they stand, and what the tensor takes when they are left out of storage.

Bytes follow from here alone: :class:`accelsim.workload.tensor.Tensor` asks :meth:`Sparsity.stored_bits` for all of it
and for each block, so that buffer space, transfers and their energy count values and metadata alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from accelsim.errors import FormatError, WorkloadError

INDEX_BITS = 8
"""Bits of a coordinate: the distance from the nonzero before, as far as it is not said otherwise."""
RUN_BITS = 4
"""Bits of a run length: up to 15 zeros before a value."""
LARGEST_GROUP = 1 << 16
MOST_ROWS = 1 << 20


class Pattern(StrEnum):
    """Where the nonzeros stand."""

    RANDOM = "random"
    """Anywhere, each element on its own: as an activation function, or unstructured pruning, leaves them."""
    STRUCTURED = "structured"
    """N in every M consecutive terms of a sum, the same places for all filters that run together."""
    BLOCK = "block"
    """Whole blocks of M elements are zero."""
    MASK = "mask"
    """As an array says."""


class Storage(StrEnum):
    """How a tensor with zeros is stored, and moved."""

    DENSE = "dense"
    """With its zeros."""
    BITMAP = "bitmap"
    """The nonzeros, and a bit for every element."""
    RUN_LENGTH = "run_length"
    """Values with the number of zeros before them, in 4 bits; a longer run takes values of zero in between."""
    COORDINATE = "coordinate"
    """The nonzeros, each with an index of 8 bits."""
    INDEX = "index"
    """The nonzeros of an N:M pattern, each with its place among the M: 2 bits for 2:4."""


@dataclass(frozen=True)
class Sparsity:
    """N in M elements of a tensor are not zero.

    Raises:
        WorkloadError: N and M make no share of at most 1, or the storage does not fit the pattern.
    """

    nonzeros: int
    of: int
    pattern: Pattern = Pattern.RANDOM
    storage: Storage = Storage.DENSE
    seed: int = 0
    """Of random patterns: which of those with this density it is, where lanes have to share work."""
    row_nonzeros: tuple[int, ...] = field(default=(), hash=False)
    """Of masks: nonzeros of each row (filter)."""

    def __post_init__(self) -> None:
        if not 1 <= self.nonzeros <= self.of:
            raise WorkloadError(f"a sparsity of {self.nonzeros}:{self.of}; expected N:M with 1 <= N <= M")
        if self.pattern in (Pattern.STRUCTURED, Pattern.BLOCK) and self.of > LARGEST_GROUP:
            raise WorkloadError(
                f"a sparsity of {self.nonzeros}:{self.of}; groups have at most {LARGEST_GROUP} elements"
            )
        if self.storage is Storage.INDEX and self.pattern is not Pattern.STRUCTURED:
            raise WorkloadError(f"storage 'index' is for N:M patterns; this one is {self.pattern}")

    @property
    def density(self) -> Fraction:
        """The share of elements that are not zero."""
        return Fraction(self.nonzeros, self.of)

    @cached_property
    def index_bits(self) -> int:
        """Metadata bits of one stored value, where it has any of its own."""
        own = {Storage.RUN_LENGTH: RUN_BITS, Storage.COORDINATE: INDEX_BITS, Storage.INDEX: (self.of - 1).bit_length()}
        return own.get(self.storage, 0)

    def stored_bits(self, elements: int, bits: int) -> int:
        """Bits of ``elements`` of ``bits`` each as they are stored, metadata included; nonzeros are rounded up.

        bitmap: nonzeros x bits + elements; coordinate and N:M index: nonzeros x (bits + index); run length: one entry a
        nonzero, but at least one for every 16 elements, of bits + 4. (Sze, Chen, Yang, Emer, "Efficient Processing of
        Deep Neural Networks", 2020, chapter 8.)
        """
        if self.storage is Storage.DENSE:
            return elements * bits
        values = -(-elements * self.nonzeros // self.of)
        if self.storage is Storage.BITMAP:
            return values * bits + elements
        if self.storage is Storage.RUN_LENGTH:
            values = max(values, -(-elements // (1 << RUN_BITS)))
        return values * (bits + self.index_bits)

    def least_bits(self, bits: int) -> Fraction:
        """Bits of an element, in the mean, that no number of elements stored together goes below."""
        if self.storage is Storage.DENSE:
            return Fraction(bits)
        if self.storage is Storage.BITMAP:
            return self.density * bits + 1
        share = max(self.density, Fraction(1, 1 << RUN_BITS)) if self.storage is Storage.RUN_LENGTH else self.density
        return share * (bits + self.index_bits)

    def kept_terms(self, terms: int) -> int:
        """Of ``terms`` consecutive ones of a sum, those that an N:M pattern keeps: N of every M, of the rest at most N.

        This is how SCALE-Sim v3.0.0 shortens a layer (layer-wise sparsity).
        """
        return terms // self.of * self.nonzeros + min(self.nonzeros, terms % self.of)

    def slowest_lane(self, terms: int, lanes: int) -> int:
        """Terms that the fullest of ``lanes`` has to do, in the mean over groups of filters that run together.

        Each lane has the sum of one filter, of ``terms`` terms, and skips its zeros; the next group begins when the
        last lane is done. Structured and block patterns are even. For a mask the filters are its rows, in order; for a
        random pattern as many are drawn as make the mean steady, from its seed. Rounded up.
        """
        if self.pattern is Pattern.STRUCTURED:
            return self.kept_terms(terms)
        if self.pattern is Pattern.BLOCK:
            return -(-terms * self.nonzeros // self.of)
        if self.pattern is Pattern.MASK and self.row_nonzeros:
            counts = np.array(self.row_nonzeros, dtype=np.int64)
        else:
            counts = np.random.default_rng(self.seed).binomial(terms, float(self.density), (_GROUPS, lanes)).reshape(-1)
        groups = -(-len(counts) // lanes)
        padded = np.zeros(groups * lanes, dtype=np.int64)
        padded[: len(counts)] = counts
        return max(1, -(-int(padded.reshape(groups, lanes).max(axis=1).sum()) // groups))

    def __str__(self) -> str:
        share = f"{self.nonzeros}:{self.of}" if self.of <= LARGEST_GROUP else f"{float(self.density):.4g}"
        return f"{share} {self.pattern}, {self.storage}"


_GROUPS = 256


def parse_sparsity(text: str) -> Sparsity:
    """A sparsity from a text: ``2:4``, ``0.3``, ``block:8:0.25`` or the path of a mask (``.npy``).

    ``2:4/index`` is stored with indices, ``0.3/bitmap`` with a bitmap, ``0.3@7`` is drawn with seed 7.

    Raises:
        WorkloadError: it is none of these.
        FormatError: the mask cannot be read.
    """
    what, _, storage = text.rpartition("/") if text.rpartition("/")[2] in set(Storage) else (text, "", "dense")
    options: dict[str, Any] = {"storage": Storage(storage)}
    if what.endswith(".npy"):
        return read_mask(what, options["storage"])
    share, _, seed = what.partition("@")
    try:
        if share.startswith("block:"):
            _, size, density = share.split(":")
            part = Fraction(density)
            groups = int(size)
            return Sparsity(max(1, round(part * groups)), groups, Pattern.BLOCK, **options)
        if ":" in share:
            kept, of = (int(number) for number in share.split(":"))
            return Sparsity(kept, of, Pattern.STRUCTURED, **options)
        exact = Fraction(share).limit_denominator(1 << 20)
        return Sparsity(exact.numerator, exact.denominator, seed=int(seed or 0), **options)
    except (ValueError, ZeroDivisionError, OverflowError) as error:
        raise WorkloadError(
            f"sparsity {text[:60]!r}: expected N:M, a density such as 0.3, block:SIZE:DENSITY or a mask .npy, and "
            f"perhaps /{' or /'.join(Storage)}"
        ) from error


def read_mask(path: str | Path, storage: Storage = Storage.DENSE) -> Sparsity:
    """The sparsity of a mask: an array (filters, …) of which what is not zero counts. Nothing in the file is run.

    Raises:
        FormatError: it is no array of numbers, or it has no nonzero.
    """
    try:
        mask = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise FormatError(f"{path}: no mask: {error}") from error
    if not isinstance(mask, np.ndarray) or not mask.ndim or mask.dtype.kind not in "biuf" or not mask.size:
        raise FormatError(f"{path}: expected an array of numbers or booleans, of one axis or more")
    rows = np.count_nonzero(mask.reshape(len(mask), -1), axis=1)
    if not rows.sum() or len(rows) > MOST_ROWS:
        raise FormatError(
            f"{path}: {len(rows)} rows with {rows.sum()} nonzeros; expected 1 to {MOST_ROWS} rows, not all zero"
        )
    return Sparsity(int(rows.sum()), mask.size, Pattern.MASK, storage, row_nonzeros=tuple(rows.tolist()))
