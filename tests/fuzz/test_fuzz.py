"""A few hundred files of the fuzzer, always the same; ``python -m tests.fuzz`` runs as many as one likes."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from tests.fuzz.__main__ import check
from tests.fuzz.targets import TARGETS, cases


@pytest.mark.parametrize("name", TARGETS)
def test_valid_files_are_used_without_a_word(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    for number, content in enumerate(target.seeds()[:4]):
        path = tmp_path / f"{number}" / target.suffix
        path.parent.mkdir()
        path.write_bytes(content)
        target.use(path)


@pytest.mark.parametrize("name", TARGETS)
def test_changed_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / TARGETS[name].suffix
    for content in islice(cases(TARGETS[name], seed=1), 25):
        path.write_bytes(content)
        check(name, path)
