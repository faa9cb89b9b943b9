"""Where a search stands, in a file: what was annealed so far, so that the same search can go on from there."""

from __future__ import annotations

import io
import time
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from accelsim.errors import FormatError, InputError
from accelsim.files import write_whole

SECONDS_BETWEEN = 5.0

Array = npt.NDArray[Any]


def columns_of(state: tuple[Any, ...]) -> list[Array]:
    """The arrays of an annealing's state, nested tuples flattened."""
    found: list[Array] = []
    for part in state:
        found.extend(columns_of(part) if isinstance(part, tuple) else [part])
    return found


class Checkpoint:
    """The states of all annealing steps of a search, in the order in which it takes them.

    A search is a fixed sequence of steps as long as nobody stops it; so a step's number says all. A finished step is
    not run again, the one under way goes on, and the answer is that of an uninterrupted search.
    """

    def __init__(self, path: Path, key: str) -> None:
        self.path = path
        self.key = key
        self.steps = self._read() if path.exists() else []
        self.number = 0
        self.saved_at = time.monotonic()

    def restore(self, state: tuple[Any, ...]) -> None:
        """Brings the next step's state to where the file has it, and keeps that state from now on.

        Raises:
            FormatError: the file's arrays are not those of such a step.
        """
        number, self.number = self.number, self.number + 1
        if number == len(self.steps):
            self.steps.append([])
        columns, saved = columns_of(state), self.steps[number]
        if saved:
            if [(a.shape, a.dtype) for a in saved] != [(b.shape, b.dtype) for b in columns]:
                raise FormatError(f"{self.path}: step {number} of the checkpoint is damaged; delete the file")
            for column, source in zip(columns, saved, strict=True):
                column[...] = source
        self.steps[number] = columns

    def save(self, *, force: bool = False) -> None:
        """Writes the file, if it is due or ``force``."""
        if not force and time.monotonic() - self.saved_at < SECONDS_BETWEEN:
            return
        arrays = {f"{step}.{row}": one for step, rows in enumerate(self.steps) for row, one in enumerate(rows)}
        buffer = io.BytesIO()
        np.savez_compressed(buffer, key=np.array(self.key), **arrays)  # type: ignore[arg-type]
        write_whole(self.path, buffer.getvalue())
        self.saved_at = time.monotonic()

    def _read(self) -> list[list[Array]]:
        try:
            with np.load(io.BytesIO(self.path.read_bytes()), allow_pickle=False) as file:
                names = set(file.files) - {"key"}
                key = str(file["key"])
                steps: list[list[Array]] = []
                while f"{len(steps)}.0" in names:
                    rows: list[Array] = []
                    while (name := f"{len(steps)}.{len(rows)}") in names:
                        rows.append(file[name])
                    steps.append(rows)
        except OSError as error:
            raise FormatError(f"{self.path}: cannot be read: {error.strerror}; give the name of another file") from None
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
            raise FormatError(
                f"{self.path}: is no checkpoint of a search, or a damaged one; give the name of another file"
            ) from None
        if key != self.key:
            raise InputError(
                f"{self.path}: is the checkpoint of another search: it has\n    {key}\n"
                f"and this one is\n    {self.key}\nDelete the file, or give the name of another one."
            )
        return steps
