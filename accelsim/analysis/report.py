"""What a run came to: as data (:func:`summary`), and as a report to read.

The report is made once, as sections of rows of text; terminals, notebooks and pages only lay them out.
"""

from __future__ import annotations

import html
from dataclasses import dataclass

import numpy as np

from accelsim.analysis.communication import communication, communication_rows
from accelsim.analysis.energy import energy_by_part_pj, energy_pj
from accelsim.analysis.ledger import LABELS, ledger
from accelsim.analysis.ledger_tiles import TILE_LABELS, UNKNOWN
from accelsim.analysis.sections import Row, Section, section_lines, section_table
from accelsim.analysis.traffic import traffic
from accelsim.program.bounds import busy_cycles, lower_bound_cycles
from accelsim.program.tables import ActivityKind, Program, ResourceKind
from accelsim.program.trace_program import AS_RECORDED
from accelsim.timeline.contention import link_waits
from accelsim.timeline.occupancy import peak_buffer_bytes
from accelsim.timeline.stalls import cycles_by_cause, cycles_by_operator
from accelsim.timeline.table import Timeline
from accelsim.units import counted, format_bytes, format_energy, format_seconds, printable

CAUSE_WORDS = {
    "compute": "a core runs a tile",
    "wait_load": "waiting for a load",
    "wait_store": "waiting for a store",
    "wait_buffer": "waiting for buffer space",
    "wait_tile": "waiting for a tile on another core",
    "wait_communication": "waiting for other accelerators",
    "wait_resource": "waiting for a core that serves another queue",
    "wait_other": "waiting, the trace does not say for what",
    "drain": "after the last tile",
}

MOST_LISTED = 4
"""More resources than these in one line are only counted."""


def report(timeline: Timeline, per_layer: bool = False) -> Report:
    """The report of a run: print it, show it in a notebook, or take its ``to_dict()``."""
    return Report(timeline, per_layer)


def summary(timeline: Timeline, per_layer: bool = False) -> dict[str, object]:
    """All figures of a run, as ``accelsim run --json`` prints them.

    Work, ``macs`` and ``vector_ops``, is the workload's own: what is recomputed costs cycles and energy, but is not
    counted. Of a trace without a workload it is the work executed. A figure that needs a fact that the program does not
    carry (a clock, the size of the array) is None. With ``per_layer`` also the layers and the ledger of the run.
    """
    program, provenance = timeline.program, timeline.provenance
    facts, activities, latency = program.facts, program.activities, timeline.latency_cycles
    clock_hz, bound, moved = known(program, "clock_hz"), lower_bound_cycles(program), traffic(program)
    macs, vector_ops = known(program, "macs"), known(program, "vector_ops")
    macs = int(activities.macs.sum()) if macs is None else macs
    vector_ops = int(activities.vector_ops.sum()) if vector_ops is None else vector_ops
    tiles = int((activities.kind == ActivityKind.TILE).sum())
    found: dict[str, object] = {
        "workload": facts.get("workload"),
        "hardware": facts.get("hardware"),
        "scheduler": provenance.get("scheduler"),
        "seed": provenance.get("seed"),
        "engine": timeline.engine,
        "latency_cycles": latency,
        "latency_seconds": latency / clock_hz if clock_hz else None,
        "lower_bound_cycles": bound,
        "gap_percent": 100 * (latency - bound) / bound if bound else None,
        "energy_pj": energy_pj(timeline),
        "energy_by_part_pj": energy_by_part_pj(timeline),
        "dram_read_bytes": moved.read_bytes,
        "dram_write_bytes": moved.write_bytes,
        "macs": macs,
        "vector_ops": vector_ops,
        "utilization": {
            "mac": _ratio(macs, known(program, "macs_per_cycle"), latency),
            "with_vector": _ratio(known(program, "ideal_cycles"), 1, latency),
        },
        "peak_buffer_bytes": peak_buffer_bytes(timeline),
        "cycles_by_cause": cycles_by_cause(timeline),
        "tiles": tiles,
        "transfers": program.size - tiles,
        "search_seconds": provenance.get("search_seconds", 0.0),
        "simulate_seconds": provenance.get("simulate_seconds", 0.0),
        "link_wait_cycles": link_waits(timeline),
        "dram_model": dram_model(timeline),
    }
    if (sent := communication(timeline)) is not None:
        found["communication"] = sent.to_dict()
    if per_layer:
        found |= {"layers": layers(timeline), "ledger": ledger(timeline).to_dict(per_layer)}
    return found


