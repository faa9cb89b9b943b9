"""How fast any schedule could be: what must be computed at the array's full rate, what must cross the link."""

from __future__ import annotations

from math import prod

from accelsim.hardware.accelerator import Accelerator
from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.operator import ArrayWork, Operand, Operator
from accelsim.workload.operators import Conv2d, Elementwise, Pool, Transpose


def least_latency_cycles(workload: Workload, accelerator: Accelerator) -> int:
    """No order, cuts, tiling numbers, DRAM order and living durations make the workload faster than this.

    The larger of two sums: the work of every operator at the array's (or the vector unit's) full rate, and its
    weights, the external inputs that it reads and the network's outputs at the link's. Of a result that is read with
    a stride larger than the window, only the rows and columns that are read must be computed; where what is read is
    not known exactly, nothing is counted. Under SoMa's tile rule only the readers in the fused group ask for anything,
    whichever they are, so it is the least that any reader needs; else it is the most.
    """
    soma = workload.tile_rule is TileRule.SOMA
    needed = {} if soma else dict.fromkeys(workload.outputs, 1.0)
    cycles = moved = 0.0
    for operator in reversed(workload.operators):
        share = needed.get(operator.name, 1.0 if soma else 0.0)
        work = operator.whole_work(workload.batch)
        if isinstance(work, ArrayWork):
            cycles += share * work.macs / accelerator.macs_per_cycle
        else:
            cycles += share * work.operations / float(accelerator.vector_ops_per_cycle)
        moved += operator.weight_bytes
        if workload.is_output(operator.name):
            stored = share if soma else 1.0
            moved += stored * operator.output.elements * float(operator.output.least_bits) * workload.batch / 8
        loaded: dict[str, float] = {}  # an input that several operands read is loaded once
        for operand in operator.operands:
            read = share * _share_read(operator, operand)
            for source, extent in zip(operand.sources, operand.extents, strict=True):
                if source.producer in workload.index:
                    seen = 0.0 if source.views else read
                    least, most = needed.get(source.producer, 1.0), needed.get(source.producer, 0.0)
                    needed[source.producer] = min(least, seen) if soma else max(most, seen)
                elif not source.views and len(operand.sources) == 1:
                    tensor = workload.inputs[workload.input_index[source.producer]]
                    elements = extent * prod(operand.shape[1:])
                    bits = read * min(elements, tensor.elements) * float(tensor.least_bits)
                    loaded[source.producer] = max(loaded.get(source.producer, 0.0), bits)
        moved += sum(loaded.values()) * workload.batch / 8
    rate = accelerator.dram.peak_bytes_per_cycle
    transfers = moved * rate.denominator / rate.numerator
    return int(max(cycles, transfers) * (1 - 1e-9))


def _share_read(operator: Operator, operand: Operand) -> float:
    """The least share of an operand that all tiles of an operator together read, however it is cut."""
    if isinstance(operator, Conv2d | Pool) and not operand.is_weight:
        share = 1.0
        for axis in range(2):
            window = (operator.kernel[axis] - 1) * operator.dilation[axis] + 1 - operator.padding[axis]
            rows = (operator.output.shape[1 + axis] - 1) * min(
                operator.stride[axis], window
            ) + 1  # the last may be clipped
            share *= min(1.0, max(rows, 0) / operand.shape[1 + axis])
        return share
    return 1.0 if isinstance(operator, Conv2d | Elementwise | Transpose) else 0.0
