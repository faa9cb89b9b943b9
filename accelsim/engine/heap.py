"""A binary heap of (cycle, activity), the least on top, in a table of two columns that the caller owns."""

from accelsim.engine.events import IntTable
from accelsim.jit import kernel


@kernel
def push(heap: IntTable, size: int, cycle: int, activity: int) -> None:
    """Add to a heap of ``size`` rows, so that it has one more."""
    child = size
    while child > 0:
        parent = (child - 1) >> 1
        if heap[parent, 0] < cycle or (heap[parent, 0] == cycle and heap[parent, 1] < activity):
            break
        heap[child, 0] = heap[parent, 0]
        heap[child, 1] = heap[parent, 1]
        child = parent
    heap[child, 0] = cycle
    heap[child, 1] = activity


@kernel
def pop(heap: IntTable, size: int) -> int:
    """Take the least row out of a heap of ``size`` rows, so that it has one less; returns its activity."""
    top = heap[0, 1]
    size -= 1
    cycle, activity = heap[size, 0], heap[size, 1]
    parent = 0
    while 2 * parent + 1 < size:
        child = 2 * parent + 1
        if child + 1 < size:
            left, right = heap[child, 0], heap[child + 1, 0]
            if right < left or (right == left and heap[child + 1, 1] < heap[child, 1]):
                child += 1
        if cycle < heap[child, 0] or (cycle == heap[child, 0] and activity < heap[child, 1]):
            break
        heap[parent, 0] = heap[child, 0]
        heap[parent, 1] = heap[child, 1]
        parent = child
    heap[parent, 0] = cycle
    heap[parent, 1] = activity
    return int(top)
