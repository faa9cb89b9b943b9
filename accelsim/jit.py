"""The one decorator that compiles a loop. Nothing else in the package imports numba.

A kernel is a small pure function: it takes NamedTuples of one-dimensional ``int64`` columns and writes into arrays that
it was handed. Compiled code is kept on disk. Numba alone would reuse it when a *called* function, or a constant, has
changed in another file, and then give wrong answers; so the folder is named by a hash of every source that compiled
code is made of. A changed kernel finds an empty folder, an unchanged one is loaded in a fraction of a second.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

PACKAGE = Path(__file__).parent
IMPORTS = re.compile(r"^\s*from (accelsim(?:\.\w+)*) import|^\s*import (accelsim(?:\.\w+)*)", re.MULTILINE)

numba_settings: Any = numba.config  # its names are made at run time
jit: Any = numba.njit  # its declared type lacks _nrt

Function = TypeVar("Function", bound=Callable[..., object])


def kernel_sources(package: Path = PACKAGE) -> list[Path]:
    """The files that compiled code is made of: those that import this module, and what these import from the package.

    The second kind holds constants and table types that a kernel compiles in.
    """
    texts = {path: path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    imported = {path: {first or second for first, second in IMPORTS.findall(text)} for path, text in texts.items()}
    kernels = [path for path in texts if "accelsim.jit" in imported[path]]
    modules = {module for path in kernels for module in imported[path]}
    named = {
        path for path in texts if ".".join(("accelsim", *path.relative_to(package).with_suffix("").parts)) in modules
    }
    return sorted({*kernels, *named})


def kernel_hash(package: Path = PACKAGE) -> str:
    """Names everything that decides what compiled code does: the sources, numba's version, bounds checking."""
    digest = hashlib.sha256(f"{numba.__version__} {numba_settings.BOUNDSCHECK}".encode())
    for path in kernel_sources(package):
        digest.update(f"\n{path.relative_to(package)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path | None:
    """The folder for compiled code, made if it is missing; None where nothing can be written.

    It lies in ``NUMBA_CACHE_DIR`` if that is set, else in ``XDG_CACHE_HOME`` or ``~/.cache``.
    """
    root = numba_settings.CACHE_DIR or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        folder = Path(root).expanduser() / "accelsim" / f"kernels-{kernel_hash()}"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: there is no home directory
        return None


CACHE_FOLDER = cache_folder()


def kernel(function: Function) -> Function:
    """Compile ``function`` at its first call, for the types it is called with, and keep the result on disk.

    A kernel makes no arrays (numba refuses to compile one that does): to count references to them would take half the
    time. The interpreter's lock is released while it runs. Under ``NUMBA_DISABLE_JIT=1`` it stays plain Python.
    """
    before = numba_settings.CACHE_DIR
    numba_settings.CACHE_DIR = str(CACHE_FOLDER or "")  # read while decorating; other users of numba keep their own
    try:
        compiled: Any = jit(
            cache=CACHE_FOLDER is not None, nogil=True, error_model="numpy", forceinline=True, _nrt=False
        )(function)
    finally:
        numba_settings.CACHE_DIR = before
    return cast(Function, compiled)
