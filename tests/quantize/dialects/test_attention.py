"""Attention and Einsum in one node, written as products, Softmax and sums: the same numbers; what has no such form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import onnx
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.quantize.dialects.standard import to_standard_qdq

MS = "com.microsoft"
Shapes = Mapping[str, tuple[int, ...]]
FOUR: Shapes = {"q": (1, 2, 5, 4), "k": (1, 2, 6, 4), "v": (1, 2, 6, 3)}
THREE: Shapes = {"q": (1, 5, 16), "k": (1, 6, 8), "v": (1, 6, 6)}


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(0, 1, shape).astype(np.float32)


def model(op: str, inputs: Shapes, *others: Any, domain: str = "", outputs: int = 1, **attributes: Any) -> Model:
    """One node of `inputs` and of `others`: constants, None for one that is left out, or names of computed tensors."""
    b = Builder("one")
    names = [b.input(name, np.float32, shape) for name, shape in inputs.items()]
    for number, other in enumerate(others):
        if isinstance(other, np.ndarray):
            names.append(b.constant(f"constant{number}", other))
        else:
            names.append(b.input(other[0], np.float32, other[1]) if isinstance(other, tuple) else "")
    made = b.nodes(op, *names, outputs=[f"y{k}" for k in range(outputs)], name="one", domain=domain, **attributes)
    for name in made:
        b.output(name)
    return onnx.infer(b.model(opset=24, **({"opsets": {MS: 1}} if domain else {})))


def agrees(before: Model) -> list[str]:
    """The rewritten model gives the same numbers, but for the roundings of float32; its operators."""
    after = to_standard_qdq(before)
    feeds = {value.name: values(*value.tensor.shape) for value in before.graph.inputs if value.tensor}
    expected, found = onnx.evaluate(before, feeds), onnx.evaluate(after, feeds)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=2e-6)
    return [node.op_type for node in after.graph.nodes]


SLANTED = np.where(np.tri(5, 6, dtype=bool), 0.25, -np.inf).astype(np.float32)


@pytest.mark.parametrize(("inputs", "others", "attributes"), [
    (FOUR, (), {}),
    (FOUR, (), {"is_causal": 1, "softcap": 2.0, "scale": 0.3}),
    (FOUR, (np.tri(5, 6, 1, dtype=bool),), {}),
    (FOUR, (values(2, 5, 4),), {}),
    (FOUR, (SLANTED,), {"is_causal": 1}),
    (THREE, (), {"q_num_heads": 4, "kv_num_heads": 2}),
    ({**FOUR, "q": (1, 4, 5, 4)}, (), {"is_causal": 1})], ids=range(7))
def test_attention(inputs: Shapes, others: tuple[Any, ...], attributes: dict[str, Any]) -> None:
    ops = agrees(model("Attention", inputs, *others, **attributes))
    assert (ops.count("MatMul"), ops.count("Softmax")) == (2, 1)
    assert ("Add" in ops) is bool(others or "is_causal" in attributes)


PACKED: Shapes = {"q": (1, 5, 8), "k": (1, 5, 8), "v": (1, 5, 8)}


@pytest.mark.parametrize(("op", "inputs", "others", "attributes"), [
    ("MultiHeadAttention", PACKED, (), {}),
    ("MultiHeadAttention", PACKED, (values(24), None, values(1, 2, 5, 5)), {"unidirectional": 1}),
    ("Attention", {"x": (1, 5, 6)}, (values(6, 24), values(24)), {"scale": 0.4})], ids=range(3))
def test_attention_of_onnxruntime(op: str, inputs: Shapes, others: tuple[Any, ...], attributes: dict[str, Any]) -> None:
    ops = agrees(model(op, inputs, *others, domain=MS, num_heads=2, **attributes))
    assert (ops.count("MatMul"), ops.count("Softmax")) == (5 if op == "Attention" else 2, 1)


@pytest.mark.parametrize("others", [(values(8),), (values(8), values(8), values(8))], ids=["gamma", "all"])
def test_skip_layer_normalization(others: tuple[np.ndarray, ...]) -> None:
    shapes = {"x": (1, 5, 8), "skip": (1, 5, 8)}
    ops = agrees(model("SkipLayerNormalization", shapes, *others, domain=MS))
    assert ops == ["Add"] * (1 + (len(others) == 3)) + ["LayerNormalization"]


@pytest.mark.parametrize(("equation", "shapes"), [
    ("bhqd,bhkd->bhqk", ((1, 2, 5, 4), (1, 2, 6, 4))), ("bhqk,bhkd->bqhd", ((1, 2, 5, 6), (1, 2, 6, 4))),
    ("...ij,jk->...ik", ((1, 2, 5, 6), (6, 4))), ("ij,ij->i", ((3, 4), (3, 4))), ("ij,kl->ikl", ((3, 4), (2, 5))),
    ("ab->ba", ((3, 4),)), ("ij,jk,kl->il", ((3, 4), (4, 5), (5, 2))), ("ij,jk", ((3, 4), (4, 5))),
    ("...ab->...", ((2, 3, 4),))])
def test_einsum(equation: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    ops = agrees(model("Einsum", {f"x{k}": shape for k, shape in enumerate(shapes)}, equation=equation))
    assert ops.count("MatMul") == len(shapes) - 1


CLOSED = np.where(np.arange(5)[:, None] == 2, -np.inf, np.zeros((5, 6))).astype(np.float32)


@pytest.mark.parametrize(("before", "message"), [
    (lambda: model("Attention", FOUR, ("mask", (5, 6))), "the mask 'mask' must be constant, not computed by the model"),
    (lambda: model("Attention", FOUR, CLOSED), "a mask must leave a key to each query"),
    (lambda: model("Attention", FOUR, None, ("past", (1, 2, 3, 4)), ("old", (1, 2, 3, 3))),
     "a cache of keys 'past' has no hardware"),
    (lambda: model("Attention", FOUR, outputs=2), "only its first output has hardware, not keys, values or scores"),
    (lambda: model("Einsum", {"x": (3, 3)}, equation="ii->i"), "an Einsum must have a letter of its own for each axis"),
    (lambda: model("Einsum", {"x": (3, 1), "y": (4, 2)}, equation="ij,jk->ik"),
     "axes of one letter must have one size in an Einsum")])
def test_refusals(before: Any, message: str) -> None:
    with pytest.raises(HwflowError, match=re.escape(message)):
        to_standard_qdq(before())
