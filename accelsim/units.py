"""Quantities with units: text to exact numbers and back. The only place where a quantity is rounded.

In files and on the command line every quantity carries its unit (``51.2 GB/s``); in Python the unit stands in the
name (``capacity_bytes``). Between the two lies the closed table below. Numbers are read as fractions, so ``51.2 GB/s``
at ``1.6 GHz`` is exactly 32 bytes per cycle. Decimal prefixes are powers of 1000, binary ones (``KiB``) of 1024.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction

from accelsim.errors import UnitError

_BYTES = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
_BYTES_PER_SECOND = {f"{unit}/s": factor for unit, factor in _BYTES.items()}
_HERTZ = {"Hz": 1, "kHz": 10**3, "MHz": 10**6, "GHz": 10**9}
_SECONDS = {
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
    "ps": Fraction(1, 10**12),
}
_CYCLES = {"cycles": 1, "cycle": 1}
_PICOJOULES = {
    "pJ": Fraction(1),
    "fJ": Fraction(1, 10**3),
    "nJ": Fraction(10**3),
    "uJ": Fraction(10**6),
    "mJ": Fraction(10**9),
    "J": Fraction(10**12),
}
_PICOJOULES_PER_BYTE = {
    "pJ/B": Fraction(1),
    "pJ/bit": Fraction(8),
    "fJ/B": Fraction(1, 10**3),
    "fJ/bit": Fraction(8, 10**3),
}
_WATTS = {"W": Fraction(1), "mW": Fraction(1, 10**3), "uW": Fraction(1, 10**6), "kW": Fraction(10**3)}
_OPERATIONS_PER_CYCLE = {"op/cycle": 1}

_QUANTITY = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE]([+-]?\d{1,9}))?)\s*(\S.*?)?\s*", re.DOTALL)
_NOT_FINITE = re.compile(r"\s*[+-]?\.?(nan|inf|infinity)\b", re.IGNORECASE)
_LONGEST_TEXT = 60
_LARGEST_EXPONENT = 30
_LARGEST_TERM = 1 << 40

MAXIMUM_BYTES = 1 << 62
"""No size reaches this many bytes, so that sums of a few sizes stay within ``int64``."""


def parse_bytes(text: object) -> int:
    """Size in whole bytes, at least 1: ``8 MiB`` -> 8388608.

    Raises :class:`UnitError`, like every function here, for a missing or unknown unit and for a senseless number.
    """
    size = _parse(text, "size", _BYTES)
    if size.denominator != 1:
        raise UnitError(f"{_shown(text)} is {float(size):g} bytes; a size must be a whole number of bytes")
    if size >= MAXIMUM_BYTES:
        raise UnitError(f"{_shown(text)} is too large; a size must be less than 2^62 bytes (4 EiB)")
    return int(size)


def parse_rate(text: object, clock_hz: int) -> Fraction:
    """Bandwidth in bytes per cycle, exact and above 0: ``16 GB/s`` at 1 GHz -> 16; ``256 B/cycle`` needs no clock."""
    number, unit = _split(text, "bandwidth", (*_BYTES_PER_SECOND, "B/cycle"))
    _check_sign(number, text, "bandwidth", zero_allowed=False)
    rate = number if unit == "B/cycle" else number * _BYTES_PER_SECOND[unit] / clock_hz
    if max(rate.numerator, rate.denominator) > _LARGEST_TERM:
        raise UnitError(
            f"{_shown(text)} is {float(rate):g} bytes per cycle; as a fraction of whole numbers it needs terms "
            f"above 2^40. Give bandwidth and clock with fewer digits"
        )
    return rate


def parse_frequency(text: object) -> int:
    """Frequency in whole hertz, above 0: ``1.2 GHz`` -> 1200000000."""
    frequency = _parse(text, "frequency", _HERTZ)
    if frequency.denominator != 1 or frequency > _LARGEST_TERM:
        raise UnitError(f"{_shown(text)}: a frequency must be a whole number of hertz, at most 2^40")
    return int(frequency)


def parse_cycles(text: object, clock_hz: int) -> int:
    """Time in whole cycles, rounded up: ``80 ns`` at 1.2 GHz -> 96; ``5 cycles`` -> 5. Zero is allowed."""
    number, unit = _split(text, "time", (*_SECONDS, *_CYCLES))
    _check_sign(number, text, "time", zero_allowed=True)
    if unit in _CYCLES and number.denominator != 1:
        raise UnitError(f"{_shown(text)}: cycles must be a whole number")
    cycles = number if unit in _CYCLES else number * _SECONDS[unit] * clock_hz
    if cycles > _LARGEST_TERM:
        raise UnitError(f"{_shown(text)} is too long; a time must be at most {_LARGEST_TERM:,} cycles")
    return -(-cycles.numerator // cycles.denominator)


def parse_energy(text: object) -> Fraction:
    """Energy in picojoules, exact: ``200 fJ`` -> 1/5. Zero is allowed."""
    return _parse(text, "energy", _PICOJOULES, zero_allowed=True)


def parse_energy_per_byte(text: object) -> Fraction:
    """Energy in picojoules per byte, exact: ``10.5 pJ/bit`` -> 84. Zero is allowed."""
    return _parse(text, "energy per byte", _PICOJOULES_PER_BYTE, zero_allowed=True)


def parse_power(text: object) -> Fraction:
    """Power in watts, exact: ``250 mW`` -> 1/4. Zero is allowed."""
    return _parse(text, "power", _WATTS, zero_allowed=True)


def parse_throughput(text: object) -> Fraction:
    """Throughput in operations per cycle, exact and above 0: ``512 op/cycle`` -> 512."""
    throughput = _parse(text, "throughput", _OPERATIONS_PER_CYCLE)
    if max(throughput.numerator, throughput.denominator) > _LARGEST_TERM:
        raise UnitError(f"{_shown(text)} is out of range; give a throughput with fewer digits")
    return throughput


def format_bytes(size_bytes: int) -> str:
    """Size in the largest binary unit that leaves at least 1: ``9646899`` -> ``9.2 MiB``, ``8388608`` -> ``8 MiB``."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if abs(size_bytes) >= _BYTES[unit]:
            return f"{_number(size_bytes / _BYTES[unit])} {unit}"
    return f"{size_bytes} B"


