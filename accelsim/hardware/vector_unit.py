"""The vector unit: everything that is neither matrix multiplication nor convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from accelsim.hardware.fields import Energy, Fields, Throughput


class FunctionFields(Fields):
    """Throughputs of single kinds of operators, in the operations that the workload counts for them."""

    elementwise: Throughput | None = None
    softmax: Throughput | None = None
    normalization: Throughput | None = None
    local_response_norm: Throughput | None = None
    pool: Throughput | None = None
    reduction: Throughput | None = None
    transpose: Throughput | None = None
    move: Throughput | None = None
    embedding: Throughput | None = None
    upsample: Throughput | None = None
    resample: Throughput | None = None


class VectorUnitFields(Fields):
    """The vector unit as a template describes it; ``energy`` is that of one operation."""

    throughput: Throughput
    energy: Energy
    functions: FunctionFields = FunctionFields()

    def unit(self) -> VectorUnit:
        """The vector unit that these fields describe."""
        given = {name: getattr(self.functions, name) for name in FunctionFields.model_fields}
        functions = tuple((name, rate) for name, rate in given.items() if rate is not None)
        return VectorUnit(self.throughput, float(self.energy), functions)


@dataclass(frozen=True)
class VectorUnit:
    """The vector unit's numbers."""

    operations_per_cycle: Fraction
    pj_per_operation: float
    functions: tuple[tuple[str, Fraction], ...] = ()
    """Kinds of operators with a throughput of their own."""

    def rates(self, functions: Sequence[str]) -> list[Fraction]:
        """Operations per cycle in operators of these kinds."""
        own = dict(self.functions)
        return [own.get(name, self.operations_per_cycle) for name in functions]
