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
from tests.onnx.rules.protos import F, graph, model, node, value, weight

I64 = TensorProto.INT64


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


@pytest.mark.rule("OP-02")
def test_both_ways_of_leaving_out_are_equal() -> None:
    from hwflow.onnx import evaluate, loads

    x = np.array([-2.0, 9.0], np.float32)
    results = []
    for inputs in (["x", "low"], ["x", "low", ""]):
        proto = model(node("Clip", inputs), initializers=[weight("low", F, (), [0])])
        results.append(evaluate(loads(proto.SerializeToString()), {"x": x})["y"])
    assert results[0].tolist() == results[1].tolist() == [0.0, 9.0]


def test_parameters_of_the_schemas_end_with_the_variadic_one() -> None:
    """VA-01: `operands` relies on it."""
    for versions in SCHEMAS.values():
        for schema in versions:
            for parameters in (schema.inputs, schema.outputs):
                assert all(p.option is not Option.VARIADIC for p in parameters[:-1]), schema.identifier
