"""Finds what accelsim ships, by name: in a checkout beside the package, in an installed wheel inside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from accelsim.errors import UnknownName
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.template import load_template
from accelsim.hardware.yaml_tree import read_tree
from accelsim.units import did_you_mean

_PACKAGE = Path(__file__).parent


def data_folder(name: str) -> Path:
    """The folder ``name`` (``hw_templates`` or ``workloads``) of the files that come with accelsim.

    Raises :class:`FileNotFoundError` when the installation lacks it.
    """
    for parent in (_PACKAGE / "data", _PACKAGE.parent):
        if (parent / name).is_dir():
            return parent / name
    raise FileNotFoundError(
        f"accelsim's data folder '{name}' is neither in {_PACKAGE / 'data'} nor in {_PACKAGE.parent}"
    )


def files_by_name(folder: Path, suffix: str) -> dict[str, Path]:
    """The files of a folder and all below it with this suffix, by stem, sorted by name."""
    return {path.stem: path for path in sorted(folder.rglob(f"*{suffix}"), key=lambda path: path.stem)}


def find(name: str, kind: str, files: dict[str, Path]) -> Path:
    """The file of this name. Raises :class:`UnknownName` with the nearest names."""
    if name in files:
        return files[name]
    near = did_you_mean(name, files, 3)
    raise UnknownName(f"no {kind} '{name}'{near}; there are {', '.join(files)}; or give the path of a file")


def looks_like_path(name: str | Path) -> bool:
    """Whether this means a file rather than a name of the library."""
    return isinstance(name, Path) or "/" in name or "\\" in name or Path(name).suffix in (".yaml", ".yml")


def list_accelerators() -> dict[str, str]:
    """Names of the hardware templates and their one-line descriptions."""
    files = files_by_name(data_folder("hw_templates") / "accelerators", ".yaml")
    return {
        name: str(read_tree(path.read_text(encoding="utf-8"), str(path)).values["description"])
        for name, path in files.items()
    }


def load_accelerator(name: str | Path, overrides: Sequence[str] = ()) -> Accelerator:
    """An accelerator by the name of its template, or by the path of a template file.

    ``overrides`` are texts of the form ``KEY=VALUE`` (``dram.bandwidth=32 GB/s``), applied before the template is
    checked. Raises :class:`UnknownName`, :class:`FormatError` and :class:`TemplateError` as
    :func:`accelsim.hardware.template.parse_template` does.
    """
    if looks_like_path(name):
        return load_template(name, overrides)
    files = files_by_name(data_folder("hw_templates") / "accelerators", ".yaml")
    return load_template(find(str(name), "hardware template", files), overrides)
