"""Nodes and operands: rules ND, VA and OP."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from hwflow.onnx import infer_types, loads
from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.inference.facts import fact_of
from hwflow.onnx.inference.schema_types import spelled
from hwflow.onnx.inference.worlds import Worlds
from hwflow.onnx.schemas import ANY, SCHEMAS, Option
from tests.onnx.rules.protos import F, errors, findings, graph, model, node, value, weight

I64 = TensorProto.INT64


def only(proto: onnx.ModelProto, *, strict: bool = False) -> str:
    """The single error."""
    (text,) = errors(proto, strict=strict)
    return text


@pytest.mark.rule("ND-01")
def test_names_of_nodes_are_for_messages_only() -> None:
    assert findings(model(node(outputs=("t",)), node(inputs=("t",)))) == ()
    assert findings(model(node(outputs=("t",), name="y"), node(inputs=("t",), name="x"))) == ()
    unnamed = model(node("Relu", ("x", "x")))
    assert only(unnamed).startswith("graph/node[0] 'y' (Relu): ")
    named = model(node("Relu", ("x", "x"), name="act"))
    assert only(named).startswith("graph/node[0] 'act' (Relu): ")
    without_outputs = model(node("Relu", ("x",), ()), node())
    assert only(without_outputs).startswith("graph/node[0] '?' (Relu): ")


@pytest.mark.rule("ND-02")
def test_operands_are_bound_by_position() -> None:
    swapped = model(node("Gather", ("i", "x")), initializers=[weight("i", I64, (1,), [0])])
    assert only(swapped) == (
        "graph/node[0] 'y' (Gather): input 1 (indices) 'x' must be tensor(int32), tensor(int64), not tensor(float); "
        "insert a Cast, or export the model again [ND-05]"
    )
    assert errors(model(node("Gather", ("x", "i")), initializers=[weight("i", I64, (2,), [0, 1])])) == []


@pytest.mark.rule("ND-03")
def test_the_operator_must_be_named() -> None:
    message = "a node must name its operator in op_type, not leave it empty; export the model again [ND-03]"
    assert f"graph/node[0] 'y' (): {message}" in errors(model(node("")))


@pytest.mark.rule("ND-04")
def test_attributes_are_bound_by_name() -> None:
    square = {"inputs": [value("x", F, (2, 2))], "outputs": [value("y", F, (2, 2))]}
    assert errors(model(node("Gemm", ("x", "x"), transB=1, alpha=0.5), **square)) == []
    assert errors(model(node("Gemm", ("x", "x"), alpha=0.5, transB=1), **square)) == []


@pytest.mark.rule("ND-05")
@pytest.mark.parametrize(
    "wrong, message",
    [
        (node("Add"), "graph/node[0] 'y' (Add): the number of inputs must be 2, not 1"),
        (node("Add", "xxx"), "the number of inputs must be 2, not 3"),
        (node("Clip", ()), "the number of inputs must be 1 to 3, not 0"),
        (node("Relu", "x", "yz"), "the number of outputs must be 1, not 2"),
        (node("Relu", "x", ()), "the number of outputs must be 1, not 0"),
        (node("And", "xx"), "input 0 (A) 'x' must be tensor(bool), not tensor(float)"),
        (node("BitShift", "xx", direction="LEFT"), "input 0 (X) 'x' must be tensor(uint16), tensor(uint32), "),
        (node("Add", "xw"), "input 1 (B) 'w' must be tensor(float) as input 0, not tensor(int64)"),
        (node("Max", "xw"), "input 1 (data_0) 'w' must be tensor(float) as input 0, not tensor(int64)"),
        (node("Where", "xxx"), "input 0 (condition) 'x' must be tensor(bool), not tensor(float)"),
        (node("ConcatFromSequence", axis=0), "input 0 (input_sequence) 'x' must be one of the "),
    ],
)  # fmt: skip
def test_the_signature_is_kept(wrong: onnx.NodeProto, message: str) -> None:
    extra = [node("Relu", outputs=("y",))] if not wrong.output else []
    found = errors(model(wrong, *extra, initializers=[weight("w", I64)]))
    assert message in found[0]
    assert "[ND-05]" in found[0]


@pytest.mark.rule("ND-05", "GR-21")
@pytest.mark.parametrize("wrong", [node("Shape"), node("Cast", to=I64)])
def test_types_of_outputs_are_as_stated(wrong: onnx.NodeProto) -> None:
    found = only(model(wrong))
    assert "the type of 'y' must be int64[" in found
    assert ", not float32[2] as the file states; export the model again [GR-21]" in found


@pytest.mark.rule("ND-05")
@pytest.mark.parametrize(
    "right",
    [
        node("Add", "xx"),
        node("Clip", ["x"]),
        node("Clip", ["x", "", "n"]),
        node("Max", "xxx"),
        node("CastLike", "xx"),
        node("Pow", "xw"),  # base and exponent may differ
    ],
)
def test_accepted_signatures(right: onnx.NodeProto) -> None:
    initializers = [weight("w", I64), weight("n", dims=(), numbers=(1,))]
    assert errors(model(right, initializers=initializers)) == []


@pytest.mark.rule("ND-05")
def test_types_follow_from_node_to_node() -> None:
    """Through nodes, into subgraphs, through sequences."""
    chain = model(node("Shape", "x", "s"), node("Gather", "ss", "t"), node("Neg", "t", "u"), node("Add", "ux"))
    assert "input 1 (B) 'x' must be tensor(int64) as input 0, not tensor(float)" in only(chain)
    inner = graph(node("Add", ("s", "x"), ("b",)), outputs=[value("b")], name="then")
    other = graph(node("Identity", ("x",), ("c",)), outputs=[value("c")], name="else")
    nested = model(
        node("Shape", "x", "s"),
        node("If", "p", "y", then_branch=inner, else_branch=other),
        inputs=[value("x"), value("p", TensorProto.BOOL, ())],
    )
    assert only(nested) == (
        "graph/node[1] 'y' (If)/attribute 'then_branch'/node[0] 'b' (Add): input 1 (B) 'x' must be tensor(int64) "
        "as input 0, not tensor(float); insert a Cast, or export the model again [ND-05]"
    )
    sequence = model(
        node("SequenceConstruct", "xx", "s"), node("ConcatFromSequence", "s", "t", axis=0), node("And", "tt"),
        outputs=[value("y", TensorProto.BOOL)],
    )  # fmt: skip
    assert any("input 0 (A) 't' must be tensor(bool), not tensor(float)" in text for text in errors(sequence))


TYPED = {
    "Bernoulli": (node("Bernoulli", dtype=TensorProto.DOUBLE), "tensor(double)"),
    "Constant float": (helper.make_node("Constant", [], ["y"], value_floats=[1.0]), "tensor(float)"),
    "Constant int": (helper.make_node("Constant", [], ["y"], value_int=1), "tensor(int64)"),
    "Constant string": (helper.make_node("Constant", [], ["y"], value_string="a"), "tensor(string)"),
    "Constant tensor": (helper.make_node("Constant", [], ["y"], value=weight("", TensorProto.INT8)), "tensor(int8)"),
    "ConstantOfShape": (node("ConstantOfShape", ("i",)), "tensor(float)"),
    "ConstantOfShape value": (node("ConstantOfShape", ("i",), value=weight("", I64, (1,), [3])), "tensor(int64)"),
    "EyeLike": (node("EyeLike", ("m",)), "tensor(float)"),
    "HannWindow": (node("HannWindow", ("n",)), "tensor(float)"),
    "Multinomial": (node("Multinomial", ("m",)), "tensor(int32)"),
    "NonZero": (node("NonZero"), "tensor(int64)"),
    "OneHot": (node("OneHot", ("i", "n", "b")), "tensor(bool)"),
    "QuantizeLinear": (node("QuantizeLinear", ("x", "f")), "tensor(uint8)"),
    "QuantizeLinear zero": (node("QuantizeLinear", ("x", "f", "z")), "tensor(int8)"),
    "RandomNormal": (helper.make_node("RandomNormal", [], ["y"], shape=[2]), "tensor(float)"),
    "RandomUniformLike": (node("RandomUniformLike", dtype=TensorProto.FLOAT16), "tensor(float16)"),
    "SequenceConstruct": (node("SequenceConstruct"), "seq(tensor(float))"),
    "Dropout mask": (node("Dropout", ("x",), ("t", "y")), "tensor(bool)"),
}


@pytest.mark.rule("ND-05")
@pytest.mark.parametrize("name", TYPED)
def test_types_of_outputs(name: str) -> None:
    """Where the signature alone does not say it."""
    made, wanted = TYPED[name]
    content = graph(
        made,
        inputs=[value("x"), value("i", I64), value("n", I64, ()), value("m", F, (2, 2)), value("b", TensorProto.BOOL)],
        initializers=[weight("f", F, (), [1]), weight("z", TensorProto.INT8, (), [0])],
    )
    proto = onnx.ModelProto(ir_version=8, graph=content, opset_import=[helper.make_opsetid("", 18)])
    found = infer_types(loads(proto.SerializeToString()))["y"]
    assert spelled(fact_of(found, Worlds())) == wanted


@pytest.mark.rule("ND-05", "VA-01", "VA-02")
def test_arity_of_every_version_of_every_operator() -> None:
    """The fewest and the most operands pass; one less and one more is an error.  All 659 schemas and hwflow's own."""
    tried = 0
    for versions in SCHEMAS.values():
        for schema in versions:
            if schema.deprecated:
                continue
            tried += 1
            low, high = schema.input_limits
            fewest, most = schema.output_limits
            for count, right in ((low, True), (high, True), (low - 1, False), (high + 1, False)):
                count = low + 3 if count == ANY else count
                if count < 0 or count > ANY:
                    continue
                found = arity(schema.domain, schema.name, schema.since, count, fewest)
                assert bool(found) is not right, (schema.identifier, count, found)
            for count, right in ((most, True), (fewest - 1, False), (most + 1, False)):
                count = fewest + 3 if count == ANY else count
                if 0 <= count <= ANY:
                    found = arity(schema.domain, schema.name, schema.since, low, count)
                    assert bool(found) is not right, (schema.identifier, count, found)
    assert tried >= 600


