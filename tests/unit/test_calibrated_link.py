"""The link calibrated from the memory's controller."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from accelsim.analysis.report import report
from accelsim.engine import simulate
from accelsim.engine.calibrated import Stream, efficiency, idle_latency_cycles, moved_bytes, turnaround_accesses
from accelsim.hardware.memory.attached import AttachedFields, AttachedMemory
from accelsim.library import load_accelerator, load_workload
from accelsim.program.lower import lower
from accelsim.program.memory_plan import MemoryPlan, place
from accelsim.program.tables import Arbitration, Program
from accelsim.search.layerwise import Layerwise
from accelsim.timeline.table import EventTable
from tests.strategies.programs import Draft

READS, WRITES = Stream(False, 0, 0, 0), Stream(True, 0, 0, 0)


def memory(technology: str, **fields: object) -> AttachedMemory:
    return AttachedFields(technology=technology, **fields).attach()  # type: ignore[arg-type]


def test_efficiencies_are_those_of_long_runs_of_another_tool() -> None:
    # Ramulator 2.1 on 40,000 accesses, DDR4-3200: sequential reads with its default map and with the column bits
    # lowest, a stride of 64 KiB. Bandwidth over the peak.
    for address_map, stream, expected in (
        ("mop4clxor", READS, 0.94),
        ("column_low", WRITES, 0.61),
        ("column_low", Stream(False, 64, 65536, 0), 0.10),
    ):
        found = efficiency(memory("ddr4_3200", controller="ramulator", address_map=address_map), (stream,), 1)
        assert found == pytest.approx(expected, abs=0.011)


def test_what_is_measured_makes_sense() -> None:
    ddr4 = memory("ddr4_3200", refresh="off")
    assert efficiency(ddr4, (READS,), 1) > 0.99
    assert efficiency(ddr4, (READS, WRITES), 16) < 0.8 < efficiency(ddr4, (READS, WRITES), 512)
    assert turnaround_accesses(ddr4, 1) < turnaround_accesses(ddr4, 256) < 64
    # ddr4_3200: activated in cycle 0, read 22 later, its last data 22 + 4 after that, over with that cycle
    assert idle_latency_cycles(ddr4) == 22 + 22 + 4 + 1


def test_one_load_to_the_cycle() -> None:
    # 16 bytes a cycle at the pins and on the link, refresh off: the sample says how much longer than 4096 / 16 cycles.
    attached = memory("ddr4_3200", refresh="off")
    draft = Draft()
    core, link = draft.queue(draft.core()), draft.link(16)
    draft.tile(core, 10, draft.load(draft.queue(link), 4096))
    program = draft.program()
    plan = MemoryPlan("calibrated", link, attached, Fraction(1), place(program, link, attached))
    timeline = simulate(replace(program, memory=plan))
    paid = max(4096, int(np.ceil(4096 / efficiency(attached, (READS,), 1))))
    end = -(-paid // 16)
    assert timeline.events.end_cycles.tolist() == [end, end + idle_latency_cycles(attached) + 10]
    assert timeline.events.bytes.tolist() == [4096, 0]
    assert timeline.memory is not None
    assert timeline.memory.fidelity == "calibrated"


@pytest.mark.parametrize("fields", [[], ["dram.arbitration=fair"], ["dram.memory.address_map=column_low"]])
def test_latency_is_that_of_banks_within_three_percent(fields: list[str]) -> None:
    workload = load_workload("soma.gpt2_small_decode")
    schedule = Layerwise().search(workload, load_accelerator("soma_edge")).schedule
    programs: dict[str, Program] = {}
    for fidelity in ("calibrated", "banks"):
        accelerator = load_accelerator("soma_edge", [f"dram.fidelity={fidelity}", *fields])
        programs[fidelity] = lower(workload, accelerator, schedule)
    calibrated, banks = (simulate(program) for program in programs.values())
    assert calibrated.latency_cycles == pytest.approx(banks.latency_cycles, rel=0.03)
    assert report(calibrated).to_dict()["dram_model"]["fidelity"] == "calibrated"  # type: ignore[index]
    reference = simulate(programs["calibrated"], "reference")
    for name, one, other in zip(EventTable._fields, calibrated.events, reference.events, strict=True):
        assert one.tolist() == other.tolist(), name
    moved = np.zeros(calibrated.program.size, dtype=np.int64)
    np.add.at(moved, calibrated.events.activity, calibrated.events.bytes)
    assert moved.tolist() == calibrated.program.activities.bytes.tolist()


def test_two_queues_pay_for_each_other() -> None:
    # A reader and a writer in turns of 1 KiB: slower than one after the other, by the turnarounds.
    attached = memory("ddr4_3200", refresh="off")
    cycles = []
    for count in (1, 2):
        draft = Draft()
        draft.queue(draft.core())
        arbitration = Arbitration.ROUND_ROBIN if count == 2 else Arbitration.IN_ORDER
        link = draft.link(16, arbitration=arbitration, grant=1024)
        queues = [draft.queue(link) for _ in range(count)]
        draft.load(queues[0], 1 << 18)
        draft.store(queues[-1], 1 << 18)
        program = draft.program()
        plan = MemoryPlan("calibrated", link, attached, Fraction(1), place(program, link, attached))
        cycles.append(simulate(replace(program, memory=plan)).latency_cycles)
    together = efficiency(attached, (READS, WRITES._replace(offset=0)), 16)
    assert cycles[1] > 1.2 * cycles[0]
    assert cycles[1] == pytest.approx((1 << 19) / 16 / together, rel=0.02)


def test_bytes_of_events_are_whole_and_add_up() -> None:
    columns = [np.zeros(3, dtype=np.int64) for _ in EventTable._fields]
    events = EventTable(*columns)._replace(activity=np.array([0, 1, 0]), bytes=np.array([7, 5, 6]))
    assert moved_bytes(np.array([10, 5]), np.array([13, 5]), events).tolist() == [5, 5, 5]
