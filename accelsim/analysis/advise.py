"""Advice: which single change pays most. Every option is predicted from the run's own times, the best are simulated.

Three passes, each more expensive than the one before:

1. *Elasticity*: the share of the run in which a resource is critical. That is how much shorter the run becomes, at
   first, for each part by which the resource becomes faster.
2. *Prediction*: a bottleneck model of every option (:mod:`accelsim.analysis.predict`), which runs nothing.
3. *Simulation*: the recorded program on the changed machine, and, where the workload is at hand, a schedule searched
   anew for it; the faster one counts. Two idealised runs give the most that memory and computing could ever buy.

Predicted and simulated stand side by side, so that one sees what the predictions are worth. Times are compared in
seconds a sample, since an option may change the clock or the batch.
"""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from typing import Any

import numpy as np

from accelsim.analysis.advice import Advice, Gain, Option, Payoff
from accelsim.analysis.energy import energy_pj
from accelsim.analysis.options import Change, changes, with_fewer_bits
from accelsim.analysis.predict import Bottlenecks, Cost, predict, work_left
from accelsim.analysis.roofs import Limits
from accelsim.engine import simulate
from accelsim.engine.replay import recorded_accelerator
from accelsim.errors import BufferOverflow, InputError, MappingError, ProgramError, ScheduleError, UnsupportedOperator
from accelsim.hardware.accelerator import Accelerator
from accelsim.program.bounds import busy_cycles
from accelsim.program.lower import lower
from accelsim.program.rebind import rebind
from accelsim.program.tables import ActivityKind, Program, ResourceKind
from accelsim.search import SCHEDULERS, Watch
from accelsim.search.objective import parse_objective
from accelsim.timeline.stalls import critical_path, cycles_by_cause
from accelsim.timeline.table import Timeline
from accelsim.workload.cut import cut_to_fit
from accelsim.workload.graph import Workload


def advise(
    timeline: Timeline,
    workload: Workload | None = None,
    accelerator: Accelerator | None = None,
    *,
    top: int = 5,
    time_limit_seconds: float | None = 10.0,
    payoff: Payoff = "time",
) -> Advice:
    """Ranks changes by the time, or the energy, that they save.

    Args:
        timeline: the run.
        workload: what ran, before any cutting of operators. Without it the recorded program is run on changed machines,
            but no schedule is searched anew.
        accelerator: the machine that it ran on; by default the one that its provenance holds (``accelsim run --out``).
        top: so many options, those with the best predictions, are simulated and returned.
        time_limit_seconds: for each search.
        payoff: ``"time"`` or ``"energy"``, each of a sample.

    Raises:
        InputError: the timeline does not say which machine it ran on, or names another one.
    """
    machine = recorded_accelerator(timeline) if accelerator is None else accelerator
    if timeline.program.facts.get("hardware_digest") not in (None, machine.digest):
        raise InputError(f"the timeline ran on another machine than '{machine.name}' as given; give that machine")
    baseline = Cost(timeline.latency_cycles, energy_pj(timeline))
    found = Bottlenecks.of(timeline)
    predicted = []
    for change in changes(timeline, machine, workload):
        with suppress(MappingError, UnsupportedOperator):  # a tile that the changed array could not hold
            left = None
            if change.kind == "sparsity" and workload is not None:
                left = work_left(workload, timeline.program, machine, change.accelerator)
            predicted.append((gain(baseline, predict(found, machine, change, left), machine, change), change))
    predicted.sort(key=lambda pair: rank(pair[0], payoff))
    options = []
    for guess, change in predicted[:top]:
        cost = _simulate(timeline, change, machine, workload, time_limit_seconds)
        if cost is not None:
            options.append(
                Option(
                    change=change.text,
                    kind=change.kind,
                    risk=change.risk,
                    predicted=guess,
                    simulated=gain(baseline, cost, machine, change),
                    peak_watts=peak_watts(change.accelerator),
                )
            )
    options.sort(key=lambda option: (*rank(option.simulated, payoff), option.change))
    facts = timeline.program.facts
    return Advice(
        title=f"Advice for {facts.get('workload', 'a trace')} on {machine.name}",
        baseline=baseline,
        peak_watts=peak_watts(machine),
        bottleneck=_bottleneck(timeline),
        elasticity=elasticity(timeline),
        limits=_limits(timeline),
        options=tuple(options),
        tried=len(predicted),
        payoff=payoff,
    )


