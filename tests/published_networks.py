"""One line of facts a layer: from a published layer list, and from a workload, by two ways that share no code."""

from __future__ import annotations

import hashlib
from math import prod
from typing import Any

from accelsim.workload.graph import Workload
from accelsim.workload.operator import ArrayWork

CONVOLUTIONS = ("conv", "group_conv", "fully_connected")


def digest(line: str) -> str:
    """Short enough to print, long enough for a thousand layers."""
    return hashlib.sha256(line.encode()).hexdigest()[:8]


def published_lines(network: dict[str, Any]) -> list[str]:
    """From the fields of a layer list."""
    names = {layer["id"]: layer["name"] for layer in network["layers"]}
    external = [one["name"] for one in network["external_inputs"]]
    lines = []
    for layer in network["layers"]:
        reads = [external[one] for one in layer["external_input_ids"]] + [names[one] for one in layer["input_layers"]]
        axes = "".join(layer.get("output_dims_from_input", []))
        lines.append(
            f"{layer['name']} {layer['type']} {layer['input_chw']} -> {layer['output_chw']} "
            f"window {layer['R']}x{layer['S']} stride {layer['stride_h']}x{layer['stride_w']} "
            f"groups {layer.get('groups', 1)} axes {axes} reads {reads} "
            f"weights {[names[one] for one in layer['weight_layers']]} {layer['weight_bytes']} bytes {layer['ops']} ops"
        )
    return lines


def workload_lines(workload: Workload) -> list[str]:
    """From the operators of a workload."""
    lines = []
    for operator in workload.operators:
        one: Any = operator
        work = operator.whole_work(1)
        data = [operand for operand in operator.operands if not operand.is_weight]
        shape = [sum(operand.shape[0] for operand in data), *data[0].shape[1:]]
        reads = [source.producer for operand in data for source in operand.sources]
        made = [source.producer for operand in operator.operands if operand.is_weight for source in operand.sources]
        window, stride, groups, axes = (1, 1), (1, 1), 1, ""
        kind = {"conv2d": "conv", "elementwise": "eltwise" if len(data) > 1 else "pointwise"}.get(one.kind, one.kind)
        if one.kind in ("conv2d", "pool"):
            window, stride = one.kernel, one.stride
        if one.kind == "conv2d":
            groups = one.groups
            kind = "group_conv" if groups > 1 else "fully_connected" if one.fully_connected else kind
        if one.kind == "transpose":
            axes = "".join("CHW"[axis] for axis in one.permutation)
        weight_bytes = sum(prod(weight.shape) for weight in one.weights)
        lines.append(
            f"{one.name} {kind} {shape} -> {list(one.output.shape)} "
            f"window {window[0]}x{window[1]} stride {stride[0]}x{stride[1]} "
            f"groups {groups} axes {axes} reads {reads} "
            f"weights {made} {weight_bytes} bytes {work.macs if isinstance(work, ArrayWork) else work.operations} ops"
        )
    return lines
