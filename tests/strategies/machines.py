"""Small machines for tests: buffers that are soon full, bandwidths that are no whole number, links that take time."""

from __future__ import annotations

from functools import lru_cache

from hypothesis import strategies as st

from accelsim.hardware.accelerator import Accelerator
from accelsim.library import load_accelerator
from accelsim.workload.graph import Workload
from accelsim.workload.operators import Conv2d


@lru_cache(maxsize=256)
def machine(capacity_bytes: int, rate: str = "16", latency_cycles: int = 0, static_watts: int = 0) -> Accelerator:
    """SoMa's edge machine with another buffer and another link; ``rate`` in bytes per cycle."""
    return load_accelerator(
        "soma_edge",
        (
            f"buffers.global.capacity={capacity_bytes} B",
            f"dram.bandwidth={rate} B/cycle",
            f"dram.latency={latency_cycles} cycles",
            f"static_power={static_watts} W",
        ),
    )


def machines() -> st.SearchStrategy[Accelerator]:
    """From a buffer that holds next to nothing to one that holds everything."""
    return st.builds(
        machine,
        st.sampled_from([200, 600, 1500, 4000, 20000]),
        st.sampled_from(["16", "1.5", "0.3", "64"]),
        st.sampled_from([0, 0, 1, 40]),
        st.sampled_from([0, 2]),
    )


def strides_within_windows(workload: Workload) -> bool:
    """Whether no convolution leaves rows or columns out; of those that do, SoMa's mapper counts too little traffic, and
    less than none on tiny tiles."""
    return all(
        all(stride <= window for stride, window in zip(operator.stride, operator.kernel, strict=True))
        for operator in workload.operators
        if isinstance(operator, Conv2d)
    )
