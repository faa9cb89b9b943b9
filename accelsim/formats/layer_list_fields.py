"""The fields of a layer-list file, and what each may hold."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, NoReturn

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from accelsim.errors import FormatError
from accelsim.units import did_you_mean


def _check_name(name: str) -> str:
    if not name.isprintable():
        raise ValueError("a name must be made of printable characters")
    return name


Name = Annotated[str, Field(strict=True, min_length=1, max_length=200), AfterValidator(_check_name)]
Size = Annotated[int, Field(strict=True, ge=1, le=1 << 31)]
Count = Annotated[int, Field(strict=True, ge=0, le=1 << 62)]
Identifier = Annotated[int, Field(strict=True, ge=0, le=1 << 31)]
Shape = tuple[Size, Size, Size]
"""Channels, rows, columns."""

CONVOLUTIONS = ("conv", "group_conv", "fully_connected")


class ExternalInput(BaseModel):
    """A tensor that comes from outside."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    shape_chw: Shape


class Layer(BaseModel):
    """One layer as the file tells it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Identifier
    name: Name
    type: Literal["conv", "group_conv", "fully_connected", "pool", "eltwise", "pointwise", "transpose", "upsample"]
    C: Size | None = None
    K: Size
    R: Size
    S: Size
    H: Size
    W: Size
    N: Size | None = None
    """Operands of an element-wise layer; operations an element of a point-wise one."""
    stride_h: Size
    stride_w: Size
    groups: Size | None = None
    output_dims_from_input: tuple[Literal["C", "H", "W"], Literal["C", "H", "W"], Literal["C", "H", "W"]] | None = None
    input_chw: Shape
    output_chw: Shape
    weight_bytes: Count
    ops: Count
    input_layers: tuple[Identifier, ...]
    weight_layers: tuple[Identifier, ...]
    external_input_ids: tuple[Identifier, ...]
    external_channels: Count


class LayerList(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    description: str = ""
    """One line for the list of workloads."""
    source: str = ""
    """Where the facts come from."""
    external_inputs: tuple[ExternalInput, ...]
    layers: tuple[Layer, ...]


def parse(text: str, place: str) -> LayerList:
    """The fields of a layer list; ``place`` is what messages call it.

    Raises:
        FormatError: not JSON, cut short, or fields missing, unknown or of the wrong type; all such mistakes at once.
    """
    try:
        content = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_repeats)
    except json.JSONDecodeError as error:
        raise FormatError(
            f"{place}:{error.lineno}:{error.colno}: not JSON, or cut short: {error.msg} "
            f"({len(text)} characters in the file)"
        ) from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; nested beyond any use
        raise FormatError(f"{place}: not a layer list: {error}") from None
    try:
        return LayerList.model_validate(content)
    except ValidationError as error:
        mistakes = error.errors(include_url=False)
        lines = [_mistake(mistake["loc"], str(mistake["type"]), mistake, content) for mistake in mistakes[:20]]
        more = f"\n… and {len(mistakes) - 20} more" if len(mistakes) > 20 else ""
        raise FormatError("\n".join(f"{place}: {line}" for line in lines) + more) from None


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number that a layer could have")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key '{next(key for key in keys if keys.count(key) > 1)}' stands twice in one object")
    return found


def _mistake(location: tuple[int | str, ...], kind: str, mistake: Any, content: Any) -> str:
    """One line: which layer, which field, what was found, what was expected."""
    where = ".".join(str(part) for part in location) or "the file"
    if len(location) >= 2 and location[0] == "layers" and isinstance(content["layers"][location[1]], dict):
        name = content["layers"][location[1]].get("name")
        where = f"layer {name!r}, {'.'.join(map(str, location[2:]))}" if isinstance(name, str) else where
    if kind == "missing":
        return f"{where}: missing"
    if kind == "extra_forbidden":
        model = LayerList if len(location) == 1 else Layer if location[0] == "layers" else ExternalInput
        return f"{where}: unknown key{did_you_mean(str(location[-1]), model.model_fields)}"
    found = repr(mistake["input"])
    found = found if len(found) <= 60 else found[:57] + "..."
    message = str(mistake["msg"]).removeprefix("Value error, ")
    return f"{where}: found {found}; {message[:1].lower()}{message[1:]}"
