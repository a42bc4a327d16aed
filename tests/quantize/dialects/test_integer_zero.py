"""QONNX as older exporters write it: zero points and bit widths are int64."""

from __future__ import annotations

import numpy as np
import pytest

import hwflow
from hwflow.onnx import Model, check, evaluate
from hwflow.onnx.build import Builder
from hwflow.onnx.ops.custom.qonnx import DOMAINS

RANDOM = np.random.default_rng(4)
WEIGHTS = RANDOM.normal(size=(4, 3, 3, 3)).astype(np.float32)
ROWS = RANDOM.normal(size=(20, 1, 3, 6, 6)).astype(np.float32)


def network(dtype: type, *, zero: int, domain: str = DOMAINS[0]) -> Model:
    """Conv of quantized weights, Relu and Trunc; `zero` is the zero point of the input."""
    b = Builder()

    def quant(value: str, scale: float, zero: int, bits: int, output: str, **attributes: int) -> str:
        constants = (b.constant(f"{output}.s", np.float32(scale)), b.constant(f"{output}.z", np.array(zero, dtype)),
                     b.constant(f"{output}.b", np.array(bits, dtype)))
        return b.nodes("Quant", value, *constants, outputs=(output,), name=output, domain=domain,
                       rounding_mode="ROUND", **attributes)[0]

    x = quant(b.input("x", np.float32, (1, 3, 6, 6)), 0.03, zero, 8, "xq", signed=1, narrow=0)
    w = quant(b.constant("w", WEIGHTS), 0.1, 0, 4, "wq", signed=1, narrow=1)
    y = quant(b.node("Relu", b.node("Conv", x, w, name="conv")), 0.1, 0, 6, "yq", signed=0, narrow=0)
    t = b.nodes("Trunc", y, "yq.s", "yq.z", "yq.b", b.constant("out", np.array(4, dtype)), outputs=("t",), name="t",
                domain=domain, rounding_mode="FLOOR")[0]
    b.output(t, np.float32)
    return b.model(opsets={domain: 1})


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("zero", [0, 4])
def test_the_integers_are_those_of_float_parameters(domain: str, zero: int) -> None:
    found, expected = (network(dtype, zero=zero, domain=domain) for dtype in (np.int64, np.float32))
    outputs = [hwflow.run_golden(hwflow.quantize_model(hwflow.onnx.infer(m)), {"x": ROWS})["t"]
               for m in (found, expected)]
    np.testing.assert_array_equal(*outputs)
    assert len(np.unique(outputs[0])) > 4


def test_the_formula_of_the_reference_package() -> None:
    """x / scale in float32, the sum and all behind it in float64, the result as float32."""
    x = np.concatenate([RANDOM.normal(size=4000), np.arange(-100, 100) / 2]).astype(np.float32)
    b, scale = Builder(), np.float32(0.3)
    parts = (b.input("x", np.float32, x.shape), b.constant("s", scale), b.constant("z", np.int64(3)),
             b.constant("b", np.int64(5)))
    b.output(b.nodes("Quant", *parts, outputs=("y",), domain=DOMAINS[0], signed=1, narrow=0)[0], np.float32)
    found = evaluate(b.model(opsets={DOMAINS[0]: 1}), {"x": x})["y"]
    whole = np.rint(np.clip((x / scale).astype(np.float64) + 3, -16, 15))
    np.testing.assert_array_equal(found, ((whole - 3) * np.float64(scale)).astype(np.float32))


def test_a_warning_for_each() -> None:
    model = network(np.int64, zero=0)
    found = [str(finding) for finding in check(model) if finding.code == "W-integer-zero"]
    assert found[0] == (
        "graph/node[0] 'xq' (Quant): input 2 (zeropt) 'xq.z' must be tensor(float), not tensor(int64); it counts as "
        "that number; nothing needs to be done [ND-05 W-integer-zero]")
    assert [text.partition(":")[0] for text in found[1:]] == [
        "graph/node[1] 'wq' (Quant)", "graph/node[4] 'yq' (Quant)", "graph/node[5] 't' (Trunc)"]
    assert all(finding.code != "W-integer-zero" for finding in check(network(np.float32, zero=0)))
