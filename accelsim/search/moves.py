"""Moves of the first stage: from one choice of order, cuts and tiling numbers to a neighbouring one, a function each.

Every move changes ``choice`` in place and returns whether it could; chance comes from a ``RandomState``,
so that a seed decides everything. Legality beyond what a move sees for itself is checked by the caller.
"""

from __future__ import annotations

from accelsim.jit import kernel
from accelsim.search.choice import Choice
from accelsim.search.network import POOL, IntColumn, Network
from accelsim.search.random_state import RandomState, random_below, random_float


@kernel
def slack(net: Network, choice: Choice, place_of: IntColumn, place: int) -> tuple[int, int]:
    """The places to which an operator may move: behind its last producer, before its first reader."""
    op = choice.order[place]
    low, high = 0, choice.order.shape[0] - 1
    for s in range(net.source_begin[op], net.source_begin[op + 1]):
        if net.source[s] >= 0:
            low = max(low, place_of[net.source[s]] + 1)
    for r in range(net.reader_begin[op], net.reader_begin[op + 1]):
        high = min(high, place_of[net.reader[r]] - 1)
    return low, high


@kernel
def move_order(net: Network, choice: Choice, place_of: IntColumn, state: RandomState) -> bool:
    """Takes a random operator that has slack to a random other place within it.

    Groups keep their members else: the marks move with the operators. An operator that was a group by itself
    dissolves into its new neighbour's.
    """
    size = choice.order.shape[0]
    movable = 0
    for place in range(size):
        low, high = slack(net, choice, place_of, place)
        movable += low < high
    if movable == 0:
        return False
    chosen = random_below(state, movable)
    source = target = 0
    for place in range(size):
        low, high = slack(net, choice, place_of, place)
        if low < high:
            if chosen == 0:
                source = place
                target = low + random_below(state, high - low)
                target += target >= source
                break
            chosen -= 1
    shift_operator(choice, source, target)
    return True


@kernel
def shift_operator(choice: Choice, source: int, target: int) -> int:
    """Moves the operator at ``source`` to ``target``; see :func:`move_order` for the marks."""
    size = choice.order.shape[0]
    op = choice.order[source]
    if choice.cut[source] > 0 and source + 1 < size:
        if choice.cut[source + 1] == 0:
            choice.tiles[source + 1] = choice.tiles[source]
        choice.cut[source + 1] = max(choice.cut[source + 1], choice.cut[source])
    step = 1 if target > source else -1
    for place in range(source, target, step):
        choice.order[place] = choice.order[place + step]
        choice.cut[place] = choice.cut[place + step]
        choice.tiles[place] = choice.tiles[place + step]
    choice.order[target] = op
    choice.cut[target] = 0
    if target == 0:
        choice.cut[0], choice.tiles[0] = 2, choice.tiles[1]
        choice.cut[1] = 0
    return 0


@kernel
def count_cuts(choice: Choice, kind: int) -> int:
    """Cuts of one kind inside the order; kind -1: places without any; kind 3: fused groups, place 0 included."""
    count = 0
    for place in range(1, choice.order.shape[0]):
        cut = choice.cut[place]
        count += cut == kind or (kind == -1 and cut == 0) or (kind == 3 and cut > 0)
    return count + (kind == 3)


@kernel
def nth_cut(choice: Choice, kind: int, number: int) -> int:
    """The place of the ``number``-th cut as :func:`count_cuts` counts them."""
    for place in range(0 if kind == 3 else 1, choice.order.shape[0]):
        cut = choice.cut[place]
        if cut == kind or (kind == -1 and cut == 0) or (kind == 3 and cut > 0):
            if number == 0:
                return place
            number -= 1
    return -1


@kernel
def group_begin(choice: Choice, place: int, kind: int) -> int:
    """The nearest place at or before ``place`` whose cut is at least ``kind``."""
    while choice.cut[place] < kind:
        place -= 1
    return place


@kernel
def group_end(choice: Choice, place: int, kind: int) -> int:
    """The nearest place behind ``place`` whose cut is at least ``kind``, or the size of the order."""
    place += 1
    while place < choice.order.shape[0] and choice.cut[place] < kind:
        place += 1
    return place


@kernel
def largest_tiling_number(net: Network, choice: Choice, place_of: IntColumn, begin: int) -> int:
    """The largest power of two up to batch * rows * columns of the first pure output operator of the group at
    ``begin``."""
    end = group_end(choice, begin, 1)
    for place in range(begin, end):
        op = choice.order[place]
        pure = True
        for r in range(net.reader_begin[op], net.reader_begin[op + 1]):
            pure = pure and not begin <= place_of[net.reader[r]] < end
        if pure:
            limit = net.batch * net.rows[op] * net.columns[op]
            power = 1
            while 2 * power <= limit:
                power *= 2
            return power
    return 1


