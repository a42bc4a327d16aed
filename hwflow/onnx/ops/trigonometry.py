"""Trigonometric and hyperbolic functions and their inverses."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.ops.arithmetic import elementwise
from hwflow.onnx.ops.base import Operator, Table
from hwflow.onnx.ops.shapes import as_first


def _since(version: int, function: np.ufunc) -> tuple[Operator, ...]:
    return (Operator(version, elementwise(function), as_first),)


OPERATORS: Table = {
    ("", "Sin"): _since(7, np.sin),
    ("", "Cos"): _since(7, np.cos),
    ("", "Tan"): _since(7, np.tan),
    ("", "Asin"): _since(7, np.arcsin),
    ("", "Acos"): _since(7, np.arccos),
    ("", "Atan"): _since(7, np.arctan),
    ("", "Sinh"): _since(9, np.sinh),
    ("", "Cosh"): _since(9, np.cosh),
    ("", "Tanh"): _since(1, np.tanh),
    ("", "Asinh"): _since(9, np.arcsinh),
    ("", "Acosh"): _since(9, np.arccosh),
    ("", "Atanh"): _since(9, np.arctanh),
}
