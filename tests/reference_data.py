"""Where tests find figures made by other programs: a few copied into ``tests/data``, all of them beside a full
checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

COPIED = Path(__file__).parent / "data"
BESIDE = Path(__file__).parents[2] / "shared" / "data"
"""Whole tables, when this checkout has them beside it."""


def whole_table(name: str) -> Path:
    """A file or folder of the whole tables; skips the test, and says so, where there are none."""
    path = BESIDE / name
    if not path.exists():
        pytest.skip(f"the whole table {name} is not beside this checkout; the copied part of it was tested")
    return path
