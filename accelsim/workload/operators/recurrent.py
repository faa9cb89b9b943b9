"""The recurrence of LSTM, GRU and plain recurrent layers: what cannot be computed for all steps at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from accelsim.errors import WorkloadError
from accelsim.workload.operator import ArrayWork, Operator, TileAxes
from accelsim.workload.tensor import Box


@dataclass(frozen=True)
class Recurrent(Operator):
    """Operand 0, shape (steps, sequences, gates x hidden), plus, at each step, the last hidden state times weights.

    Operand 0 is what the gates get from the layer's input: a matrix product of its own, over all
    steps at once. Operand 1, the hidden state before the first step, shape (sequences, hidden), may be left out.
    """

    hidden: int = 1
    reverse: bool = False
    """The last step comes first."""

    kind: ClassVar[str] = "recurrent"

    def __post_init__(self) -> None:
        shape = self.output.shape
        if len(shape) != 3 or self.operands[0].shape != shape or self.hidden < 1 or shape[2] % self.hidden:
            raise WorkloadError(
                f"recurrence '{self.name}': input {self.operands[0].shape}, output {shape}; expected one shape "
                f"(steps, sequences, gates x {self.hidden})"
            )
        if len(self.operands) > 1 and self.operands[1].shape != (shape[1], self.hidden):
            raise WorkloadError(
                f"recurrence '{self.name}': an initial state of shape {self.operands[1].shape}; "
                f"expected {(shape[1], self.hidden)}"
            )

    def tile_axes(self) -> TileAxes:
        """The sequences, which do not depend on each other; never the steps, which do."""
        return TileAxes(rows=1)

    def operand_box(self, index: int, box: Box) -> Box:
        """All steps up to the block's last one with all gates; of the first step only the block's."""
        samples, steps, sequences, gates = box
        if index == 1:
            return (samples, sequences, (0, self.hidden))
        count, _, width = self.output.shape
        before = (steps[0], count) if self.reverse else (0, steps[1])
        return (samples, before, sequences, (0, width) if before[1] - before[0] > 1 else gates)

    def work(self, box: Box) -> ArrayWork:
        """One product for each step, one after another: as groups they share no fold of the array."""
        samples, steps, sequences, gates = (end - begin for begin, end in box)
        return ArrayWork(
            batch=samples,
            channels=self.hidden * steps,
            filters=gates * steps,
            filters_per_group=gates,
            rows=sequences,
            columns=1,
            kernel_rows=1,
            kernel_columns=1,
            stride_rows=1,
            stride_columns=1,
            groups=steps,
            weights_from_operator=0,
        )
