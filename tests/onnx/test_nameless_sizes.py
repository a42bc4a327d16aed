"""What exporters write for an open axis without naming a size: "?", "-1", "None"."""

from __future__ import annotations

import onnx
import pytest
from hwflow_base.errors import HwflowError
from onnx import TensorProto, helper

import hwflow.onnx
from hwflow.onnx import TensorType, infer, infer_types
from hwflow.onnx.model import size_name


def picture(*dims: str | int | None) -> onnx.ModelProto:
    """Relu of a tensor whose axes are written so, in the input, between nodes and in the output."""
    nodes = [helper.make_node("Neg", ["x"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in "xhy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[2:], value_info=values[1:2])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def read(proto: onnx.ModelProto) -> hwflow.onnx.Model:
    return hwflow.onnx.loads(proto.SerializeToString())


@pytest.mark.parametrize("text", ["?", "-1", "None", "", "0"])
def test_each_is_a_size_of_its_own(text: str) -> None:
    model = read(picture(text, 3, text, text))
    assert model.graph.inputs[0].tensor.shape == (None, 3, None, None)
    assert infer_types(model)["y"] == TensorType(model.graph.inputs[0].tensor.dtype, (None, 3, None, None))
    fixed = infer(model, {"x": (1, 3, 48, 192)})
    assert fixed.graph.outputs[0].tensor.shape == (1, 3, 48, 192)


@pytest.mark.parametrize("text", ["n", "unk__12", "s0 + 1", "DynamicDimension.0", "größe"])
def test_a_name_is_one_size(text: str) -> None:
    model = read(picture(text, 3, text, text))
    assert model.graph.inputs[0].tensor.shape == (text, 3, text, text)
    with pytest.raises(HwflowError, match=r"must fit the model's float32\[.*\], not be 48,3,48,192"):
        infer(model, {"x": (48, 3, 48, 192)})


def test_models_made_in_code_mean_the_same() -> None:
    assert [size_name(dim) for dim in ("?", "-1", "", "None", None, 3)] == [None] * 6


def test_nothing_is_lost_when_the_file_is_written_again() -> None:
    proto = picture("?", 3, "-1", "width")
    again = onnx.load_from_string(hwflow.onnx.dumps(read(proto)))
    for found, stated in zip(
        (*again.graph.input, *again.graph.value_info, *again.graph.output),
        (*proto.graph.input, *proto.graph.value_info, *proto.graph.output),
        strict=True,
    ):
        assert found == stated


def test_a_size_that_has_become_known_is_written() -> None:
    fixed = infer(read(picture("?", 3, "-1", "?")), {"x": (1, 3, 4, 5)})
    again = onnx.load_from_string(hwflow.onnx.dumps(fixed))
    assert [dim.dim_value for dim in again.graph.input[0].type.tensor_type.shape.dim] == [1, 3, 4, 5]
    assert [dim.dim_value for dim in again.graph.output[0].type.tensor_type.shape.dim] == [1, 3, 4, 5]
