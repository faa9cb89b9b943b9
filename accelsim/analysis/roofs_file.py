"""``roofs.json``: all that was measured on a machine, with everything that one needs to judge it or to repeat it.

A measurement is kept on disk, under a name made of the machine's digest and of every source of this package: the same
machine is measured once, and neither another machine nor another version of the code ever gets its answer.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from accelsim.analysis.closure import Closure, Constant, Refusal, closure
from accelsim.analysis.measure import Fit, KneePoint, Measurement, measure
from accelsim.analysis.micro_kernels import Finding, micro_findings
from accelsim.analysis.roofs import Roof, Uncertainty, datasheet_roofs
from accelsim.errors import InputError
from accelsim.files import cache_folder, write_whole
from accelsim.hardware.accelerator import Accelerator

SCHEMA = 1


@dataclass(frozen=True)
class Roofs:
    """The measured and the stated roofs of a machine, what keeps it below them, and whether its energy closes."""

    accelerator: Accelerator
    measurement: Measurement
    findings: tuple[Finding, ...]
    closure: Closure

    def to_dict(self) -> dict[str, Any]:
        """As ``roofs.json`` holds it; infinite values are None."""
        machine = self.accelerator
        return {
            "schema": SCHEMA,
            "hardware": machine.name,
            "hardware_digest": machine.digest,
            "clock_hz": machine.clock_hz,
            "conventions": {
                "operations": "one multiply-accumulate is two operations, one operation of the vector unit is one",
                "sparsity": "dense",
                "rates": "marginal: what twice the work adds, over the cycles that it adds",
            },
            "versions": {
                "accelsim": import_module("accelsim").__version__,
                "sources": sources_digest(),
                "python": platform.python_version(),
                "numpy": np.__version__,
            },
            "datasheet": [roof.to_dict() for roof in datasheet_roofs(machine)],
            "measured": [roof.to_dict() for roof in self.measurement.roofs],
            "knee": self.measurement.to_dict(),
            "findings": [finding.to_dict() for finding in self.findings],
            "closure": _finite(self.closure.to_dict()),
            "template": machine.source,
        }

    def save(self, path: str | Path) -> None:
        """Writes ``roofs.json``; it appears whole or not at all, and equal measurements are equal bytes.

        Raises:
            InputError: the file cannot be written.
        """
        write_whole(Path(path), (json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n").encode())

    def __str__(self) -> str:
        sheet = {(roof.level, roof.unit): roof.value for roof in datasheet_roofs(self.accelerator)}
        lines = [f"Roofs of {self.accelerator.name}, measured", ""]
        lines += [roof_line(roof, sheet.get((roof.level, roof.unit))) for roof in self.measurement.roofs]
        if fit := self.measurement.fit:
            exponent = "infinite" if fit.exponent == math.inf else f"{fit.exponent:.0f}"
            lines += [
                "",
                f"Fit of K3: P {fit.ops_per_cycle:,.6g} op/cycle, B {fit.bytes_per_cycle:,.6g} B/cycle, p {exponent}; "
                f"residual {100 * fit.error:.2g} %",
            ]
        lines += ["", "What keeps it from its roofs"]
        lines += list(_finding_lines(self.findings))
        return "\n".join([*lines, "", str(self.closure)])


def _finding_lines(findings: tuple[Finding, ...]) -> Iterator[str]:
    """A line for each thing that was measured, with all that was varied."""
    for kernel, name in dict.fromkeys((one.kernel, one.name) for one in findings):
        mine = [one for one in findings if (one.kernel, one.name) == (kernel, name)]
        values = "  ".join(f"{one.at:g}: {one.value:,.5g}" if one.at else f"{one.value:,.4g}" for one in mine)
        line = f"  {kernel:<4} {name}{f', {mine[0].unit}' if mine[0].unit else ''}   {values}"
        stated = {one.expected for one in mine if one.expected is not None}
        if len(mine) == 1 and stated:
            line += f"   (the template: {stated.pop():,.4g})"
        yield line
        yield from (f"         {one.note}" for one in mine if one.note)


def roof_line(roof: Roof, stated: float | None) -> str:
    """A measured roof, how uncertain size, kernel, fit and energy table leave it, and the datasheet's value."""
    line = f"  {roof.level:<14} {roof.value:>12,.6g} {roof.unit:<9} {roof.of:<18} {roof.kernel:<3}"
    if roof.uncertainty is None:
        return line
    doubt = roof.uncertainty
    line += (
        f" [repeat 0 | size {100 * doubt.finite_size:.2g} % | kernel {100 * doubt.kernel_below:.2g}/"
        f"+{100 * max(doubt.kernel_above, 0):.2g} % | fit {100 * doubt.fit:.2g} %"
    )
    if doubt.constants is not None:
        line += f" | table {100 * doubt.constants[0]:.0f}/+{100 * doubt.constants[1]:.0f} %"
    if stated:
        line += f" | datasheet {stated:,.6g}, {100 * roof.value / stated:.1f} %"
    return f"{line}]{f'  because of {roof.cause}' if roof.cause else ''}"


