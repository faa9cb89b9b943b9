"""``from_torch``: modules of PyTorch as workloads. Expected figures are arithmetic on the layers' sizes."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import accelsim
from accelsim.errors import FormatError, MissingExtra, UnsupportedOperator
from accelsim.workload.operator import ArrayWork


def macs_by_name(workload: accelsim.Workload) -> dict[str, int]:
    """Multiply-accumulates of the operators that have any."""
    work = {operator.name: operator.whole_work(workload.batch) for operator in workload.operators}
    return {name: one.macs for name, one in work.items() if isinstance(one, ArrayWork)}


def test_without_torch_the_refusal_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"accelsim\[torch\]"):
        accelsim.from_torch(object(), ())


class TestWithTorch:
    @pytest.fixture(autouse=True)
    def torch(self) -> Any:
        self.torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")
        return self.torch

    def trace(self, module: Any, *inputs: Any, **options: Any) -> accelsim.Workload:
        return accelsim.from_torch(module.eval(), inputs, **options)

    def test_a_residual_block(self) -> None:
        torch, nn = self.torch, self.torch.nn

        class Block(nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.conv1 = nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False)
                self.bn1 = nn.BatchNorm2d(32)
                self.conv2 = nn.Conv2d(32, 32, 3, padding="same", groups=4)
                self.bn2 = nn.BatchNorm2d(32)
                self.down = nn.Sequential(nn.Conv2d(16, 32, 1, stride=2, bias=False), nn.BatchNorm2d(32))
                self.relu = nn.ReLU(inplace=True)
                self.fc = nn.Linear(32, 10)

            def forward(self, x: Any) -> Any:
                y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
                y = self.relu(y + self.down(x))
                return self.fc(nn.functional.adaptive_avg_pool2d(y, 1).flatten(1))

        with torch.device("meta"):
            module = Block()
        workload = self.trace(module, torch.empty(1, 16, 28, 28, device="meta"))
        assert macs_by_name(workload) == {
            "conv1": 14 * 14 * 32 * 16 * 9,
            "conv2": 14 * 14 * 32 * 8 * 9,
            "down.0": 14 * 14 * 32 * 16,
            "fc": 320,
        }
        # Normalizations are folded into the convolutions, activations into what comes before them.
        assert [operator.kind for operator in workload.operators].count("elementwise") == 1
        assert {tensor.bits for operator in workload.operators for tensor in operator.parameters} == {32}
        by_eight = self.trace(module, torch.empty(8, 16, 28, 28, device="meta"))
        assert by_eight.batch == 8
        assert by_eight.macs == 8 * workload.macs
        assert self.trace(module, torch.empty(1, 16, 28, 28), bits=8, batch=4).macs == 4 * workload.macs

    @pytest.mark.parametrize("key_heads", [8, 2, 1])
    def test_a_transformer_block_with_grouped_queries(self, key_heads: int) -> None:
        torch, nn = self.torch, self.torch.nn
        steps, width, heads, hidden = 24, 64, 8, 96
        depth = width // heads

        class Block(nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.norm1, self.norm2 = nn.LayerNorm(width), nn.RMSNorm(width)
                self.query, self.out = nn.Linear(width, width), nn.Linear(width, width)
                self.key, self.value = (nn.Linear(width, key_heads * depth, bias=False) for _ in range(2))
                self.up, self.down = nn.Linear(width, 2 * hidden), nn.Linear(hidden, width)

            def forward(self, x: Any) -> Any:
                y = self.norm1(x)
                by_head = [
                    part(y).view(1, steps, count, depth).transpose(1, 2)
                    for part, count in ((self.query, heads), (self.key, key_heads), (self.value, key_heads))
                ]
                y = nn.functional.scaled_dot_product_attention(*by_head, is_causal=True, enable_gqa=True)
                x = x + self.out(y.transpose(1, 2).reshape(1, steps, width))
                gate, value = self.up(self.norm2(x)).chunk(2, dim=-1)
                return x + self.down(nn.functional.silu(gate) * value)

        workload = self.trace(Block().to(torch.bfloat16), torch.empty(1, steps, width, dtype=torch.bfloat16))
        pairs = steps * (steps + 1) // 2  # the causal mask keeps the lower triangle
        attention = "scaled_dot_product_attention"
        assert macs_by_name(workload) == {
            "query": steps * width * width,
            "key": steps * width * key_heads * depth,
            "value": steps * width * key_heads * depth,
            f"{attention}.scores": heads * pairs * depth,
            attention: heads * pairs * depth,
            "out": steps * width * width,
            "up": steps * width * 2 * hidden,
            "down": steps * hidden * width,
        }
        weights = {t.name: (t.shape, t.bits) for operator in workload.operators for t in operator.parameters}
        assert weights["key.weight"] == ((width, key_heads * depth), 16)
        assert {operator.name for operator in workload.operators} >= {"norm1", "norm2"}
        assert not any(operator.kind in ("transpose", "move") for operator in workload.operators)

    def test_attention_written_by_hand_costs_what_the_fused_one_does(self) -> None:
        torch, nn = self.torch, self.torch.nn

        class ByHand(nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, q: Any, k: Any, v: Any) -> Any:
                return torch.softmax(q @ k.transpose(-2, -1) * 0.25, -1) @ v

        class Fused(nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, q: Any, k: Any, v: Any) -> Any:
                return nn.functional.scaled_dot_product_attention(q, k, v)

        inputs = [torch.empty(1, 4, 12, 16) for _ in range(3)]
        by_hand, fused = self.trace(ByHand(), *inputs), self.trace(Fused(), *inputs)
        assert by_hand.macs == fused.macs == 2 * 4 * 12 * 12 * 16
        assert [operator.kind for operator in fused.operators] == ["matmul", "softmax", "matmul"]
        assert [operator.kind for operator in by_hand.operators] == ["matmul", "elementwise", "softmax", "matmul"]

    def test_views_are_free_and_data_that_move_are_not(self) -> None:
        torch, nn = self.torch, self.torch.nn

        class Views(nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, x: Any) -> Any:
                left, right = x.split([2, 4], dim=1)
                joined = torch.cat([right, left], 1)[:, 1:5].permute(0, 2, 1, 3).unsqueeze(1).squeeze(1)
                stacked = torch.stack([x.select(1, 0), x[:, -1]], 1).contiguous()
                return torch.relu(stacked), joined.transpose(-1, -2) + 1, torch.roll(joined, 1, 2)

        workload = self.trace(Views(), torch.empty(1, 6, 5, 7))
        assert [(operator.kind, operator.name, operator.output.shape) for operator in workload.operators] == [
            ("elementwise", "relu", (2, 5, 7)),
            ("transpose", "transpose", (5, 7, 4)),
            ("elementwise", "add", (5, 7, 4)),
            ("move", "roll", (5, 4, 7)),
        ]

    def test_sequences_images_and_tables(self) -> None:
        torch, nn = self.torch, self.torch.nn

        class Several(nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.table = nn.Embedding(50, 16)
                self.rnn = nn.LSTM(16, 8, num_layers=2, bidirectional=True, batch_first=True)
                self.deconv = nn.ConvTranspose2d(1, 4, 2, stride=2)
                self.pool = nn.MaxPool2d(3, 2, 1)

            def forward(self, ids: Any) -> Any:
                y, _ = self.rnn(self.table(ids))
                y = self.pool(self.deconv(y.unsqueeze(1)))
                return nn.functional.interpolate(y, scale_factor=2.0).mean(dim=(2, 3))

        workload = self.trace(Several(), torch.zeros(1, 12, dtype=torch.long))
        macs = macs_by_name(workload)
        assert sum(count for name, count in macs.items() if name.startswith("rnn")) == 12 * 2 * 32 * (16 + 8 + 16 + 8)
        assert macs["deconv"] == 12 * 16 * 4 * 4  # each input element by 2 x 2 weights for 4 filters
        assert {operator.name: operator.output.shape for operator in workload.operators}["pool"] == (4, 12, 16)
        embedding = workload.operators[0]
        assert (embedding.kind, embedding.name) == ("embedding", "table")

    def test_weights_stored_narrower_than_they_are_used(self) -> None:
        torch, nn = self.torch, self.torch.nn

        class Quantized(nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("weight", torch.zeros(8, 16, dtype=torch.int8))

            def forward(self, x: Any) -> Any:
                return nn.functional.linear(x, self.weight.to(x.dtype))

        workload = self.trace(Quantized(), torch.empty(4, 16, dtype=torch.float16))
        (product,) = workload.operators
        assert (product.weights[0].bits, product.output.bits, workload.inputs[0].bits) == (8, 16, 16)
        assert product.weight_bytes == 128
        eight = self.trace(Quantized(), torch.empty(4, 16, dtype=torch.float16), bits=4)
        assert eight.operators[0].output.bits == 4
        assert "4 bits" in eight.notes[0]

    def test_what_is_not_understood_is_named(self) -> None:
        torch, nn = self.torch, self.torch.nn

        class Odd(nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, x: Any) -> Any:
                return torch.linalg.inv(x + 1)

        with pytest.raises(UnsupportedOperator, match=r"linalg_inv.*\[1, 4, 4\].*no rule"):
            self.trace(Odd(), torch.empty(1, 4, 4))
        workload = self.trace(Odd(), torch.empty(1, 4, 4), allow_unsupported=True)
        assert [operator.kind for operator in workload.operators] == ["elementwise", "move"]
        assert "linalg_inv" in workload.notes[0]

        training = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)).train()
        with pytest.raises(UnsupportedOperator, match=r"module\.eval\(\)"):
            accelsim.from_torch(training, (torch.empty(1, 3, 4, 4),))

    def test_what_is_no_module_or_cannot_be_exported_is_refused(self) -> None:
        torch, nn = self.torch, self.torch.nn

        class Branching(nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, x: Any) -> Any:
                return x + 1 if x.sum() > 0 else x

        with pytest.raises(FormatError, match=r"torch\.nn\.Module"):
            accelsim.from_torch(lambda x: x, (torch.empty(1),))
        with pytest.raises(FormatError, match="example_inputs"):
            accelsim.from_torch(Branching(), torch.empty(1))
        with pytest.raises(FormatError, match=r"torch\.export refuses"):
            self.trace(Branching(), torch.empty(1, 4))
        with pytest.raises(FormatError, match=r"torch\.export refuses"):
            self.trace(nn.Linear(3, 4), torch.empty(1, 5))
