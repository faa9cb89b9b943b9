"""Files appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from accelsim.errors import InputError


def write_whole(path: Path, content: bytes) -> None:
    """Writes ``content`` beside the target and moves it there, so that nobody ever sees half a file.

    Raises:
        InputError: the target is a folder, or its folder is missing or cannot be written.
    """
    if path.is_dir():
        raise InputError(f"{path}: is a folder; give the name of a file")
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        beside.unlink(missing_ok=True)
