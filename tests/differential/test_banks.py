"""A memory with banks behind a link: both engines alike, whatever the memory, and the laws that hold for all."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from accelsim.engine import simulate
from accelsim.errors import InputError, MalformedProgram
from accelsim.hardware.memory.address_map import BANK, CHANNEL, ROW, locate_one
from accelsim.hardware.memory.attached import AttachedFields
from accelsim.library import load_memory
from accelsim.program.memory_plan import MemoryPlan, PlacementTable, place
from accelsim.program.tables import ActivityKind, Arbitration, Program
from accelsim.timeline.table import EventTable, Timeline
from tests.strategies.banked import MEMORIES, banked_program
from tests.strategies.programs import Draft


def accesses(program: Program, activity: int) -> set[tuple[int, int]]:
    """The accesses, as (run, address), that hold the bytes of a transfer; byte by byte."""
    plan = program.memory
    assert plan is not None
    address, run, pitch = (int(column[activity]) for column in plan.placement)
    size = plan.memory.dram.access_bytes
    found = set()
    for byte in range(int(program.activities.bytes[activity])):
        found.add((byte // run, (address + byte // run * pitch + byte % run) // size))
    return found


@pytest.mark.parametrize("seed", range(48))
def test_both_engines_give_the_same_timeline(seed: int) -> None:
    program = banked_program(seed)
    compiled, reference = simulate(program), simulate(program, "reference")
    for name, one, other in zip(EventTable._fields, compiled.events, reference.events, strict=True):
        assert one.tolist() == other.tolist(), name
    assert compiled.memory == reference.memory
    assert compiled.program.energy_pj.tolist() == reference.program.energy_pj.tolist()
    assert_conserved(compiled)


def assert_conserved(timeline: Timeline) -> None:
    """Each access that holds an asked byte is asked for once; nothing ends early; queues are served in order."""
    program, events, use = timeline.program, timeline.events, timeline.memory
    plan = program.memory
    assert plan is not None
    assert use is not None
    moves = program.activities.kind != ActivityKind.TILE
    asked = sum(len(accesses(program, row)) for row in np.flatnonzero(moves).tolist())
    sent = use.bursts_read + use.bursts_written
    assert sent == use.row_hits + use.row_misses + use.row_conflicts
    stores = program.activities.kind == ActivityKind.STORE
    assert sent == asked or (sent < asked and stores.any())  # what meets a write that waits does without the chips
    timing = plan.memory.dram.template.timing
    least = (timing.tCL + timing.tBL) * plan.memory.dram.cycles_per_clock
    for row in np.flatnonzero(moves & (program.activities.bytes > 0)).tolist():
        mine = events.activity == row
        span = int(events.finish_cycles[mine].max() - events.start_cycles[mine].min())
        if program.activities.kind[row] == ActivityKind.LOAD and asked == sent:
            assert span >= least / plan.clock_ratio
        assert int(events.bytes[mine].sum()) == program.activities.bytes[row]


def machine(technology: str, *, ratio: Fraction = Fraction(1), **fields: object) -> tuple[Draft, int, int]:
    draft = Draft()
    core = draft.queue(draft.core())
    link = draft.link(64)
    return draft, core, draft.queue(link)


def with_banks(draft: Draft, technology: str, ratio: Fraction = Fraction(1), **fields: object) -> Program:
    memory = AttachedFields(technology=technology, **fields).attach()  # type: ignore[arg-type]
    program = draft.program()
    link = len(draft.resources) - 1
    return replace(program, memory=MemoryPlan("banks", link, memory, ratio, place(program, link, memory)))


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_one_burst_to_the_cycle(engine: str) -> None:
    # ddr4_3200: accepted and activated in cycle 0, read 22 later, its data 22 + 4 after that, over with cycle 48.
    draft, core, queue = machine("ddr4_3200")
    draft.tile(core, 5, draft.load(queue, 64))
    timeline = simulate(with_banks(draft, "ddr4_3200"), engine)
    assert timeline.events.end_cycles.tolist() == [1, 54]
    assert timeline.events.finish_cycles.tolist() == [49, 54]
    assert timeline.memory is not None
    assert (timeline.memory.bursts_read, timeline.memory.row_misses) == (1, 1)


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_a_store_finishes_with_its_last_data(engine: str) -> None:
    # Written 22 cycles after the activation, data until 16 + 4 after that: over with cycle 42; at half the clock, 21.5.
    draft, _, queue = machine("ddr4_3200")
    draft.store(queue, 64)
    for ratio, finish in ((Fraction(1), 43), (Fraction(2), 22), (Fraction(1, 2), 86)):
        timeline = simulate(with_banks(draft, "ddr4_3200", ratio), engine)
        assert timeline.events.finish_cycles.tolist() == [finish]


def test_a_long_load_is_as_fast_as_the_same_requests_replayed() -> None:
    # One transfer of 256 KiB, and the trace of its accesses: the same command in every cycle, so the same end.
    from accelsim.hardware.memory.memory import ALWAYS, MemoryRequests

    draft, _, queue = machine("ddr4_3200")
    draft.load(queue, 256 << 10)
    timeline = simulate(with_banks(draft, "ddr4_3200"))
    count = (256 << 10) // 64
    rows = np.arange(count)
    requests = MemoryRequests(np.full(count, ALWAYS), rows * 64, np.full(count, 64), rows < 0, rows * 0)
    run = load_memory("ddr4_3200").serve(requests)
    assert timeline.latency_cycles == int(run.finished_cycles.max()) + 1
    assert timeline.memory is not None
    assert timeline.memory.row_hits == run.row_hits
    moved = timeline.memory.energy_by_command_pj
    for command in ("act", "rd", "wr"):
        assert moved[command] == run.energy_by_command_pj[command]


def test_turns_of_a_link_reach_the_memory_in_their_order() -> None:
    # Two readers in turns of 4 KiB: each gets half, and both finish in about the time of one reader of all bytes.
    draft = Draft()
    draft.queue(draft.core())
    link = draft.link(64, arbitration=Arbitration.ROUND_ROBIN, grant=4096)
    for _ in range(2):
        draft.load(draft.queue(link), 128 << 10)
    program = with_banks(draft, "ddr4_3200")
    events = simulate(program).events
    assert events.bytes.tolist() == [4096] * 64
    assert events.queue.tolist() == [1, 2] * 32
    finish = [int(events.finish_cycles[events.activity == row].max()) for row in range(2)]
    assert abs(finish[0] - finish[1]) < 400  # the time of one turn, or of a refresh
    assert simulate(program).latency_cycles < 1.25 * 2 * (128 << 10) / 16  # 16 B/cycle at the pins


@pytest.mark.parametrize("name", MEMORIES)
def test_the_compiled_map_is_the_map(name: str) -> None:
    for address_map in ("bank_group_low", "bank_group_low_hash", "column_low", "mop4clxor", "rochrababgco"):
        memory = load_memory(name, ["channels=4", "ranks=2", f"address_map={address_map}"])
        addresses = np.random.default_rng(5).integers(0, memory.capacity_bytes, 300)
        tables, expected = memory.address_map.tables(), memory.address_map.locate(addresses)
        for row, address in enumerate(addresses.tolist()):
            locate_one(tables, address)
            found = tables.location[[CHANNEL, BANK, ROW]].tolist()
            assert found == [int(column[row]) for column in expected[:3]]


def test_tensors_have_places_of_their_own() -> None:
    draft, core, queue = machine("ddr4_3200")
    draft.load(queue, 10_000)
    draft.store(queue, 100, draft.tile(core, 1))
    draft.load(queue, 5000)
    program = with_banks(draft, "ddr4_3200", alignment="4 KiB")
    assert program.memory is not None
    assert program.memory.placement.address.tolist() == [0, -1, 12288, 16384]


def test_what_cannot_run_is_refused() -> None:
    draft, _, queue = machine("ddr4_3200")
    draft.load(queue, 64)
    program = with_banks(draft, "ddr4_3200")
    plan = program.memory
    assert plan is not None
    beyond = PlacementTable(*(column + (plan.memory.dram.capacity_bytes - 32) for column in plan.placement))
    for wrong, words in (
        (replace(plan, link=0), "no link"),
        (replace(plan, placement=PlacementTable(*(column[:0] for column in plan.placement))), "rows"),
        (replace(plan, placement=beyond), "must lie below"),
        (replace(plan, clock_ratio=Fraction(1, 1 << 21)), "clock_ratio"),
    ):
        with pytest.raises(MalformedProgram, match=words):
            simulate(replace(program, memory=wrong))
    limited = replace(program, queues=program.queues._replace(outstanding=np.array([0, 2])))
    with pytest.raises(MalformedProgram, match="outstanding"):
        simulate(limited)
    draft.load(queue, 1 << 40)
    with pytest.raises(InputError, match=r"the tensors take 1 TiB of DRAM, but memory 'ddr4_3200' holds 8 GiB"):
        with_banks(draft, "ddr4_3200")
