"""Collectives on an idle link take what the algorithm's closed form says, to the cycle, in both engines."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.engine import simulate
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.template import parse_template
from accelsim.program.collectives import rounds
from accelsim.program.lower_recorded import lower_recorded
from accelsim.program.recorded import NodeKind, RecordedDevice, RecordedNode

TEMPLATE = """
name: small
description: for tests of links
clock: 1 GHz
pe_array: {dataflow: output_stationary, rows: 8, columns: 8, mac_energy: 1 pJ}
vector_unit: {throughput: 8 op/cycle, energy: 1 pJ}
buffers: {global: {capacity: 64 KiB, read_energy: 1 pJ/B, write_energy: 1 pJ/B}}
dram: {bandwidth: 16 B/cycle, read_energy: 2 pJ/B, write_energy: 3 pJ/B}
"""


def machine(devices: int, rate: Fraction, latency: int, topology: str) -> Accelerator:
    link = [f"link.devices={devices}", f"link.latency={latency} cycles", f"link.topology={topology}"]
    return parse_template(TEMPLATE, overrides=[*link, f"link.bandwidth={float(rate)!r} B/cycle"])


def closed_form(name: str, devices: int, size: int, rate: Fraction, latency: int, topology: str) -> int:
    """Steps and the bytes of each, by the textbook."""

    def step(size_bytes: int) -> int:
        return ceil(size_bytes / rate) + latency

    n, share = devices, ceil(Fraction(size, devices))
    return {
        "all_reduce": 2 * (n - 1) * step(share),
        "reduce_scatter": (n - 1) * step(share),
        "all_gather": (n - 1) * step(size),
        "all_to_all": (
            (n - 1) * step(share) if topology == "switch" else sum(step(hops * share) for hops in range(1, n))
        ),
        "broadcast": (n - 2 + n) * step(share),  # n pieces down a chain of n - 1 hops
        "reduce": (n - 2 + n) * step(share),
        "gather": (n - 1) * step(size),
        "scatter": (n - 1) * step(share),
        "barrier": 2 * (n - 1) * latency,
    }[name]


NAMES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
NAMES += ("broadcast", "reduce", "gather", "scatter", "barrier")


@settings(max_examples=25)
@given(
    name=st.sampled_from(NAMES),
    devices=st.integers(1, 6),
    size=st.integers(0, 3000),
    rate=st.sampled_from([Fraction(1), Fraction(7), Fraction(5, 2), Fraction(125, 8)]),
    latency=st.integers(0, 20),
    topology=st.sampled_from(["ring", "switch"]),
)
def test_idle_links_take_the_closed_form(
    name: str, devices: int, size: int, rate: Fraction, latency: int, topology: str
) -> None:
    accelerator = machine(devices, rate, latency, topology)
    nodes = [
        RecordedNode(0, "first", NodeKind.COMPUTE, duration_ns=10),
        RecordedNode(1, name, NodeKind.COLLECTIVE, (0,), bytes=size, collective=name),
        RecordedNode(2, "last", NodeKind.COMPUTE, (1,), duration_ns=5),
    ]
    expected = 15 + closed_form(name, devices, size, rate, latency, topology)
    for recorded in ([RecordedDevice(0, "one", nodes)], [RecordedDevice(rank, "", nodes) for rank in range(devices)]):
        program = lower_recorded(recorded, accelerator, "test")
        assert {simulate(program, engine).latency_cycles for engine in ("compiled", "reference")} == {expected}


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("members", [2, 3, 5])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "barrier"])
def test_rounds_bring_everything_where_it_belongs(name: str, members: int, direct: bool) -> None:
    """Sets of shares are passed on as the messages go: in the end each member has what the operation promises.

    A share is (whose data, which part of it). A message carries what its round would: the test follows who knows what,
    and allows a member to pass on only what it knew before the round.
    """
    knows = [{(member, part) for part in range(members)} for member in range(members)]
    if name in ("broadcast", "scatter"):
        knows = [knows[0]] + [set() for _ in range(members - 1)]
    for messages in rounds(name, members, members, direct=direct):
        before = [set(one) for one in knows]
        for source, to, size in messages:
            assert size > 0
            assert source != to
            knows[to] |= before[source]
    wanted: list[set[tuple[int, int]]] = [set() for _ in range(members)]
    for member in range(members):
        if name in ("broadcast", "scatter"):
            wanted[member] = {(0, member)}
        elif name in ("all_reduce", "all_gather", "all_to_all", "reduce_scatter") or member == 0:
            wanted[member] = {(other, member) for other in range(members)}
    assert all(want <= known for want, known in zip(wanted, knows, strict=True))


def test_bytes_over_links_by_hand() -> None:
    """All-reduce of 1000 bytes among 4: each link carries 6 shares of 250; all-to-all: (3 + 2 + 1) shares."""
    accelerator = machine(4, Fraction(10), 0, "ring")
    for name, sent in (("all_reduce", 1500), ("all_to_all", 1500), ("all_gather", 3000), ("reduce_scatter", 750)):
        node = RecordedNode(0, name, NodeKind.COLLECTIVE, bytes=1000, collective=name)
        program = lower_recorded([RecordedDevice(0, "", [node])], accelerator, "test")
        assert int(program.activities.bytes.sum()) == sent
