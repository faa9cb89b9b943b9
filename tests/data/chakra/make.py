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

# The shipped example: a training step of GPT-2 small on one of several devices that share the batch. Each has two
# sequences of 512 tokens in bfloat16; a layer has 12 d^2 parameters. Operations: 2 a parameter and token forward (and
# attention's 4 T S d), twice that backward. Gradients are summed layer by layer, while the backward pass goes on; the
# table of tokens, which is also the output head, has its whole gradient only at the end. An update reads and writes
# parameters, two moments (float32) and gradients: 28 bytes a parameter.
LAYERS, WIDTH, TOKENS, SEQUENCE, VOCABULARY = 12, 768, 2 * 512, 512, 50257
LAYER, TABLE = 12 * WIDTH * WIDTH, VOCABULARY * WIDTH
layer_ops = 2 * LAYER * TOKENS + 4 * TOKENS * SEQUENCE * WIDTH
layer_bytes = 2 * (LAYER + 14 * TOKENS * WIDTH)
head_ops, head_bytes = 2 * TABLE * TOKENS, 2 * (TABLE + TOKENS * (WIDTH + VOCABULARY))
nodes = []


def add(label: str, kind: int, parents: list[int], **attributes: int) -> int:
    nodes.append((label, kind, parents, 0, {**attributes, "is_cpu_op": False}))
    return len(nodes) - 1


def summed(label: str, parent: int, parameters: int) -> int:
    return add(f"sum {label}", COMM_COLL_NODE, [parent], comm_type=ALL_REDUCE, comm_size=2 * parameters)


last = add("forward embedding", COMP_NODE, [], num_ops=0, tensor_size=4 * TOKENS * WIDTH)
for layer in range(LAYERS):
    last = add(f"forward {layer}", COMP_NODE, [last], num_ops=layer_ops, tensor_size=layer_bytes)
last = add("forward head", COMP_NODE, [last], num_ops=head_ops, tensor_size=head_bytes)
last = add("backward head", COMP_NODE, [last], num_ops=2 * head_ops, tensor_size=2 * head_bytes)
sums = []
for layer in reversed(range(LAYERS)):
    last = add(f"backward {layer}", COMP_NODE, [last], num_ops=2 * layer_ops, tensor_size=2 * layer_bytes)
    sums.append((str(layer), summed(str(layer), last, LAYER), LAYER))
last = add("backward embedding", COMP_NODE, [last], num_ops=0, tensor_size=4 * TOKENS * WIDTH)
sums.append(("embedding", summed("embedding", last, TABLE), TABLE))
for label, node, parameters in sums:
    add(f"update {label}", COMP_NODE, [last, node], num_ops=12 * parameters, tensor_size=28 * parameters)
write("../../../workloads/traces/gpt2_small_training.et", *nodes)
