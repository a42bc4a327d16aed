"""com.microsoft: products that onnxruntime's optimizer fused with what stood around them become standard nodes.

The definitions: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hwflow.onnx.model import Attribute, Node
from hwflow.quantize.dialects.rewriting import Refused, Rewriting, Table
from hwflow.quantize.graphs import attribute, label_of, shape_of

DOMAIN = "com.microsoft"

#: Activations, and the attributes of the standard operators that their parameters are, in order.
_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "Relu": (), "Tanh": (), "Sigmoid": (), "LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "Clip": (),
}  # fmt: skip
_PLAIN = "save the model again with SessionOptions.graph_optimization_level = ORT_DISABLE_ALL"


def _conv(rewriting: Rewriting, node: Node) -> None:
    """Convolution, plus Z, then an activation."""
    base, added = label_of(node), node.input(3)
    inputs = node.inputs[:3] if node.input(2) else node.inputs[:2]
    stated = {key: value for key, value in node.attributes.items() if not key.startswith("activation")}

    def product(output: str) -> str:
        if not added:
            return rewriting.emit("Conv", *inputs, wish=f"{base}.product", output=output, name=base, attributes=stated)
        real = rewriting.emit("Conv", *inputs, wish=f"{base}.product", name=base, attributes=stated)
        return rewriting.emit("Add", real, added, wish=f"{base}.sum", output=output)

    _activated(rewriting, node, product, attribute(node, "activation_params", ()))


def _gemm(rewriting: Rewriting, node: Node) -> None:
    """alpha A B + beta C, then an activation."""
    base = label_of(node)
    stated = {key: value for key, value in node.attributes.items() if not key.startswith("activation")}
    names = (f"activation_{name}" for name in ("alpha", "beta", "gamma"))
    parameters = [attribute(node, name, 0.0) for name in names if name in node.attributes]
    _activated(rewriting, node, lambda output: rewriting.emit(
        "Gemm", *node.inputs, wish=f"{base}.product", output=output, name=base, attributes=stated), parameters)


def _activated(rewriting: Rewriting, node: Node, product: Callable[[str], str], parameters: Sequence[float]) -> None:
    """The activation of `node` on what `product` emits, whose output is called as it is told, if it is."""
    kind = attribute(node, "activation", "")
    if not kind:
        product(node.outputs[0])
        return
    if kind not in _ACTIVATIONS:
        raise Refused(f"its activation must be one of {', '.join(_ACTIVATIONS)}, not {kind!r}", _PLAIN)
    inputs = [product("")]
    if kind == "Clip":
        if len(parameters) != 2:
            raise Refused(f"its Clip must have 2 parameters, not {len(parameters)}", _PLAIN)
        inputs += [rewriting.float32(f"{label_of(node)}.limit", limit) for limit in parameters]
    stated: dict[str, Attribute] = dict(zip(_ACTIVATIONS[kind], map(float, parameters), strict=False))
    rewriting.emit(kind, *inputs, output=node.outputs[0], attributes=stated)


def _matmul(rewriting: Rewriting, node: Node) -> None:
    """The product of factors that may be transposed, times alpha."""
    base, alpha = label_of(node), attribute(node, "alpha", 1.0)
    factors = [_factor(rewriting, node, position, side) for position, side in enumerate("AB")]
    if alpha == 1.0:
        rewriting.emit("MatMul", *factors, output=node.outputs[0], name=base)
        return
    real = rewriting.emit("MatMul", *factors, wish=f"{base}.product", name=base)
    rewriting.emit("Mul", real, rewriting.float32(f"{base}.alpha", alpha), output=node.outputs[0])


def _factor(rewriting: Rewriting, node: Node, position: int, side: str) -> str:
    """A factor with its axes in the order of a matrix product; `transBatch` puts the first axis before the last."""
    name, shape = node.inputs[position], shape_of(rewriting.graph, node.inputs[position])
    if shape is None:
        raise Refused(f"the shape of '{name}' must be known", _PLAIN)
    axes = np.arange(len(shape))
    if len(axes) > 2 and attribute(node, f"transBatch{side}", 0):
        axes = np.concatenate([axes[1:-1], axes[:1], axes[-1:]])
    if len(axes) > 1 and attribute(node, f"trans{side}", 0):
        axes = np.concatenate([axes[:-2], axes[:-3:-1]])
    if np.array_equal(axes, np.arange(len(shape))):
        return name
    return rewriting.emit("Transpose", name, wish=f"{label_of(node)}.{side}", perm=tuple(map(int, axes)))


RULES: Table = {(DOMAIN, "FusedConv"): _conv, (DOMAIN, "FusedGemm"): _gemm, (DOMAIN, "FusedMatMul"): _matmul}
