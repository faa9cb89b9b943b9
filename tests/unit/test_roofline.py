"""Points of the roofline, against a worked example done with pencil and paper; pages, pictures, options of advice."""

from __future__ import annotations

import dataclasses
import json
import re
from decimal import Decimal
from pathlib import Path

import pytest

from accelsim.analysis.measure import check_rising
from accelsim.analysis.options import scaled
from accelsim.analysis.roofline import Point, check_complete, roofline_points
from accelsim.analysis.roofs import datasheet_roofs
from accelsim.errors import InputError, WorkloadError
from accelsim.hardware.accelerator import Accelerator
from accelsim.library import load_accelerator
from accelsim.plot.roofline import roofline
from accelsim.timeline.table import Cause, Timeline
from accelsim.workload.models.micro import matmul_chain, stream, vector
from tests.strategies.programs import Draft
from tests.timelines import hand_timeline, worked_example

# 100 MACs a cycle at 1/2048 pJ (the example's tiles: 1.5 pJ for 3000 and more), 16 B/cycle at 0.5 pJ/B.
EXAMPLE_MACHINE = (
    "pe_array.rows=10",
    "pe_array.columns=10",
    "pe_array.mac_energy=0.00048828125 pJ",
    "vector_unit.throughput=7 op/cycle",
    "vector_unit.energy=0.00048828125 pJ",
    "dram.bandwidth=16 B/cycle",
    "dram.read_energy=0.5 pJ/B",
    "dram.write_energy=0.5 pJ/B",
)


def example_machine(*overrides: str) -> Accelerator:
    return load_accelerator("scalesim_32x32", (*EXAMPLE_MACHINE, *overrides))


def at_dram(accelerator: Accelerator, timeline: Timeline) -> dict[str, Point]:
    return {point.name: point for point in roofline_points(accelerator, timeline) if point.level == "dram"}


def test_worked_example_point_by_point() -> None:
    """A, B and C own 90, 40 and 100 of the 230 cycles; the link serves them for 40, 10 and 80."""
    points = at_dram(example_machine(), worked_example())
    assert list(points) == ["run", "A", "B", "C"]
    a = points["A"]
    # 6000 MACs are executed, 5000 needed; 320 + 160 + 160 bytes; 2 * 1.5 pJ of tiles, 320 of transfers, 45 static.
    assert (a.operations, a.bytes, a.cycles, a.cycles_attributed) == (10000, 640, 90, 90)
    assert a.intensity == 15.625
    assert a.ops_per_cycle == pytest.approx(10000 / 90, rel=1e-15)
    assert a.roof_ops_per_cycle == 200.0  # the array: 50 cycles at full rate, the link needs 40
    assert a.energy_pj == 3.0 + 320 + 45
    assert a.roof_ops_per_pj == pytest.approx(10000 / (5000 / 2048 + 320), rel=1e-15)
    assert (a.utilization, a.memory_utilization) == (50 / 90, 40 / 90)
    b = points["B"]
    assert (b.macs, b.vector_ops, b.operations, b.bytes, b.cycles) == (0, 140, 140, 160, 40)
    assert b.roof_ops_per_cycle == 7.0  # the vector unit: 20 cycles, the link needs 10
    c = points["C"]
    assert (c.operations, c.bytes, c.cycles) == (8000, 960 + 320, 100)
    assert c.roof_ops_per_cycle == 100.0  # the link: 80 cycles, the array needs 40
    run = points["run"]
    assert (run.operations, run.bytes, run.cycles) == (18140, 2080, 230)
    # Array and vector unit never run at once: 90 + 20 cycles at full rate; the link needs 130.
    assert run.roof_ops_per_cycle == pytest.approx(18140 / 130, rel=1e-15)
    assert run.utilization == pytest.approx(110 / 230, rel=1e-15)
    assert run.energy_pj == pytest.approx(5.5 + 0.5 * 2080 + 0.5 * 230, rel=1e-15)


def test_vector_work_done_again_counts_once_in_the_run() -> None:
    timeline = worked_example()
    program = dataclasses.replace(timeline.program, facts={**timeline.program.facts, "vector_ops": 100})
    points = at_dram(example_machine(), dataclasses.replace(timeline, program=program))
    assert (points["run"].vector_ops, points["B"].vector_ops) == (100, 140)


