"""How the traces in this folder were made: with the official messages and encoder (mlc-chakra 1.0.0, on PyPI)."""

from pathlib import Path

from chakra.schema.protobuf.et_def_pb2 import (
    ALL_REDUCE,
    COMM_COLL_NODE,
    COMM_RECV_NODE,
    COMM_SEND_NODE,
    COMP_NODE,
    MEM_LOAD_NODE,
    MEM_STORE_NODE,
    METADATA_NODE,
    AttributeProto,
    BoolList,
    GlobalMetadata,
    Node,
)
from chakra.src.third_party.utils.protolib import encodeMessage

HERE = Path(__file__).parent


def attribute(name: str, value: object) -> AttributeProto:
    if isinstance(value, bool):
        return AttributeProto(name=name, bool_val=value)
    if isinstance(value, list):
        return AttributeProto(name=name, bool_list=BoolList(values=value))
    if isinstance(value, str):
        return AttributeProto(name=name, string_val=value)
    field = "uint64_val" if name == "tensor_size" else "int32_val" if name == "comm_tag" else "int64_val"
    return AttributeProto(name=name, **{field: value})


def write(name: str, *nodes: tuple) -> None:
    (HERE / name).parent.mkdir(exist_ok=True)
    with (HERE / name).open("wb") as file:
        encodeMessage(file, GlobalMetadata(version="0.0.4"))
        for number, (label, kind, parents, micros, attributes) in enumerate(nodes):
            listed = [attribute(key, value) for key, value in attributes.items()]
            encodeMessage(
                file, Node(id=number, name=label, type=kind, data_deps=parents, duration_micros=micros, attr=listed)
            )


write(
    "every_kind.et",
    ("metadata", METADATA_NODE, [], 0, {"text": "any", "flags": [True, False]}),
    ("load", MEM_LOAD_NODE, [0], 0, {"tensor_size": 1024, "is_cpu_op": False}),
    ("compute", COMP_NODE, [1], 5, {"is_cpu_op": False}),
    ("priced", COMP_NODE, [2], 0, {"num_ops": 512, "tensor_size": 64, "is_cpu_op": False}),
    ("all-reduce", COMM_COLL_NODE, [3], 0, {"comm_type": ALL_REDUCE, "comm_size": 65536, "involved_dim": [True] * 4}),
    ("send", COMM_SEND_NODE, [4], 0, {"comm_size": 256, "comm_dst": 1, "comm_tag": 3}),
    ("receive", COMM_RECV_NODE, [4], 0, {"comm_size": 256, "comm_src": 3, "comm_tag": 3}),
    ("store", MEM_STORE_NODE, [5, 6], 0, {"tensor_size": 2048}),
    ("on host", COMP_NODE, [7], 2, {"is_cpu_op": True}),
)
for rank in range(4):
    nodes = []
    if rank:
        nodes.append((f"receive {rank}", COMM_RECV_NODE, [], 0, {"comm_size": 4096, "comm_src": rank - 1}))
    nodes.append((f"forward {rank}", COMP_NODE, [len(nodes) - 1] if nodes else [], 1, {"is_cpu_op": False}))
    if rank < 3:
        nodes.append((f"send {rank}", COMM_SEND_NODE, [len(nodes) - 1], 0, {"comm_size": 4096, "comm_dst": rank + 1}))
    write(f"pipeline/run.{rank}.et", *nodes)
