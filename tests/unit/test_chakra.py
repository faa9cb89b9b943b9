"""Chakra traces: every kind of node in every form of file, what they take on a machine, and files that are none."""

import gzip
import json
from pathlib import Path

import pytest

import accelsim
from accelsim.engine import simulate
from accelsim.errors import FormatError, InputError
from accelsim.formats import load_trace
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.template import parse_template
from accelsim.library import trace_path
from accelsim.program.tables import ActivityKind
from tests import chakra_wire as wire
from tests.chakra_wire import node, trace
from tests.smoke.command import in_this_process

DATA = Path(__file__).parents[1] / "data" / "chakra"
TEMPLATE = """
name: small
description: 8 x 8, 16 B/cycle to memory, a ring of 4
clock: 1 GHz
pe_array: {dataflow: output_stationary, rows: 8, columns: 8, mac_energy: 1 pJ}
vector_unit: {throughput: 8 op/cycle, energy: 1 pJ}
buffers: {global: {capacity: 64 KiB, read_energy: 1 pJ/B, write_energy: 1 pJ/B}}
dram: {bandwidth: 16 B/cycle, latency: 10 cycles, read_energy: 2 pJ/B, write_energy: 3 pJ/B}
link: {devices: 4, bandwidth: 8 B/cycle, latency: 5 cycles, energy: 7 pJ/B}
"""


def small(*overrides: str) -> Accelerator:
    return parse_template(TEMPLATE, overrides=overrides)


def saved(folder: Path, *nodes: bytes, name: str = "t.et") -> Path:
    (folder / name).write_bytes(trace(*nodes))
    return folder / name


EVERY_KIND = (
    node(7, wire.METADATA, "start"),
    node(0, wire.LOAD, "weights", after=[7], tensor_size=1600, is_cpu_op=False),
    node(1, wire.COMPUTE, "product", after=[0], num_ops=128 * 300, tensor_size=160),
    node(2, wire.COMPUTE, "recorded", after=[1], micros=2),
    node(3, wire.COLLECTIVE, "sum", after=[1], comm_type=wire.ALL_REDUCE, comm_size=4000, involved_dim=[True]),
    node(4, wire.SEND, "to 1", control=[3], comm_size=80, comm_dst=1, comm_tag=9),
    node(5, wire.RECEIVE, "from 3", control=[3], comm_size=160, comm_src=3, comm_tag=9),
    node(6, wire.STORE, "result", after=[5, 4], tensor_size=32),
)


@pytest.fixture(params=["compiled", "reference"])
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


def spans(timeline: accelsim.Timeline) -> dict[str, tuple[int, int]]:
    """First start and last finish of each node."""
    found: dict[str, tuple[int, int]] = {}
    events, program = timeline.events, timeline.program
    columns = (events.start_cycles, events.finish_cycles, events.activity)
    for start, finish, activity in zip(*(column.tolist() for column in columns), strict=True):
        name = program.operator_names[program.activities.operator[activity]]
        first, last = found.get(name, (start, finish))
        found[name] = min(first, start), max(last, finish)
    return found


def test_every_kind_of_node_by_hand(tmp_path: Path, engine: str) -> None:
    run = simulate(load_trace(saved(tmp_path, *EVERY_KIND), small()).program, engine)
    assert spans(run) == {
        "weights": (0, 110),  # 1600 / 16 + 10
        "product": (110, 410),  # 128 * 300 operations on 8 x 8 MACs
        "recorded": (410, 2410),  # 2 us
        "sum": (410, 410 + 6 * (125 + 5)),  # 2 (4 - 1) rounds of 1000 bytes
        "to 1": (1190, 1205),
        "from 3": (1190, 1215),
        "result": (1215, 1227),
    }
    energies = run.program.energy_pj.sum(axis=0).tolist()
    by_part = dict(zip(run.program.part_names, energies, strict=True))
    assert by_part["dram"] == 1600 * 2 + 32 * 3
    assert by_part["link"] == 7 * (6 * 1000 + 80 + 160)
    notes = str(run.program.facts["notes"])
    assert "1 of 2 nodes that compute keep the time" in notes
    assert "one trace stands for all 4 devices" in notes


