"""Traces of a real PyTorch run (tests/data/pytorch/make.py): the profiler's, and the execution trace."""

import gzip
import json
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner

import accelsim
from accelsim.cli import cli
from accelsim.errors import FormatError, InputError
from accelsim.formats import load_trace
from accelsim.formats.pytorch_execution_trace import execution_trace_program
from accelsim.program.check import same_program

DATA = Path(__file__).parents[1] / "data" / "pytorch"
PROFILE, TRACE = DATA / "profile.json.gz", DATA / "execution_trace.json.gz"
LEFT_OUT = ("user_annotation", "Trace", "overhead", "python_function", "gpu_user_annotation")


def profile_events() -> list[dict]:
    content = json.loads(gzip.decompress(PROFILE.read_bytes()), parse_float=Decimal)
    return [event for event in content["traceEvents"] if event["ph"] == "X" and event.get("cat") not in LEFT_OUT]


def test_the_recorded_machine_takes_the_recorded_time() -> None:
    events = profile_events()
    recorded_us = max(event["ts"] + event["dur"] for event in events) - min(event["ts"] for event in events)
    replayed = load_trace(PROFILE)
    assert replayed.latency_cycles == pytest.approx(float(1000 * recorded_us), rel=1e-6)
    assert replayed.program.facts["clock_hz"] == 1e9


def test_an_execution_trace_takes_its_times_from_the_profile() -> None:
    """Each operator its own time, what it called left out: together all time in which one is open."""
    spans = sorted(
        (int(1000 * event["ts"]), int(1000 * (event["ts"] + event["dur"])))
        for event in profile_events()
        if event.get("args", {}).get("Record function id")
    )
    inside, reach = 0, 0
    for start, end in spans:
        inside += max(end - max(start, reach), 0)
        reach = max(reach, end)
    replayed = load_trace(TRACE, times=PROFILE)
    assert replayed.latency_cycles == pytest.approx(inside, rel=1e-4)
    assert replayed.latency_cycles < load_trace(PROFILE).latency_cycles
    assert "the replay is shorter than the recording" in str(replayed.program.facts["notes"])


