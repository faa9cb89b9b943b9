"""Ports that tiles and transfers share, compiled: when a tile ends whose buffer transfers were filling meanwhile."""

from __future__ import annotations

from accelsim.engine.events import IntTable
from accelsim.engine.heap import push
from accelsim.engine.state import (
    BUSY,
    CYCLES,
    DENOMINATOR,
    END,
    GRANT_FROM,
    GRANT_PORT,
    HEAP,
    LAST_EVENT,
    NOW,
    NUMERATOR,
    PORT,
    PORT_BUSY,
    PORT_CYCLES,
    PORT_FROM,
    QUEUE,
    RESOURCE,
    TILE_FROM,
    Machine,
)
from accelsim.jit import kernel


@kernel
def busy_at_port(m: Machine, core: int) -> int:
    """In how many cycles before this one links moved bytes through the port of the core; links that did so together
    count each for itself."""
    busy = m.resources[core, PORT_BUSY]
    for link in range(len(m.resources)):
        if m.resources[link, GRANT_PORT] == core and m.resources[link, BUSY]:
            busy += m.counts[NOW] - m.resources[link, GRANT_FROM]
    return int(busy)


@kernel
def enter_port(m: Machine, queue: int, activity: int) -> None:
    """A tile that needs its core's port, or a grant that passes one, starts now."""
    resource = m.queues[queue, RESOURCE]
    if m.activities[activity, PORT_CYCLES] > 0:
        m.resources[resource, TILE_FROM] = m.counts[NOW]
        m.resources[resource, PORT_FROM] = busy_at_port(m, resource)
    m.resources[resource, GRANT_FROM] = m.counts[NOW]
    m.resources[resource, GRANT_PORT] = m.queues[queue, PORT]


@kernel
def leave_port(m: Machine, link: int) -> None:
    """A grant ends now."""
    core = m.resources[link, GRANT_PORT]
    if core >= 0:
        m.resources[core, PORT_BUSY] += m.counts[NOW] - m.resources[link, GRANT_FROM]
        m.resources[link, GRANT_PORT] = -1


@kernel
def postponed(m: Machine, events: IntTable, activity: int) -> bool:
    """Whether the tile still waits for its port, because transfers passed it: then its end is put off."""
    needed = m.activities[activity, PORT_CYCLES]
    if needed == 0:
        return False
    core = m.queues[m.activities[activity, QUEUE], RESOURCE]
    busy = busy_at_port(m, core) - m.resources[core, PORT_FROM]
    taken = -(-busy * m.resources[core, NUMERATOR] // m.resources[core, DENOMINATOR])
    end = m.resources[core, TILE_FROM] + max(m.activities[activity, CYCLES], needed + taken)
    if end <= m.counts[NOW]:
        return False
    events[m.resources[core, LAST_EVENT], END] = end
    push(m.heap, m.counts[HEAP], end, activity)
    m.counts[HEAP] += 1
    return True
