"""The command line: arguments in, calls out. Every command is imported when it is used, and everything heavy inside
it."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import NoReturn

import click

from accelsim import __version__
from accelsim.errors import AccelsimError
from accelsim.units import did_you_mean, printable

COMMANDS = {
    "advise": "roofline",
    "compare": "compare",
    "demo": "run",
    "explain": "run",
    "export": "show",
    "ledger": "ledger",
    "lessons": "lessons",
    "list": "show",
    "memory": "memory",
    "replay": "replay",
    "roofline": "roofline",
    "roofs": "roofs",
    "run": "run",
    "schedule": "run",
    "study": "sweep",
    "sweep": "sweep",
}
"""Command to the module of this package that has it, under its own name."""


SECTIONS = {
    "Run": ("demo", "list", "run", "schedule", "explain", "sweep", "study"),
    "Look and compare": ("compare", "replay", "export", "ledger"),
    "Limits and advice": ("roofline", "roofs", "advise"),
}
"""How the help orders the commands; those that stand nowhere here come last."""
EXAMPLES = """
Start here:

\b
  accelsim demo
  accelsim run resnet50 --hardware soma_edge --scheduler best --out run1
  accelsim compare run0 run1 --out compare.html
"""


class _Commands(click.Group):
    """Finds commands in :data:`COMMANDS`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"no command '{args[0]}'{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        placed = {name for names in SECTIONS.values() for name in names}
        rest = tuple(name for name in self.list_commands(ctx) if name not in placed)
        for title, names in {**SECTIONS, "More": rest}.items():
            found = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(title):
                formatter.write_dl([(name, one.get_short_help_str(200)) for name, one in found if one is not None])

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"accelsim.cli.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command


@click.group(
    cls=_Commands,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(__version__)
def cli() -> None:
    """Cycle-level simulation of machine-learning accelerators."""


def main() -> NoReturn:
    """Entry point. A user's mistake ends with status 2 and a message, a fault of ours with status 1."""
    try:
        status = cli.main(standalone_mode=False)
        sys.stdout.flush()
        sys.exit(status if isinstance(status, int) else 0)
    except AccelsimError as error:
        click.echo(printable(f"accelsim: {type(error).__name__}: {error}"), err=True)
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("accelsim: stopped", err=True)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has gone, as in `accelsim list … | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (OSError, MemoryError) as error:
        click.echo(f"accelsim: {error}", err=True)
        sys.exit(2)
