"""Kernels hash and draw with sums that wrap around; as plain Python, NumPy would warn of each."""

from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def wrapping_sums() -> Iterator[None]:
    with np.errstate(over="ignore"):
        yield
