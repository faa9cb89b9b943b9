"""Pictures and pages: what they show, what they must not let through, and that they are the same bytes every time."""

import builtins
import dataclasses
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest

from accelsim.engine import simulate
from accelsim.errors import InputError, MissingExtra
from accelsim.plot.report_page import page, report_page
from tests.strategies.programs import Dice, Draft, legal_program
from tests.timelines import worked_example

TRAP = "<script>alert(1)</script>"
SCRIPTS = 3
"""Of a viewer: its description, its data, and what draws them."""


@pytest.fixture
def drawn():
    pytest.importorskip("matplotlib", reason="pictures need the extra 'plots'")
    from accelsim.plot.style import figure_bytes
    from accelsim.plot.timeline import timeline_figure

    return lambda timeline, suffix=".svg": figure_bytes(timeline_figure(timeline), suffix)


@pytest.fixture
def without_matplotlib(monkeypatch):
    imported = builtins.__import__

    def refuse(name, *args, **options):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return imported(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)


class Page(HTMLParser):
    """Tags that are open, all tags seen, and the text outside of styles and scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.texts, self.attributes = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "br", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.texts.append(data.strip())


def trapped():
    """The worked example with a script in every name there is."""
    timeline = worked_example(scheduler=TRAP, note={TRAP: TRAP})
    program = timeline.program
    names = {
        field: tuple(f"{TRAP}{number}" for number in range(len(getattr(program, field))))
        for field in ("resource_names", "queue_names", "buffer_names", "operator_names", "tensor_names", "part_names")
    }
    facts = {**program.facts, "workload": TRAP, "hardware": TRAP, TRAP: TRAP}
    return dataclasses.replace(timeline, engine=TRAP, program=dataclasses.replace(program, **names, facts=facts))


def test_svg_is_xml_with_names_units_and_legend(drawn):
    root = ElementTree.fromstring(drawn(worked_example(scheduler="pencil")))
    texts = {text.strip() for element in root.iter() for text in element.itertext()} - {""}
    for expected in (
        "worked on example, scheduled by pencil",
        "230 cycles · 1 cycle = 2 ns",
        "cycles",
        "core",
        "dram",
        "array tile",
        "vector tile",
        "load of weights",
        "load of inputs",
        "store",
        "waiting for a load",
        "after the last tile",
        "full rate 16 B/cycle",
        "capacity 2 KiB",
        "A",
        "B",
        "C",
    ):
        assert expected in texts, expected
    assert any(text.endswith(" ns") for text in texts)
    assert "waiting for a store" not in texts  # nothing waited for one


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_equal_timelines_are_equal_bytes(drawn, suffix):
    assert drawn(worked_example(), suffix) == drawn(worked_example(), suffix)


def test_texts_of_the_picture_do_not_overlap(drawn):
    """Of the picture as it is drawn: no two texts share any ground."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    from accelsim.plot.style import matplotlib_style
    from accelsim.plot.timeline import timeline_figure

    for timeline in (worked_example(), simulate(legal_program(Dice(1), 400))):
        with matplotlib_style():
            figure = timeline_figure(timeline)
            canvas = FigureCanvasAgg(figure)
            canvas.draw()
            scales = [scale for axes in figure.axes for scale in (axes.xaxis, axes.yaxis)]
            scales += [child.xaxis for axes in figure.axes for child in axes.child_axes]
            beyond = set()  # marks outside of the view, which are not drawn
            for scale in scales:
                low, high = sorted(scale.get_view_interval())
                outside = [tick for tick in scale.get_major_ticks() if not low <= tick.get_loc() <= high]
                beyond |= {mark for tick in outside for mark in tick.findobj(Text)}
            boxes = [
                (text.get_text(), text.get_window_extent(canvas.get_renderer()))
                for text in figure.findobj(Text)
                if text.get_visible() and text.get_text().strip() and text not in beyond
            ]
        for place, (text, box) in enumerate(boxes):
            assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0 and box.y1 <= figure.bbox.y1, text
            for other, other_box in boxes[place + 1 :]:
                shared = min(box.x1, other_box.x1) - max(box.x0, other_box.x0)
                height = min(box.y1, other_box.y1) - max(box.y0, other_box.y0)
                assert not (shared > 1 and height > 1), (text, other)


def test_filled_areas_are_the_bytes_moved():
    """What the bandwidth curve fills is what was moved, however coarse its bins."""
    pytest.importorskip("matplotlib", reason="pictures need the extra 'plots'")
    from accelsim.plot.timeline import timeline_figure

    figure = timeline_figure(worked_example())
    axis = next(axis for axis in figure.axes if axis.get_ylabel() == "dram\nB/cycle")
    area = 0.0
    for collection in axis.collections:
        for path in collection.get_paths():
            x, y = path.vertices.T
            area += abs(np.dot(x[:-1], y[1:]) - np.dot(x[1:], y[:-1])) / 2
    assert area == pytest.approx(2080)