def dram_model(timeline: Timeline) -> dict[str, object]:
    """How the time and the energy of DRAM were found; with banks, also what the memory did."""
    use = timeline.memory
    if use is None:
        return {"fidelity": "link", "energy": "per byte"}
    found: dict[str, object] = {"fidelity": use.fidelity, "energy": "per byte", "memory": use.memory}
    found |= {"channels": use.channels, "peak_bytes_per_cycle": use.peak_bytes_per_cycle}
    busy = busy_of_link(timeline)
    moved = sum(traffic(timeline.program)[:2])
    found["efficiency"] = moved / busy / use.peak_bytes_per_cycle if busy else 0.0
    if use.fidelity == "banks":
        found |= {
            "energy": "command counters",
            "row_hits": use.row_hits,
            "row_misses": use.row_misses,
            "row_conflicts": use.row_conflicts,
            "energy_by_command_pj": use.energy_by_command_pj,
        }
    return found


def busy_of_link(timeline: Timeline) -> int:
    """Cycles in which the link with a memory behind it serves a transfer."""
    if timeline.program.memory is None:
        return 0
    mine = timeline.events.resource == timeline.program.memory.link
    return int((timeline.events.end_cycles - timeline.events.start_cycles)[mine].sum())


def layers(timeline: Timeline) -> list[dict[str, object]]:
    """The operators that have tiles, in the order in which their first tiles start.

    Of each its name, ``compute_cycles`` (the sum over its tiles, recomputation included), its own ``macs``, and
    ``utilization`` = macs / (MACs in the arrays * compute_cycles).
    """
    program = timeline.program
    activities = program.activities
    tile = activities.kind == ActivityKind.TILE
    cycles, executed = np.zeros((2, len(program.operator_names) + 1), dtype=np.int64)  # the last row is that of -1
    np.add.at(cycles, activities.operator[tile], activities.cycles[tile])
    np.add.at(executed, activities.operator[tile], activities.macs[tile])
    own = program.operator_macs if len(program.operator_macs) else executed
    macs_per_cycle = known(program, "macs_per_cycle")
    started = timeline.events.activity[tile[timeline.events.activity]]
    return [
        {
            "name": program.operator_names[operator],
            "compute_cycles": int(cycles[operator]),
            "macs": int(own[operator]),
            "utilization": _ratio(int(own[operator]), macs_per_cycle, int(cycles[operator])),
        }
        for operator in dict.fromkeys(activities.operator[started].tolist())
        if operator >= 0
    ]


def _takes_turns(program: Program) -> bool:
    """A link has several queues, or one that waits for requests."""
    link = program.resources.kind == ResourceKind.LINK
    queues = np.bincount(program.queues.resource, minlength=len(link))
    return bool((link & (queues > 1)).any() or program.queues.outstanding.any())


def known(program: Program, fact: str) -> int | float | None:
    """A number among the program's facts that is not negative; None where there is none."""
    value = program.facts.get(fact)
    return value if isinstance(value, int | float) and value >= 0 else None


def _ratio(work: float | None, per_cycle: float | None, cycles: int) -> float | None:
    """work / (per_cycle * cycles); 0 for no cycles, None where a number is not known."""
    if work is None or per_cycle is None:
        return None
    return work / (per_cycle * cycles) if per_cycle and cycles else 0.0


def _listed(cycles: dict[str, int]) -> str:
    """Names with their cycles, in their order; of many, those with most, and how many others there are."""
    if len(cycles) <= MOST_LISTED:
        return ", ".join(f"{name} {count:,}" for name, count in cycles.items())
    first = sorted(cycles.items(), key=lambda item: -item[1])[:MOST_LISTED]
    return f"{_listed(dict(first))} and {len(cycles) - MOST_LISTED} others"


