"""Laws that hold for every memory, controller and trace: no rule broken, none lost, none early, nobody starves."""

from __future__ import annotations

import os

import numpy as np
import pytest

from accelsim.hardware.memory.memory import ALWAYS, ONE_BURST, MemoryRequests
from accelsim.library import list_memories, load_memory
from tests.naive.dram_checker import violations

TRACES = int(os.environ.get("ACCELSIM_MEMORY_TRACES", "30"))
"""For each memory; set it to 200 for a campaign."""
CONTROLLERS = ("bounded", "ramulator", "dramsim3", "ramulator_row_hit")


def random_requests(seed: int, capacity_bytes: int, access_bytes: int, count: int = 250) -> MemoryRequests:
    """A mix of streams, strides and scattered accesses of three engines, some at given times."""
    random = np.random.default_rng(seed)
    window = min(capacity_bytes, 1 << int(random.integers(14, 30)))
    address = random.integers(0, window // access_bytes, count) * access_bytes
    run = int(random.integers(1, 60))
    stride = access_bytes << int(random.integers(0, 8))
    address = (np.repeat(address[:: max(1, run)], run)[:count] + np.arange(count) % run * stride) % window
    arrival = np.full(count, ALWAYS)
    if random.random() < 0.4:
        arrival = np.cumsum(random.integers(0, int(random.integers(1, 60)), count))
    is_write = random.random(count) < random.choice([0.0, 0.2, 0.5, 1.0])
    return MemoryRequests(arrival, address, np.full(count, ONE_BURST), is_write, random.integers(0, 3, count))


@pytest.mark.kernel
@pytest.mark.parametrize("name", list(list_memories()))
def test_no_command_breaks_a_timing_rule_and_every_request_is_served(name: str) -> None:
    commands = 0
    for seed in range(TRACES):
        random = np.random.default_rng(1000 + seed)
        controller = CONTROLLERS[seed % len(CONTROLLERS)]
        if controller == "dramsim3" and name == "hbm3_6400":  # it knows no half clocks
            controller = "bounded"
        settings = [f"controller={controller}"]
        # Ramulator's rule for a write after a read of another rank lets their data meet; see docs/memory.md.
        ranks = random.choice([1, 2]) if settings == ["controller=bounded"] else 1
        settings += [f"ranks={ranks}", f"channels={random.choice([1, 1, 2])}"]
        settings += [f"injection={random.choice(['one_queue', 'queue_per_engine'])}"]
        settings += [f"address_map={random.choice(['mop4clxor', 'column_low', 'bank_group_low_hash'])}"]
        settings += ["timing.tREFI=1500 cycles"] if seed % 5 == 0 else []
        if seed % 3 == 0 and not name.startswith("ddr") and settings[0] != "controller=dramsim3":
            settings += ["refresh=per_bank"]
        memory = load_memory(name, settings)
        requests = random_requests(seed, memory.capacity_bytes, memory.access_bytes)
        run = memory.serve(requests, record_commands=True)
        assert violations(memory, run.commands) == [], settings
        commands += len(run.commands)

        accesses = np.isin(run.commands[:, 1], (3, 4)).sum()
        asked = run.row_hits + run.row_misses + run.row_conflicts
        assert accesses == asked <= requests.size  # the rest was forwarded or merged
        assert run.bytes_moved == requests.size * memory.access_bytes
        offered = np.maximum(requests.arrival_cycles, 0)
        assert (run.accepted_cycles >= offered).all() and (run.finished_cycles >= run.accepted_cycles).all()
        reads = run.finished_cycles[~requests.is_write] - run.accepted_cycles[~requests.is_write]
        shortest = (memory.template.timing.tCL + memory.template.timing.tBL) * memory.cycles_per_clock
        assert all(latency == 1 or latency >= shortest for latency in reads)
    assert commands > 100 * TRACES


@pytest.mark.kernel
def test_the_checker_finds_what_is_wrong() -> None:
    memory = load_memory("ddr4_3200", ["controller=ramulator"])
    run = memory.serve(random_requests(3, memory.capacity_bytes, 64), record_commands=True)
    assert violations(memory, run.commands) == []
    for position in range(4, len(run.commands), 17):
        hasty = run.commands.copy()
        hasty[position, 0] = hasty[position - 1, 0]  # two commands at once on one bus
        assert violations(memory, hasty)
    for longer in ("tRAS=74", "tRCDRD=23", "tRRD_S=8", "tFAW=60", "tRTP=30", "tRP=30", "tWTR_L=60", "tWR=40"):
        slower = load_memory("ddr4_3200", ["controller=ramulator", f"timing.{longer} cycles"])
        busy = memory.serve(saturating_mix(), record_commands=True)
        assert violations(slower, busy.commands), longer


def saturating_mix(count: int = 3000) -> MemoryRequests:
    """Scattered reads and writes of one engine, always offered."""
    random = np.random.default_rng(5)
    address = random.integers(0, 1 << 20, count) * 64
    return MemoryRequests(
        np.full(count, ALWAYS),
        address,
        np.full(count, ONE_BURST),
        random.random(count) < 0.5,
        np.zeros(count, np.int64),
    )


def readers_and_writers(each: int) -> MemoryRequests:
    """Two engines that read and two that write, sequentially, each as fast as it can."""
    engine = np.tile(np.arange(4), each)
    address = (engine + 1) * (64 << 20) + np.repeat(np.arange(each), 4) * 64
    size = 4 * each
    return MemoryRequests(np.full(size, ALWAYS), address, np.full(size, ONE_BURST), engine >= 2, engine)


@pytest.mark.kernel
@pytest.mark.parametrize("name", ["ddr4_3200", "hbm2_2000", "lpddr5_6400"])
def test_nobody_starves_under_the_bounded_policy(name: str) -> None:
    memory = load_memory(name, ["injection=queue_per_engine"])
    run = memory.serve(readers_and_writers(3000))
    waited = run.finished_cycles - run.accepted_cycles
    limit = memory.template.queues.age_limit * memory.cycles_per_clock
    # a request becomes overdue at the limit; those that are overdue before it, at most both queues full, go first
    row_cycle = memory.template.timing.tRC + memory.template.timing.tRFC
    assert waited.max() <= limit + 64 * row_cycle
    ends = [engine["finished_cycle"] for engine in run.summary()["engines"]]
    assert max(ends) <= 1.25 * min(ends)


@pytest.mark.kernel
def test_the_reference_policy_does_starve() -> None:
    memory = load_memory("ddr4_3200", ["injection=queue_per_engine", "controller=ramulator"])
    ends = [engine["finished_cycle"] for engine in memory.serve(readers_and_writers(3000)).summary()["engines"]]
    assert max(ends) > 1.6 * min(ends)
