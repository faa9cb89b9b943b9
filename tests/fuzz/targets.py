"""What is fuzzed: for each reader some valid files, how they are changed, and what a user does with them next."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import onnx

import accelsim
from accelsim.formats import load_trace
from accelsim.library import data_folder
from tests.fuzz.mutate import Mutate, mutate_bytes, mutate_json, mutate_lines, mutate_npz, mutate_onnx

MOST_OPERATORS = 200
MOST_BYTES = 64 << 20
"""Workloads with larger tensors, or more operators, are read, and not run: that would take minutes by right."""
MOST_REQUESTS = 10_000


@dataclass(frozen=True)
class Target:
    """A reader under test."""

    suffix: str
    """How the name of its files ends."""
    seeds: Callable[[], list[bytes]]
    mutate: Mutate
    use: Callable[[Path], object]
    """Reads the file, and does what comes next."""


@cache
def _machine(name: str) -> accelsim.Accelerator:
    return accelsim.load_accelerator(name)


def run(workload: accelsim.Workload, machine: accelsim.Accelerator) -> accelsim.Timeline:
    """What ``accelsim run`` does."""
    schedule = accelsim.Layerwise().search(workload, machine).schedule
    timeline = accelsim.simulate(accelsim.lower(workload, machine, schedule))
    _check_report(timeline)
    return timeline


def _check_report(timeline: accelsim.Timeline) -> None:
    """A report is shown on terminals, so that no name in it may steer them."""
    text = str(accelsim.report(timeline))
    assert all(character.isprintable() or character == "\n" for character in text), "control characters in the report"


def _use_workload(path: Path, **parameters: Any) -> None:
    workload = accelsim.load_workload(path, **parameters)
    tensors = [tensor for o in workload.operators for tensor in (o.output, *o.parameters)] + [*workload.inputs]
    largest = max(tensor.sample_bytes for tensor in tensors) * workload.batch
    if len(workload.operators) <= MOST_OPERATORS and largest <= MOST_BYTES:
        run(workload, _machine("soma_edge"))


def _use_language_model(path: Path) -> None:
    _use_workload(path, phase="prefill" if b"bert" in path.read_bytes() else "decode", sequence_length=16)


def _use_template(path: Path) -> None:
    run(accelsim.load_workload(_small_workload(path.parent)), accelsim.load_accelerator(path))


def _small_workload(folder: Path) -> Path:
    path = folder / "small.csv"
    if not path.exists():
        path.write_text("name, M, N, K,\na, 16, 16, 16,\nb, 1, 40, 24,\n")
    return path


def _use_timeline(path: Path) -> None:
    from accelsim.timeline.stalls import critical_path, cycles_by_cause

    timeline = load_trace(path)
    cycles_by_cause(timeline)
    critical_path(timeline)
    _check_report(timeline)
    accelsim.replay(timeline)


def _use_schedule(path: Path) -> None:
    from accelsim.formats.schedule_json import read_schedule

    workload = accelsim.load_workload("soma.gpt2_small_decode")
    accelsim.simulate(accelsim.lower(workload, _machine("soma_edge"), read_schedule(path)))


def _use_memory_trace(path: Path) -> None:
    from accelsim.formats.memory_trace import read_memory_trace

    requests = read_memory_trace(path)
    if requests.size <= MOST_REQUESTS and int(requests.bytes.sum()) <= MOST_BYTES:
        accelsim.load_memory("ddr4_3200").serve(requests).summary()


def _use_energy_table(path: Path) -> None:
    machine = accelsim.load_accelerator("soma_edge", [f"energy.table={path}"])
    run(accelsim.load_workload("micro.compute"), machine)


def _use_memory_template(path: Path) -> None:
    from accelsim.formats.memory_trace import read_memory_trace

    trace = path.parent / "trace.txt"
    if not trace.exists():
        trace.write_text("".join(f"LD {64 * 37 * number}\nST {4096 * number}\n" for number in range(20)))
    accelsim.load_memory(path).serve(read_memory_trace(trace)).summary()


def _files(folder: str, pattern: str, most_bytes: int = 20_000) -> list[bytes]:
    found = sorted(data_folder(folder).rglob(pattern))
    return [path.read_bytes() for path in found if path.stat().st_size <= most_bytes]


def _workloads() -> list[bytes]:
    return [*_files("workloads", "*.yaml"), _OPERATORS.encode()]


_OPERATORS = """\
kind: operators
name: some
inputs: {x: {shape: [3, 16, 16]}, y: {shape: [8, 32]}}
operators:
  - {name: c1, type: conv2d, inputs: [x], filters: 8, kernel: 3, stride: 2, padding: 1}
  - {name: c2, type: conv2d, inputs: [c1], filters: 8, kernel: [1, 3], padding: [0, 1], groups: 2}
  - {name: sum, type: elementwise, inputs: [c1, c2]}
  - {name: both, type: pool, inputs: [[sum, c1]], kernel: 2}
  - {name: flat, type: matmul, inputs: [{tensor: both, reshape: [32, 8]}], features: 8}
  - {name: scores, type: matmul, inputs: [y, flat]}
  - {name: soft, type: softmax, inputs: [scores]}
  - {name: norm, type: normalization, inputs: [soft]}
  - {name: turned, type: transpose, inputs: [norm], permutation: [1, 0]}
  - {name: wide, type: upsample, inputs: [c2], factors: 2}
