"""How many windows ceil_mode gives: the last one starts in the input or in the padding before it.

So the text of MaxPool 22 and AveragePool 22 ("Sliding windows that would start in the right padded region are
ignored"), and so onnxruntime in all versions.  The shape inference of onnx follows from operator set 22 on; before, it
counts windows that lie in the padding behind the input alone, which no runtime makes.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx as oracle
import onnxruntime as ort
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx import dumps, evaluate, infer
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model

#: Size, kernel, stride, padding before and behind: all small ones that ONNX allows.
WINDOWS = [
    (size, kernel, stride, before, behind)
    for size, kernel, stride, before, behind in product(range(2, 7), range(1, 4), range(1, 5), range(3), range(3))
    if before < kernel and behind < kernel <= size + before + behind
]


def pools(opset: int, op: str, windows: list[tuple[int, ...]]) -> Model:
    """A model with a pool of each window over a 1-D input of its own."""
    b = Builder("pools")
    for k, (size, kernel, stride, before, behind) in enumerate(windows):
        x = b.input(f"x{k}", np.float32, (1, 1, size))
        attributes = {"kernel_shape": [kernel], "strides": [stride], "pads": [before, behind], "ceil_mode": 1}
        b.output(b.node(op, x, output=f"y{k}", **attributes), np.float32, (1, 1, f"length{k}"))
    return infer(b.model(opset=opset))


def lengths(model: Model) -> list[int]:
    return [value.tensor.shape[-1] for value in model.graph.outputs]


@pytest.mark.parametrize("opset", [11, 19, 22])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_as_many_windows_as_onnxruntime(op: str, opset: int) -> None:
    model, rng = pools(opset, op, WINDOWS), np.random.default_rng(0)
    options = ort.SessionOptions()
    options.log_severity_level = 4  # it warns of the shapes that onnx infers
    run = ort.InferenceSession(dumps(model), options, providers=["CPUExecutionProvider"])
    feeds = {value.name: rng.standard_normal(value.tensor.shape).astype(np.float32) for value in model.graph.inputs}
    expected = run.run(None, feeds)
    assert lengths(model) == [array.shape[-1] for array in expected]
    made = evaluate(model, feeds)
    for value, array in zip(model.graph.outputs, expected, strict=True):
        np.testing.assert_allclose(made[value.name], array, rtol=1e-6)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_as_many_windows_as_onnx_infers(op: str) -> None:
    """From 22 on the same; before, more where a window would start in the padding behind."""
    for opset in (11, 22):
        model = pools(opset, op, WINDOWS)
        proto = oracle.load_from_string(dumps(model))
        for value in proto.graph.output:
            value.type.tensor_type.ClearField("shape")
        inferred = oracle.shape_inference.infer_shapes(proto).graph.output
        theirs = [value.type.tensor_type.shape.dim[-1].dim_value for value in inferred]
        for window, our, their in zip(WINDOWS, lengths(model), theirs, strict=True):
            size, kernel, stride, before, behind = window
            counted = -(-(size + before + behind - kernel) // stride) + 1
            assert (our, their) == (sum(k * stride < size + before for k in range(counted)),
                                    our if opset == 22 else counted), window


def test_a_stated_shape_with_such_a_window_is_refused() -> None:
    b = Builder("pool")
    x = b.input("x", np.float32, (1, 1, 6))
    attributes = {"kernel_shape": [3], "strides": [2], "pads": [0, 2], "ceil_mode": 1}
    b.output(b.node("MaxPool", x, output="y", **attributes), np.float32, (1, 1, 4))
    with pytest.raises(HwflowError, match=r"the type of 'y' must be float32\[1, 1, 3\], not float32\[1, 1, 4\]"):
        infer(b.model(opset=17))
