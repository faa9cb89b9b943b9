"""A sweep's description: fields of a :class:`accelsim.job.Job`, each with one value or a list; all combinations run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union

from pydantic import BaseModel, ConfigDict, Field

from accelsim.errors import FormatError, InputError
from accelsim.job import Job
from accelsim.yaml_source import YamlSource, read_text

Value = str | int | float | bool
Settings = dict[str, Value]
"""What one run is made of: fields of a Job by name, and ``set.FIELD`` for each field of the template."""

Item = TypeVar("Item")
Many = Union[Item, Annotated[list[Item], Field(min_length=1)]]  # noqa: UP007  mypy takes no other generic alias
Text = Annotated[str, Field(strict=True, min_length=1, max_length=4096)]
Whole = Annotated[int, Field(strict=True, ge=1, le=1 << 24)]
Natural = Annotated[int, Field(strict=True, ge=0, le=1 << 31)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Plain = Annotated[bool, Field(strict=True)] | Annotated[int, Field(strict=True)] | Positive | Text

MOST_RUNS = 1_000_000
OF_TEMPLATE = "set."


class SweepFields(BaseModel):
    """The file, field by field; the names are those of ``accelsim run``'s options."""

    model_config = ConfigDict(extra="forbid")

    schema_: Literal[1] = Field(alias="schema")
    description: Text | None = None
    workload: Many[Text]
    hardware: Many[Text]
    set: dict[Text, Many[Plain]] = {}
    scheduler: Many[Text] | None = None
    objective: Many[Text] | None = None
    seed: Many[Natural] | None = None
    time_limit: Many[Positive] | None = None
    batch: Many[Whole] | None = None
    phase: Many[Literal["prefill", "decode"]] | None = None
    sequence_length: Many[Whole] | None = None
    context_length: Many[Natural] | None = None
    bits: Many[Whole] | None = None
    engine: Many[Literal["compiled", "reference"]] | None = None
    allow_unsupported: Annotated[bool, Field(strict=True)] | None = None


@dataclass(frozen=True)
class Point:
    """One run of a sweep."""

    settings: Settings
    folder: Path
    """Where the description stands; files that it names are looked for there first."""

    def job(self) -> Job:
        """What to run.

        Raises:
            InputError: the objective is not understood.
        """
        fields: dict[str, Any] = {
            name: value for name, value in self.settings.items() if not name.startswith(OF_TEMPLATE)
        }
        for name in ("workload", "hardware"):
            fields[name] = str(self.file(name) or fields[name])
        overrides = tuple(
            f"{name.removeprefix(OF_TEMPLATE)}={_as_override(value)}"
            for name, value in self.settings.items()
            if name.startswith(OF_TEMPLATE)
        )
        return Job(**fields, overrides=overrides)

    def file(self, name: str) -> Path | None:
        """The file that the setting ``name`` means; None where it is a name of the library."""
        path = Path(str(self.settings[name]))
        beside = self.folder / path
        if path.suffix and beside.is_file():
            return beside
        return path if path.suffix and path.is_file() else None

    @property
    def key(self) -> str:
        """Names the run and everything that decides its result: settings, files, and accelsim's own code."""
        digest = hashlib.sha256(f"{code_digest()}\n{json.dumps(self.settings, sort_keys=True)}".encode())
        for name in ("workload", "hardware"):
            if (path := self.file(name)) is not None:
                digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()[:32]


def read_sweep(path: str | Path) -> list[Point]:
    """The runs that a description asks for: all combinations, the last field that varies changing fastest.

    Raises:
        FormatError: mistakes in the file, all of them, each with line and column; or more than a million runs.
    """
    path = Path(path)
    fields = YamlSource(read_text(path, FormatError), str(path), FormatError).validate(SweepFields)
    axes: dict[str, list[Value]] = {}
    for name, value in fields.model_dump(exclude={"schema_", "description"}, exclude_none=True).items():
        for key, values in (
            {f"{OF_TEMPLATE}{each}": value[each] for each in value} if name == "set" else {name: value}
        ).items():
            axes[key] = values if isinstance(values, list) else [values]
            if len({json.dumps(each) for each in axes[key]}) < len(axes[key]):
                raise FormatError(f"{path}: {key}: a value stands twice in its list")
    if (runs := prod(map(len, axes.values()))) > MOST_RUNS:
        raise FormatError(f"{path}: asks for {runs:,} runs; the most is {MOST_RUNS:,}")
    points = [Point(dict(zip(axes, values, strict=True)), path.parent) for values in product(*axes.values())]
    try:
        for objective in axes.get("objective", []):
            Job("", "", objective=str(objective))
    except InputError as error:
        raise FormatError(f"{path}: objective: {error}") from None
    return points


@cache
def code_digest() -> str:
    """Names accelsim's sources and the files that it ships: a result of other code is no result of this one."""
    import accelsim
    from accelsim.files import data_folder

    digest = hashlib.sha256()
    package = Path(accelsim.__file__).parent
    for folder in (package, data_folder("hw_templates"), data_folder("workloads")):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix in (".py", ".yaml", ".json"):
                digest.update(f"{path.relative_to(folder)}\n".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def _as_override(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
