"""A convolution as NumPy makes it: the reference of the arrays that are clocked."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.int64]


def convolution(x: Array, w: Array, stride: tuple[int, int]) -> Array:
    """``x`` (groups, batch, channels, rows, columns) by ``w`` (groups, filters, channels, kernel rows, columns)."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[3:], axis=(3, 4))
    windows = windows[:, :, :, :: stride[0], :: stride[1]]
    result: Array = np.einsum("gbcpqrs,gkcrs->gbkpq", windows, w)
    return result
