"""Chance and hashing in kernels: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), one word of state.

Its sums and products wrap around on purpose; where kernels run as plain Python, NumPy warns of that.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from accelsim.jit import kernel

RandomState = npt.NDArray[np.uint64]
"""One word."""


@kernel
def mixed(value: np.uint64) -> np.uint64:
    """Spreads a whole number over 64 bits."""
    z = value + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def random_float(state: RandomState) -> float:
    """Uniform in [0, 1), from the 53 upper bits of the next word."""
    bits = mixed(state[0])
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return float(bits >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def random_below(state: RandomState, limit: int) -> int:
    """A whole number from 0 to ``limit`` - 1."""
    return min(int(random_float(state) * limit), limit - 1)