def arity(domain: str, op: str, version: int, inputs: int, outputs: int) -> list[str]:
    """The findings about numbers of operands."""
    from hwflow.onnx.rules.nodes import operands

    proto = pb.ModelProto(ir_version=8)
    proto.opset_import.add(domain=domain, version=version)
    made = proto.graph.node.add(domain=domain, op_type=op)
    made.input.extend(f"x{i}" for i in range(inputs))
    made.output.extend(f"y{i}" for i in range(outputs))
    return [str(found) for found in operands(Document(proto))]


@pytest.mark.rule("ND-06")
def test_no_cycles() -> None:
    cycle = model(node("Add", ("x", "b"), ("a",)), node("Relu", ("a",), ("b",)), node("Relu", ("b",)))
    assert any("[GR-01]" in text for text in errors(cycle))
    assert any("[GR-01]" in text for text in errors(model(node("Add", ("x", "y")))))
    assert errors(model(node("Relu", ("x",), ("a",)), node("Relu", ("a",)))) == []


@pytest.mark.rule("ND-07")
def test_inputs_are_defined() -> None:
    found = only(model(node("Add", ("x", "nowhere"))))
    assert "'nowhere'" in found
    assert "[NM-14]" in found
    assert errors(model(node("Add", ("x", "w")), initializers=[weight("w", F)])) == []


