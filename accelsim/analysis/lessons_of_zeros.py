"""Lessons of the roofline about zeros: what gating, skipping and compressed storage do to a point and its roof.

Claims: Verhelst, Benini and Verma (IEEE JSSC 2025, arXiv 2505.16346); storage: Sze, Chen, Yang and Emer, "Efficient
Processing of Deep Neural Networks", 2020, chapter 8.
"""

from __future__ import annotations

from accelsim.analysis.kernel_runs import on_chip
from accelsim.analysis.lesson import Lesson, run_point
from accelsim.engine import simulate
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.template import parse_template
from accelsim.program.lower import lower
from accelsim.sparsity import Pattern, Sparsity, Storage
from accelsim.workload.models.micro import matmul_chain
from accelsim.workload.sparse import with_sparsity

PLENTY = "dram.bandwidth=1024 B/cycle"


def zeros(machine: Accelerator) -> Lesson:
    """Products on a machine with DRAM so fast that computing limits, half of their weights zero: left, gated, skipped.

    Operations are dense-equivalent. A gated product takes its cycle and no energy, a skipped one neither.
    """
    workload = with_sparsity(
        matmul_chain(rows=1024, depth=1024, columns=1024, operators=4), Sparsity(2, 4, Pattern.STRUCTURED)
    )
    rows: list[tuple[str | float, ...]] = []
    for mode in ("none", "gate", "skip"):
        changed = parse_template(machine.source, "<template>", [PLENTY, f"pe_array.sparsity.weights={mode}"])
        point = run_point(changed, simulate(lower(workload, changed, on_chip(workload))))
        rows.append((mode, point.ops_per_cycle, point.roof_ops_per_cycle, point.ops_per_pj, point.roof_ops_per_pj))
    none, gate, skip = ([float(one) for one in row[1:]] for row in rows)
    gated, skipped = ([after / before for after, before in zip(one, none, strict=True)] for one in (gate, skip))
    return Lesson(
        "zeros",
        "gating zeros lifts efficiency alone, skipping them lifts performance, and the dense-equivalent roof, too",
        ("zeros", "op/cycle", "roof op/cycle", "op/pJ", "roof op/pJ"),
        tuple(rows),
        f"Half of the weights of a product on {machine.name} are zero. Gated, performance and its roof stay and "
        f"efficiency is {gated[2]:.2f} times as high; skipped, performance is {skipped[0]:.2f} times as high under a "
        f"roof of {skipped[1]:.2f} times, and efficiency {skipped[2]:.2f} times.",
        gated[0] == gated[1] == 1 and gated[2] > 1 and skipped[0] > 1.2 and skipped[1] > 1.2 and skipped[2] > gated[2],
    )


def accesses(machine: Accelerator) -> Lesson:
    """Weights of less and less density, stored as a bitmap and their nonzeros: (8 d + 1) / 8 bytes each."""
    dense = matmul_chain(rows=16, depth=1024, columns=1024, operators=8)
    skipping = parse_template(machine.source, "<template>", ["pe_array.sparsity.weights=skip"])
    rows: list[tuple[str | float, ...]] = []
    for tenths in (None, 10, 9, 5, 2):
        workload = dense if tenths is None else with_sparsity(dense, Sparsity(tenths, 10, storage=Storage.BITMAP))
        program = lower(workload, skipping, on_chip(workload))
        moved, share = int(program.activities.bytes.sum()), 1.0 if tenths is None else tenths / 10
        useful = 2 * dense.macs * share
        rows.append(("dense" if tenths is None else f"{share:.0%}", moved, 2 * dense.macs / moved, useful / moved))
    plain, full, nine, _, few = rows
    return Lesson(
        "accesses",
        "sparsity can cost memory accesses: metadata is moved, too, and each useful operation takes more bytes",
        ("nonzeros", "bytes", "op/B", "useful op/B"),
        tuple(rows),
        f"Stored as bitmap and nonzeros, weights of which nine in ten are not zero take "
        f"{float(nine[1]) / float(plain[1]):.3f} times the bytes of dense ones; with two in ten they take "
        f"{float(few[1]) / float(plain[1]):.2f} times, but a byte serves {float(few[3]) / float(plain[3]):.2f} times "
        "the useful operations.",
        float(full[1]) > float(nine[1]) > float(plain[1]) > float(few[1]) and float(few[3]) < float(plain[3]),
    )
