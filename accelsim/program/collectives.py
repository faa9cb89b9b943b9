"""Collective operations as rounds of messages, after the ring algorithms that communication libraries use.

A device sends in a round once all that it sent and received in the round before has arrived. So on idle links, with
messages that cross one hop, a collective takes the sum over its rounds of ceil(bytes / bandwidth) + latency cycles.

Ring all-reduce as reduce-scatter and all-gather: P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for
clusters of workstations", JPDC 69(2), 2009, section 3. What the size of an operation counts, the bytes that a device
hands in, is as in ASTRA-sim 2.0 (W. Won et al., ISPASS 2023).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple


class Message(NamedTuple):
    """Bytes from one member of a group to another; members are numbered from 0, a root is member 0."""

    source: int
    destination: int
    bytes: int


class Collective(NamedTuple):
    """How an operation is done."""

    round_bytes: Callable[[int, int, bool], list[int]]
    """From members, size and whether messages go to any member directly, to the bytes of a message in each round."""
    pairs: Callable[[int, int, bool], list[tuple[int, int]]]
    """From the number of a round, members and ``direct``, to who sends to whom."""


def _share(members: int, size_bytes: int) -> int:
    return -(-size_bytes // members)


def _to_next(number: int, members: int, direct: bool) -> list[tuple[int, int]]:
    return [(member, (member + 1) % members) for member in range(members)]


def _to_further(number: int, members: int, direct: bool) -> list[tuple[int, int]]:
    """Directly to the one so many places on; else to the next, who passes on."""
    distance = number + 1 if direct else 1
    return [(member, (member + distance) % members) for member in range(members)]


def _all_to_all_bytes(members: int, size_bytes: int, direct: bool) -> list[int]:
    """Round d carries a share for each member at least d places on, directly a share for that one only."""
    share = _share(members, size_bytes)
    return [share if direct else (members - distance) * share for distance in range(1, members)]


def _down_the_chain(number: int, members: int, direct: bool) -> list[tuple[int, int]]:
    """Member d passes piece p on in round d + p; there are as many pieces as members."""
    senders = range(max(0, number - members + 1), min(number, members - 2) + 1)
    return [(member, member + 1) for member in senders]


def _chain_to_root(number: int, members: int, direct: bool) -> list[tuple[int, int]]:
    """The same chain, which begins behind the root and ends there."""
    return [(sender + 1, (sender + 2) % members) for sender, _ in _down_the_chain(number, members, direct)]


def _to_root(number: int, members: int, direct: bool) -> list[tuple[int, int]]:
    """All pass on what came last: the root receives from one member in each round, and the first ends first."""
    return [(member, (member + 1) % members) for member in range(number + 1, members)]


def _from_root(number: int, members: int, direct: bool) -> list[tuple[int, int]]:
    """The root sends one share in each round, that of the furthest first; all pass on what is not theirs."""
    return [(member, member + 1) for member in range(min(number + 1, members - 1))]


def _shares(rounds_per_step: int) -> Callable[[int, int, bool], list[int]]:
    return lambda members, size, direct: [_share(members, size)] * (rounds_per_step * (members - 1))


def _wholes(members: int, size_bytes: int, direct: bool) -> list[int]:
    return [size_bytes] * (members - 1)


COLLECTIVES: dict[str, Collective] = {
    "all_reduce": Collective(_shares(2), _to_next),  # a reduce-scatter, then an all-gather of the shares
    "reduce_scatter": Collective(_shares(1), _to_next),
    "all_gather": Collective(_wholes, _to_next),
    "all_to_all": Collective(_all_to_all_bytes, _to_further),
    "broadcast": Collective(_shares(2), _down_the_chain),
    "reduce": Collective(_shares(2), _chain_to_root),
    "gather": Collective(_wholes, _to_root),
    "scatter": Collective(_shares(1), _from_root),
    "barrier": Collective(
        lambda members, size, direct: [0] * (2 * (members - 1)), _to_next
    ),  # an all-reduce of nothing
}


def round_bytes(name: str, members: int, size_bytes: int, *, direct: bool = False) -> list[int]:
    """The bytes of a message in each round of a collective; no rounds among fewer than two members.

    Args:
        name: one of :data:`COLLECTIVES`.
        members: devices that take part.
        size_bytes: what each of them hands in; of ``broadcast`` and ``scatter`` what the root does.
        direct: messages go to any member in one hop (a switch), else to the next one only (a ring).
    """
    return COLLECTIVES[name].round_bytes(members, size_bytes, direct) if members > 1 else []


def rounds(name: str, members: int, size_bytes: int, *, direct: bool = False) -> Iterator[list[Message]]:
    """The messages of each round; arguments as of :func:`round_bytes`."""
    for number, size in enumerate(round_bytes(name, members, size_bytes, direct=direct)):
        yield [Message(source, to, size) for source, to in COLLECTIVES[name].pairs(number, members, direct)]
