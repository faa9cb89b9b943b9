"""Files that people write by hand: read whole, checked against a pydantic model, every mistake told with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from accelsim.errors import InputError
from accelsim.units import did_you_mean
from accelsim.yaml_tree import Place, read_tree

Location = tuple[int | str, ...]
"""The way to a value: keys and list indices from the top, as pydantic gives it."""

Model = TypeVar("Model", bound=BaseModel)

MAXIMUM_FILE_BYTES = 64 << 20
"""More text than this is no description of a network or a machine."""


def read_text(path: Path, error: type[InputError], maximum_bytes: int = MAXIMUM_FILE_BYTES) -> str:
    """The text of a UTF-8 file of at most ``maximum_bytes``.

    Raises:
        InputError: of class ``error``; no such file, a folder, not readable, too long, or not UTF-8.
    """
    try:
        if path.exists() and not path.is_file():  # a device or a pipe might never end
            raise error(f"{path}: is a {'folder' if path.is_dir() else 'device'}; expected a file")
        if path.stat().st_size > maximum_bytes:
            raise error(f"{path}: {path.stat().st_size} bytes; the most that is read is {maximum_bytes}")
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise error(f"{path}: no such file") from None
    except UnicodeDecodeError as problem:
        raise error(f"{path}: byte {problem.start} is not UTF-8 text; is this the right file?") from None
    except (OSError, ValueError) as problem:  # ValueError: a path with a null character
        raise error(f"{path}: cannot be read: {problem}") from None


class YamlSource:
    """A YAML document as plain dictionaries, lists and scalars, together with where each of them stands.

    Args:
        text: the document.
        name: what messages call it, as a rule its path.
        error: class of the errors raised.

    Raises:
        InputError: of class ``error``; the text is no YAML mapping, with line and column.
    """

    def __init__(self, text: str, name: str, error: type[InputError]) -> None:
        self.name = name
        self._error = error
        self._tree = read_tree(text, name, error)
        self.data = self._tree.values

    def place(self, location: Location, *, of_key: bool = False) -> str:
        """``name:line:column`` of a value, or of its key; of the nearest thing around it where it does not exist."""
        line, column = self._position(location, of_key=of_key)
        return f"{self.name}:{line}:{column}"

    def _position(self, location: Location, *, of_key: bool = False) -> Place:
        path: tuple[str, ...] = ()
        for part in location:
            if (*path, str(part)) in self._tree.value_places:  # else the tag of a union, or a field that is missing
                path = (*path, str(part))
        return self._tree.key_places[path] if of_key and path else self._tree.value_places[path]

    def validate(self, model: type[Model], context: dict[str, Any] | None = None) -> Model:
        """The document as an instance of ``model``.

        Raises:
            InputError: of the class given; one line a mistake: place, field, value found, what was expected.
        """
        found = [
            (*second, f"{'.'.join(path)}: stands a second time; first in line {first[0]}")
            for path, second, first in self._tree.duplicates
        ]
        try:
            instance = model.model_validate(self.data, context=context)
        except ValidationError as problem:
            found += [self._mistake(mistake, model) for mistake in problem.errors(include_url=False)]
        if found:
            lines = [f"{self.name}:{line}:{column}: {words}" for line, column, words in sorted(found)]
            raise self._error("\n".join(lines))
        return instance

    def _mistake(self, mistake: Any, model: type[BaseModel]) -> tuple[int, int, str]:
        """Line, column, and what is wrong there."""
        location: Location = mistake["loc"]
        field = ".".join(str(part) for part in location) or "the document"
        if mistake["type"] == "extra_forbidden":
            known = _field_names(model, location[:-1])
            hint = did_you_mean(str(location[-1]), known) or f"; known are {', '.join(known)}"
            return (*self._position(location, of_key=True), f"{field}: unknown key{hint}")
        if mistake["type"] == "missing":
            return (*self._position(location), f"{field}: missing")
        message = str(mistake["msg"]).removeprefix("Value error, ")
        return (
            *self._position(location),
            f"{field}: found {_shown(mistake['input'])}; {message[:1].lower()}{message[1:]}",
        )


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _field_names(model: type[BaseModel], location: Location) -> list[str]:
    """The fields that the model allows at a location."""
    candidates: list[Any] = _alternatives(model)
    for part in location:
        candidates = [found for candidate in candidates for found in _step(candidate, part)]
    models = [candidate for candidate in candidates if _is_model(candidate)]
    return list(dict.fromkeys(name for candidate in models for name in candidate.model_fields))


def _step(annotation: Any, part: int | str) -> list[Any]:
    """The annotations that stand one step below an annotation."""
    if not _is_model(annotation):
        return _alternatives(get_args(annotation)[-1]) if get_args(annotation) else []
    if part in annotation.model_fields:
        return _alternatives(annotation.model_fields[part].annotation)
    tags = [tag for field in annotation.model_fields.values() for tag in _literals(field.annotation)]
    return [annotation] if part in tags else []


def _alternatives(annotation: Any) -> list[Any]:
    """The members of a union (or of an annotated type), else the annotation alone."""
    if get_origin(annotation) in (list, dict, tuple, Literal) or not get_args(annotation):
        return [annotation]
    members = get_args(annotation)[:1] if hasattr(annotation, "__metadata__") else get_args(annotation)
    return [found for member in members for found in _alternatives(member)]


def _literals(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
