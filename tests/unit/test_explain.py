"""A Program in words: every figure whole, every line within the width that it is given."""

import dataclasses

import pytest

from accelsim.program.explain import explain
from tests.timelines import worked_program

LONG = "/model/encoder/layer.{}/attention/self/query/MatMul_output_{}"


def long_names():
    program = worked_program()
    return dataclasses.replace(
        program, operator_names=tuple(LONG.format(number, number) for number in range(len(program.operator_names)))
    )


@pytest.mark.parametrize("width", [70, 80, 133])
def test_lines_fit_and_lose_nothing(width):
    program = long_names()
    text = str(explain(program, width=width))
    assert max(map(len, text.splitlines())) <= width
    joined = "".join(text.split())
    for line in str(explain(program)).splitlines():
        assert "".join(line.split()) in joined


def test_without_a_width_a_row_is_a_line():
    program = long_names()
    lines = str(explain(program)).splitlines()
    assert sum("MatMul_output" in line for line in lines) == program.size
    # the third tile of A: 30 cycles, named whole
    assert any(line.split()[:2] == ["4", "40"] for line in lines)


def test_names_cannot_steer_the_terminal():
    program = dataclasses.replace(worked_program(), operator_names=("\x1b[31mred", "\u202eB", "C"))
    text = str(explain(program, width=80))
    assert "\x1b" not in text and "\u202e" not in text and "\\x1b[31mred" in text
