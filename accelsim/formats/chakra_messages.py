"""The messages of Chakra execution traces: field numbers of MLCommons' ``et_def.proto``, versions 0.0.4 and 1.0.0.

Only what is read is declared; protobuf skips the other fields.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "accelsim.chakra"

NODE_TYPES = {
    1: "METADATA_NODE",
    2: "MEM_LOAD_NODE",
    3: "MEM_STORE_NODE",
    4: "COMP_NODE",
    5: "COMM_SEND_NODE",
    6: "COMM_RECV_NODE",
    7: "COMM_COLL_NODE",
}
COLLECTIVE_TYPES = {
    0: "ALL_REDUCE",
    1: "REDUCE",
    2: "ALL_GATHER",
    3: "GATHER",
    4: "SCATTER",
    5: "BROADCAST",
    6: "ALL_TO_ALL",
    7: "REDUCE_SCATTER",
    8: "REDUCE_SCATTER_BLOCK",
    9: "BARRIER",
}

SCALARS: tuple[str, ...] = ("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64")
SCALARS += ("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes")
"""Types of an attribute's value, in the order of their fields: ``NAME_val`` is 3, 5, …, ``NAME_list`` 4, 6, …"""

_NODE_FIELDS = (
    ("id", 1, "uint64", False),
    ("name", 2, "string", False),
    ("type", 3, "int32", False),  # an enumeration; as a number, so that unknown kinds can be named
    ("ctrl_deps", 4, "uint64", True),
    ("data_deps", 5, "uint64", True),
    ("start_time_micros", 6, "uint64", False),
    ("duration_micros", 7, "uint64", False),
    ("attr", 10, "AttributeProto", True),
)


def _add_field(message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str, repeated: bool) -> None:
    field = message.field.add(name=name, number=number)
    field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
    if kind in SCALARS:
        field.type = descriptor_pb2.FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
    else:
        field.type = field.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{kind}"


@cache
def node_class() -> type[Any]:
    """The class of the message ``Node``."""
    file = descriptor_pb2.FileDescriptorProto(name="accelsim_chakra.proto", package=PACKAGE, syntax="proto3")
    attribute = file.message_type.add(name="AttributeProto")
    attribute.oneof_decl.add(name="value")
    _add_field(attribute, "name", 1, "string", False)
    for place, scalar in enumerate(SCALARS):
        values = file.message_type.add(name=f"{scalar}List")
        _add_field(values, "values", 1, scalar, True)
        _add_field(attribute, f"{scalar}_val", 3 + 2 * place, scalar, False)
        _add_field(attribute, f"{scalar}_list", 4 + 2 * place, values.name, False)
    for field in attribute.field[1:]:
        field.oneof_index = 0
    node = file.message_type.add(name="Node")
    for row in _NODE_FIELDS:
        _add_field(node, *row)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found: type[Any] = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.Node"))
    return found
