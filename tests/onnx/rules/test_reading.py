"""Rules about what reading makes of a file, and what evaluation, inference and limits make of what was read."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hwflow_base.errors import HwflowError
from onnx import TensorProto

from hwflow.onnx import TensorType, check, dumps, evaluate, infer, loads, require_valid
from hwflow.onnx.limits import Limits
from tests.onnx.rules.cases_models import MODELS, training
from tests.onnx.rules.cases_parts import HARDWARE, HINTS, chain
from tests.onnx.rules.protos import F, document, model, node, value, weight

X = np.array([-1, 2], np.float32)


def run(proto: onnx.ModelProto, **feeds: np.ndarray) -> np.ndarray:
    return evaluate(loads(proto.SerializeToString()), {"x": X, **feeds})["y"]


@pytest.mark.rule("GR-07", "GR-08")
@pytest.mark.parametrize("is_input", [True, False])
def test_an_initializer_is_the_default_of_an_input_or_a_constant(is_input: bool) -> None:
    inputs = [value("x"), value("w")] if is_input else [value("x")]
    proto, other = model(node("Add", ("x", "w")), inputs=inputs, initializers=[weight("w")]), np.float32([10, 10])
    np.testing.assert_array_equal(run(proto), [0, 4])
    if is_input:
        np.testing.assert_array_equal(run(proto, w=other), [9, 12])
    else:
        with pytest.raises(HwflowError, match="'w'"):
            run(proto, w=other)


@pytest.mark.rule("GR-16", "GR-21")
@pytest.mark.parametrize("where", ["output", "value_info"])
def test_stated_types_that_inference_contradicts(where: str) -> None:
    proto = model(node(outputs=("a",)), node(inputs=("a",)))
    getattr(proto.graph, where).append(value("a"))
    infer(loads(proto.SerializeToString()))
    getattr(proto.graph, where)[-1].CopyFrom(value("a", TensorProto.INT8))
    with pytest.raises(HwflowError, match="'a'"):
        infer(loads(proto.SerializeToString()))


@pytest.mark.rule("GR-19")
def test_an_input_without_a_shape_takes_any() -> None:
    proto = model(inputs=[value("x", shape=None)], outputs=[value("y", shape=None)])
    for shape in ((), (3,), (2, 2)):
        np.testing.assert_array_equal(run(proto, x=np.full(shape, -1, np.float32)), np.zeros(shape))


@pytest.mark.rule("SH-01", "SH-02", "SH-12")
@pytest.mark.parametrize(("stated", "read"), [
    ([2, "n", None], (2, "n", None)), ([], ()), (None, None), ([None, 3], (None, 3)), (["a.b"], ("a.b",)),
    ([""], (None,)), (["*", 2], ("*", 2)), ([-1, 2], (None, 2)), ([0], (0,))], ids=str)
def test_shapes(stated: list[Any] | None, read: tuple[Any, ...] | None) -> None:
    """A scalar is no unknown rank, also when the model is written again."""
    proto = loads(model(inputs=[value("x", F, stated)], outputs=[value("y", F, stated)]).SerializeToString())
    assert proto.graph.inputs[0].type == TensorType(np.dtype(np.float32), read)
    again = onnx.ModelProto.FromString(dumps(proto)).graph.input[0].type.tensor_type
    assert again.HasField("shape") is (stated is not None)


@pytest.mark.rule("TR-01", "TR-06")
def test_training_information() -> None:
    proto = training((("w", "w0"), ("v", "w0")), (("w", "w1"), ("v", "v1")))
    (read,) = loads(proto.SerializeToString()).training
    assert read.initialization is not None
    assert read.algorithm is not None
    assert (read.initialization.name, read.algorithm.name) == ("init", "step")
    assert dict(read.initialization_binding) == {"w": "w0", "v": "w0"}
    assert dict(read.update_binding) == {"w": "w1", "v": "v1"}


@pytest.mark.rule("DV-01")
def test_device_configurations_are_kept() -> None:
    proto = HINTS["DV-01"]["devices"]()
    again = onnx.ModelProto.FromString(dumps(loads(proto.SerializeToString())))
    assert again.configuration == proto.configuration
    assert again.graph.node[0].device_configurations == proto.graph.node[0].device_configurations


@pytest.mark.rule("HW-01", "IR-18")
@pytest.mark.parametrize(("make", "message"), [
    *((HARDWARE["HW-01"][f"scale {scale}"], "the scale 's' must be ") for scale in (np.nan, 0.0, -0.5, np.inf, 1e-40)),
    (MODELS["IR-18"]["an operator of others"], r"com\.other\.Fast")])
def test_what_must_be_valid(make: Any, message: str) -> None:
    """A scale that hardware cannot have, and an operator that nobody here knows."""
    with pytest.raises(HwflowError, match=message):
        require_valid(loads(make().SerializeToString()))


@pytest.mark.rule("FN-03", "FN-12")
def test_limits_of_functions() -> None:
    """The depth may be raised; what inlining would make is told where no types are inferred, too."""
    assert {f.rule for f in check(loads(chain(100)().SerializeToString()), limits=Limits(depth=100))} == set()
    found = check(document(chain(18, 2)()), types=False)
    assert [str(f) for f in found if f.rule == "FN-12"] == [
        "model: inlined_nodes should be at most 100,000, not 393,215 as inlining of all functions would make; "
        "if you trust the model and inline it, raise it with --limit inlined_nodes=NUMBER [FN-12 W-functions-large]"
    ]
