"""Recipes: random graphs, parameters, and the library that finds them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelsim.errors import FormatError, UnknownName, WorkloadError
from accelsim.library import load_workload, shipped_onnx
from accelsim.workload.models import RECIPES, build
from accelsim.workload.models.builder import Builder
from accelsim.workload.models.randwire import watts_strogatz


def edges_of(predecessors: list[list[int]]) -> set[tuple[int, int]]:
    return {(earlier, node) for node, row in enumerate(predecessors) for earlier in row}


class TestWattsStrogatz:
    @settings(max_examples=50, deadline=None)
    @given(nodes=st.integers(3, 40), half=st.integers(1, 4), probability=st.floats(0, 1), seed=st.integers(0, 99))
    def test_rewiring_keeps_the_number_of_edges(self, nodes: int, half: int, probability: float, seed: int) -> None:
        if 2 * half >= nodes:
            return
        rows = watts_strogatz(nodes, 2 * half, probability, np.random.default_rng(seed))
        assert len(edges_of(rows)) == nodes * half
        assert all(row == sorted(set(row)) and all(0 <= one < node for one in row) for node, row in enumerate(rows))

    def test_without_rewiring_it_is_the_ring(self) -> None:
        rows = watts_strogatz(6, 4, 0, np.random.default_rng(0))
        assert rows == [[], [0], [0, 1], [1, 2], [0, 2, 3], [0, 1, 3, 4]]

    def test_with_full_rewiring_few_edges_of_the_ring_are_left(self) -> None:
        """Each edge moves to one of N - 1 - degree nodes; it ends on the ring again with a chance of about 4 in 27."""
        ring = edges_of(watts_strogatz(32, 4, 0, np.random.default_rng(0)))
        kept = [len(ring & edges_of(watts_strogatz(32, 4, 1, np.random.default_rng(seed)))) for seed in range(50)]
        assert 2 < np.mean(kept) < 16  # of 64

    @pytest.mark.parametrize(
        ("nodes", "neighbours", "probability"),
        [(32, 3, 0.5), (32, 0, 0.5), (4, 4, 0.5), (32, 4, -0.1), (32, 4, 1.1), (32, 4, float("nan"))],
    )
    def test_refusals(self, nodes: int, neighbours: int, probability: float) -> None:
        with pytest.raises(WorkloadError):
            watts_strogatz(nodes, neighbours, probability, np.random.default_rng(0))


class TestRandwire:
    def test_a_seed_decides_everything(self) -> None:
        first, again, other = (build("randwire.randwire", {"seed": seed}) for seed in (5, 5, 6))
        assert first.digest == again.digest
        assert first.digest != other.digest

    @pytest.mark.parametrize("regime", ["small", "regular"])
    def test_nodes_and_stages(self, regime: str) -> None:
        network = build("randwire.randwire", {"regime": regime, "seed": 3})
        stages = {"small": {3: 78, 4: 156, 5: 312}, "regular": {2: 109, 3: 218, 4: 436, 5: 872}}[regime]
        for stage, channels in stages.items():
            nodes = 16 if stage == 2 else 32
            outputs = [one for one in network.operators if one.name.startswith(f"stage{stage}_node")]
            pointwise = [one for one in outputs if one.name.endswith("_pointwise")]
            size = 224 >> stage
            assert [one.output.shape for one in pointwise] == [(channels, size, size)] * nodes
            # Every edge is one operand: of a sum, or of the node itself if it has a single predecessor.
            reads = [one for one in outputs if one.name.endswith("_sum")]
            single = [
                one for one in outputs if one.name.endswith("_depthwise")
                and one.producers()[0].endswith("_pointwise")
            ]  # fmt: skip
            assert sum(len(one.operands) for one in reads) + len(single) == 2 * nodes
            # A stage ends in the average of all that no node reads.
            average = network.operator(f"stage{stage}_average")
            read = {name for one in outputs for name in one.producers()}
            assert set(average.producers()) == {one.name for one in pointwise} - read

    def test_the_image_shrinks_five_times(self) -> None:
        network = build("randwire.randwire", {})
        assert network.operator("pool").operands[0].shape == (1280, 7, 7)
        assert network.operators[-1].output.shape == (1000, 1, 1)


class TestParameters:
    @pytest.mark.parametrize(
        ("model", "parameters", "words"),
        [
            ("cnn.resnet", {"bits": 0}, "0 bits per element"),
            ("cnn.inception_resnet_v1", {"image_size": 60}, "does not fit"),
            ("randwire.randwire", {"regime": "tiny"}, "expected one of"),
            ("randwire.randwire", {"seed": -1}, "seed is -1"),
            ("randwire.randwire", {"probability": "high"}, "expected a number"),
            ("transformer.gpt2_prefill", {"heads": 7}, "7 heads do not share 768 features evenly"),
            ("transformer.gpt2_prefill", {"heads": 0}, "0 heads"),
            ("transformer.gpt2_prefill", {"sequence_length": 0}, "every size must be a whole number >= 1"),
            ("transformer.gpt2_prefill", {"sequence_length": True}, "expected a whole number"),
            ("transformer.gpt2_prefill", {"sequence_length": 10**12}, "is a size wrong?"),
            ("transformer.gpt2_decode", {"sequence_length": 1}, "at least one cached token"),
        ],
    )
    def test_values_out_of_range(self, model: str, parameters: dict[str, object], words: str) -> None:
        with pytest.raises(WorkloadError) as caught:
            build(model, parameters)
        assert words in str(caught.value)

    def test_every_recipe_runs_with_its_defaults(self) -> None:
        assert all(build(model, {}).macs > 0 for model in RECIPES if not model.startswith("micro."))


def test_the_builder_pads_as_asked() -> None:
    net = Builder()
    image = net.input("x", (3, 11, 8))
    assert net.shape(net.conv("same", image, 4, (3, 2), 2)) == (4, 6, 4)
    assert net.shape(net.conv("none", image, 4, (3, 2), 2, same=False)) == (4, 5, 4)
    assert net.shape(["same", "same"]) == (8, 6, 4)
    with pytest.raises(WorkloadError, match="does not fit"):
        net.pool("large", image, (9, 9), 1, same=False)


class TestLibrary:
    def test_by_name_and_by_path(self, tmp_path: Path) -> None:
        named = load_workload("soma.gpt2_small_decode", sequence_length=1025, batch=2)
        assert (named.name, named.batch, named.inputs[2].shape) == ("soma.gpt2_small_decode", 2, (1024, 768, 1))
        path = tmp_path / "block.yaml"
        path.write_text(
            "kind: recipe\ndescription: d\nmodel: transformer.gpt2_prefill\n"
            "parameters: {sequence_length: 8}\nbatch: 3\n"
        )
        assert load_workload(str(path)).batch == 3
        assert load_workload(path, batch=1).inputs[0].shape == (768, 8, 1)

    @pytest.mark.parametrize(
        ("name", "error", "words"),
        [
            ("soma.resnet5", UnknownName, "did you mean 'soma.resnet50'"),
            ("", UnknownName, "no workload ''"),
            ("net.txt/", FormatError, "suffix '.txt'"),
            ("folder/net.txt", FormatError, "no format of workloads has the suffix '.txt'"),
            ("folder/net.json", FormatError, "no such file"),
            ("net.yaml", FormatError, "no such file"),
        ],
    )
    def test_what_is_not_there(self, name: str, error: type[Exception], words: str) -> None:
        with pytest.raises(error) as caught:
            load_workload(name)
        assert words in str(caught.value)

    def test_parameters_that_a_workload_does_not_have(self) -> None:
        with pytest.raises(UnknownName, match="no parameter 'sequence_length'"):
            load_workload("soma.resnet50", sequence_length=3)
        with pytest.raises(UnknownName, match="no parameter 'bits'"):
            load_workload("soma.randwire_small", bits=4)
        with pytest.raises(WorkloadError, match="batch is 0"):
            load_workload("soma.resnet50", batch=0)

    def test_networks_of_the_onnx_package(self) -> None:
        assert load_workload(shipped_onnx("resnet50")).macs > 3e9
        with pytest.raises(UnknownName, match="did you mean 'vgg19'"):
            shipped_onnx("vgg16")
