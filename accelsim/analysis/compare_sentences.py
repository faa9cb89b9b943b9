"""What a person would say about two runs: what differs, what made B faster or slower, and by how much."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from accelsim.analysis.energy import energy_pj
from accelsim.analysis.report import known
from accelsim.errors import InputError
from accelsim.timeline.compare import same_schedule
from accelsim.units import counted, format_bytes, format_energy, format_seconds
from accelsim.yaml_tree import read_tree

if TYPE_CHECKING:
    from accelsim.analysis.compare_report import Comparison

CAUSES = {
    "compute": "computing",
    "wait_load": "waiting for loads",
    "wait_store": "waiting for stores",
    "wait_buffer": "waiting for buffer space",
    "wait_tile": "waiting for tiles on other cores",
    "wait_communication": "waiting for messages from other accelerators",
    "wait_resource": "waiting for a core that serves another queue",
    "wait_other": "waiting for what the trace does not say",
    "drain": "draining after the last tile",
}
PATH_WORDS = {
    "array tile": "array tiles",
    "vector tile": "vector tiles",
    "load of weights": "loads of weights",
    "load of inputs": "loads of inputs",
    "store": "stores",
    "send": "messages to other accelerators",
    "other tile": "other tiles",
}
NAMED = 3
"""Names that a sentence gives before it only counts."""
WORTH_A_WORD = 0.01
"""A part that is smaller than this share of the largest one is left to the tables."""
FIRST_FIELDS = ("clock", "bandwidth", "capacity", "rows", "columns", "cores", "lanes", "vector_length", "dataflow")
"""Fields of machines, by the ends of their names, that are told before all others."""


def sentences(comparison: Comparison) -> list[str]:
    """What differs, the verdict, and its reasons."""
    if comparison.identical:
        events = len(comparison.a.events.activity)
        same = "its one event is" if events == 1 else f"all {events:,} events are"
        return [f"The runs are identical: one program, and {same} the same, cycle for cycle."]
    found = [
        *_inputs(comparison),
        _verdict(comparison),
        *_causes(comparison),
        *_operators(comparison),
        *_traffic(comparison),
        *_transfers(comparison),
        *_critical_path(comparison),
        *_energy(comparison),
    ]
    return [sentence[0].upper() + sentence[1:] for sentence in found]


def _inputs(comparison: Comparison) -> list[str]:
    """In what the runs were meant to differ."""
    a, b = comparison.a, comparison.b
    found = []
    for verb, joint, unnamed, one, other in (
        ("runs", "", "an unnamed workload", a.program.facts.get("workload"), b.program.facts.get("workload")),
        ("runs", "on ", "an unnamed machine", a.program.facts.get("hardware"), b.program.facts.get("hardware")),
        ("is scheduled", "by ", "hand", a.provenance.get("scheduler"), b.provenance.get("scheduler")),
    ):
        if one != other:
            found.append(f"A {verb} {joint}{one or unnamed}, B {joint}{other or unnamed}.")
    only_a, only_b = comparison.operators_only_in
    if only_a or only_b:
        by_operator = comparison.cycles_by_operator
        for side, names in (("A", only_a), ("B", only_b)):
            if names:
                spent = counted(abs(sum(by_operator.get(name, 0) for name in names)), "cycle")
                verb = "is" if len(names) == 1 else "are"
                found.append(f"Only in {side} {verb} {_some(names)}, with {spent}.")
    if changed := machine_changes(a.provenance.get("hardware_template"), b.provenance.get("hardware_template")):
        listed = [f"{key} ({one} in A, {other} in B)" for key, (one, other) in changed.items()]
        schedule = "The schedule is the same; the" if same_schedule(a.program, b.program) else "The"
        found.append(f"{schedule} machines differ in {_some(listed)}.")
    return found


def machine_changes(a: object, b: object) -> dict[str, tuple[object, object]]:
    """The fields in which two templates differ, names and descriptions aside; nothing where one is not known."""
    try:
        one, other = (_leaves(read_tree(str(text), "template", InputError).values) for text in (a, b))
    except InputError:
        return {}
    fields = [key for key in {**one, **other} if key not in ("name", "description")]
    absent = "not set"
    changed = [key for key in fields if one.get(key) != other.get(key)]
    changed.sort(key=lambda key: (*FIRST_FIELDS, end).index(end) if (end := key.rpartition(".")[2]) else 0)
    return {key: (one.get(key, absent), other.get(key, absent)) for key in changed}


def _leaves(values: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in values.items():
        found.update(_leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value})
    return found


def _verdict(comparison: Comparison) -> str:
    a, b, ratio = comparison.a.latency_cycles, comparison.b.latency_cycles, comparison.times_as_long
    said = f"B takes {counted(b, 'cycle')}, A {a:,}"
    if comparison.seconds is not None:
        seconds_a, seconds_b = map(format_seconds, comparison.seconds)
        said = f"B takes {seconds_b} ({counted(b, 'cycle')}), A {seconds_a} ({a:,})"
    if ratio == 1:
        return f"{said}: they are equally fast."
    if not a or not b:
        return f"{said}."
    words = f"{1 / ratio:.3g} times as fast" if ratio < 1 else f"{ratio:.3g} times as long"
    return f"{said}: {words} ({100 * (ratio - 1):+.1f} %)."


def _causes(comparison: Comparison) -> list[str]:
    """Where the cycles were won, and where some were lost again."""
    difference = comparison.latency_cycles
    named = {CAUSES[name]: cycles for name, cycles in comparison.cycles_by_cause.items()}
    towards, against = _both_ways(named, difference, _less_or_more_cycles)
    if not difference:
        return [f"The cycles are spent otherwise: {', '.join((*towards, *against))}."] if towards or against else []
    what = "What made B faster" if difference < 0 else "What made B slower"
    return [f"{what}: {', '.join(towards)}" + (f"; against that, {', '.join(against)}" if against else "") + "."]


def _operators(comparison: Comparison) -> list[str]:
    """Where in the network."""
    alone = {name for names in comparison.operators_only_in for name in names}
    joint = {name: cycles for name, cycles in comparison.cycles_by_operator.items() if name not in alone and cycles}
    said = []
    for sign, way in ((-1, "fewer"), (1, "more")):
        names = sorted((name for name in joint if sign * joint[name] > 0), key=lambda name: -abs(joint[name]))
        if names:
            first = ", ".join(f"{name} ({joint[name]:+,})" for name in names[:NAMED])
            some = "one operator takes" if len(names) == 1 else f"{len(names):,} operators take"
            said.append(f"{some} {way} cycles{', most of all' if len(names) > NAMED else ':'} {first}")
    return [f"{'; '.join(said if comparison.latency_cycles <= 0 else said[::-1])}."] if said else []


def _traffic(comparison: Comparison) -> list[str]:
    """Bytes to and from memory, and the tensors that cause the difference by staying on chip."""
    found = []
    if difference := comparison.dram_bytes:
        least = "less" if difference < 0 else "more"
        found.append(f"B moves {format_bytes(abs(difference))} {least} to and from memory than A.")
    on_chip_a, on_chip_b = comparison.stays_on_chip_in
    for here, other, tensors in (("B", "A", on_chip_b), ("A", "B", on_chip_a)):
        if tensors:
            names = sorted(tensors, key=lambda name: -tensors[name])
            count = "one tensor stays" if len(names) == 1 else f"{len(names):,} tensors stay"
            moved = format_bytes(sum(tensors.values()))
            found.append(f"{count} on chip in {here} for which {other} moves {moved}: {_some(names)}.")
    return found


def _transfers(comparison: Comparison) -> list[str]:
    """How much earlier transfers begin, and how far ahead of their use weights are loaded, if that was chosen."""
    a, b = comparison.a.program, comparison.b.program
    if same_schedule(a, b) or known(a, "clock_hz") != known(b, "clock_hz"):
        return []
    found, moved = [], comparison.transfers.both
    earlier, later = ([one for one in moved if sign * one.shift_cycles > 0] for sign in (-1, 1))
    if earlier or later:
        ways = [
            f"{len(ones):,} begin{'s' if len(ones) == 1 else ''} {way}"
            for ones, way in ((earlier, "earlier"), (later, "later"))
            if ones
        ]
        said = f"of {counted(len(moved), 'transfer')} that both runs have, {' and '.join(ways)} in B than in A"
        most = max((*earlier, *later), key=lambda one: abs(one.shift_cycles))
        found.append(f"{said}; the {most.name} moves most, by {counted(abs(most.shift_cycles), 'cycle')}.")
    weights = [one for one in moved if one.of_weights]
    if weights:
        ahead_a, ahead_b = (sum(ahead) // len(weights) for ahead in zip(*(one[3:5] for one in weights), strict=True))
        if ahead_a != ahead_b:
            found.append(
                f"B begins to load weights {counted(ahead_b, 'cycle')} ahead of their first tile on average, A "
                f"{ahead_a:,} ({counted(len(weights), 'load')} that both have)."
            )
    return found


def _critical_path(comparison: Comparison) -> list[str]:
    """What the critical paths consist of, where that changed noticeably."""
    (a, _), (b, _) = comparison.critical_paths
    shares = []
    for side, timeline in ((a, comparison.a), (b, comparison.b)):
        whole = timeline.latency_cycles
        shares.append({kind: 100 * cycles / whole for kind, cycles in side.items() if cycles} if whole else {})
    if all(abs(shares[0].get(kind, 0) - shares[1].get(kind, 0)) < 1 for kind in {**shares[0], **shares[1]}):
        return []
    said = [
        ", ".join(
            f"{share:.0f} % {PATH_WORDS.get(kind, kind)}"
            for kind, share in sorted(side.items(), key=lambda item: -item[1])
            if share >= 1
        )
        for side in shares
    ]
    return [f"the critical path of A is {said[0] or 'empty'}; that of B is {said[1] or 'empty'}."]


def _energy(comparison: Comparison) -> list[str]:
    """What both need, if the traces tell it."""
    a, b = energy_pj(comparison.a), energy_pj(comparison.b)
    if a == b:
        return [f"both need {format_energy(a)}."] if a else []
    percent = f" ({100 * (b - a) / a:+.1f} %)" if a else ""
    parts = {part: energy for part, energy in comparison.energy_by_part_pj.items() if energy}
    towards, against = _both_ways(parts, b - a, _less_or_more_energy, "{1} in {0}")
    ways = ([f"mainly {towards[0]}"] if towards else []) + ([f"but {against[0]}"] if against else [])
    return [f"B needs {format_energy(b)}, A {format_energy(a)}{percent}{': ' if ways else ''}{', '.join(ways)}."]


def _both_ways(
    parts: Mapping[str, float], whole: float, said: Callable[[float], str], order: str = "{1} {0}"
) -> tuple[list[str], list[str]]:
    """The parts that go the way of the whole, and those that go against it; the largest first, trifles left out."""
    least = WORTH_A_WORD * max(map(abs, parts.values()), default=0)
    ordered = sorted(
        ((name, part) for name, part in parts.items() if abs(part) > least), key=lambda item: -abs(item[1])
    )
    down = [order.format(name, said(part)) for name, part in ordered if part < 0]
    up = [order.format(name, said(part)) for name, part in ordered if part > 0]
    return (up, down) if whole > 0 else (down, up)


def _less_or_more_cycles(cycles: float) -> str:
    return f"{counted(abs(int(cycles)), 'cycle')} {'less' if cycles < 0 else 'more'}"


def _less_or_more_energy(energy: float) -> str:
    return f"{format_energy(abs(energy))} {'less' if energy < 0 else 'more'}"


def _some(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    listed = list(names)
    more = len(listed) - NAMED
    return ", ".join(listed[:NAMED]) + (f" and {more:,} more" if more > 0 else "")