@pytest.mark.rule("VA-01")
@pytest.mark.parametrize("op, more", [("Max", {}), ("Sum", {}), ("Concat", {"axis": 0})])
def test_variadic_inputs(op: str, more: dict[str, int]) -> None:
    assert "the number of inputs must be 1 or more, not 0" in only(model(node(op, (), **more)))
    for count in (1, 2, 20):
        assert errors(model(node(op, ["x"] * count, **more), outputs=[value("y", F, (None,))])) == []


@pytest.mark.rule("VA-02")
def test_variadic_inputs_have_names() -> None:
    proto = model(node("Max", ("x", "")))
    (found,) = findings(proto)
    assert str(found) == (
        "graph/node[0] 'y' (Max): input 1 (data_0) must have a name, because it is variadic, not be left out; "
        "export the model again [VA-02 W-variadic-empty]"
    )
    assert found.severity.value == "warning"
    assert "W-variadic-empty" in only(proto, strict=True)
    split = node("Split", ("x",), ("", "y"), axis=0, num_outputs=2)
    assert findings(model(split, opset=18, outputs=[value("y", F, (1,))])) == ()


@pytest.mark.rule("OP-01", "OP-02")
@pytest.mark.parametrize("inputs", [["x"], ["x", ""], ["x", "", ""], ["x", "", "w"], ["x", "w", ""], ["x", "w", "w"]])
def test_optional_inputs_may_be_left_out(inputs: list[str]) -> None:
    assert errors(model(node("Clip", inputs), initializers=[weight("w", F, (), [1])])) == []


