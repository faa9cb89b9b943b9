"""A workload whose weights and inputs are known to hold zeros."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from accelsim.errors import UnknownName, WorkloadError
from accelsim.sparsity import Sparsity, Storage
from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.operator import Operator
from accelsim.workload.operators import Conv2d, ConvTranspose2d, MatMul
from accelsim.workload.tensor import Tensor


def with_sparsity(
    workload: Workload,
    weights: Sparsity | None = None,
    inputs: Sparsity | None = None,
    operators: Collection[str] | None = None,
) -> Workload:
    """The workload with zeros in the weights, and in what is read, of its convolutions and matrix products.

    Weights are stored, moved and buffered as their sparsity says. So are inputs that it stores in another form than
    with their zeros: the results, and the workload's own inputs, that are the first operand of such an operator,
    whoever else reads them. Biases stay as they are.

    Args:
        workload: stays as it is.
        weights: of the weights; None leaves them.
        inputs: of the first operand; None leaves it.
        operators: only these; all by default.

    Raises:
        UnknownName: there is no such operator.
        WorkloadError: inputs would be stored without their zeros under SoMa's tile rule, which counts elements.
    """
    packed = inputs if inputs is not None and inputs.storage is not Storage.DENSE else None
    if packed is not None and workload.tile_rule is TileRule.SOMA:
        raise WorkloadError(
            f"'{workload.name}' counts bytes as SoMa does, every element of an activation: inputs cannot be stored as "
            f"'{packed.storage}'. Take the plain network, or leave the storage out"
        )
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

    changed_operators = tuple(map(changed, workload.operators))
    if packed is None:
        return replace(workload, operators=changed_operators)
    firsts = [new.operands[0] for old, new in zip(workload.operators, changed_operators, strict=True) if old is not new]
    stored = {source.producer for operand in firsts if operand.sparsity is inputs for source in operand.sources}

    def pack(tensor: Tensor) -> Tensor:
        return replace(tensor, sparsity=packed) if tensor.name in stored else tensor

    return replace(
        workload,
        operators=tuple(replace(operator, output=pack(operator.output)) for operator in changed_operators),
        inputs=tuple(map(pack, workload.inputs)),
    )
