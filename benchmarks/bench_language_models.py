"""Wall time of language models, layer by layer: from the name of the workload to the report.

The bytes that each run reads are at least its parameters and caches, by the closed forms of
``tests/closed_form/test_language_models.py``; its multiply-accumulates are theirs exactly.
"""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import accelsim  # noqa: E402
from accelsim.workload.cut import cut_to_fit  # noqa: E402

LIMIT_SECONDS = 5.0
CONTEXT = 4096
LLAMA = 32 * (4 * 4096**2 + 3 * 4096 * 11008) + 32000 * 4096
"""Matrices of Llama 2 7B."""
GPT2 = 12 * 12 * 768**2 + 50257 * 768
"""Matrices of GPT-2 small."""
CASES: list[tuple[str, dict[str, Any], int, int]] = [
    (
        "gpt2_small_decode",
        {"context_length": CONTEXT},
        GPT2 + 2 * 12 * 768 * (CONTEXT + 1),
        GPT2 + 2 * 12 * 768 * CONTEXT,
    ),
    (
        "llama2_7b_decode",
        {"context_length": CONTEXT},
        LLAMA + 2 * 32 * 4096 * (CONTEXT + 1),
        LLAMA + 2 * 32 * 4096 * CONTEXT,
    ),
    ("llama2_7b_prefill", {"sequence_length": 512}, 512 * LLAMA + 32 * 4096 * 512 * 513, LLAMA),
]
"""Workload, parameters, multiply-accumulates, bytes read at the least."""


def seconds_of(name: str, parameters: dict[str, Any], macs: int, read_bytes: int) -> float:
    began = perf_counter()
    accelerator = accelsim.load_accelerator("soma_edge")
    workload = cut_to_fit(accelsim.load_workload(name, **parameters), accelerator.buffers["global"].capacity_bytes)
    schedule = accelsim.Layerwise().search(workload, accelerator).schedule
    figures = accelsim.report(accelsim.simulate(accelsim.lower(workload, accelerator, schedule))).to_dict()
    took = perf_counter() - began
    assert figures["macs"] == macs, (name, figures["macs"], macs)
    assert figures["dram_read_bytes"] >= read_bytes, (name, figures["dram_read_bytes"], read_bytes)
    assert figures["latency_cycles"] >= read_bytes / 16, name  # 16 bytes a cycle
    return took


def main() -> int:
    seconds_of(*CASES[0])  # compiles
    late = False
    for case in CASES:
        took = seconds_of(*case)
        late |= took > LIMIT_SECONDS
        print(f"{case[0]}, {case[1]}: {took:.2f} s (limit {LIMIT_SECONDS:.0f} s)")
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
