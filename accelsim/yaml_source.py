"""Files that people write by hand: read whole, checked against a pydantic model, every mistake told with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from accelsim.errors import InputError
from accelsim.units import did_you_mean

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
        InputError: of class ``error``; the text is no YAML document, with line and column.
    """

    def __init__(self, text: str, name: str, error: type[InputError]) -> None:
        self.name = name
        self._error = error
        try:
            self._tree: Any = YAML(typ="rt").load(text)
            self.data = _plain(self._tree, {})
        except MarkedYAMLError as problem:
            mark = problem.problem_mark or problem.context_mark
            place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
            raise error(f"{place}: not valid YAML: {problem.problem or problem.context}") from None
        except RecursionError:
            raise error(f"{name}: nested too deeply") from None
        except (YAMLError, ValueError, TypeError, NotImplementedError) as problem:
            raise error(f"{name}: not valid YAML: {str(problem).splitlines()[0]}") from None

    def place(self, location: Location, *, of_key: bool = False) -> str:
        """``name:line:column`` of a value, or of its key; of the nearest thing around it where it does not exist."""
        line = column = 0
        node = self._tree
        for number, part in enumerate(location):
            if isinstance(node, CommentedMap) and part in node:
                last = number == len(location) - 1
                line, column = node.lc.key(part) if of_key and last else node.lc.value(part)
            elif isinstance(node, CommentedSeq) and isinstance(part, int) and part < len(node):
                line, column = node.lc.item(part)
            else:  # the tag of a union, or a field that is missing
                continue
            node = node[part]
        return f"{self.name}:{line + 1}:{column + 1}"

    def validate(self, model: type[Model], context: dict[str, Any] | None = None) -> Model:
        """The document as an instance of ``model``.

        Raises:
            InputError: of the class given; one line a mistake: place, field, value found, what was expected.
        """
        try:
            return model.model_validate(self.data, context=context)
        except ValidationError as problem:
            lines = [self._line(mistake, model) for mistake in problem.errors(include_url=False)]
            raise self._error("\n".join(lines)) from None

    def _line(self, mistake: Any, model: type[BaseModel]) -> str:
        location: Location = mistake["loc"]
        field = ".".join(str(part) for part in location) or "the document"
        if mistake["type"] == "extra_forbidden":
            known = _field_names(model, location[:-1])
            hint = did_you_mean(str(location[-1]), known) or f" Known: {', '.join(known)}."
            return f"{self.place(location, of_key=True)}: {field}: unknown key.{hint}"
        message = str(mistake["msg"]).removeprefix("Value error, ")
        if mistake["type"] == "missing":
            return f"{self.place(location)}: {field}: missing"
        return f"{self.place(location)}: {field}: found {_shown(mistake['input'])}; {message[:1].lower()}{message[1:]}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _plain(node: Any, seen: dict[int, Any]) -> Any:
    """The tree without positions and comments; what is aliased stays one object."""
    if id(node) in seen:
        return seen[id(node)]
    if isinstance(node, CommentedMap):
        mapping: dict[Any, Any] = {}
        seen[id(node)] = mapping
        mapping.update((_plain(key, seen), _plain(value, seen)) for key, value in node.items())
        return mapping
    if isinstance(node, CommentedSeq):
        sequence: list[Any] = []
        seen[id(node)] = sequence
        sequence.extend(_plain(value, seen) for value in node)
        return sequence
    if isinstance(node, bool):
        return node
    for scalar in (int, float, str):
        if isinstance(node, scalar):
            return scalar(node)
    return node


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