def test_computing_limited_by_memory(tmp_path: Path) -> None:
    run = load_trace(saved(tmp_path, node(0, wire.COMPUTE, num_ops=128, tensor_size=1601)), small())
    assert run.latency_cycles == 101  # of 1601 bytes; of 64 MACs: 1


def test_without_a_machine_recorded_times_count(tmp_path: Path) -> None:
    nodes = (
        node(0, wire.COMPUTE, "a", micros=3),
        node(1, wire.COLLECTIVE, "b", after=[0], micros=5, comm_type=0, comm_size=100),
        node(2, wire.COMPUTE, "c", after=[0], micros=4, is_cpu_op=True),
        node(3, wire.LOAD, "d", after=[2, 1], micros=1, tensor_size=8),
    )
    run = load_trace(saved(tmp_path, *nodes))
    assert spans(run) == {"a": (0, 3000), "b": (3000, 8000), "c": (3000, 7000), "d": (8000, 9000)}
    assert run.program.resource_names == ("core", "network", "host", "memory")


def test_what_is_ready_runs_first_come_first_served(tmp_path: Path) -> None:
    """A sum must not keep back the computing behind it in the file, as in training with data in parallel."""
    nodes = (
        node(0, wire.COMPUTE, "backward 1", micros=1),
        node(1, wire.COLLECTIVE, "sum 1", after=[0], comm_type=0, comm_size=4000),
        node(2, wire.COMPUTE, "update 1", after=[1], micros=1),
        node(3, wire.COMPUTE, "backward 0", after=[0], micros=2),
    )
    run = load_trace(saved(tmp_path, *nodes), small())
    assert spans(run) == {
        "backward 1": (0, 1000),
        "sum 1": (1000, 1780),
        "backward 0": (1000, 3000),
        "update 1": (3000, 4000),
    }
    sent = accelsim.report(run).to_dict()["communication"]
    assert sent == {
        "bytes": 6000,
        "cycles": 780,
        "overlapped_cycles": 780,
        "exposed_cycles": 0,
        "overlapped_percent": 100.0,
        "devices": 1,
    }


def test_exposed_communication_by_hand(tmp_path: Path) -> None:
    nodes = (
        node(0, wire.COMPUTE, "a", micros=1),
        node(1, wire.COLLECTIVE, "sum", after=[0], comm_type=0, comm_size=8000),  # 6 (250 + 5) = 1530
        node(2, wire.COMPUTE, "b", after=[0], micros=1),
        node(3, wire.COMPUTE, "c", after=[1, 2], micros=1),
    )
    run = load_trace(saved(tmp_path, *nodes), small())
    found = accelsim.report(run).to_dict()
    assert found["latency_cycles"] == 1000 + 1530 + 1000
    assert (found["communication"]["overlapped_cycles"], found["communication"]["exposed_cycles"]) == (1000, 530)
    assert found["cycles_by_cause"]["wait_communication"] == 530
    assert "exposed" in str(accelsim.report(run))


def folder_of(folder: Path, *devices: tuple[bytes, ...]) -> Path:
    folder.mkdir(exist_ok=True)
    for rank, nodes in enumerate(devices):
        saved(folder, *nodes, name=f"run.{rank}.et")
    return folder


def test_a_pipeline_of_devices_by_hand(tmp_path: Path, engine: str) -> None:
    """Each device passes 80 bytes on: 10 cycles on a link, 5 of latency; device 0's message crosses two links."""
    devices = (
        (node(0, wire.COMPUTE, "a0", micros=1), node(1, wire.SEND, "s0", after=[0], comm_size=80, comm_dst=2)),
        (node(0, wire.COMPUTE, "a1", micros=1), node(1, wire.SEND, "s1", after=[0], comm_size=160, comm_dst=2)),
        (
            node(0, wire.RECEIVE, "r1", comm_size=160, comm_src=1),
            node(1, wire.RECEIVE, "r0", comm_size=80, comm_src=0),
            node(2, wire.COMPUTE, "a2", after=[0, 1], micros=1),
        ),
        (node(0, wire.COMPUTE, "a3", micros=2),),
    )
    run = simulate(load_trace(folder_of(tmp_path, *devices), small()).program, engine)
    found = spans(run)
    assert found["s1"] == (1000, 1025)
    assert found["s0"] == (1000, 1015 + 5 + 15)  # device 1's link is busy until 1020; then its second hop
    assert found["a2"] == (1035, 2035)
    assert found["a3"] == (0, 2000)
    assert "link 1" in run.program.resource_names


