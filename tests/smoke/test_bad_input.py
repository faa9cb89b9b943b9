"""Bad input: every mistake ends with status 2 and a message that names the place, and leaves nothing half-written."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

import accelsim
from accelsim.library import data_folder
from tests.smoke.command import in_this_process

WORKLOAD, MACHINE = "soma.gpt2_small_decode", "soma_edge"
MARKUP = "<script>alert(1)</script>"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def refused(*arguments: object, folder: Path) -> str:
    """The message of a run with ``arguments`` that must fail and leave nothing behind."""
    before = sorted(path for path in folder.rglob("*") if path.is_file())
    finished = in_this_process("run", *arguments, "--out", "out", folder=folder, status=2)
    assert finished.stdout == ""
    assert finished.stderr.startswith("accelsim: ") or finished.stderr.startswith("Usage")
    assert sorted(path for path in folder.rglob("*") if path.is_file()) == before
    return finished.stderr


def template_with(folder: Path, old: str, new: str) -> tuple[Path, int]:
    """The edge machine's template with one text replaced, and the line in which it stands."""
    text = (data_folder("hw_templates") / "accelerators" / "soma_edge.yaml").read_text(encoding="utf-8")
    assert text.count(old) == 1
    path = folder / "machine.yaml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path, text[: text.index(old)].count("\n") + 1


def schedule_with(folder: Path, **changes: object) -> Path:
    """A legal schedule file of the workload with some fields replaced."""
    order = [operator.name for operator in accelsim.load_workload(WORKLOAD).operators]
    cuts = list(range(1, len(order)))
    content: dict[str, Any] = {
        "schema": 1,
        "workload": WORKLOAD,
        "order": order,
        "fusion_cuts": cuts,
        "dram_cuts": cuts,
    }
    content["tiling_numbers"] = [1] * len(order)
    path = folder / "schedule.json"
    path.write_text(json.dumps(content | changes))
    return path


def layer_list(folder: Path, **changes: object) -> Path:
    """A layer list of one 1x1 convolution, 16 to 32 channels of 8 x 8, with some fields of the layer replaced."""
    layer: dict[str, Any] = {
        "id": 0, "name": "conv", "type": "conv", "C": 16, "K": 32, "R": 1, "S": 1, "H": 8, "W": 8, "stride_h": 1,
        "stride_w": 1, "groups": 1, "ops": 16 * 32 * 64, "weight_bytes": 16 * 32, "input_layers": [],
        "weight_layers": [], "external_input_ids": [0], "external_channels": 16, "input_chw": [16, 8, 8],
        "output_chw": [32, 8, 8],
    }  # fmt: skip
    network = {"name": "one", "external_inputs": [{"name": "image", "shape_chw": [16, 8, 8]}]}
    path = folder / "network.json"
    path.write_text(json.dumps({**network, "layers": [layer | changes]}))
    return path


def onnx_model(path: Path, *, filters: int = 4, channels: int = 3, name: str = "conv", location: str = "") -> Path:
    """One 1x1 convolution over 8 x 8; its weights claim a size but are not in the file."""
    weights = TensorProto(name="weights", data_type=TensorProto.FLOAT, dims=(filters, channels, 1, 1))
    if location:
        weights.data_location = TensorProto.EXTERNAL
        weights.external_data.add(key="location", value=location)
    elif filters * channels < 1000:
        weights.float_data.extend([0.5] * (filters * channels))
    node = helper.make_node("Conv", ["image", "weights"], ["result"], name=name)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, channels, 8, 8))
    result = helper.make_tensor_value_info("result", TensorProto.FLOAT, (1, filters, 8, 8))
    graph = helper.make_graph([node], "graph", [image], [result], initializer=[weights])
    path.write_bytes(helper.make_model(graph).SerializeToString())
    return path


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.999])
def test_truncated_onnx_file(share: float, tmp_path: Path) -> None:
    whole = (LIGHT / "light_squeezenet.onnx").read_bytes()
    path = tmp_path / "cut.onnx"
    path.write_bytes(whole[: int(share * len(whole))])
    assert "cut.onnx" in refused("cut.onnx", "--hardware", MACHINE, folder=tmp_path)


