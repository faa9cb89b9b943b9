"""``accelsim lessons``: what the roofline teaches, each lesson shown by runs."""

from __future__ import annotations

import click

from accelsim.cli import common


@click.command("lessons")
@click.argument("name", required=False)
@click.option("--hardware", default="soma_edge", show_default=True, help="The machine to show them on.")
@common.overrides
@common.as_json
def lessons_command(name: str | None, hardware: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """What the roofline teaches about accelerators: a claim, the runs that show it, and whether they bear it out.

    NAME is one of ridge, buffer, decode, peak, bits; without it all are shown.
    """
    from accelsim.analysis.lessons import lessons
    from accelsim.library import load_accelerator

    machine = load_accelerator(hardware, overrides)
    with common.progress("running"):
        found = list(lessons(machine, name))
    if as_json:
        common.print_json({"hardware": machine.name, "lessons": [lesson.to_dict() for lesson in found]})
    else:
        click.echo("\n\n".join(str(lesson) for lesson in found))
