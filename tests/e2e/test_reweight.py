"""A retrained model for a routed design: what is kept beside the design, what fits it, and the whole way once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import AnswerIsNo, HwflowError, MissingTool

from hwflow import golden, onnx
from hwflow.cli.reweight import ReweightRequest, reweight
from hwflow.cli.synth import SynthRequest, synth
from hwflow.options import HardwareOptions, Project
from hwflow.pipeline.pipeline import Pipeline
from hwflow.pipeline.routed_design import RoutedDesign, keep_design
from hwflow.quantize import load_quantized
from hwflow.reweight.retrained import Retrained
from hwflow.synth.toolchain import tools_of_family
from hwflow.views.console.terminal import Console

MODELS = Path(__file__).parents[2] / "models"
FIRST, DATA = MODELS / "digits_mlp.onnx", MODELS / "digits_mlp.npz"


def retrained(path: Path, spread: float = 0.05, seed: int = 1) -> Path:
    """The first model with every number changed by about `spread` of it."""
    model, random = onnx.load(FIRST), np.random.default_rng(seed)
    changed = {name: (array * (1 + spread * random.standard_normal(array.shape))).astype(array.dtype)
               if array.dtype.kind == "f" else array for name, array in model.graph.initializers.items()}
    onnx.save(replace(model, graph=replace(model.graph, initializers=changed)), path)
    return path


HARDWARE = HardwareOptions("icebreaker", interval=2200, reweightable=True)


def project(model: Path, build: Path) -> Project:
    return Project(model, data=DATA, build=build)


def first_flow(build: Path) -> Pipeline:
    return Pipeline(Console(quiet=True), project(FIRST, build), hardware=HARDWARE)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build folder with what a routed design was made of, but without the design."""
    build = tmp_path_factory.mktemp("build")
    pipeline = first_flow(build)
    keep_design(pipeline.quantized, pipeline.plan, pipeline.folder / "icebreaker" / "synth", reweightable=True)
    return build


def of(model: Path, build: Path) -> Retrained:
    return Retrained(Console(quiet=True), project(model, build), "icebreaker", build / FIRST.stem)


def test_what_was_kept_is_the_same_plan(first: Path) -> None:
    pipeline = first_flow(first)
    design = RoutedDesign.of(pipeline.folder / "icebreaker" / "synth", pipeline.board)
    assert design.reweightable
    assert design.plan == pipeline.plan
    assert design.graph == pipeline.structure
    assert "range" in design.settings


def test_the_retrained_model_has_its_own_weights_and_the_first_ones_scales(first: Path, tmp_path: Path) -> None:
    other = of(retrained(tmp_path / "retrained.onnx"), first)
    graph, quantized = other.fitted
    base = other.routed.graph
    assert [t.scale for t in graph.tensors.values()] == [t.scale for t in base.tensors.values()]
    assert not np.array_equal(graph.layers[0].weights, base.layers[0].weights)
    data = np.load(DATA)
    rows = {name[3:]: data[name][:20] for name in data.files if name.startswith("in_")}
    frames = golden.run_prologue(quantized, rows)
    expected, found = (golden.run(g, frames)[g.outputs[0]] for g in (quantized.graph, graph))
    assert np.array_equal(expected, found)


def test_the_order_of_questions_changes_no_answer(first: Path, tmp_path: Path) -> None:
    path = retrained(tmp_path / "retrained.onnx")
    found = []
    for names in (("quantized", "choices", "graph", "fitted"), ("fitted", "graph", "choices", "quantized")):
        other = of(path, first)
        answers = {name: getattr(other if name == "fitted" else other.pipeline, name) for name in names}
        found.append((answers["choices"], answers["graph"], answers["quantized"].graph, answers["fitted"][0]))
        assert answers["graph"] is answers["quantized"].graph is answers["fitted"][1].graph
    assert found[0] == found[1]


def test_another_host_program_behind_the_same_integers_is_kept(first: Path, tmp_path: Path) -> None:
    path = retrained(tmp_path / "retrained.onnx")
    graph = (model := onnx.load(path)).graph
    (name,) = (output.name for output in graph.outputs)
    nodes = [replace(node, outputs=tuple("sums" if o == name else o for o in node.outputs)) for node in graph.nodes]
    for operator in ("Softmax", "LogSoftmax"):
        last = replace(nodes[-1], op_type=operator, name="", inputs=("sums",), outputs=(name,), attributes={})
        onnx.save(replace(model, graph=replace(graph, nodes=(*nodes, last))), path)
        kept = load_quantized(of(path, first).keep_integers())
        assert operator in {node.op_type for node in kept.epilogue.graph.nodes}


def test_a_model_that_does_not_fit_is_refused_with_its_layers(first: Path, tmp_path: Path) -> None:
    other = of(retrained(tmp_path / "wild.onnx", spread=30.0), first)
    with pytest.raises(AnswerIsNo, match=r"fit the routed design(.|\n)*layer 'dense1': ratios must"
                                         r"(.|\n)*route it again"):
        _ = other.fitted


def test_another_architecture_is_the_answer_no(first: Path) -> None:
    with pytest.raises(AnswerIsNo, match=r"digits_cnn.onnx' must have the layers of the first model: .*dense1 must "
                                         r"name a node(.|\n)*route it again"):
        _ = of(MODELS / "digits_cnn.onnx", first).fitted


def test_a_quantized_model_for_a_design_of_real_numbers(first: Path, tmp_path: Path) -> None:
    path = tmp_path / "integers.onnx"
    pipeline = first_flow(first)
    onnx.save(pipeline.quantized.qdq, path)
    with pytest.raises(AnswerIsNo, match=r"must come with real numbers, as the first model did, not quantized; place"):
        _ = of(path, first).fitted


def test_without_a_routed_design_nothing_starts(tmp_path: Path) -> None:
    with pytest.raises(HwflowError, match=r"--base '.*digits_mlp\.onnx' must be a model that was synthesized"):
        reweight(Console(quiet=True), ReweightRequest(project(FIRST, tmp_path), FIRST, "icebreaker"))
    (tmp_path / FIRST.stem).mkdir()
    with pytest.raises(HwflowError, match="must hold a routed design and what it was made of; run `hwflow synth"):
        reweight(Console(quiet=True), ReweightRequest(project(FIRST, tmp_path), FIRST, "icebreaker"))


@pytest.mark.slow
def test_the_whole_way(tmp_path: Path) -> None:
    """The netlist with the new weights gives the retrained model's bytes through the pins of the board."""
    try:
        tools_of_family("ice40")
    except MissingTool as error:
        pytest.skip(str(error))
    build = tmp_path / "build"
    synth(Console(quiet=True), SynthRequest(project(FIRST, build), hardware=HARDWARE))
    model = retrained(tmp_path / "retrained.onnx")
    result = reweight(Console(quiet=True), ReweightRequest(project(model, build), FIRST, "icebreaker", netlist=True,
                                                           frames=2))
    assert result["exit_code"] == 0
    assert result["proof"]["equal"]
    assert result["changed"] > 20
    first, second = (json.loads((build / FIRST.stem / place / "icebreaker" / "synth" / "identity.json").read_text())
                     for place in (".", "reweighted/retrained"))
    assert first["identity"] != second["identity"]
    assert {**first, "identity": 0, "quantized": 0} == {**second, "identity": 0, "quantized": 0}
    bitstreams = [(build / FIRST.stem / place / "icebreaker" / "synth" / "bitstream" / "top.bin").read_bytes()
                  for place in (".", "reweighted/retrained")]
    assert len(bitstreams[0]) == len(bitstreams[1])
    assert bitstreams[0] != bitstreams[1]
