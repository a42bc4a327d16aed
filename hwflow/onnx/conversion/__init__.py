"""How another operator set writes the same model: `convert_opset`.

`table` says for every operator what leads from each of its versions to the next and to the one before.  Most of it is
data (`same`); what changes the form of a node is a function in the file of its family.
"""

from __future__ import annotations

from hwflow.onnx.conversion.convert import convert_opset, imported_sets

__all__ = ["convert_opset", "imported_sets"]
