"""ONNX files on the command line: free dimensions bound, mistakes told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.smoke.command import in_this_process
from tests.unit.onnx_models import model, node, save


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A convolution of 6 filters over a free image."""
    nodes = [node("Conv", "x w", "a", name="first", pads=[1, 1, 1, 1]), node("Relu", "a", "y")]
    return save(tmp_path, model(nodes, {"x": ("N", 4, "height", 8)}, "y", {"w": (6, 4, 3, 3)}))


def test_a_free_dimension_is_bound(network: Path, tmp_path: Path) -> None:
    arguments = ("run", network, "--hardware", "soma_edge", "--bind", "height=10", "--json")
    done = in_this_process(*arguments, folder=tmp_path)
    assert json.loads(done.stdout)["macs"] == 6 * 10 * 8 * 36
    assert "free leading dimension 'N'" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "node 'first' (Conv)"),
        (["--bind", "hieght=10"], "did you mean 'height'"),
        (["--bind", "height"], "expected NAME=VALUE"),
        (["--bind", "height=ten"], "expected NAME=VALUE"),
        (["--bind", "height=0"], "a size is a whole number >= 1"),
    ],
)
def test_bindings_that_are_missing_or_mistaken(network: Path, tmp_path: Path, options: list[str], message: str) -> None:
    done = in_this_process("run", network, "--hardware", "soma_edge", *options, folder=tmp_path, status=2)
    assert done.stdout == "" and message in done.stderr


def test_bits_are_those_of_the_file_unless_told(network: Path, tmp_path: Path) -> None:
    arguments = ("run", network, "--hardware", "soma_edge", "--bind", "height=10", "--json")
    read, cycles, said = [], [], []
    for more in ((), ("--bits", 8), ("--set", "pe_array.precision.bits=8")):
        done = in_this_process(*arguments, *more, folder=tmp_path)
        read.append(json.loads(done.stdout)["dram_read_bytes"])
        cycles.append(json.loads(done.stdout)["cycles_by_cause"]["compute"])
        said.append("does not say what its array multiplies" in done.stderr)
    assert read == [4 * (4 * 80 + 6 * 36), 4 * 80 + 6 * 36, 4 * (4 * 80 + 6 * 36)]
    assert said == [True, False, False]
    assert cycles[2] > cycles[0]


def test_only_onnx_files_have_free_dimensions(tmp_path: Path) -> None:
    arguments = ("run", "soma.resnet50", "--hardware", "soma_edge", "--bind", "height=10")
    assert "no parameter 'bind'" in in_this_process(*arguments, folder=tmp_path, status=2).stderr
