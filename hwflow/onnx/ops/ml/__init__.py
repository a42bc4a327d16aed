"""The operators of the set ai.onnx.ml: what classical machine learning exports."""

from __future__ import annotations

from hwflow.onnx.ops.base import Table
from hwflow.onnx.ops.ml import features, linear, trees

__all__ = ["OPERATORS"]

OPERATORS: Table = {
    **features.OPERATORS,
    **linear.OPERATORS,
    **trees.OPERATORS,
}
