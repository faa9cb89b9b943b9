"""The public names: exported by hand, every one of them there, and cheap until it is used."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import accelsim

HEAVY = ("matplotlib", "onnx", "numba", "pydantic", "simpy", "numpy", "rich", "ruamel", "perfetto", "click")


def declared() -> dict[str, str]:
    """The names that type checkers see, with the module they come from, read from the source."""
    tree = ast.parse(Path(accelsim.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    return {
        str(alias.asname): str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_exported_names_are_the_declared_ones() -> None:
    assert sorted(accelsim.__all__) == sorted([*declared(), "__version__"])
    assert dir(accelsim) == sorted(accelsim.__all__)


def test_every_name_is_what_its_home_defines() -> None:
    for name, home in declared().items():
        value = getattr(accelsim, name)
        assert value is getattr(import_module(home), name)
        assert inspect.getdoc(value), f"accelsim.{name} has no docstring"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="simulator"):
        _ = accelsim.simulator


def test_import_loads_nothing_heavy() -> None:
    code = "import json, sys, accelsim; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in json.loads(run.stdout)}
    assert loaded.isdisjoint(HEAVY)
    assert "accelsim" in loaded