@pytest.mark.parametrize("suffix", [".onnx", ".yaml", ".json"])
def test_a_file_of_noise(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"noise{suffix}"
    path.write_bytes(bytes(range(256)) * 64)
    assert path.name in refused(path.name, "--hardware", MACHINE, folder=tmp_path)
    assert path.name in refused(WORKLOAD, "--hardware", f"./{path.name}", folder=tmp_path)
    assert path.name in refused(WORKLOAD, "--hardware", MACHINE, "--schedule", path.name, folder=tmp_path)


def test_template_with_a_wrong_unit(tmp_path: Path) -> None:
    _, line = template_with(tmp_path, "bandwidth: 16 GB/s", "bandwidth: 16 GHz")
    message = refused(WORKLOAD, "--hardware", "machine.yaml", folder=tmp_path)
    assert re.search(rf"machine\.yaml:{line}:\d+: dram\.bandwidth", message)
    assert "16 GHz" in message


def test_all_mistakes_of_a_template_at_once(tmp_path: Path) -> None:
    path, clock = template_with(tmp_path, "clock: 1 GHz", "clock: 1 GB")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("lanes: 32 ", "lanez: 32 "), encoding="utf-8")
    lanes = text[: text.index("lanes: 32 ")].count("\n") + 1
    message = refused(WORKLOAD, "--hardware", "machine.yaml", folder=tmp_path)
    assert f"machine.yaml:{clock}:" in message and f"machine.yaml:{lanes}:" in message
    assert "did you mean 'lanes'" in message


def test_schedule_with_a_cycle(tmp_path: Path) -> None:
    order = [operator.name for operator in accelsim.load_workload(WORKLOAD).operators]
    schedule_with(tmp_path, order=order[::-1])
    message = refused(WORKLOAD, "--hardware", MACHINE, "--schedule", "schedule.json", folder=tmp_path)
    assert "OrderError" in message and "cycle" in message and order[-1] in message


def test_network_with_a_cycle(tmp_path: Path) -> None:
    layer_list(tmp_path, input_layers=[0], external_input_ids=[], external_channels=0)
    message = refused("network.json", "--hardware", MACHINE, folder=tmp_path)
    assert "network.json" in message and "'conv'" in message


@pytest.mark.parametrize("number", [0, -1, 1 << 39])
def test_tiling_number_that_cannot_be(number: int, tmp_path: Path) -> None:
    operators = len(accelsim.load_workload(WORKLOAD).operators)
    schedule_with(tmp_path, tiling_numbers=[1] * (operators - 1) + [number])
    message = refused(WORKLOAD, "--hardware", MACHINE, "--schedule", "schedule.json", folder=tmp_path)
    assert "TilingNumberError" in message and f"tiling number {number}" in message


def test_buffer_too_small(tmp_path: Path) -> None:
    message = refused(WORKLOAD, "--hardware", MACHINE, "--set", "buffers.global.capacity=1 KiB", folder=tmp_path)
    assert "BufferOverflow" in message and "1024" in message and "buffers.global.capacity" in message
    schedule_with(tmp_path, fusion_cuts=[], dram_cuts=[], tiling_numbers=[1])
    small = ("--set", "buffers.global.capacity=1 MiB")
    message = refused(WORKLOAD, "--hardware", MACHINE, *small, "--schedule", "schedule.json", folder=tmp_path)
    assert "BufferOverflow" in message and "over its 1.00 MiB" in message


@pytest.mark.parametrize("text", ["nan", ".nan", "NaN GB/s", "inf GB/s", "-1 GB/s", "0 GB/s", "1e999 GB/s"])
def test_a_number_that_is_none(text: str, tmp_path: Path) -> None:
    _, line = template_with(tmp_path, "bandwidth: 16 GB/s", f"bandwidth: {text}")
    assert f"machine.yaml:{line}:" in refused(WORKLOAD, "--hardware", "machine.yaml", folder=tmp_path)
    override = refused(WORKLOAD, "--hardware", MACHINE, "--set", f"dram.bandwidth={text}", folder=tmp_path)
    assert "dram.bandwidth" in override


def test_nan_in_json(tmp_path: Path) -> None:
    layer_list(tmp_path, ops=float("nan"))
    assert "network.json" in refused("network.json", "--hardware", MACHINE, folder=tmp_path)
    schedule_with(tmp_path, tiling_numbers=[float("nan")])
    message = refused(WORKLOAD, "--hardware", MACHINE, "--schedule", "schedule.json", folder=tmp_path)
    assert "schedule.json" in message and "NaN" in message


