"""Files that accelsim ships, and files that it writes: these appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from accelsim.errors import InputError

PACKAGE = Path(__file__).parent


def data_folder(name: str) -> Path:
    """The folder ``name`` (``hw_templates`` or ``workloads``) of the files that come with accelsim.

    Raises :class:`FileNotFoundError` when the installation lacks it.
    """
    for parent in (PACKAGE / "data", PACKAGE.parent):
        if (parent / name).is_dir():
            return parent / name
    raise FileNotFoundError(f"accelsim's data folder '{name}' is neither in {PACKAGE / 'data'} nor in {PACKAGE.parent}")


def files_by_name(folder: Path, suffix: str) -> dict[str, Path]:
    """The files of a folder and all below it with this suffix, by stem, sorted by name."""
    return {path.stem: path for path in sorted(folder.rglob(f"*{suffix}"), key=lambda path: path.stem)}


def cache_folder() -> Path | None:
    """The folder of what is kept between runs, made if it is missing; None where nothing can be written.

    It lies in ``XDG_CACHE_HOME`` or ``~/.cache``.
    """
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "accelsim"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: there is no home directory
        return None
    return folder if os.access(folder, os.W_OK) else None


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
