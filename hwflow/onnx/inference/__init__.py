"""Types of all values of a model, also with symbolic sizes: `infer_types`.

Each shape rule is evaluated several times, each time with other numbers for the symbols (`worlds`).  So the rules of
operators are functions of integer shapes.
"""

from __future__ import annotations

from hwflow.onnx.inference.infer_types import Types, infer_types

__all__ = ["Types", "infer_types"]
