"""A part of a model computes what the whole one computes between the same tensors; the official tool cuts the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx.utils
import onnxruntime
import pytest
from hwflow_base.errors import HwflowError

import hwflow.onnx
from hwflow.cli.onnx.extract import ExtractRequest
from hwflow.cli.onnx.extract import extract as command
from hwflow.onnx import evaluate, extract, loads, require_valid, save
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model, Value
from hwflow.onnx.rewrite.extract import Cuts
from hwflow.views.console.terminal import Console
from tests.project.tree import ROOT

#: Branches, a graph that takes `c` from around it, a function that calls another one, two results of one node.
TEXT = """
<ir_version: 10, opset_import: ["" : 21, "own" : 1], metadata_props: ["made_by": "a test"]>
net (float[n, 4] x, float[n, 4] z, bool cond) => (float[n, 4] y, float[n, 2] v)
<float[4] w = {1, 2, 3, 4}, float[1] lost = {5}>
{
  a = Mul (x, w)
  b = own.Twice (a)
  c = Add (b, z)
  p, q = Split <axis = 1, num_outputs = 2> (c)
  v = Sub (p, q)
  d = If (cond) <then_branch = then_graph () => (float[n, 4] t) { t = Neg (c) },
                 else_branch = else_graph () => (float[n, 4] e) { e = Identity (a) }>
  y = Relu (d)
}
<domain: "own", opset_import: ["" : 21, "own" : 1]>
Twice (i) => (o) { k = own.Half (i) o = Sum (i, i, k, k) }
<domain: "own", opset_import: ["" : 21]>
Half (i) => (o) { h = Constant <value = float {0.5}> () o = Mul (i, h) }
<domain: "own", opset_import: ["" : 21]>
Idle (i) => (o) { o = Neg (i) }
"""


@pytest.fixture(scope="module")
def proto() -> onnx.ModelProto:
    return onnx.parser.parse_model(TEXT)


@pytest.fixture(scope="module")
def model(proto: onnx.ModelProto) -> Model:
    return loads(proto.SerializeToString())


def names(values) -> list[str]:
    return [value.name for value in values]


def feeds() -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    return {"x": random.standard_normal((3, 4), np.float32), "z": random.standard_normal((3, 4), np.float32),
            "cond": np.array(True)}


def run(part: Model, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """By onnxruntime, after the official checker and hwflow's own."""
    require_valid(part)
    content = hwflow.onnx.dumps(part)
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    session = onnxruntime.InferenceSession(content)
    outputs = [value.name for value in session.get_outputs()]
    return dict(zip(outputs, session.run(outputs, {v.name: values[v.name] for v in session.get_inputs()}), strict=True))


CUTS = [([], ["b"]), ([], ["c", "v"]), (["a", "z"], ["c"]), (["c"], ["v"]), (["c", "a", "cond"], ["y"]), ([], ["p"]),
        (["p", "c"], ["v"]), (["b", "z"], ["v"]), ([], []), (["d"], ["y"]), (["w", "x"], ["a"])]


@pytest.mark.parametrize("inputs, outputs", CUTS)
def test_a_part_computes_what_the_whole_computes(model: Model, inputs: list[str], outputs: list[str]) -> None:
    every = {name for node in model.graph.nodes for name in node.outputs}
    whole = evaluate(extract(model, None, sorted(every)), feeds()) | feeds() | dict(model.graph.initializers)
    part = extract(model, inputs or None, outputs or None)
    made = run(part, whole)
    assert list(made) == (outputs or ["y", "v"])
    assert names(part.graph.inputs) == (inputs or [n for n in ("x", "z", "cond") if n in names(part.graph.inputs)])
    for name, array in made.items():
        np.testing.assert_array_equal(array, whole[name])


