"""Options that commands share, and how they talk."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

import click

from accelsim.errors import InputError

Command = TypeVar("Command", bound=Callable[..., Any])


def options(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, shown in this order."""

    def decorate(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def _bindings(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, int] | None:
    """The sizes of ``--bind``, by name; None where none are given."""
    bindings = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        if not name or not value.removeprefix("-").isdecimal():
            raise InputError(f"--bind {text}: expected NAME=VALUE, a whole number for a free dimension")
        bindings[name] = int(value)
    return bindings or None


as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
overrides = click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a template's field.")
engine = click.option("--engine", default="compiled", show_default=True, help="compiled or reference.")
what_runs = options(
    click.argument("workload"),
    click.option("--hardware", required=True, help="Name of a template (accelsim list hardware), or a path to one."),
    click.option("--scheduler", default=None, help="How to find a schedule. [default: layerwise]"),
    click.option("--schedule", "schedule_file", type=click.Path(), help="A schedule file, instead of a scheduler."),
    click.option("--batch", type=click.IntRange(min=1, max=1 << 20), default=1, help="Samples at once. [default: 1]"),
    click.option("--phase", help="Language models: prefill (a prompt at once) or decode (one token after a cache)."),
    click.option(
        "--sequence-length",
        type=click.IntRange(min=1, max=1 << 24),
        help="Language models: tokens of the prompt; decode: the cached ones and the new one.",
    ),
    click.option(
        "--context-length",
        type=click.IntRange(min=0, max=1 << 24),
        help="Language models: tokens in the cache; for decode, instead of --sequence-length.",
    ),
    click.option("--bits", type=click.IntRange(min=1, max=64), help="Bits per element, instead of the workload's own."),
    click.option(
        "--weight-sparsity",
        metavar="TEXT",
        help="Zeros in the weights: 2:4, 0.3, block:8:0.25 or a mask (.npy); perhaps stored: 2:4/index, 0.3/bitmap.",
    ),
    click.option(
        "--input-sparsity",
        metavar="TEXT",
        help="Zeros in the inputs of convolutions and products: 0.5; 0.5/bitmap stores and moves them so, too.",
    ),
    click.option(
        "--bind", multiple=True, metavar="NAME=VALUE", callback=_bindings, help="ONNX files: size of a free dimension."
    ),
    overrides,
    click.option("--objective", default="energy^1*delay^1", show_default=True, help="What the search minimises."),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the search."),
    click.option(
        "--seeds",
        type=click.IntRange(min=1, max=1 << 16),
        default=1,
        show_default=True,
        help="Search with so many seeds, from --seed on, in processes; the best counts.",
    ),
    click.option("--time-limit", type=click.FloatRange(min=0, min_open=True), help="Seconds that the search may take."),
    click.option("--checkpoint", type=click.Path(), help="File that keeps the search; if it is there, go on."),
    click.option("--allow-unsupported", is_flag=True, help="Count operators that are not understood as moved data."),
)


def progress(text: str) -> AbstractContextManager[Any]:
    """A spinner on stderr, if somebody watches."""
    from rich.console import Console

    return Console(stderr=True).status(text)


def terminal_columns() -> int | None:
    """Characters of a line, for people at a terminal; None for scripts and files, which get one line a row."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_json(content: dict[str, Any]) -> None:
    """The one JSON object of ``--json``."""
    click.echo(json.dumps(content, allow_nan=False))


def make_folder(folder: Path) -> None:
    """The folder of ``--out``.

    Raises:
        InputError: a file has that name.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder}: is a file; give a folder")
    folder.mkdir(parents=True, exist_ok=True)
