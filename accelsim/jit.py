"""The one decorator that compiles a loop. Nothing else in the package imports numba.

A kernel is a small pure function: it takes NamedTuples of one-dimensional ``int64`` columns and writes into arrays that
it was handed. Compiled code is kept on disk. Numba alone would reuse it when a *called* function, or a constant, has
changed in another file, and then give wrong answers; so each module's folder is named by a hash of every source that
its compiled code is made of. A changed kernel finds an empty folder, an unchanged one is loaded in a fraction of a
second, and an edit compiles only what depends on it.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

PACKAGE = Path(__file__).parent
IMPORTS = re.compile(r"^\s*from (accelsim(?:\.\w+)*) import|^\s*import (accelsim(?:\.\w+)*)", re.MULTILINE)

numba_settings: Any = numba.config  # its names are made at run time
jit: Any = numba.njit  # its declared type lacks _nrt
unliteral: Any = numba.types.unliteral

Function = TypeVar("Function", bound=Callable[..., object])


@cache
def _package_imports(package: Path) -> dict[Path, frozenset[Path]]:
    """The files of a package, and of each the package's files that it imports."""
    imports = {}
    for path in package.rglob("*.py"):
        found = IMPORTS.findall(path.read_text(encoding="utf-8"))
        modules = (package.joinpath(*(first or second).split(".")[1:]).with_suffix(".py") for first, second in found)
        imports[path] = frozenset(modules)
    return imports


def kernel_modules(package: Path = PACKAGE) -> list[Path]:
    """The files that hold kernels: those that import this module."""
    return sorted(path for path, imported in _package_imports(package).items() if package / "jit.py" in imported)


def kernel_sources(modules: Iterable[Path], package: Path = PACKAGE) -> list[Path]:
    """The files that the compiled code of these modules is made of.

    They are the modules, the kernel modules that they import, directly or through others, and what all of these import
    from the package: it holds the constants and table types that a kernel compiles in.
    """
    imports = _package_imports(package)
    kernels = set(kernel_modules(package))
    sources: set[Path] = set()
    waiting = list(modules)
    while waiting:
        path = waiting.pop()
        if path not in sources and path in imports:
            sources.add(path)
            waiting += imports[path] if path in kernels else ()
    return sorted(sources)


def kernel_hash(modules: Iterable[Path] | None = None, package: Path = PACKAGE) -> str:
    """Names all that decides what the compiled code of these modules (all, unless given) does.

    That is the sources, numba's version, and bounds checking.
    """
    digest = hashlib.sha256(f"{numba.__version__} {numba_settings.BOUNDSCHECK}".encode())
    for path in kernel_sources(kernel_modules(package) if modules is None else modules, package):
        digest.update(f"\n{path.relative_to(package)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def cache_folder(module: Path) -> Path | None:
    """The folder for a module's compiled code, made if it is missing; None where nothing can be written.

    It lies in ``NUMBA_CACHE_DIR`` if that is set, else in ``XDG_CACHE_HOME`` or ``~/.cache``.
    """
    root = numba_settings.CACHE_DIR or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        name = kernel_hash([module] if PACKAGE in module.parents else None)
        folder = Path(root).expanduser() / "accelsim" / f"{module.stem}-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: there is no home directory
        return None


def kernel(function: Function) -> Function:
    """Compile ``function`` at its first call, for the types it is called with, and keep the result on disk.

    A kernel makes no arrays (numba refuses to compile one that does): to count references to them would take half the
    time. The interpreter's lock is released while it runs. Under ``NUMBA_DISABLE_JIT=1`` it stays plain Python.

    Most kernels are only called by others. For those calls numba would compile each once more for every constant that
    it is called with, and for every one the code through which Python calls it: a third of all compiling. So there are
    two compilers for a kernel, one that Python calls and one that other kernels are compiled with.
    """
    folder = cache_folder(Path(function.__code__.co_filename))
    from_python = _compiler(function, folder)
    if not numba_settings.DISABLE_JIT:
        beside = None if folder is None else folder / "called"
        called = _compiler(function, beside, no_cpython_wrapper=True, no_cfunc_wrapper=True)
        from_python.get_call_template = lambda types, named: called.get_call_template(
            [unliteral(one) for one in types], {name: unliteral(one) for name, one in named.items()}
        )
        from_python.get_overload = called.get_overload
    return cast(Function, from_python)


def _compiler(function: Callable[..., object], folder: Path | None, **options: bool) -> Any:
    before = numba_settings.CACHE_DIR
    numba_settings.CACHE_DIR = str(folder or "")  # read while decorating; other users of numba keep their own
    try:
        return jit(cache=folder is not None, nogil=True, error_model="numpy", forceinline=True, _nrt=False, **options)(
            function
        )
    finally:
        numba_settings.CACHE_DIR = before
