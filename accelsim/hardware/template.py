"""Hardware templates: YAML text to an :class:`Accelerator`, or all its mistakes at once, each with its place.

The format stands on one page in ``hw_templates/README.md``. Which fields ``pe_array`` and ``buffers`` have depends on
``pe_array.dataflow``, the rest is the same for all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic_core import ErrorDetails

from accelsim.errors import FormatError, InputError, TemplateError, UnitError, UnknownName
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.arithmetic import Arithmetic
from accelsim.hardware.buffer import make_buffers
from accelsim.hardware.dataflow import DATAFLOWS
from accelsim.hardware.energy_table import Bands, EnergyFields, fill_energies
from accelsim.hardware.fields import FieldMistake, Fields, Frequency, Name, Power
from accelsim.hardware.link import DramFields, Link, NetworkFields
from accelsim.hardware.vector_unit import VectorUnitFields
from accelsim.units import did_you_mean, parse_frequency
from accelsim.yaml_source import read_text
from accelsim.yaml_tree import Tree, read_scalar, read_tree, with_values

LARGEST_FILE_BYTES = 1 << 20


class Template(Fields):
    """A whole template; ``pe_array`` and ``buffers`` get their models from the dataflow."""

    name: Name
    description: str = Field(strict=True, max_length=200, examples=["one line for the list"])
    clock: Frequency
    pe_array: Any
    vector_unit: VectorUnitFields
    buffers: Any
    dram: DramFields
    static_power: Power = Fraction(0)
    link: NetworkFields | None = None
    energy: EnergyFields | None = None


def load_template(path: str | Path, overrides: Sequence[str] = ()) -> Accelerator:
    """Reads a template file of at most :data:`LARGEST_FILE_BYTES`; ``overrides`` and errors as :func:`parse_template`.

    Raises also :class:`FormatError` for a file that is missing or no text of that size.
    """
    return parse_template(read_text(Path(path), FormatError, LARGEST_FILE_BYTES), str(path), overrides)


def parse_template(text: str, file_name: str = "<template>", overrides: Sequence[str] = ()) -> Accelerator:
    """The accelerator that a template's text describes, with ``overrides`` of the form ``KEY=VALUE`` applied.

    KEY is a field's dotted name (``dram.bandwidth``), VALUE is written as in the file (``51.2 GB/s``).
    Raises :class:`TemplateError` with all mistakes, each as ``file:line:column: field: found, expected``, and
    :class:`UnknownName` for an override of a field that does not exist.
    """
    tree = read_tree(text, file_name, TemplateError)
    given = _parse_overrides(overrides)
    for path, (value, _) in given.items():
        section: Any = tree.values
        for key in path[:-1]:
            section = section.setdefault(key, {}) if isinstance(section, dict) else None
        if isinstance(section, dict):
            section[path[-1]] = value
    model, mistakes = _model_for(tree.values)
    _check_override_names(given, model)
    mistakes += [(path, f"stands a second time; first in line {first[0]}") for path, _, first in tree.duplicates]
    places = _Places(file_name, tree, given)
    try:
        bands = fill_energies(tree.values, given)
        template = model.model_validate(tree.values, context={"clock_hz": _clock(tree.values)})
        if not mistakes:
            source = with_values(text, {path: value for path, (value, _) in given.items()}) if given else text
            return _accelerator(template, source, bands)
    except ValidationError as error:
        mistakes += [_sentence(one, model) for one in error.errors(include_url=False)]
    except FieldMistake as error:
        mistakes.append((error.path, str(error)))
    raise TemplateError(places.report(mistakes))


def _accelerator(template: Template, source: str, bands: Bands) -> Accelerator:
    dataflow = DATAFLOWS[template.pe_array.dataflow]
    buffers = make_buffers({name: fields for name, fields in template.buffers if fields is not None})
    dram = template.dram.link()
    passed = buffers["global"].ports
    if passed is not None and passed.dma_shared and dram.fidelity == "banks":
        raise FieldMistake(
            ("buffers", "global", "ports", "dma"),
            "found 'shared'; transfers then pass the port at the link's bandwidth, which a memory with banks does not "
            "have: set it to own, or dram.fidelity to link",
        )
    numbers = _numbers(template, dram) | ({"energy_bands": bands} if bands else {})
    return Accelerator(
        name=template.name,
        description=template.description,
        clock_hz=template.clock,
        dataflow=dataflow.from_template(template.pe_array, buffers),
        arithmetic=Arithmetic.of(template.pe_array.precision, template.pe_array.sparsity),
        vector_unit=template.vector_unit.unit(),
        buffers=buffers,
        dram=dram,
        static_pj_per_cycle=float(template.static_power / template.clock * 10**12),
        digest=hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest(),
        source=source,
        link=template.link.network() if template.link else None,
        energy_bands=bands,
    )


LATER_FIELDS = (
    ("link",),
    ("energy",),
    ("pe_array", "precision"),
    ("pe_array", "sparsity"),
    *(("dram", name) for name in ("weights", "ranks", "directions", "outstanding")),
    ("buffers", "accumulator"),
    ("buffers", "global", "ports"),
)
"""Fields that a template need not have: where they say nothing new, the digest does not know them."""


def _numbers(template: Template, dram: Link) -> dict[str, Any]:
    """All that the digest is made of; a memory counts where it is looked at, with all that its own template says."""
    numbers = template.model_dump(mode="json", exclude={"description"})
    told = template.model_dump(mode="json", exclude_defaults=True)
    for *sections, name in LATER_FIELDS:
        all_of, told_of = numbers, told
        for section in sections:
            all_of, told_of = all_of[section], told_of[section]
        if name in all_of and name not in told_of:
            del all_of[name]
    del numbers["dram"]["memory"]
    if dram.memory is not None:
        numbers["dram"]["memory"] = [dram.memory.dram.template.model_dump(mode="json"), dram.memory.alignment_bytes]
    return numbers


def _clock(values: dict[str, Any]) -> int:
    """The clock that bandwidths are converted with; where it is itself a mistake, any will do to find the others."""
    try:
        return parse_frequency(values.get("clock"))
    except UnitError:
        return 10**9


_Mistakes = list[tuple[tuple[str, ...], str]]


def _model_for(values: dict[str, Any]) -> tuple[type[Template], _Mistakes]:
    """The model of a template with this dataflow; where none is named, the model of the rest and the mistake."""
    pe_array = values.get("pe_array")
    if not isinstance(pe_array, dict):
        return Template, [] if pe_array is None else [(("pe_array",), f"found {pe_array!r}; expected a section")]
    name = pe_array.get("dataflow")
    if name is None:
        return Template, [(("pe_array", "dataflow"), f"missing; expected one of {', '.join(DATAFLOWS)}")]
    if name not in DATAFLOWS:
        near = did_you_mean(str(name), DATAFLOWS)
        return Template, [(("pe_array", "dataflow"), f"found {name!r}{near}; expected one of {', '.join(DATAFLOWS)}")]
    dataflow = DATAFLOWS[name]
    fields: dict[str, Any] = {key: (kind, ...) for key, kind in dataflow.buffer_fields.items()}
    fields |= {key: (kind | None, None) for key, kind in dataflow.optional_buffer_fields.items()}
    buffers = create_model("Buffers", __base__=Fields, **fields)
    return create_model(
        "Template", __base__=Template, pe_array=(dataflow.pe_array_fields, ...), buffers=(buffers, ...)
    ), []


def _sentence(error: ErrorDetails, model: type[BaseModel]) -> tuple[tuple[str, ...], str]:
    """A pydantic error as the path of the field and a sentence: what was found, what was expected."""
    path = tuple(str(key) for key in error["loc"])
    kind, found = error["type"], repr(error["input"])[:60]
    section = _model_at(model, path[:-1])
    names = list(section.model_fields) if section else []
    if kind == "extra_forbidden":
        return path, f"unknown field{did_you_mean(path[-1], names)}; fields here: {', '.join(names)}"
    inner = _model_at(model, path)
    if inner is not None:
        expected = f"a section with the fields {', '.join(inner.model_fields)}"
    elif section is not None and (examples := section.model_fields[path[-1]].examples):
        expected = f"for example {examples[0]}"
    else:
        expected = error["msg"]
    if kind == "missing":
        return path, f"missing; expected {expected}"
    if kind == "value_error":
        return path, str(error["ctx"]["error"])
    if kind == "literal_error":
        choices = error["ctx"]["expected"]
        near = did_you_mean(
            str(error["input"]), [choice.strip("'") for choice in choices.replace(" or ", ", ").split(", ")]
        )
        return path, f"found {found}{near}; expected {choices}"
    if inner is None:
        expected = f"{error['msg'][0].lower()}{error['msg'][1:]}, {expected}" if expected != error["msg"] else expected
    return path, f"found {found}; expected {expected}".replace("expected input should be", "expected")


def _model_at(model: type[BaseModel], path: Sequence[str]) -> type[BaseModel] | None:
    """The model of the section at a path, or None where there is no section."""
    for key in path:
        if key not in model.model_fields:
            return None
        annotation = model.model_fields[key].annotation
        choices = [one for one in (annotation, *get_args(annotation)) if isinstance(one, type)]
        models = [one for one in choices if issubclass(one, BaseModel)]
        if not models:
            return None
        model = models[0]
    return model


def _dotted_names(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name in model.model_fields:
        inner = _model_at(model, (name,))
        yield from _dotted_names(inner, f"{prefix}{name}.") if inner else [f"{prefix}{name}"]


_Overrides = dict[tuple[str, ...], tuple[Any, str]]


def _parse_overrides(overrides: Sequence[str]) -> _Overrides:
    """Path -> value, and the text as given; the last one of a field counts."""
    given: _Overrides = {}
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise InputError(f"--set {text!r}: expected KEY=VALUE, for example 'dram.bandwidth=32 GB/s'")
        given[tuple(key.strip().split("."))] = (read_scalar(value.strip()), text)
    return given


def _check_override_names(given: _Overrides, model: type[Template]) -> None:
    names = list(_dotted_names(model))
    for path, (_, text) in given.items():
        key = ".".join(path)
        if key in names or (model is Template and path[0] in ("pe_array", "buffers")):
            continue
        if inside := [name for name in names if name.startswith(f"{key}.")]:
            raise UnknownName(f"--set {text!r}: '{key}' is a section; set one of its fields: {', '.join(inside)}")
        near = did_you_mean(key, names, 3) or f"; fields are {', '.join(names)}"
        raise UnknownName(f"--set {text!r}: no field '{key}'{near}")


class _Places:
    """Where the fields of one template stand: in its file, or in an override."""

    def __init__(self, file_name: str, tree: Tree, given: _Overrides) -> None:
        self.file_name = file_name
        self.tree = tree
        self.given = given

    def report(self, mistakes: _Mistakes) -> str:
        """All mistakes, in the order in which they stand in the file."""
        located = sorted({(*self._place(path, message), f"{'.'.join(path)}: {message}") for path, message in mistakes})
        lines = [f"{place}: {sentence}" for _, place, sentence in located]
        if len(lines) == 1:
            return lines[0]
        return f"{len(lines)} mistakes in the template:\n  " + "\n  ".join(lines)

    def _place(self, path: tuple[str, ...], message: str) -> tuple[tuple[int, int], str]:
        if path in self.given:
            return (0, 0), f"--set {self.given[path][1]!r}"
        tree = self.tree
        for duplicate, second, _ in tree.duplicates:
            if duplicate == path and message.startswith("stands a second time"):
                return second, f"{self.file_name}:{second[0]}:{second[1]}"
        place = tree.key_places.get(path) if "unknown field" in message else tree.value_places.get(path)
        while place is None:  # a missing field: the section that should hold it
            path = path[:-1]
            place = tree.key_places.get(path) or (tree.value_places.get(path) if not path else None)
        return place, f"{self.file_name}:{place[0]}:{place[1]}"
