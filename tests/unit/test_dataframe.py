"""The events as a data frame, and as a table in a notebook."""

from __future__ import annotations

import sys

import pytest

from accelsim.engine import simulate
from accelsim.errors import MissingExtra
from tests.strategies.programs import Dice, legal_program


def test_data_frame_or_the_name_of_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    timeline = simulate(legal_program(Dice(1), 20), engine="reference")
    try:
        import pandas
    except ImportError:
        pandas = None
    if pandas is not None:
        frame = timeline.to_dataframe()
        assert frame["end_cycles"].tolist() == timeline.events.end_cycles.tolist()
        assert frame["bytes"].sum() == timeline.program.activities.bytes.sum()
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"accelsim\[dataframe\]"):
        timeline.to_dataframe()


def test_notebook_table() -> None:
    timeline = simulate(legal_program(Dice(2), 20), engine="reference")
    assert f"{timeline.latency_cycles:,} cycles" in timeline._repr_html_()