def counted(count: int, noun: str) -> str:
    """A number of things: ``1 cycle``, ``2,345 cycles``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_seconds(seconds: float) -> str:
    """Time with 4 significant digits: ``0.001624151`` -> ``1.624 ms``."""
    return _scaled(seconds, {unit: float(factor) for unit, factor in _SECONDS.items()})


def format_energy(energy_pj: float) -> str:
    """Energy with 4 significant digits: ``2.8230e9`` -> ``2.823 mJ``."""
    return _scaled(energy_pj, {unit: float(factor) for unit, factor in _PICOJOULES.items()})


def did_you_mean(name: str, known: Iterable[str], limit: int = 1) -> str:
    """`` (did you mean 'x' or 'y'?)`` with the nearest of the ``known`` names, or nothing when none is near."""
    names = list(known)
    near = [one for one in names if one.lower() == name.lower()] or difflib.get_close_matches(name, names, limit, 0.5)
    return f" (did you mean {' or '.join(repr(one) for one in near)}?)" if near else ""


def _parse(text: object, quantity: str, units: Mapping[str, int | Fraction], *, zero_allowed: bool = False) -> Fraction:
    number, unit = _split(text, quantity, tuple(units))
    _check_sign(number, text, quantity, zero_allowed=zero_allowed)
    return number * units[unit]


def _split(text: object, quantity: str, units: tuple[str, ...]) -> tuple[Fraction, str]:
    """Number and unit of a text; the unit is one of ``units``."""
    accepted = f"a {quantity} needs one of the units {', '.join(units)}"
    if isinstance(text, bool) or not isinstance(text, str | int | float | Fraction):
        raise UnitError(f"{_shown(text)} is no {quantity}; {accepted}, for example '2 {units[0]}'")
    if not isinstance(text, str):
        raise UnitError(f"{text} has no unit; {accepted}, for example '{text} {units[0]}'")
    if len(text) > _LONGEST_TEXT:
        raise UnitError(f"{_shown(text)} is too long for a {quantity}; {accepted}")
    if _NOT_FINITE.match(text):
        raise UnitError(f"{_shown(text)} is not a finite number; {accepted}")
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise UnitError(f"{_shown(text)} does not begin with a number; {accepted}, for example '2 {units[0]}'")
    digits, exponent, unit = match.groups()
    unit = unit and re.sub("[\N{MICRO SIGN}\N{GREEK SMALL LETTER MU}]", "u", unit)
    if unit is None:
        raise UnitError(f"{_shown(text)} has no unit; {accepted}, for example '{digits} {units[0]}'")
    if unit not in units:
        raise UnitError(f"{_shown(text)}: unit '{unit}' is not known{did_you_mean(unit, units)}; {accepted}")
    if exponent is not None and abs(int(exponent)) > _LARGEST_EXPONENT:
        raise UnitError(f"{_shown(text)} is out of range; the exponent must lie within ±{_LARGEST_EXPONENT}")
    return Fraction(digits), unit


def _check_sign(number: Fraction, text: object, quantity: str, *, zero_allowed: bool) -> None:
    if number < 0 or (number == 0 and not zero_allowed):
        raise UnitError(f"{_shown(text)}: a {quantity} must be {'at least' if zero_allowed else 'above'} 0")


def _shown(text: object) -> str:
    """The value as the user wrote it, cut to a length that fits into a message."""
    shown = repr(text)
    return shown if len(shown) <= _LONGEST_TEXT + 2 else f"{shown[:_LONGEST_TEXT]}…"


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _scaled(value: float, units: Mapping[str, float]) -> str:
    """Value with 4 significant digits in the largest unit that leaves at least 1 (else in the smallest)."""
    ordered = sorted(units.items(), key=lambda item: -item[1])
    unit, factor = next((item for item in ordered if abs(value) >= item[1] * 0.99995), ordered[-1])
    if value == 0:
        unit, factor = next(iter(units.items()))
    return f"{value / factor:.4g} {unit.replace('u', chr(0xB5))}"


def printable(text: str) -> str:
    """A text that quotes names from files, without what would steer a terminal: colours, cursor, writing direction."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
