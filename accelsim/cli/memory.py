"""``accelsim memory``."""

from __future__ import annotations

from typing import Any

import click

from accelsim.cli import common


@click.command("memory")
@click.argument("trace", type=click.Path())
@click.option("--memory", "name", required=True, help="Name (accelsim list memories), or a path to a template.")
@common.overrides
@common.as_json
def memory_command(trace: str, name: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """A trace of memory requests, command by command through a DRAM controller."""
    from accelsim.formats.memory_trace import read_memory_trace
    from accelsim.library import load_memory

    memory = load_memory(name, overrides)
    requests = read_memory_trace(trace)
    with common.progress(f"serving {requests.size:,} requests"):
        summary = memory.serve(requests).summary()
    if as_json:
        common.print_json(summary)
    else:
        click.echo(_report(summary, memory.description))


def _report(summary: dict[str, Any], description: str) -> str:
    from accelsim.units import format_energy, format_seconds

    energy = summary["energy_pj"]
    lines = [
        f"{summary['memory']}: {description}",
        f"{summary['requests']:,} requests, {summary['bytes']:,} bytes in {summary['cycles']:,} cycles "
        f"({format_seconds(summary['seconds'])})",
        f"bandwidth    {summary['bandwidth_gb_per_s']:.2f} of {summary['peak_gb_per_s']:.2f} GB/s "
        f"({summary['efficiency']:.1%})",
        f"rows         {summary['row_hits']:,} hits, {summary['row_misses']:,} misses (bank closed), "
        f"{summary['row_conflicts']:,} conflicts (other row open)",
        f"energy       {format_energy(energy)}, {energy / 8 / summary['bytes']:.2f} pJ/bit: "
        + ", ".join(f"{name} {format_energy(value)}" for name, value in summary["energy_by_command_pj"].items()),
        "",
        f"{'latency in cycles':<20}{'requests':>12}{'mean':>12}{'p50':>10}{'p99':>10}{'max':>10}",
    ]
    for engine in summary["engines"]:
        for kind in ("read", "write"):
            figures = engine[f"{kind}_latency_cycles"]
            if count := engine[f"{kind}s"]:
                lines.append(
                    f"engine {engine['engine']} {kind + 's':<12}{count:>11,}{figures['mean']:>12,.1f}"
                    f"{figures['p50']:>10,}{figures['p99']:>10,}{figures['max']:>10,}"
                )
    return "\n".join(lines)