def test_ten_gigabytes_are_claimed_and_never_taken(tmp_path: Path) -> None:
    """In a process that could not hold them, on a machine that could."""
    onnx_model(tmp_path / "huge.onnx", filters=100_000, channels=100_000)
    limit = 6 << 30  # address space
    finished = subprocess.run(
        [*(sys.executable, "-m", "accelsim", "run", "huge.onnx", "--hardware", "scalesim_32x32", "--json"),
         *("--set", "buffers.global.capacity=64 GiB", "--bits", "8")],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    # 10^10 weights and 64 pixels of 10^5 channels, a byte each
    assert json.loads(finished.stdout)["dram_read_bytes"] == 10**10 + 64 * 10**5


def test_absurd_sizes(tmp_path: Path) -> None:
    huge = 1 << 24
    changes = {"C": huge, "K": huge, "external_channels": huge, "input_chw": [huge, 8, 8], "output_chw": [huge, 8, 8]}
    layer_list(tmp_path, **changes, ops=huge * huge * 64, weight_bytes=huge * huge)
    message = refused("network.json", "--hardware", MACHINE, folder=tmp_path)
    assert "network.json" in message


@pytest.mark.parametrize("digits", [20, 400])
def test_absurd_work(digits: int, tmp_path: Path) -> None:
    recipe = f"model: micro.vector\nparameters: {{elements: 16384, operations_per_element: {'9' * digits}}}\n"
    (tmp_path / "many.yaml").write_text(f"kind: recipe\ndescription: x\nsource: y\n{recipe}")
    assert "more than can be counted" in refused("many.yaml", "--hardware", MACHINE, folder=tmp_path)


@pytest.mark.parametrize("suffix", [".onnx", ".yaml", ".json"])
def test_a_folder_instead_of_a_file(suffix: str, tmp_path: Path) -> None:
    name = f"folder{suffix}"
    (tmp_path / name).mkdir()
    assert name in refused(name, "--hardware", MACHINE, folder=tmp_path)
    assert name in refused(WORKLOAD, "--hardware", MACHINE, "--schedule", name, folder=tmp_path)
    assert name in refused(WORKLOAD, "--hardware", f"./{name}", folder=tmp_path)


def test_targets_of_the_wrong_kind(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder").mkdir()
    machine = (WORKLOAD, "--hardware", MACHINE)
    told = in_this_process("run", *machine, "--out", "file", folder=tmp_path, status=2).stderr
    assert "file" in told and "folder" in told
    assert (tmp_path / "file").read_text() == "kept"
    told = in_this_process("schedule", *machine, "--out", "folder", folder=tmp_path, status=2).stderr
    assert "folder" in told
    told = in_this_process("schedule", *machine, "--out", "nowhere/s.json", folder=tmp_path, status=2).stderr
    assert "nowhere" in told
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]


def bad_timelines() -> Iterator[tuple[str, bytes]]:
    yield "empty", b""
    yield "noise", bytes(range(256)) * 16
    yield "a cut archive", b"PK\x03\x04" + bytes(26)


@pytest.mark.parametrize("content", dict(bad_timelines()).values(), ids=dict(bad_timelines()))
def test_a_timeline_that_is_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "timeline.npz").write_bytes(content)
    command = ("export", "timeline.npz", "--format", "csv", "--out", "events.csv")
    assert "timeline.npz" in in_this_process(*command, folder=tmp_path, status=2).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["timeline.npz"]


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd", "a/../../secret.bin", "..\\secret.bin"])
def test_external_data_outside_the_folder(location: str, tmp_path: Path) -> None:
    onnx_model(tmp_path / "model.onnx", location=location)
    message = refused("model.onnx", "--hardware", MACHINE, folder=tmp_path)
    assert "model.onnx" in message and "weights" in message and "secret" in message + "secret" * ("passwd" in message)


def test_markup_in_a_name_stays_text(tmp_path: Path) -> None:
    onnx_model(tmp_path / "model.onnx", name=MARKUP)
    in_this_process("run", "model.onnx", "--hardware", MACHINE, "--out", "out", folder=tmp_path)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "alert(1)" in page  # the name is shown …
    assert MARKUP not in page  # … as text
    assert accelsim.report(accelsim.load_timeline(tmp_path / "out" / "timeline.npz"))._repr_html_().count(MARKUP) == 0
