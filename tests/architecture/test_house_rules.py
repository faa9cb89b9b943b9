"""The shape of the house: who imports whom, how long a file may be, what does not belong into the tree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "accelsim"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "data" not in path.relative_to(PACKAGE).parts)
MAXIMUM_LINES = 400

HOMES = {
    "simpy": ["engine/reference.py"],
    "numba": ["jit.py"],
    "matplotlib": ["plot/"],
}
"""Libraries that only these files or folders of the package may import."""

FOREIGN_WORDS = (
    r"(?<![\w.])/(?:work|root|home)/",  # paths of one machine
    r"\.\./shared",
    r"\bTODO\b|\bFIXME\b|\bXXX\b",
    r"raise NotImplementedError",
)
"""What a finished tree does not say."""


def imported(path: Path) -> set[str]:
    """Top-level names of everything that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def tracked_text() -> dict[str, str]:
    """All text files of the tree by their name in it, as git knows them; without git, the sources."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listing.returncode == 0:
        paths = [ROOT / name for name in listing.stdout.decode().split("\0") if name]
    else:
        paths = [path for folder in (PACKAGE, ROOT / "tests", ROOT / "docs") for path in folder.rglob("*")]
    texts = {}
    for path in paths:
        if path.is_file() and path != Path(__file__):
            try:
                texts[str(path.relative_to(ROOT))] = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
    return texts


def test_layers_hold() -> None:
    linter = pytest.importorskip("importlinter.cli", reason="install the extra 'lint' to check the layers")
    code = f"from {linter.__name__} import lint_imports; import sys; sys.exit(lint_imports())"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 kept, 0 broken" in run.stdout


@pytest.mark.parametrize("library", HOMES)
def test_library_stays_in_its_room(library: str) -> None:
    users = [str(path.relative_to(PACKAGE)) for path in MODULES if library in imported(path)]
    assert users, f"nothing imports {library} any more: drop the dependency"
    assert [user for user in users if not user.startswith(tuple(HOMES[library]))] == []


def test_files_stay_readable() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: lines for name, lines in lengths.items() if lines > MAXIMUM_LINES} == {}


def test_tree_speaks_of_the_project_alone() -> None:
    pattern = re.compile("|".join(FOREIGN_WORDS))
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in tracked_text().items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []
