"""The vector unit: everything that is neither matrix multiplication nor convolution."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from accelsim.hardware.fields import Energy, Fields, Throughput


class VectorUnitFields(Fields):
    """The vector unit as a template describes it; ``energy`` is that of one operation."""

    throughput: Throughput
    energy: Energy


@dataclass(frozen=True)
class VectorUnit:
    """The vector unit's numbers."""

    operations_per_cycle: Fraction
    pj_per_operation: float
