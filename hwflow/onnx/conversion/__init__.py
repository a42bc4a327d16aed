"""Conversion of a model to another operator set: `convert_opset`.

`convert` has the step of each version of every operator to the next version and to the one before.  Most steps are data
(`Row.same` of `operators`).  A step that rewrites a node is a function in the file of its operator family, which has
both directions.
"""

from __future__ import annotations

from hwflow.onnx.conversion.convert import convert_opset, imported_sets

__all__ = ["convert_opset", "imported_sets"]
