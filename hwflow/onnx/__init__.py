"""The ONNX system: read, check, infer, simplify and evaluate models.

    model = hwflow.onnx.load("model.onnx")
    findings = hwflow.onnx.check(model)
    model = hwflow.onnx.simplify(hwflow.onnx.infer(model))
    outputs = hwflow.onnx.evaluate(model, {"input": x})
"""

from __future__ import annotations

from hwflow.onnx.files import dumps, load, loads, save
from hwflow.onnx.model import Array, Attribute, Dim, Graph, Model, Node, TensorType, Value

__all__ = [
    "Array",
    "Attribute",
    "Dim",
    "Graph",
    "Model",
    "Node",
    "TensorType",
    "Value",
    "dumps",
    "load",
    "loads",
    "save",
]
