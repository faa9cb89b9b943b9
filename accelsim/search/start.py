"""Where searches start: every operator a layer group by itself, with a tiling number by rule."""

from __future__ import annotations

import numpy as np

from accelsim.errors import BufferOverflow
from accelsim.search.choice import Choice
from accelsim.search.layerwise import largest_tile
from accelsim.search.session import Session
from accelsim.workload.operator import Operator
from accelsim.workload.operators import Conv2d


def image_sizes(operator: Operator) -> tuple[int, int]:
    """Rows and columns of the output, as tiling numbers cut them; 1 where there is no such axis."""
    axes, shape = operator.tile_axes(), operator.output.shape
    return (1 if axes.rows is None else shape[axes.rows], 1 if axes.columns is None else shape[axes.columns])


def fine_numbers(session: Session) -> list[int]:
    """The next power of two of ceil(rows / 4) * ceil(columns / 4) * batch: tiles of 4 x 4 outputs of one sample."""
    numbers = []
    for operator in session.workload.operators:
        rows, columns = image_sizes(operator)
        numbers.append(_next_power(-(-rows // 4) * -(-columns // 4) * session.workload.batch))
    return numbers


def coarse_numbers(session: Session) -> list[int]:
    """As :func:`fine_numbers`, but the batch where that is more than 16 times the batch: SoMa's own start."""
    batch = session.workload.batch
    return [batch if number > 16 * batch else number for number in fine_numbers(session)]


def kernel_channel_numbers(session: Session, vector_length: int, lanes: int) -> list[int]:
    """16 where input channels fill 4 vectors and output channels more than 4 times the lanes, else 8, times the batch;
    halved while larger than the image. What the Cocco baseline's kernel-channel parallelism asks for (HPCA 2025,
    section VI)."""
    numbers = []
    for operator in session.workload.operators:
        rows, columns = image_sizes(operator)
        wide = (
            isinstance(operator, Conv2d)
            and operator.operands[0].shape[0] >= 4 * vector_length
            and operator.output.shape[0] > 4 * lanes
        )
        number = 16 if wide else 8
        while number > 1 and number > rows * columns:
            number //= 2
        numbers.append(number * session.workload.batch)
    return numbers


def separate(session: Session, numbers: list[int], budget_bytes: int) -> Choice | None:
    """Every operator a layer group by itself; None if that does not fit into ``budget_bytes``.

    Numbers that do not fit are doubled until weights and one tile of inputs and output take half of it;
    where neighbours still do not fit together, until weights and two, four, … such tiles do.
    """
    size = session.network.size
    choice = Choice(np.arange(size), np.full(size, 2), np.array(numbers, dtype=np.int64))
    copies = 1
    while session.price(choice, budget_bytes) is None:
        if copies > 8:
            return None
        for number in range(size):
            choice.tiles[number] = _enough_tiles(session, number, int(choice.tiles[number]), budget_bytes, copies)
        copies *= 2
    return choice


def no_start(session: Session) -> BufferOverflow:
    """The refusal where :func:`separate` finds nothing."""
    return BufferOverflow(
        f"'{session.workload.name}', every operator by itself and double-buffered, does not fit into the "
        f"{session.capacity_bytes} bytes of the buffer, and there this search begins; enlarge "
        "buffers.global.capacity, or use the scheduler interleave or layerwise, which cut single operators finer and "
        "load late what has no room ahead"
    )


def _enough_tiles(session: Session, number: int, tiles: int, budget_bytes: int, copies: int) -> int:
    """The tiling number, doubled until weights and ``copies`` tiles of inputs and output take half the budget."""

    operator = session.workload.operators[number]
    first = tiles
    while True:
        largest = largest_tile(session.workload, operator, tiles)
        if largest is None:
            return max(first, tiles // 2)
        if 2 * (operator.weight_bytes + copies * largest.bytes) <= budget_bytes:
            return tiles
        tiles *= 2


def _next_power(number: int) -> int:
    return 1 << (number - 1).bit_length()