@dataclass(frozen=True)
class Report:
    """The report of one run."""

    timeline: Timeline
    per_layer: bool = False

    def to_dict(self) -> dict[str, object]:
        """As :func:`summary`."""
        return summary(self.timeline, self.per_layer)

    @property
    def title(self) -> str:
        """What ran, in a line."""
        facts, provenance = self.timeline.program.facts, self.timeline.provenance
        batch = f", batch {facts['batch']}" if facts.get("batch", 1) != 1 else ""
        scheduler = f", scheduled by {provenance['scheduler']}" if provenance.get("scheduler") else ""
        hardware = facts.get("hardware", "its machine")
        where = f", {hardware}" if hardware == AS_RECORDED else f" on {hardware}"
        return f"{facts.get('workload', 'A trace')}{batch}{where}{scheduler}"

    def sections(self) -> list[Section]:
        """Key figures first, then where cycles, energy and buffer space went, and the operators with most cycles.

        None of them is empty; what a foreign trace does not tell (energy, bytes, work) is left out.
        """
        operators = sorted(cycles_by_operator(self.timeline).items(), key=lambda item: -item[1])
        if not self.per_layer:
            operators = operators[:5]
        sections = [
            Section("Key figures", self._key_figures()),
            Section("Communication", communication_rows(self.timeline)),
            Section("Cycles by cause", self._cycles_by_cause()),
            Section("What the compute cycles did", self._compute_cycles()),
            Section("Waiting for a link, by who had it", self._link_waits()),
            Section("Energy by part", self._energy_by_part() if energy_pj(self.timeline) else []),
            Section("Peak buffer use", self._peak_buffers()),
            Section(
                "Operators, waiting included" if self.per_layer else "The operators with most cycles, waiting included",
                [self._cycles_row(name, cycles) for name, cycles in operators],
            ),
        ]
        return [section for section in sections if section.rows]

    def _key_figures(self) -> list[Row]:
        figures = summary(self.timeline)
        program, latency = self.timeline.program, self.timeline.latency_cycles
        clock_hz = known(program, "clock_hz")
        time = f"{format_seconds(latency / clock_hz)} at {clock_hz / 1e9:g} GHz" if clock_hz else ""
        busy = _listed({f"{name} busy": cycles for name, cycles in busy_cycles(program).items()})

        def count(figure: str, noun: str) -> str:
            value = figures[figure]
            assert isinstance(value, int)
            return counted(value, noun)

        gap = figures["gap_percent"]
        utilization = figures["utilization"]
        assert isinstance(utilization, dict)
        rows = [
            Row("Latency", counted(latency, "cycle"), time),
            Row("Lower bound", counted(lower_bound_cycles(program), "cycle"), busy),
        ]
        if isinstance(gap, float):
            rows.append(Row("Gap to the bound", f"{gap:.2f} %"))
        if energy := energy_pj(self.timeline):
            rows.append(Row("Energy", format_energy(energy)))
        if (moved := traffic(program)).total_bytes:
            rows.append(Row("DRAM read", format_bytes(moved.read_bytes), counted(moved.read_bytes, "byte")))
            rows.append(Row("DRAM written", format_bytes(moved.write_bytes), counted(moved.write_bytes, "byte")))
        if figures["macs"] or figures["vector_ops"]:
            rows.append(Row("Work", count("macs", "MAC"), count("vector_ops", "vector operation")))
        rows += self._memory()
        for name, key in (("MAC utilisation", "mac"), ("With vector work", "with_vector")):
            if utilization[key] is not None:
                rows.append(Row(name, f"{100 * utilization[key]:.2f} %"))
        rows.append(Row("Activities", count("tiles", "tile"), count("transfers", "transfer")))
        return rows

    def _memory(self) -> list[Row]:
        """What stands behind the link, if the run has looked."""
        use, model = self.timeline.memory, dram_model(self.timeline)
        if use is None:
            return []
        peak = f"{use.channels} x {use.memory}, {use.peak_bytes_per_cycle:g} B/cycle at the pins"
        share = f"{100 * float(str(model['efficiency'])):.2f} %"
        if use.fidelity != "banks":
            return [Row("DRAM model", use.fidelity, f"{peak}; energy per byte"), Row("DRAM efficiency", share)]
        rows = f"{use.row_hits:,} row hits, {use.row_misses:,} misses, {use.row_conflicts:,} conflicts"
        return [
            Row("DRAM model", "banks", f"{peak}; energy from command counters"),
            Row("DRAM efficiency", share, rows),
        ]

    def _cycles_row(self, name: str, cycles: int, note: str = "") -> Row:
        return Row(name, f"{cycles:,}", note, cycles / max(self.timeline.latency_cycles, 1))

    def _cycles_by_cause(self) -> list[Row]:
        return [
            self._cycles_row(name, cycles, CAUSE_WORDS[name]) for name, cycles in cycles_by_cause(self.timeline).items()
        ]

    def _compute_cycles(self) -> list[Row]:
        """Of a machine with one core, which the causes above are about; of others `accelsim ledger` tells."""
        found = ledger(self.timeline)
        cores = [one for one in found.resources if one.kind == ResourceKind.CORE]
        if len(cores) != 1:
            return []
        labels = cores[0].by_label()
        return [
            self._cycles_row(name, labels[name], LABELS[name])
            for name in TILE_LABELS
            if name in labels and name != UNKNOWN
        ]

    def _link_waits(self) -> list[Row]:
        """Nothing where no one can be held up by another."""
        if not _takes_turns(self.timeline.program):
            return []
        waits = link_waits(self.timeline)
        return [Row(name, f"{sum(found.values()):,}", _listed(found)) for name, found in waits.items()]

    def _energy_by_part(self) -> list[Row]:
        by_part, total = energy_by_part_pj(self.timeline), energy_pj(self.timeline)
        return [Row(name, format_energy(part), "", part / total if total else 0.0) for name, part in by_part.items()]

    def _peak_buffers(self) -> list[Row]:
        capacity = self.timeline.program.buffers.capacity_bytes.tolist()
        return [
            Row(name, format_bytes(peak), f"of {format_bytes(whole)}", peak / whole if whole else 0.0)
            for (name, peak), whole in zip(peak_buffer_bytes(self.timeline).items(), capacity, strict=True)
        ]

    def __str__(self) -> str:
        lines = [self.title, *(line for section in self.sections() for line in section_lines(section))]
        return "\n".join(map(printable, lines))

    def _repr_html_(self) -> str:
        return f"<h3>{html.escape(self.title)}</h3>" + "".join(section_table(section) for section in self.sections())
