"""What the pages say is so: examples run as they stand, tables name every column, and links lead somewhere."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from enum import IntEnum
from pathlib import Path
from types import ModuleType

import pytest

import accelsim
from accelsim.program import tables
from accelsim.timeline import table
from accelsim.workload.operator import ArrayWork

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    path.relative_to(ROOT) for path in (*ROOT.glob("*.md"), *DOCS.rglob("*.md")) if "_build" not in str(path)
)
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
ROLE = re.compile(r":\w+:`([^`]*)`|``([^`]*)``")


def blocks(page: Path, language: str) -> list[str]:
    return [code for kind, code in FENCE.findall(page.read_text(encoding="utf-8")) if kind == language]


def module_of(page: Path, folder: Path) -> ModuleType:
    """The page's Python as a module, block after block."""
    path = folder / f"page_{page.stem.lower()}.py"
    path.write_text("\n\n".join(blocks(page, "python")), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def extending(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return module_of(DOCS / "extending.md", tmp_path_factory.mktemp("extending"))


def test_the_readme_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = module_of(ROOT / "README.md", tmp_path)
    assert module.timeline.latency_cycles > 0
    assert f"{module.timeline.latency_cycles:,} cycles" in capsys.readouterr().out


def test_an_operator_is_added_as_the_page_says(extending: ModuleType) -> None:
    from accelsim.hardware.template import parse_template

    template = Path(accelsim.__file__).parents[1] / "hw_templates" / "accelerators" / "soma_edge.yaml"
    accelerator = parse_template(template.read_text(encoding="utf-8"))
    schedule = accelsim.Schedule("swiglu", ("gated",), (), (), (4,))
    timeline = accelsim.simulate(accelsim.lower(extending.swiglu, accelerator, schedule))
    program = timeline.program
    # 4 tiles of 32 x 768 elements, 5 operations each, at 512 operations a cycle
    assert program.activities.cycles[program.activities.kind == tables.ActivityKind.TILE].tolist() == [240] * 4
    # two operands are read and one result is written, at 1 byte an element and 16 bytes a cycle
    assert program.activities.bytes.sum() == 3 * 128 * 768
    # loads alone take 2 x 6144 cycles; then the last tile, and the last store of 32 x 768 bytes
    assert timeline.latency_cycles >= 2 * 128 * 768 // 16 + 240 + 32 * 768 // 16


def test_a_dataflow_is_added_as_the_page_says(extending: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from accelsim.hardware.dataflow import DATAFLOWS
    from accelsim.hardware.template import parse_template

    (template,) = blocks(DOCS / "extending.md", "yaml")
    with pytest.raises(accelsim.AccelsimError, match="adder_tree"):
        parse_template(template)
    monkeypatch.setitem(DATAFLOWS, "adder_tree", extending.AdderTree)
    accelerator = parse_template(template)
    assert accelerator.macs_per_cycle == 64 * 16
    operand = accelsim.Operand((accelsim.Source("x"),), (10, 100))
    from accelsim.workload.operators import MatMul

    product = MatMul("y", (operand,), accelsim.Tensor("y", (10, 40)), (accelsim.Tensor("w", (100, 40)),))
    workload = accelsim.Workload("product", (product,), (accelsim.Tensor("x", (10, 100)),))
    program = accelsim.lower(workload, accelerator, accelsim.Schedule("product", ("y",), (), (), (1,)))
    # 10 positions x ceil(100 / 64) x ceil(40 / 16)
    assert program.activities.cycles.max() == 10 * 2 * 3
    # 40,000 MACs at 0.3 pJ; two operands read for each, 400 results written, at 5.7 pJ a byte
    expected = {"mac": 40_000 * 0.3, "buffer.global": 5.7 * (2 * 40_000 + 400), "dram": 84.0 * (1000 + 4000 + 400)}
    found = dict(zip(program.part_names, program.energy_pj.sum(axis=0), strict=True))
    assert {part: found[part] for part in expected} == pytest.approx(expected)


def test_a_scheduler_is_added_as_the_page_says(extending: ModuleType) -> None:
    workload = accelsim.load_workload("soma.gpt2_small_decode")
    accelerator = accelsim.load_accelerator("soma_edge", ["buffers.global.capacity=64 MiB"])
    result = extending.OnChip().search(workload, accelerator)
    program = accelsim.lower(workload, accelerator, result.schedule)
    stored = program.activities.operator[program.activities.kind == tables.ActivityKind.STORE]
    assert {program.operator_names[row] for row in stored} == set(workload.outputs)
    with pytest.raises(accelsim.AccelsimError, match="buffer 'global' holds"):
        extending.OnChip().search(workload, accelsim.load_accelerator("soma_edge", ["buffers.global.capacity=64 KiB"]))


def test_a_format_is_added_as_the_page_says(extending: ModuleType) -> None:
    import json

    accelerator = accelsim.load_accelerator("soma_edge")
    program = accelsim.lower(extending.swiglu, accelerator, accelsim.Schedule("swiglu", ("gated",), (), (), (2,)))
    timeline = accelsim.simulate(program)
    rows = [json.loads(line) for line in extending.write_json_lines(timeline).splitlines()]
    assert len(rows) == 2 * 4  # two tiles, each with two loads and a store
    assert max(row["finish_cycles"] for row in rows) == timeline.latency_cycles
    assert {row["operator"] for row in rows} == {"gated"}


def documented_columns(module: ModuleType) -> dict[str, dict[str, str]]:
    """For each NamedTuple of a module: its columns and their docstrings, '' where the name says it all."""
    found: dict[str, dict[str, str]] = {}
    assert module.__file__ is not None
    for node in ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body:
        if not (isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "NamedTuple" for base in node.bases)):
            continue
        columns: dict[str, str] = {}
        for statement, follower in zip(node.body, [*node.body[1:], None], strict=True):
            if isinstance(statement, ast.AnnAssign):
                text = ""
                if isinstance(follower, ast.Expr) and isinstance(follower.value, ast.Constant):
                    text = ROLE.sub(lambda match: f"`{match[1] or match[2]}`", str(follower.value.value))
                columns[ast.unparse(statement.target)] = " ".join(text.split())
        found[node.name] = columns
    return found


def test_every_column_stands_in_the_tables_page_as_in_its_docstring() -> None:
    page = (DOCS / "tables.md").read_text(encoding="utf-8")
    documented = documented_columns(tables) | documented_columns(table)
    assert {"ActivityTable", "ClaimTable", "EventTable"} <= set(documented)
    for name, columns in documented.items():
        section = re.split(r"^#", page.split(f"### {name}\n")[1], flags=re.MULTILINE)[0]
        rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section, re.MULTILINE))
        assert list(rows) == list(columns), name
        for column, text in columns.items():
            assert rows[column].strip(), f"{name}.{column}"
            assert not text or rows[column] == text, f"{name}.{column}"


def test_every_field_and_code_stands_in_the_tables_page() -> None:
    page = (DOCS / "tables.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", page))
    fields = {*tables.Program.__dataclass_fields__, *table.Timeline.__dataclass_fields__}
    own_tables = {"resources", "queues", "activities", "dependencies", "claims", "releases", "buffers", "events"}
    assert fields - own_tables <= named
    assert set(tables.SHAPE_COLUMNS) <= named
    assert ArrayWork._fields[: len(tables.SHAPE_COLUMNS)] == tables.SHAPE_COLUMNS
    enums = (tables.ResourceKind, tables.Arbitration, tables.ActivityKind, table.Cause)
    assert all(issubclass(enum, IntEnum) for enum in enums)
    for code in (code for enum in enums[:3] for code in enum):
        assert f"`{code.name}` {code.value}" in page
    for cause in table.Cause:
        assert f"| `{cause.name}` | {cause.value} |" in page


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = [target for target in LINK.findall(text) if "://" not in target and not target.startswith("mailto:")]
    assert [target for target in targets if not (ROOT / page.parent / target).exists()] == []
