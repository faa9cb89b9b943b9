"""Running the command line in tests: in a process of its own as a user does, or, quicker, in this one."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest import mock


class Finished(NamedTuple):
    """What a command left."""

    status: int
    stdout: str
    stderr: str


def in_own_process(*arguments: object, folder: Path, status: int = 0) -> Finished:
    """Runs ``accelsim ARGUMENTS`` in ``folder``; asserts its exit status, and that it shows no traceback."""
    run = subprocess.run(
        [sys.executable, "-m", "accelsim", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return _checked(Finished(run.returncode, run.stdout, run.stderr), arguments, status)


def in_this_process(*arguments: object, folder: Path, status: int = 0) -> Finished:
    """The same through the entry point of the command; an error that it does not catch fails the test by itself."""
    from accelsim.cli import main

    out, err = io.StringIO(), io.StringIO()
    code: object = None
    with (
        chdir(folder),
        redirect_stdout(out),
        redirect_stderr(err),
        mock.patch.object(sys, "argv", ["accelsim", *map(str, arguments)]),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int)
    return _checked(Finished(code, out.getvalue(), err.getvalue()), arguments, status)


def _checked(finished: Finished, arguments: tuple[object, ...], status: int) -> Finished:
    assert finished.status == status, f"{arguments}: {finished}"
    assert "Traceback" not in finished.stderr
    return finished
