"""Conversion of whole models: graphs in attributes, functions, training, several operator sets, refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hwflow import onnx
from hwflow.onnx import Graph, Model, Node, Value, convert_opset
from hwflow.onnx.build import Builder, make_graph, make_model, make_node, tensor_type
from hwflow.onnx.errors import ConversionError
from hwflow.onnx.model import AttributeRef, Function, Training
from hwflow.onnx.rules.finding import Severity
from tests.onnx.forms.form import Case
from tests.onnx.forms.learning import case, classic, forest, rows

X = np.random.default_rng(2).normal(size=(2, 3, 4)).astype(np.float32)
FLOAT = tensor_type(np.float32, (2, 3, 4))
INTS = 7  # AttributeProto.AttributeType


def softmax_over_rest(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=(1, 2), keepdims=True))
    return e / e.sum(axis=(1, 2), keepdims=True)


def checked(model: Model, feeds: dict[str, Any], **expected: Any) -> Model:
    assert [str(f) for f in onnx.check(model) if f.severity is Severity.ERROR] == []
    found = onnx.evaluate(model, feeds)
    for name, array in expected.items():
        assert found[name].dtype == np.asarray(array).dtype
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)
    return model


def branch(op: str) -> Graph:
    """Reads `x` of the graph around it."""
    return make_graph([make_node(op, ["x"], ["b"], name="inner")], [], [Value("b", None)])


def test_graphs_in_attributes_are_converted_with_the_types_around_them() -> None:
    b = Builder()
    x, c = b.input("x", np.float32, X.shape), b.input("c", np.bool_, ())
    b.output(b.node("If", c, then_branch=branch("Softmax"), else_branch=branch("Neg"), output="y"), np.float32, X.shape)
    made = convert_opset(b.model(opset=11), 28)
    checked(made, {x: X, c: np.array(True)}, y=softmax_over_rest(X))
    checked(made, {x: X, c: np.array(False)}, y=-X)
    (node,) = made.graph.nodes
    then, other = node.attributes["then_branch"], node.attributes["else_branch"]
    assert isinstance(then, Graph)
    assert [n.op_type for n in then.nodes] == ["Flatten", "Softmax", "Constant", "Reshape"]  # the shape is known
    assert isinstance(other, Graph)
    assert other.nodes == branch("Neg").nodes


def scan(lengths: np.ndarray | None, **attributes: Any) -> Model:
    """Version 8: running sums of `x` [batch, steps, 2] from `start` [batch, 2], and each sum doubled."""
    row = tensor_type(np.float32, (2,))
    nodes = [make_node("Add", ["s", "r"], ["sum"]), make_node("Add", ["sum", "sum"], ["twice"])]
    body = make_graph(nodes, [Value("s", row), Value("r", row)], [Value("sum", row), Value("twice", row)])
    b = Builder()
    names = (b.constant("lengths", lengths) if lengths is not None else "",
             b.input("start", np.float32, (2, 2)), b.input("x", np.float32, (2, 3, 2)))  # fmt: skip
    for name in b.nodes("Scan", *names, outputs=("last", "all"), body=body, num_scan_inputs=1, **attributes):
        b.output(name, np.float32)
    return b.model(opset=8)


@pytest.mark.parametrize("target", [9, 13, 28])
def test_scan_over_a_batch(target: int) -> None:
    rows, start = X.reshape(2, 2, 6)[:, :, :6].reshape(2, 6, 2)[:, :3], X[:, 0, :2]
    sums = start[:, None] + rows.cumsum(1)
    feeds = {"start": start, "x": rows}
    checked(convert_opset(scan(None), target), feeds, last=sums[:, -1], all=2 * sums)
    shorter = 2 * sums
    shorter[1, 2:] = 0
    last = np.stack([sums[0, 2], sums[1, 1]])
    checked(convert_opset(scan(np.int64([3, 2])), target), feeds, last=last, all=shorter)
    back = start[:, None] + rows[:, ::-1].cumsum(1)
    checked(convert_opset(scan(None, directions=[1]), target), feeds, last=back[:, -1], all=2 * back)


def function(nodes: list[Node], **fields: Any) -> Function:
    return replace(Function("F", "local", ("a",), ("b",), tuple(nodes), {"": 11}), **fields)


def calling(made: Function, *calls: Node, opset: int = 11) -> Model:
    values = [name for call in calls for name in call.outputs]
    graph = make_graph(calls, [Value("x", FLOAT)], [Value(name, tensor_type(np.float32)) for name in values])
    return replace(make_model(graph, opset=opset, opsets={"local": 1}), functions=(made,))


def test_functions_have_operator_sets_of_their_own() -> None:
    made = function([make_node("Softmax", ["a"], ["s"]), make_node("Split", ["s"], ["b", "rest"], axis=2)])
    model = calling(made, make_node("F", ["x"], ["y"], domain="local"), opset=13)
    converted = checked(convert_opset(model, 21), {"x": X}, y=softmax_over_rest(X)[..., :2])
    assert converted.functions[0].opsets == {"": 21}
    assert converted.opsets == {"": 21, "local": 1}
    assert convert_opset(converted, 21) is converted


def test_an_attribute_of_the_call_becomes_an_input() -> None:
    body = [Node("ReduceMean", ("a",), ("b",), {"axes": AttributeRef("axes", INTS), "keepdims": 0})]
    made = function(body, attributes=("axes",), opsets={"": 15})
    calls = (make_node("F", ["x"], [f"y{axis}"], domain="local", axes=[axis]) for axis in (0, 2))
    converted = convert_opset(calling(made, *calls, opset=15), 21)
    checked(converted, {"x": X}, y0=X.mean(0), y2=X.mean(2))


def test_an_attribute_of_the_call_that_decides_the_form_is_refused() -> None:
    made = function([Node("Softmax", ("a",), ("b",), {"axis": AttributeRef("axis", 2)})], attributes=("axis",))
    call = make_node("F", ["x"], ["y"], domain="local", axis=1)
    with pytest.raises(ConversionError, match=r"'axis' is what each call of the function(.|\n)*inline the model's"):
        convert_opset(calling(made, call), 13)
    checked(convert_opset(onnx.inline_functions(calling(made, call)), 13), {"x": X}, y=softmax_over_rest(X))


def test_a_function_whose_body_is_called_with_two_ranks() -> None:
    """The rank that the calls do not share is computed."""
    made = function([make_node("Softmax", ["a"], ["b"])])
    calls = [make_node("F", ["x"], ["y"], domain="local"), make_node("Squeeze", ["z"], ["w"]),
             make_node("F", ["w"], ["v"], domain="local")]  # fmt: skip
    graph = make_graph(
        calls,
        [Value("x", FLOAT), Value("z", tensor_type(np.float32, (1, 2, 12)))],
        [Value(name, tensor_type(np.float32)) for name in ("y", "v")],
    )
    model = replace(make_model(graph, opset=11, opsets={"local": 1}), functions=(made,))
    converted = convert_opset(model, 13)
    expected = softmax_over_rest(X)
    checked(converted, {"x": X, "z": X.reshape(1, 2, 12)}, y=expected, v=expected.reshape(2, 12))
    assert "Shape" in [node.op_type for node in converted.functions[0].nodes]


def test_training_graphs() -> None:
    b = Builder()
    b.input("x", np.float32, X.shape)
    b.output(b.node("Mul", "x", b.constant("w", np.float32(2)), output="y"), np.float32)
    step = make_graph([make_node("ReduceSum", ["y"], ["new"], axes=[0, 1, 2], keepdims=0)], [], [Value("new", None)])
    model = b.model(opset=12)
    model = replace(model, training=(Training(None, {}, step, {"w": "new"}),))
    converted = convert_opset(model, 13)
    trainer = onnx.Trainer(converted)
    trainer.step({"x": X})
    (algorithm,) = (training.algorithm for training in converted.training)
    assert algorithm is not None
    assert [node.op_type for node in algorithm.nodes] == ["Constant", "ReduceSum"]
    assert trainer.infer({"x": X})["y"] == pytest.approx(X * (2 * X).sum(), rel=1e-5)


def label_encoder(x: Any, **attributes: Any) -> Model:
    b = Builder()
    b.input("x", np.asarray(x).dtype, None)
    b.output(b.node("LabelEncoder", "x", domain="ai.onnx.ml", output="y", **attributes))
    return b.model(opset=12, opsets={"ai.onnx.ml": 1})


def test_ai_onnx_ml() -> None:
    words, numbers = np.array(["b", "?"], np.object_), np.int64([1, 7])
    classes: dict[str, Any] = {"classes_strings": ["a", "b"], "default_string": "none", "default_int64": -9}
    for target in (2, 4, 5):
        converted = convert_opset(label_encoder(words, **classes), {"ai.onnx.ml": target})
        assert converted.opsets == {"": 12, "ai.onnx.ml": target}
        assert onnx.evaluate(converted, {"x": words})["y"].tolist() == [1, -9]
        converted = convert_opset(label_encoder(numbers, **classes), {"ai.onnx.ml": target, "ai.onnx": 13})
        assert onnx.evaluate(converted, {"x": numbers})["y"].tolist() == ["b", "none"]


def test_dropout_that_drops() -> None:
    b = Builder()
    b.input("x", np.float32, (1000,))
    for name in b.nodes("Dropout", "x", ratio=0.25, name="drop", outputs=("y", "mask")):
        b.output(name, np.float32)
    with pytest.raises(ConversionError, match=r"'drop' .*as in training .*is_test=0(.|\n)*set 12 or newer"):
        convert_opset(b.model(opset=6), 11)
    found = onnx.evaluate(convert_opset(b.model(opset=6), 28), {"x": np.ones(1000, np.float32)})
    assert 700 < found["mask"].sum() < 800
    np.testing.assert_allclose(found["y"], found["mask"] / 0.75, rtol=1e-6)


def test_all_refusals_in_one_message_with_their_places() -> None:
    b = Builder()
    x = b.input("x", np.float32, (1, 1, 4, 4))
    scales = b.constant("scales", np.float32([1, 1, 2, 2]))
    roi = b.constant("roi", np.float32([]))
    mode = {"coordinate_transformation_mode": "tf_half_pixel_for_nn"}
    b.output(b.node("Resize", x, roi, scales, name="first", mode="linear", **mode), np.float32)
    b.output(b.node("Resize", x, roi, scales, name="second", nearest_mode="ceil", **mode), np.float32)
    with pytest.raises(ConversionError) as caught:
        convert_opset(b.model(opset=11), 13)
    assert str(caught.value) == (
        "2 nodes have no form with the same meaning in ai.onnx 13:\n"
        "  graph/node[0] 'first' (Resize), Resize of operator set 11: no coordinates from version 13 on are those of "
        "tf_half_pixel_for_nn with mode 'linear' and nearest_mode 'round_prefer_floor'\n"
        "    export the model with coordinate_transformation_mode half_pixel\n"
        "  graph/node[1] 'second' (Resize), Resize of operator set 11: no coordinates from version 13 on are those of "
        "tf_half_pixel_for_nn with mode 'nearest' and nearest_mode 'ceil'\n"
        "    export the model with coordinate_transformation_mode half_pixel"
    )


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (0, "the version of ai.onnx must be 1 to 28, not 0; choose one that hwflow knows"),
        ({"ai.onnx.ml": 6}, "the version of ai.onnx.ml must be 1 to 5, not 6; choose one that hwflow knows"),
        ({"com.acme": 2}, "the operator set to convert must be ai.onnx or ai.onnx.ml, not 'com.acme'; "
                          "other operator sets have one version only"),
    ],
)  # fmt: skip
def test_versions_that_there_are_not(target: Any, message: str) -> None:
    with pytest.raises(ConversionError) as caught:
        convert_opset(calling(function([])), target)
    assert str(caught.value) == message


def test_a_file_older_than_operator_sets() -> None:
    b = Builder()
    b.output(b.node("Concat", b.input("x", np.float32, X.shape), "x", output="y"), np.float32, (2, 6, 4))
    converted = convert_opset(replace(b.model(), opsets={}, ir_version=2), 13)
    checked(converted, {"x": X}, y=np.concatenate([X, X], 1))
    assert (converted.opsets, converted.ir_version) == ({"": 13}, 7)


def test_nodes_that_mean_the_same_stay_the_same_objects() -> None:
    b = Builder()
    x = b.node("Relu", b.input("x", np.float32, (2,)))
    b.output(b.node("Neg", x), np.float32)
    model = b.model(opset=7)
    converted = convert_opset(model, 28)
    assert converted.graph is model.graph
    assert (converted.opsets[""], converted.ir_version) == (28, 14)


def test_trees_become_the_new_operator() -> None:
    for op, how in (("TreeEnsembleRegressor", forest("target", 1, n_targets=1)),
                    ("TreeEnsembleClassifier", forest("class", 3, classlabels_int64s=[5, 7, 9]))):  # fmt: skip
        outputs = 1 if op == "TreeEnsembleRegressor" else 2
        made = convert_opset(case(op, 1, rows(5, 4), outputs=outputs, attributes=how).model()[0], {"ai.onnx.ml": 5})
        assert "TreeEnsemble" in [node.op_type for node in made.graph.nodes]


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (classic(aggregate_function="MIN", target_nodeids=[1, 1]), "a leaf of tree 0 has no vote"),
        (classic(base_values=[1.0], post_transform="PROBIT"), "post_transform PROBIT after base values"),
        (classic(nodes_falsenodeids=[0, 0, 0]), "several ways lead to node 0 of tree 0"),
        (classic(nodes_values=[0.5]), "'nodes_values' must have 3 elements, not 1"),
    ],
)
def test_trees_that_have_no_form(one: Case, why: str) -> None:
    with pytest.raises(ConversionError, match=why):
        convert_opset(one.model()[0], {"ai.onnx.ml": 5})
