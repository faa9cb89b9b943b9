"""A workload whose weights and inputs are known to hold zeros."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from accelsim.errors import UnknownName, WorkloadError
from accelsim.sparsity import Sparsity, Storage
from accelsim.workload.graph import Workload
from accelsim.workload.operator import Operator
from accelsim.workload.operators import Conv2d, ConvTranspose2d, MatMul


def with_sparsity(
    workload: Workload,
    weights: Sparsity | None = None,
    inputs: Sparsity | None = None,
    operators: Collection[str] | None = None,
) -> Workload:
    """The workload with zeros in the weights, and in what is read, of its convolutions and matrix products.

    Weights are stored, moved and buffered as their sparsity says. Inputs are stored with their zeros: what the machine
    makes of them is its own affair. Biases stay as they are.

    Args:
        workload: stays as it is.
        weights: of the weights; None leaves them.
        inputs: of the first operand; None leaves it.
        operators: only these; all by default.

    Raises:
        UnknownName: there is no such operator.
        WorkloadError: inputs would be stored in another form than with their zeros.
    """
    if inputs is not None and inputs.storage is not Storage.DENSE:
        raise WorkloadError(f"inputs are stored with their zeros here; storage '{inputs.storage}' is for weights")
    for name in operators or ():
        if name not in workload.index:
            raise UnknownName(f"workload '{workload.name}' has no operator '{name}'")
    chosen = None if operators is None else set(operators)

    def changed(operator: Operator) -> Operator:
        if not isinstance(operator, Conv2d | ConvTranspose2d | MatMul) or (chosen and operator.name not in chosen):
            return operator
        if weights is not None and operator.weights:
            first, *rest = operator.weights
            operator = replace(operator, weights=(replace(first, sparsity=weights), *rest))
        if inputs is not None:
            first_operand, *others = operator.operands
            operator = replace(operator, operands=(replace(first_operand, sparsity=inputs), *others))
        return operator

    return replace(workload, operators=tuple(map(changed, workload.operators)))