def rank(gain: Gain, payoff: Payoff) -> tuple[float, float]:
    """What options are sorted by: what pays, then the other."""
    return (-gain.speedup, gain.energy_ratio) if payoff == "time" else (gain.energy_ratio, -gain.speedup)


def gain(baseline: Cost, cost: Cost, machine: Accelerator, change: Change) -> Gain:
    """What a change buys, for each sample of the run."""
    seconds = cost.latency_cycles / change.accelerator.clock_hz / change.batch
    before = baseline.latency_cycles / machine.clock_hz
    energy = cost.energy_pj / change.batch / baseline.energy_pj if baseline.energy_pj else 1.0
    return Gain(cost.latency_cycles, cost.energy_pj, before / seconds if seconds else 1.0, energy)


def peak_watts(machine: Accelerator) -> float:
    """Power with the array and the link both busy, by the template's energies: what cooling and supply must bear."""
    limits = Limits.of(machine)
    link = float(limits.dram_bytes_per_cycle) * max(machine.dram.read_pj_per_byte, machine.dram.write_pj_per_byte)
    port = float(limits.port_bytes_per_cycle or 0) * limits.port_pj_per_byte
    per_cycle = limits.macs_per_cycle * limits.mac_pj + link + port + machine.static_pj_per_cycle
    return per_cycle * machine.clock_hz * 1e-12


def elasticity(timeline: Timeline) -> dict[str, float]:
    """Share of the run in which each resource is on the critical path; ``latency`` is that of links."""
    program, events = timeline.program, timeline.events
    path = critical_path(timeline)
    shares: dict[str, float] = {}
    total = max(timeline.latency_cycles, 1)
    begins = events.start_cycles[path]
    nexts = np.append(begins[1:], timeline.latency_cycles)[: len(path)]
    for event, begin, until in zip(path.tolist(), begins.tolist(), nexts.tolist(), strict=True):
        end = min(int(events.end_cycles[event]), until)
        name = program.resource_names[events.resource[event]]
        shares[name] = shares.get(name, 0.0) + max(end - begin, 0) / total
        if until > end:
            shares["latency"] = shares.get("latency", 0.0) + (until - end) / total
    return shares


def _limits(timeline: Timeline) -> dict[str, float]:
    """How many times as fast the run would be with infinitely fast computing, and with infinitely fast memory."""
    program = timeline.program
    tile = program.activities.kind == ActivityKind.TILE
    no_compute = program.activities._replace(cycles=np.where(tile, 0, program.activities.cycles))
    no_bytes = program.activities._replace(bytes=np.zeros_like(program.activities.bytes))
    no_latency = program.resources._replace(latency_cycles=np.zeros_like(program.resources.latency_cycles))
    ideal = {
        "computing": dataclasses.replace(program, activities=no_compute),
        "memory": dataclasses.replace(program, activities=no_bytes, resources=no_latency),
    }
    found = {}
    for name, changed in ideal.items():
        with suppress(ProgramError):  # claims that come in another order may come to a standstill
            cycles = simulate(changed).latency_cycles
            found[name] = timeline.latency_cycles / cycles if cycles else float("inf")
    return found


