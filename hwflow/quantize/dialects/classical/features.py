"""Features in front of classical models, in standard operators that the host runs."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.model import Node
from hwflow.quantize.dialects.rewriting import Refused, Rewriting

__all__ = ["as_rows_of_float", "rewrite_scaler"]


def as_rows_of_float(r: Rewriting, x: str, wish: str) -> str:
    """`x` [n, features] or [features] as float32 [n, features]."""
    if r.dtype(x) != np.float32:
        x = r.emit("Cast", x, wish=f"{wish}.float", attributes={"to": 1})
        shape = r.shape(r.nodes[-1].inputs[0])
    else:
        shape = r.shape(x)
    if len(shape) == 1:
        x = r.emit("Reshape", x, r.constant(f"{wish}.row", np.array([1, -1], np.int64)), wish=f"{wish}.rows")
    elif len(shape) != 2:
        raise Refused(f"the features must have the shape [N, F] or [F], not {list(shape)}", "reshape them before")
    return x


def rewrite_scaler(r: Rewriting, node: Node) -> None:
    """Scaler: (x - offset) * scale."""
    x, output = node.inputs[0], node.outputs[0]
    if r.dtype(x) != np.float32:
        x = r.emit("Cast", x, wish=f"{output}.float", attributes={"to": 1})
    offset, scale = (np.array(node.attributes.get(name, ()), np.float32) for name in ("offset", "scale"))
    shape = r.shape(node.inputs[0])
    for name, values in (("offset", offset), ("scale", scale)):
        if values.size not in (0, 1) and (not shape or values.size != shape[-1]):
            raise Refused(f"'{name}' must have 1 element or one for each feature of {list(shape)}, not {values.size}",
                          "export the model again")
    row = (1,) * (len(shape) - 1) + (-1,)
    if offset.size:
        minus = r.constant(f"{output}.offset", offset.reshape(row))
        x = r.emit("Sub", x, minus, wish=f"{output}.centred", output="" if scale.size else output)
    if scale.size:
        r.emit("Mul", x, r.constant(f"{output}.factor", scale.reshape(row)), output=output)
    elif not offset.size:
        r.emit("Identity", x, output=output)
