"""What `hwflow info` says of models of every kind."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.facts.model import describe_model
from hwflow.onnx import Model, dumps, infer
from hwflow.onnx.build import Builder, make_graph, make_node, tensor_type
from hwflow.onnx.model import Function, Value
from hwflow.quantize import quantize
from tests.e2e.command import Cli

F = np.float32


def facts(model: Model) -> dict[str, Any]:
    static = infer_or_raise(model)
    return describe_model(model, static, lambda: quantize(static()))[0]


def infer_or_raise(model: Model):
    return lambda: infer(model)


def products(found: dict[str, Any]) -> list[tuple[str, int | None]]:
    return [(layer["operator"], layer["macs"]) for layer in found["layers"]]


def ones(*dims: int) -> np.ndarray:
    return np.ones(dims, F)


def network() -> Model:
    b = Builder()
    x = b.input("x", F, ("batch", 3, 8, 8))
    y = b.node("Relu", b.node("Conv", x, b.constant("w", ones(4, 3, 3, 3)), name="conv"), name="relu")
    y = b.node("Flatten", y, name="flat")
    b.output(b.node("Gemm", y, b.constant("v", ones(144, 5)), name="fc", output="y"))
    return replace(
        b.model(opset=17), producer_name="maker", producer_version="2", domain="com.acme", doc_string="One.\nTwo.",
        model_version=(1 << 48) + (2 << 32) + 3, metadata={"model_author": "A", "model_license": "MIT", "k": "v"},
    )  # fmt: skip


def test_a_network() -> None:
    found = facts(network())
    assert found["producer"] == "maker 2"
    assert found["model_version"] == {"number": (1 << 48) + (2 << 32) + 3, "text": "1.2.3"}
    assert (found["author"], found["license"]) == ("A", "MIT")
    assert found["inputs"] == [{"name": "x", "type": "float32[batch, 3, 8, 8]", "shape": ["batch", 3, 8, 8]}]
    assert found["outputs"] == [{"name": "y", "type": "float32[batch, 5]", "shape": ["batch", 5]}]
    assert found["operators"] == {"Conv": 1, "Flatten": 1, "Gemm": 1, "Relu": 1}
    assert (found["parameters"], found["parameter_bytes"]) == (108 + 720, 4 * 828)
    assert products(found) == [("Conv", 6 * 6 * 4 * 27), ("Gemm", 144 * 5)]
    assert found["macs"] == 6 * 6 * 4 * 27 + 144 * 5
    assert found["problem"] is None
    assert {node["where"] for node in found["nodes"]} == {"hardware"}
    json.dumps(found)


@pytest.mark.parametrize(
    ("op", "shapes", "attributes", "macs"),
    [
        ("Conv", [(1, 4, 5, 5), (6, 2, 3, 3)], {"group": 2}, 6 * 3 * 3 * 2 * 9),
        ("ConvTranspose", [(1, 4, 5, 5), (4, 3, 2, 2)], {}, 100 * 3 * 4),
        ("MatMul", [(2, 3, 4), (4, 5)], {}, 2 * 3 * 4 * 5),
        ("Gemm", [(4, 3), (4, 5)], {"transA": 1}, 3 * 4 * 5),
        ("GRU", [(7, 2, 3), (1, 12, 3), (1, 12, 4)], {"hidden_size": 4}, 7 * 2 * (36 + 48)),
    ],
)
def test_work_of_operators(op, shapes, attributes, macs) -> None:
    b = Builder()
    names = [b.input("x", F, shapes[0]), *(b.constant(f"w{i}", ones(*s)) for i, s in enumerate(shapes[1:]))]
    b.output(b.node(op, *names, **attributes))
    assert products(facts(b.model())) == [(op, macs)]


def test_open_sizes_leave_the_work_open() -> None:
    b = Builder()
    b.output(b.node("Conv", b.input("x", F, (1, 3, "h", "w")), b.constant("k", ones(4, 3, 3, 3)), output="y"))
    found = facts(b.model())
    assert products(found) == [("Conv", None)]
    assert found["macs"] is None
    assert found["outputs"][0]["type"] == "float32[1, 4, h - 2, w - 2]"
    assert "must be known" in found["problem"]
    assert found["nodes"][0]["where"] == "host"


def test_functions_and_graphs_are_counted() -> None:
    body = (make_node("MatMul", ["a", "a"], ["b"]),)
    branch = make_graph([make_node("Square", ["x"], ["r"], domain="acme")], [], [Value("r", None)], name="b")
    b = Builder()
    b.input("x", F, (3, 3))
    b.output(b.node("If", b.input("c", np.bool_, ()), then_branch=branch, else_branch=branch, output="y"))
    model = b.model(opsets={"acme": 1})
    found = facts(replace(model, functions=(Function("Square", "acme", ("a",), ("b",), body, {"": 17}),)))
    assert found["functions"] == ["function 'acme.Square'"]
    assert found["operators"] == {"If": 1, "MatMul": 1, "acme.Square": 2}
    assert found["macs"] == 2 * 27
    assert found["nodes"][0]["where"] == "host"


def test_operators_that_hwflow_does_not_have() -> None:
    b = Builder()
    (y,) = b.nodes("Magic", b.input("x", F, (3,)), domain="com.acme", outputs=["y"])
    b.output(b.node("Relu", y, output="z"), F, (3,))
    found = facts(b.model(opsets={"com.acme": 4}))
    assert found["nodes"][0]["where"] == "nowhere"
    assert found["nodes"][0]["reason"] == "hwflow has no operator com.acme.Magic of operator set 4"
    assert found["nodes"][1]["where"] == "host"


def test_constants_and_the_host() -> None:
    b = Builder()
    w = b.node("Neg", b.constant("w", ones(4, 2)), name="negated")
    y = b.node("MatMul", b.input("x", F, (1, 4)), w, name="product")
    b.output(b.node("Softmax", y, name="soft", output="y"))
    found = facts(b.model())
    assert [node["where"] for node in found["nodes"]] == ["constant", "hardware", "host"]


def test_quantization() -> None:
    b = Builder()
    scale, zero = b.constant("s", F(0.5)), b.constant("z", np.int8(0))
    q = b.node("QuantizeLinear", b.input("x", F, (1, 4)), scale, zero)
    b.output(b.node("DequantizeLinear", q, scale, zero, output="y"))
    assert facts(b.model())["quantization"] == {"kinds": {"qdq": 2}, "widths": {"int8": 2}}
    b = Builder()
    constants = [b.constant(name, F(value)) for name, value in (("s", 1), ("z", 0), ("w", 3))]
    (y,) = b.nodes("Quant", b.input("x", F, (2,)), *constants, domain="qonnx.custom_op.general", outputs=["y"])
    b.output(y, F, (2,))
    found = facts(b.model(opsets={"qonnx.custom_op.general": 1}))
    assert found["quantization"] == {"kinds": {"qonnx": 1}, "widths": {"3 bits": 1}}


@pytest.mark.rule("GR-09")
def test_inputs_with_a_default() -> None:
    model = network()
    weights = Value("w", tensor_type(F, (4, 3, 3, 3)))
    model = replace(model, graph=replace(model.graph, overridable=(weights,)))
    assert [value["name"] for value in facts(model)["defaults"]] == ["w"]
    assert "inputs with a default are constants in hardware: 'w'" in infer(model).notes


def test_types_that_contradict() -> None:
    model = network()
    wrong = replace(model.graph, outputs=(Value("y", tensor_type(F, ("batch", 6))),))
    assert "[GR-21]" in facts(replace(model, graph=wrong))["type_problems"][0]


def test_the_command(cli: Cli) -> None:
    Path("m.onnx").write_bytes(dumps(replace(network(), doc_string="\x1b[31mred\x07\n", producer_name="[bold]m[/]")))
    done = cli("info", "m.onnx", "--svg", "m.svg")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0] == "m.onnx: IR 8, opset ai.onnx 17, producer [bold]m[/] 2"
    assert "  doc: \\x1b[31mred\\x07" in lines
    assert "  MACs a frame: 4,608" in lines
    assert "  the model becomes hardware" in lines
    assert Path("m.svg").read_text(encoding="utf-8").startswith("<svg ")
    found = cli("info", "m.onnx", "--json").json
    assert found["macs"] == 4608
    assert found["svg"] is None
    assert found["layers_in_hardware"] == ["conv", "fc"]


def test_the_command_for_what_is_no_hardware(cli: Cli) -> None:
    b = Builder()
    b.output(b.node("Erf", b.node("NonZero", b.input("x", F, ("a", "b")), output="h"), output="y"))
    Path("m.onnx").write_bytes(dumps(b.model()))
    done = cli("info", "m.onnx")
    assert done.code == 0
    assert "the model does not become hardware: " in done.out


def test_trouble_with_functions_is_a_fact() -> None:
    endless = Function("F", "acme", ("a",), ("b",), (make_node("F", ["a"], ["b"], domain="acme"),), {"acme": 1})
    b = Builder()
    b.nodes("F", b.input("x", F, (1,)), domain="acme", outputs=["y"])
    b.output("y", F, (1,))
    model = replace(b.model(opsets={"acme": 1}), functions=(endless,))
    found = facts(model)
    assert found["macs"] is None
    assert "must not call itself" in found["type_problems"][0]
    with pytest.raises(HwflowError):
        infer(model)