def test_only_what_is_used_stays(model: Model) -> None:
    part = extract(model, None, ["b"])
    assert [node.op_type for node in part.graph.nodes] == ["Mul", "Twice"]
    assert names(part.graph.inputs) == ["x"]
    assert list(part.graph.initializers) == ["w"]
    assert [function.name for function in part.functions] == ["Twice", "Half"]
    assert (part.opsets, part.metadata, part.ir_version) == (model.opsets, {"made_by": "a test"}, 10)
    assert str(part.graph.outputs[0].type.shape) == "('n', 4)"


def test_a_result_that_becomes_an_input_is_not_computed_twice(model: Model) -> None:
    """`p` is given, but the node that makes it is there for `q`."""
    split = extract(model, ["p", "c"], ["v"]).graph.nodes[0]
    assert split.op_type == "Split"
    assert "p" not in split.outputs


@pytest.mark.parametrize("inputs, outputs", [(["x"], ["a"]), (["a", "z"], ["c"]), (["c"], ["v"]), (["d"], ["y"])])
def test_the_official_tool_cuts_the_same(proto: onnx.ModelProto, model: Model, tmp_path: Path, inputs: list[str],
                                         outputs: list[str]) -> None:
    onnx.save(onnx.shape_inference.infer_shapes(proto), tmp_path / "whole.onnx")
    onnx.utils.extract_model(tmp_path / "whole.onnx", tmp_path / "part.onnx", inputs, outputs, check_model=False)
    theirs, ours = hwflow.onnx.load(tmp_path / "part.onnx"), extract(model, inputs, outputs)
    assert [node.outputs for node in ours.graph.nodes] == [node.outputs for node in theirs.graph.nodes]
    assert set(ours.graph.initializers) == set(theirs.graph.initializers)
    for mine, other in ((ours.graph.inputs, theirs.graph.inputs), (ours.graph.outputs, theirs.graph.outputs)):
        assert [(v.name, v.type) for v in mine] == [(v.name, v.type) for v in other]


def test_every_tensor_of_a_shipped_model(tmp_path: Path) -> None:
    """Cut at each tensor in turn: both parts, one after the other, are the whole."""
    model = hwflow.onnx.load(ROOT / "models" / "digits_cnn.onnx")
    source, end = model.graph.inputs[0], model.graph.outputs[0].name
    x = np.random.default_rng(2).random(source.type.shape, np.float32)
    whole = evaluate(model, {source.name: x})[end]
    for name in (name for node in model.graph.nodes[:-1] for name in node.outputs):
        front, rest = extract(model, None, [name]), extract(model, [name], None)
        middle = run(front, {source.name: x})
        np.testing.assert_allclose(run(rest, middle)[end], whole, rtol=1e-5, atol=1e-5)


WRONG = {
    ((), ("cc",)): "the graph must have the tensor 'cc' to be cut there, and does not; see the names "
                   "with `hwflow info`",
    ((), ("t",)): "the graph must have the tensor 't' to be cut there, and does not; it is inside of the node 'd' "
                  "(If), which can only be cut as a whole",
    ((), ("x",)): "an output of the part must be the result of a node, and 'x' is an input of the model; name a tensor "
                  "after it",
    ((), ("w",)): "an output of the part must be the result of a node, and 'w' is a constant of the model; name a "
                  "tensor after it",
    (("a",), ("a",)): "'a' must be an input or an output of the part, not both",
    (("v",), ("c",)): "an input of the part must be in front of an output: no output of 'c' depends on 'v', or only "
                      "through the other inputs",
    (("a", "b", "z"), ("c",)): "an input of the part must be in front of an output: no output of 'c' depends on 'a', "
                               "or only through the other inputs",
    (("b",), ("v",)): "the inputs of the part must be all that its outputs depend on, and 'z' is missing (the node 'c' "
                      "(Add) reads 'z'); cut there too: --from z",
    (("z",), ("y",)): "the inputs of the part must be all that its outputs depend on, and 'x', 'cond' are missing (the "
                      "node 'a' (Mul) reads 'x'); cut there too: --from x --from cond",
}


