"""The notation as text that people read and write; :func:`format_schedule` and :func:`parse_schedule` undo each other.

::

    schedule of soma.resnet50
    ( conv1 pool1 )*4 | ( conv2a conv2b )*2 || ( fc )*1
    load_weight  conv1                  [-1, 8)
    load_input   conv1[0] from input    [-1, 1)
    store_output conv2b[0]              [8, 11)

The second part is the computing order: fused groups in parentheses with their tiling numbers, ``|`` a fusion cut,
``||`` a DRAM cut; it may run over several lines. Then come the DRAM tensors, in DRAM tensor order, with their living
durations; without any, default double buffering applies. Names with anything but letters, digits and ``_ . : / -``
are quoted as in JSON. ``#`` begins a comment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from accelsim.errors import FormatError
from accelsim.schedule.notation import DramTensor, Schedule, TensorKind

_PLAIN = re.compile(r"[\w.:/\-]+")
_TOKEN = re.compile(
    r"""\s*(?:\#.*|(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<mark>\|\||\||\)\*|[()\[\],])|(?P<word>[\w.:/\-]+))""", re.VERBOSE
)


class _Token(NamedTuple):
    kind: str
    text: str
    place: str


def format_schedule(schedule: Schedule) -> str:
    """The schedule as text."""
    groups = []
    for number, (begin, end) in enumerate(schedule.groups):
        cut = "" if not begin else ("|| " if begin in schedule.dram_cuts else "| ")
        names = " ".join(_name(name) for name in schedule.order[begin:end])
        groups.append(f"{cut}( {names} )*{schedule.tiling_numbers[number]}")
    lines = [f"schedule of {_name(schedule.workload)}", *groups]
    rows = []
    for tensor in schedule.dram_tensors or ():
        tile = "" if tensor.tile is None else f"[{tensor.tile}]"
        source = "" if tensor.producer is None else f" from {_name(tensor.producer)}"
        rows.append((tensor.kind.value, f"{_name(tensor.operator)}{tile}{source}", tensor.start, tensor.end))
    width = max((len(what) for _, what, _, _ in rows), default=0)
    lines += [f"{kind:<12} {what:<{width}}  [{start}, {end})" for kind, what, start, end in rows]
    return "\n".join(lines) + "\n"


def parse_schedule(text: str, place: str = "schedule") -> Schedule:
    """The schedule that ``text`` tells; ``place`` is what messages call it.

    Raises:
        FormatError: with the line, what was found and what was expected.
    """
    return _Parser(list(_tokens(text, place)), place).schedule()


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _tokens(text: str, place: str) -> Iterator[_Token]:
    for number, line in enumerate(text.split("\n"), 1):
        position = 0
        while position < len(line.rstrip(" \t\r")):
            match = _TOKEN.match(line, position)
            if match is None:
                found = line[position:].lstrip()
                column = len(line) - len(found) + 1
                raise FormatError(f"{place}:{number}:{column}: {found.strip()[:20]!r} is no part of a schedule")
            position = match.end()
            if match["quoted"] is not None:
                try:
                    yield _Token("name", json.loads(match["quoted"]), f"{place}:{number}")
                except json.JSONDecodeError:
                    raise FormatError(f"{place}:{number}: {match['quoted'][:40]} is no quoted name") from None
            elif match["mark"] is not None:
                yield _Token(match["mark"], match["mark"], f"{place}:{number}")
            elif match["word"] is not None:
                yield _Token("word", match["word"], f"{place}:{number}")


class _Parser:
    """Takes the tokens from the front, one rule of the grammar a method."""

    def __init__(self, tokens: list[_Token], place: str) -> None:
        self.tokens = tokens
        self.next = 0
        self.place = place

    def schedule(self) -> Schedule:
        self.take("word", "schedule")
        self.take("word", "of")
        workload = self.name("the workload's name")
        order: list[str] = []
        cuts: tuple[list[int], list[int]] = ([], [])
        numbers: list[int] = []
        self.group(order, numbers)
        while self.peek() in ("|", "||"):
            is_dram_cut = self.take().text == "||"
            cuts[0].append(len(order))
            if is_dram_cut:
                cuts[1].append(len(order))
            self.group(order, numbers)
        tensors = []
        while self.peek() is not None:
            tensors.append(self.tensor())
        listed = tuple(tensors) if tensors else None
        return Schedule(workload, tuple(order), tuple(cuts[0]), tuple(cuts[1]), tuple(numbers), listed)

    def group(self, order: list[str], numbers: list[int]) -> None:
        self.take("(", "(")
        order.append(self.name("an operator's name"))
        while self.peek() in ("word", "name"):
            order.append(self.name("an operator's name"))
        self.take(")*", ")*")
        numbers.append(self.number("a tiling number"))

    def tensor(self) -> DramTensor:
        token = self.take("word", "load_weight, load_input, store_output, | or ||")
        if token.text not in list(TensorKind):
            raise FormatError(
                f"{token.place}: found '{token.text}'; expected load_weight, load_input, store_output, | or ||"
            )
        operator, tile, producer = self.name("an operator's name"), None, None
        if self.peek() == "[" and self.peek(2) == "]":
            self.take("[", "[")
            tile = self.number("a tile number")
            self.take("]", "]")
        if self.peek() == "word" and self.tokens[self.next].text == "from":
            self.take()
            producer = self.name("a producer's name")
        self.take("[", "[")
        start = self.number("a start position")
        self.take(",", ",")
        end = self.number("an end position")
        self.take(")", ")")
        return DramTensor(TensorKind(token.text), operator, tile, producer, start, end)

    def peek(self, ahead: int = 0) -> str | None:
        return self.tokens[self.next + ahead].kind if self.next + ahead < len(self.tokens) else None

    def take(self, kind: str | None = None, expected: str = "") -> _Token:
        if self.next == len(self.tokens):
            raise FormatError(f"{self.place}: ends where {expected} was expected")
        token = self.tokens[self.next]
        if kind is not None and (token.kind != kind or (expected in ("schedule", "of") and token.text != expected)):
            raise FormatError(f"{token.place}: found '{token.text}'; expected {expected}")
        self.next += 1
        return token

    def name(self, expected: str) -> str:
        if self.peek() not in ("word", "name"):
            return self.take("name", expected).text
        return self.take().text

    def number(self, expected: str) -> int:
        token = self.take("word", expected)
        if not re.fullmatch(r"-?\d{1,12}", token.text):
            raise FormatError(f"{token.place}: found '{token.text}'; expected {expected}")
        return int(token.text)
