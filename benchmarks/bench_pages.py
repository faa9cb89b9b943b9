"""Times the page and the Perfetto export of a timeline of 200,000 events, and the roofline page of 10,000 points.

``python benchmarks/bench_pages.py`` prints times, sizes and limits; status 1 if one is exceeded. What was written is
read back and counted. With the package ``playwright`` and a system Chromium (``CHROMIUM=/usr/bin/chromium``) the pages
are opened too: time until they are drawn, and frames a second of zooming and panning.
"""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from bench_engine import double_buffered
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

import accelsim
from accelsim.engine import simulate
from accelsim.formats.perfetto import write_perfetto
from accelsim.plot.report_page import page
from accelsim.plot.roofline import Roofline
from accelsim.timeline.table import Timeline

EVENTS, POINTS = 200_000, 10_000
LIMITS = {
    "page, MB": 25.0,
    "page, drawn after s": 2.0,
    "zoom, frames/s": 30.0,
    "pan, frames/s": 30.0,
    "Perfetto, s": 3.0,
    "roofline page, MB": 5.0,
    "roofline page, drawn after s": 2.0,
}
MORE_IS_BETTER = ("zoom, frames/s", "pan, frames/s")
FRAMES = """async ([from, to]) => {
  const view = document.querySelector('.viewer').viewer, frames = 90, begin = performance.now();
  for (let frame = 0; frame < frames; frame++) {
    const share = frame / frames, center = view.longest * (0.2 + 0.6 * share);
    const width = view.longest * (from + (to - from) * share);
    view.show(center - width / 2, center + width / 2);
    await new Promise((done) => requestAnimationFrame(done));
  }
  return 1000 * frames / (performance.now() - begin);
}"""


def timeline() -> Timeline:
    """The double-buffered loop with 300 operators, energies and work."""
    program = double_buffered(4, EVENTS)
    activities, row = program.activities, np.arange(program.size)
    operator = row * 300 // program.size
    tile = activities.kind == 0
    names = tuple(f"layer{number // 7}.block{number % 7}.conv" for number in range(300))
    macs = np.where(tile, activities.cycles * 200, 0)
    energy = np.stack([macs * 0.5, 0 * row, activities.bytes * 30.0], axis=1)
    return simulate(
        dataclasses.replace(
            program,
            activities=activities._replace(operator=operator, tensor=np.where(tile, -1, operator), macs=macs),
            operator_names=names,
            tensor_names=tuple(f"{name}.weights" for name in names),
            energy_pj=energy,
            static_pj_per_cycle=50.0,
            facts={"workload": "loop", "hardware": "four cores", "clock_hz": 1e9, "macs_per_cycle": 1024, "batch": 1},
        )
    )


def many_points() -> Roofline:
    """A roofline with the points of ResNet-50, drawn again and again with less work."""
    accelerator = accelsim.load_accelerator("soma_edge")
    workload = accelsim.load_workload("soma.resnet50")
    schedule = accelsim.Layerwise().search(workload, accelerator).schedule
    found = accelsim.roofline(accelerator).add(simulate(accelsim.lower(workload, accelerator, schedule)))
    points = found.runs[0].points
    more = [
        dataclasses.replace(point, name=f"{point.name}.{number}", macs=point.macs * (number % 50 + 1) // 60)
        for number, point in zip(range(POINTS), points[1:] * (POINTS // len(points) + 1), strict=False)
    ]
    return dataclasses.replace(found, runs=(dataclasses.replace(found.runs[0], name="many", points=(*points, *more)),))


def open_pages(report: Path, roofline: Path) -> dict[str, float]:
    """What a browser makes of the pages; nothing without one."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return {}
    found = {}
    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=["--no-sandbox"]
        )
        view = browser.new_page(viewport={"width": 1280, "height": 900})
        view.goto(f"file://{report}", wait_until="commit")
        view.wait_for_selector(".viewer[data-ready]", state="attached", timeout=60_000)
        found["page, drawn after s"] = view.evaluate("performance.now()") / 1000
        assert view.evaluate("document.querySelector('.viewer').viewer.runs[0].count") == EVENTS // 12 * 12
        found["zoom, frames/s"] = view.evaluate(FRAMES, [1.0, 0.01])
        found["pan, frames/s"] = view.evaluate(FRAMES, [0.3, 0.3])
        view.goto(f"file://{roofline}")
        view.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        found["roofline page, drawn after s"] = view.evaluate("performance.now()") / 1000
        browser.close()
    return found


def main() -> None:
    run, found = timeline(), {}
    began = time.perf_counter()
    text = page([run])
    print(f"page written in {time.perf_counter() - began:.1f} s")
    found["page, MB"] = len(text) / 1e6
    described, packed = re.search(
        r'<script type="application/json">(.*?)</script><script type="text/plain">(.*?)</script>', text, re.DOTALL
    ).groups()
    kind, start, length, _ = json.loads(described)["runs"][0]["columns"]["bytes"]
    size = int(kind[1]) * length
    raw = np.frombuffer(gzip.decompress(base64.b64decode(packed)), np.uint8, size, start)
    moved = np.ascontiguousarray(raw.reshape(-1, length).T).view(f"<{kind}")
    assert int(moved.sum(dtype=np.int64)) == int(run.events.bytes.sum())
    began = time.process_time()
    trace = write_perfetto(run)
    found["Perfetto, s"] = time.process_time() - began
    parsed = Trace()
    parsed.ParseFromString(trace)
    begins = sum(packet.track_event.type == packet.track_event.TYPE_SLICE_BEGIN for packet in parsed.packet)
    assert begins == len(run.events.activity)
    with tempfile.TemporaryDirectory() as folder:
        report, roofline = Path(folder) / "report.html", Path(folder) / "roofline.html"
        report.write_text(text, encoding="utf-8")
        many_points().save(roofline)
        found["roofline page, MB"] = roofline.stat().st_size / 1e6
        found |= open_pages(report, roofline)
    failed = False
    for name, limit in LIMITS.items():
        if name not in found:
            print(f"{name:<30} not measured: no playwright")
            continue
        failed |= found[name] < limit if name in MORE_IS_BETTER else found[name] > limit
        print(f"{name:<30} {found[name]:8.2f}   limit {limit:g}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
