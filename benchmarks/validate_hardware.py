"""accelsim beside published and measured figures of real machines.

    python benchmarks/validate_hardware.py [gemmini eyeriss nvdla tpu_v1 tpu_v3] [--data FOLDER] [--markdown FILE]

One line a figure: published, simulated, error, and for each that is off by more than 25 % the reason. Each set has one
template; what was chosen or fitted stands at the head of its module in ``benchmarks/hardware/``. The figures with their
sources are in ``benchmarks/hardware/data/``; another folder with files of the same form may be given.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from hardware import eyeriss, gemmini, nvdla, tpu_v1, tpu_v3
from hardware.table import Row, summary

SETS = {"gemmini": gemmini, "eyeriss": eyeriss, "nvdla": nvdla, "tpu_v1": tpu_v1, "tpu_v3": tpu_v3}
DATA = Path(__file__).parent / "hardware" / "data"


def error_text(row: Row) -> str:
    return f"{row.error:+.1f} points" if row.difference else f"{100 * row.error:+.1f} %"


def number_text(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}; default: all")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with the data files")
    parser.add_argument("--markdown", type=Path, help="write the tables of docs/validation.md to this file")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.sets if name not in SETS]
    if unknown:
        parser.error(f"no set {unknown[0]!r}; there are {', '.join(SETS)}")
    page: list[str] = []
    for name in arguments.sets or SETS:
        began = time.perf_counter()
        rows = SETS[name].rows(arguments.data)
        seconds = time.perf_counter() - began
        groups = list(dict.fromkeys(row.group for row in rows))
        print(f"\n=== {name} ({seconds:.1f} s)")
        for group in groups:
            members = [row for row in rows if row.group == group]
            aim = next((aim for aim in SETS[name].AIMS if aim.group == group), None)
            print(f"\n{group}: {summary(members, aim)}")
            page += ["", f"## {group}", "", summary(members, aim), ""]
            page += ["| figure | published | simulated | error | why |", "| --- | --- | --- | --- | --- |"]
            for row in members:
                published, simulated = number_text(row.published), number_text(row.simulated)
                numbers = f"{published:>14} {simulated:>14} {row.unit:8} {error_text(row):>14}"
                print(f"  {row.name:62} {numbers}  {row.reason}")
                page.append(f"| {row.name} | {published} {row.unit} | {simulated} | {error_text(row)} | {row.reason} |")
    if arguments.markdown:
        arguments.markdown.write_text("\n".join(page) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
