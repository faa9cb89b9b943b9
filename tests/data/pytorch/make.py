"""How the traces in this folder were made (PyTorch 2.14.1, CPU): one training step of a small network.

Run with a Python that has torch; it writes profile.json.gz and execution_trace.json.gz beside itself.
"""

import gzip
import json
import tempfile
from pathlib import Path

import torch
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile

HERE = Path(__file__).parent
PRIVATE = ("host_name", "trace_id", "traceName", "deviceProperties")

torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
    torch.nn.Linear(8 * 16 * 16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10),
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
images, labels = torch.randn(32, 3, 16, 16), torch.randint(0, 10, (32,))


def step() -> None:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()


for _ in range(3):
    step()
with tempfile.TemporaryDirectory() as folder:
    observer = ExecutionTraceObserver()
    observer.register_callback(f"{folder}/execution_trace.json")
    with profile(activities=[ProfilerActivity.CPU], execution_trace_observer=observer) as profiler:
        step()
    profiler.export_chrome_trace(f"{folder}/profile.json")
    for name in ("profile", "execution_trace"):
        content = json.loads(Path(folder, f"{name}.json").read_text())
        for key in PRIVATE:
            content.pop(key, None)
        packed = gzip.compress(json.dumps(content, separators=(",", ":")).encode(), 9, mtime=0)
        (HERE / f"{name}.json.gz").write_bytes(packed)
