"""Finds what accelsim ships, by name: in a checkout beside the package, in an installed wheel inside it."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from accelsim.errors import FormatError, UnknownName
from accelsim.files import data_folder, files_by_name
from accelsim.formats import WORKLOAD_READERS
from accelsim.hardware.accelerator import Accelerator
from accelsim.hardware.memory.dram import DramMemory
from accelsim.hardware.memory.template import memory_template, memory_template_text
from accelsim.hardware.template import load_template
from accelsim.sparsity import parse_sparsity
from accelsim.units import did_you_mean
from accelsim.workload.graph import Workload
from accelsim.workload.sparse import with_sparsity
from accelsim.yaml_tree import read_tree


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
    return _descriptions(data_folder("hw_templates") / "accelerators")


def list_memories() -> dict[str, str]:
    """Names of the memory technologies and their one-line descriptions."""
    return _descriptions(data_folder("hw_templates") / "memory")


def list_energy_tables() -> dict[str, str]:
    """Names of the energy tables and their one-line descriptions."""
    return _descriptions(data_folder("hw_templates") / "energy")


def _descriptions(folder: Path) -> dict[str, str]:
    return {
        name: str(read_tree(path.read_text(encoding="utf-8"), str(path), FormatError).values["description"])
        for name, path in files_by_name(folder, ".yaml").items()
    }


def load_accelerator(name: str | Path, overrides: Sequence[str] = ()) -> Accelerator:
    """An accelerator by the name of its template, or by the path of a template file or a SCALE-Sim ``.cfg``.

    ``overrides`` are texts of the form ``KEY=VALUE`` (``dram.bandwidth=32 GB/s``), applied before the template is
    checked. Raises :class:`UnknownName`, :class:`FormatError` and :class:`TemplateError` as
    :func:`accelsim.hardware.template.parse_template` does.
    """
    files = files_by_name(data_folder("hw_templates") / "accelerators", ".yaml")
    if Path(name).suffix == ".cfg":
        from accelsim.formats.scalesim_config import read_scalesim_config

        return read_scalesim_config(name, files["scalesim_32x32"].read_text(encoding="utf-8"), overrides)
    if looks_like_path(name):
        return load_template(name, overrides)
    return load_template(find(str(name), "hardware template", files), overrides)


def load_memory(name: str | Path, overrides: Sequence[str] = ()) -> DramMemory:
    """A memory by the name of its template, or by the path of a template file.

    ``overrides`` are texts of the form ``KEY=VALUE`` (``channels=2``), applied before the template is checked.

    Raises:
        UnknownName: no such memory, field or address map.
        TemplateError: mistakes in the template, impossible timings among them.
        InputError: an override that is no ``KEY=VALUE``.
    """
    shown = f"{name} with {', '.join(f'--set {one}' for one in overrides)}" if overrides else str(name)
    return DramMemory(memory_template(memory_template_text(name, overrides), shown))


def list_workloads() -> dict[str, str]:
    """Names of the workloads that come with accelsim and their one-line descriptions."""
    return {name: _description(path) for name, path in _workload_files().items()}


def load_workload(
    name: str | Path,
    *,
    batch: int | None = None,
    allow_unsupported: bool = False,
    weight_sparsity: str | None = None,
    input_sparsity: str | None = None,
    **parameters: object,
) -> Workload:
    """A workload by its name in the library, or by the path of a file in any format of ``accelsim.formats``.

    Args:
        name: ``"soma.resnet50"``, or a path; how the file's name ends says its format.
        batch: samples that run at once; by default what the file says, or 1.
        allow_unsupported: operators of unknown cost are counted as moved data instead of refused.
        weight_sparsity: zeros in all weights of convolutions and matrix products, as
            :func:`accelsim.sparsity.parse_sparsity` reads it (``"2:4/index"``).
        input_sparsity: zeros in their inputs (``"0.5"``; ``"0.5/bitmap"`` stores them so, too).
        parameters: those of the recipe or format, by name (``sequence_length=1024``).

    Raises:
        UnknownName: no such workload, or it has no such parameter.
        FormatError: no format has this suffix, or the file is not what its suffix says.
        WorkloadError: what the file describes is no valid workload, or a value is refused.
    """
    is_path = isinstance(name, Path) or "/" in name or "\\" in name or _format_key(Path(name)) is not None
    path = Path(name) if is_path else find(str(name), "workload", _workload_files())
    reader = _workload_reader(path)
    known = inspect.signature(reader).parameters
    if "allow_unsupported" in known:
        parameters["allow_unsupported"] = allow_unsupported
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    unknown = [] if takes_any else [parameter for parameter in parameters if parameter not in known]
    if unknown:
        raise UnknownName(f"{name}: workloads of this format have no parameter '{unknown[0]}'")
    workload = reader(path, **parameters)
    if not is_path:
        workload = replace(workload, name=str(name))
    if weight_sparsity is not None or input_sparsity is not None:
        weights, inputs = (None if text is None else parse_sparsity(text) for text in (weight_sparsity, input_sparsity))
        workload = with_sparsity(workload, weights, inputs)
    return workload if batch is None else workload.with_batch(batch)


def shipped_onnx(name: str) -> Path:
    """The file of a network that the onnx package carries, by name (``"resnet50"``); onnx is not imported.

    Raises :class:`UnknownName` when there is no such network, or no onnx package.
    """
    spec = find_spec("onnx")
    folder = Path(spec.origin or "").parent if spec else Path()
    files = {
        path.stem.removeprefix("light_"): path for path in sorted(folder.glob("backend/test/data/light/light_*.onnx"))
    }
    return find(name, "network of the onnx package", files)


def trace_path(name: str | Path) -> Path:
    """The file of a trace: that of this path or, where there is none, the one that ships under this name."""
    path = Path(name)
    shipped = files_by_name(data_folder("workloads") / "traces", ".et").get(str(name))
    return path if shipped is None or path.exists() else shipped


def _workload_files() -> dict[str, Path]:
    folder = data_folder("workloads")
    return dict(sorted(item for suffix in WORKLOAD_READERS for item in files_by_name(folder, suffix).items()))


def _format_key(path: Path) -> str | None:
    """The entry of WORKLOAD_READERS that fits a file's name best; None if none does."""
    fitting = [key for key in WORKLOAD_READERS if path.suffix and path.name.endswith(key)]
    return max(fitting, key=len, default=None)


def _workload_reader(path: Path) -> Callable[..., Workload]:
    key = _format_key(path)
    if key is None:
        raise FormatError(
            f"{path}: no format of workloads has the suffix '{path.suffix}'; there are {', '.join(WORKLOAD_READERS)}"
        )
    module, function = WORKLOAD_READERS[key]
    reader: Callable[..., Workload] = getattr(import_module(module), function)
    return reader


def _description(path: Path) -> str:
    """The line with which a file of the library describes itself."""
    text = path.read_text(encoding="utf-8")
    content = json.loads(text) if path.suffix == ".json" else read_tree(text, str(path), FormatError).values
    return str(content["description"])