@pytest.mark.rule("OP-02")
def test_an_empty_name_counts_as_an_operand() -> None:
    assert only(model(node("Clip", ("x", "", "", "")))) == (
        "graph/node[0] 'y' (Clip): the number of inputs must be 1 to 3, not 4; export the model again [OP-02]"
    )


@pytest.mark.rule("OP-02")
def test_both_ways_of_leaving_out_are_equal() -> None:
    from hwflow.onnx import evaluate, loads

    x = np.array([-2.0, 9.0], np.float32)
    results = []
    for inputs in (["x", "low"], ["x", "low", ""]):
        proto = model(node("Clip", inputs), initializers=[weight("low", F, (), [0])])
        results.append(evaluate(loads(proto.SerializeToString()), {"x": x})["y"])
    assert results[0].tolist() == results[1].tolist() == [0.0, 9.0]


@pytest.mark.rule("OP-03")
@pytest.mark.parametrize(
    "wrong, message",
    [
        (node("Add", ("x", "")), "input 1 (B) must be given, not left out"),
        (node("Add", ("", "x")), "input 0 (A) must be given, not left out"),
        (node("TopK", ("x", "k"), ("", "i"), axis=0), "output 0 (Values) must be given, not left out"),
    ],
)
def test_required_operands_are_given(wrong: onnx.NodeProto, message: str) -> None:
    extra = [] if "y" in wrong.output else [node()]
    proto = model(wrong, *extra, initializers=[weight("k", I64, (1,), [1])])
    assert message in only(proto)
    assert "[OP-03]" in only(proto)


@pytest.mark.rule("OP-04")
def test_outputs_may_be_left_out() -> None:
    assert errors(model(node("Dropout", ("x",), ("y", "")))) == []
    assert errors(model(node("Dropout", ("x",), ("y",)))) == []
    pool = node("MaxPool", ("i",), ("y", ""), kernel_shape=[1])
    assert errors(model(pool, inputs=[value("i", F, (1, 1, 4))], outputs=[value("y", F, (1, 1, 4))])) == []


def batch_norm(outputs: list[str], opset: int, **attributes: int) -> onnx.ModelProto:
    parameters = [weight(name, F) for name in ("s", "b", "m", "v")]
    made = node("BatchNormalization", ["i", "s", "b", "m", "v"], outputs, **attributes)
    shape = [value(name, F, (1, 2, 3)) for name in ("i", "y")]
    return model(made, inputs=shape[:1], outputs=shape[1:], initializers=parameters, opset=opset)


@pytest.mark.rule("OP-05")
def test_outputs_that_are_not_computed_have_no_name() -> None:
    assert only(batch_norm(["y", "mean", "var"], 15)) == (
        "graph/node[0] 'y' (BatchNormalization): output 1 'mean' must not be named because training_mode is 0: "
        "it is not computed; remove the name, or export the model for training [OP-05]"
    )
    assert errors(batch_norm(["y", "", ""], 15)) == []
    assert errors(batch_norm(["y"], 15)) == []
    assert errors(batch_norm(["y", "mean", "var"], 15, training_mode=1)) == []
    assert "because is_test is not 0" in only(batch_norm(["y", "o1", "o2", "o3", "o4"], 6, is_test=1))
    assert errors(batch_norm(["y", "o1", "o2", "o3", "o4"], 6)) == []
    assert errors(batch_norm(["y", "o1", "o2", "o3", "o4"], 9)) == []


@pytest.mark.rule("OP-05")
def test_the_mask_of_an_old_dropout() -> None:
    assert "because is_test is not 0" in only(model(node("Dropout", ("x",), ("y", "m"), is_test=1), opset=6))
    assert errors(model(node("Dropout", ("x",), ("y", "m")), opset=6)) == []
    assert errors(model(node("Dropout", ("x",), ("y", "m")), opset=13)) == []


def test_parameters_of_the_schemas_end_with_the_variadic_one() -> None:
    """VA-01: `operands` relies on it."""
    for versions in SCHEMAS.values():
        for schema in versions:
            for parameters in (schema.inputs, schema.outputs):
                assert all(p.option is not Option.VARIADIC for p in parameters[:-1]), schema.identifier