def _simulate(
    timeline: Timeline,
    change: Change,
    machine: Accelerator,
    workload: Workload | None,
    time_limit_seconds: float | None,
) -> Cost | None:
    """The faster of the recorded program on the changed machine and a schedule searched for it; None without either."""
    found = []
    if change.scheduler is None and change.batch == 1:
        with suppress(ProgramError, MappingError, UnsupportedOperator):
            # Its order of transfers comes to a standstill there, or a tile does not fit.
            program = rebind(timeline.program, change.accelerator, machine)
            found.append(_cost(simulate(_fewer_bytes(program, change.bits))))
    name = change.scheduler or timeline.provenance.get("scheduler")
    if workload is not None and isinstance(name, str) and name in SCHEDULERS:
        with suppress(BufferOverflow, ScheduleError, MappingError, UnsupportedOperator):  # too many tiles, say
            changed = workload.with_batch(workload.batch * change.batch)
            if change.bits != 1:
                changed = with_fewer_bits(changed, change.bits)
            found.append(_searched(timeline, name, changed, change.accelerator, time_limit_seconds))
    return min(found, default=None)


def _fewer_bytes(program: Program, share: float) -> Program:
    """The same program with every tensor so many times as large."""
    if share == 1:
        return program
    claims, activities = program.claims, program.activities
    size = np.ceil(activities.bytes * share).astype(np.int64)
    energy = program.energy_pj.copy()
    moves = activities.bytes > 0
    energy[moves] *= (size[moves] / activities.bytes[moves])[:, None]
    return dataclasses.replace(
        program,
        activities=activities._replace(bytes=size),
        claims=claims._replace(bytes=np.ceil(claims.bytes * share).astype(np.int64)),
        energy_pj=energy,
    )


def _searched(
    timeline: Timeline, name: str, workload: Workload, accelerator: Accelerator, time_limit_seconds: float | None
) -> Cost:
    provenance = timeline.provenance
    objective = parse_objective(str(provenance.get("objective", "energy^1*delay^1")))
    seed = provenance.get("seed")
    scheduler = SCHEDULERS[name].from_options(objective, seed if isinstance(seed, int) else 0)
    whole = accelerator.dataflow.one_tile_per_operator
    fitted = workload if whole else cut_to_fit(workload, accelerator.buffers["global"].capacity_bytes)
    result = scheduler.search(fitted, accelerator, Watch(time_limit_seconds))
    return _cost(simulate(lower(fitted, accelerator, result.schedule)))


def _cost(timeline: Timeline) -> Cost:
    return Cost(timeline.latency_cycles, energy_pj(timeline))


_WAITS = {
    "wait_load": "waiting for loads",
    "wait_store": "waiting for stores",
    "wait_buffer": "waiting for buffer space",
    "drain": "storing the last results",
}
_PARTS = {ResourceKind.CORE: "the array and the vector unit", ResourceKind.LINK: "the link to DRAM"}
_ADVICE = {ResourceKind.CORE: "it is limited by computing", ResourceKind.LINK: "it is limited by memory bandwidth"}


def _bottleneck(timeline: Timeline) -> str:
    """The busiest resource with its share, and the largest cause of waiting."""
    program, latency = timeline.program, max(timeline.latency_cycles, 1)
    busy = sorted(busy_cycles(program).items(), key=lambda item: -item[1])
    if not busy:
        return "Nothing runs."
    kinds: list[Any] = [int(program.resources.kind[program.resource_names.index(name)]) for name, _ in busy]
    shares = [cycles / latency for _, cycles in busy]
    part = _PARTS.get(kinds[0], f"'{busy[0][0]}'")
    said = f"{part} {'are' if kinds[0] == ResourceKind.CORE else 'is'} busy in {shares[0]:.0%} of its cycles"
    if len(shares) > 1 and shares[1] > 0.9 * shares[0]:
        verdict = "computing and memory bandwidth limit it alike"
    elif shares[0] >= 0.8:
        verdict = _ADVICE.get(kinds[0], f"it is limited by '{busy[0][0]}'")
    else:
        verdict = "neither limits it alone: they wait for one another"
    causes = {_WAITS[cause]: cycles for cause, cycles in cycles_by_cause(timeline).items() if cause in _WAITS}
    cause, cycles = max(causes.items(), key=lambda item: item[1])
    waits = f"; {cycles / latency:.0%} of the cycles pass {cause}" if cycles else ""
    return f"The run takes {latency:,} cycles: {said}{waits}. So {verdict}."
