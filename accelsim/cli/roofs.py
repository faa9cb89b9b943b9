"""``accelsim roofs``: what micro-kernels reach on a machine, and what keeps them from more."""

from __future__ import annotations

import click

from accelsim.cli import common


@click.command("roofs")
@click.argument("hardware", metavar="HW")
@common.overrides
@click.option("--out", type=click.Path(), help="Write all of it to this file, with its provenance (roofs.json).")
@click.option("--fresh", is_flag=True, help="Measure anew, whatever was measured before.")
@common.as_json
def roofs_command(hardware: str, overrides: tuple[str, ...], out: str | None, fresh: bool, as_json: bool) -> None:
    """The roofs of a machine as micro-kernels K1 to K11 find them on the simulator, with their uncertainty and causes.

    Energies are regressed from the same kernels and compared with those of the template (closure).
    """
    from accelsim.analysis.roofs_file import measured_roofs
    from accelsim.library import load_accelerator

    accelerator = load_accelerator(hardware, overrides)
    with common.progress("running the micro-kernels"):
        found = measured_roofs(accelerator, keep=not fresh)
    if out is not None:
        found.save(out)
    if as_json:
        common.print_json(found.to_dict())
    else:
        click.echo(str(found))
