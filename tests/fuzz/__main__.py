"""``python -m tests.fuzz TARGET --seconds 600``: feeds changed files to a reader; what is no refusal is a fault.

A process of its own reads the files, so that a crash of a library is found too, and so is what takes too long. Files
with which something went wrong are kept in ``--keep``, with the traceback beside them.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import resource
import signal
import time
import traceback
import warnings
from itertools import islice
from pathlib import Path
from types import FrameType

from accelsim.errors import AccelsimError
from tests.fuzz.targets import TARGETS, cases

MEMORY_BYTES = 6 << 30
SLOW_SECONDS = 60
BATCH = 200


class TooSlow(Exception):  # noqa: N818
    """A file took longer than :data:`SLOW_SECONDS`."""


def _too_slow(signal_number: int, frame: FrameType | None) -> None:
    raise TooSlow


def check(name: str, path: Path) -> None:
    """Uses a file; returns when it was read or refused, raises what should not have been raised."""
    try:
        TARGETS[name].use(path)
    except AccelsimError as error:
        assert str(error), "an error without a message"


def _work(name: str, seed: int, folder: Path, keep: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGALRM, _too_slow)
    faulthandler.enable((keep / "crash.txt").open("a"))
    warnings.simplefilter("error")
    path = folder / TARGETS[name].suffix
    for number, content in enumerate(islice(cases(TARGETS[name], seed), BATCH)):
        path.write_bytes(content)
        signal.alarm(SLOW_SECONDS)
        try:
            check(name, path)
        except BaseException as fault:
            stem = f"{name}-{seed}-{number}-{type(fault).__name__}"
            (keep / f"{stem}.{TARGETS[name].suffix}").write_bytes(content)
            (keep / f"{stem}.txt").write_text(traceback.format_exc(), encoding="utf-8", errors="replace")
            print(f"{stem}: {traceback.format_exc().strip().splitlines()[-1][:200]}", flush=True)
        finally:
            signal.alarm(0)


def _warm(name: str, folder: Path) -> None:
    """Imports and compiles what a valid file needs, so that no time limit ends that."""
    folder.mkdir(exist_ok=True)
    path = folder / TARGETS[name].suffix
    path.write_bytes(TARGETS[name].seeds()[0])
    check(name, path)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", default=list(TARGETS), help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, default=Path("fuzz-found"), help="folder for what was found")
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    for name in given.targets:
        _warm(name, given.keep / "work")
        end, seed = time.monotonic() + given.seconds, given.seed
        while time.monotonic() < end:
            folder = given.keep / "work"
            process = multiprocessing.get_context("fork").Process(target=_work, args=(name, seed, folder, given.keep))
            process.start()
            process.join()
            if process.exitcode:
                last = folder / TARGETS[name].suffix
                if last.exists():
                    last.rename(given.keep / f"{name}-{seed}-crash{process.exitcode}.{TARGETS[name].suffix}")
                print(f"{name}-{seed}: the process ended with {process.exitcode}", flush=True)
            seed += 1
        print(f"{name}: {(seed - given.seed) * BATCH} files", flush=True)


if __name__ == "__main__":
    main()