def hidden_transfer() -> Timeline:
    """Y's weights, 1600 bytes, arrive in 100 cycles while X computes for 100; then Y computes for 10."""
    draft = Draft()
    core, link = draft.queue(draft.core()), draft.queue(draft.link(16))
    draft.tile(core, 100)
    draft.tile(core, 10)
    draft.load(link, 1600)
    draft.dependencies = [(2, 1)]
    program = draft.program()
    energy = program.energy_pj.copy()
    program = dataclasses.replace(
        program,
        activities=program.activities._replace(operator=[0, 1, 1], macs=[10000, 1000, 0], vector_ops=[0, 0, 0]),
        operator_names=("X", "Y"),
        part_names=("mac", "dram"),
        energy_pj=[[10.0, 0.0], [1.0, 0.0], [0.0, 800.0]],
    )
    assert energy.shape[0] == 3
    rows = [(0, 100, 0, 0, Cause.NONE, -1), (0, 100, 0, 2, Cause.NONE, -1), (100, 110, 100, 1, Cause.LOAD, 2)]
    return hand_timeline(program, rows)


def test_bytes_moved_ahead_take_their_time_on_the_link() -> None:
    """10 cycles belong to Y, which would make 160 bytes a cycle over a link of 16."""
    points = at_dram(example_machine(), hidden_transfer())
    y = points["Y"]
    assert (y.cycles_attributed, y.cycles) == (10, 100)
    assert y.memory_utilization == 1.0
    assert y.ops_per_cycle == y.roof_ops_per_cycle == 2000 / 100
    x = points["X"]
    assert (x.bytes, x.intensity, x.cycles, x.utilization) == (0, None, 100, 1.0)
    assert x.roof_ops_per_cycle == 200.0


@pytest.mark.parametrize(
    ("override", "unit"),
    [
        ("pe_array.rows=5", "op/cycle"),
        ("dram.bandwidth=8 B/cycle", "op/cycle"),
        ("pe_array.mac_energy=1 pJ", "op/pJ"),
    ],
)
def test_a_point_above_its_roof_is_refused_with_causes(override: str, unit: str) -> None:
    weaker = override.replace("rows=5", "rows=1")
    with pytest.raises(InputError, match=f"above its roof at dram: .* {unit}. Possible causes: .*another machine"):
        roofline_points(example_machine(weaker), worked_example())


@pytest.mark.parametrize("missing", ["A", "B", "C"])
def test_a_missing_point_is_refused_with_causes(missing: str) -> None:
    points = roofline_points(example_machine(), worked_example())
    check_complete(points)
    with pytest.raises(InputError, match="Possible causes: two operators"):
        check_complete([point for point in points if point.name != missing])


def test_kernels_that_do_not_move_right_are_refused_with_causes() -> None:
    check_rising("K3", [0.5, 1.0, 1.0, 4.0])
    with pytest.raises(InputError, match=r"K3 falls from 4 to 2 op/B at point 3.*Possible causes"):
        check_rising("K3", [1.0, 4.0, 2.0])


def test_a_run_of_another_machine_is_refused() -> None:
    program = dataclasses.replace(worked_example().program, facts={"hardware": "other", "hardware_digest": "0" * 64})
    timeline = dataclasses.replace(worked_example(), program=program)
    with pytest.raises(InputError, match=r"ran on 'other' .* give the template of the run, and the same --set"):
        roofline_points(example_machine(), timeline)


def test_datasheet_roofs_are_those_of_the_template() -> None:
    """soma_edge: 8192 MACs at 0.018 pJ, 512 vector operations at 0.0873 pJ, 256 B/cycle, 16 GB/s at 10.5 pJ/bit."""
    roofs = {(roof.level, roof.unit, roof.of): roof.value for roof in datasheet_roofs(load_accelerator("soma_edge"))}
    growth = 1.1**4  # for every whole 2 MiB of 8
    assert roofs == pytest.approx(
        {
            ("array", "op/cycle", "MACs"): 16384,
            ("vector_unit", "op/cycle", "vector operations"): 512,
            ("buffer.global", "B/cycle", "reads"): 256,
            ("dram", "B/cycle", "reads and writes"): 16,
            ("array", "op/pJ", "MACs"): 2 / 0.018,
            ("vector_unit", "op/pJ", "vector operations"): 1 / 0.0873,
            ("buffer.global", "pJ/B", "reads"): 1.0422 * growth,
            ("dram", "pJ/B", "reads"): 84,
            ("dram", "pJ/B", "writes"): 84,
        },
        rel=1e-12,
    )


