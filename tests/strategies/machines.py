"""Small machines for tests: buffers that are soon full, bandwidths that are no whole number, links that take time."""

from __future__ import annotations

from functools import lru_cache

from hypothesis import strategies as st

from accelsim.hardware.accelerator import Accelerator
from accelsim.library import load_accelerator


@lru_cache(maxsize=256)
def machine(
    capacity_bytes: int,
    rate: str = "16",
    latency_cycles: int = 0,
    static_watts: int = 0,
    arbitration: str = "in_order",
) -> Accelerator:
    """SoMa's edge machine with another buffer and another link; ``rate`` in bytes per cycle."""
    return load_accelerator(
        "soma_edge",
        (
            f"buffers.global.capacity={capacity_bytes} B",
            f"dram.bandwidth={rate} B/cycle",
            f"dram.latency={latency_cycles} cycles",
            f"static_power={static_watts} W",
            f"dram.arbitration={arbitration}",
        ),
    )


def machines(arbitration: str = "in_order") -> st.SearchStrategy[Accelerator]:
    """From a buffer that holds next to nothing to one that holds everything."""
    return st.builds(
        machine,
        st.sampled_from([200, 600, 1500, 4000, 20000]),
        st.sampled_from(["16", "1.5", "0.3", "64"]),
        st.sampled_from([0, 0, 1, 40]),
        st.sampled_from([0, 2]),
        st.just(arbitration),
    )
