"""The Workload: operators in a topological order, joined by what they write and read."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from accelsim.errors import WorkloadError
from accelsim.workload.operator import ArrayWork, Operator, VectorWork
from accelsim.workload.tensor import Tensor, whole_box

MAXIMUM_OPERATIONS = 1 << 62
"""Of a whole workload: what columns of 64 bits hold, with room for what tiles do twice."""


class TileRule(StrEnum):
    """How a fused group is cut into tiles."""

    SOMA = "soma"
    """SoMa's rule to the letter: one rounded-up shape for all tiles of an operator (HPCA 2025, section IV)."""
    EXACT = "exact"
    """Every tile has its own channels and its true halo; nothing is inflated or rounded up."""


@dataclass(frozen=True, eq=False)
class Workload:
    """The directed acyclic graph of operators joined by the tensors they exchange.

    ``operators`` stand in a topological order. ``inputs`` come from outside (DRAM); ``outputs`` name the operators
    whose results must end there (default: those that nobody reads). ``batch`` samples run at once.

    Raises:
        WorkloadError: names stand twice, an operator reads what is not there yet, shapes do not meet, or there is more
            work than can be counted.
    """

    name: str
    operators: tuple[Operator, ...]
    inputs: tuple[Tensor, ...]
    batch: int = 1
    tile_rule: TileRule = TileRule.EXACT
    outputs: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """What its user should know: what a file could not say, and what was counted as moved data."""

    def __post_init__(self) -> None:
        if not self.operators:
            raise WorkloadError(f"workload '{self.name}' has no operators")
        if not isinstance(self.batch, int) or self.batch < 1:
            raise WorkloadError(f"workload '{self.name}': batch is {self.batch}; expected a whole number >= 1")
        shapes = {tensor.name: tensor.shape for tensor in self.inputs}
        if len(shapes) != len(self.inputs):
            raise WorkloadError(f"workload '{self.name}': two inputs have one name")
        for operator in self.operators:
            if operator.name in shapes:
                raise WorkloadError(f"workload '{self.name}': the name '{operator.name}' stands for two things")
            self._check_operands(operator, shapes)
            shapes[operator.name] = operator.output.shape
        if not self.outputs:
            read = {name for operator in self.operators for name in operator.producers()}
            object.__setattr__(self, "outputs", tuple(o.name for o in self.operators if o.name not in read))
        unknown = [name for name in self.outputs if name not in self.index]
        if unknown:
            raise WorkloadError(f"workload '{self.name}': the outputs {unknown} name no operator")
        if self.macs + self.vector_ops >= MAXIMUM_OPERATIONS:
            raise WorkloadError(
                f"workload '{self.name}', batch {self.batch}: over {MAXIMUM_OPERATIONS:.1e} multiply-accumulates and "
                "vector operations, more than can be counted; is a size wrong?"
            )

    def _check_operands(self, operator: Operator, shapes: dict[str, tuple[int, ...]]) -> None:
        for number, operand in enumerate(operator.operands):
            for producer, box in operand.source_boxes(whole_box(1, operand.shape)):
                if producer not in shapes:
                    raise WorkloadError(
                        f"operator '{operator.name}' reads '{producer}', "
                        "which no input and no operator before it provides"
                    )
                shape = shapes[producer]
                if len(box) != len(shape) + 1 or any(
                    high > size for (_, high), size in zip(box[1:], shape, strict=True)
                ):
                    raise WorkloadError(
                        f"operator '{operator.name}', input {number}: it reads {[high for _, high in box[1:]]} "
                        f"of '{producer}', whose shape is {list(shape)}"
                    )

    @cached_property
    def index(self) -> dict[str, int]:
        """Operator name to its place in ``operators``."""
        return {operator.name: number for number, operator in enumerate(self.operators)}

    @cached_property
    def input_index(self) -> dict[str, int]:
        """External input name to its place in ``inputs``."""
        return {tensor.name: number for number, tensor in enumerate(self.inputs)}

    @cached_property
    def consumers(self) -> dict[str, tuple[str, ...]]:
        """For each input and operator, the operators that read it, in order."""
        found: dict[str, list[str]] = {tensor.name: [] for tensor in self.inputs}
        found.update({operator.name: [] for operator in self.operators})
        for operator in self.operators:
            for producer in operator.producers():
                found[producer].append(operator.name)
        return {name: tuple(names) for name, names in found.items()}

    @cached_property
    def _output_names(self) -> frozenset[str]:
        return frozenset(self.outputs)

    def is_output(self, name: str) -> bool:
        """Whether the result of the operator of that name must end in DRAM."""
        return name in self._output_names

    def operator(self, name: str) -> Operator:
        """The operator of that name."""
        return self.operators[self.index[name]]

    @cached_property
    def macs(self) -> int:
        """Multiply-accumulates of the whole batch, without recomputation."""
        return sum(work.macs for work in self._works if isinstance(work, ArrayWork))

    @cached_property
    def product_bits(self) -> int:
        """Bits of the widest numbers that are multiplied; 0 where none are."""
        works = (work for work in self._works if isinstance(work, ArrayWork))
        return max((max(work.weight_bits, work.input_bits) for work in works), default=0)

    @cached_property
    def vector_ops(self) -> int:
        """Vector operations of the whole batch, without recomputation."""
        return sum(work.operations for work in self._works if isinstance(work, VectorWork))

    @cached_property
    def _works(self) -> tuple[ArrayWork | VectorWork, ...]:
        return tuple(operator.whole_work(self.batch) for operator in self.operators)

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of all parameters."""
        return sum(operator.weight_bytes for operator in self.operators)

    @cached_property
    def parameters(self) -> int:
        """Elements of all parameters, tables of embeddings included; what has one name is one tensor (tied weights)."""
        tensors = {tensor.name: tensor for operator in self.operators for tensor in operator.parameters}
        return sum(tensor.elements for tensor in tensors.values())

    @cached_property
    def digest(self) -> str:
        """SHA-256 over everything that decides how it runs."""
        content = (self.name, self.operators, self.inputs, self.batch, self.tile_rule.value, self.outputs)
        return hashlib.sha256(repr(content).encode()).hexdigest()

    def with_batch(self, batch: int) -> Workload:
        """The same network run on ``batch`` samples at once."""
        return replace(self, batch=batch)
