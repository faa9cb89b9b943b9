"""YAML 1.2 text to plain mappings, with the place of every key and value; nothing in it is ever run or expanded."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent, DocumentStartEvent, NodeEvent
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from accelsim.errors import InputError

Path = tuple[str, ...]
Place = tuple[int, int]
"""Line and column, both counted from 1."""

DEEPEST = 12


@dataclass
class Tree:
    """The mapping that a text describes, and where its parts stand."""

    values: dict[str, Any]
    key_places: dict[Path, Place] = field(default_factory=dict)
    value_places: dict[Path, Place] = field(default_factory=dict)
    duplicates: list[tuple[Path, Place, Place]] = field(default_factory=list)
    """Keys that stand twice: path, second place, first place."""


def read_tree(text: str, file_name: str, mistake: type[InputError]) -> Tree:
    """Reads a text whose top level is a mapping.

    Raises ``mistake`` with file, line and column for broken syntax, for aliases, tags and directives (which our files
    do not use, and which can make a small text huge), for nesting deeper than :data:`DEEPEST`, and for an empty text
    or one that is no mapping.
    """
    try:
        _refuse_what_is_not_plain(text, file_name, mistake)
        root = YAML(typ="safe", pure=True).compose(io.StringIO(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        words = [part.strip() for part in (error.context, error.problem) if part]
        raise mistake(_at(file_name, place, f"this is not YAML: {', '.join(words)}")) from None
    except YAMLError as error:
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        reason = getattr(error, "reason", None) or "unreadable"
        raise mistake(_at(file_name, (line, 1), f"this is not YAML: {reason}")) from None
    if root is None:
        raise mistake(f"{file_name}: empty; expected a mapping such as 'name: …'")
    if not isinstance(root, MappingNode):
        found = "a list" if isinstance(root, SequenceNode) else f"the value {str(root.value)[:40]!r}"
        raise mistake(_at(file_name, _place(root), f"found {found}; expected a mapping such as 'name: …'"))
    tree = Tree({})
    tree.values = _plain(root, (), tree)
    return tree


def read_scalar(text: str) -> Any:
    """One value as YAML reads it: ``64`` -> 64, ``true`` -> True, ``16 GB/s`` -> text. Anything else stays text."""
    try:
        node = YAML(typ="safe", pure=True).compose(io.StringIO(text))
    except YAMLError:
        return text
    return _scalar(node) if isinstance(node, ScalarNode) else text


def with_values(text: str, values: dict[Path, Any]) -> str:
    """The same text, comments kept, with some values set; missing sections are added at the end of theirs."""
    yaml = YAML(typ="rt")
    yaml.width = 4096
    yaml.preserve_quotes = True
    root = yaml.load(io.StringIO(text))
    for path, value in values.items():
        section = root
        for key in path[:-1]:
            section = section.setdefault(key, {})
        section[path[-1]] = value
    out = io.StringIO()
    yaml.dump(root, out)
    return out.getvalue()


def _refuse_what_is_not_plain(text: str, file_name: str, mistake: type[InputError]) -> None:
    depth = documents = 0
    for event in YAML(typ="safe", pure=True).parse(io.StringIO(text)):
        place = (event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise mistake(_at(file_name, place, "a second document begins; expected one document a file"))
            if event.version or event.tags:
                raise mistake(_at(file_name, place, "directives (%) are not used here; remove them"))
        if isinstance(event, AliasEvent):
            raise mistake(_at(file_name, place, "aliases (*) are not used here; write the value out"))
        if isinstance(event, NodeEvent) and event.anchor:
            raise mistake(_at(file_name, place, "anchors (&) are not used here; remove it"))
        if getattr(event, "tag", None) not in (None, "!"):
            raise mistake(_at(file_name, place, "tags (!) are not used here; remove it"))
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > DEEPEST:
            raise mistake(_at(file_name, place, f"nested more than {DEEPEST} deep"))


def _plain(node: Node, path: Path, tree: Tree) -> Any:
    tree.value_places[path] = _place(node)
    if isinstance(node, MappingNode):
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value) if isinstance(key_node, ScalarNode) else "?"
            here = (*path, key)
            if key in values:
                tree.duplicates.append((here, _place(key_node), tree.key_places[here]))
                continue
            tree.key_places[here] = _place(key_node)
            values[key] = _plain(value_node, here, tree)
        return values
    if isinstance(node, SequenceNode):
        return [_plain(item, (*path, str(index)), tree) for index, item in enumerate(node.value)]
    return _scalar(node)


def _scalar(node: Node) -> Any:
    kind, text = str(node.tag).rsplit(":", 1)[-1], str(node.value)
    try:
        if kind == "int":
            return int(text, 10) if text.lstrip("+-").isdecimal() else int(text, 0)
        if kind == "float":
            return float(text)
    except ValueError:
        return text
    if kind == "bool":
        return text.lower() == "true"
    return None if kind == "null" else text


def _place(node: Node) -> Place:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _at(file_name: str, place: Place, message: str) -> str:
    return f"{file_name}:{place[0]}:{place[1]}: {message}"
