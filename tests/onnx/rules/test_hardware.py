"""Hints, and what the hardware needs: rules QA, DV and HW."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from hwflow_base.errors import HwflowError
from onnx import TensorProto, helper

from hwflow.onnx import dumps, loads, require_valid
from tests.onnx.rules.protos import F, errors, findings, graph, model, node, value, warned, weight

U8 = TensorProto.UINT8


def quantizing(scale: Any, zero: Any = None, *, code: int = F, kind: int = U8) -> onnx.ModelProto:
    scales = np.atleast_1d(np.array(scale, np.float64))
    parts = [weight("s", code, scales.shape if np.ndim(scale) else (), scales.tolist())]
    inputs = ["x", "s"]
    if zero is not None:
        parts.append(weight("z", kind, (), [zero]))
        inputs.append("z")
    return model(node("QuantizeLinear", inputs), inputs=[value("x", code)], outputs=[value("y", kind)],
                 initializers=parts, opset=21, ir=10)  # fmt: skip


def hw(proto: onnx.ModelProto) -> list[str]:
    return [text for text in errors(proto) if "[HW-01]" in text]


@pytest.mark.rule("HW-01")
@pytest.mark.parametrize(
    "scale, message",
    [
        (np.nan, "must be positive and finite, not nan"),
        (0.0, "must be positive and finite, not 0.0"),
        (-0.5, "must be positive and finite, not -0.5"),
        (np.inf, "must be positive and finite, not inf"),
        (1e-40, "must be at least 1.1754943508222875e-38, not "),
    ],
)
def test_scales(scale: float, message: str) -> None:
    (text,) = hw(quantizing(scale))
    assert text.startswith(f"graph/node[0] 'y' (QuantizeLinear): the scale 's' {message}")
    assert text.endswith("quantize the model again [HW-01]")
    with pytest.raises(HwflowError, match="the scale 's' must be "):
        require_valid(loads(quantizing(scale).SerializeToString()))


@pytest.mark.rule("HW-01")
@pytest.mark.parametrize("scale", [0.5, 1e-30, 2.0**100])
def test_good_scales(scale: float) -> None:
    assert findings(quantizing(scale)) == ()
    assert findings(quantizing(scale, 0)) == ()
    assert findings(quantizing(scale, 255)) == ()
    assert findings(quantizing(scale, -128, kind=TensorProto.INT8)) == ()


@pytest.mark.rule("HW-01")
def test_scales_per_channel_and_of_every_operand() -> None:
    parts = [weight(name, F, (), [1]) for name in ("xs", "ys")]
    parts += [weight("ws", F, (2,), [1, 0]), *(weight(z, U8, (), [0]) for z in ("xz", "wz", "yz"))]
    made = node("QLinearConv", ("x", "xs", "xz", "w", "ws", "wz", "ys", "yz"))
    shape = [value(name, U8, (None,) * 4) for name in ("x", "w", "y")]
    assert hw(model(made, inputs=shape[:2], outputs=shape[2:], initializers=parts)) == [
        "graph/node[0] 'y' (QLinearConv): the scale 'ws' must be positive and finite, not 0.0; "
        "quantize the model again [HW-01]"
    ]


@pytest.mark.rule("HW-01")
def test_zero_points() -> None:
    def dequantizing(zero: int) -> onnx.ModelProto:
        parts = [weight("s", F, (), [1]), weight("z", TensorProto.INT32, (), [zero])]
        return model(
            node("DequantizeLinear", ("x", "s", "z")), inputs=[value("x", TensorProto.INT32)], initializers=parts
        )

    assert hw(dequantizing(0)) == []
    assert "the zero point 'z' must be 0 for int32, not 3" in hw(dequantizing(3))[0]
    eight = TensorProto.FLOAT8E4M3FN
    assert "the zero point 'z' must be a whole number, not nan" in hw(quantizing(1, np.nan, kind=eight))[0]
    quant = node("Quant", ("x", "s", "z", "b"), domain="qonnx.custom_op.general")
    parts = [weight("s", F, (), [1]), weight("z", F, (), [0.5]), weight("b", F, (), [8])]
    found = hw(model(quant, initializers=parts, imports=[("qonnx.custom_op.general", 1)]))
    assert "the zero point 'z' must be a whole number, not 0.5" in found[0]


@pytest.mark.rule("HW-01")
def test_scales_in_constants_and_in_graphs_around() -> None:
    constant = helper.make_node("Constant", [], ["s"], value=weight("", F, (), [-1]))
    proto = quantizing(1)
    del proto.graph.initializer[:]
    proto.graph.node.insert(0, constant)
    assert "the scale 's' must be positive and finite, not -1.0" in hw(proto)[0]
    branch = [
        graph(node("QuantizeLinear", ("x", "s"), (name,)), outputs=[value(name, U8)], name=name) for name in ("b", "c")
    ]
    choice = node("If", ("p",), then_branch=branch[0], else_branch=branch[1])
    inputs, scale = [value("x"), value("p", TensorProto.BOOL, ())], weight("s", F, (), [0])
    proto = model(choice, outputs=[value("y", U8)], inputs=inputs, initializers=[scale])
    assert len(hw(proto)) == 2


@pytest.mark.rule("HW-01")
def test_constants_that_are_no_numbers() -> None:
    """Lawful, and a result that no hardware can give."""
    proto = model(node("Add", ("x", "w")), initializers=[weight("w", F, (2,), [1, np.nan])])
    assert warned(proto) == (
        "graph/initializer 'w': the elements should be numbers, not NaN (1 of 2 are); "
        "train or export the model again [HW-01 W-nan]"
    )
    assert findings(model(node("Add", ("x", "w")), initializers=[weight("w", F, (2,), [1, np.inf])])) == ()


@pytest.mark.rule("QA-01")
def test_quantization_annotations() -> None:
    proto = model(initializers=[weight("s"), weight("z")])
    annotation = proto.graph.quantization_annotation.add(tensor_name="y")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    annotation.quant_parameter_tensor_names.add(key="ZERO_POINT_TENSOR", value="z")
    assert findings(proto) == ()
    annotation.tensor_name = "nowhere"
    path = "graph/quantization_annotation[0]: "
    assert warned(proto).startswith(f"{path}an annotation should name tensors of the graph, not 'nowhere'; ")
    annotation.tensor_name = "y"
    annotation.quant_parameter_tensor_names[1].key = "ZERO"
    assert warned(proto).startswith(f"{path}the keys should be among SCALE_TENSOR, ZERO_POINT_TENSOR, not 'ZERO'; ")
    annotation.quant_parameter_tensor_names[1].key = "SCALE_TENSOR"
    annotation.quant_parameter_tensor_names[1].value = "q"
    assert "not 'q'" in warned(proto)
    assert "[QA-01 W-annotation]" in warned(proto)


def devices() -> onnx.ModelProto:
    proto = model(ir=11)
    proto.configuration.add(name="two", num_devices=2, device=["a", "b"])
    part = proto.graph.node[0].device_configurations.add(configuration_id="two")
    sharding = part.sharding_spec.add(tensor_name="x", device=[0, 1])
    sharding.sharded_dim.add(axis=0).simple_sharding.add(dim_value=2, num_shards=2)
    return proto


@pytest.mark.rule("DV-01")
def test_device_configurations_are_hints() -> None:
    proto = devices()
    assert findings(proto) == ()
    again = onnx.ModelProto.FromString(dumps(loads(proto.SerializeToString())))
    assert again.configuration == proto.configuration
    assert again.graph.node[0].device_configurations == proto.graph.node[0].device_configurations


@pytest.mark.rule("DV-01")
@pytest.mark.parametrize(
    "change, message",
    [
        ("name", "a configuration should have a name of its own, not ''"),
        ("number", "num_devices should be the number of devices, not 0 for 2 names"),
        ("reference", "a node should refer to a configuration of the model, not to 'three'"),
        ("tensor", "a sharding should be of an input or output of the node, not of 'w'"),
        ("device", "a device should be 0 to 1, not 2"),
        ("shards", "num_shards of axis 0 should be 1 or more, not less"),
    ],
)
def test_bad_device_configurations(change: str, message: str) -> None:
    proto = devices()
    part = proto.graph.node[0].device_configurations[0]
    match change:
        case "name":
            proto.configuration.add(num_devices=1)
        case "number":
            proto.configuration[0].num_devices = 0
            del part.sharding_spec[:]
        case "reference":
            part.configuration_id = "three"
        case "tensor":
            part.sharding_spec[0].tensor_name = "w"
        case "device":
            part.sharding_spec[0].device[1] = 2
        case "shards":
            part.sharding_spec[0].sharded_dim[0].simple_sharding[0].num_shards = 0
    text = warned(proto)
    assert message in text
    assert text.endswith("nothing needs to be done: it does not change what the model computes [DV-01 W-device]")
    assert errors(proto) == []
