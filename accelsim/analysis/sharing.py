"""What programs that share a machine cost one another: slowdown against running alone, and how fair it was."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass

import numpy as np

from accelsim.analysis.sections import Row, Section, section_lines, section_table
from accelsim.engine import simulate
from accelsim.errors import InputError
from accelsim.program.share import tenant_alone
from accelsim.timeline.contention import link_waits
from accelsim.timeline.table import Timeline


@dataclass(frozen=True)
class Tenant:
    """One of the programs on a shared machine."""

    name: str
    latency_cycles: int
    """Until its last activity has finished."""
    alone_cycles: int
    """The same with the machine for itself: the same links, rules and buffers, and nobody else."""
    moved_bytes: int
    """Over all links."""
    link_wait_cycles: dict[str, int]
    """As :func:`accelsim.link_waits`."""

    @property
    def slowdown(self) -> float:
        """How many times as long as alone; 1 for a program that does nothing."""
        return self.latency_cycles / self.alone_cycles if self.alone_cycles else 1.0


@dataclass(frozen=True)
class Sharing:
    """The tenants of a shared machine, in the order in which they were given."""

    tenants: tuple[Tenant, ...]

    @property
    def fairness(self) -> float:
        """Jain's index of the tenants' speeds x = 1 / slowdown: (sum x)^2 / (N sum x^2).

        1 where all are slowed down alike, 1 / N where one alone gets on. (Jain, Chiu, Hawe, DEC-TR-301, 1984.)
        """
        speeds = [1 / tenant.slowdown for tenant in self.tenants]
        return math.fsum(speeds) ** 2 / (len(speeds) * math.fsum(speed**2 for speed in speeds))

    @property
    def unfairness(self) -> float:
        """The largest slowdown over the smallest (Mutlu, Moscibroda, MICRO 2007)."""
        slowdowns = [tenant.slowdown for tenant in self.tenants]
        return max(slowdowns) / min(slowdowns)

    @property
    def weighted_speedup(self) -> float:
        """The sum of 1 / slowdown: programs' worth of progress (Snavely, Tullsen, ASPLOS 2000)."""
        return math.fsum(1 / tenant.slowdown for tenant in self.tenants)

    def to_dict(self) -> dict[str, object]:
        """All figures, as ``accelsim run --share --json`` prints them beside those of the run."""
        return {
            "tenants": [
                {
                    "name": tenant.name,
                    "latency_cycles": tenant.latency_cycles,
                    "alone_cycles": tenant.alone_cycles,
                    "slowdown": tenant.slowdown,
                    "moved_bytes": tenant.moved_bytes,
                    "link_wait_cycles": tenant.link_wait_cycles,
                }
                for tenant in self.tenants
            ],
            "fairness": self.fairness,
            "unfairness": self.unfairness,
            "weighted_speedup": self.weighted_speedup,
        }

    def section(self) -> Section:
        """The same as lines of a report."""
        rows = [
            Row(
                tenant.name,
                f"{tenant.slowdown:.3f} x",
                f"{tenant.latency_cycles:,} cycles, alone {tenant.alone_cycles:,}",
            )
            for tenant in self.tenants
        ]
        rows.append(Row("Fairness", f"{self.fairness:.3f}", "1 = all are slowed down alike"))
        rows.append(Row("Progress", f"{self.weighted_speedup:.3f}", f"of {len(self.tenants)} programs alone"))
        return Section("Slowdown against running alone", rows)

    def __str__(self) -> str:
        return "\n".join(section_lines(self.section()))

    def _repr_html_(self) -> str:
        title = " + ".join(tenant.name for tenant in self.tenants)
        return f"<h3>{html.escape(title)}</h3>{section_table(self.section())}"


def sharing(timeline: Timeline) -> Sharing:
    """What sharing has cost each tenant of a run of several programs; each is run once more, alone.

    Raises:
        InputError: the run had its machine for itself.
    """
    program = timeline.program
    if not program.tenant_names:
        raise InputError("nobody shares this machine; run several programs with simulate([a, b], share='dram')")
    waits = link_waits(timeline)
    tenant_of = program.queues.tenant[timeline.events.queue]
    tenants = []
    for number, name in enumerate(program.tenant_names):
        mine = tenant_of == number
        alone = simulate(tenant_alone(program, number), timeline.engine)
        tenants.append(
            Tenant(
                name=name,
                latency_cycles=int(timeline.events.finish_cycles[mine].max(initial=0)),
                alone_cycles=alone.latency_cycles,
                moved_bytes=int(np.sum(timeline.events.bytes[mine])),
                link_wait_cycles=waits.get(name, {}),
            )
        )
    return Sharing(tuple(tenants))