def test_micro_kernels_do_what_they_say() -> None:
    chain = matmul_chain(rows=3, depth=5, columns=5, operators=4)
    assert (chain.macs, chain.weight_bytes, len(chain.operators)) == (4 * 75, 4 * 25, 4)
    copies = stream(reads=2, writes=1, chunk_bytes=100)
    assert (copies.macs, copies.vector_ops, [tensor.shape for tensor in copies.inputs]) == (0, 0, [(100,), (100,)])
    assert stream(reads=1, writes=0, chunk_bytes=100).operators[0].output.shape == (1,)
    assert stream(reads=0, writes=1, chunk_bytes=100).inputs[0].shape == (1,)
    assert vector(elements=10, operations_per_element=3).vector_ops == 30
    for refused in (
        lambda: matmul_chain(depth=2, columns=3, operators=2),
        lambda: stream(reads=0, writes=0),
        lambda: stream(writes=2),
        lambda: vector(operations_per_element=0),
    ):
        with pytest.raises(WorkloadError):
            refused()


@pytest.mark.parametrize(
    ("value", "factor", "found"),
    [
        ("16 GB/s", "2", "32 GB/s"),
        ("51.2 GB/s", "2", "102.4 GB/s"),
        ("100 ns", "0.5", "50 ns"),
        ("75 cycles", "0.5", "37.5 cycles"),
        (4, "2", "8"),
        ("1e3 MiB", "2", "2000 MiB"),
        ("0 cycles", "0.5", None),
        (None, "2", None),
        (True, "2", None),
        ("output_stationary", "2", None),
    ],
)
def test_quantities_are_scaled_in_their_own_unit(value: object, factor: str, found: str | None) -> None:
    assert scaled(value, Decimal(factor)) == found


def named(names: tuple[str, ...]) -> Timeline:
    timeline = worked_example()
    return dataclasses.replace(timeline, program=dataclasses.replace(timeline.program, operator_names=names))


def test_the_page_loads_nothing_and_keeps_names_as_text(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    roofline(example_machine()).add(named(("</script><b>", "B", "C")), name="<run>").save(path)
    page = path.read_text(encoding="utf-8")
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    content = json.loads(data[1])
    assert [run["name"] for run in content["runs"]] == ["<run>"]
    (run,) = content["runs"]
    place = run["fields"].index("name")
    assert {row[place] for row in run["rows"]} == {"run", "</script><b>", "B", "C"}
    assert "<b>" not in page.replace("</script><b>", "")


def test_a_page_of_ten_thousand_points_stays_small(tmp_path: Path) -> None:
    found = roofline(example_machine()).add(worked_example())
    points = found.runs[0].points
    many = [dataclasses.replace(points[-1], name=f"{points[-1].name}.block{number}") for number in range(10_000)]
    dataclasses.replace(found, runs=(dataclasses.replace(found.runs[0], name="many", points=(*points, *many)),)).save(
        tmp_path / "page.html"
    )
    assert (tmp_path / "page.html").stat().st_size < 5_000_000


@pytest.mark.parametrize(("suffix", "begin"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_pictures_are_the_same_bytes_each_time(tmp_path: Path, suffix: str, begin: bytes) -> None:
    pytest.importorskip("matplotlib", reason="install the extra 'plots' to draw pictures")
    found = roofline(example_machine()).add(worked_example()).add(worked_example(), name="again")
    for name in ("one", "two"):
        found.save(tmp_path / f"{name}{suffix}")
    one, two = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("one", "two"))
    assert one == two
    assert one.startswith(begin)


def test_labels_of_a_picture_do_not_overlap() -> None:
    pytest.importorskip("matplotlib", reason="install the extra 'plots' to draw pictures")
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from accelsim.plot.roofline_figure import roofline_figure

    figure = roofline_figure(roofline(example_machine()).add(worked_example()))
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    for axis in figure.axes:
        texts = [text for text in axis.texts if not text.get_rotation() and text.get_text()]
        assert {"run", "A", "B", "C"} <= {text.get_text() for text in texts}
        boxes = [text.get_window_extent(renderer) for text in texts]
        overlapping = [
            (texts[i].get_text(), texts[j].get_text())
            for i in range(len(boxes))
            for j in range(i)
            if boxes[i].overlaps(boxes[j])
        ]
        assert overlapping == []
        assert "op per byte" in axis.get_xlabel()
        assert "(op/" in axis.get_ylabel()


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"not written as '\.gif'"):
        roofline(example_machine()).save(tmp_path / "picture.gif")
    assert list(tmp_path.iterdir()) == []


def test_text_lists_roofs_and_operators() -> None:
    text = str(roofline(example_machine()).add(worked_example(scheduler="layerwise")))
    assert "worked, layerwise" in text
    assert re.search(r"^  run +230 +8\.721 +78\.87 +56\.5 %", text, re.MULTILINE)
    assert re.search(r"^  A +90 +15\.6.*array$", text, re.MULTILINE)
    assert re.search(r"^  B .*vector unit$", text, re.MULTILINE)
    assert re.search(r"^  C .*dram$", text, re.MULTILINE)
