"""The colours of kinds and causes can be told apart, also by people who see two of the three primary colours as one."""

from itertools import combinations

import numpy as np
import pytest

from accelsim.plot.style import CAUSE_COLORS, FINER_CAUSE_COLORS, KIND_COLORS
from accelsim.timeline.kinds import KINDS
from accelsim.timeline.stalls import ALWAYS_NAMED, CAUSE_NAMES

LEAST_DIFFERENCE = 16
"""In CIE 1976 (L*, a*, b*), where about 2.3 is just noticeable."""
# Machado, Oliveira, Fernandes: A Physiologically-based Model for Simulation of Color Vision Deficiency, IEEE TVCG 2009,
# severity 1.0; they act on linear RGB.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}
XYZ_OF_SRGB = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]  # IEC 61966-2-1
WHITE = [0.9505, 1.0, 1.089]


def lab(colour, vision):
    red_green_blue = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(red_green_blue <= 0.04045, red_green_blue / 12.92, ((red_green_blue + 0.055) / 1.055) ** 2.4)
    relative = XYZ_OF_SRGB @ np.clip(np.asarray(vision) @ linear, 0, 1) / WHITE
    x, y, z = np.where(relative > 0.008856, np.cbrt(relative), 7.787 * relative + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISIONS)
def test_no_two_are_alike(vision):
    colours = {**KIND_COLORS, **CAUSE_COLORS, **FINER_CAUSE_COLORS}
    seen = {name: lab(colour, VISIONS[vision]) for name, colour in colours.items()}
    near = {pair: float(np.linalg.norm(seen[pair[0]] - seen[pair[1]])) for pair in combinations(seen, 2)}
    assert min(near.values()) >= LEAST_DIFFERENCE, min(near.items(), key=lambda item: item[1])


def test_black_and_white_are_a_hundred_apart():
    assert np.linalg.norm(lab("#ffffff", np.eye(3)) - lab("#000000", np.eye(3))) == pytest.approx(100, abs=0.1)


def test_every_kind_and_cause_has_a_colour():
    assert set(KIND_COLORS) == set(KINDS)
    assert set(CAUSE_COLORS) == {*ALWAYS_NAMED, *CAUSE_NAMES.values()}
