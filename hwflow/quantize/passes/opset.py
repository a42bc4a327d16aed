"""The pass that writes a model as operator set 13 does, so that what follows knows one form of each operator."""

from __future__ import annotations

from hwflow.onnx import convert_opset, infer, simplify
from hwflow.onnx.errors import ConversionError
from hwflow.onnx.model import Model
from hwflow.quantize.problems import Problem, raise_all

#: The operator set that older models are converted to: the first with per-channel quantization.
OPSET = 13


def convert_old(model: Model) -> Model:
    """A model of an older operator set in that one, every shape known; others as they are.

    Of `model` types and shapes are known.  HwflowError: every node that has no form with the same meaning there.
    """
    return model if model.opsets.get("", OPSET) >= OPSET else simplify(infer(in_opset(model, OPSET)))


def in_opset(model: Model, opset: int) -> Model:
    """The model in an operator set.  HwflowError: every node that has no form with the same meaning there."""
    try:
        return convert_opset(model, opset)
    except ConversionError as error:
        raise_all(Problem(node.label, node.why, node.remedy) for node in error.nodes)
        raise
