"""What the elements of an array make of zeros and of narrow numbers: fewer terms to work on, and less energy a product.

A tile is K terms for each of its results. What the machine leaves out, or does several at once, makes K smaller; the
dataflow then prices a tile of so many terms. So every dataflow has it, none knows of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from accelsim.hardware.dataflow.dataflow import (
    Dataflow,
    FloatTable,
    IntColumn,
    PrecisionFields,
    SparsityFields,
    TileColumns,
)
from accelsim.sparsity import Pattern, Sparsity


class Forms(NamedTuple):
    """What is known of the operands of a product: their zeros (None: none are known of) and their bits."""

    weights: Sparsity | None = None
    inputs: Sparsity | None = None
    weight_bits: int = 8
    input_bits: int = 8


@dataclass(frozen=True)
class Arithmetic:
    """The numbers of both sections."""

    bits: int | None = None
    subword: bool = False
    weights: str = "none"
    inputs: str = "none"
    lanes: int = 1
    gated_energy: float = 0.0

    @staticmethod
    def of(precision: PrecisionFields | None, sparsity: SparsityFields | None) -> Arithmetic:
        """From a template's sections, each of which may be left out."""
        sparsity = sparsity or SparsityFields()
        bits, subword = (precision.bits, bool(precision.subword)) if precision else (None, False)
        share = float(sparsity.gated_energy)
        return Arithmetic(bits, subword, sparsity.weights, sparsity.inputs, sparsity.lanes, share)

    def effectual(self, dataflow: Dataflow, tiles: TileColumns, forms: Forms) -> tuple[TileColumns, FloatTable]:
        """The tiles that the array really runs, and by how much the energy of each of their products differs.

        Zeros that are skipped take neither time nor energy, and lanes wait for the fullest one; zeros that are gated
        take the time of a product and ``gated_energy`` of its energy. The energy of a product grows with the bits of
        both operands (a multiplier of n x m bits has n x m cells: 0.2 pJ for 8 and 3.1 pJ for 32 bit in M. Horowitz,
        ISSCC 2014). Operands wider than an element take as many products as there are pairs of their parts.
        """
        terms = tiles.channels // tiles.groups * tiles.kernel_rows * tiles.kernel_columns
        left = self._terms_left(terms, forms)
        full, executed = self._shares(forms)
        energy = (full + self.gated_energy * (executed - full)) * _real(terms)
        if self.bits is not None:
            widest = max(forms.weight_bits, forms.input_bits)
            at_once = 1
            while self.subword and widest * at_once * 2 <= self.bits:
                at_once *= 2
            passes = -(-forms.weight_bits // self.bits) * -(-forms.input_bits // self.bits)
            left = -(-left * passes // at_once)
            energy = energy * (forms.weight_bits * forms.input_bits / self.bits**2)
        if np.array_equal(left, terms):
            return tiles, energy / _real(terms)
        return dataflow.with_terms(tiles, left), energy / _real(left)

    def _terms_left(self, terms: IntColumn, forms: Forms) -> IntColumn:
        """Terms that are worked on, one after another."""
        weights = forms.weights
        if self.weights == "structured" and weights is not None and weights.pattern is Pattern.STRUCTURED:
            terms = terms // weights.of * weights.nonzeros + np.minimum(weights.nonzeros, terms % weights.of)
            weights = None
        skipped = [weights if self.weights == "skip" else None, forms.inputs if self.inputs == "skip" else None]
        found = [sparsity for sparsity in skipped if sparsity is not None]
        if not found:
            return terms
        both = found[0]
        if len(found) == 2:
            both = Sparsity(both.nonzeros * found[1].nonzeros, both.of * found[1].of, seed=both.seed)
        sizes, rows = np.unique(terms, return_inverse=True)
        slowest = np.array([both.slowest_lane(int(size), self.lanes) for size in sizes], dtype=np.int64)
        return np.maximum(slowest, 1)[rows]

    def _shares(self, forms: Forms) -> tuple[float, float]:
        """Of all products, those of which no operand is known to be zero, and those that are executed."""
        full = executed = 1.0
        for sparsity, mode in ((forms.weights, self.weights), (forms.inputs, self.inputs)):
            if sparsity is None or mode == "none":
                continue
            if mode == "structured" and sparsity.pattern is not Pattern.STRUCTURED:
                continue
            full *= float(sparsity.density)
            executed *= 1.0 if mode == "gate" else float(sparsity.density)
        return full, executed


def _real(terms: IntColumn) -> FloatTable:
    """Terms as real numbers."""
    numbers: FloatTable = terms.astype(np.float64)
    return numbers
