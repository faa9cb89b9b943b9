"""Workloads in YAML: a recipe with its parameters, or operators one by one (format: ``workloads/README.md``)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from accelsim.errors import FormatError, UnknownName, WorkloadError
from accelsim.formats.workload_yaml_operators import Bits, Name, Network, OperatorSpec, Size
from accelsim.workload.graph import TileRule, Workload
from accelsim.workload.models import build
from accelsim.workload.tensor import Tensor
from accelsim.yaml_source import YamlSource, read_text


class RecipeSpec(BaseModel):
    """``kind: recipe``: a function of ``accelsim/workload/models`` and values for some of its parameters."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["recipe"]
    description: str
    source: str = ""
    model: str
    parameters: dict[str, Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True)] | str] = {}
    batch: Size = 1


class InputSpec(BaseModel):
    """A tensor that comes from outside."""

    model_config = ConfigDict(extra="forbid")

    shape: tuple[Size, ...]
    bits: Bits | None = None


class OperatorsSpec(BaseModel):
    """``kind: operators``: a network operator by operator; shapes follow from those of the inputs."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["operators"]
    description: str = ""
    source: str = ""
    name: Name
    batch: Size = 1
    bits: Bits = 8
    tile_rule: TileRule = TileRule.EXACT
    inputs: Annotated[dict[Name, InputSpec], Field(min_length=1)]
    operators: Annotated[list[OperatorSpec], Field(min_length=1)]
    outputs: list[Name] = []


_MODELS: dict[str, type[RecipeSpec] | type[OperatorsSpec]] = {"recipe": RecipeSpec, "operators": OperatorsSpec}


def read_workload_yaml(path: str | Path, **parameters: object) -> Workload:
    """Reads a workload file; ``parameters`` replace those that a recipe's file gives.

    Raises:
        FormatError: the file cannot be read, is not YAML, or has fields that are missing, unknown or of the wrong type;
            all such mistakes at once, each with file, line and column.
        WorkloadError: what it describes is no valid workload; all operators at fault, each with its place.
        UnknownName: no such recipe, or it has no such parameter.
    """
    return parse_workload_yaml(read_text(Path(path), FormatError), str(path), **parameters)


def parse_workload_yaml(text: str, place: str, **parameters: object) -> Workload:
    """As :func:`read_workload_yaml`, from the text itself; ``place`` is what messages call it."""
    source = YamlSource(text, place, FormatError)
    kind = source.data.get("kind")
    if not isinstance(kind, str) or kind not in _MODELS:
        raise FormatError(f"{source.place(('kind',))}: kind: found {kind!r}; expected one of {', '.join(_MODELS)}")
    spec = source.validate(_MODELS[kind])
    if isinstance(spec, RecipeSpec):
        return _from_recipe(spec, source, Path(place).stem, parameters)
    if parameters:
        raise UnknownName(f"{place}: lists operators and has no parameter '{next(iter(parameters))}'")
    return _from_operators(spec, source)


def _from_recipe(spec: RecipeSpec, source: YamlSource, name: str, parameters: dict[str, object]) -> Workload:
    try:
        workload = build(spec.model, {**spec.parameters, **parameters})
    except (WorkloadError, UnknownName) as error:
        place = source.name if parameters else source.place(("model",))
        raise type(error)(f"{place}: {error}") from None
    return replace(workload, name=name, batch=spec.batch)


def _from_operators(spec: OperatorsSpec, source: YamlSource) -> Workload:
    """Builds operator after operator; what reads an operator that is a mistake is not reported as one."""
    network = Network(spec.bits)
    mistakes: list[str] = []
    for name, one in spec.inputs.items():
        try:
            network.inputs.append(Tensor(name, one.shape, one.bits or spec.bits))
            network.shapes[name] = one.shape
        except WorkloadError as error:
            mistakes.append(f"{source.place(('inputs', name))}: {error}")
            network.broken.add(name)
    for index, operator in enumerate(spec.operators):
        try:
            network.add(operator)
        except WorkloadError as error:
            network.broken.add(operator.name)
            if str(error):
                mistakes.append(f"{source.place(('operators', index))}: operator '{operator.name}': {error}")
    if mistakes:
        raise WorkloadError("\n".join(mistakes))
    try:
        return Workload(
            spec.name, tuple(network.operators), tuple(network.inputs), spec.batch, spec.tile_rule, tuple(spec.outputs)
        )
    except WorkloadError as error:
        raise WorkloadError(f"{source.name}: {error}") from None