def test_an_execution_trace_on_a_machine_counts_the_models_products() -> None:
    """32 images of 3 x 16 x 16; a convolution to 8 channels, then layers of 2048 to 64 to 10."""
    convolution = 32 * 8 * 16 * 16 * 3 * 3 * 3
    first, second = 32 * 2048 * 64, 32 * 64 * 10
    forward = convolution + first + second
    expected = forward + convolution + 2 * first + 2 * second  # nobody asks for the gradient of the images
    accelerator = accelsim.load_accelerator("tpu_v3")
    run = load_trace(TRACE, accelerator)
    assert int(run.program.activities.macs.sum()) == expected
    names = run.program.operator_names
    assert {"aten::addmm", "aten::convolution", "aten::convolution_backward"} <= set(names)
    rows = run.program.activities.operator == names.index("aten::addmm")
    sizes = [2 * 64 * 0 + 4 * (32 * k + k * n + n + 32 * n) for k, n in ((2048, 64), (64, 10))]
    rate = accelerator.dram.bytes_per_cycle
    assert run.program.activities.cycles[rows].tolist() == [
        -(-size * rate.denominator // rate.numerator) for size in sizes
    ]


def changed(tmp_path: Path, **fields: object) -> Path:
    content = json.loads(gzip.decompress(TRACE.read_bytes()))
    content["nodes"][9] |= fields
    (tmp_path / "t.json").write_text(json.dumps(content))
    return tmp_path / "t.json"


def test_the_schema_of_2023() -> None:
    """1.0.1, as in facebookresearch/param's linear_et.json: parent, inputs and input_shapes beside one another."""
    content = json.loads(gzip.decompress(TRACE.read_bytes()))
    older = []
    for node in content["nodes"]:
        record = next((one["value"] for one in node["attrs"] if one["name"] == "rf_id"), 0)
        flat = {"id": node["id"], "name": node["name"], "parent": node["ctrl_deps"], "rf_id": record}
        for part in ("input", "output"):
            both = node[f"{part}s"]
            flat |= {f"{part}s": both["values"], f"{part}_shapes": both["shapes"], f"{part}_types": both["types"]}
        older.append(flat)
    for machine, times in ((accelsim.load_accelerator("tpu_v3"), None), (None, PROFILE)):
        found, wanted = (
            execution_trace_program({"nodes": nodes}, Path("t.json"), machine, times)
            for nodes in (older, content["nodes"])
        )
        assert same_program(found, wanted)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": "x"}, r"nodes\[9\]\.id is 'x'; must be a whole number"),
        ({"id": -1}, r"nodes\[9\]\.id is '-1'"),
        ({"ctrl_deps": None}, r"nodes\[9\]\.ctrl_deps is 'None'"),
        ({"inputs": {"values": 3, "shapes": []}}, r"nodes\[9\]\.inputs: values and shapes must be lists"),
        ({"inputs": {"values": [[1, 2, 0, 10**9, 10**9, "cpu"]], "shapes": []}}, r"a tensor of 1,000,000,000 elements"),
        ({"inputs": {"values": [[1, 2, 0, -5, 4, "cpu"]], "shapes": []}}, r"a tensor's field 3 is '-5'"),
    ],
)  # fmt: skip
def test_execution_traces_that_contradict_themselves(tmp_path: Path, fields: dict, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        load_trace(changed(tmp_path, **fields), accelsim.load_accelerator("tpu_v3"))


def test_what_an_execution_trace_needs(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"tells no times; give the profiler's trace of the same run with --times, or a"
    ):
        load_trace(TRACE)
    with pytest.raises(FormatError, match=r"no trace of PyTorch's profiler"):
        load_trace(TRACE, times=TRACE)
    with pytest.raises(InputError, match=r"--times is for execution traces of PyTorch"):
        load_trace(PROFILE, times=PROFILE)
    (tmp_path / "other.json").write_text('{"traceEvents": [{"ph": "X", "ts": 1, "dur": 2, "name": "x"}]}')
    with pytest.raises(FormatError, match=r"none of its 0 events has the 'Record function id' of a node"):
        load_trace(TRACE, times=tmp_path / "other.json")
    with pytest.raises(FormatError, match="nodes is '7', must be a list"):
        execution_trace_program({"nodes": 7}, Path("t"), None)
    (tmp_path / "cut.json.gz").write_bytes(TRACE.read_bytes()[:3000])
    with pytest.raises(FormatError, match=r"cut\.json\.gz: cannot be read"):
        load_trace(tmp_path / "cut.json.gz")


def test_dependencies_come_from_storages() -> None:
    """b reads what a wrote, c overwrites what b reads, d reads c's result through a view; e is free."""

    def operator(number: int, name: str, reads: list[int], writes: list[int]) -> dict:
        def tensors(storages: list[int]) -> dict:
            return {"values": [[one, one, 0, 16, 4, "cpu"] for one in storages], "shapes": [[4, 4] for _ in storages]}

        return {
            "id": number,
            "ctrl_deps": 1,
            "name": name,
            "inputs": tensors(reads),
            "outputs": tensors(writes),
            "attrs": [],
        }

    nodes = [
        operator(2, "a", [], [1]),
        operator(3, "b", [1], [2]),
        operator(4, "c_", [1, 3], [1]),
        operator(5, "view", [1], [1]),
        operator(6, "d", [1], [4]),
        operator(7, "e", [5], [6]),
    ]
    program = execution_trace_program({"nodes": nodes}, Path("t.json"), accelsim.load_accelerator("tpu_v3"))
    names = [program.operator_names[row] for row in program.activities.operator]
    edges = {(names[a], names[b]) for a, b in zip(*(column.tolist() for column in program.dependencies), strict=True)}
    assert edges == {("a", "b"), ("a", "c_"), ("b", "c_"), ("c_", "d")}


def test_on_the_command_line() -> None:
    run = CliRunner().invoke(cli, ["replay", str(TRACE), "--times", str(PROFILE), "--json"])
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["tiles"] > 100
    assert "note: the time that threads spend outside" in run.stderr
    listed = CliRunner().invoke(cli, ["list", "formats", "--json"])
    assert {"chakra", "pytorch", "kineto", "scalesim", "requests"} <= {
        one["name"] for one in json.loads(listed.stdout)["formats"]
    }