def measured_roofs(accelerator: Accelerator, *, keep: bool = True) -> Roofs:
    """Measures a machine, or reads what was measured on it before.

    Args:
        accelerator: the machine.
        keep: look for an earlier measurement, and keep this one. False measures anew and leaves nothing.
    """
    if keep and (known := kept_roofs(accelerator)) is not None:
        return known
    found = Roofs(accelerator, measure(accelerator), micro_findings(accelerator), closure(accelerator))
    if keep and (path := _kept_path(accelerator)) is not None:
        with contextlib.suppress(InputError):  # a full disk: measured it is all the same
            found.save(path)
    return found


def kept_roofs(accelerator: Accelerator) -> Roofs | None:
    """What was measured before on this machine with these sources; None if nothing was."""
    path = _kept_path(accelerator)
    return None if path is None else _read(path, accelerator)


def _kept_path(accelerator: Accelerator) -> Path | None:
    folder = cache_folder()
    key = hashlib.sha256(f"{SCHEMA} {accelerator.digest} {sources_digest()} {np.__version__}".encode()).hexdigest()
    return None if folder is None else folder / f"roofs-{key[:32]}.json"


@cache
def sources_digest() -> str:
    """SHA-256 over every source of this package, their names included."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"\n{path.relative_to(package)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def _read(path: Path, accelerator: Accelerator) -> Roofs | None:
    """A kept measurement; None where there is none, or it is not of this machine and these sources."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if (content["hardware_digest"], content["versions"]["sources"]) != (accelerator.digest, sources_digest()):
            return None
        knee = content["knee"]
        fit = knee["fit"]
        energy = content["closure"]
        return Roofs(
            accelerator,
            Measurement(
                tuple(_roof(roof) for roof in content["measured"]),
                tuple(KneePoint(**point) for point in knee["points"]),
                None if fit is None else Fit(**_infinite(fit, "exponent")),
            ),
            tuple(Finding(**_infinite(finding, "value")) for finding in content["findings"]),
            Closure(
                tuple(Constant(**{k: v for k, v in one.items() if k != "error"}) for one in energy["constants"]),
                tuple(Refusal(tuple(one["names"]), one["reason"]) for one in energy["refusals"]),
                energy["condition"],
                energy["residual"],
                energy["kernels"],
            ),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _roof(content: dict[str, Any]) -> Roof:
    doubt = content.pop("uncertainty", None)
    if doubt is not None:
        constants = doubt.pop("constants")
        doubt = Uncertainty(**doubt, constants=None if constants is None else tuple(constants))
    return Roof(**content, uncertainty=doubt)


def _infinite(content: dict[str, Any], name: str) -> dict[str, Any]:
    return {**content, name: math.inf if content[name] is None else content[name]}


def _finite(content: Any) -> Any:
    """The same data with None for infinite numbers."""
    if isinstance(content, dict):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
