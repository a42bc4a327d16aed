"""The exact finding for each rule, and all of them at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwflow.errors import HwflowError
from hwflow.onnx import Finding, Graph, Model, Severity, TensorType, Value, check, require_valid
from hwflow.onnx.build import Builder, make_node, tensor_type

F32 = tensor_type(np.float32, (2,))


def model(*nodes, outputs=("y",), initializers=None, opset=17, **changes) -> Model:
    """Nodes over one input x, float32[2]."""
    values = tuple(Value(name, F32) for name in outputs)
    graph = Graph("g", nodes, (Value("x", F32),), values, initializers or {})
    return replace(Model(graph, 8, {"": opset}), **changes)


def node(op="Relu", inputs=("x",), outputs=("y",), name="n", **attributes):
    return make_node(op, inputs, outputs, name=name, **attributes)


def only(m: Model) -> str:
    """The single finding, as text."""
    (finding,) = check(m)
    assert finding.severity is Severity.ERROR
    return str(finding)


def test_a_good_model_has_no_findings() -> None:
    assert check(model(node())) == ()


def test_a_finding_has_its_parts() -> None:
    assert check(model(node("Reluu"))) == (
        Finding(
            Severity.ERROR,
            "op-known",
            "graph/node[0] 'n' (Reluu)",
            "the operator must be one that hwflow knows, not 'Reluu'",
            "perhaps 'Relu' is meant, else replace it in the model before the export, or cut the model in front of it",
        ),
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (model(node(), opsets={}),
         "model: the model must import an operator set, not none; add opset_import of version 7 to 28 [opset-import]"),
        (model(node(), opset=29),
         "opset_import 'ai.onnx': the version must be 7 to 28, not 29; "
         "convert it with onnx.version_converter [opset-version]"),
        (model(node(), opset=6),
         "opset_import 'ai.onnx': the version must be 7 to 28, not 6; "
         "convert it with onnx.version_converter [opset-version]"),
        (model(node(), opsets={"": 17, "com.acme": 0}),
         "opset_import 'com.acme': the version must be 1 or more, not 0; export the model again [opset-version]"),
        (model(node("Fast", domain="com.acme")),
         "graph/node[0] 'n' (Fast): operator set 'com.acme' must be imported, not missing; "
         "add it to opset_import [opset-import]"),
        (model(node("Fast", domain="com.acme"), opsets={"": 17, "com.acme": 1}),
         "graph/node[0] 'n' (Fast): the operator must be one that hwflow knows, not 'com.acme.Fast'; "
         "replace it in the model before the export, or cut the model in front of it [op-known]"),
        (model(node("HardSwish"), opset=13),
         "graph/node[0] 'n' (HardSwish): the operator must exist in operator set 13, not only from 14 on; "
         "export the model with opset 14 or later [op-version]"),
        (model(node("Add")),
         "graph/node[0] 'n' (Add): the number of inputs must be 2, not 1; export the model again [op-inputs]"),
        (model(node("Add", ("x", ""))),
         "graph/node[0] 'n' (Add): input 1 must be given, not left out; export the model again [op-inputs]"),
        (model(node("Clip", ("x", "", "", "x"))),
         "graph/node[0] 'n' (Clip): the number of inputs must be 1 to 3, not 4; export the model again [op-inputs]"),
        (model(node("Concat", (), axis=0)),
         "graph/node[0] 'n' (Concat): the number of inputs must be 1 or more, not 0; "
         "export the model again [op-inputs]"),
        (model(node("Relu", outputs=("y", "z"))),
         "graph/node[0] 'n' (Relu): the number of outputs must be 1, not 2; "
         "hwflow computes no others; export the model for inference [op-outputs]"),
        (model(node(slope=1)),
         "graph/node[0] 'n' (Relu): the attributes in operator set 17 must be among none, not 'slope'; "
         "export the model again [op-attribute]"),
        (model(node("Clip", min=0.5)),
         "graph/node[0] 'n' (Clip): the attributes in operator set 17 must be among none, not 'min'; "
         "export the model again [op-attribute]"),
        (model(node("LeakyRelu", alpha=1)),
         "graph/node[0] 'n' (LeakyRelu): attribute 'alpha' must be a number, not 1; "
         "export the model again [op-attribute]"),
        (model(node("Concat", axis="1")),
         "graph/node[0] 'n' (Concat): attribute 'axis' must be an integer, not '1'; "
         "export the model again [op-attribute]"),
        (model(node("Concat")),
         "graph/node[0] 'n' (Concat): attribute 'axis' must be given, not left out; "
         "export the model again [op-attribute]"),
        (model(node(inputs=("a",))),
         "graph/node[0] 'n' (Relu): 'a' must be a value of the graph, not undefined; "
         "export the model again [value-defined]"),
        (model(node(inputs=("a",)), node(outputs=("a",), name="m")),
         "graph/node[0] 'n' (Relu): 'a' must be written before it is read, not later by node[1] 'm' (Relu); "
         "sort the nodes; where that fails the graph has a cycle [value-order]"),
        (model(node(inputs=("y",))),
         "graph/node[0] 'n' (Relu): 'y' must be written before it is read, not later by node[0] 'n' (Relu); "
         "sort the nodes; where that fails the graph has a cycle [value-order]"),
        (model(node(), node(name="m")),
         "graph/node[1] 'm' (Relu): 'y' must be written once, not also by graph/node[0] 'n' (Relu); "
         "export the model again [value-once]"),
        (model(node(), node(outputs=("x",), name="m")),
         "graph/node[1] 'm' (Relu): 'x' must be written once, not also by input 'x'; "
         "export the model again [value-once]"),
        (model(node(), initializers={"y": np.zeros(2, np.float32)}),
         "graph/node[0] 'n' (Relu): 'y' must be written once, not also by initializer 'y'; "
         "export the model again [value-once]"),
        (model(node(), outputs=("z",)),
         "graph/output[0]: 'z' must be a value of the graph, not undefined; export the model again [output-defined]"),
        (model(node(), outputs=("y", "y")),
         "graph/output[1]: 'y' must be one output, not two; export the model again [output-once]"),
        (model(node(), outputs=()),
         "graph: the graph must have an output, not none; export the model again [output-defined]"),
        (model(node("Add", ("x", "w")), initializers={"w": np.array([np.nan, 1], np.float32)}),
         "constant 'w': the elements must be numbers, not NaN (1 of 2 are); "
         "train or export the model again [constant-nan]"),
        (model(node("Constant", (), ("c",), value=np.array([np.nan, 1])), node(name="m")),
         "constant 'c': the elements must be numbers, not NaN (1 of 2 are); "
         "train or export the model again [constant-nan]"),
        (model(node("QuantizeLinear", ("x", "s")), initializers={"s": np.array(0, np.float32)}),
         "graph/node[0] 'n' (QuantizeLinear): the scale 's' must be positive and finite, not 0.0; "
         "quantize the model again [scale-positive]"),
        (model(node("QuantizeLinear", ("x", "s")), initializers={"s": np.array([1, -1], np.float32)}),
         "graph/node[0] 'n' (QuantizeLinear): the scale 's' must be positive and finite, not -1.0; "
         "quantize the model again [scale-positive]"),
    ],
)  # fmt: skip
def test_each_rule(found, expected) -> None:
    assert only(found) == expected


def changed(m: Model, **changes) -> Model:
    return replace(m, graph=replace(m.graph, **changes))


def test_rules_about_the_graph() -> None:
    good = model(node())
    assert only(changed(good, name="")) == (
        "graph: the graph must have a name, not an empty one; give it one [graph-name]"
    )
    assert only(changed(good, inputs=(Value("x", None),))) == (
        "graph/input[0]: 'x' must be a tensor of a known type, not another kind; "
        "state its element type, or export the model without it [input-type]"
    )
    assert only(changed(good, inputs=good.graph.inputs * 2)) == (
        "graph/input[1]: 'x' must be one input, not two; export the model again [value-once]"
    )


@pytest.mark.parametrize(
    "stated", [tensor_type(np.float32, (3,)), tensor_type(np.int8, (2,)), tensor_type(np.float32, (2, 1))]
)
def test_initializer_of_another_type(stated: TensorType) -> None:
    m = changed(model(node(), initializers={"w": np.zeros(2, np.float32)}), types={"w": stated})
    listed = f"{stated.dtype}[{', '.join(map(str, stated.shape))}]"
    assert only(m) == (
        f"initializer 'w': the type must be {listed} as stated, not float32[2]; "
        f"export the model again [initializer-type]"
    )


@pytest.mark.parametrize("stated", [tensor_type(np.float32, ("n",)), tensor_type(np.float32)])
def test_initializer_of_a_type_that_is_left_open(stated: TensorType) -> None:
    assert check(changed(model(node(), initializers={"w": np.zeros(2, np.float32)}), types={"w": stated})) == ()


def test_all_findings_at_once() -> None:
    m = model(node("Foo"), node("Bar", outputs=("z",), name="m"), node(inputs=("a",), outputs=("b",)))
    assert [finding.rule for finding in check(m)] == ["value-defined", "op-known", "op-known"]
    with pytest.raises(HwflowError) as caught:
        require_valid(m)
    lines = str(caught.value).splitlines()
    assert lines[0] == "the model must follow the rules of ONNX and of hwflow, not break 3:"
    assert lines[1:] == [f"  {finding}" for finding in check(m)]


def test_one_error_is_the_message() -> None:
    with pytest.raises(HwflowError) as caught:
        require_valid(model(node("Foo")))
    assert str(caught.value) == str(check(model(node("Foo")))[0])


def test_builder_makes_good_models() -> None:
    b = Builder()
    b.output(b.node("Relu", b.input("x", np.float32, ("n", 2))), np.float32, ("n", 2))
    assert check(b.model()) == ()
