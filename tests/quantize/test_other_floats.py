"""Models in float16, bfloat16 and float64: what they become, and what users are told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import onnx
from hwflow.golden import predict
from hwflow.onnx import Model, evaluate
from hwflow.onnx.build import Builder
from hwflow.quantize import quantize
from hwflow.quantize.passes.floats import float_note, floats_to_float32
from tests.e2e.command import Cli

TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float64": np.float64}
RANDOM = np.random.default_rng(6)
WEIGHTS = RANDOM.normal(size=(4, 3, 3, 3)) * 0.3
LIMITS = RANDOM.normal(size=(4 * 16, 5)) * 0.2
IMAGES = RANDOM.normal(size=(30, 1, 3, 6, 6))


def network(dtype: type, highest: float = 6.0, weights: np.ndarray = WEIGHTS) -> Model:
    """Conv, Clip, Flatten, Gemm and Softmax, nodes without names."""
    b = Builder()
    c = b.node("Conv", b.input("x", dtype, (1, 3, 6, 6)), b.constant("w", weights.astype(dtype)))
    c = b.node("Clip", c, b.constant("low", np.array(0, dtype)), b.constant("high", np.array(highest, dtype)))
    s = b.node("Gemm", b.node("Flatten", c), b.constant("v", LIMITS.astype(dtype)))
    b.output(b.node("Softmax", s, output="y"), dtype, (1, 5))
    return b.model(opset=22)


@pytest.mark.parametrize("name", TYPES)
def test_the_rewritten_model_computes_the_same(name: str) -> None:
    """Every tensor that keeps its name, but for the rounding of 16 bits; inputs and outputs keep their types."""
    model = onnx.infer(network(TYPES[name]))
    found = floats_to_float32(model)
    assert float_note(model) == f"the model's {name} tensors are computed in float32 (10 tensors)"
    assert float_note(replaced(found)) is None
    assert found.graph.inputs == model.graph.inputs
    assert {kind.dtype for n, kind in found.graph.types.items() if n not in "xy"} == {np.dtype(np.float32)}
    names = [n for node in model.graph.nodes for n in node.outputs]
    feeds = {"x": IMAGES[0].astype(TYPES[name])}
    before, after = (evaluate(m, feeds, fetch=names) for m in (model, found))
    for n in names:
        np.testing.assert_allclose(*(a[n].astype(np.float64) for a in (before, after)), atol=0.05, rtol=0.02)
    assert after["y"].dtype == (np.float32 if name == "bfloat16" else TYPES[name])


def replaced(model: Model) -> Model:
    """Without its interface, which keeps its types."""
    types = {name: kind for name, kind in model.graph.types.items() if name not in ("x", "y")}
    return replace(model, graph=replace(model.graph, types=types))


@pytest.mark.parametrize("name", TYPES)
def test_integers_are_those_of_the_same_weights_in_float32(name: str) -> None:
    weights = WEIGHTS.astype(TYPES[name]).astype(np.float32)
    rows = IMAGES.astype(TYPES[name])
    found = quantize(network(TYPES[name]), {"x": rows})
    same = quantize(network(np.float32, weights=weights), {"x": rows.astype(np.float32)})
    np.testing.assert_array_equal(found.graph.layers[0].weights, same.graph.layers[0].weights)
    outputs = predict(found, {"x": rows})["y"]
    np.testing.assert_allclose(outputs.astype(np.float32), predict(same, {"x": rows.astype(np.float32)})["y"],
                               atol=0.05 if name != "float64" else 1e-6)
    assert outputs.dtype == (np.float32 if name == "bfloat16" else TYPES[name])


@pytest.mark.parametrize("name", TYPES)
def test_commands_say_so(cli: Cli, name: str) -> None:
    onnx.save(network(TYPES[name]), Path("m.onnx"))
    np.savez("d.npz", in_x=IMAGES[:, 0].astype(np.float32), labels=RANDOM.integers(0, 5, 30))
    line = f"the model's {name} tensors are computed in float32 (10 tensors)"
    done = cli("golden", "m.onnx", "--data", "d.npz")
    assert (done.code, done.err.count(line)) == (0, 1), done
    done = cli("check", "m.onnx", "--hardware")
    assert (done.code, done.out.splitlines()[-3:-1]) == (
        0, ["m.onnx: 4 of 5 nodes map to hardware (1 on the host: Softmax_4); 2 layers", f"  note: {line}"])
    assert "one shared stage" in done.out.splitlines()[-1]


def test_casts_between_floats_disappear() -> None:
    """float64 in front of the network and float16 behind it: one Conv is left for the hardware."""
    b = Builder()
    x = b.node("Cast", b.input("x", np.uint8, (1, 3, 6, 6)), to=11)
    x = b.node("Div", b.node("Sub", x, b.constant("mean", np.float64(127.5))), b.constant("deviation", np.float64(64)))
    c = b.node("Conv", b.node("Cast", x, to=1), b.constant("w", WEIGHTS.astype(np.float32)))
    b.output(b.node("Cast", b.node("Relu", c), to=10, output="y"), np.float16)
    rows = RANDOM.integers(0, 256, (20, 1, 3, 6, 6), dtype=np.uint8)
    made = quantize(b.model(), {"x": rows})
    assert [layer.kind for layer in made.graph.layers] == ["conv"]
    outputs = predict(made, {"x": rows})["y"]
    assert outputs.dtype == np.float16
    expected = np.stack([evaluate(b.model(), {"x": row})["y"] for row in rows])
    error = (outputs.astype(np.float64) - expected).std() / expected.astype(np.float64).std()
    assert error < 0.02


def test_numbers_beyond_float32() -> None:
    """A limit becomes the largest float32; a weight is refused."""
    found = floats_to_float32(onnx.infer(network(np.float64, highest=1.7e308)))
    assert found.graph.initializers["high"] == np.finfo(np.float32).max
    weights = WEIGHTS.copy()
    weights[2, 1, 0, 2] = -1e300
    with pytest.raises(HwflowError) as caught:
        quantize(network(np.float64, weights=weights), {"x": IMAGES})
    assert str(caught.value) == (
        "tensor 'w' must hold numbers of float32, up to 3.4e+38, not -1e+300 at [2, 1, 0, 2] (1 such entries; in "
        "'Conv_0' (Conv)); hardware is made of float32 models, scale the weights before the export")
