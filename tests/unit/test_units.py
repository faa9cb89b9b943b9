"""Units: expected values are the definitions of SI and IEC prefixes and hand arithmetic."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelsim import units
from accelsim.errors import UnitError

GHZ = 10**9


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 B", 1),
        ("8 MiB", 8388608),
        ("8MiB", 8388608),
        ("  1.5 KiB ", 1536),
        ("2 kB", 2000),
        ("1e3 B", 1000),
        ("0.5 GiB", 536870912),
    ],
)
def test_bytes(text: str, expected: int) -> None:
    assert units.parse_bytes(text) == expected


def test_rate_is_exact_and_follows_the_clock() -> None:
    assert units.parse_rate("51.2 GB/s", 1_600_000_000) == 32
    assert units.parse_rate("16 GB/s", 3 * GHZ) == Fraction(16, 3)
    assert units.parse_rate("1 GiB/s", GHZ) == Fraction(2**30, 10**9)
    assert units.parse_rate("0.3 B/cycle", GHZ) == Fraction(3, 10)


def test_time_is_rounded_up_to_whole_cycles() -> None:
    assert units.parse_cycles("80 ns", 1_200_000_000) == 96
    assert units.parse_cycles("80.1 ns", 1_200_000_000) == 97
    assert units.parse_cycles("1 ps", GHZ) == 1
    assert units.parse_cycles("0 ns", GHZ) == 0
    assert units.parse_cycles("7 cycles", GHZ) == 7
    assert units.parse_cycles("0.25 us", GHZ) == 250


def test_energy_power_frequency_throughput() -> None:
    assert units.parse_energy("200 fJ") == Fraction(1, 5)
    assert units.parse_energy("3 nJ") == 3000
    assert units.parse_energy_per_byte("10.5 pJ/bit") == 84
    assert units.parse_energy_per_byte("125 fJ/bit") == 1
    assert units.parse_energy_per_byte("1 fJ/B") == Fraction(1, 1000)
    assert units.parse_power("250 mW") == Fraction(1, 4)
    assert units.parse_power("5 uW") == Fraction(5, 10**6)
    assert units.parse_frequency("940 MHz") == 940_000_000
    assert units.parse_throughput("512 op/cycle") == 512


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("8", ["no unit", "'8 B'", "MiB"]),
        (8388608, ["no unit", "'8388608 B'", "KiB"]),
        (True, ["no size"]),
        (None, ["no size"]),
        ("8 mib", ["'mib'", "did you mean 'MiB'"]),
        ("8 Mb", ["did you mean 'MB'"]),
        ("8 xyzzy", ["'xyzzy'", "B, kB, MB"]),
        ("-1 B", ["above 0"]),
        ("0 B", ["above 0"]),
        ("nan MiB", ["not a finite"]),
        ("inf B", ["not a finite"]),
        ("-.inf B", ["not a finite"]),
        ("0.3 B", ["whole number of bytes"]),
        ("1e999999999 B", ["out of range"]),
        ("1e-999999 B", ["out of range"]),
        ("9" * 1000 + " B", ["too long"]),
        ("5000000 TiB", ["2^62"]),
        ("1,024 B", [",024 B"]),
        ("eight MiB", ["does not begin with a number"]),
        ("", ["does not begin with a number"]),
        ("8 MiB/s", ["'MiB/s'"]),
    ],
)
def test_refused_sizes_say_why(text: object, words: list[str]) -> None:
    with pytest.raises(UnitError) as error:
        units.parse_bytes(text)
    assert all(word in str(error.value) for word in words), str(error.value)
    assert len(str(error.value)) < 300


def test_refused_in_other_quantities() -> None:
    for parse, text, word in [
        (lambda t: units.parse_rate(t, GHZ), "16 GBps", "did you mean 'GB/s'"),
        (lambda t: units.parse_rate(t, GHZ), "16 GB/S", "did you mean 'GB/s'"),
        (lambda t: units.parse_rate(t, GHZ), "0 GB/s", "above 0"),
        (lambda t: units.parse_cycles(t, GHZ), "1.5 cycles", "whole number"),
        (lambda t: units.parse_cycles(t, GHZ), "-1 ns", "at least 0"),
        (lambda t: units.parse_cycles(t, GHZ), "10000000000000000000000000000000 cycles", "too long"),
        (lambda t: units.parse_cycles(t, GHZ), "1e9 s", "too long"),
        (units.parse_frequency, "1 GB/s", "GHz"),
        (units.parse_frequency, "0 GHz", "above 0"),
        (units.parse_frequency, "0.5 Hz", "whole number of hertz"),
        (lambda t: units.parse_rate(t, GHZ), "1e30 TB/s", "fewer digits"),
        (units.parse_throughput, "1e-20 op/cycle", "fewer digits"),
        (units.parse_energy, "1 pj", "did you mean 'pJ'"),
        (units.parse_throughput, "512 ops/cycle", "did you mean 'op/cycle'"),
        (units.parse_power, "1 watt", "mW"),
    ]:
        with pytest.raises(UnitError, match=word.replace("(", r"\(")):
            parse(text)


@given(number=st.integers(1, 10**9), unit=st.sampled_from([("KiB", 10), ("MiB", 20), ("GiB", 30)]))
def test_formatted_sizes_read_back(number: int, unit: tuple[str, int]) -> None:
    size = number << unit[1]
    shown = units.format_bytes(size)
    value, shown_unit = shown.split()
    factor = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}[shown_unit]
    assert abs(float(value) * factor - size) <= 0.005 * factor * 1.000001


@given(text=st.text(max_size=80))
def test_any_text_is_a_size_or_a_unit_error(text: str) -> None:
    with contextlib.suppress(UnitError):
        assert units.parse_bytes(text) >= 1


def test_formats() -> None:
    assert units.format_bytes(8388608) == "8 MiB"
    assert units.format_bytes(9646899) == "9.2 MiB"
    assert units.format_bytes(1023) == "1023 B"
    assert units.format_seconds(0.9999999) == "1 s"
    assert units.format_energy(2.823e9) == "2.823 mJ"
    assert units.format_energy(0.018) == "18 fJ"
    assert units.format_seconds(2.5e-6) == "2.5 µs"
    assert units.parse_cycles("2.5 µs", GHZ) == units.parse_cycles("2.5 μs", GHZ) == 2500  # as printed, and in Greek