def test_groups_and_latecomers(tmp_path: Path, engine: str) -> None:
    """Devices 0 and 2 sum among themselves, two hops each way; a member that comes late is waited for."""

    def summed(micros: int) -> tuple[bytes, ...]:
        both = {"comm_type": wire.ALL_REDUCE, "comm_size": 80, "pg_name": "even"}
        return node(0, wire.COMPUTE, "a", micros=micros), node(1, wire.COLLECTIVE, "sum", after=[0], **both)

    alone = (node(0, wire.COMPUTE, "b", micros=1),)
    run = simulate(load_trace(folder_of(tmp_path, summed(1), alone, summed(3), alone), small()).program, engine)
    assert spans(run)["sum"] == (3000, 3000 + 2 * 2 * (5 + 5))  # 2 rounds of 40 bytes over 2 links


def test_json_in_both_forms_is_the_same_trace(tmp_path: Path) -> None:
    plain = load_trace(saved(tmp_path, *EVERY_KIND), small())
    kinds = {0: "MEM_LOAD_NODE", 1: "COMP_NODE", 2: "COMP_NODE", 3: "COMM_COLL_NODE"}
    kinds |= {4: "COMM_SEND_NODE", 5: "COMM_RECV_NODE", 6: "MEM_STORE_NODE", 7: "METADATA_NODE"}
    rows = [
        (7, "start", {}, {}),
        (0, "weights", {"dataDeps": ["7"]}, {"tensor_size": 1600}),
        (1, "product", {"dataDeps": ["0"]}, {"num_ops": 38400, "tensor_size": 160}),
        (2, "recorded", {"dataDeps": ["1"], "durationMicros": "2"}, {}),
        (3, "sum", {"dataDeps": ["1"]}, {"comm_type": 0, "comm_size": 4000}),
        (4, "to 1", {"ctrlDeps": ["3"]}, {"comm_size": 80, "comm_dst": 1, "comm_tag": 9}),
        (5, "from 3", {"ctrlDeps": ["3"]}, {"comm_size": 160, "comm_src": 3, "comm_tag": 9}),
        (6, "result", {"dataDeps": ["5", "4"]}, {"tensor_size": 32}),
    ]
    objects = ['{"version": "0.0.4"}']
    for number, name, fields, attributes in rows:
        listed = [{"name": key, "int64Val": str(value)} for key, value in attributes.items()]
        entry = {"name": name, "type": kinds[number], "attr": listed, **fields} | (
            {"id": str(number)} if number else {}
        )
        objects.append(json.dumps(entry, indent=2))  # protobuf leaves out an id of 0
    (tmp_path / "t.json").write_text("".join(objects))
    (tmp_path / "u.json.gz").write_bytes(gzip.compress(json.dumps({"workload_graph": FEEDER_NODES}).encode()))
    for other in ("t.json", "u.json.gz"):
        assert spans(load_trace(tmp_path / other, small())) == spans(plain)


FEEDER_NODES: list[dict[str, object]] = [
    {"Id": 7, "Name": "start", "NodeType": 1},
    {"Id": 0, "Name": "weights", "NodeType": 2, "data_deps": [7], "tensor_size": 1600},
    {"Id": 1, "Name": "product", "NodeType": 4, "data_deps": [0], "num_ops": 38400, "tensor_size": 160},
    {"Id": 2, "Name": "recorded", "NodeType": 4, "data_deps": [1], "runtime": 2},
    {"Id": 3, "Name": "sum", "NodeType": 7, "data_deps": [1], "comm_type": 0, "comm_size": 4000},
    {"Id": 4, "Name": "to 1", "NodeType": 5, "ctrl_deps": [3], "comm_size": 80, "comm_dst": 1, "comm_tag": 9},
    {"Id": 5, "Name": "from 3", "NodeType": 6, "ctrl_deps": [3], "comm_size": 160, "comm_src": 3, "comm_tag": 9},
    {"Id": 6, "Name": "result", "NodeType": 3, "data_deps": [5, 4], "tensor_size": 32},
]
"""What ``EVERY_KIND`` is in the other form of JSON."""


