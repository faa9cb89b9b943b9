"""A call of the first stage is short, however many rounds it was asked for: what lets a time limit hold."""

from __future__ import annotations

from accelsim.library import load_accelerator, load_workload
from accelsim.search.anneal_fusion import MOST_WALKED, FusionParameters, anneal_fusion, fusion_state
from accelsim.search.objective import Objective
from accelsim.search.plans import LEGAL, MISSING_COST
from accelsim.search.session import Session
from accelsim.search.start import fine_numbers, separate

ROUNDS = 2000


def test_a_call_returns_after_so_many_tiles() -> None:
    """Only DRAM cuts move, so every legal candidate has at least the start's tiles of its largest operator."""
    session = Session(load_workload("soma.resnet50", batch=4), load_accelerator("soma_edge"), Objective(), None)
    start = separate(session, fine_numbers(session), session.capacity_bytes)
    assert start is not None
    found = session.price(start, session.capacity_bytes)
    assert found is not None
    parameters = FusionParameters(
        ROUNDS, session.capacity_bytes, order=0.0, tiling=0.0, fusion_merge=0.0, keep_fusion_cut=0, tiling_rule=1
    )
    state = fusion_state(start, session.cost(found), 1)
    state.counters[3] = ROUNDS
    calls: list[int] = []
    while state.counters[0] < ROUNDS:
        before = int(state.counters[1])
        stores = (session.shapes, session.store, session.costs.table, session.lists)
        status = anneal_fusion(session.network, session.machine, parameters, state, session.walk, stores)
        calls.append(int(state.counters[1]) - before)
        assert status == LEGAL or status >= MISSING_COST
        session.provide(status)
    least = int(start.tiles.max())
    assert max(calls) <= MOST_WALKED // least + 1
    assert sum(calls) * least > 2 * MOST_WALKED  # so that one call would have been too many
