"""The notation as text and as JSON: both give back what they were given, and say where they cannot be understood."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import FormatError
from accelsim.formats.schedule_json import read_schedule, write_schedule
from accelsim.schedule.notation import DramTensor, Schedule, TensorKind
from accelsim.schedule.text import format_schedule, parse_schedule

TEXT = """\
schedule of net
( a "b 1" )*2
|| ( c )*1
| ( d )*4
load_weight  a             [-1, 4)
load_input   a[0] from x   [-1, 1)
store_output "b 1"[1]      [3, 6)
"""
SCHEDULE = Schedule(
    "net",
    ("a", "b 1", "c", "d"),
    (2, 3),
    (2,),
    (2, 1, 4),
    (
        DramTensor(TensorKind.LOAD_WEIGHT, "a", None, None, -1, 4),
        DramTensor(TensorKind.LOAD_INPUT, "a", 0, "x", -1, 1),
        DramTensor(TensorKind.STORE_OUTPUT, "b 1", 1, None, 3, 6),
    ),
)

names = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=8)
whole = st.integers(-1, 10**9)


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    order = draw(st.lists(names, min_size=1, max_size=6))
    places = range(1, len(order))
    fusion_cuts = tuple(place for place in places if draw(st.booleans()))
    tensors = st.builds(
        DramTensor, st.sampled_from(TensorKind), names, st.none() | st.integers(0, 99), st.none() | names, whole, whole
    )
    return Schedule(
        draw(names),
        tuple(order),
        fusion_cuts,
        tuple(cut for cut in fusion_cuts if draw(st.booleans())),
        tuple(draw(st.integers(-3, 99)) for _ in range(len(fusion_cuts) + 1)),
        draw(st.none() | st.lists(tensors, min_size=1, max_size=4).map(tuple)),
    )


def test_text_by_hand() -> None:
    assert parse_schedule(TEXT) == SCHEDULE
    assert parse_schedule(TEXT.replace("\n||", " # a comment\n\n||")) == SCHEDULE
    assert parse_schedule("schedule of net ( a )*1") == Schedule("net", ("a",), (), (), (1,))


@given(schedules())
@settings(max_examples=200, deadline=None)
def test_both_forms_give_back_what_they_were_given(schedule: Schedule) -> None:
    assert parse_schedule(format_schedule(schedule)) == schedule
    assert parse_schedule(str(schedule)) == schedule


@given(schedules())
@settings(max_examples=50, deadline=None)
def test_files_of_both_forms(tmp_path_factory: pytest.TempPathFactory, schedule: Schedule) -> None:
    path = tmp_path_factory.mktemp("schedules") / "schedule"
    path.write_bytes(write_schedule(schedule).encode())
    assert read_schedule(path) == schedule
    path.write_bytes(format_schedule(schedule).encode())
    assert read_schedule(path) == schedule


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "ends where schedule was expected"),
        ("schedule net", "s:1: found 'net'; expected of"),
        ("schedule of net", r"ends where \( was expected"),
        ("schedule of net\n( a )\n", r"s:2: found '\)'; expected \)\*"),
        ("schedule of net\n( a )*x", "s:2: found 'x'; expected a tiling number"),
        ("schedule of net\n( )*1", r"s:2: found '\)\*'; expected an operator's name"),
        (
            "schedule of net\n( a )*1\nload_wieght a [0, 1)",
            "s:3: found 'load_wieght'; expected load_weight, load_input",
        ),
        ("schedule of net\n( a )*1\nload_weight a [0, 1", r"ends where \) was expected"),
        ("schedule of net\n( a )*1\nload_weight a [0.5, 1)", "s:3: found '0.5'; expected a start position"),
        ("schedule of net\n( a )*1 ?", "s:2:9: '\\?' is no part of a schedule"),
        ('schedule of net\n( "a\\q" )*1', "s:2: .* is no quoted name"),
    ],
)
def test_what_cannot_be_understood(text: str, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        parse_schedule(text, "s")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "not JSON, or cut short"),
        (b'{"schema": 1}', "5 mistakes"),
        (
            b'{"schema": 2, "workload": "", "order": [], "fusion_cuts": [], "dram_cuts": [], "tiling_numbers": [NaN]}',
            "NaN",
        ),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "s.json"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=words):
        read_schedule(path)
    with pytest.raises(FormatError, match="cannot be read"):
        read_schedule(tmp_path)
    with pytest.raises(FormatError, match="cannot be read"):
        read_schedule(tmp_path / "missing")
