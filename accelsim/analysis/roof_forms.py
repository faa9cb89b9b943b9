"""The forms of a roof as functions of the intensity, and the points of balance.

Rates in operations a cycle and bytes a cycle, energies in picojoules; intensities, an array, in operations a byte.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]


def performance_roof(intensity: Numbers, peak: float, bandwidth: float, exponent: float = math.inf) -> Numbers:
    """Operations a cycle: min(P, B I), or, with an exponent p, (P^-p + (B I)^-p)^(-1/p).

    p tells how well computing and transfers overlap: infinite is a hard corner, at p = 1 nothing overlaps, and at the
    ridge 2^(-1/p) of the roof is left.
    """
    slope = bandwidth * intensity
    hard: Numbers = np.minimum(peak, slope)
    if exponent == math.inf:
        return hard
    low = np.minimum(peak / slope, slope / peak)  # the faster one's time over the slower one's
    smooth: Numbers = hard * (1 + low**exponent) ** (-1 / exponent)
    return smooth


def energy_roof(
    intensity: Numbers,
    pj_per_operation: float,
    pj_per_byte: float,
    static_pj_per_cycle: float = 0.0,
    peak: float = math.inf,
    bandwidth: float = math.inf,
) -> Numbers:
    """Operations a picojoule: 1 / (e_op + e_byte / I + P_0 T), with T = max(1 / P, 1 / (B I)) cycles an operation.

    Choi, Bedard, Fowler and Vuduc, IPDPS 2013; without static power there is no corner.
    """
    cycles = np.maximum(1 / peak, 1 / (bandwidth * intensity))
    found: Numbers = 1 / (pj_per_operation + pj_per_byte / intensity + static_pj_per_cycle * cycles)
    return found


def power_cap_roof(
    intensity: Numbers, pj_per_operation: float, pj_per_byte: float, cap_pj_per_cycle: float, static_pj_per_cycle: float
) -> Numbers:
    """Operations a cycle that a power cap allows: (P_cap - P_0) / (e_op + e_byte / I)."""
    found: Numbers = max(cap_pj_per_cycle - static_pj_per_cycle, 0.0) / (pj_per_operation + pj_per_byte / intensity)
    return found


def ridge(peak: float, bandwidth: float) -> float:
    """The time balance P / B: from here on computing limits."""
    return peak / bandwidth


def energy_balance(pj_per_operation: float, pj_per_byte: float) -> float:
    """e_byte / e_op: here bytes cost as much as operations, and half of the best efficiency is reached."""
    return pj_per_byte / pj_per_operation


def efficiency_at_ridge(at_ridge: float, balance: float) -> float:
    """Share of the best efficiency at the ridge, without static power: 1 / (1 + B_e / B_t)."""
    return 1 / (1 + balance / at_ridge)
