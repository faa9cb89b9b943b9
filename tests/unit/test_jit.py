"""The compile cache: named by all that compiled code is made of, and never in the way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from accelsim.jit import PACKAGE, kernel, kernel_hash, kernel_modules, kernel_sources

pytestmark = pytest.mark.kernel

SCRIPT = """
from accelsim import jit
from accelsim.engine.heap import push
import numpy as np
heap = np.zeros((2, 2), dtype=np.int64)
push(heap, 0, 7, 3)
print(heap[0].tolist(), jit.cache_folder(jit.PACKAGE / "engine" / "heap.py"), type(push).__name__)
"""


def run_script(**environment: str) -> list[str]:
    """Run SCRIPT in a process of its own; returns its words."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**clean, "PYTHONPATH": str(PACKAGE.parent), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip().rsplit(maxsplit=2)


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)


def test_sources_are_the_kernels_and_what_they_import(tmp_path: Path) -> None:
    write(
        tmp_path,
        loop="from accelsim.jit import kernel\nfrom accelsim.constants import LIMIT\n",
        constants="LIMIT = 1\n",
        other="import accelsim.constants\n",
    )
    assert [path.name for path in kernel_sources(kernel_modules(tmp_path), tmp_path)] == ["constants.py", "loop.py"]


def test_the_hash_follows_kernels_and_their_constants_and_nothing_else(tmp_path: Path) -> None:
    write(
        tmp_path,
        loop="from accelsim.jit import kernel\nfrom accelsim.constants import LIMIT\n",
        constants="LIMIT = 1\n",
    )
    before = kernel_hash(package=tmp_path)
    write(tmp_path, other="unrelated = 1\n")
    assert kernel_hash(package=tmp_path) == before
    write(tmp_path, constants="LIMIT = 2\n")
    changed = kernel_hash(package=tmp_path)
    assert changed != before
    write(tmp_path, constants="LIMIT = 1\n", loop="from accelsim.jit import kernel\n# edited\n")
    assert kernel_hash(package=tmp_path) not in (before, changed)


def test_a_module_is_named_by_what_it_calls_and_not_by_what_calls_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        inner="from accelsim.jit import kernel\nfrom accelsim.constants import LIMIT\n",
        outer="from accelsim.jit import kernel\nfrom accelsim.inner import add\n",
        alone="from accelsim.jit import kernel\n",
        constants="from accelsim.errors import InputError\nLIMIT = 1\n",
        errors="",
    )

    def sources(name: str) -> list[str]:
        return [path.stem for path in kernel_sources([tmp_path / f"{name}.py"], tmp_path)]

    assert sources("outer") == ["constants", "inner", "outer"]
    assert sources("inner") == ["constants", "inner"]
    assert sources("alone") == ["alone"]


def test_the_engine_is_among_the_sources() -> None:
    names = {path.relative_to(PACKAGE).as_posix() for path in kernel_sources(kernel_modules())}
    assert {"engine/loop.py", "engine/heap.py", "engine/compiled.py", "program/tables.py", "timeline/table.py"} <= names


def test_only_this_module_imports_numba() -> None:
    importing = [
        path.name
        for path in PACKAGE.rglob("*.py")
        if "import numba" in path.read_text() or "from numba" in path.read_text()
    ]
    assert importing == ["jit.py"]


def test_compiled_code_is_kept_in_the_users_cache(tmp_path: Path) -> None:
    row, folder, kind = run_script(XDG_CACHE_HOME=str(tmp_path))
    assert row == "[7, 3]"
    assert kind == "CPUDispatcher"
    assert Path(folder).parent == tmp_path / "accelsim"
    kept = sorted(path.name for path in tmp_path.rglob("*.nbc"))
    assert len(kept) == 1
    assert kept[0].startswith("heap.push")
    stamp = next(tmp_path.rglob("*.nbc")).stat().st_mtime_ns
    run_script(XDG_CACHE_HOME=str(tmp_path))
    assert next(tmp_path.rglob("*.nbc")).stat().st_mtime_ns == stamp  # loaded, not compiled again


def test_bounds_checks_have_a_cache_of_their_own(tmp_path: Path) -> None:
    plain = run_script(XDG_CACHE_HOME=str(tmp_path))[1]
    checked = run_script(XDG_CACHE_HOME=str(tmp_path), NUMBA_BOUNDSCHECK="1")[1]
    assert plain != checked


def test_without_a_place_to_write_kernels_still_run(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert run_script(XDG_CACHE_HOME=str(blocked)) == ["[7, 3]", "None", "CPUDispatcher"]


def test_without_the_compiler_kernels_are_plain_functions(tmp_path: Path) -> None:
    row, _, kind = run_script(XDG_CACHE_HOME=str(tmp_path), NUMBA_DISABLE_JIT="1")
    assert (row, kind) == ("[7, 3]", "function")


def test_decorating_leaves_numbas_own_setting_alone() -> None:
    before = numba.config.CACHE_DIR

    @kernel
    def twice(value: int) -> int:
        return 2 * value

    assert twice(21) == 42
    assert before == numba.config.CACHE_DIR