def test_files_of_the_official_encoder() -> None:
    """Made by ``make.py`` there with mlc-chakra 1.0.0; the values are those that it gave."""
    run = load_trace(DATA / "every_kind.et", small())
    program = run.program
    assert program.operator_names == ("load", "compute", "priced", "all-reduce", "receive", "send", "store", "on host")
    assert program.activities.bytes[program.activities.kind == ActivityKind.LOAD].tolist() == [1024]
    assert spans(run)["compute"] == (74, 5074)
    assert spans(run)["all-reduce"] == (5074 + 4, 5074 + 4 + 6 * (2048 + 5))
    several = load_trace(DATA / "pipeline", small())
    assert spans(several)["forward 3"][0] == 4 * 1000 - 1000 + 3 * (512 + 5)


def test_the_official_encoder_itself(tmp_path: Path) -> None:
    messages = pytest.importorskip("chakra.schema.protobuf.et_def_pb2", reason="mlc-chakra is not installed")
    one = messages.Node(id=3, name="x", type=messages.COMP_NODE, duration_micros=7)
    content = b"".join(bytes([part.ByteSize()]) + part.SerializeToString() for part in (messages.GlobalMetadata(), one))
    (tmp_path / "t.et").write_bytes(content)
    assert load_trace(tmp_path / "t.et").latency_cycles == 7000


def test_old_files_without_metadata_and_a_metadata_of_another_version(tmp_path: Path) -> None:
    only = node(0, wire.COMPUTE, micros=1)
    (tmp_path / "a.et").write_bytes(wire.framed(only))
    (tmp_path / "b.et").write_bytes(wire.framed(wire.text(1, wire.text(1, "schema") + wire.text(29, "1.0.2")), only))
    (tmp_path / "c.et").write_bytes(gzip.compress(wire.framed(b"", only)))
    assert {load_trace(tmp_path / name).latency_cycles for name in ("a.et", "b.et", "c.et")} == {1000}


def summed(**more: object) -> bytes:
    return node(5, wire.COLLECTIVE, "<b>sum", **({"comm_type": 0, "comm_size": 8} | more))


