"""Files of other tools' traces: their bytes, unpacked if they are compressed, and their JSON."""

from __future__ import annotations

import gzip
import json
import zlib
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from accelsim.errors import FormatError

LARGEST_FILE_BYTES = 1 << 31
"""Of a trace, unpacked."""
GZIP = b"\x1f\x8b"


def unpacked(path: Path, largest: int = LARGEST_FILE_BYTES) -> bytes:
    """What a file holds, unpacked where it begins as gzip does.

    Raises:
        FormatError: it cannot be read, is cut short, or holds more than ``largest`` bytes.
    """
    try:
        with path.open("rb") as file:
            packed = file.peek(2)[:2] == GZIP
            content = gzip.GzipFile(fileobj=file).read(largest + 1) if packed else file.read(largest + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > largest:
        raise FormatError(f"{path}: more than {largest:,} bytes; record less")
    return content


def json_values(content: bytes, place: str) -> list[Any]:
    """The values that stand in a text of JSON, one or several behind one another; broken numbers as Decimal, exactly.

    Raises:
        FormatError: it is no JSON.
    """
    decoder = json.JSONDecoder(parse_float=Decimal)
    found = []
    try:
        text = content.decode().strip()
        at = 0
        while at < len(text):
            value, at = decoder.raw_decode(text, at)
            found.append(value)
            while text[at : at + 1].isspace():
                at += 1
    except InvalidOperation:
        raise FormatError(f"{place}: holds a number whose exponent has too many digits; write it out") from None
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{place}: is not JSON: {error}") from None
    return found
