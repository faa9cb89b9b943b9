"""Machines drawn at random: arrays of several kinds and sizes, and what they make of zeros and narrow numbers."""

from __future__ import annotations

from hypothesis import strategies as st

from accelsim.hardware.accelerator import Accelerator
from accelsim.library import load_accelerator
from accelsim.sparsity import parse_sparsity
from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.sparse import with_sparsity

ARRAYS = ("output_stationary", "weight_stationary", "input_stationary", "spatial_cores", "direct_convolution")
TEMPLATES = {"spatial_cores": "soma_edge", "direct_convolution": "nvdla_small"}
WEIGHTS = (None, "0.3", "0.5/bitmap", "2:4", "2:4/index", "block:4:0.25", "1:1/run_length")
INPUTS = (None, "0.4", "0.5/bitmap", "0.2/coordinate")


@st.composite
def machines(draw: st.DrawFn) -> Accelerator:
    """An accelerator of a shipped kind with other numbers."""
    dataflow = draw(st.sampled_from(ARRAYS))
    largest = 5 if dataflow == "spatial_cores" else 24
    rows, columns = (draw(st.integers(1, largest)) for _ in range(2))
    settings = [f"pe_array.rows={rows}", f"pe_array.columns={columns}"]
    if dataflow not in TEMPLATES:
        settings.append(f"pe_array.dataflow={dataflow}")
    settings += [
        f"pe_array.sparsity.weights={draw(st.sampled_from(('none', 'gate', 'skip', 'structured')))}",
        f"pe_array.sparsity.inputs={draw(st.sampled_from(('none', 'gate', 'skip')))}",
        f"pe_array.sparsity.lanes={draw(st.sampled_from((1, 4, 16)))}",
        f"pe_array.sparsity.gated_energy={draw(st.sampled_from((0, 0.2)))}",
        f"dram.bandwidth={draw(st.sampled_from((0.7, 3, 16, 500)))} B/cycle",
        f"dram.latency={draw(st.sampled_from((0, 37)))} cycles",
        f"static_power={draw(st.sampled_from((0, 300)))} mW",
        f"vector_unit.throughput={draw(st.sampled_from((1, 9.5, 512)))} op/cycle",
    ]
    if draw(st.booleans()):
        settings += [f"pe_array.precision.bits={draw(st.sampled_from((4, 8, 16)))}", "pe_array.precision.subword=true"]
    return load_accelerator(TEMPLATES.get(dataflow, "scalesim_32x32"), settings)


def sparse(workload: Workload, weights: str | None, inputs: str | None) -> Workload:
    """The workload with these zeros; under SoMa's tile rule inputs keep theirs."""
    if inputs is not None and workload.tile_rule is TileRule.SOMA:
        inputs = inputs.partition("/")[0]
    found = [None if text is None else parse_sparsity(text) for text in (weights, inputs)]
    return with_sparsity(workload, *found)
