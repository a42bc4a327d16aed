"""Inference of types ends soon, whatever the file asks for."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from hwflow.onnx import Value, load
from hwflow.onnx.build import Builder, make_graph, make_node, tensor_type
from hwflow.onnx.errors import InvalidModel, LimitError
from hwflow.onnx.inference import infer_types
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Function

F, I64 = np.float32, np.int64


def test_functions_that_explode() -> None:
    """Forty functions that each call the next twice: 2^40 nodes."""
    functions = []
    for k in range(40):
        call = [make_node(f"F{k + 1}", ["a"], [name], domain="acme") for name in ("b", "c")]
        functions.append(Function(f"F{k}", "acme", ("a",), ("c",), tuple(call), {"acme": 1, "": 17}))
    functions.append(Function("F40", "acme", ("a",), ("c",), (make_node("Relu", ["a"], ["c"]),), {"": 17}))
    b = Builder()
    b.nodes("F0", b.input("x", F, (1,)), domain="acme", outputs=["y"])
    b.output("y")
    started = time.monotonic()
    with pytest.raises(LimitError):
        infer_types(replace(b.model(opsets={"acme": 1}), functions=tuple(functions)))
    assert time.monotonic() - started < 1


def test_a_function_that_calls_itself() -> None:
    function = Function("F", "acme", ("a",), ("b",), (make_node("F", ["a"], ["b"], domain="acme"),), {"acme": 1})
    b = Builder()
    b.nodes("F", b.input("x", F, (1,)), domain="acme", outputs=["y"])
    b.output("y")
    with pytest.raises(InvalidModel, match="must not call itself"):
        infer_types(replace(b.model(opsets={"acme": 1}), functions=(function,)))


@pytest.mark.rule("LM-02")
def test_loops_in_loops() -> None:
    """Every level is inferred until nothing changes; the budget ends it where levels multiply."""
    inner = make_graph([make_node("Concat", ["s", "s"], ["t"], axis=0)], [], [Value("go", None), Value("t", None)])
    for _ in range(12):
        inputs = (Value("i", None), Value("go", None), Value("s", None))
        loop = make_node("Loop", ["", "go", "s"], ["t"], body=replace(inner, inputs=inputs))
        inner = make_graph([loop], [], [Value("go", None), Value("t", None)])
    b = Builder()
    b.node("Loop", "", b.input("g", np.bool_, ()), b.input("x", F, ("n",)), output="y",
           body=replace(inner, inputs=inputs))  # fmt: skip
    b.output("y")
    with pytest.raises(LimitError, match="inlined_nodes"):
        infer_types(b.model(), limits=replace(Limits(), inlined_nodes=2000))


@pytest.mark.rule("LM-02")
def test_nothing_large_is_computed() -> None:
    b = Builder()
    zero, one = b.constant("zero", np.array(0)), b.constant("one", np.array(1))
    y = b.node("Range", zero, b.constant("many", np.array(1 << 27)), one)
    b.output(b.node("Neg", y, output="y"))
    started = time.monotonic()
    assert infer_types(b.model())["y"] == tensor_type(I64, (1 << 27,))
    assert time.monotonic() - started < 0.5


def test_a_long_chain_is_fast() -> None:
    b = Builder()
    x, w = b.input("x", F, ("n", 3, "h", "w")), b.constant("k", np.ones((3, 3, 3, 3), F))
    for _ in range(334):
        x = b.node("Add", b.node("Relu", b.node("Conv", x, w, pads=[1, 1, 1, 1])), x)
    b.output(x)
    started = time.monotonic()
    assert infer_types(b.model())[x] == tensor_type(F, ("n", 3, "h", "w"))
    assert time.monotonic() - started < 1


def test_a_real_model_is_fast(models_dir) -> None:
    model = load(models_dir / "models" / "tiny_resnet8_float.onnx")
    started = time.monotonic()
    infer_types(model)
    assert time.monotonic() - started < 1


@pytest.mark.rule("LM-02")
def test_many_nodes_whose_sizes_do_not_fit() -> None:
    """Each asks for operands to be bent and makes sizes that nothing explains; behind the budget is nothing known."""
    b = Builder()
    x, y = b.input("x", F, ("n", "m")), b.input("y", F, ("k", "l"))
    for _ in range(1500):
        last = b.node("Cast", b.node("NonZero", b.node("MatMul", x, y)), to=1)
    b.output(last)
    started = time.monotonic()
    types = infer_types(b.model())
    assert types["MatMul_0_out"] == tensor_type(F, ("n", "l"))
    assert types[last] == tensor_type(F, (None, None))
    assert time.monotonic() - started < 10