@kernel
def move_tiling(net: Network, choice: Choice, place_of: IntColumn, state: RandomState) -> bool:
    """Doubles or halves the tiling number of a random fused group, between 1 and its cap."""
    begin = nth_cut(choice, 3, random_below(state, count_cuts(choice, 3)))
    tiles = int(choice.tiles[begin])
    if random_float(state) < 0.5:
        if net.soma_rule and 2 * tiles > largest_tiling_number(net, choice, place_of, begin):
            return False
        choice.tiles[begin] = 2 * tiles
        return True
    choice.tiles[begin] = tiles // 2
    return tiles > 1


@kernel
def inherit_tiles(choice: Choice, border: int, rule: int, state: RandomState) -> int:
    """The tiling number of the group made of the two fused groups beside ``border``: rule 0 that of either, with odds
    by their operators; rule 1 the larger."""
    left = group_begin(choice, border - 1, 1)
    end = group_end(choice, border, 1)
    first, second = int(choice.tiles[left]), int(choice.tiles[border])
    if rule == 1:
        return max(first, second)
    return first if random_float(state) * (end - left) < border - left else second


@kernel
def move_fusion_merge(choice: Choice, state: RandomState) -> bool:
    """Removes a random fusion cut inside a layer group."""
    count = count_cuts(choice, 1)
    if count == 0:
        return False
    border = nth_cut(choice, 1, random_below(state, count))
    choice.tiles[group_begin(choice, border - 1, 1)] = inherit_tiles(choice, border, 0, state)
    choice.cut[border] = 0
    return True


@kernel
def move_dram_merge(choice: Choice, rule: int, state: RandomState) -> bool:
    """Removes a random DRAM cut; the fused groups beside it become one."""
    count = count_cuts(choice, 2)
    if count == 0:
        return False
    border = nth_cut(choice, 2, random_below(state, count))
    choice.tiles[group_begin(choice, border - 1, 1)] = inherit_tiles(choice, border, rule, state)
    choice.cut[border] = 0
    return True


@kernel
def move_dram_split(choice: Choice, state: RandomState) -> bool:
    """Puts a DRAM cut before a random operator that has none; both sides of a new fusion cut keep the tiling number."""
    size = choice.order.shape[0]
    free = size - 1 - count_cuts(choice, 2)
    if free == 0:
        return False
    chosen = random_below(state, free)
    for place in range(1, size):
        if choice.cut[place] != 2:
            if chosen == 0:
                choice.tiles[place] = choice.tiles[group_begin(choice, place, 1)]
                choice.cut[place] = 2
                return True
            chosen -= 1
    return False


@kernel
def move_dram_shift(choice: Choice, keep_fusion_cut: bool, state: RandomState) -> bool:
    """Moves a random DRAM cut to another place of the two layer groups beside it.

    The old one stays as a fusion cut; or, where every layer group is one fused group, goes, and both keep their tiling
    numbers.
    """
    count = count_cuts(choice, 2)
    if count == 0:
        return False
    border = nth_cut(choice, 2, random_below(state, count))
    begin = group_begin(choice, border - 1, 2)
    end = group_end(choice, border, 2)
    if end - begin < 3:
        return False
    target = begin + 1 + random_below(state, end - begin - 2)
    target += target >= border
    choice.cut[border] = 1 if keep_fusion_cut else 0
    if not keep_fusion_cut:
        choice.tiles[target] = choice.tiles[border]
    elif choice.cut[target] == 0:
        choice.tiles[target] = choice.tiles[group_begin(choice, target, 1)]
    choice.cut[target] = 2
    return True


@kernel
def move_fusion_split(choice: Choice, state: RandomState) -> bool:
    """Puts a fusion cut before a random operator that has none. (Not one of SoMa's moves.)"""
    count = count_cuts(choice, -1)
    if count == 0:
        return False
    place = nth_cut(choice, -1, random_below(state, count))
    choice.tiles[place] = choice.tiles[group_begin(choice, place, 1)]
    choice.cut[place] = 1
    return True


@kernel
def fully_connected_alone(net: Network, choice: Choice) -> bool:
    """Whether a layer group starts before the poolings that lead to each fully connected layer, and behind that
    layer."""
    size = choice.order.shape[0]
    for place in range(size):
        if not net.fully_connected[choice.order[place]]:
            continue
        begin = place
        while begin and net.kind[choice.order[begin - 1]] == POOL:
            begin -= 1
        if choice.cut[begin] != 2 or (place + 1 < size and choice.cut[place + 1] != 2):
            return False
    return True
