"""The operators of the set ai.onnx.ml: what classical machine learning exports."""

from __future__ import annotations

from hwflow.onnx.ops.base import Table
from hwflow.onnx.ops.ml import encode, linear, maps, scale, svm, trees

__all__ = ["OPERATORS"]

OPERATORS: Table = {
    **encode.OPERATORS,
    **linear.OPERATORS,
    **maps.OPERATORS,
    **scale.OPERATORS,
    **svm.OPERATORS,
    **trees.OPERATORS,
}
