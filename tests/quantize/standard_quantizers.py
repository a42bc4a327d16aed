"""QONNX's quantizers as nodes of ONNX, from QONNX's text: so that onnxruntime can say what such a model means.

Nothing is shared with the quantizer's own rewriting.  Scales must be exact: nodes divide where QONNX does.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwflow.onnx.model import Array, Model, Node

#: Rounding of |x|, whose sign is put back; the others are nodes of ONNX.
_OF_SIZE = {"UP": ("Ceil", 0.0), "DOWN": ("Floor", 0.0), "ROUND_TO_ZERO": ("Floor", 0.0), "HALF_UP": ("Floor", 0.5),
            "HALF_DOWN": ("Ceil", -0.5)}  # fmt: skip
_PLAIN = {"ROUND": "Round", "FLOOR": "Floor", "CEIL": "Ceil"}


class _Nodes:
    """What one quantizer becomes."""

    def __init__(self, label: str) -> None:
        self.label, self.nodes, self.constants = label, list[Node](), dict[str, Array]()

    def node(self, op: str, *inputs: str | Array | float) -> str:
        names = []
        for value in inputs:
            if not isinstance(value, str):
                name = f"{self.label}.k{len(self.constants)}"
                self.constants[name], value = np.asarray(value, np.float32), name
            names.append(value)
        made = f"{self.label}.{len(self.nodes)}.{op}"
        self.nodes.append(Node(op, tuple(names), (made,), {}, made))
        return made

    def rounded(self, x: str, mode: str) -> str:
        if mode in _PLAIN:
            return self.node(_PLAIN[mode], x)
        op, offset = _OF_SIZE[mode]
        return self.node("Mul", self.node("Sign", x), self.node(op, self.node("Add", self.node("Abs", x), offset)))


def with_standard_quantizers(model: Model) -> Model:
    """`model` with Quant, BipolarQuant and Trunc, whose parameters are constants, written with ONNX's operators."""
    graph, nodes, added = model.graph, list[Node](), dict[str, Array]()
    for node in graph.nodes:
        if not node.domain:
            nodes.append(node)
            continue
        made = _Nodes(node.outputs[0])
        scale, *rest = (graph.initializers[name].astype(np.float32) for name in node.inputs[1:])
        x = made.node("Div", node.inputs[0], scale)
        if node.op_type == "BipolarQuant":
            up = made.node("Cast", made.node("GreaterOrEqual", x, 0.0))
            made.nodes[-1] = replace(made.nodes[-1], attributes={"to": 1})
            result = made.node("Mul", made.node("Sub", made.node("Mul", up, 2.0), 1.0), scale)
        elif node.op_type == "Trunc":
            zero, before, after = rest
            whole = made.node("Div", made.node("Round", made.node("Add", x, zero)), 2.0 ** (before - after))
            part = made.rounded(whole, str(node.attributes["rounding_mode"]))
            result = made.node("Mul", made.node("Sub", part, zero), scale)  # the scale is the old one
        else:
            zero, bits = rest
            low, high = _ends(node, float(bits.reshape(-1)[0]))
            inside = made.node("Clip", made.node("Add", x, zero), np.float32(low), np.float32(high))
            whole = made.rounded(inside, str(node.attributes["rounding_mode"]))
            result = made.node("Mul", made.node("Sub", whole, zero), scale)
        nodes += [*made.nodes, Node("Identity", (result,), node.outputs, {}, node.name)]
        added.update(made.constants)
    graph = replace(graph, nodes=tuple(nodes), initializers={**graph.initializers, **added})
    return replace(model, graph=graph, opsets={name: version for name, version in model.opsets.items() if not name})


def _ends(node: Node, bits: float) -> tuple[float, float]:
    signed, narrow = bool(node.attributes["signed"]), bool(node.attributes["narrow"])
    if signed:
        return -(2 ** (bits - 1)) + narrow, 2 ** (bits - 1) - 1
    return 0, 2**bits - 1 - narrow