BAD = {
    "an empty file": (b"", r"none of its 0 nodes"),
    "another file": (b"\x89PNG\r\n\x1a\n" + bytes(40), r"byte 0: message 0 should have .* bytes"),
    "a text": (b"LD 0x40\nST 0x80\n" * 10, r"byte 77: message 1 is no Chakra node"),
    "a length of 10^9": (wire.framed(b"") + wire.varint(10**9) + b"abc", r"message 1 should have 1,000,000,000 bytes"),
    "a length without an end": (wire.framed(b"") + b"\xff" * 12, r"byte 1: here the length of a message"),
    "cut short": (trace(*EVERY_KIND)[:-3], r"message 8 should have \d+ bytes, \d+ are left"),
    "a broken message": (wire.framed(b"", b"\x12\x7fab"), r"byte 1: message 1 is no Chakra node"),
    "only metadata": (trace(node(0, wire.METADATA)), r"none of its 1 nodes computes"),
    "an unknown kind": (trace(node(2, 42, "odd")), r"node 2 \('odd'\): its type is '42'; known are"),
    "an invalid kind": (trace(node(0, wire.COMPUTE), node(2, 0, "odd")), r"node 2 \('odd'\): its type is '0'"),
    "an unknown collective": (trace(summed(comm_type=77)), r"comm_type is '77'; known are ALL_REDUCE \(0\)"),
    "no size": (trace(node(1, wire.COLLECTIVE, comm_type=0)), r"it has no attribute 'comm_size'"),
    "no peer": (trace(node(1, wire.SEND, comm_size=8)), r"no attribute 'comm_dst'"),
    "a negative size": (trace(summed(comm_size=(1 << 64) - 1)), r"comm_size is '-1'; must be a whole number from 0"),
    "a huge duration": (trace(node(1, wire.COMPUTE, micros=1 << 60)), r"duration_micros is '1152921504606846976'"),
    "some dimensions": (trace(summed(involved_dim=[True, False])), r"only some of 2 network dimensions"),
    "an id twice": (trace(node(1, 4, "a"), node(1, 4, "b")), r"node 1 \('b'\): its id stands a second time"),
    "a missing parent": (trace(node(1, 4, "a", after=[99])), r"node 1 \('a'\) depends on node 99, which is not in the"),
    "itself": (trace(node(1, 4, "a", after=[1])), r"node 1 \('a'\) waits for itself: nodes wait for each other"),
    "a circle": (
        trace(node(1, 4, "a", after=[3]), node(2, 4, "b", after=[1]), node(3, 4, "c", after=[2]), node(4, 4)),
        r"t\.et: node 1 \('a'\) waits for node 3 \('c'\), which waits for node 2 \('b'\), which waits for the first",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_files_that_are_no_traces(tmp_path: Path, name: str) -> None:
    content, message = BAD[name]
    (tmp_path / "t.et").write_bytes(content)
    with pytest.raises(FormatError, match=message):
        load_trace(tmp_path / "t.et", small())


def test_a_truncated_gzip(tmp_path: Path) -> None:
    (tmp_path / "t.et.gz").write_bytes(gzip.compress(trace(*EVERY_KIND))[:-20])
    with pytest.raises(FormatError, match=r"t\.et\.gz: cannot be read"):
        load_trace(tmp_path / "t.et.gz", small())


BAD_JSON = {
    "a package": ({"name": "x", "dependencies": {}}, r"no trace that can be replayed"),
    "a number": (5, r"no trace that can be replayed"),
    "a graph of text": ({"workload_graph": "x"}, r"workload_graph is 'x', must be a list"),
    "a node of text": ({"workload_graph": ["x"]}, r"node number 0 is 'x', must be an object"),
    "a negative time": ({"workload_graph": [{"Id": 1, "NodeType": 4, "runtime": -3}]}, r"duration_micros is '-3'"),
    "half a byte": ({"workload_graph": [{"Id": 1, "NodeType": 2, "tensor_size": 1.5}]}, r"tensor_size is '1\.5'"),
    "no parents": ({"workload_graph": [{"Id": 1, "NodeType": 4, "data_deps": 7}]}, r"data_deps is '7', must be a list"),
}


def test_a_number_of_json_that_would_fill_memory(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"workload_graph": [{"Id": 1, "NodeType": 4, "runtime": 1e900000000}]}')
    with pytest.raises(FormatError, match="must be a whole number from 0"):
        load_trace(tmp_path / "t.json", small())


@pytest.mark.parametrize("name", BAD_JSON)
def test_json_that_is_no_trace(tmp_path: Path, name: str) -> None:
    content, message = BAD_JSON[name]
    (tmp_path / "t.json").write_text(json.dumps(content))
    with pytest.raises(FormatError, match=message):
        load_trace(tmp_path / "t.json", small())


def test_what_a_machine_must_have(tmp_path: Path) -> None:
    path = saved(tmp_path, summed())
    with pytest.raises(InputError, match=r"node 5 \('<b>sum'\) communicates, but soma_edge has no link"):
        load_trace(path, accelsim.load_accelerator("soma_edge"))
    with pytest.raises(InputError, match=r"does not say how long this collective takes; give the machine"):
        load_trace(path)
    with pytest.raises(InputError, match=r"its peer is device 4, the link joins devices 0 to 3"):
        load_trace(saved(tmp_path, node(0, wire.SEND, comm_size=1, comm_dst=4)), small())
    with pytest.raises(InputError, match=r"more than 20,000,000 tiles and messages"):
        nodes = [node(row, wire.COLLECTIVE, comm_type=0, comm_size=8) for row in range(155)]
        load_trace(saved(tmp_path, *nodes), small("link.devices=65000"))


BAD_FOLDERS = {
    "nothing in it": ((), FormatError, r"it has 0 files NAME\.RANK\.et"),
    "too few devices": (((node(0, 4, micros=1),), (summed(),)), InputError, r"recorded are the devices 0, 1, but"),
    "a lone send": (
        ((node(0, wire.SEND, comm_size=1, comm_dst=1),), *((node(0, 4, micros=1),),) * 3),
        FormatError,
        r"device 1 has no receive of tag 0",
    ),
    "one lacks a sum": (((summed(),), (summed(),), (node(0, 4, micros=1),), (summed(),)), FormatError, r"has only 0"),
    "different sums": (
        ((summed(),), (summed(comm_size=9),), (summed(),), (summed(),)),
        FormatError,
        r"of 9 bytes, but",
    ),
    "receives before sends": (
        (
            (node(0, wire.RECEIVE, comm_size=1, comm_src=1), node(1, wire.SEND, after=[0], comm_size=1, comm_dst=1)),
            (node(0, wire.RECEIVE, comm_size=1, comm_src=0), node(1, wire.SEND, after=[0], comm_size=1, comm_dst=0)),
            *((node(0, 4, micros=1),),) * 2,
        ),
        FormatError,
        r"nodes wait for each other",
    ),
}


@pytest.mark.parametrize("name", BAD_FOLDERS)
def test_folders_that_do_not_fit(tmp_path: Path, name: str) -> None:
    devices, error, message = BAD_FOLDERS[name]
    with pytest.raises(error, match=message):
        load_trace(folder_of(tmp_path, *devices), small())


def test_twice_the_bandwidth_of_the_link_is_a_run_from_scratch(tmp_path: Path) -> None:
    path = saved(tmp_path, *EVERY_KIND)
    faster = small("link.bandwidth=16 B/cycle", "dram.bandwidth=32 B/cycle", "link.energy=5 pJ/B", "name=faster")
    again, scratch = accelsim.replay(load_trace(path, small()), faster), load_trace(path, faster)
    assert spans(again) == spans(scratch)
    assert spans(again)["sum"] == (355 + 5, 360 + 6 * (63 + 5))  # weights 50 + 10, product 300
    assert (again.program.energy_pj == scratch.program.energy_pj).all()
    folder = folder_of(tmp_path / "devices", *((node(0, wire.LOAD, tensor_size=320), summed()),) * 4)
    again, scratch = accelsim.replay(load_trace(folder, small()), faster), load_trace(folder, faster)
    assert spans(again) == spans(scratch)


def test_a_machine_with_banks_places_what_is_loaded(tmp_path: Path) -> None:
    banks = small("dram.fidelity=banks", "dram.memory.technology=ddr4_3200")
    run = load_trace(saved(tmp_path, node(0, wire.LOAD, tensor_size=6400), node(1, wire.STORE, tensor_size=64)), banks)
    use = run.memory
    assert use is not None
    assert (use.bursts_read, use.bursts_written) == (100, 1)


def test_the_shipped_trace_by_arithmetic() -> None:
    """GPT-2 small, 1024 tokens a device: operations, gradients, and what the compute-bound forward pass takes."""
    layer, table, tokens = 12 * 768**2, 50257 * 768, 1024
    run = load_trace(trace_path("gpt2_small_training"), accelsim.load_accelerator("tpu_v3"))
    forward = 2 * tokens * (12 * layer + table) + 12 * 4 * tokens * 512 * 768
    updates = 12 * (12 * layer + table)
    assert int(run.program.activities.macs.sum()) == (3 * forward + updates) // 2
    sent = accelsim.report(run).to_dict()["communication"]
    shares = 12 * -(-2 * layer // 8) + -(-2 * table // 8)
    assert sent["bytes"] == 14 * shares
    assert sent["exposed_cycles"] == 0
    one_layer = spans(run)["forward 3"]
    assert one_layer[1] - one_layer[0] == -(-(2 * tokens * layer + 4 * tokens * 512 * 768) // (2 * 128 * 256))


def test_on_the_command_line(tmp_path: Path) -> None:
    saved(tmp_path, *EVERY_KIND)
    (tmp_path / "small.yaml").write_text(TEMPLATE)
    run = in_this_process("replay", "t.et", "--hardware", "small.yaml", "--out", "out", "--json", folder=tmp_path)
    assert json.loads(run.stdout)["communication"]["bytes"] == 6000 + 80 + 160
    assert "note: one trace stands for all 4 devices of the link" in run.stderr
    again = in_this_process("replay", "out", "--set", "link.bandwidth=16 B/cycle", "--json", folder=tmp_path)
    assert json.loads(again.stdout)["latency_cycles"] < json.loads(run.stdout)["latency_cycles"] + 1
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Communication" in page
