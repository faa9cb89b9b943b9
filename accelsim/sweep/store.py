"""The results of a sweep in one SQLite file, which may be killed at any moment and gone on with."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from accelsim.errors import FormatError, InputError
from accelsim.sweep.spec import Point, Settings

APPLICATION = 0x61636365  # "acce", which SQLite keeps in the file's head
SCHEMA = 1
OPEN, OK, REFUSED, FAULT, CRASHED = "open", "ok", "refused", "fault", "crashed"
"""Not run yet; run; accelsim said why it cannot run; a fault of accelsim; its process was killed, again and again."""


class Result(NamedTuple):
    """One row of the file."""

    key: str
    settings: Settings
    status: str
    summary: dict[str, Any]
    """As ``accelsim run --json`` prints it, without the seconds; empty unless ``status`` is ``ok``."""
    message: str
    seconds: float
    """That the run took, search included."""


class ResultStore:
    """Opens a results file, and makes it if it is missing. Only one process writes.

    Raises:
        FormatError: the file is something else.
        InputError: it cannot be written.
    """

    def __init__(self, path: str | Path, *, must_exist: bool = False) -> None:
        self.path = Path(path)
        if must_exist and not self.path.is_file():
            raise InputError(f"{path}: no such results file; `accelsim sweep SPEC --results {path}` makes it")
        try:
            self._base = sqlite3.connect(self.path, timeout=30, isolation_level=None)
            (application,) = self._base.execute("PRAGMA application_id").fetchone()
            (version,) = self._base.execute("PRAGMA user_version").fetchone()
            (tables,) = self._base.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.DatabaseError as error:
            raise FormatError(f"{path}: is not a results file of accelsim sweep ({error})") from None
        if tables and (application != APPLICATION or version != SCHEMA):
            self._base.close()
            raise FormatError(f"{path}: a database, but none that accelsim sweep of this version has made")
        if tables == 0:
            self._make()

    def _make(self) -> None:
        try:
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.executescript(
                f"""
                PRAGMA application_id = {APPLICATION};
                PRAGMA user_version = {SCHEMA};
                CREATE TABLE IF NOT EXISTS runs (
                    place INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, settings TEXT NOT NULL, status TEXT NOT NULL,
                    summary TEXT NOT NULL, message TEXT NOT NULL, seconds REAL NOT NULL
                );
                """
            )
        except sqlite3.OperationalError as error:
            raise InputError(f"{self.path}: cannot be written: {error}") from None

    def __enter__(self) -> ResultStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._base.close()

    def add(self, points: Iterable[Point]) -> dict[str, str]:
        """Enters runs that are not there yet, in this order; returns the status of each, by key."""
        rows = [(point.key, json.dumps(point.settings), OPEN) for point in points]
        with self._base:
            self._base.execute("BEGIN IMMEDIATE")
            self._base.executemany(
                "INSERT OR IGNORE INTO runs (key, settings, status, summary, message, seconds) "
                "VALUES (?, ?, ?, '{}', '', 0)",
                rows,
            )
            known = dict(self._base.execute("SELECT key, status FROM runs"))
        return {key: known[key] for key, _, _ in rows}

    def put(self, key: str, status: str, summary: dict[str, Any], message: str, seconds: float) -> None:
        """Keeps the outcome of a run."""
        self._base.execute(
            "UPDATE runs SET status = ?, summary = ?, message = ?, seconds = ? WHERE key = ?",
            (status, json.dumps(summary, allow_nan=False), message, seconds, key),
        )

    def results(self) -> Iterator[Result]:
        """All rows, in the order in which they were entered.

        Raises:
            FormatError: the file is damaged.
        """
        try:
            rows = self._base.execute(
                "SELECT key, settings, status, summary, message, seconds FROM runs ORDER BY place"
            ).fetchall()
            for key, settings, status, summary, message, seconds in rows:
                yield Result(key, json.loads(settings), status, json.loads(summary), message, seconds)
        except (sqlite3.DatabaseError, ValueError) as error:
            raise FormatError(f"{self.path}: damaged: {error}") from None
