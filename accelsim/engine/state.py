"""The compiled machine's tables: what their columns mean, and the NamedTuple of all of them.

Kernels pass the whole machine as one NamedTuple of a few wide tables, because the time to compile a kernel grows with
the number of arrays it is handed, and because what is read together then lies together in memory.
"""

from __future__ import annotations

from typing import NamedTuple

from accelsim.engine.events import IntTable
from accelsim.program.tables import IntColumn

# Columns of Machine.activities. From the program; NEXT is behind the activity on its queue. Its list of successors is
# rows [a, FIRST_SUCCESSOR] .. [a + 1, FIRST_SUCCESSOR] of their table, and so on; hence one row more than activities.
QUEUE, NEXT, CYCLES, BYTES, FIRST_SUCCESSOR, FIRST_CLAIM, FIRST_RELEASE = range(7)
# What changes. PENDING counts the dependencies unfinished, plus one for the predecessor on the queue; RELEASED_AT is
# the last cycle at which one was resolved, RELEASE the least cause * (activities + 1) + activity of that cycle, or -1.
PENDING, ASKED_AT, RELEASED_AT, RELEASE, SERVED, PHASE = range(7, 13)
HANDED_ON, FINISHED = 1, 2  # PHASE
PORT_CYCLES = 13  # of a tile on a core whose port transfers share

# Columns of Machine.queues. RANK is the queue's place in queue_of_resource. SHORT is the buffer without room for the
# head, or for the one that holds it back, or -1; SHORT_AT the cycle at which a sweep said so last, SHORT_BEFORE what
# it was before that cycle. AHEAD and BEHIND link the queues whose heads stand before the buffers of a pool.
RESOURCE, RANK, HEAD, READY, SHORT, SHORT_AT, SHORT_BEFORE, AHEAD, BEHIND = range(9)
# What arbitration reads. ACCOUNT is the queue in whose row the bytes of its tenant, or its own, are counted: SERVED_TO
# is what they come to, each times COST. PRIORITY 0 goes first. SERVED_IN numbers the grant that it got last.
# At most LIMIT requests are on their way (0: any number); of the last LIMIT ones, from row FIRST_RETURN of
# Machine.returns, OLDEST is where the oldest stands. Until WAKING, an entry of the heap, the head may not go on.
ACCOUNT, COST, SERVED_TO, PRIORITY, SERVED_IN, LIMIT, FIRST_RETURN, OLDEST, WAKING = range(9, 18)
PORT = 18  # the core whose port the queue's transfers pass, or -1

# Columns of Machine.resources. TURN is the slot, among the queues of the resource, at which the search begins.
NUMERATOR, DENOMINATOR, LATENCY, GRANT, FIRST_QUEUE, QUEUES, BUSY, TURN, LAST, LAST_EVENT, IS_OPEN = range(11)
# POLICY is its Arbitration; REACHED what the account came to that was served last, when it was.
POLICY, REACHED = 11, 12
# Of a core whose port transfers share: a cycle of a link takes NUMERATOR / DENOMINATOR cycles of the port; PORT_BUSY
# such cycles have been, PORT_FROM of them when the tile started, at TILE_FROM. Of a link: its grant began at GRANT_FROM
# and passes the port of core GRANT_PORT, or none (-1).
PORT_BUSY, PORT_FROM, TILE_FROM, GRANT_FROM, GRANT_PORT = range(13, 18)

# Columns of Machine.buffers. GIVER gave space back last. In sweep number BLOCKED_IN, the asker at place BLOCKED_BY was
# the first without room; it lacked the buffer BLOCKED_SHORT. Buffers from which one activity claims together form a
# POOL, called by one of them: the row that has its queue of standing askers, FRONT to BACK, and STALE, to be swept.
CAPACITY, IN_USE, GIVER, POOL, BLOCKED_IN, BLOCKED_BY, BLOCKED_SHORT, FRONT, BACK, STALE = range(10)

# Columns of Machine.claims (LEFT = releasers that have not finished, -1 without any), successors and events.
BUFFER, CLAIMED, LEFT, TAKEN = range(4)
AFTER, AFTER_CAUSE = range(2)
START, END, ACTIVITY, MOVED, CAUSE, CAUSE_ACTIVITY = range(6)

# Rows of Machine.counts.
NOW, EVENTS, HEAP, OPEN, STALE_POOLS, SWEEPS, UNFINISHED, GRANTS = range(8)
# Of a memory with banks: the resource that is its link, or -1; the activity whose bytes were granted last, or -1, and
# which; the one that handed on, or -1; whether the memory has run up to the next instant.
MEMORY_LINK, OFFERED, OFFERED_FROM, OFFERED_UNTIL, HANDED, MEMORY_ASKED = range(8, 14)
COUNTS = MEMORY_ASKED + 1

# Columns of Machine.returns.
RETURN_AT, RETURNED_BY = range(2)


class Machine(NamedTuple):
    """The program as the loop reads it, and all that changes while it runs."""

    activities: IntTable
    queues: IntTable
    resources: IntTable
    buffers: IntTable
    claims: IntTable
    successors: IntTable
    claim_of_taker: IntColumn
    claim_of_releaser: IntColumn
    queue_of_resource: IntColumn
    heap: IntTable
    """Ends and finishes to come: (cycle, activity). An activity stands in it at most once, and so does a queue that
    may go on then, as (cycle, activities + 1 + queue)."""
    open: IntColumn
    """The resources to look at in the next arbitration."""
    stale: IntColumn
    """The pools to sweep in the next arbitration."""
    returns: IntTable
    """When requests came back, or will, and whose they were: for each queue with a LIMIT so many rows."""
    counts: IntColumn
