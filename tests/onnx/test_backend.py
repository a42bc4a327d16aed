"""ONNX's Backend interface: what it takes as a model and as inputs, and how it says no."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from hwflow_base.errors import HwflowError
from onnx import TensorProto, helper

import hwflow.backend
from hwflow.backend import Backend, BackendUnsupported
from hwflow.onnx import loads
from hwflow.onnx.errors import LimitError, Unsupported
from hwflow.onnx.limits import Limits

X = np.array([-1, 2], np.float32)


def info(name: str, shape=(2,), kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes, inputs, outputs, initializers=(), opset=17) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


RELU = model_of([helper.make_node("Relu", ["x"], ["y"])], [info("x")], [info("y")])


@pytest.mark.parametrize("kind", ["proto", "bytes", "path", "str", "model"])
def test_models_of_all_kinds(tmp_path, kind) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(RELU.SerializeToString())
    model = {
        "proto": RELU, "bytes": RELU.SerializeToString(), "path": path, "str": str(path),
        "model": loads(RELU.SerializeToString()),
    }[kind]  # fmt: skip
    for outputs in (
        hwflow.backend.prepare(model).run([X]),
        Backend.run_model(model, (X,)),
        hwflow.backend.run_model(model, {"x": X}),
        Backend.prepare(model, "CPU").run(X),
    ):
        assert isinstance(outputs, tuple)
        np.testing.assert_array_equal(outputs[0], [0, 2])


def test_inputs_in_the_order_of_the_file() -> None:
    """With all inputs given by position they override initializers; else those with one are left out."""
    default = helper.make_tensor("w", TensorProto.FLOAT, [2], [10, 10])
    model = model_of(
        [helper.make_node("Sub", ["w", "x"], ["y"])], [info("w"), info("x")], [info("y")], [default]
    )  # fmt: skip
    rep = Backend.prepare(model)
    np.testing.assert_array_equal(rep.run([X])[0], 10 - X)
    np.testing.assert_array_equal(rep.run([2 * X, X])[0], X)
    np.testing.assert_array_equal(rep.run({"x": X, "w": X})[0], 0 * X)
    with pytest.raises(HwflowError, match=r"the inputs must be at most 2 \(w, x\), not 3"):
        rep.run([X, X, X])


def test_unsupported_is_a_not_implemented_error() -> None:
    model = model_of([helper.make_node("Nonsense", ["x"], ["y"], name="n")], [info("x")], [info("y")])
    with pytest.raises(NotImplementedError) as caught:
        Backend.prepare(model)
    assert isinstance(caught.value, Unsupported)
    assert "graph/node[0] 'n' (Nonsense)" in str(caught.value)


@pytest.mark.parametrize("device, there", [("CPU", True), ("cpu:0", True), ("CUDA", False), ("CUDA:1", False)])
def test_devices(device, there) -> None:
    assert hwflow.backend.supports_device(device) is there
    if not there:
        with pytest.raises(BackendUnsupported, match=f"the device must be CPU, not '{device}'"):
            Backend.prepare(RELU, device)


def test_compatible() -> None:
    assert hwflow.backend.is_compatible(RELU)


@pytest.mark.parametrize("inputs", [[X, X + 1], {"a": X, "b": X + 1}])
def test_one_node(inputs) -> None:
    node = helper.make_node("Add", ["a", "b"], ["y"])
    (found,) = hwflow.backend.run_node(node, inputs, outputs_info=[(np.dtype(np.float32), (2,))])
    np.testing.assert_array_equal(found, 2 * X + 1)


def test_one_node_of_an_old_version() -> None:
    """Up to version 12, Softmax ran over all axes behind `axis`, which was 1."""
    node, x = helper.make_node("Softmax", ["x"], ["y"]), np.ones((1, 2, 2), np.float32)
    np.testing.assert_allclose(hwflow.backend.run_node(node, x, opset_version=12)[0], np.full((1, 2, 2), 0.25))
    np.testing.assert_allclose(hwflow.backend.run_node(node, x)[0], np.full((1, 2, 2), 0.5))


def test_limits() -> None:
    with pytest.raises(LimitError, match="tensor_bytes"):
        Backend.prepare(RELU, limits=Limits(tensor_bytes=4)).run([X])


def test_what_cannot_be_compared() -> None:
    random = model_of([helper.make_node("Bernoulli", ["x"], ["y"])], [info("x")], [info("y")])
    with pytest.raises(BackendUnsupported, match="the random numbers of Bernoulli are not defined by ONNX"):
        Backend.prepare(random)
    assert Backend.prepare(random, comparable=False).run([abs(X) / 2])[0].shape == (2,)
    sequence = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
    scalars = model_of([helper.make_node("SequenceConstruct", ["x"], ["y"])], [info("x", ())], [sequence])
    with pytest.raises(BackendUnsupported, match="a sequence with a scalar cannot be compared"):
        Backend.run_model(scalars, [X[0]])
    (found,) = Backend.run_model(scalars, [X[0]], comparable=False)
    assert [array.shape for array in found] == [()]


def test_the_product_does_not_import_onnx() -> None:
    code = "import sys, hwflow.backend; sys.exit('onnx' in sys.modules or 'onnxruntime' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