outputs: [turned, wide]
"""


def _onnx_models() -> list[bytes]:
    from onnx import TensorProto, helper

    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    light = [(folder / f"light_{name}.onnx").read_bytes() for name in ("squeezenet", "shufflenet")]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, None, None])
    weight = helper.make_tensor("w", TensorProto.FLOAT, [16, 16], [0.5] * 256)
    axes = helper.make_tensor("axes", TensorProto.INT64, [1], [2])
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [3], [4, 2, 8])
    scale = helper.make_tensor("scale", TensorProto.FLOAT, [16], [1.0] * 16)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
        helper.make_node("LayerNormalization", ["a", "scale"], ["b"], name="norm", axis=-1),
        helper.make_node("Softmax", ["b"], ["c"], name="softmax", axis=-1),
        helper.make_node("Transpose", ["c"], ["d"], name="turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["c", "d"], ["e"], name="scores"),
        helper.make_node("ReduceMean", ["e", "axes"], ["f"], name="mean"),
        helper.make_node("Reshape", ["a", "sizes"], ["g"], name="shape"),
        helper.make_node("Split", ["g"], ["h", "i"], name="split", axis=2, num_outputs=2),
        helper.make_node("Concat", ["h", "i"], ["j"], name="join", axis=0),
        helper.make_node("ReduceSum", ["j"], ["k"], name="sum", keepdims=0),
        helper.make_node("Add", ["f", "k"], ["y"], name="add"),
    ]
    graph = helper.make_graph(nodes, "small", [x], [y], [weight, axes, sizes, scale])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return [*light, model.SerializeToString()]


def _layer_lists() -> list[bytes]:
    def layer(number: int, name: str, kind: str, **fields: Any) -> dict[str, Any]:
        image = {"C": 16, "K": 16, "R": 1, "S": 1, "H": 8, "W": 8, "stride_h": 1, "stride_w": 1, "groups": 1}
        shapes = {"external_channels": 0, "input_chw": [16, 8, 8], "output_chw": [16, 8, 8]}
        links = {"input_layers": [], "weight_layers": [], "external_input_ids": []}
        work = {"ops": 16 * 16 * 64, "weight_bytes": 256}
        given = {"id": number, "name": name, "type": kind, **image, **work, **links, **shapes, **fields}
        return {key: value for key, value in given.items() if value is not None}

    layers = [
        layer(0, "conv", "conv", external_input_ids=[0], external_channels=16),
        layer(1, "again", "conv", input_layers=[0]),
        layer(
            2, "sum", "eltwise", N=2, C=None, input_layers=[0, 1], input_chw=[32, 8, 8], weight_bytes=0, ops=2 * 16 * 64
        ),
    ]
    network = {"name": "two", "external_inputs": [{"name": "image", "shape_chw": [16, 8, 8]}], "layers": layers}
    return [json.dumps(network).encode()]


def _configurations() -> list[bytes]:
    small = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}
    return [
        json.dumps({"model_type": "llama", "intermediate_size": 96, "num_key_value_heads": 2, **small}).encode(),
        json.dumps({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100}).encode(),
        json.dumps({"model_type": "bert", "intermediate_size": 96, "max_position_embeddings": 64, **small}).encode(),
        json.dumps(
            {
                "model_type": "mixtral",
                "intermediate_size": 96,
                "num_local_experts": 4,
                "num_experts_per_tok": 2,
                "num_key_value_heads": 2,
                **small,
            }
        ).encode(),
    ]


_TOPOLOGIES = [
    b"Layer, h, w, fh, fw, c, n, s,\nc1, 9, 9, 3, 3, 3, 8, 1,\nDP2, 8, 8, 3, 3, 4, 1, 2,\nc3, 9, 9, 2, 2, 4, 5, 2,\n",
    b"Layer, M, N, K,\ng1, 16, 32, 8,\ng2, 1, 10, 100, 1:4,\n",
]
_CONFIG = b"""[general]
run_name = example
[architecture_presets]
ArrayHeight:    8
ArrayWidth:     8
IfmapSramSzkB:   64
FilterSramSzkB:  64
OfmapSramSzkB:   32
IfmapOffset:    0
Dataflow : ws
Bandwidth : 10
[layout]
IfmapCustomLayout: False
[sparsity]
SparsitySupport : false
[run_presets]
InterfaceBandwidth: CALC
"""
_REQUESTS = [
    b"".join(b"LD 0x%x\nST %d\n" % (64 * number, 4096 * number) for number in range(12)),
    b"".join(b"0x%x READ %d\n0x%x WRITE %d\n" % (64 * n, 3 * n, 8192 * n, 3 * n) for n in range(12)),
    b"arrival,address,bytes,kind,engine\n" + b"".join(b"%d,0x%x,256,read,1\n" % (5 * n, 999 * n) for n in range(12)),
]


@cache
def _timelines() -> list[bytes]:
    import tempfile

    timeline = run(accelsim.load_workload("soma.gpt2_small_decode"), _machine("soma_edge"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.npz"
        accelsim.save_timeline(timeline, path)
        return [path.read_bytes()]


@cache
def _schedules() -> list[bytes]:
    from accelsim.formats.schedule_json import write_schedule
    from accelsim.schedule.living import default_order
    from accelsim.schedule.tiling import tile

    workload = accelsim.load_workload("soma.gpt2_small_decode")
    schedule = accelsim.Layerwise().search(workload, _machine("soma_edge")).schedule
    explicit = replace(schedule, dram_tensors=default_order(tile(workload, schedule)))
    return [write_schedule(schedule).encode(), write_schedule(explicit).encode(), str(schedule).encode()]


def _mutate_schedule(state: random.Random, content: bytes) -> bytes:
    return (mutate_json if content.startswith(b"{") else mutate_lines)(state, content)


def _profiles() -> list[bytes]:
    from tests.unit.test_kineto import EVENTS

    return [json.dumps({"traceEvents": EVENTS}).encode(), json.dumps(EVENTS).encode()]


def _use_graph(path: Path) -> None:
    """A trace of another tool, on a machine with a link."""
    timeline = load_trace(path, _machine("tpu_v3"))
    _check_report(timeline)


def _chakra_traces() -> list[bytes]:
    from tests.unit.test_chakra import EVERY_KIND, trace

    return [trace(*EVERY_KIND), (TEST_DATA / "chakra" / "every_kind.et").read_bytes()]


def _chakra_graphs() -> list[bytes]:
    from tests.unit.test_chakra import FEEDER_NODES

    return [json.dumps({"workload_graph": FEEDER_NODES}).encode()]


def _execution_traces() -> list[bytes]:
    content = json.loads(gzip.decompress((TEST_DATA / "pytorch" / "execution_trace.json.gz").read_bytes()))
    return [json.dumps(content | {"nodes": content["nodes"][first : first + 12]}).encode() for first in (0, 30, 60)]


_SCALESIM_REQUESTS = [
    b"-10.0,1,2,3,-1,\n-9,5,6,7,8,\n0,1,,\n",
    b"arrival,address,bytes,kind\n5,0,160,read\n6,0,32,write\n",
]

TEST_DATA = Path(__file__).parents[1] / "data"

TARGETS: dict[str, Target] = {
    "workload_yaml": Target("w.yaml", _workloads, mutate_lines, _use_workload),
    "template": Target("t.yaml", lambda: _files("hw_templates", "accelerators/*.yaml"), mutate_lines, _use_template),
    "layer_list": Target("l.json", _layer_lists, mutate_json, _use_workload),
    "onnx": Target("m.onnx", _onnx_models, mutate_onnx, _use_workload),
    "hf_config": Target("config.json", _configurations, mutate_json, _use_language_model),
    "scalesim_topology": Target("s.csv", lambda: _TOPOLOGIES, mutate_lines, _use_workload),
    "scalesim_config": Target("s.cfg", lambda: [_CONFIG], mutate_lines, _use_template),
    "timeline": Target("t.npz", _timelines, mutate_npz, _use_timeline),
    "schedule": Target("s.json", _schedules, _mutate_schedule, _use_schedule),
    "kineto": Target("k.json", _profiles, mutate_json, _use_timeline),
    "chakra": Target("c.et", _chakra_traces, mutate_bytes, _use_graph),
    "chakra_json": Target("c.json", _chakra_graphs, mutate_json, _use_graph),
    "execution_trace": Target("e.json", _execution_traces, mutate_json, _use_graph),
    "requests": Target("r.csv", lambda: _SCALESIM_REQUESTS, mutate_lines, _use_graph),
    "memory_trace": Target("m.trace", lambda: _REQUESTS, mutate_lines, _use_memory_trace),
    "energy_table": Target("e.yaml", lambda: _files("hw_templates", "energy/*.yaml"), mutate_lines, _use_energy_table),
    "memory_template": Target(
        "m.yaml", lambda: _files("hw_templates", "memory/*.yaml"), mutate_lines, _use_memory_template
    ),
}


def cases(target: Target, seed: int) -> Iterator[bytes]:
    """Files without end, the same for the same seed."""
    state = random.Random(seed)
    seeds = target.seeds()
    while True:
        content = target.mutate(state, state.choice(seeds))
        if target.mutate is mutate_lines and state.random() < 0.2:
            content = mutate_lines(state, content)
        yield content