@pytest.mark.parametrize("cut", WRONG)
def test_what_cannot_be_cut(model: Model, cut: tuple[tuple[str, ...], tuple[str, ...]]) -> None:
    with pytest.raises(HwflowError) as caught:
        extract(model, cut[0] or None, cut[1])
    assert str(caught.value) == WRONG[cut]


def test_near_names_and_names_of_nodes() -> None:
    b = Builder()
    b.output(b.node("Relu", b.node("Neg", b.input("x", np.float32, (2,)), name="first", output="neg_result")))
    model = b.model()
    for name, meant in (("first", "a node has that name, and its results are 'neg_result'"),
                        ("neg_resul", "perhaps 'neg_result' is meant, else see the names with `hwflow info`")):
        with pytest.raises(HwflowError, match=f"the graph must have the tensor '{name}' .*; {meant}"):
            extract(model, None, [name])


def test_the_command_that_a_message_names(model: Model) -> None:
    cuts = Cuts(model.graph)
    commands = {node.outputs[0]: cuts.command(node) for node in model.graph.nodes}
    assert commands["c"] == "`hwflow onnx extract MODEL front.onnx --to b`"
    assert commands["a"] == "`hwflow onnx extract MODEL rest.onnx --from a`"
    assert commands["d"] == "`hwflow onnx extract MODEL front.onnx --to c --to a`"


def test_a_command_leaves_a_layer_of_the_network() -> None:
    """What is in front of the node only moves the input, so the part behind it is the network."""
    b = Builder()
    turned = b.node("Transpose", b.input("x", np.float32, (2, 2)), output="turned")
    made = b.node("CumSum", turned, b.constant("axis", np.array(0)), output="made")
    b.output(b.node("MatMul", made, b.constant("w", np.eye(2, dtype=np.float32)), output="y"))
    graph = b.model().graph
    assert Cuts(graph).command(graph.nodes[1]) == "`hwflow onnx extract MODEL rest.onnx --from made`"


def test_a_command_leaves_a_part_that_is_worth_it() -> None:
    """A node between a small layer and a large one: the large one is kept; between two small ones of a large model
    there is nothing to keep."""
    rng, b = np.random.default_rng(0), Builder()
    sizes = {"small": (4, 4), "large": (4, 40), "last": (40, 4)}
    w = {name: b.constant(name, rng.normal(size=size).astype(np.float32)) for name, size in sizes.items()}
    first = b.node("Det", b.node("MatMul", b.input("x", np.float32, (4, 4)), w["small"], output="y"), output="z")
    wide = b.node("MatMul", first, w["large"], output="wide")
    b.output(b.node("MatMul", wide, w["last"], output="end"))
    graph = b.model().graph
    assert Cuts(graph).command(graph.nodes[1]) == "`hwflow onnx extract MODEL rest.onnx --from z`"
    alone = replace(graph, nodes=graph.nodes[:2], outputs=(Value("z", None),))
    assert Cuts(alone).command(alone.nodes[1]) == "`hwflow onnx extract MODEL front.onnx --to y`"
    both = Builder()
    x, large = both.input("x", np.float32, (4, 4)), both.constant("large", np.zeros((4, 400), np.float32))
    both.output(both.node("MatMul", x, large, output="body"))
    end = both.node("Det", both.node("MatMul", x, both.constant("w", np.eye(4, dtype=np.float32)), output="y"))
    both.output(end)
    graph = both.model().graph
    assert Cuts(graph).command(graph.nodes[-1]) == ""


def test_a_part_does_not_replace_its_model(model: Model, tmp_path: Path) -> None:
    source = tmp_path / "whole.onnx"
    save(model, source)
    before = source.read_bytes()
    with pytest.raises(HwflowError, match="the part must not replace the model that it is cut from; choose another"):
        command(Console(), ExtractRequest(source, tmp_path / "." / "whole.onnx", outputs=("b",)))
    assert source.read_bytes() == before