def test_names_are_text_in_the_picture(drawn):
    svg = drawn(trapped()).decode()
    assert "<script" not in svg and "&lt;script&gt;" in svg


@pytest.mark.parametrize("name", ["a$b$c_{x}", "\ud800\0\x1b", "\N{SNOWMAN}" * 100, "", "a" * 10_000])
def test_odd_names_can_be_drawn(drawn, name):
    timeline = worked_example()
    program = dataclasses.replace(
        timeline.program,
        operator_names=(name, name, name),
        resource_names=(name, name),
        facts={**timeline.program.facts, "workload": name},
    )
    ElementTree.fromstring(drawn(dataclasses.replace(timeline, program=program)))


def test_runs_without_events_clock_or_buffers_can_be_drawn(drawn):
    assert drawn(simulate(Draft().program()))
    draft = Draft()
    draft.tile(draft.queue(draft.core()), 0)
    assert drawn(simulate(draft.program()))


def test_many_events_make_no_larger_picture(drawn):
    def busy(count):
        draft = Draft()
        core, link = draft.queue(draft.core()), draft.queue(draft.link(3))
        for number in range(count):
            draft.tile(core, number % 7, draft.load(link, number % 17))
        return simulate(draft.program())

    few, many = drawn(busy(5_000)), drawn(busy(50_000))
    assert len(many) < 1.2 * len(few) < 1_000_000


def test_unknown_suffix(tmp_path, drawn):
    from accelsim.plot.style import save_figure
    from accelsim.plot.timeline import timeline_figure

    with pytest.raises(InputError, match=r"not written as '\.bmp'; there are \.svg, \.png, \.pdf"):
        save_figure(timeline_figure(worked_example()), tmp_path / "x.bmp")
    save_figure(timeline_figure(worked_example()), tmp_path / "x.PNG")
    assert (tmp_path / "x.PNG").read_bytes().startswith(b"\x89PNG")


def test_page_has_tables_and_loads_nothing():
    text = page([worked_example(scheduler="pencil")])
    found = Page(text)
    assert not found.open
    assert found.tags.count("script") == SCRIPTS and "link" not in found.tags and "img" not in found.tags
    urls = [value for name, value in found.attributes if name in ("src", "href", "xlink:href", "action", "data")]
    assert all(value.startswith("#") for value in urls)
    assert not re.search(r"url\((?!#)|@import", text)
    captions = ("Key figures", "Cycles by cause", "Energy by part", "Peak buffer use")
    assert set(captions) <= set(found.texts)
    for expected in ("230", "460 ns", "wait_load", "1.161 nJ", "pencil", "5,000"):
        assert expected in found.texts, expected


def test_page_escapes_every_name():
    text = page([trapped(), trapped()])
    assert TRAP not in text
    assert Page(text).tags.count("script") == SCRIPTS
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_page_of_two_runs_puts_them_side_by_side():
    slower = simulate(dataclasses.replace(worked_example().program, static_pj_per_cycle=1.0))
    found = Page(page([worked_example(), slower], ["<section><p>in between</p></section>"]))
    assert found.tags.count("h2") == 2 and "in between" in found.texts
    assert "Side by side" in found.texts
    # 115 of 1160.5 pJ more, for the static energy has doubled.
    assert "+9.9 %" in found.texts


def test_page_is_the_same_bytes_every_time(tmp_path):
    for name, seconds in (("a", 1.0), ("b", 2.0)):
        report_page([worked_example(simulate_seconds=seconds)], tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_page_with_odd_names_can_be_written(tmp_path):
    timeline = worked_example()
    program = dataclasses.replace(timeline.program, operator_names=("\ud800", "b", "c"))
    report_page([dataclasses.replace(timeline, program=program)], tmp_path / "a")
    (tmp_path / "a").read_bytes().decode()


def test_nothing_is_half_written(tmp_path):
    with pytest.raises(InputError):
        report_page([worked_example()], tmp_path / "missing" / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_only_the_picture_is_missing(without_matplotlib):
    from accelsim.plot.timeline import timeline_figure

    with pytest.raises(MissingExtra, match=r"accelsim\[plots\]"):
        timeline_figure(worked_example())
    text = page([worked_example()])
    assert "accelsim[plots]" in text and 'class="picture"' not in text and "Cycles by cause" in text
