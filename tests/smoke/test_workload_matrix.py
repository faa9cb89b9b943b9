"""Every workload that is shipped, on every machine that is shipped: it runs, and its figures hold, or it says why not.

All blocks of a language model are alike, so two of them stand for all. On machines with no more than a mebibyte of
buffer, where tiles are many, it is one, and a prompt has 8 tokens; on those with less than 160 KiB, where a block of a
large model is cut into thousands of parts, the large ones are left out. Everything else has its default size.
"""

from __future__ import annotations

import pytest

from accelsim.analysis.report import report
from accelsim.engine import simulate
from accelsim.errors import AccelsimError
from accelsim.library import list_accelerators, list_workloads, load_accelerator, load_workload
from accelsim.program.lower import lower
from accelsim.search import Layerwise
from accelsim.workload.cut import cut_to_fit
from accelsim.workload.graph import Workload

LANGUAGE_MODELS = ("gpt2_", "llama", "mixtral", "bert")
SHORT_PROMPT = 8
LARGE_MODELS = ("gpt2_xl", "llama2_7b_prefill", "mixtral")
TINY_BUFFER_BYTES = 160 << 10

TOO_LARGE_FOR_SMALL = "soma.gpt2_small_decode", "soma.gpt2_xl_decode", "soma.gpt2_xl_prefill"
"""Whose caches and transposed keys cannot be cut under SoMa's tile rule; they may be refused."""
REFUSED = "needs at least", "over its"
"""What a refusal says of a machine that is too small."""


def load(name: str, capacity_bytes: int) -> Workload:
    parameters: dict[str, object] = {}
    if name.startswith(LANGUAGE_MODELS):
        small = capacity_bytes <= 1 << 20
        parameters["layers"] = 1 if small else 2
        if small and not name.endswith("_decode"):
            parameters["sequence_length"] = SHORT_PROMPT
    return load_workload(name, **parameters)


@pytest.mark.parametrize("hardware", list_accelerators())
def test_every_workload_runs_or_is_refused_with_the_reason(hardware: str) -> None:
    accelerator = load_accelerator(hardware)
    capacity = accelerator.buffers["global"].capacity_bytes
    ran = []
    tiny = capacity < TINY_BUFFER_BYTES
    for name in list_workloads():
        if tiny and name.startswith(LARGE_MODELS):
            continue
        try:
            workload = cut_to_fit(load(name, capacity), capacity)
            timeline = simulate(lower(workload, accelerator, Layerwise().search(workload, accelerator).schedule))
        except AccelsimError as error:
            assert name in TOO_LARGE_FOR_SMALL, f"{name}: {error}"
            assert any(words in str(error) for words in REFUSED), f"{name}: {error}"
            continue
        figures = report(timeline).to_dict()
        assert figures["macs"] == workload.macs, name
        assert figures["latency_cycles"] >= figures["lower_bound_cycles"] > 0, name
        assert sum(figures["cycles_by_cause"].values()) == figures["latency_cycles"], name
        loaded = sum(tensor.sample_bytes for tensor in workload.inputs) + workload.weight_bytes
        assert figures["dram_read_bytes"] >= loaded or workload.tile_rule == "soma", name
        ran.append(name)
    assert len(ran) >= 20
